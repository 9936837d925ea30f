//! The redo log (WAL): one totally ordered stream of groups of redo records. It knows bytes and
//! positions, no pages.
//!
//! `ring` is the log buffer: it reserves, copies and publishes. `commit` is group commit: it
//! decides which thread leads a flush, and `write` writes it; `flush_state` is what they share,
//! under the mutex of the log. `bounded` flushes for commits that do not wait, by their
//! `deadlines`. `waiters` lists the threads and tasks that wait for a flush, and `completed` keeps
//! the results of the latest flushes. `room` is taken in the buffer for groups that must not wait.
//! `segment` keeps the segment files. `unsynced` is the file for commits that are not synced, and
//! `outlive` copies these commits into it. `block` and `group` are the formats. `reader` scans the
//! log after a crash and decides where it ends; `ahead` reads the segments for the scan.

mod ahead;
pub(crate) mod block;
mod bounded;
mod commit;
pub(crate) mod completed;
pub(crate) mod copy;
mod deadlines;
mod flush_state;
pub(crate) mod group;
mod outlive;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod room;
mod scratch;
pub(crate) mod segment;
pub(crate) mod unsynced;
pub(crate) mod waiters;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::context::Context;
use crate::error::{Error, Poison, Result};
use base::Lsn;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, Unparker, holds_no_latch, spin};
use block::PAYLOAD_BYTES;
use completed::CompletedFlushes;
use deadlines::FlushDeadlines;
use flush_state::FlushState;
use metrics::{M, Metrics, SyncReason};
use ring::Ring;
use room::TakenRoom;
pub(crate) use room::{Credit, KEPT_BOOKMARK_BYTES, KeptRoom, Room};
use segment::Segments;
use std::path::Path;
use std::sync::Arc;
use unsynced::Unsynced;
use vfs::Vfs;

/// Positions lie below 2^63: 292 years at a gigabyte a second.
pub(crate) const LSN_BITS: u32 = 63;
/// The last position.
const LSN_END: Lsn = Lsn(1 << LSN_BITS);
/// From here on no write begins any more. The terabyte above is for ending what has begun.
pub(crate) const LAST_WRITE: Lsn = Lsn(LSN_END.0 - (1 << 40));

/// Choices that the log is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// Blocks in the log buffer, a power of two. Its size is the window W: nothing is written
    /// further than W beyond the durable LSN.
    pub ring_blocks: usize,
    /// Flushes that may be in flight at once.
    pub flush_depth: u32,
}

