//! The counters of tables, for programs that number their rows (auto-increment).
//!
//! A counter is a number that only grows: the next value that no row has. Values are taken from
//! memory. A row with a value becomes permanent only after the log says that the counter is beyond
//! it, so a value is never given to two rows, whatever a crash leaves. The log has a small record
//! for each step. Recovery takes the greatest. A checkpoint lists all counters, so the log before
//! it is not needed. No page holds a counter, so no page is contended.
//!
//! A transaction that wants consecutive values locks the counter (Lk6). Others take values without
//! a lock while no transaction has or wants it. They look at [`Counter::lockers`] after they have
//! read the next value: the one that has the lock may take values in between, and then the exchange
//! fails. So no value is taken without the lock after one that was taken with it.

use super::log_record::log_record;
use crate::error::Result;
use crate::log::Log;
use crate::log::group::Record;
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{Lsn, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counter of one table.
#[derive(Debug)]
pub(crate) struct Counter {
    tree: TreeId,
    /// The next value that was neither taken nor used.
    next: AtomicU64,
    /// A checkpoint lists this. It is raised before the record is logged, so a checkpoint above the
    /// record lists at least what the record says.
    listed: AtomicU64,
    /// The log has a record with this. It is raised after the record is logged, so a thread that
    /// finds its value below it may rely on the record.
    logged: AtomicU64,
    /// Transactions that have the counter's lock or want it.
    lockers: AtomicU32,
}

/// A transaction has the lock of a counter, or wants it. Dropped after the lock is released.
#[derive(Debug)]
pub(crate) struct CounterHold(Arc<Counter>);

impl CounterHold {
    /// Announces a transaction that wants the lock of `counter`.
    pub(crate) fn new(counter: &Arc<Counter>) -> CounterHold {
        counter.lockers.fetch_add(1, Ordering::SeqCst);
        CounterHold(Arc::clone(counter))
    }

    /// Returns the tree of the counter's table.
    pub(crate) fn tree(&self) -> TreeId {
        self.0.tree
    }
}

impl Drop for CounterHold {
    fn drop(&mut self) {
        let before = self.0.lockers.fetch_sub(1, Ordering::SeqCst);
        base::check!(before > 0, "the counter of {:?} is left, and no transaction wants it", self.0.tree);
    }
}

/// What came of the wish for values of a counter that a transaction may have locked.
#[derive(Debug)]
pub(crate) enum Take {
    /// The values; none if the first would be beyond the greatest.
    Values(Option<TakenValues>),
    /// Another transaction has locked the counter or wants to.
    Locked,
}

/// Values that were taken from a counter: `count` of them, from `first` on in steps of the
/// increment. See [`Table::take_values`](crate::Table::take_values).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenValues {
    /// The first value.
    pub first: u64,
    /// How many there are, at least one.
    pub count: u64,
}

/// Which values a program wants of a counter, see
/// [`Table::take_values`](crate::Table::take_values).
#[derive(Clone, Copy, Debug)]
pub struct CounterStep {
    /// A value is `offset` plus a multiple of `increment`. An offset above the increment counts as
    /// 0.
    pub offset: u64,
    /// The distance of two values; 0 counts as 1.
    pub increment: u64,
    /// How many values are wanted; 0 counts as 1.
    pub count: u64,
    /// The greatest value allowed.
    pub max: u64,
}

/// Returns the values that a counter at `next` gives; none if the first would be beyond the
/// greatest.
fn values(next: u64, step: CounterStep) -> Option<TakenValues> {
    let increment = step.increment.max(1);
    let offset = if step.offset > increment { 0 } else { step.offset };
    let next = next.max(1).max(offset);
    // The first value at `next` or above it.
    let beyond = (next - offset) % increment;
    let first = if beyond == 0 { next } else { next.checked_add(increment - beyond)? };
    if first > step.max {
        return None;
    }
    let count = step.count.max(1).min((step.max - first) / increment + 1);
    Some(TakenValues { first, count })
}

impl Counter {
    fn new(tree: TreeId, next: u64) -> Counter {
        let at = || AtomicU64::new(next);
        Counter { tree, next: at(), listed: at(), logged: at(), lockers: AtomicU32::new(0) }
    }

