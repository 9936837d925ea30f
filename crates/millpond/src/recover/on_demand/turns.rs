//! Threads that complete pages from the log take turns, by the rules of [`pace::page_turns`].

use base::sync::atomic::{AtomicUsize, Ordering};
use base::sync::{Condvar, Mutex, thread_number};
use pace::page_turns::{Grant, PageTurns, Ticket};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// The turns of all threads.
#[derive(Debug)]
pub(super) struct Turns {
    clock: Arc<dyn Clock>,
    /// Read once: that takes reads of files.
    cores: u32,
    state: Mutex<TurnsState>,
    /// Threads that have a turn. Changes under the mutex.
    working: AtomicUsize,
}

#[derive(Debug)]
struct TurnsState {
    policy: PageTurns,
    /// Turns whose threads have not begun them.
    granted: BTreeMap<Ticket, Grant>,
    /// Threads that wait for the beginning of their turn, each on a condition of its own.
    waiting: BTreeMap<Ticket, Arc<Condvar>>,
    /// The thread that looks by itself whether there is a turn, and when, microseconds.
    looks: Option<(Ticket, u64)>,
}

impl TurnsState {
    /// Grants what turns there may be, and wakes their threads.
    fn grant(&mut self, now_us: u64) {
        while let Some(grant) = self.policy.next(now_us) {
            self.granted.insert(grant.ticket, grant);
            if let Some(waiting) = self.waiting.get(&grant.ticket) {
                waiting.notify_all();
            }
        }
        // The first one looks by itself, unless it has just become the first, or an active thread
        // makes room earlier than it will look.
        let at_us = self.policy.look_us().unwrap_or(u64::MAX);
        if let Some((&first, waiting)) = self.first_without()
            && self.looks.is_none_or(|(ticket, looks_us)| ticket != first || at_us < looks_us)
        {
            waiting.notify_all();
        }
    }

    /// The first thread that waits and has no turn.
    fn first_without(&self) -> Option<(&Ticket, &Arc<Condvar>)> {
        self.waiting.iter().find(|(ticket, _)| !self.granted.contains_key(ticket))
    }

    /// Returns for how long this thread waits until it looks whether there is a turn. Only the
    /// first one that waits does so, or all would wake in vain.
    fn look_after(&mut self, ticket: Ticket, now_us: u64) -> Option<Duration> {
        let (first, _) = self.first_without()?;
        if *first != ticket {
            return None;
        }
        let at_us = self.policy.look_us();
        self.looks = Some((ticket, at_us.unwrap_or(u64::MAX)));
        at_us.map(|at_us| Duration::from_micros(at_us.saturating_sub(now_us).max(1)))
    }
}

impl Turns {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Turns {
        let cores = clock.cores();
        let policy = PageTurns::new(cores);
        let (granted, waiting) = (BTreeMap::new(), BTreeMap::new());
        let state = TurnsState { policy, granted, waiting, looks: None };
        Turns { clock: Arc::clone(clock), cores, state: Mutex::new(state), working: AtomicUsize::new(0) }
    }

    /// Does `work` in a turn. REQUIRES: the caller has no turn, and `work` waits for no thread that
    /// waits for a turn.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        self.await_turn();
        let _ending = EndOfTurn { turns: self, thread: thread_number(), begun_us: self.clock.thread_us() };
        work()
    }

    fn await_turn(&self) {
        let mut state = self.state.lock();
        let ticket = state.policy.ask(thread_number());
        let own = Arc::new(Condvar::new());
        state.waiting.insert(ticket, Arc::clone(&own));
        state.grant(self.clock.now_us());
        loop {
            let Some(grant) = state.granted.get(&ticket).copied() else {
                let now_us = self.clock.now_us();
                match state.look_after(ticket, now_us) {
                    Some(time) => drop(own.wait_for(&mut state, time)),
                    None => own.wait(&mut state),
                }
                state.grant(self.clock.now_us());
                continue;
            };
            let early_us = grant.at_us.saturating_sub(self.clock.now_us());
            if early_us == 0 || !state.policy.is_limited() {
                break;
            }
            own.wait_for(&mut state, Duration::from_micros(early_us));
        }
        state.granted.remove(&ticket);
        state.waiting.remove(&ticket);
        self.working.fetch_add(1, Ordering::Relaxed);
    }

    /// Says whether the time of turns is limited, because replay runs.
    pub(super) fn limit(&self, limited: bool) {
        let mut state = self.state.lock();
        state.policy.limit(limited, self.clock.now_us());
        state.waiting.values().for_each(|waiting| waiting.notify_all());
    }

    /// Returns how many threads have a turn or wait for one.
    pub(super) fn threads(&self) -> usize {
        let waiting = self.state.lock().waiting.len();
        waiting + self.working.load(Ordering::Relaxed)
    }

    /// Returns how many threads can run at a time.
    pub(super) fn cores(&self) -> u32 {
        self.cores
    }

    #[cfg(test)]
    pub(super) fn is_limited(&self) -> bool {
        self.state.lock().policy.is_limited()
    }
}

