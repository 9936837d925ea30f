//! What all lives have shown: how many there were, what was kept and lost, and what is wrong.

use cuts::Left;

/// What all lives have shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) kills: u64,
    pub(super) cuts: u64,
    /// Lives that ended before the database was open.
    pub(super) in_opening: u64,
    /// Syncs of the file system that was cut.
    pub(super) syncs: u64,
    pub(super) left: Left,
    pub(super) acknowledged: u64,
    /// Acknowledged transactions that a life lost and was allowed to lose.
    pub(super) allowed: u64,
    /// Not acknowledged, and there as a whole.
    pub(super) in_flight: u64,
    pub(super) findings: Vec<String>,
}
