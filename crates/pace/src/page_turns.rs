//! Which thread may complete a page from the log next while replay runs, and when.
//!
//! After a crash a thread that needs a page completes it itself, by reads at random places of the
//! log. A change costs ten times as much that way as in replay, which reads the log in order. If
//! all threads did so at once, replay would stand still, and no transaction would get all of its
//! pages soon. So threads take turns, a turn for each page:
//!
//! - The thread that had a turn last is first. So one transaction gets all of its pages, commits,
//!   and the next one follows. A thread that has waited for a second is before all others.
//! - While replay runs, turns take a part of the time only. Each of the first transactions needs
//!   many turns, so there is a stock of time at the beginning.

use std::collections::BTreeMap;

/// A thread that has waited so long is before all others, microseconds.
const LONG_WAIT_US: u64 = 1_000_000;
/// The time that turns may take before their part counts, microseconds.
const STOCK_US: f64 = 200_000.0;
/// The part of the cores' time that turns may take.
const PART: f64 = 0.15;

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
    since_us: u64,
}

/// The turns of all threads.
#[derive(Clone, Debug)]
pub struct PageTurns {
    cores: u32,
    tickets: u64,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    /// Turns that have been granted and have not ended.
    granted: u32,
    /// Which turn each thread had last.
    last: BTreeMap<usize, u64>,
    turns: u64,
    /// The time that turns may take now, microseconds, and when it was so. `None`: any time.
    budget: Option<(f64, u64)>,
}

impl PageTurns {
    /// Turns on a machine with so many cores. Their time is not limited.
    #[must_use]
    pub fn new(cores: u32) -> PageTurns {
        let (waiting, last) = (Vec::new(), BTreeMap::new());
        PageTurns { cores: cores.max(1), tickets: 0, waiting, granted: 0, last, turns: 0, budget: None }
    }

    /// From now on the time of turns is limited, or not.
    pub fn limit(&mut self, limited: bool, now_us: u64) {
        self.budget = limited.then_some((STOCK_US, now_us));
    }

