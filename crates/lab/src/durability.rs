//! The flag that says when a commit returns.

use clap::ValueEnum;
use millpond::Durability;

/// When a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityFlag {
    Sync,
    Written,
    Bounded,
    None,
}

impl DurabilityFlag {
    pub(crate) fn durability(self) -> Durability {
        match self {
            DurabilityFlag::Sync => Durability::Sync,
            DurabilityFlag::Written => Durability::Written { ms: 1000, bytes: 4 << 20 },
            DurabilityFlag::Bounded => Durability::Bounded { ms: 1000, bytes: 4 << 20 },
            DurabilityFlag::None => Durability::None,
        }
    }
}
