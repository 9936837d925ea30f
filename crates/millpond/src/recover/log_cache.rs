//! The log of the last run in the system's page cache. Pages that get their redo when they are
//! needed read it at random places; a place that is in memory costs a fiftieth of one that the
//! device has to find.

use super::pending::Pending;
use crate::log::block::block_of;
use base::sync::{Condvar, Mutex};

/// The log is read into the page cache if it takes at most this part (1/n) of the memory.
const MEMORY_PART: u64 = 4;
/// The system is asked for so much at a time, bytes: some systems read no more for one request.
const PIECE_BYTES: u64 = 1 << 20;

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
    Used,
    Over,
}

impl LogUse {
    /// Says that the log is read at random places from now on.
    pub(super) fn begin(&self) {
        let mut state = self.state.lock();
        if *state == LogUseState::Unused {
            *state = LogUseState::Used;
            self.changed.notify_all();
        }
    }

    /// Says that it is not any more.
    pub(super) fn end(&self) {
        *self.state.lock() = LogUseState::Over;
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.state.lock() == LogUseState::Over
    }
}

impl Pending {
    /// Reads the log into the page cache once a page needs it at random places. Returns when that
    /// is done, or at [`Pending::end_caching`]. What it cannot do costs only time.
    pub(crate) fn cache_log(&self) {
        {
            let mut state = self.log_use.state.lock();
            while *state == LogUseState::Unused {
                self.log_use.changed.wait(&mut state);
            }
        }
        if self.end.since(self.from) > self.clock.memory_bytes() / MEMORY_PART {
            return;
        }
        let segments = self.log.segments();
        let shape = segments.shape();
        // The chain of a page begins at its end.
        for number in (shape.segment_of(block_of(self.from))..=shape.segment_of(block_of(self.end))).rev() {
            let Some(segment) = segments.find_cached(number) else { continue };
            for at in (0..shape.file_bytes()).step_by(PIECE_BYTES as usize) {
                if self.log_use.is_over() {
                    return;
                }
                segment.file.will_need(at, PIECE_BYTES.min(shape.file_bytes() - at));
            }
        }
    }

    /// Ends [`Pending::cache_log`].
    pub(crate) fn end_caching(&self) {
        self.log_use.end();
    }
}