/// Where a log continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStart {
    /// The first position to be written, the start of a block.
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
    /// Where the next flush begins, for threads that read it without the mutex.
    next_flush_from: AtomicU64,
    flush: Mutex<FlushState>,
    /// Commits published that no flush has taken.
    unflushed_commits: AtomicU64,
    /// Threads between the start of a commit and its return.
    committers: AtomicU32,
    completed: CompletedFlushes,
    /// The number of flushes in flight, for threads that read it without the mutex.
    in_flight: AtomicU32,
    deadlines: FlushDeadlines,
    /// `None` if nothing outlives the process, as on a disk in memory.
    unsynced: Option<Unsynced>,
    room: TakenRoom,
    /// Wakes the log thread.
    log_thread: Unparker,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Log {
    /// A log that continues at `start`. `log_thread` wakes the thread that calls [`Log::serve`].
    pub(crate) fn new(
        context: &Context,
        options: LogOptions,
        start: LogStart,
        segments: Segments,
        log_thread: Unparker,
    ) -> Log {
        let Context { vfs, metrics, poison } = context.clone();
        base::check!(
            start.end <= start.lsn,
            "a log continues at {}, before its end {}",
            start.lsn,
            start.end
        );
        let ring = Ring::new(options.ring_blocks, start.lsn);
        Log {
            vfs,
            options,
            epoch: start.epoch,
            start,
            room: TakenRoom::new(ring.capacity()),
            ring,
            segments,
            durable: AtomicU64::new(start.lsn.0),
            next_flush_from: AtomicU64::new(start.lsn.0),
            flush: Mutex::new(FlushState::new(start.lsn, start.prev_used)),
            unflushed_commits: AtomicU64::new(0),
            committers: AtomicU32::new(0),
            completed: CompletedFlushes::default(),
            in_flight: AtomicU32::new(0),
            deadlines: FlushDeadlines::default(),
            unsynced: None,
            log_thread,
            metrics,
            poison,
        }
    }

    /// Lets commits outlive the process by a file in `dir`. `vfs` goes on after a failed write: one
    /// of this file does not end the log.
    pub(crate) fn with_unsynced(self, vfs: &Vfs, dir: &Path) -> Log {
        let file = Unsynced::new(vfs, dir, self.start.lsn);
        Log { unsynced: (!vfs.disk.is_ephemeral()).then_some(file), ..self }
    }

    /// Returns where the next group will start. A snapshot takes this as its LSN.
    pub(crate) fn reserved_lsn(&self) -> Lsn {
        self.ring.reserved()
    }

    /// An error if so little of the log's positions is left that no write may begin.
    pub(crate) fn check_writable(&self) -> Result {
        if self.reserved_lsn() >= LAST_WRITE {
            return Err(Error::Limit { what: format!("the log is near its last position, {LAST_WRITE}") });
        }
        Ok(())
    }

    /// Returns the end of the contiguous prefix of groups that are wholly in the log buffer.
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

    /// Waits until the log leaves free what is lent and kept: half of the log buffer. An error if
    /// the log has failed. REQUIRES: the caller holds no latch. After this call an append seldom
    /// has to wait for the device, and there mostly is a credit.
    pub(crate) fn make_room(&self) -> Result {
        holds_no_latch();
        if self.has_room() {
            return Ok(());
        }
        self.metrics.add(M::LogBufferWaits, 1);
        // A block less, because the block of the durable position stays in memory as a whole.
        let most = self.ring.capacity() - self.ring.spared() - PAYLOAD_BYTES as u64;
        let mut turn = 0;
        while !self.has_room() {
            let target = Lsn(self.ring.reserved().0.saturating_sub(most));
            self.flush_to(
                target.min(Lsn(self.ring.published().0.saturating_sub(1))),
                SyncReason::LogFullBuffer,
            )?;
            if !self.has_room() {
                // A range that was reserved and is not yet copied is in the way.
                spin(&mut turn);
            }
        }
        Ok(())
    }

    /// Whether [`Log::make_room`] would return at once.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.ring.spares()
    }

    /// Takes room for a group of at most [`room::CREDIT_BYTES`], without waiting. If there is none,
    /// the caller releases its latches and waits with [`Log::await_credit`].
    #[inline]
    pub(crate) fn try_credit(&self) -> Option<Credit<'_>> {
        let credit = self.room.credit()?;
        self.has_room().then_some(credit)
    }

    /// As [`Log::try_credit`]; waits. An error if the log has failed. REQUIRES: the caller holds no
    /// latch.
    #[inline]
    pub(crate) fn credit(&self) -> Result<Credit<'_>> {
        holds_no_latch();
        self.try_credit().map_or_else(|| self.credit_later(), Ok)
    }

    #[cold]
    fn credit_later(&self) -> Result<Credit<'_>> {
        let mut turn = 0;
        loop {
            self.make_room()?;
            if let Some(credit) = self.try_credit() {
                return Ok(credit);
            }
            // Threads that have one wait for nothing but latches.
            spin(&mut turn);
        }
    }

    /// Waits until there was room for a group. REQUIRES: the caller holds no latch.
    #[cold]
    pub(crate) fn await_credit(&self) -> Result {
        self.credit().map(drop)
    }

    /// Keeps room for one commit record and its bookmark. Errors: `Limit` if a quarter of the
    /// buffer is kept already.
    pub(crate) fn keep_room(&self) -> Result<KeptRoom> {
        self.room.keep()
    }

    /// How far, in LSN units, the log may be reserved beyond the last flush before the log thread
    /// flushes without a request. It is far less than half of the buffer. So a thread that does not
    /// wait for durability never waits for room either, as long as the device keeps up.
    fn flush_threshold(&self) -> u64 {
        self.ring.capacity() / 8
    }

    /// Appends a group that `group::begin` started, and returns its LSN. `stamp` gets the LSN
    /// between reservation and publication. So what it sets (commit slot, page LSNs, dirty list) is
    /// in place before any thread can find the group in the log. It seldom waits, because callers
    /// make room beforehand. REQUIRES: the caller holds no latch.
    pub(crate) fn append(&self, group: &mut [u8], stamp: impl FnOnce(Lsn)) -> Lsn {
        holds_no_latch();
        self.append_at(self.reserve(group.len()), group, stamp)
    }

    /// As [`Log::append`], for a caller that has taken room for the group: it waits for nothing.
    pub(crate) fn append_in(&self, room: Room<'_>, group: &mut [u8], stamp: impl FnOnce(Lsn)) -> Lsn {
        let range = self.reserve_in(&room, group.len());
        // The group has its positions.
        drop(room);
        self.append_at(range, group, stamp)
    }

    fn append_at(
        &self,
        range: Option<ring::ReservedRange>,
        group: &mut [u8],
        stamp: impl FnOnce(Lsn),
    ) -> Lsn {
        let records_crc = group::close(group);
        let Some(range) = range else {
            // Poisoned: nothing will be written or acknowledged any more. The pages of the caller
            // get a position that never becomes durable, so they never reach their file.
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
        // The next group, of this thread or another, follows this one.
        self.ring.prefetch(range.end, group.len());
        self.ring.publish(range);
        self.metrics.add(M::RedoBytesWritten, group.len() as u64);
        self.metrics.add(M::RedoGroups, 1);
        if self.reserved_lsn().0.saturating_sub(self.next_flush_from.load(Ordering::Relaxed))
            > self.flush_threshold()
        {
            self.flush_soon(SyncReason::LogFullBuffer);
        }
        lsn
    }

    /// Reserves `n` positions of those for which there is room; `None` if the database is poisoned.
    fn reserve_in(&self, room: &Room<'_>, n: usize) -> Option<ring::ReservedRange> {
        base::check!(n <= room.bytes(), "{n} bytes of redo, and room for {}", room.bytes());
        let mut turn = 0;
        loop {
            if self.poison.is_set() {
                return None;
            }
            if let Some(range) = self.ring.reserve_spared(n) {
                return Some(range);
            }
            base::check!(self.ring.has_spared(n), "the room in the log is gone");
            // All slots are taken by threads that only copy their groups.
            spin(&mut turn);
        }
    }

    /// Reserves `n` positions; `None` if the database is poisoned. This wait cannot deadlock: the
    /// thread has reserved nothing yet, so the flush that frees the ring needs nothing from it.
    fn reserve(&self, n: usize) -> Option<ring::ReservedRange> {
        let mut turn = 0;
        loop {
            if turn == 1 {
                self.metrics.add(M::LogBufferWaits, 1);
            }
            if self.poison.is_set() {
                return None;
            }
            if let Some(range) = self.ring.reserve(n) {
                return Some(range);
            }
            let published = self.ring.published();
            // A failure poisons the database, and the loop checks that.
            let _ = self.flush_to(Lsn(published.0.saturating_sub(1)), SyncReason::LogFullBuffer);
            spin(&mut turn);
        }
    }

    /// Counts an appended commit, for the flush that will take it.
    pub(crate) fn count_commit(&self) {
        self.unflushed_commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many threads are between the start of a commit and its return.
    pub(crate) fn committers(&self) -> u64 {
        self.committers.load(Ordering::Relaxed).into()
    }

    /// Counts the calling thread among the committers until the returned guard is dropped.
    pub(crate) fn committing(&self) -> Committing<'_> {
        self.committers.fetch_add(1, Ordering::Relaxed);
        Committing { log: self }
    }
}

/// Counts a thread among the committers. See [`Log::committing`].
pub(crate) struct Committing<'a> {
    log: &'a Log,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let before = self.log.committers.fetch_sub(1, Ordering::Relaxed);
        base::verify!(before > 0, "more commits return than were begun");
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(durable {}, reserved {})", self.durable_lsn(), self.reserved_lsn())
    }
}
