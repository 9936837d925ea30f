//! The redo log: one totally ordered stream of groups. It knows bytes and positions, no pages.
//!
//! `ring` reserves, copies and publishes; `commit` flushes and decides who leads; `bounded` leads for those who do not
//! wait; `waiters` are those who do, and `landed` tells them how; `segment` keeps the files; `digest` sums up those that
//! have been left; `block` and `group` are the formats; `reader` scans forward after a crash and decides where the log ends,
//! and `ahead` reads for it.

mod ahead;
pub(crate) mod block;
pub(crate) mod bounded;
pub(crate) mod commit;
pub(crate) mod completed;
pub(crate) mod digest;
pub(crate) mod group;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod segment;
pub(crate) mod waiters;

#[cfg(test)]
mod speed;
#[cfg(test)]
pub(crate) mod tests;

use crate::error::{Poison, Result};
use base::Lsn;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, Unparker, spin};
use bounded::FlushDeadlines;
use commit::FlushState;
use completed::CompletedFlushes;
use digest::Digester;
use metrics::{M, Metrics, SyncReason};
use ring::Ring;
use segment::Segments;
use std::sync::Arc;
use vfs::Vfs;

/// Positions lie below 2^63: 292 years at a gigabyte a second.
pub(crate) const LSN_BITS: u32 = 63;
/// The last position.
const LSN_END: Lsn = Lsn(1 << LSN_BITS);
/// From here on nobody begins to write any more. What lies above, a terabyte, is for ending what has begun.
pub(crate) const LAST_WRITE: Lsn = Lsn(LSN_END.0 - (1 << 40));

/// Choices that the log is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// Blocks in the log buffer, a power of two. Its size is the window W: nothing is written further than it beyond
    /// the durable LSN.
    pub ring_blocks: usize,
    /// Flushes that may be in flight at once.
    pub flush_depth: u32,
}

/// Where a log goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStart {
    /// The first position to be written, a block's start.
    pub lsn: Lsn,
    /// Where the groups before it end, in the block before.
    pub end: Lsn,
    /// Payload bytes in use in the block before it.
    pub prev_used: u16,
    /// The epoch of everything written from there on.
    pub epoch: u32,
}

