//! When the log of the last run is copied into memory. Pages that get their redo when they are
//! needed read it at random places; a place that is in memory costs a fiftieth of one that the
//! device has to find.

use super::pending::Pending;
use crate::log::block::block_of;
use base::Lsn;
use std::time::Duration;

impl Pending {
    /// Copies the log into memory once a page needs it at random places. Returns when that is done,
    /// or at [`Pending::end_copying`]. What it cannot do costs only time.
    pub(crate) fn copy_log(&self) {
        let _ending = EndOfCopying(self);
        let is_used = self.is_copied() && self.log_use.await_use(|| self.alone());
        // If many threads need pages, they have them from replay before they would have the copy,
        // and fresh memory may take longer than the reads: decision 0184.
        if is_used && !self.is_crowded() {
            // The chain of a page begins at its end. Blocks beyond belong to this run.
            let blocks = block_of(self.from)..block_of(self.end) + 1;
            self.copy.fill(self.log.segments(), blocks, || self.log_use.is_over());
        }
    }

    /// Says that all changes below this LSN have been replayed.
    pub(crate) fn replayed_to(&self, lsn: Lsn) {
        self.copy.forget_below(lsn);
    }

    /// Returns for how long replay waits for those who need pages now, before it begins.
    pub(crate) fn head_start(&self) -> Duration {
        if self.is_copied() && self.log_use.has_begun() { self.alone() } else { Duration::ZERO }
    }

    /// Whether so many threads need pages that none has the device alone.
    pub(crate) fn is_crowded(&self) -> bool {
        self.log_use.has_begun() && self.alone().is_zero()
    }

    /// Whether the log is copied into memory when it is needed: it is short enough.
    fn is_copied(&self) -> bool {
        self.end.since(self.from) <= self.copy_bytes_most
    }

    /// Returns how much memory a copy of the log takes, bytes.
    pub(crate) fn copy_bytes(&self) -> u64 {
        if self.is_copied() { self.end.since(self.from) } else { 0 }
    }

    /// Ends [`Pending::copy_log`].
    pub(crate) fn end_copying(&self) {
        self.log_use.end();
    }
}

/// Ends the copying of the log, also after a panic.
struct EndOfCopying<'a>(&'a Pending);

impl Drop for EndOfCopying<'_> {
    fn drop(&mut self) {
        self.0.end_copying();
    }
}
