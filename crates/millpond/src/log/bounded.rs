//! Commits that do not wait for their own flush, and the log thread that flushes for them.
//!
//! A bounded commit (Co11) returns at once as long as no acknowledged commit is older than it was promised to stay
//! undurable, nor further behind than so many bytes. What it relies on is a **promise**: the moment by which everything
//! appended so far shall be durable. One word holds the earliest; the next flush, whoever leads it, takes it along with
//! all that has been reserved, so a stream of commits makes one promise per flush, not one each. The log thread leads
//! where nobody else does before the moment comes.

use super::Log;
use super::commit::FlushState;
use crate::error::Result;
use base::Lsn;
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Parker, point};
use metrics::SyncReason;
use std::time::Duration;
use vfs::Clock;

/// No moment.
const NEVER: u64 = u64::MAX;

/// The moments by which commits that did not wait shall be durable, microseconds of the clock.
#[derive(Debug)]
pub(crate) struct FlushDeadlines {
    /// For what no flight has taken.
    pending_us: AtomicU64,
    /// The earliest among the flights in the air.
    in_flight_us: AtomicU64,
    /// Somebody wants a flush now, and does not wait for it: one more than the number of the reason, or 0.
    request: AtomicU32,
}

impl Default for FlushDeadlines {
    fn default() -> Self {
        FlushDeadlines {
            pending_us: AtomicU64::new(NEVER),
            in_flight_us: AtomicU64::new(NEVER),
            request: AtomicU32::new(0),
        }
    }
}

impl FlushDeadlines {
    /// FlushDeadlines `at`. The answer says whether that is earlier than what was promised and no flush has taken.
    fn lower_to(&self, at: u64) -> bool {
        self.pending_us.load(Ordering::SeqCst) > at && self.pending_us.fetch_min(at, Ordering::SeqCst) > at
    }

    /// Asks for a flush at once. The answer says whether nobody had.
    fn request_now(&self, why: SyncReason) -> bool {
        self.request.load(Ordering::SeqCst) == 0 && self.request.swap(why as u32 + 1, Ordering::SeqCst) == 0
    }

    /// A flush takes the promise. Whoever relied on it reserved before, so the reservation point that the flush reads
    /// afterwards covers it.
    ///
    /// Until [`FlushDeadlines::in_flight`] it counts as taken by a flight, so that at no time it is in neither place.
    pub(super) fn take(&self) -> TakenDeadline {
        let request = self.request.swap(0, Ordering::SeqCst);
        self.in_flight_us.fetch_min(self.pending_us.load(Ordering::SeqCst), Ordering::SeqCst);
        TakenDeadline { deadline_us: self.pending_us.swap(NEVER, Ordering::SeqCst), request }
    }

    /// The flush did not come about.
    pub(super) fn put_back(&self, taken: TakenDeadline) {
        self.pending_us.fetch_min(taken.deadline_us, Ordering::SeqCst);
        if taken.request != 0 {
            let _ = self.request.compare_exchange(0, taken.request, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Says what the flights in the air have taken, after each change. Requires the log's mutex.
    pub(super) fn set_in_flight(&self, taken: impl Iterator<Item = u64>) {
        self.in_flight_us.store(taken.min().unwrap_or(NEVER), Ordering::SeqCst);
    }

    /// For what somebody wants a flush now that none has taken.
    fn requested(&self) -> Option<SyncReason> {
        let index = self.request.load(Ordering::SeqCst).checked_sub(1)?;
        Some(SyncReason::ALL[index as usize])
    }

    /// Microseconds until a flush must start, if it takes `usual_us`, to keep the promise: 0 if it must now, `None` if
    /// nothing is taken.
    fn due_in(&self, clock: &dyn Clock, usual_us: u64) -> Option<u64> {
        let at = self.pending_us.load(Ordering::SeqCst);
        (at != NEVER).then(|| at.saturating_sub(2 * usual_us).saturating_sub(clock.now_us()))
    }

    /// Whether a promise was broken.
    fn missed(&self, now_us: u64) -> bool {
        self.pending_us.load(Ordering::SeqCst).min(self.in_flight_us.load(Ordering::SeqCst)) < now_us
    }
}

/// What a flush has taken upon it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenDeadline {
    /// The moment that was promised, microseconds of the clock.
    pub(super) deadline_us: u64,
    /// It is the one that somebody wanted at once, see [`FlushDeadlines`].
    request: u32,
}

/// What the log thread found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogThreadStep {
    /// A flush.
    Flushed,
    /// Nothing for so long, or until it is woken.
    Idle(Option<Duration>),
}

impl Log {
    /// Returns as soon as the commit at `lsn` may be acknowledged under a bound: no acknowledged commit stays undurable
    /// longer than `ms` milliseconds, and none lies further than `bytes` behind the durable LSN.
    pub(crate) fn flush_bounded(&self, lsn: Lsn, ms: u64, bytes: u64) -> Result {
        if self.durable_lsn() > lsn {
            return Ok(());
        }
        self.poison.check()?;
        let now = self.vfs.clock.now_us();
        if self.deadlines.lower_to(now.saturating_add(ms.saturating_mul(1000)).min(NEVER - 1)) {
            self.log_thread.unpark();
        }
        point();
        if self.deadlines.missed(now) {
            return self.flush_to(lsn, SyncReason::Bounded).map(drop);
        }
        let end = self.reserved_lsn();
        if end.since(self.durable_lsn()) > bytes / 2 {
            // Early enough that the next commits need not wait.
            self.flush_soon(SyncReason::Bounded);
        }
        if lsn.since(self.durable_lsn().min(lsn)) >= bytes {
            self.flush_to(Lsn(lsn.0 - bytes), SyncReason::Bounded)?;
        }
        Ok(())
    }

