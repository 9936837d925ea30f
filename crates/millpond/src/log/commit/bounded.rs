//! Commits that do not wait for their own flush, and the log thread, which flushes for them.
//!
//! A bounded commit (Co11) returns at once as long as no acknowledged commit has been undurable for
//! longer than its milliseconds, or lies further than its bytes beyond the durable LSN. It relies
//! on a **flush deadline**: the time by which everything appended so far must be durable. One word
//! holds the earliest deadline. The next flush, whichever thread leads it, takes the deadline
//! together with everything reserved. So a stream of commits sets one deadline per flush, not one
//! each. If no other thread leads a flush in time, the log thread does.

use super::GroupCommit;
use crate::error::Result;
use crate::log::deadlines::NEVER;
use crate::log::flush_state::FlushState;
use base::Lsn;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{Parker, point};
use metrics::SyncReason;
use std::time::Duration;

/// What the log thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogThreadStep {
    /// It led a flush.
    Flushed,
    /// Nothing. There is nothing to do for this long, or until the thread is woken.
    Idle(Option<Duration>),
}

impl GroupCommit {
    /// Returns as soon as the commit at `lsn` may be acknowledged under its bound: no acknowledged
    /// commit stays undurable for longer than `ms` milliseconds, and none lies further than `bytes`
    /// beyond the durable LSN. An error if the log has failed.
    pub(in crate::log) fn flush_bounded(&self, lsn: Lsn, ms: u64, bytes: u64) -> Result {
        if self.buffer.durable() > lsn {
            return Ok(());
        }
        self.poison.check()?;
        let now = self.clock.now_us();
        if self.deadlines.lower_to(now.saturating_add(ms.saturating_mul(1000)).min(NEVER - 1)) {
            self.log_thread.unpark();
        }
        point();
        if self.deadlines.missed(now) {
            return self.flush_to(lsn, SyncReason::Bounded).map(drop);
        }
        let end = self.buffer.reserved();
        if end.since(self.buffer.durable()) > bytes / 2 {
            // Early enough that the next commits need not wait.
            self.flush_soon(SyncReason::Bounded);
        }
        if lsn.since(self.buffer.durable().min(lsn)) >= bytes {
            self.flush_to(Lsn(lsn.0 - bytes), SyncReason::Bounded)?;
        }
        Ok(())
    }

    /// How far, in LSN units, the log may be reserved beyond the last flush before the log thread
    /// flushes without a request. It is far less than half of the buffer. So a thread that does not
    /// wait for durability never waits for room either, as long as the device keeps up.
    #[inline]
    fn flush_threshold(&self) -> u64 {
        self.buffer.capacity() / 8
    }

    /// Requests a flush if much has been appended since the last.
    #[inline]
    pub(in crate::log) fn flush_if_much(&self) {
        if self.buffer.reserved().0.saturating_sub(self.flushes.next_from().0) > self.flush_threshold() {
            self.flush_soon(SyncReason::LogFullBuffer);
        }
    }

    /// Requests a flush of everything appended so far, by the log thread or by a committer that
    /// leads before it does. Does not wait.
    pub(in crate::log) fn flush_soon(&self, why: SyncReason) {
        // The order matters. A thread that completes a flush first publishes that it is no longer
        // in flight, then looks for a request. So one of the two threads sees the other, and no
        // wake-up of the log thread is paid for while a flush is in flight.
        if self.deadlines.request_now(why) && self.flushes.are_idle() {
            self.log_thread.unpark();
        }
    }

