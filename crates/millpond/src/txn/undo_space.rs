//! [`UndoSpace`]: the memory and the files that undo may take.

use super::history_limits::HistoryLimits;
use crate::undo::journal::Journal;
use base::sync::Mutex;

/// Where undo goes when it may not stay in memory: the limits that say so, and the undo files.
#[derive(Debug)]
pub(crate) struct UndoSpace {
    pub(super) limits: HistoryLimits,
    pub(super) journal: Mutex<Journal>,
}

impl UndoSpace {
    /// The files that recovery has found, with limits.
    pub(super) fn recovered(mut journal: Journal, limits: HistoryLimits) -> UndoSpace {
        journal.set_total_bytes(limits.files);
        UndoSpace { limits, journal: Mutex::new(journal) }
    }

    /// Returns how much memory locks of rows and ranges may take where nothing else is set, bytes.
    pub(crate) fn lock_bytes(&self) -> u64 {
        self.limits.locks
    }
}
