//! The log of the last run in the system's page cache. Pages that get their redo when they are
//! needed read it at random places; a place that is in memory costs a fiftieth of one that the
//! device has to find.

use super::pending::Pending;
use crate::log::block::block_of;
use base::aligned::{AlignedBuf, IO_ALIGN};
use base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The log is read into the page cache if it takes at most this part (1/n) of the memory.
const MEMORY_PART: u64 = 4;
/// The system is asked for so much at a time, bytes: some systems read no more for one request.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces that are read at a time. With more of them a read of a page would wait behind them all.
const PIECES_AT_ONCE: usize = 8;

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
    /// The log is being read into memory.
    Reading,
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
            *state = LogUseState::Reading;
        }
        *state == LogUseState::Reading
    }

    /// Says that those who need pages have the device for themselves no longer.
    pub(super) fn end_alone(&self) {
        let mut state = self.state.lock();
        if *state == LogUseState::Alone {
            *state = LogUseState::Reading;
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

impl Pending {
    /// Reads the log into the page cache once a page needs it at random places. Returns when that
    /// is done, or at [`Pending::end_caching`]. What it cannot do costs only time.
    pub(crate) fn cache_log(&self) {
        let _ending = EndOfReading(self);
        if !self.is_cached() || !self.log_use.await_use(|| self.alone()) {
            return;
        }
        let segments = self.log.segments();
        let shape = segments.shape();
        let mut reading = VecDeque::new();
        let mut last = AlignedBuf::zeroed(IO_ALIGN);
        // The chain of a page begins at its end.
        for number in (shape.segment_of(block_of(self.from))..=shape.segment_of(block_of(self.end))).rev() {
            let Some(segment) = segments.find_cached(number) else { continue };
            for at in (0..shape.file_bytes()).step_by(PIECE_BYTES as usize) {
                if self.log_use.is_over() {
                    return;
                }
                let end = shape.file_bytes().min(at + PIECE_BYTES);
                segment.file.will_need(at, end - at);
                reading.push_back((Arc::clone(&segment), end));
                if reading.len() > PIECES_AT_ONCE
                    && let Some((segment, end)) = reading.pop_front()
                {
                    // Waits until it is there. An error will be seen by who needs the place.
                    let _ = segment.file.read_at(&mut last, end - IO_ALIGN as u64);
                }
            }
        }
    }

    /// Returns for how long replay waits for those who need pages now, before it begins.
    pub(crate) fn head_start(&self) -> Duration {
        if self.is_cached() && self.log_use.has_begun() { self.alone() } else { Duration::ZERO }
    }

    /// Whether the log is read through the page cache: it is short enough.
    pub(crate) fn is_cached(&self) -> bool {
        self.end.since(self.from) <= self.clock.memory_bytes() / MEMORY_PART
    }

    /// Ends [`Pending::cache_log`].
    pub(crate) fn end_caching(&self) {
        self.log_use.end();
    }
}

/// Ends the reading of the log, also after a panic.
struct EndOfReading<'a>(&'a Pending);

impl Drop for EndOfReading<'_> {
    fn drop(&mut self) {
        self.0.end_caching();
    }
}
