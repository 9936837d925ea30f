//! When the log of the last run is copied into memory. Pages that get their redo when they are
//! needed read it at random places; a place that is in memory costs a fiftieth of one that the
//! device has to find.

use super::pending::Pending;
use crate::log::block::block_of;
use base::Lsn;
use base::sync::{Condvar, Mutex};
use std::time::Duration;

/// Whether somebody has use for the log in memory.
#[derive(Debug, Default)]
pub(super) struct LogUse {
    state: Mutex<LogUseState>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LogUseState {
    #[default]
    Unused,
    /// Somebody needs the log at random places, and has the device alone.
    Alone,
    /// Others may use the device too.
    Shared,
    /// It has been read, or is not read any more.
    Over,
}

impl LogUse {
    /// Says that the log is read at random places from now on. Returns whether those who do so have
    /// the device alone.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        if *state == LogUseState::Unused {
            *state = LogUseState::Alone;
            self.changed.notify_all();
        }
        *state == LogUseState::Alone
    }

    /// Waits until somebody needs the log, and then for the time that `then` returns, or until
    /// [`LogUse::end_alone`]. Returns false if nobody needs it any more.
    fn await_use(&self, then: impl FnOnce() -> Duration) -> bool {
        let mut state = self.state.lock();
        while *state == LogUseState::Unused {
            self.changed.wait(&mut state);
        }
        // Under the mutex: who makes this time end is behind us, or finds us waiting.
        let then = then();
        if *state == LogUseState::Alone && !then.is_zero() {
            self.changed.wait_for(&mut state, then);
        }
        if *state == LogUseState::Alone {
            *state = LogUseState::Shared;
        }
        *state == LogUseState::Shared
    }

    /// Says that those who need pages have the device for themselves no longer.
    pub(super) fn end_alone(&self) {
        let mut state = self.state.lock();
        if *state == LogUseState::Alone {
            *state = LogUseState::Shared;
            self.changed.notify_all();
        }
    }

    /// Whether the log was needed at random places.
    fn has_begun(&self) -> bool {
        *self.state.lock() != LogUseState::Unused
    }

    /// Says that it is not read into memory any more.
    fn end(&self) {
        *self.state.lock() = LogUseState::Over;
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.state.lock() == LogUseState::Over
    }
}

/// Returns how much of the log may be copied into memory, bytes: half of what the pool leaves.
pub(super) fn copy_bytes_most(memory_bytes: u64, pool_bytes: u64) -> u64 {
    memory_bytes.saturating_sub(pool_bytes) / 2
}

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