    /// Whether the time of turns is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.budget.is_some()
    }

    /// A thread asks for a turn.
    pub fn ask(&mut self, thread: usize, now_us: u64) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.waiting.push(Waiting { ticket, thread, since_us: now_us });
        ticket
    }

    /// Grants the next turn, if there may be one. To be asked after [`PageTurns::ask`] and after
    /// [`PageTurns::end`].
    pub fn next(&mut self, now_us: u64) -> Option<Grant> {
        // The other cores are for replay and for threads that have their pages.
        if self.granted >= (self.cores / 2).max(1) {
            return None;
        }
        let first = self.waiting.first()?;
        let index = if now_us.saturating_sub(first.since_us) >= LONG_WAIT_US {
            0
        } else {
            // The first of those that are equal.
            let rank = |n: &usize| self.last.get(&self.waiting[*n].thread).copied().unwrap_or(0);
            (0..self.waiting.len()).rev().max_by_key(rank)?
        };
        let Waiting { ticket, thread, .. } = self.waiting.remove(index);
        self.granted += 1;
        self.turns += 1;
        self.last.insert(thread, self.turns);
        Some(Grant { ticket, at_us: now_us + self.missing_us(now_us) })
    }

    /// A turn has ended. It took `us` microseconds.
    pub fn end(&mut self, us: u64, now_us: u64) {
        self.granted = self.granted.saturating_sub(1);
        if self.budget.is_some() {
            self.budget = Some((self.budget_at(now_us) - us as f64, now_us));
        }
    }

    /// Returns what turns may take, microseconds.
    fn budget_at(&self, now_us: u64) -> f64 {
        let Some((budget, at_us)) = self.budget else { return STOCK_US };
        (budget + now_us.saturating_sub(at_us) as f64 * self.a_us()).min(STOCK_US)
    }

    /// Returns after how many microseconds turns may take time again.
    fn missing_us(&self, now_us: u64) -> u64 {
        ((-self.budget_at(now_us)).max(0.0) / self.a_us()).ceil() as u64
    }

    /// Returns what turns may take a microsecond, microseconds.
    fn a_us(&self) -> f64 {
        PART * f64::from(self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a turn for each of the threads, and returns the threads in the order of their turns
    /// of `us` microseconds each.
    fn order(turns: &mut PageTurns, threads: &[usize], now_us: u64, us: u64) -> Vec<usize> {
        let tickets: BTreeMap<_, _> = threads.iter().map(|&n| (turns.ask(n, now_us), n)).collect();
        let mut order = Vec::new();
        while let Some(grant) = turns.next(now_us) {
            order.push(tickets[&grant.ticket]);
            turns.end(us, now_us);
        }
        order
    }

    #[test]
    fn who_had_a_turn_last_is_first() {
        let mut turns = PageTurns::new(2);
        assert_eq!(order(&mut turns, &[7, 8, 9], 0, 1), [7, 8, 9], "nobody had one: in their order");
        assert_eq!(order(&mut turns, &[8, 7, 9], 10, 1), [9, 8, 7]);
        assert_eq!(order(&mut turns, &[5, 8], 20, 1), [8, 5], "a new one is last");
    }

    #[test]
    fn a_transaction_gets_all_of_its_pages_before_the_next_one() {
        let mut turns = PageTurns::new(2);
        let mut owner = BTreeMap::new();
        let mut ask = |turns: &mut PageTurns, thread| owner.insert(turns.ask(thread, 0), thread);
        // While a thread has a turn, the others wait; it asks again as soon as it can.
        (0..16).for_each(|thread| {
            ask(&mut turns, thread);
        });
        let mut pages = [0; 16];
        let mut running = turns.next(0).unwrap();
        while pages.iter().all(|done| *done < 60) {
            assert_eq!(turns.next(0), None, "one at a time");
            turns.end(300, 0);
            let next = turns.next(0).unwrap();
            let thread = owner[&running.ticket];
            pages[thread] += 1;
            owner.insert(turns.ask(thread, 0), thread);
            running = next;
        }
        // Two threads: while one works between two turns, the other one has a turn.
        assert_eq!(pages.iter().filter(|done| **done > 1).count(), 2, "{pages:?}");
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut turns = PageTurns::new(2);
        order(&mut turns, &[1], 0, 1);
        let old = turns.ask(2, 0);
        turns.ask(1, 1);
        assert_ne!(turns.next(LONG_WAIT_US - 1).unwrap().ticket, old);
        turns.end(1, LONG_WAIT_US - 1);
        turns.ask(1, LONG_WAIT_US - 1);
        assert_eq!(turns.next(LONG_WAIT_US).unwrap().ticket, old);
    }

    #[test]
    fn turns_take_a_part_of_the_time_while_replay_runs() {
        for (cores, most) in [(1, 1), (2, 1), (8, 4)] {
            let mut turns = PageTurns::new(cores);
            (0..9).for_each(|thread| {
                turns.ask(thread, 0);
            });
            let granted = std::iter::from_fn(|| turns.next(0)).count();
            assert_eq!(granted, most, "{cores} cores");
        }
        let mut turns = PageTurns::new(2);
        // Before replay begins any time will do.
        order(&mut turns, &[1], 0, 10_000_000);
        turns.limit(true, 0);
        let (mut now_us, mut taken_us) = (0, 0);
        while now_us < 10_000_000 {
            turns.ask(1, now_us);
            now_us = turns.next(now_us).unwrap().at_us + 500;
            turns.end(500, now_us);
            taken_us += 500;
        }
        // 0.3 of the time, and the stock.
        assert!((3_150_000..=3_210_000).contains(&taken_us), "{taken_us} us");
        // A pause fills the stock, and no more.
        turns.ask(1, 90_000_000);
        assert_eq!(turns.next(90_000_000).unwrap().at_us, 90_000_000);
        turns.end(260_000, 90_000_000);
        turns.ask(1, 90_000_000);
        assert_eq!(turns.next(90_000_000).unwrap().at_us, 90_200_000);
        turns.end(0, 90_200_000);
        turns.limit(false, 90_200_000);
        turns.ask(1, 90_200_000);
        assert_eq!(turns.next(90_200_000).unwrap().at_us, 90_200_000, "replay has ended");
    }
}
