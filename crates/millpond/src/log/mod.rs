//! The redo log (WAL): one totally ordered stream of groups of redo records. It knows bytes and
//! positions, no pages.
//!
//! [`Log`] appends groups. `buffer` is the log buffer: a `ring`, which reserves, copies and
//! publishes, and the `room` that is taken in it for groups that must not wait. `commit` is group
//! commit: it decides which thread leads a flush of the buffer, and `write` writes it;
//! `flush_state` has the flushes in flight, under the mutex of the log. `commit/bounded` flushes
//! for commits that do not wait, by their `deadlines`. `waiters` lists the threads and tasks that
//! wait for a flush, `committers` counts those that will, and `completed` keeps the results of the
//! latest flushes. `segment` keeps the segment files. `unsynced` is the file for commits that are
//! not synced, and `outlive` copies these commits into it. `block` and `group` are the formats, and
//! `stamp` makes the headers of blocks. `reader` scans the log after a crash and decides where it
//! ends; `held` has the blocks of the scan, which are valid by the rule of `epochs`, and `source`
//! reads them, perhaps with a thread of `read_ahead`.

pub(crate) mod block;
mod buffer;
mod commit;
mod committers;
pub(crate) mod completed;
mod deadlines;
mod epochs;
mod flush_state;
pub(crate) mod group;
mod held;
mod outlive;
mod read_ahead;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod room;
mod scratch;
pub(crate) mod segment;
mod source;
mod stamp;
pub(crate) mod unsynced;
pub(crate) mod waiters;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::environment::Environment;
use crate::error::{Error, Poison, Result};
use base::Lsn;
use base::sync::atomic::AtomicBool;
use base::sync::{Parker, Unparker, holds_no_latch, spin};
use block::LSN_END;
use buffer::LogBuffer;
use commit::GroupCommit;
use committers::Committing;
use completed::FlushInfo;
use metrics::{M, Metrics, SyncReason};
use outlive::Unsynced;
pub(crate) use room::{Credit, KEPT_BOOKMARK_BYTES, KeptRoom, Room};
use segment::Segments;
use stamp::BlockStamp;
pub(crate) use stamp::LogStart;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use vfs::Vfs;
use waiters::Ticket;
use write::BlockWriter;

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

