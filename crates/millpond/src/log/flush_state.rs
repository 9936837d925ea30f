//! [`FlushState`]: which flushes are in flight, and who waits for the next one.

use super::block::{PAYLOAD_BYTES, block_of, offset_in_block};
use super::completed::FlushInfo;
use super::scratch::Scratch;
use super::waiters::Waiters;
use base::Lsn;
use std::collections::VecDeque;

/// A flush that has its range and is not yet complete.
#[derive(Debug)]
pub(super) struct InFlightFlush {
    pub(super) from: Lsn,
    /// Payload bytes in use in the block before that of `from`.
    pub(super) prev_used: u16,
    pub(super) end: Lsn,
    /// Its result, once it is complete. A flush before it may still be in flight.
    pub(super) done: Option<FlushInfo>,
    /// It ends inside a block. No other flush may touch that block until this one is complete.
    pub(super) open_tail: bool,
    pub(super) started_us: u64,
    /// The earliest flush deadline of the commits that it covers, microseconds of the clock.
    pub(super) deadline_us: u64,
}

/// Everything about flushes that the mutex of the log guards.
pub(super) struct FlushState {
    /// The first position that no flush has taken.
    pub(super) from: Lsn,
    /// `prev_used` of the block that holds `from`.
    pub(super) from_prev_used: u16,
    pub(super) in_flight: VecDeque<InFlightFlush>,
    pub(super) waiters: Waiters,
    /// Buffers of earlier flushes, to be used again.
    pub(super) scratch: Vec<Scratch>,
    /// Smoothed duration of a flush, microseconds.
    pub(super) usual_us: u64,
}

impl FlushState {
    pub(super) fn new(start: Lsn, prev_used: u16) -> FlushState {
        assert!(offset_in_block(start) == 0);
        FlushState {
            from: start,
            from_prev_used: prev_used,
            in_flight: VecDeque::new(),
            waiters: Waiters::default(),
            scratch: Vec::new(),
            usual_us: 0,
        }
    }

    pub(super) fn none_in_flight(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether a waiter needs a position that no flush has taken.
    pub(super) fn has_uncovered(&self) -> bool {
        self.waiters.beyond(self.from).len() > 0
    }

    /// Returns how many payload bytes of the block before `block` are in use. REQUIRES: `block` is
    /// not durable, or the last that is.
    pub(super) fn prev_used(&self, block: u64) -> u16 {
        if block == block_of(self.from) {
            return self.from_prev_used;
        }
        // A range that is sealed ends where a flush ends.
        let begins = self.in_flight.iter().find(|flush| block_of(flush.from) == block);
        begins.map_or(PAYLOAD_BYTES as u16, |flush| flush.prev_used)
    }
}