/// Ends a turn, also after a panic.
struct EndOfTurn<'t> {
    turns: &'t Turns,
    thread: usize,
    /// The time of the cores that the thread had used before.
    begun_us: u64,
}

impl Drop for EndOfTurn<'_> {
    fn drop(&mut self) {
        let clock = &self.turns.clock;
        // While a turn waits, for the device or for a core, it takes nothing from replay.
        let used_us = clock.thread_us().saturating_sub(self.begun_us);
        let now_us = clock.now_us();
        let mut state = self.turns.state.lock();
        self.turns.working.fetch_sub(1, Ordering::Relaxed);
        state.policy.end(self.thread, used_us, now_us);
        state.grant(now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::atomic::{AtomicU32, AtomicU64};
    use vfs::mem::ManualClock;

    /// Two cores: the first thread has a turn when it needs one, and one of the others.
    #[test]
    fn a_thousand_threads_get_their_turns_at_most_two_at_a_time() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        let turns = Arc::new(Turns::new(&clock));
        let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..1000)
            .map(|n| {
                let (turns, inside, done) = (Arc::clone(&turns), Arc::clone(&inside), Arc::clone(&done));
                base::sync::spawn("caller", move || {
                    for _ in 0..3 {
                        turns.take(|| {
                            assert!(inside.fetch_add(1, Ordering::AcqRel) < 2, "three turns at a time");
                            done.fetch_add(1, Ordering::AcqRel);
                            inside.fetch_sub(1, Ordering::AcqRel);
                        });
                        if n % 100 == 0 {
                            turns.limit(n % 200 == 0);
                        }
                    }
                })
            })
            .map(|thread| thread.unwrap())
            .collect();
        // Each reading moves the clock. Without time, threads that have ended would stay active.
        while !threads.iter().all(|thread| thread.is_finished()) {
            (0..10_000).for_each(|_| _ = clock.now_us());
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(done.load(Ordering::Acquire), 3000);
        let state = turns.state.lock();
        assert!(state.waiting.is_empty() && state.granted.is_empty());
    }

    /// Threads that never use a core.
    #[derive(Debug)]
    struct Waiting(ManualClock);

    impl Clock for Waiting {
        fn now_us(&self) -> u64 {
            self.0.now_us()
        }
        fn thread_us(&self) -> u64 {
            7
        }
        fn unix_seconds(&self) -> u64 {
            0
        }
        fn random_u64(&self) -> u64 {
            0
        }
    }

    /// The first transactions wait for the device, and had used up the time of all turns by that.
    #[test]
    fn a_turn_that_waits_takes_no_time() {
        let granted_after = |clock: Arc<dyn Clock>| {
            let turns = Turns::new(&clock);
            turns.limit(true);
            turns.take(|| (0..2_000_000).for_each(|_| _ = clock.now_us()));
            let mut state = turns.state.lock();
            state.policy.ask(thread_number());
            let now_us = clock.now_us();
            state.policy.next(now_us).unwrap().at_us - now_us
        };
        assert_eq!(granted_after(Arc::new(Waiting(ManualClock::new(1)))), 0);
        assert!(granted_after(Arc::new(ManualClock::new(1))) > 0, "here time passes on a core");
    }

    #[test]
    fn a_panic_in_a_turn_ends_it() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        let turns = Arc::new(Turns::new(&clock));
        let theirs = Arc::clone(&turns);
        let thread = base::sync::spawn("caller", move || theirs.take(|| panic!("in a turn"))).unwrap();
        thread.join().unwrap_err();
        assert_eq!(turns.take(|| 5), 5);
    }
}