/// The log of an open database.
pub(crate) struct Log {
    /// Has the log buffer, and makes what is in it durable.
    commit: GroupCommit,
    /// `None` if nothing outlives the process, as on a disk in memory.
    unsynced: Option<Unsynced>,
    stamp: BlockStamp,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Log {
    /// A log that continues at `start`. `log_thread` wakes the thread that calls [`Log::serve`].
    pub(crate) fn new(
        environment: &Environment,
        options: LogOptions,
        start: LogStart,
        segments: Segments,
        log_thread: Unparker,
    ) -> Log {
        base::check!(
            start.end <= start.lsn,
            "a log continues at {}, before its end {}",
            start.lsn,
            start.end
        );
        let stamp = BlockStamp::new(segments.shape().db_id, start);
        let buffer = LogBuffer::new(options.ring_blocks, start.lsn);
        let writer = BlockWriter::new(environment, segments, stamp);
        let (prev_used, depth_max) = (start.prev_used, options.flush_depth);
        let commit = GroupCommit::new(environment, buffer, prev_used, writer, depth_max, log_thread);
        let (metrics, poison) = (Arc::clone(&environment.metrics), Arc::clone(&environment.poison));
        Log { commit, unsynced: None, stamp, metrics, poison }
    }

    /// Lets commits outlive the process by a file in `dir`. `vfs` goes on after a failed write: one
    /// of this file does not end the log. REQUIRES: nothing has been appended.
    pub(crate) fn with_unsynced(self, vfs: &Vfs, dir: &Path) -> Log {
        if vfs.disk.is_ephemeral() {
            return self;
        }
        let environment = Environment {
            vfs: vfs.clone(),
            metrics: Arc::clone(&self.metrics),
            poison: Arc::clone(&self.poison),
        };
        let file = Unsynced::new(environment, dir, self.buffer().blocks(), self.stamp, self.durable_lsn());
        Log { unsynced: Some(file), ..self }
    }

    #[inline]
    fn buffer(&self) -> &LogBuffer {
        self.commit.buffer()
    }

    /// Returns where the next group will start. A snapshot takes this as its LSN.
    #[inline]
    pub(crate) fn reserved_lsn(&self) -> Lsn {
        self.buffer().reserved()
    }

    /// Returns the end of the contiguous prefix of groups that are wholly in the log buffer.
    #[inline]
    pub(crate) fn published_lsn(&self) -> Lsn {
        self.buffer().published()
    }

    /// Returns the end of the contiguous prefix of completed flushes. Everything below it survives
    /// a power cut.
    #[inline]
    pub(crate) fn durable_lsn(&self) -> Lsn {
        self.buffer().durable()
    }

    /// An error if so little of the log's positions is left that no write may begin.
    pub(crate) fn check_writable(&self) -> Result {
        if self.reserved_lsn() >= LAST_WRITE {
            return Err(Error::Limit { what: format!("the log is near its last position, {LAST_WRITE}") });
        }
        Ok(())
    }

    /// The segment files.
    pub(crate) fn segments(&self) -> &Segments {
        self.commit.writer().segments()
    }

    /// The epoch of everything this log writes.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> u32 {
        self.stamp.epoch()
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
        let mut spins = 0;
        while !self.has_room() {
            let target = self.buffer().room_from();
            self.flush_to(
                target.min(Lsn(self.published_lsn().0.saturating_sub(1))),
                SyncReason::LogFullBuffer,
            )?;
            if !self.has_room() {
                // A range that was reserved and is not yet copied is in the way.
                spin(&mut spins);
            }
        }
        Ok(())
    }

