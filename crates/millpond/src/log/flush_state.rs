//! [`Flushes`]: which flushes are in flight, and who waits for the next one.

use super::block::{PAYLOAD_BYTES, block_of, offset_in_block};
use super::completed::FlushInfo;
use super::scratch::Scratch;
use super::waiters::{Waiters, Wake};
use base::Lsn;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;

/// The flushes of a log: their state under a mutex, and what threads read of it without.
pub(super) struct Flushes {
    state: Mutex<FlushState>,
    /// Where the next flush begins.
    next_from: AtomicU64,
    /// The number of flushes in flight.
    in_flight: AtomicU32,
}

impl Flushes {
    /// Nothing is in flight, and the next flush begins at `start`, a block's start. `prev_used` is
    /// how many payload bytes of the block before are in use.
    pub(super) fn new(start: Lsn, prev_used: u16) -> Flushes {
        Flushes {
            state: Mutex::new(FlushState::new(start, prev_used)),
            next_from: AtomicU64::new(start.0),
            in_flight: AtomicU32::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FlushState> {
        self.state.lock()
    }

    /// Returns where the next flush begins, or began a moment ago.
    #[inline]
    pub(super) fn next_from(&self) -> Lsn {
        Lsn(self.next_from.load(Ordering::Relaxed))
    }

    /// Whether no flush is in flight. SeqCst: see `GroupCommit::flush_soon`.
    #[inline]
    pub(super) fn are_idle(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }

    /// Shows where the next flush begins. Called after each change.
    pub(super) fn show_from(&self, state: &FlushState) {
        self.next_from.store(state.from.0, Ordering::Relaxed);
    }

    /// Shows how many flushes are in flight, and returns it. Called after each change.
    pub(super) fn show_count(&self, state: &FlushState) -> u32 {
        let count = state.count();
        self.in_flight.store(count, Ordering::SeqCst);
        count
    }
}

/// A flush that has its range and is not yet complete.
#[derive(Debug)]
pub(super) struct InFlightFlush {
    pub(super) from: Lsn,
    /// Payload bytes in use in the block before that of `from`.
    pub(super) prev_used: u16,
    pub(super) end: Lsn,
    /// Its result, once it is complete. A flush before it may still be in flight.
    pub(super) done: Option<FlushInfo>,
    pub(super) started_us: u64,
    /// The earliest flush deadline of the commits that it covers, microseconds of the clock.
    pub(super) deadline_us: u64,
}

impl InFlightFlush {
    /// Whether it ends inside a block. No other flush may touch that block until this one is
    /// complete.
    pub(super) fn has_open_tail(&self) -> bool {
        offset_in_block(self.end) != 0
    }
}

/// Everything about flushes that the mutex of the log guards.
pub(super) struct FlushState {
    /// The first position that no flush has taken.
    from: Lsn,
    /// `prev_used` of the block that holds `from`.
    from_prev_used: u16,
    in_flight: VecDeque<InFlightFlush>,
    pub(super) waiters: Waiters,
    /// Buffers of earlier flushes, to be used again.
    scratch: Vec<Scratch>,
    /// Smoothed duration of a flush, microseconds.
    usual_us: u64,
}

impl FlushState {
    fn new(start: Lsn, prev_used: u16) -> FlushState {
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

    /// The first position that no flush has taken.
    pub(super) fn from(&self) -> Lsn {
        self.from
    }

    /// How many payload bytes of the block before that of [`FlushState::from`] are in use.
    pub(super) fn prev_used_at_from(&self) -> u16 {
        self.from_prev_used
    }

    /// The number of flushes in flight.
    pub(super) fn count(&self) -> u32 {
        self.in_flight.len() as u32
    }

    pub(super) fn none_in_flight(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The flush in flight that began last.
    pub(super) fn latest(&self) -> Option<&InFlightFlush> {
        self.in_flight.back()
    }

    pub(super) fn latest_mut(&mut self) -> Option<&mut InFlightFlush> {
        self.in_flight.back_mut()
    }

    /// The deadlines that the flushes in flight have taken.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.in_flight.iter().map(|flush| flush.deadline_us)
    }

    /// Returns the waiters that need a position that no flush has taken.
    pub(super) fn uncovered(&self) -> impl ExactSizeIterator<Item = &Wake> {
        self.waiters.beyond(self.from)
    }

    /// Whether a waiter needs a position that no flush has taken.
    pub(super) fn has_uncovered(&self) -> bool {
        self.uncovered().len() > 0
    }

    /// Counts the waiters whom a flush up to `to` covers, that begins now. Those for lower
    /// positions wait for an earlier flush.
    pub(super) fn waiters_up_to(&self, to: Lsn) -> u64 {
        base::check!(self.from <= to, "a flush of what lies before {} ends at {to}", self.from);
        (self.waiters.below(to) - self.waiters.below(self.from)) as u64
    }

    /// Smoothed duration of a flush, microseconds.
    pub(super) fn usual_us(&self) -> u64 {
        self.usual_us
    }

    /// Adds the next flush. It begins where the one before ends (INV-7), and no block is in two of
    /// them. `next_prev_used` is that of the block that holds its end.
    pub(super) fn begin(&mut self, flush: InFlightFlush, next_prev_used: u16) {
        base::check!(flush.from < flush.end, "a flush of nothing at {}", flush.end);
        base::check!(
            self.latest().is_none_or(|last| last.end == flush.from && !last.has_open_tail()),
            "a flush from {} does not adjoin {:?}",
            flush.from,
            self.latest()
        );
        (self.from, self.from_prev_used) = (flush.end, next_prev_used);
        self.in_flight.push_back(flush);
    }

    /// Notes the result of the flush that ends at `end`.
    pub(super) fn complete(&mut self, end: Lsn, info: FlushInfo) {
        let flush = self.in_flight.iter_mut().find(|f| f.end == end).expect("the flush is in flight");
        let before = flush.done.replace(info);
        base::check!(before.is_none(), "the flush up to {end} is completed twice");
    }

    /// Takes the first flush, if it is complete.
    pub(super) fn take_done(&mut self) -> Option<InFlightFlush> {
        self.in_flight.pop_front_if(|flush| flush.done.is_some())
    }

    /// Takes a buffer for a flush.
    pub(super) fn take_scratch(&mut self) -> Scratch {
        self.scratch.pop().unwrap_or_else(Scratch::new)
    }

    /// Takes back the buffer of a flush that took so many microseconds.
    pub(super) fn give_back(&mut self, scratch: Scratch, took_us: u64) {
        self.usual_us = if self.usual_us == 0 { took_us } else { (self.usual_us * 7 + took_us) / 8 };
        self.scratch.push(scratch);
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
