//! What a run of the workload is asked for.

use super::scale::Scale;
use serde::Serialize;

/// What a run of the workload is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TpccSetup {
    /// How large the tables are.
    pub(crate) scale: Scale,
    /// Threads wait between transactions as users do.
    pub(crate) think: bool,
    /// Tables of a server have foreign keys.
    pub(crate) foreign_keys: bool,
}

/// The same in the JSON of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TpccShape {
    warehouses: u16,
    /// 1 is the standard's scale, 100 a hundredth of it.
    scale_divisor: u32,
    items: u32,
    customers_per_district: u32,
    think: bool,
    foreign_keys: bool,
}

impl From<TpccSetup> for TpccShape {
    fn from(setup: TpccSetup) -> TpccShape {
        let TpccSetup { scale, think, foreign_keys } = setup;
        TpccShape {
            warehouses: scale.warehouses,
            scale_divisor: scale.part,
            items: scale.items(),
            customers_per_district: scale.customers(),
            think,
            foreign_keys,
        }
    }
}

impl TpccSetup {
    /// Returns what is loaded, for people; two loads are the same if this is equal.
    pub(crate) fn load(self) -> String {
        let keys = if self.foreign_keys { ", with foreign keys" } else { "" };
        format!("{}{keys}", self.scale.show())
    }

    /// Returns the whole setup, for people.
    pub(crate) fn show(self) -> String {
        let think = if self.think { ", with the users' pauses" } else { "" };
        format!("{}{think}", self.load())
    }
}