    /// Has what has been appended so far flushed, by the log thread or by a committer that leads before it does.
    pub(crate) fn flush_soon(&self, why: SyncReason) {
        // The order matters: whoever ends a flight says first that it has landed and looks then whether one is wanted.
        // So one of the two sees the other, and while a flight is in the air nobody pays for waking the log thread.
        if self.deadlines.request_now(why) && self.in_flight.load(Ordering::SeqCst) == 0 {
            self.log_thread.unpark();
        }
    }

    /// Leads flushes, and tells tasks, until `stop` is set (then wake it) or the database is poisoned. What the log thread does.
    pub(crate) fn serve(&self, parker: &Parker, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let led = self.flush_if_wanted();
            // Before it sleeps, and after a failure: who has served a task hands over a token after it has put it on the list.
            self.wake_tasks();
            match led {
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

    /// Leads one flush if one is wanted by somebody who does not wait: a call, a promise, a half-full ring.
    pub(crate) fn flush_if_wanted(&self) -> Result<LogThreadStep> {
        let mut state = self.flush.lock();
        self.poison.check()?;
        let wait_us = if state.has_uncovered() { Some(0) } else { self.flush_due_in(&state) };
        match wait_us {
            None => return Ok(LogThreadStep::Idle(None)),
            Some(us) if us > 0 => return Ok(LogThreadStep::Idle(Some(Duration::from_micros(us)))),
            // The end of a flight in the air wakes this thread again.
            Some(_) if !self.slot_free(&state, 0) => return Ok(LogThreadStep::Idle(None)),
            Some(_) => {}
        }
        let why = self.flush_reason(&state);
        let Some(plan) = self.plan_flush(&mut state) else { return Ok(LogThreadStep::Idle(None)) };
        drop(self.run_flush(state, plan, why)?);
        Ok(LogThreadStep::Flushed)
    }

    /// For what the log thread leads: for those who wait, because the buffer fills up, for who asked, or to keep a promise.
    fn flush_reason(&self, state: &FlushState) -> SyncReason {
        if state.has_uncovered() {
            return SyncReason::Commit;
        }
        if self.reserved_lsn().since(state.from) > self.flush_threshold() {
            return SyncReason::LogFullBuffer;
        }
        self.deadlines.requested().unwrap_or(SyncReason::Bounded)
    }

    /// Microseconds until a flush must start that nobody waits for; `None` if there is no such.
    pub(super) fn flush_due_in(&self, state: &FlushState) -> Option<u64> {
        if self.reserved_lsn().since(state.from) > self.flush_threshold() {
            return Some(0);
        }
        // Not beside a flight: what it leaves gathers meanwhile, and those who wait for their commits may lead before.
        if state.none_in_flight() && self.deadlines.requested().is_some() {
            return Some(0);
        }
        self.deadlines.due_in(&*self.vfs.clock, state.usual_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::{LogDir, commit, start};
    use std::sync::Arc;
    use std::task::Waker;

    /// A clock that stands until it is moved.
    #[derive(Debug, Default)]
    struct Still(AtomicU64);

    impl Clock for Still {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
        fn unix_seconds(&self) -> u64 {
            0
        }
        fn random_u64(&self) -> u64 {
            0
        }
    }

    fn at(dir: &LogDir, us: u64) -> (Log, Arc<Still>) {
        let clock = Arc::new(Still(AtomicU64::new(us)));
        let mut log = dir.log(start());
        log.vfs.clock = Arc::clone(&clock) as Arc<dyn Clock>;
        (log, clock)
    }

    #[test]
    fn a_promise_moves_from_those_who_wait_to_the_flight_and_ends_with_it() {
        let deadlines = FlushDeadlines::default();
        let clock = Still::default();
        assert_eq!(deadlines.due_in(&clock, 90), None);
        assert!(deadlines.lower_to(5000));
        assert!(!deadlines.lower_to(6000), "an earlier one covers it");
        assert!(deadlines.lower_to(4000));
        assert_eq!(deadlines.due_in(&clock, 500), Some(3000), "two flushes before it ends");
        assert!(!deadlines.missed(4000) && deadlines.missed(4001));
        let taken = deadlines.take().deadline_us;
        assert_eq!(taken, 4000);
        assert_eq!(deadlines.due_in(&clock, 0), None);
        assert!(deadlines.missed(4001), "as long as the flight is in the air");
        deadlines.set_in_flight([9000, taken].into_iter());
        assert!(deadlines.missed(4001));
        deadlines.set_in_flight([9000].into_iter());
        assert!(!deadlines.missed(4001));
        assert!(deadlines.request_now(SyncReason::Bounded) && !deadlines.request_now(SyncReason::Commit));
        let taken = deadlines.take();
        assert_eq!(deadlines.requested(), None);
        deadlines.put_back(taken);
        assert_eq!(deadlines.requested(), Some(SyncReason::Bounded), "who asked first gives it its name");
        assert_eq!(deadlines.due_in(&clock, 0), None, "no moment was promised");
    }

    #[test]
    fn a_bounded_commit_waits_only_for_a_broken_promise() {
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
        assert!(log.durable_lsn() <= fourth, "the flush took the promise with it");
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
        assert!(free > 150, "only {free} commits of 200 came through without a flush");
    }

    /// Runs the log thread while `test` runs.
    fn with_log_thread(log: &mut Log, test: impl FnOnce(&Log)) {
        let parker = Parker::new();
        log.log_thread = parker.unparker();
        let stop = AtomicBool::new(false);
        let log = &*log;
        std::thread::scope(|scope| {
            scope.spawn(|| log.serve(&parker, &stop));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(log)));
            stop.store(true, Ordering::Release);
            log.log_thread.unpark();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// A task that is woken when its thread is to go on.
    struct Task(base::sync::Unparker);

    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits as a future does, for what the log thread flushes.
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
    fn the_log_thread_keeps_promises_and_wakes_tasks() {
        let dir = LogDir::new("bounded-thread");
        let mut log = dir.log(start());
        with_log_thread(&mut log, |log| {
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

    /// The log thread once went back to sleep when the group before the wanted one was still being copied; with no
    /// other commit to come, nobody ever heard.
    #[test]
    fn a_task_behind_a_slow_copy_is_woken() {
        let dir = LogDir::new("bounded-slow");
        let mut log = dir.log(start());
        with_log_thread(&mut log, |log| {
            let slow = log.ring.reserve(16, Lsn(0)).unwrap();
            let lsn = commit(log, 1, 100);
            log.flush_soon(SyncReason::Commit);
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            log.ring.copy(&slow, &[0; 16]);
            log.ring.publish(slow);
            await_durable(log, lsn);
        });
    }

    /// A waker may do anything, so who leads a flush does not call it: the log thread does. One that panics harms no other.
    #[test]
    fn wakers_are_called_by_the_log_thread_alone() {
        struct Told(Parker, AtomicU64, bool);
        impl std::task::Wake for Told {
            fn wake(self: Arc<Self>) {
                assert_eq!(std::thread::current().name(), Some("the log thread"));
                self.1.fetch_add(1, Ordering::SeqCst);
                self.0.unparker().unpark();
                assert!(!self.2, "a caller's panic");
            }
        }
        let dir = LogDir::new("bounded-wakers");
        let mut log = dir.log(start());
        let parker = Parker::new();
        log.log_thread = parker.unparker();
        let (stop, log) = (AtomicBool::new(false), &log);
        let told: Vec<_> =
            (0..4).map(|n| Arc::new(Told(Parker::new(), AtomicU64::new(0), n % 2 == 0))).collect();
        let lsns: Vec<_> = (0..4).map(|n| commit(log, n, 100)).collect();
        for (told, lsn) in told.iter().zip(&lsns) {
            assert!(log.poll_durable(*lsn, &mut None, &Waker::from(Arc::clone(told))).is_pending());
        }
        // Another than the log thread leads.
        log.flush_to(lsns[3], SyncReason::Commit).unwrap();
        assert!(told.iter().all(|told| told.1.load(Ordering::SeqCst) == 0));
        std::thread::scope(|scope| {
            let served = std::thread::Builder::new().name("the log thread".into());
            served.spawn_scoped(scope, || log.serve(&parker, &stop)).unwrap();
            told.iter().for_each(|told| told.0.park());
            stop.store(true, Ordering::Release);
            log.log_thread.unpark();
        });
        assert!(told.iter().all(|told| told.1.load(Ordering::SeqCst) == 1));
    }

    #[test]
    #[should_panic(expected = "nothing has been appended")]
    fn waiting_for_what_nobody_has_appended_is_our_own_bug() {
        let dir = LogDir::new("bounded-beyond");
        let log = dir.log(start());
        commit(&log, 1, 100);
        let _ = log.flush_to(log.reserved_lsn(), SyncReason::Commit);
    }
}
