//! Which thread may complete a page from the log next while replay runs, and when.
//!
//! After a crash a thread that needs a page completes it itself, by reads at random places of the
//! log. A change costs ten times as much that way as in replay, which reads the log in order. If
//! all threads did so at once, replay would stand still, and no transaction would get all of its
//! pages soon. So threads take turns, a turn for each page:
//!
//! - Eight threads for each core are active at a time, others wait until one is active no more.
//!   The one that has been active longest is first: it has a turn whenever it needs one. So its
//!   transaction gets all of its pages and commits. The others have turns too, one at a time for
//!   two cores. A thread is active until it has not asked for a turn for a while: it has committed,
//!   or waits for a lock. After two seconds it makes room in any case.
//! - While replay runs, turns take a part of the cores' time only. Each of the first transactions
//!   needs many turns, so there is a stock of time at the beginning. Two thirds of it are for the
//!   first thread. A turn takes the time that its thread is on a core: while it waits for the
//!   device, or for a core, it takes nothing from replay.

use crate::constants::{
    REPLAY_ALONE_PART, REPLAY_ALONE_US_MAX, REPLAY_DEVICE_BYTES_PER_S, TURNS_ACTIVE_A_CORE, TURNS_ACTIVE_US,
    TURNS_DEBT_US, TURNS_FIRST_US, TURNS_IDLE_US, TURNS_SHARE, TURNS_STOCK_US,
};

/// The name of a thread that waits for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A thread has a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose turn it is.
    pub ticket: Ticket,
    /// It begins no earlier, microseconds.
    pub at_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    thread: usize,
}

/// An active thread.
#[derive(Clone, Copy, Debug)]
struct Active {
    thread: usize,
    /// Since when.
    since_us: u64,
    /// When its last turn ended. `None`: it waits for one, or has one.
    idle_since_us: Option<u64>,
}

impl Active {
    /// Returns when it makes room for others, microseconds, if it does not ask for a turn before.
    fn over_us(&self) -> Option<u64> {
        Some((self.idle_since_us? + TURNS_IDLE_US).min(self.since_us + TURNS_ACTIVE_US))
    }
}

/// The turns of all threads.
#[derive(Clone, Debug)]
pub struct PageTurns {
    cores: u32,
    tickets: u64,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    /// The one that has been active longest is first.
    active: Vec<Active>,
    /// Threads that have a turn and were not the first when it was granted.
    others: Vec<usize>,
    /// The time that turns may take now, microseconds, and when it was so. `None`: any time.
    budget: Option<(f64, u64)>,
}

impl PageTurns {
    /// Turns on a machine with so many cores. Their time is not limited.
    #[must_use]
    pub fn new(cores: u32) -> PageTurns {
        let (waiting, active) = (Vec::new(), Vec::new());
        PageTurns { cores: cores.max(1), tickets: 0, waiting, active, others: Vec::new(), budget: None }
    }

    /// From now on the time of turns is limited, or not.
    pub fn limit(&mut self, limited: bool, now_us: u64) {
        self.budget = limited.then_some((TURNS_STOCK_US, now_us));
    }

    /// Whether the time of turns is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.budget.is_some()
    }

    /// A thread asks for a turn.
    pub fn ask(&mut self, thread: usize) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.waiting.push(Waiting { ticket, thread });
        if let Some(active) = self.active_mut(thread) {
            active.idle_since_us = None;
        }
        ticket
    }

    /// Grants the next turn, if there may be one. To be asked after [`PageTurns::ask`], after
    /// [`PageTurns::end`] and at [`PageTurns::look_us`].
    pub fn next(&mut self, now_us: u64) -> Option<Grant> {
        self.choose_active(now_us);
        let place = |active: &Active| self.waiting.iter().position(|w| w.thread == active.thread);
        let first = self.active.first().and_then(place);
        let index = match first {
            Some(index) => index,
            // The other cores are for replay and for threads that have their pages.
            None if self.others.len() >= (self.cores / 2).max(1) as usize => return None,
            None => self.active.iter().find_map(place)?,
        };
        let Waiting { ticket, thread } = self.waiting.remove(index);
        let reserve_us = if first.is_some() { 0.0 } else { TURNS_FIRST_US };
        self.others.extend(first.is_none().then_some(thread));
        Some(Grant { ticket, at_us: now_us + self.missing_us(reserve_us, now_us) })
    }

    /// Removes threads that are active no more, and lets those that have waited longest be active.
    fn choose_active(&mut self, now_us: u64) {
        self.active.retain(|active| active.over_us().is_none_or(|over_us| now_us < over_us));
        for waiting in &self.waiting {
            if self.active.len() == self.cores as usize * TURNS_ACTIVE_A_CORE {
                break;
            }
            if self.active.iter().all(|active| active.thread != waiting.thread) {
                let (thread, since_us) = (waiting.thread, now_us);
                self.active.push(Active { thread, since_us, idle_since_us: None });
            }
        }
    }

    /// Returns when [`PageTurns::next`] can grant a turn to a thread that waits now, even if none
    /// is asked for and none ends before. Microseconds.
    #[must_use]
    pub fn look_us(&self) -> Option<u64> {
        self.active.iter().filter_map(Active::over_us).min()
    }

    /// A turn of this thread has ended. It was on a core for `us` microseconds.
    pub fn end(&mut self, thread: usize, us: u64, now_us: u64) {
        self.others.retain(|&other| other != thread);
        if let Some(active) = self.active_mut(thread) {
            active.idle_since_us = Some(now_us);
        }
        // Now, or a thread that asks again at once would never make room.
        self.choose_active(now_us);
        if self.budget.is_some() {
            let left_us = self.budget_at(now_us) - us as f64;
            self.budget = Some((left_us.max(-TURNS_DEBT_US), now_us));
        }
    }

    fn active_mut(&mut self, thread: usize) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| active.thread == thread)
    }

    /// Returns what turns may take, microseconds.
    fn budget_at(&self, now_us: u64) -> f64 {
        let Some((budget, at_us)) = self.budget else { return TURNS_STOCK_US };
        (budget + now_us.saturating_sub(at_us) as f64 * self.a_us()).min(TURNS_STOCK_US)
    }

    /// Returns after how many microseconds turns may take so much time.
    fn missing_us(&self, reserve_us: f64, now_us: u64) -> u64 {
        ((reserve_us - self.budget_at(now_us)).max(0.0) / self.a_us()).ceil() as u64
    }

    /// Returns what turns may take a microsecond, microseconds.
    fn a_us(&self) -> f64 {
        TURNS_SHARE * f64::from(self.cores)
    }
}

