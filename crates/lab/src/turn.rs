//! What was measured in one go, of several that are shown beside each other.

use crate::figures::Level;
use crate::measurements::Totals;
use crate::result::{WorkDone, ratio};
use output::units::show_size;
use serde::Serialize;

/// What the threads did, and what an engine counted meanwhile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Turn {
    #[serde(flatten)]
    pub(crate) work: WorkDone,
    pub(crate) fsyncs: Option<u64>,
    pub(crate) commits_per_fsync: Option<f64>,
    pub(crate) checkpoint_age_max: Option<u64>,
    pub(crate) checkpoint_age_limit: Option<u64>,
}

/// What an engine counted; what it does not count is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) fsyncs: Option<u64>,
    pub(crate) checkpoint_age_limit: Option<u64>,
}

impl Turn {
    /// Makes the turn from what was measured.
    pub(crate) fn new(totals: &Totals, age: &Level, counted: Counted) -> Turn {
        Turn {
            work: WorkDone::of(totals),
            fsyncs: counted.fsyncs,
            commits_per_fsync: counted.fsyncs.and_then(|fsyncs| ratio(totals.transactions, fsyncs)),
            checkpoint_age_max: (!age.is_empty()).then(|| age.max()),
            checkpoint_age_limit: counted.checkpoint_age_limit,
        }
    }

    /// Returns the greatest checkpoint age, and its share of the limit, for people.
    pub(crate) fn shown_age(&self) -> [String; 2] {
        let (age, limit) = (self.checkpoint_age_max, self.checkpoint_age_limit.filter(|limit| *limit > 0));
        let share = age.zip(limit).map(|(age, limit)| format!("{:.0} %", age as f64 * 100.0 / limit as f64));
        [age.map_or("-".to_owned(), |bytes| show_size(bytes as f64)), share.unwrap_or_default()]
    }
}
