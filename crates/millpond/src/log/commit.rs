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

use super::Log;
use super::block::{PAYLOAD_BYTES, block_of, block_start, offset_in_block};
use super::completed::FlushInfo;
use super::flush_state::{FlushState, InFlightFlush};
use super::scratch::Scratch;
use super::waiters::{Ticket, Wake};
use super::write::FlushPlan;
use crate::duty;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::atomic::Ordering;
use base::sync::{MutexGuard, Parker, spin};
use metrics::{Latency, M, SyncReason};
use pace::commit::{FlushView, may_start, should_seal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

impl Log {
    /// Returns the end of the contiguous prefix of completed flushes. Everything below it survives
    /// a power cut.
    #[inline]
    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Returns the durable LSN that the headers of blocks written now may name. Until something of
    /// this epoch is durable that is the end of the groups of the last epoch. The first block of
    /// this epoch tells what lies between, and it may be lost while a later one survives.
    pub(super) fn durable_for_blocks(&self) -> Lsn {
        let durable = self.durable_lsn();
        if durable == self.start.lsn { self.start.end } else { durable }
    }

    /// Waits until the group that starts at `lsn` is durable, and leads a flush if no other flush
    /// covers it. An error if the log has failed. REQUIRES: the group has been appended.
    pub(crate) fn flush_to(&self, lsn: Lsn, reason: SyncReason) -> Result<FlushInfo> {
        if self.durable_lsn() > lsn {
            return Ok(FlushInfo::default());
        }
        thread_local! {
            static PARKER: Parker = Parker::new();
        }
        PARKER.with(|parker| self.wait_durable(lsn, reason, parker))
    }

    /// Waits as [`Log::flush_to`] does, parked on `parker`.
    fn wait_durable(&self, lsn: Lsn, reason: SyncReason, parker: &Parker) -> Result<FlushInfo> {
        let mut state = self.flush.lock();
        loop {
            if self.durable_lsn() > lsn {
                return Ok(self.flush_info(lsn));
            }
            self.poison.check()?;
            // No flush would ever make a position durable that no thread has reserved.
            base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
            if lsn >= state.from
                && self.slot_free(&state, 1)
                && let Some(plan) = self.plan_flush(&mut state)
            {
                state = self.run_flush(state, plan, reason)?;
                continue;
            }
            let ticket = state.waiters.add(lsn, Wake::Thread(parker.unparker()));
            drop(state);
            parker.park();
            if self.durable_lsn() > lsn {
                // The thread that moved the durable LSN has taken this waiter off the list.
                return Ok(self.flush_info(lsn));
            }
            state = self.flush.lock();
            state.waiters.remove(ticket);
        }
    }

    /// Returns `Ready` when the group that starts at `lsn` is durable or the log has failed. Until
    /// then it stores `waker`; the log thread calls it after such a change, holding nothing.
    /// `ticket` is the caller's entry in the list of waiters, `None` at first. REQUIRES:
    /// [`Log::flush_soon`] was called after the group was appended; the log thread runs.
    pub(crate) fn poll_durable(&self, lsn: Lsn, ticket: &mut Option<Ticket>, waker: &Waker) -> Poll<Result> {
        if self.durable_lsn() > lsn {
            return Poll::Ready(Ok(()));
        }
        // A waker is a caller's code: it is cloned before the mutex is taken and dropped after it
        // is released.
        let wake = Wake::Task(waker.clone());
        let mut state = self.flush.lock();
        if self.durable_lsn() > lsn {
            return Poll::Ready(Ok(()));
        }
        self.poison.check()?;
        base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
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
    pub(crate) fn flush_info(&self, lsn: Lsn) -> FlushInfo {
        self.completed
            .find(lsn)
            .unwrap_or_else(|| FlushInfo { done_us: self.vfs.clock.now_us(), ..FlushInfo::default() })
    }

    /// Publishes the number of flushes in flight. Called after each change.
    fn count_in_flight(&self, state: &FlushState) {
        let count = state.in_flight.len() as u32;
        self.in_flight.store(count, Ordering::SeqCst);
        self.metrics.set(M::LogFlushesInFlight, u64::from(count));
    }

    /// What the rule of `pace::commit` looks at. `own` is 1 if the calling thread needs a flush and
    /// is not on the list of waiters.
    fn view(&self, state: &FlushState, own: u32) -> FlushView {
        FlushView {
            in_flight: state.in_flight.len() as u32,
            depth_max: self.options.flush_depth,
            waiting: state.waiters.beyond(state.from).len() as u32 + own,
            busy_committers: self.committers.load(Ordering::Relaxed),
            elapsed_of_running_us: state
                .in_flight
                .back()
                .map_or(0, |f| self.vfs.clock.now_us().saturating_sub(f.started_us)),
            usual_us: state.usual_us,
        }
    }

    /// Whether another flush may start now. `own` as in [`Log::view`].
    pub(super) fn slot_free(&self, state: &FlushState, own: u32) -> bool {
        match state.in_flight.back() {
            None => true,
            Some(last) => !last.open_tail && may_start(&self.view(state, own)),
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
            match state.in_flight.back_mut().filter(|_| self.ring.reserved() == state.from) {
                Some(last) => last.deadline_us = last.deadline_us.min(taken.deadline_us),
                None if state.from > self.durable_lsn() => self.deadlines.put_back(taken),
                None => {}
            }
            self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
            return None;
        };
        let now = self.vfs.clock.now_us();
        let plan = FlushPlan {
            from: state.from,
            to,
            prev_used: state.from_prev_used,
            durable: self.durable_for_blocks(),
            depth: state.in_flight.len() as u64 + 1,
            // Waiters for lower positions wait for an earlier flush.
            waiters: (state.waiters.below(to) - state.waiters.below(state.from)) as u64 + duty::callers(),
            scratch: state.scratch.pop().unwrap_or_else(Scratch::new),
            started_us: now,
        };
        base::check!(plan.from < to, "a flush of nothing at {to}");
        // INV-7: each flush begins where the one before ends, and no block is in two of them.
        base::check!(
            state.in_flight.back().is_none_or(|last| last.end == plan.from && !last.open_tail),
            "a flush from {} does not adjoin {:?}",
            plan.from,
            state.in_flight.back()
        );
        // INV-8: nothing unflushed lies beyond the window.
        base::verify!(
            to <= block_start(block_of(self.durable_lsn())).plus(self.ring.capacity()),
            "a flush ends at {to}, beyond the window behind {}",
            self.durable_lsn()
        );
        state.from = to;
        self.next_flush_from.store(to.0, Ordering::Relaxed);
        state.from_prev_used = next_prev_used;
        let open_tail = offset_in_block(to) != 0;
        state.in_flight.push_back(InFlightFlush {
            from: plan.from,
            prev_used: plan.prev_used,
            end: to,
            done: None,
            open_tail,
            started_us: now,
            deadline_us: taken.deadline_us,
        });
        self.count_in_flight(state);
        self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
        self.metrics.max(M::LogFlushDepthMax, state.in_flight.len() as u64);
        Some(plan)
    }

    /// Returns the end of a flush that starts now, and the `prev_used` of the block that holds this
    /// end. `None` if there is nothing to flush, or no room to seal.
    fn range_end(&self, state: &FlushState) -> Option<(Lsn, u16)> {
        if self.ring.reserved() <= state.from {
            return None;
        }
        if !state.in_flight.is_empty() || should_seal(&self.view(state, 1)) {
            if let Some(seal) = self.ring.seal() {
                self.metrics.add(M::RedoPadBytes, seal.pad);
                return Some((seal.end, seal.used));
            }
            if !state.in_flight.is_empty() {
                return None;
            }
        }
        // Not only what is published: threads that have reserved are copying, which takes no time.
        let to = self.ring.reserved();
        let same_block = block_of(to) == block_of(state.from);
        Some((to, if same_block { state.from_prev_used } else { PAYLOAD_BYTES as u16 }))
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
        let mut turn = 0;
        while self.ring.published() < plan.to {
            spin(&mut turn);
        }
        base::check!(
            self.durable_lsn() <= plan.from || planted(Bug::DurableOutOfOrder),
            "{} is durable before it is written",
            plan.from
        );
        let commits = self.unflushed_commits.swap(0, Ordering::Relaxed);
        let done = self.write_and_sync(&mut plan, reason);
        let mut state = self.flush.lock();
        if let Err(error) = done {
            let poisoned = self.poison.set(error);
            self.wake_all(state);
            return Err(poisoned);
        }
        let done_us = self.vfs.clock.now_us();
        let took = done_us.saturating_sub(plan.started_us);
        self.metrics.time(Latency::LogSync, took);
        state.usual_us = if state.usual_us == 0 { took } else { (state.usual_us * 7 + took) / 8 };
        state.scratch.push(plan.scratch);
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
        let flush = state.in_flight.iter_mut().find(|f| f.end == end).expect("the flush is in flight");
        flush.done = Some(info);
        self.advance_durable(&mut state, end, info.done_us);
        self.wake_covered(state);
        if planted(Bug::WakersCalledByLeader) {
            self.wake_tasks();
        }
        Ok(self.flush.lock())
    }

    /// Moves the durable LSN over the prefix of completed flushes. The flush that ends at `end` was
    /// the last to complete, at `done_us`.
    fn advance_durable(&self, state: &mut FlushState, end: Lsn, done_us: u64) {
        let mut durable = None;
        let mut prefix = self.durable_lsn();
        while let Some(flush) = state.in_flight.pop_front_if(|flush| flush.done.is_some()) {
            // INV-7: the completed prefix has no hole, and never shrinks.
            base::check!(
                flush.from == prefix && flush.from < flush.end || planted(Bug::DurableOutOfOrder),
                "a flush {}..{} behind the durable LSN {prefix}",
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
            durable = Some(end.max(self.durable_lsn()));
        }
        self.count_in_flight(state);
        if let Some(durable) = durable {
            base::verify!(durable <= self.ring.published(), "{durable} is durable and not published");
            self.durable.store(durable.0, Ordering::Release);
            self.ring.follow(durable);
            self.metrics.set(M::DurableLsn, durable.0);
            self.deadlines.set_in_flight(state.in_flight.iter().map(|f| f.deadline_us));
        }
    }

    /// Wakes the threads whose positions are durable, and a thread to lead the next flush if one
    /// may start now. Releases the mutex first.
    fn wake_covered(&self, mut state: MutexGuard<'_, FlushState>) {
        let covered = state.waiters.take_below(self.durable_lsn());
        let mut next = None;
        let mut log_thread = false;
        if self.slot_free(&state, 0) {
            log_thread = self.flush_due_in(&state) == Some(0);
            for wake in state.waiters.beyond(state.from) {
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
    pub(crate) fn wake_all_waiters(&self) {
        self.wake_all(self.flush.lock());
    }

    /// Calls the wakers of the tasks whose wait is over. REQUIRES: the caller holds nothing and is
    /// not inside a call that closing waits for, because a waker may close the database.
    pub(crate) fn wake_tasks(&self) {
        let ready = self.flush.lock().waiters.take_ready();
        for waker in ready {
            // A caller's panic is reported by its own message. The other wakers are called all the
            // same.
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }
}