    /// The loop of the log thread: leads flushes and calls the wakers of tasks, until `stop` is set
    /// (then wake it) or the database is poisoned.
    pub(in crate::log) fn serve(&self, parker: &Parker, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let step = self.flush_if_wanted();
            // Before it sleeps, and after a failure: a thread that makes a task ready unparks this
            // thread after that.
            self.wake_tasks();
            match step {
                Ok(LogThreadStep::Flushed) => {}
                Ok(LogThreadStep::Idle(None)) => parker.park(),
                Ok(LogThreadStep::Idle(Some(nap))) => drop(parker.park_for(nap)),
                Err(_) => {
                    self.wake_all_waiters();
                    return self.wake_tasks();
                }
            }
        }
    }

    /// Leads one flush if one is due that no thread waits for: for a request, a deadline, a task,
    /// or a log buffer that fills up.
    fn flush_if_wanted(&self) -> Result<LogThreadStep> {
        let mut state = self.flushes.lock();
        self.poison.check()?;
        let wait_us = if state.has_uncovered() { Some(0) } else { self.flush_due_in(&state) };
        match wait_us {
            None => return Ok(LogThreadStep::Idle(None)),
            Some(us) if us > 0 => return Ok(LogThreadStep::Idle(Some(Duration::from_micros(us)))),
            // The end of a flush in flight wakes this thread again.
            Some(_) if !self.slot_free(&state, 0) => return Ok(LogThreadStep::Idle(None)),
            Some(_) => {}
        }
        let reason = self.flush_reason(&state);
        let Some(plan) = self.plan_flush(&mut state) else { return Ok(LogThreadStep::Idle(None)) };
        drop(self.run_flush(state, plan, reason)?);
        Ok(LogThreadStep::Flushed)
    }

    /// The reason of a flush that the log thread leads: waiters, a log buffer that fills up, a
    /// request, or a deadline.
    fn flush_reason(&self, state: &FlushState) -> SyncReason {
        if state.has_uncovered() {
            return SyncReason::Commit;
        }
        if self.buffer.reserved().since(state.from()) > self.flush_threshold() {
            return SyncReason::LogFullBuffer;
        }
        self.deadlines.requested().unwrap_or(SyncReason::Bounded)
    }

    /// Returns the microseconds until a flush must start that no thread waits for; `None` if none
    /// is needed.
    pub(super) fn flush_due_in(&self, state: &FlushState) -> Option<u64> {
        if self.buffer.reserved().since(state.from()) > self.flush_threshold() {
            return Some(0);
        }
        // Not beside another flush: appended groups gather meanwhile, and threads that wait for
        // their commits may lead earlier.
        if state.none_in_flight() && self.deadlines.requested().is_some() {
            return Some(0);
        }
        self.deadlines.due_in(&*self.clock, state.usual_us())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::log::deadlines::tests::StillClock;
    use crate::log::tests::{LogDir, commit, start};
    use base::sync::atomic::AtomicU64;
    use std::sync::Arc;
    use std::task::Waker;
    use vfs::{Clock, Vfs};

    fn at(dir: &LogDir, us: u64) -> (Log, Arc<StillClock>) {
        let clock = Arc::new(StillClock(AtomicU64::new(us)));
        let vfs = Vfs { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Vfs::os() };
        (dir.log_of(vfs, start(), Parker::new().unparker()), clock)
    }

    #[test]
    fn a_bounded_commit_waits_only_after_a_missed_deadline() {
        let dir = LogDir::new("bounded-ms");
        let (log, clock) = at(&dir, 1_000_000);
        let first = commit(&log, 1, 100);
        log.flush_bounded(first, 50, u64::MAX).unwrap();
        clock.0.fetch_add(50_000, Ordering::SeqCst);
        let second = commit(&log, 2, 100);
        log.flush_bounded(second, 50, u64::MAX).unwrap();
        assert_eq!(log.durable_lsn(), Lsn(0), "50 ms have not passed");
        clock.0.fetch_add(1, Ordering::SeqCst);
        let third = commit(&log, 3, 100);
        log.flush_bounded(third, 50, u64::MAX).unwrap();
        assert!(log.durable_lsn() > third, "the first commit was older than 50 ms");
        clock.0.fetch_add(49_000, Ordering::SeqCst);
        let fourth = commit(&log, 4, 100);
        log.flush_bounded(fourth, 50, u64::MAX).unwrap();
        assert!(log.durable_lsn() <= fourth, "the flush took the deadline with it");
    }

    #[test]
    fn a_bounded_commit_never_runs_further_ahead_than_its_bytes() {
        let dir = LogDir::new("bounded-bytes");
        let (log, _) = at(&dir, 0);
        let mut free = 0;
        for n in 0..200 {
            let lsn = commit(&log, n, 100);
            let before = log.durable_lsn();
            log.flush_bounded(lsn, u64::MAX, 5000).unwrap();
            assert!(lsn.0 < log.durable_lsn().0 + 5000, "commit {n}");
            free += u64::from(log.durable_lsn() == before);
        }
        assert!(free > 150, "only {free} commits of 200 returned without a flush");
    }

    /// Runs the log thread while `test` runs.
    fn with_log_thread(dir: &LogDir, test: impl FnOnce(&Log)) {
        let parker = Parker::new();
        let log = &dir.log_of(Vfs::os(), start(), parker.unparker());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| log.serve(&parker, &stop));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(log)));
            stop.store(true, Ordering::Release);
            parker.unparker().unpark();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// A task whose waker unparks its thread.
    struct Task(base::sync::Unparker);

    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits as a future does for a flush by the log thread.
    fn await_durable(log: &Log, lsn: Lsn) {
        let parker = Parker::new();
        let (waker, mut ticket) = (Waker::from(Arc::new(Task(parker.unparker()))), None);
        log.flush_soon(SyncReason::Commit);
        while log.poll_durable(lsn, &mut ticket, &waker).map(Result::unwrap).is_pending() {
            parker.park();
        }
        assert!(log.durable_lsn() > lsn);
    }

    #[test]
    fn the_log_thread_meets_deadlines_and_wakes_tasks() {
        let dir = LogDir::new("bounded-thread");
        with_log_thread(&dir, |log| {
            for n in 0..20 {
                let lsn = commit(log, n, 100);
                match n % 3 {
                    0 => log.flush_bounded(lsn, 3, u64::MAX).unwrap(),
                    1 => log.flush_soon(SyncReason::Commit),
                    _ => await_durable(log, lsn),
                }
                while log.durable_lsn() <= lsn {
                    std::thread::yield_now();
                }
            }
        });
    }

    /// The log thread once went back to sleep while the group before the wanted one was still being
    /// copied. If no other commit followed, the task was never woken.
    #[test]
    fn a_task_behind_a_slow_copy_is_woken() {
        let dir = LogDir::new("bounded-slow");
        with_log_thread(&dir, |log| {
            let slow = log.buffer().reserve(16).unwrap();
            let lsn = commit(log, 1, 100);
            log.flush_soon(SyncReason::Commit);
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            log.buffer().put(slow, &[0; 16]);
            await_durable(log, lsn);
        });
    }

    /// A waker may do anything, so the leader of a flush does not call it: the log thread does. A
    /// waker that panics does not affect the others.
    #[test]
    fn wakers_are_called_by_the_log_thread_alone() {
        struct CountingWake(Parker, AtomicU64, bool);
        impl std::task::Wake for CountingWake {
            fn wake(self: Arc<Self>) {
                assert_eq!(std::thread::current().name(), Some("the log thread"));
                self.1.fetch_add(1, Ordering::SeqCst);
                self.0.unparker().unpark();
                assert!(!self.2, "a caller's panic");
            }
        }
        let dir = LogDir::new("bounded-wakers");
        let parker = Parker::new();
        let log = &dir.log_of(Vfs::os(), start(), parker.unparker());
        let stop = AtomicBool::new(false);
        let wakes: Vec<_> =
            (0..4).map(|n| Arc::new(CountingWake(Parker::new(), AtomicU64::new(0), n % 2 == 0))).collect();
        let lsns: Vec<_> = (0..4).map(|n| commit(log, n, 100)).collect();
        for (wake, lsn) in wakes.iter().zip(&lsns) {
            assert!(log.poll_durable(*lsn, &mut None, &Waker::from(Arc::clone(wake))).is_pending());
        }
        // This thread leads, not the log thread.
        log.flush_to(lsns[3], SyncReason::Commit).unwrap();
        assert!(wakes.iter().all(|wake| wake.1.load(Ordering::SeqCst) == 0));
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("the log thread".into());
            builder.spawn_scoped(scope, || log.serve(&parker, &stop)).unwrap();
            wakes.iter().for_each(|wake| wake.0.park());
            stop.store(true, Ordering::Release);
            parker.unparker().unpark();
        });
        assert!(wakes.iter().all(|wake| wake.1.load(Ordering::SeqCst) == 1));
    }

    #[test]
    #[should_panic(expected = "nothing has been appended")]
    fn waiting_for_a_position_that_was_not_appended_panics() {
        let dir = LogDir::new("bounded-beyond");
        let log = dir.log(start());
        commit(&log, 1, 100);
        let _ = log.flush_to(log.reserved_lsn(), SyncReason::Commit);
    }
}
