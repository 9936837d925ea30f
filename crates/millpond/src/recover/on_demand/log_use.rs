//! Whether somebody has use for the log of the last run in memory, and whether those who need pages
//! have the device alone.

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
    pub(super) fn await_use(&self, then: impl FnOnce() -> Duration) -> bool {
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
    pub(super) fn has_begun(&self) -> bool {
        *self.state.lock() != LogUseState::Unused
    }

    /// Says that it is not read into memory any more.
    pub(super) fn end(&self) {
        *self.state.lock() = LogUseState::Over;
        self.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        *self.state.lock() == LogUseState::Over
    }
}

/// Returns how much of the log may be copied into memory, bytes: half of what the pool leaves.
pub(super) fn copy_bytes_most(memory_bytes: u64, pool_bytes: u64) -> u64 {
    memory_bytes.saturating_sub(pool_bytes) / 2
}
