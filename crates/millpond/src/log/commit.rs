//! Group commit: which thread flushes the redo log (WAL), how much, and which threads wait.
//!
//! Leader and followers, greedy (Co1). A thread that needs a position durable and finds a free
//! flush slot leads: it writes everything that is reserved and syncs it, holding no lock. The
//! waiters that the flush covers wake, and the next waiter leads. There is no timer and no relay
//! thread. Several flushes may be in flight (Co2) as long as no two of them write one block (Co4).
//! So a flush that starts beside another *seals* its range at a block's start. With none in flight
//! a flush may rewrite the partial tail block instead.
//!
//! ```text
//!   durable        from                              reserved
//!      |   flush 1   |  flush 2  |                       |
//!   ---+-------------+-----------+------ unflushed ------+----> LSN
//! ```
//! The durable LSN is the end of the contiguous prefix of completed flushes.

mod bounded;

use super::block::{PAYLOAD_BYTES, block_of, block_start};
use super::buffer::LogBuffer;
use super::committers::Committers;
use super::completed::{CompletedFlushes, FlushInfo};
use super::deadlines::FlushDeadlines;
use super::flush_state::{FlushState, Flushes, InFlightFlush};
use super::scratch::{GATHER_BLOCKS, Scratch};
use super::stamp::BlockStamp;
use super::waiters::{Ticket, Wake};
use super::write::{BlockWriter, FlushPlan};
use crate::environment::Environment;
use crate::error::{Poison, Result};
use crate::planted::{Bug, planted};
use crate::role;
use base::Lsn;
use base::sync::{MutexGuard, Parker, Unparker, spin};
use metrics::{Latency, M, Metrics, SyncReason};
use pace::commit::{FlushView, may_start, should_seal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use vfs::Clock;

/// Makes what is in the log buffer durable.
pub(super) struct GroupCommit {
    buffer: LogBuffer,
    writer: BlockWriter,
    flushes: Flushes,
    completed: CompletedFlushes,
    deadlines: FlushDeadlines,
    committers: Committers,
    /// Flushes that may be in flight at once.
    depth_max: u32,
    /// Wakes the log thread.
    log_thread: Unparker,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

/// Published blocks in a scratch buffer.
pub(super) struct Copied {
    pub(super) first: u64,
    pub(super) count: u64,
    /// Where the log ends that they hold.
    pub(super) to: Lsn,
}

impl GroupCommit {
    /// Flushes `buffer` by `writer`, up to `depth_max` flushes at once. `prev_used` is how many
    /// payload bytes are in use in the block before the first that will be written. `log_thread`
    /// wakes the thread that calls [`GroupCommit::serve`].
    pub(super) fn new(
        environment: &Environment,
        buffer: LogBuffer,
        prev_used: u16,
        writer: BlockWriter,
        depth_max: u32,
        log_thread: Unparker,
    ) -> GroupCommit {
        let Environment { vfs, metrics, poison } = environment.clone();
        GroupCommit {
            flushes: Flushes::new(buffer.durable(), prev_used),
            buffer,
            writer,
            completed: CompletedFlushes::default(),
            deadlines: FlushDeadlines::default(),
            committers: Committers::default(),
            depth_max,
            log_thread,
            clock: vfs.clock,
            metrics,
            poison,
        }
    }

    /// The buffer that is flushed.
    #[inline]
    pub(super) fn buffer(&self) -> &LogBuffer {
        &self.buffer
    }

    /// Writes the buffer to the segments.
    pub(super) fn writer(&self) -> &BlockWriter {
        &self.writer
    }

    /// The threads that are about to commit.
    #[inline]
    pub(super) fn committers(&self) -> &Committers {
        &self.committers
    }

    /// Waits until the group that starts at `lsn` is durable, and leads a flush if no other flush
    /// covers it. An error if the log has failed. REQUIRES: the group has been appended.
    pub(super) fn flush_to(&self, lsn: Lsn, reason: SyncReason) -> Result<FlushInfo> {
        if self.buffer.durable() > lsn {
            return Ok(FlushInfo::default());
        }
        thread_local! {
            static PARKER: Parker = Parker::new();
        }
        PARKER.with(|parker| self.wait_durable(lsn, reason, parker))
    }

    /// Waits as [`GroupCommit::flush_to`] does, parked on `parker`.
    fn wait_durable(&self, lsn: Lsn, reason: SyncReason, parker: &Parker) -> Result<FlushInfo> {
        let mut state = self.flushes.lock();
        loop {
            if self.buffer.durable() > lsn {
                return Ok(self.flush_info(lsn));
            }
            self.poison.check()?;
            // No flush would ever make a position durable that no thread has reserved.
            base::check!(lsn < self.buffer.reserved(), "nothing has been appended at LSN {lsn}");
            if lsn >= state.from()
                && self.slot_free(&state, 1)
                && let Some(plan) = self.plan_flush(&mut state)
            {
                state = self.run_flush(state, plan, reason)?;
                continue;
            }
            let ticket = state.waiters.add(lsn, Wake::Thread(parker.unparker()));
            drop(state);
            parker.park();
            if self.buffer.durable() > lsn {
                // The thread that moved the durable LSN has taken this waiter off the list.
                return Ok(self.flush_info(lsn));
            }
            state = self.flushes.lock();
            state.waiters.remove(ticket);
        }
    }

    /// Returns `Ready` when the group that starts at `lsn` is durable or the log has failed. Until
    /// then it stores `waker`; the log thread calls it after such a change, holding nothing.
    /// `ticket` is the caller's entry in the list of waiters, `None` at first. REQUIRES:
    /// [`GroupCommit::flush_soon`] was called after the group was appended; the log thread runs.
    pub(super) fn poll_durable(&self, lsn: Lsn, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Result> {
        if self.buffer.durable() > lsn {
            return Poll::Ready(Ok(()));
        }
        // A waker is a caller's code: it is cloned before the mutex is taken and dropped after it
        // is released.
        let wake = Wake::Task(waker.clone());
        let mut state = self.flushes.lock();
        if self.buffer.durable() > lsn {
            return Poll::Ready(Ok(()));
        }
        self.poison.check()?;
        base::check!(lsn < self.buffer.reserved(), "nothing has been appended at LSN {lsn}");
        let replaced = match *ticket {
            Some(ticket) => state.waiters.replace(ticket, wake),
            None => Err(wake),
        };
        let old = match replaced {
            Ok(old) => Some(old),
            Err(wake) => {
                *ticket = Some(state.waiters.add(lsn, wake));
                None
            }
        };
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Returns the result of the flush that made the group at `lsn` durable. If that was long ago,
    /// only the time is set, to now. REQUIRES: the group is durable.
    pub(super) fn flush_info(&self, lsn: Lsn) -> FlushInfo {
        self.completed
            .find(lsn)
            .unwrap_or_else(|| FlushInfo { done_us: self.clock.now_us(), ..FlushInfo::default() })
    }

    /// Publishes the number of flushes in flight. Called after each change.
    fn count_in_flight(&self, state: &FlushState) {
        let count = self.flushes.show_count(state);
        self.metrics.set(M::LogFlushesInFlight, u64::from(count));
    }

    /// What the rule of `pace::commit` looks at. `own` is 1 if the calling thread needs a flush and
    /// is not on the list of waiters.
    fn view(&self, state: &FlushState, own: u32) -> FlushView {
        FlushView {
            in_flight: state.count(),
            depth_max: self.depth_max,
            waiting: state.uncovered().len() as u32 + own,
            busy_committers: self.committers.busy(),
            elapsed_of_running_us: state
                .latest()
                .map_or(0, |f| self.clock.now_us().saturating_sub(f.started_us)),
            usual_us: state.usual_us(),
        }
    }

    /// Whether another flush may start now. `own` as in [`GroupCommit::view`].
    pub(super) fn slot_free(&self, state: &FlushState, own: u32) -> bool {
        match state.latest() {
            None => true,
            Some(last) => !last.has_open_tail() && may_start(&self.view(state, own)),
        }
    }

    /// Takes a range for a new flush. Returns `None` if there is nothing to flush, or no room to
    /// seal.
    pub(super) fn plan_flush(&self, state: &mut FlushState) -> Option<FlushPlan> {
        // Before the end is read: a commit that relies on the deadline has reserved its range by
        // then.
        let taken = self.deadlines.take();
        let Some((to, next_prev_used)) = self.range_end(state) else {
            // If everything reserved is already in flight, the deadline passes to the latest flush.
            let all_in_flight = self.buffer.reserved() == state.from();
            let undurable = state.from() > self.buffer.durable();
            match state.latest_mut().filter(|_| all_in_flight) {
                Some(last) => last.deadline_us = last.deadline_us.min(taken.deadline_us),
                None if undurable => self.deadlines.put_back(taken),
                None => {}
            }
            self.deadlines.set_in_flight(state.deadlines());
            return None;
        };
        let now = self.clock.now_us();
        let plan = FlushPlan {
            from: state.from(),
            to,
            prev_used: state.prev_used_at_from(),
            durable: self.buffer.durable(),
            depth: u64::from(state.count()) + 1,
            waiters: state.waiters_up_to(to) + role::callers(),
            scratch: state.take_scratch(),
            started_us: now,
        };
        // INV-8: nothing unflushed lies beyond the window.
        base::verify!(
            to <= self.buffer.window_end(),
            "a flush ends at {to}, beyond the window after {}",
            self.buffer.durable()
        );
        let flush = InFlightFlush {
            from: plan.from,
            prev_used: plan.prev_used,
            end: to,
            done: None,
            started_us: now,
            deadline_us: taken.deadline_us,
        };
        state.begin(flush, next_prev_used);
        self.flushes.show_from(state);
        self.count_in_flight(state);
        self.deadlines.set_in_flight(state.deadlines());
        self.metrics.max(M::LogFlushDepthMax, u64::from(state.count()));
        Some(plan)
    }

    /// Returns the end of a flush that starts now, and the `prev_used` of the block that holds this
    /// end. `None` if there is nothing to flush, or no room to seal.
    fn range_end(&self, state: &FlushState) -> Option<(Lsn, u16)> {
        if self.buffer.reserved() <= state.from() {
            return None;
        }
        if !state.none_in_flight() || should_seal(&self.view(state, 1)) {
            if let Some(seal) = self.buffer.seal() {
                self.metrics.add(M::RedoPadBytes, seal.pad);
                return Some((seal.end, seal.used));
            }
            if !state.none_in_flight() {
                return None;
            }
        }
        // Not only what is published: threads that have reserved are copying, which takes no time.
        let to = self.buffer.reserved();
        let same_block = block_of(to) == block_of(state.from());
        Some((to, if same_block { state.prev_used_at_from() } else { PAYLOAD_BYTES as u16 }))
    }

    /// Writes and syncs a planned range without the mutex, then completes the flush. A failure
    /// poisons the database.
    pub(super) fn run_flush<'a>(
        &'a self,
        state: MutexGuard<'a, FlushState>,
        mut plan: FlushPlan,
        reason: SyncReason,
    ) -> Result<MutexGuard<'a, FlushState>> {
        drop(state);
        let mut spins = 0;
        while self.buffer.published() < plan.to {
            spin(&mut spins);
        }
        base::check!(
            self.buffer.durable() <= plan.from || planted(Bug::DurableOutOfOrder),
            "{} is durable before it is written",
            plan.from
        );
        let commits = self.committers.take_commits();
        let done = self.writer.write_and_sync(self.buffer.ring(), &mut plan, reason);
        let mut state = self.flushes.lock();
        if let Err(error) = done {
            let poisoned = self.poison.set(error);
            self.wake_all(state);
            return Err(poisoned);
        }
        let done_us = self.clock.now_us();
        let took = done_us.saturating_sub(plan.started_us);
        self.metrics.time(Latency::LogSync, took);
        state.give_back(plan.scratch, took);
        self.complete_flush(
            state,
            plan.to,
            FlushInfo { batch_commits: commits, flush_depth: plan.depth, done_us },
        )
    }

    /// Marks the flush that ends at `end` as complete, moves the durable LSN, and wakes the waiters
    /// that it covers. An error if the database is poisoned.
    fn complete_flush<'a>(
        &'a self,
        mut state: MutexGuard<'a, FlushState>,
        end: Lsn,
        info: FlushInfo,
    ) -> Result<MutexGuard<'a, FlushState>> {
        // The failure of another flush poisons this one too: the durable LSN must not move any
        // more. The waiters for this flush, and those that would lead the next, have no other
        // wake-up.
        if let Err(poisoned) = self.poison.check() {
            self.wake_all(state);
            return Err(poisoned);
        }
        state.complete(end, info);
        self.advance_durable(&mut state, end, info.done_us);
        self.wake_covered(state);
        if planted(Bug::WakersCalledByLeader) {
            self.wake_tasks();
        }
        Ok(self.flushes.lock())
    }

    /// Moves the durable LSN over the prefix of completed flushes. The flush that ends at `end` was
    /// the last to complete, at `done_us`.
    fn advance_durable(&self, state: &mut FlushState, end: Lsn, done_us: u64) {
        let mut durable = None;
        let mut prefix = self.buffer.durable();
        while let Some(flush) = state.take_done() {
            // INV-7: the completed prefix has no hole, and never shrinks.
            base::check!(
                flush.from == prefix && flush.from < flush.end || planted(Bug::DurableOutOfOrder),
                "a flush {}..{} after the durable LSN {prefix}",
                flush.from,
                flush.end
            );
            prefix = flush.end;
            // Before the durable LSN moves: a thread that sees the commit durable finds this entry.
            // A flush that overtook another one counts as done only when that one is.
            let info = FlushInfo { done_us, ..flush.done.unwrap_or_default() };
            self.completed.record(flush.from, flush.end, info);
            durable = Some(flush.end);
        }
        if planted(Bug::DurableOutOfOrder) {
            durable = Some(end.max(self.buffer.durable()));
        }
        self.count_in_flight(state);
        if let Some(durable) = durable {
            self.buffer.set_durable(durable);
            self.metrics.set(M::DurableLsn, durable.0);
            self.deadlines.set_in_flight(state.deadlines());
        }
    }

    /// Wakes the threads whose positions are durable, and a thread to lead the next flush if one
    /// may start now. Releases the mutex first.
    fn wake_covered(&self, mut state: MutexGuard<'_, FlushState>) {
        let covered = state.waiters.take_below(self.buffer.durable());
        let mut next = None;
        let mut log_thread = false;
        if self.slot_free(&state, 0) {
            log_thread = self.flush_due_in(&state) == Some(0);
            for wake in state.uncovered() {
                match wake {
                    Wake::Thread(unparker) => {
                        next = Some(unparker.clone());
                        break;
                    }
                    Wake::Task(_) => log_thread = true,
                }
            }
        }
        // If another thread leads, the log thread only has to call wakers.
        log_thread = state.waiters.has_ready() || (log_thread && next.is_none());
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
        if log_thread {
            self.log_thread.unpark();
        }
        covered.into_iter().for_each(|thread| thread.unpark());
    }

    /// Wakes all waiters of a poisoned log. The log thread calls the wakers of tasks.
    fn wake_all(&self, mut state: MutexGuard<'_, FlushState>) {
        base::check!(self.poison.is_set(), "the waiters of a healthy log are woken");
        if planted(Bug::WaitersNotWoken) {
            return;
        }
        let threads = state.waiters.take_all();
        let tasks = state.waiters.has_ready();
        drop(state);
        threads.into_iter().for_each(|thread| thread.unpark());
        if tasks {
            self.log_thread.unpark();
        }
    }

    /// Wakes all threads and tasks that wait for a flush. REQUIRES: the database is poisoned. A
    /// waiter that came before it could see the poison is on the list; a later one sees the poison.
    pub(super) fn wake_all_waiters(&self) {
        self.wake_all(self.flushes.lock());
    }

    /// Copies published blocks from `written` on, or from the durable LSN on if that is higher.
    pub(super) fn copy_published(&self, written: Lsn, stamp: &BlockStamp, scratch: &mut Scratch) -> Copied {
        // The durable LSN moves under this mutex only. So the log buffer does not give the blocks
        // from there on to other positions meanwhile.
        let state = self.flushes.lock();
        let durable = self.buffer.durable();
        let from = written.max(durable);
        let to = self.buffer.published();
        base::check!(from <= to, "the log is published up to {to} and outlives the process up to {from}");
        let first = block_of(from);
        let last = block_of(Lsn(to.0.saturating_sub(1))).clamp(first, first + GATHER_BLOCKS - 1);
        let to = to.min(block_start(last + 1));
        for block in first..=last {
            let header = stamp.header(block, state.prev_used(block), durable);
            header.encode(scratch.gather(self.buffer.ring(), block, to, (block - first) as usize));
        }
        Copied { first, count: last - first + 1, to }
    }

    /// Calls the wakers of the tasks whose wait is over. REQUIRES: the caller holds nothing and is
    /// not inside a call that closing waits for, because a waker may close the database.
    pub(super) fn wake_tasks(&self) {
        let ready = self.flushes.lock().waiters.take_ready();
        for waker in ready {
            // A caller's panic is reported by its own message. The other wakers are called all the
            // same.
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }
}
