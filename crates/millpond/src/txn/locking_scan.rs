//! [`LockingScan`]: how a locking scan reads a range, and the locks that it leaves.

use super::rules::Rules;
use crate::lock::Mode;
use crate::planted::{Bug, planted};

/// The locks that a locking scan leaves on what it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLocks {
    /// The lock of every row that it returns. None: a plain read, which must stay as it is.
    pub(crate) rows: Option<Mode>,
    /// It locks one range, rows and gaps: no row comes into what was read. Else it locks rows
    /// alone: one by one, and as ranges once the transaction has very many locks.
    pub(crate) range: bool,
}

impl ScanLocks {
    /// The lock of every row.
    pub(super) fn mode(self) -> Mode {
        self.rows.unwrap_or(Mode::Shared)
    }

    /// Returns these locks, without the range if that mistake is planted.
    pub(super) fn after_planting(self) -> ScanLocks {
        if self.range && planted(Bug::GapsFree) {
            return ScanLocks { rows: Some(self.rows.unwrap_or(Mode::Shared)), range: false };
        }
        self
    }
}

/// How a locking scan reads a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockingScan {
    pub(crate) locks: ScanLocks,
    pub(crate) rules: Rules,
    /// In falling key order.
    pub(crate) backward: bool,
    /// The scan stops after this many rows. It stops earlier at a row that is not free, if it has
    /// one to return: nobody has asked for the others yet. REQUIRES: 1 if it does not lock the
    /// range.
    pub(crate) max: usize,
    /// It does not wait for a row that another transaction has (Lk7): it shows the row as it was
    /// last committed, unlocked. REQUIRES: the scan locks no range, and its rules skip such rows.
    pub(crate) peeks: bool,
}