/// The log of an open database.
pub(crate) struct Log {
    vfs: Vfs,
    options: LogOptions,
    epoch: u32,
    start: LogStart,
    ring: Ring,
    segments: Segments,
    durable: AtomicU64,
    /// Where the next flush begins; for who asks without the mutex.
    planned: AtomicU64,
    flush: Mutex<FlushState>,
    /// Commits published and not yet taken by a flush.
    unflushed_commits: AtomicU64,
    /// Threads between the start of a commit and its return.
    busy: AtomicU32,
    completed: CompletedFlushes,
    /// Flights in the air, for who asks without the mutex.
    in_flight: AtomicU32,
    deadlines: FlushDeadlines,
    digester: Mutex<Digester>,
    /// Wakes the log thread.
    log_thread: Unparker,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Log {
    /// A log that goes on at `start`. `thread` wakes the thread that calls [`Log::serve`].
    pub(crate) fn new(
        vfs: &Vfs,
        options: LogOptions,
        start: LogStart,
        segments: Segments,
        log_thread: Unparker,
        metrics: &Arc<Metrics>,
        poison: &Arc<Poison>,
    ) -> Log {
        base::check!(start.end <= start.lsn, "a log goes on at {}, before its end {}", start.lsn, start.end);
        Log {
            vfs: vfs.clone(),
            options,
            epoch: start.epoch,
            start,
            ring: Ring::new(options.ring_blocks, start.lsn),
            segments,
            durable: AtomicU64::new(start.lsn.0),
            planned: AtomicU64::new(start.lsn.0),
            flush: Mutex::new(FlushState::new(start.lsn, start.prev_used)),
            unflushed_commits: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            completed: CompletedFlushes::default(),
            in_flight: AtomicU32::new(0),
            deadlines: FlushDeadlines::default(),
            digester: Mutex::new(Digester::new(start.lsn)),
            log_thread,
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
        }
    }

    /// Where the next group will start. A snapshot's number.
    pub(crate) fn reserved_lsn(&self) -> Lsn {
        self.ring.reserved()
    }

    /// The end of the contiguous prefix of groups that are wholly in the buffer.
    pub(crate) fn published_lsn(&self) -> Lsn {
        self.ring.published()
    }

    /// The segment files.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The epoch of everything this log writes.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Positions of log buffer that are not in use.
    pub(crate) fn buffer_room(&self) -> u64 {
        self.ring.capacity().saturating_sub(self.ring.reserved().since(self.durable_lsn()))
    }

    /// Returns when at least half the log buffer is free. Call it before latching anything: then copying a group never
    /// has to wait for the device.
    pub(crate) fn make_room(&self) -> Result {
        let half = self.ring.capacity() / 2;
        if self.buffer_room() < half {
            self.metrics.add(M::LogBufferWaits, 1);
        }
        let mut turn = 0;
        while self.buffer_room() < half {
            let target = Lsn(self.ring.reserved().0.saturating_sub(half));
            self.flush_to(
                target.min(Lsn(self.ring.published().0.saturating_sub(1))),
                SyncReason::LogFullBuffer,
            )?;
            if self.buffer_room() < half {
                // What is in the way has been reserved and not yet copied.
                spin(&mut turn);
            }
        }
        Ok(())
    }

    /// Whether [`Log::make_room`] would find at least half of the log buffer free.
    pub(crate) fn has_room(&self) -> bool {
        self.buffer_room() >= self.ring.capacity() / 2
    }

    /// What no flush has taken may be so much, LSN units, before the log thread flushes it unasked. Long before half the
    /// buffer is full: then nobody who does not wait for durability ever waits for room, as long as the device keeps up.
    pub(crate) fn flush_threshold(&self) -> u64 {
        self.ring.capacity() / 8
    }

    /// Appends a group that `group::begin` started. `stamp` learns its LSN between reservation and publication: what
    /// it does (page LSNs, dirty list, commit slot) is in place before anyone can find the group in the log.
    pub(crate) fn append(&self, group: &mut [u8], stamp: impl FnOnce(Lsn)) -> Lsn {
        let records_crc = group::close(group);
        let Some(range) = self.reserve(group.len()) else {
            // Poisoned: nothing will be written or acknowledged any more. The caller's pages get a position that never
            // becomes durable, so they never reach their file.
            let lsn = self.ring.reserved();
            stamp(lsn);
            return lsn;
        };
        let lsn = range.start;
        stamp(lsn);
        group::seal(group, records_crc, lsn, self.epoch);
        base::verify!(lsn >= self.durable_lsn(), "a group at {lsn}, which is durable already");
        self.ring.copy(&range, group);
        base::sync::point();
        // The next group, of this thread or another, stands behind this one.
        self.ring.prefetch(range.end, group.len());
        self.ring.publish(range);
        self.metrics.add(M::RedoBytesWritten, group.len() as u64);
        self.metrics.add(M::RedoGroups, 1);
        if self.reserved_lsn().0.saturating_sub(self.planned.load(Ordering::Relaxed)) > self.flush_threshold()
        {
            self.flush_soon(SyncReason::LogFullBuffer);
        }
        lsn
    }

    /// Hands out positions; `None` when the database is poisoned. Waiting is rare, for callers make room beforehand, and
    /// the flush that frees the ring needs nothing from this thread, which has reserved nothing yet.
    fn reserve(&self, n: usize) -> Option<ring::ReservedRange> {
        let mut turn = 0;
        loop {
            if turn == 1 {
                self.metrics.add(M::LogBufferWaits, 1);
            }
            if self.poison.is_set() {
                return None;
            }
            if let Some(range) = self.ring.reserve(n, self.durable_lsn()) {
                return Some(range);
            }
            let published = self.ring.published();
            // A failure poisons, which the loop sees.
            let _ = self.flush_to(Lsn(published.0.saturating_sub(1)), SyncReason::LogFullBuffer);
            spin(&mut turn);
        }
    }

    /// Says that a commit has been appended; the flush that takes it counts it.
    pub(crate) fn count_commit(&self) {
        self.unflushed_commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Threads on their way through a commit.
    pub(crate) fn committers(&self) -> u64 {
        self.busy.load(Ordering::Relaxed).into()
    }

    /// Says that a thread is on its way to a commit; the answer's drop says that it has returned.
    pub(crate) fn committing(&self) -> Committing<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Committing { log: self }
    }
}

/// A thread on its way through a commit.
pub(crate) struct Committing<'a> {
    log: &'a Log,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let before = self.log.busy.fetch_sub(1, Ordering::Relaxed);
        base::verify!(before > 0, "more commits return than were begun");
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(durable {}, reserved {})", self.durable_lsn(), self.reserved_lsn())
    }
}