    /// Returns the next value, at least 1.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire).max(1)
    }

    /// Takes values. No other caller gets them any more.
    pub(crate) fn take(&self, step: CounterStep) -> Option<TakenValues> {
        match self.take_if(step, || true) {
            Take::Values(taken) => taken,
            Take::Locked => unreachable!("it was not asked"),
        }
    }

    /// Takes values unless a transaction has the counter's lock or wants it.
    pub(crate) fn take_unless_locked(&self, step: CounterStep) -> Take {
        self.take_if(step, || !self.is_locked())
    }

    /// Returns whether a transaction has the counter's lock or wants it.
    pub(crate) fn is_locked(&self) -> bool {
        self.lockers.load(Ordering::SeqCst) > 0
    }

    fn take_if(&self, step: CounterStep, may: impl Fn() -> bool) -> Take {
        let mut next = self.next.load(Ordering::SeqCst);
        loop {
            if !may() {
                return Take::Locked;
            }
            let Some(taken) = values(next, step) else { return Take::Values(None) };
            let last = taken.first + (taken.count - 1) * step.increment.max(1);
            let after = last.saturating_add(1);
            base::check!(
                next <= taken.first && taken.first <= last && last <= step.max,
                "values {} to {last} of a counter at {next}, the greatest is {}",
                taken.first,
                step.max
            );
            match self.next.compare_exchange(next, after, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Take::Values(Some(taken)),
                Err(now) => next = now,
            }
        }
    }

    /// Returns whether the log says already that the counter is at `next` or beyond.
    #[inline]
    pub(crate) fn is_logged(&self, next: u64) -> bool {
        self.logged.load(Ordering::Acquire) >= next
    }

    /// Raises the counter to `next`, and logs that. Returns the LSN of the record, or none if the
    /// log said so already. REQUIRES: no latch held.
    pub(crate) fn raise(&self, log: &Log, next: u64) -> Result<Option<Lsn>> {
        self.next.fetch_max(next, Ordering::AcqRel);
        if self.is_logged(next) {
            return Ok(None);
        }
        log.make_room()?;
        if !planted(Bug::CounterUnlisted) {
            self.listed.fetch_max(next, Ordering::AcqRel);
        }
        let lsn = log_record(log, &Record::Counter { tree: self.tree, next }, |_| {});
        self.logged.fetch_max(next, Ordering::AcqRel);
        Ok(Some(lsn))
    }
}

/// The counters of all tables.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    by_tree: Mutex<BTreeMap<TreeId, Arc<Counter>>>,
}

impl Counters {
    /// The counters that recovery has found.
    pub(super) fn recovered(found: BTreeMap<TreeId, u64>) -> Counters {
        let counters = found.into_iter().map(|(tree, next)| (tree, Arc::new(Counter::new(tree, next))));
        Counters { by_tree: Mutex::new(counters.collect()) }
    }

    /// Returns the counter of a table.
    pub(crate) fn of(&self, tree: TreeId) -> Arc<Counter> {
        let mut counters = self.by_tree.lock();
        Arc::clone(counters.entry(tree).or_insert_with(|| Arc::new(Counter::new(tree, 0))))
    }

    /// Forgets the counter of a dropped table.
    pub(crate) fn forget(&self, tree: TreeId) {
        self.by_tree.lock().remove(&tree);
    }

    /// Forgets the counters of tables that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(TreeId) -> bool) {
        self.by_tree.lock().retain(|&tree, _| exists(tree));
    }

    /// Returns what a checkpoint lists: the counters that are not 0.
    pub(super) fn list(&self) -> Vec<(TreeId, u64)> {
        let counters = self.by_tree.lock();
        let listed = counters.iter().map(|(&tree, counter)| (tree, counter.listed.load(Ordering::Acquire)));
        listed.filter(|&(_, next)| next > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By counter, offset, increment, wanted number and greatest value: the first value and how
    /// many there are.
    #[test]
    fn values_follow_offset_and_increment_and_end_at_the_greatest() {
        let table = [
            (0, 1, 1, 1, 127, Some((1, 1))),
            (7, 1, 1, 3, 127, Some((7, 3))),
            (7, 0, 0, 0, 127, Some((7, 1))),
            (126, 1, 1, 5, 127, Some((126, 2))),
            (128, 1, 1, 1, 127, None),
            (1, 3, 10, 2, 127, Some((3, 2))),
            (4, 3, 10, 2, 127, Some((13, 2))),
            (13, 3, 10, 1, 127, Some((13, 1))),
            (1, 20, 10, 1, 127, Some((10, 1))),
            (u64::MAX, 1, 1, 9, u64::MAX, Some((u64::MAX, 1))),
            (u64::MAX, 1, 2, 9, u64::MAX, Some((u64::MAX, 1))),
            (u64::MAX, 2, 5, 9, u64::MAX, None),
        ];
        for (next, offset, increment, count, max, expected) in table {
            let step = CounterStep { offset, increment, count, max };
            let got = values(next, step).map(|taken| (taken.first, taken.count));
            assert_eq!(got, expected, "at {next}: {step:?}");
        }
    }

    #[test]
    fn no_value_is_taken_twice() {
        let counter = Counter::new(TreeId(5), 0);
        let step = CounterStep { offset: 1, increment: 3, count: 2, max: 20 };
        let taken = std::iter::from_fn(|| counter.take(step)).map(|t| (t.first, t.count)).collect::<Vec<_>>();
        assert_eq!(taken, [(1, 2), (7, 2), (13, 2), (19, 1)]);
        assert_eq!(counter.next(), 20);
    }
}