    /// Whether [`Log::make_room`] would return at once.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.buffer().has_room()
    }

    /// Takes room for a group of at most [`room::CREDIT_BYTES`], without waiting. If there is none,
    /// the caller releases its latches and waits with [`Log::await_credit`].
    #[inline]
    pub(crate) fn try_credit(&self) -> Option<Credit<'_>> {
        self.buffer().try_credit()
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
        let mut spins = 0;
        loop {
            self.make_room()?;
            if let Some(credit) = self.try_credit() {
                return Ok(credit);
            }
            // Threads that have one wait for nothing but latches.
            spin(&mut spins);
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
        self.buffer().keep_room()
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
            let lsn = self.reserved_lsn();
            stamp(lsn);
            return lsn;
        };
        let lsn = range.start;
        stamp(lsn);
        group::finish_checksum(group, records_crc, lsn, self.stamp.epoch());
        self.buffer().put(range, group);
        self.metrics.add(M::RedoBytesWritten, group.len() as u64);
        self.metrics.add(M::RedoGroups, 1);
        self.commit.flush_if_much();
        lsn
    }

    /// Reserves `n` positions of those for which there is room; `None` if the database is poisoned.
    fn reserve_in(&self, room: &Room<'_>, n: usize) -> Option<ring::ReservedRange> {
        base::check!(n <= room.bytes(), "{n} bytes of redo, and room for {}", room.bytes());
        let mut spins = 0;
        loop {
            if self.poison.is_set() {
                return None;
            }
            if let Some(range) = self.buffer().reserve_taken(n) {
                return Some(range);
            }
            // All slots are taken by threads that only copy their groups.
            spin(&mut spins);
        }
    }

    /// Reserves `n` positions; `None` if the database is poisoned. This wait cannot deadlock: the
    /// thread has reserved nothing yet, so the flush that frees the ring needs nothing from it.
    fn reserve(&self, n: usize) -> Option<ring::ReservedRange> {
        let mut spins = 0;
        loop {
            if spins == 1 {
                self.metrics.add(M::LogBufferWaits, 1);
            }
            if self.poison.is_set() {
                return None;
            }
            if let Some(range) = self.buffer().reserve(n) {
                return Some(range);
            }
            let published = self.published_lsn();
            // A failure poisons the database, and the loop checks that.
            let _ = self.flush_to(Lsn(published.0.saturating_sub(1)), SyncReason::LogFullBuffer);
            spin(&mut spins);
        }
    }

    /// Counts an appended commit, for the flush that will take it.
    #[inline]
    pub(crate) fn count_commit(&self) {
        self.commit.committers().count_commit();
    }

    /// Returns how many threads are between the start of a commit and its return.
    pub(crate) fn committers(&self) -> u64 {
        self.commit.committers().busy().into()
    }

    /// Counts the calling thread among the committers until the returned guard is dropped.
    #[inline]
    pub(crate) fn committing(&self) -> Committing<'_> {
        self.commit.committers().enter()
    }

    /// Waits until the group that starts at `lsn` is durable, and leads a flush if no other flush
    /// covers it. An error if the log has failed. REQUIRES: the group has been appended.
    #[inline]
    pub(crate) fn flush_to(&self, lsn: Lsn, reason: SyncReason) -> Result<FlushInfo> {
        self.commit.flush_to(lsn, reason)
    }

    /// Returns as soon as the commit at `lsn` may be acknowledged under its bound: no acknowledged
    /// commit stays undurable for longer than `ms` milliseconds, and none lies further than `bytes`
    /// beyond the durable LSN. An error if the log has failed.
    pub(crate) fn flush_bounded(&self, lsn: Lsn, ms: u64, bytes: u64) -> Result {
        self.commit.flush_bounded(lsn, ms, bytes)
    }

    /// Requests a flush of everything appended so far. Does not wait.
    #[inline]
    pub(crate) fn flush_soon(&self, why: SyncReason) {
        self.commit.flush_soon(why);
    }

    /// Returns when the group at `lsn` outlives the process. It is not durable: a power cut may
    /// take it. If that is not possible, it syncs the log, for the given reason. An error if the
    /// log has failed. REQUIRES: the group has been appended; no latch is held.
    pub(crate) fn outlive(&self, lsn: Lsn, reason: SyncReason) -> Result {
        self.unsynced.as_ref().map_or(Ok(()), |file| file.outlive(&self.commit, lsn, reason))
    }

    /// Returns `Ready` when the group that starts at `lsn` is durable or the log has failed. Until
    /// then it stores `waker`; the log thread calls it after such a change, holding nothing.
    /// `ticket` is the caller's entry in the list of waiters, `None` at first. REQUIRES:
    /// [`Log::flush_soon`] was called after the group was appended; the log thread runs.
    pub(crate) fn poll_durable(&self, lsn: Lsn, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Result> {
        self.commit.poll_durable(lsn, ticket, waker)
    }

    /// Returns the result of the flush that made the group at `lsn` durable. If that was long ago,
    /// only the time is set, to now. REQUIRES: the group is durable.
    pub(crate) fn flush_info(&self, lsn: Lsn) -> FlushInfo {
        self.commit.flush_info(lsn)
    }

    /// The loop of the log thread: leads flushes and calls the wakers of tasks, until `stop` is set
    /// (then wake it) or the database is poisoned.
    pub(crate) fn serve(&self, parker: &Parker, stop: &AtomicBool) {
        self.commit.serve(parker, stop);
    }

    /// Wakes all threads and tasks that wait for a flush. REQUIRES: the database is poisoned. A
    /// waiter that came before it could see the poison is on the list; a later one sees the poison.
    pub(crate) fn wake_all_waiters(&self) {
        self.commit.wake_all_waiters();
    }

    /// Calls the wakers of the tasks whose wait is over. REQUIRES: the caller holds nothing and is
    /// not inside a call that closing waits for, because a waker may close the database.
    pub(crate) fn wake_tasks(&self) {
        self.commit.wake_tasks();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(durable {}, reserved {})", self.durable_lsn(), self.reserved_lsn())
    }
}