/// Returns for how long threads that need pages have the device for themselves before the log is
/// read in order, for a log of so many bytes and so many threads that need pages, microseconds. The
/// few pages of a single transaction are complete by then, which would wait for the whole log
/// behind such reads. The pages of many transactions are not, and would lose this time.
#[must_use]
pub fn alone_us(log_bytes: u64, threads: usize, cores: u32) -> u64 {
    if threads > cores as usize {
        return 0;
    }
    let whole_us = u128::from(log_bytes) * 1_000_000 / u128::from(REPLAY_DEVICE_BYTES_PER_S);
    REPLAY_ALONE_US_MAX.min((whole_us / u128::from(REPLAY_ALONE_PART)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::collections::{BTreeMap, BTreeSet};

    /// Turns of 16 threads, whose transactions need `pages` pages each. A thread reads each page
    /// for `read_us`, then completes it in a turn of `turn_us`. Returns when each thread had all of
    /// its pages, milliseconds, in this order.
    fn ends(turns: &mut PageTurns, pages: u32, read_us: u64, turn_us: u64) -> Vec<u64> {
        let mut left = [pages; 16];
        // When each thread will have read its next page, and who has the turn until when.
        let mut reads: Vec<(u64, usize)> = (0..16).map(|thread| (read_us, thread)).collect();
        let (mut owners, mut running, mut ends) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let mut now_us = 0;
        while ends.len() < 16 {
            reads.sort_unstable();
            let read = reads.first().map(|&(at_us, _)| at_us);
            let turn = running.first().map(|&(at_us, _)| at_us);
            let look = turns.look_us().map(|at_us| at_us.max(now_us + 1));
            now_us = [read, turn, look].into_iter().flatten().min().expect("something happens");
            if turn == Some(now_us) {
                let (_, thread) = running.pop_first().unwrap();
                turns.end(thread, turn_us, now_us);
                left[thread] -= 1;
                match left[thread] {
                    0 => ends.push(now_us / 1000),
                    _ => reads.push((now_us + read_us, thread)),
                }
            } else if read == Some(now_us) {
                let (_, thread) = reads.remove(0);
                owners.insert(turns.ask(thread), thread);
            }
            while let Some(grant) = turns.next(now_us) {
                running.insert((grant.at_us.max(now_us) + turn_us, owners[&grant.ticket]));
            }
        }
        ends
    }

    #[test]
    fn the_first_transactions_get_all_of_their_pages_soon() {
        // 60 pages of 100 changes: 16 transactions together have 0.34 s of turns.
        let work = ends(&mut PageTurns::new(2), 60, 8_000, 350);
        expect!["[501, 501, 501, 501, 502, 502, 502, 503, 503, 503, 504, 504, 504, 505, 505, 505]"]
            .assert_eq(&format!("{work:?}"));
        // 60 pages of 400 changes, beside a replay that takes as long.
        let mut turns = PageTurns::new(2);
        turns.limit(true, 0);
        let work = ends(&mut turns, 60, 2_000, 3_000);
        expect![
            "[300, 938, 4728, 9518, 12818, 17558, 17973, 20181, 20364, 20553, 21798, 23766, 23909, 24208, 25018, 26143]"
        ]
        .assert_eq(&format!("{work:?}"));
    }

    /// Each thread asks again as soon as its turn is over.
    #[test]
    fn nobody_waits_for_ever() {
        for threads in [3, 100] {
            let mut turns = PageTurns::new(2);
            let mut owner: BTreeMap<_, _> = (0..threads).map(|thread| (turns.ask(thread), thread)).collect();
            let mut had = BTreeMap::new();
            let mut now_us = 0;
            while had.len() < threads {
                let mut running = Vec::new();
                while let Some(grant) = turns.next(now_us) {
                    running.push(owner[&grant.ticket]);
                }
                assert!((1..=2).contains(&running.len()), "the first one and another one: {running:?}");
                now_us += 10_000;
                for thread in running {
                    had.entry(thread).or_insert(now_us);
                    turns.end(thread, 10_000, now_us);
                    owner.insert(turns.ask(thread), thread);
                }
            }
            let last_us = had.values().copied().max().unwrap();
            assert!(last_us <= threads as u64 * TURNS_ACTIVE_US, "{threads} threads: {last_us} us");
        }
    }

    #[test]
    fn a_thread_that_does_not_ask_makes_room() {
        // One core: eight are active.
        let mut turns = PageTurns::new(1);
        let next = |turns: &mut PageTurns, now_us| turns.next(now_us).map(|grant| grant.ticket);
        let tickets: Vec<_> = (0..9).map(|thread| turns.ask(thread)).collect();
        assert_eq!(next(&mut turns, 0), Some(tickets[0]), "the first one");
        assert_eq!(next(&mut turns, 0), Some(tickets[1]), "another one");
        assert_eq!(next(&mut turns, 0), None, "one other at a time");
        turns.end(0, 100, 100);
        let again = turns.ask(0);
        assert_eq!(next(&mut turns, 100), Some(again), "the first one never waits");
        turns.end(0, 100, 200);
        for (thread, ticket) in (1..8).zip(&tickets[2..8]) {
            turns.end(thread, 100, 200);
            assert_eq!(next(&mut turns, 200), Some(*ticket));
        }
        turns.end(7, 100, 200);
        assert_eq!(next(&mut turns, 200), None, "eight are active, and will ask again");
        assert_eq!(turns.look_us(), Some(200 + TURNS_IDLE_US));
        let second = turns.ask(1);
        assert_eq!(next(&mut turns, 199 + TURNS_IDLE_US), Some(second));
        assert_eq!(next(&mut turns, 199 + TURNS_IDLE_US), None);
        // The second one is first now.
        turns.end(1, 100, 200 + TURNS_IDLE_US);
        let second = turns.ask(1);
        assert_eq!(next(&mut turns, 200 + TURNS_IDLE_US), Some(second));
        assert_eq!(next(&mut turns, 200 + TURNS_IDLE_US), Some(tickets[8]));
    }

    #[test]
    fn turns_take_a_part_of_the_time_while_replay_runs() {
        for (cores, most) in [(1, 2), (2, 2), (8, 5)] {
            let mut turns = PageTurns::new(cores);
            (0..9).for_each(|thread| {
                turns.ask(thread);
            });
            let granted = std::iter::from_fn(|| turns.next(0)).count();
            assert_eq!(granted, most, "{cores} cores");
        }
        let mut turns = PageTurns::new(2);
        let turn = |turns: &mut PageTurns, now_us, us| {
            turns.ask(1);
            let at_us = turns.next(now_us).unwrap().at_us;
            turns.end(1, us, at_us + us);
            at_us
        };
        // Before replay begins any time will do.
        turn(&mut turns, 0, 10_000_000);
        turns.limit(true, 10_000_000);
        let (mut now_us, mut taken_us) = (10_000_000, 0);
        while now_us < 20_000_000 {
            now_us = turn(&mut turns, now_us, 500) + 500;
            taken_us += 500;
        }
        // 0.1 of the time of two cores, and the stock.
        assert!((1_290_000..=1_305_000).contains(&taken_us), "{taken_us} us");
        // A pause fills the stock, and no more. A long turn counts for little more.
        assert_eq!(turn(&mut turns, 90_000_000, 2_000_000), 90_000_000);
        assert_eq!(turn(&mut turns, 92_000_000, 0), 92_000_000 + (TURNS_DEBT_US / 0.1) as u64);
        turns.limit(false, 92_000_000);
        assert_eq!(turn(&mut turns, 92_000_000, 0), 92_000_000, "replay has ended");
    }

    #[test]
    fn the_others_leave_a_part_of_the_stock_to_the_first_one() {
        let mut turns = PageTurns::new(2);
        turns.limit(true, 0);
        let [_, other] = [1, 2].map(|thread| turns.ask(thread));
        turns.next(0).unwrap();
        turns.end(1, 150_000, 0);
        let grant = turns.next(0).unwrap();
        assert_eq!(grant, Grant { ticket: other, at_us: ((TURNS_FIRST_US - 150_000.0) / 0.1) as u64 });
        let first = turns.ask(1);
        assert_eq!(turns.next(0), Some(Grant { ticket: first, at_us: 0 }));
    }

    #[test]
    fn a_long_log_is_read_in_order_a_moment_later() {
        let ms = |mib: u64| alone_us(mib << 20, 2, 2) / 1000;
        assert_eq!([0, 100, 500, 2000].map(ms), [0, 17, 87, 349]);
        assert_eq!(alone_us(u64::MAX, 0, 1), REPLAY_ALONE_US_MAX);
        assert_eq!(alone_us(2000 << 20, 3, 2), 0, "three transactions");
    }
}
