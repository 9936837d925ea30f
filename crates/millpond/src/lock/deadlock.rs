//! Circles of waits: found when a wait begins, broken at once.
//!
//! **Edges.** A transaction that waits in a queue waits for all who have the lock (see `queue.rs`: whoever stands between
//! waits for them too); one that wants a key in others' ranges for all whose range covers it; a scan that lets writers go
//! first for those. Edges are read from queues and ranges themselves, each under the mutex that guards it, together with the
//! fact that the transaction still waits there.
//!
//! **Who looks.** A circle is closed by the request that completes it, and that request looks for circles through itself after it
//! stands in its place. Nobody waits for a transaction that was never *awaited*, so most requests need not look: in a
//! queue of two thousand for one row those who have nothing else do not.
//!
//! **A circle that is seen is real**: each transaction on the way was seen to wait when the edge to it had been read, and who
//! waits gives nothing back, so all edges still stand when the circle closes, unless a wait has run out of time or another circle was
//! broken meanwhile. The latter would make a victim more than is needed. So looking goes side by side, and victims are chosen with the
//! mutex `breaking` alone, by who sees there that all members of what he has found are in the same waits still; else he
//! looks again.

use super::owner::Owner;
use super::queue::{Blockers, Owners};
use super::{LockTable, ticket};
use crate::planted::{Bug, planted};
use base::TxnId;
use base::sync::atomic::Ordering;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most ways are no longer, so most searches ask once for memory.
const WAY_STEPS: usize = 16;

/// A transaction that waits, and which of its waits that is.
type Waiting = (Arc<Owner>, u64);

/// A transaction on the way of a search.
struct Step {
    at: Waiting,
    /// Who else stands on the way from it to the next.
    between: Option<Waiting>,
    /// For whom it waits and who has not been visited.
    open: Owners,
}

/// A circle of waits.
struct Circle {
    /// The way round it.
    path: Vec<Step>,
    /// No other leads through the same beginning.
    only: bool,
}

impl Circle {
    fn members(&self) -> impl Iterator<Item = &Waiting> {
        self.path.iter().flat_map(|step| std::iter::once(&step.at).chain(&step.between))
    }

    /// Whether it stands. As long as each member is in the same wait nobody has given anything back.
    fn stands(&self) -> bool {
        self.members().all(|(owner, wait)| owner.wait_number() == *wait)
    }
}

/// Who has been visited. Most ways are short.
#[derive(Default)]
struct Seen {
    few: SmallVec<[TxnId; 32]>,
    more: BTreeSet<TxnId>,
}

impl Seen {
    /// Whether it is the first time.
    fn insert(&mut self, txn: TxnId) -> bool {
        if self.few.contains(&txn) {
            return false;
        }
        if self.few.len() == self.few.inline_size() {
            return self.more.insert(txn);
        }
        self.few.push(txn);
        true
    }
}

impl LockTable {
    /// Breaks every circle of waits that `start` stands in, whose wait began at `begun_us`.
    pub(super) fn break_cycles(&self, start: &Arc<Owner>, begun_us: u64) {
        if !start.was_awaited() {
            return;
        }
        let found = self.find_cycle(start);
        self.searches.count(self.clock.now_us().saturating_sub(begun_us));
        let Some(mut circle) = found else { return };
        let _one_at_a_time = self.breaking.lock();
        loop {
            if !circle.stands() {
                let Some(another) = self.find_cycle(start) else { break };
                circle = another;
            }
            self.break_one(&circle);
            if circle.only {
                break;
            }
        }
        self.searches.broken(self.clock.now_us().saturating_sub(begun_us));
    }

    /// Breaks a circle. A scan that only lets others go first goes on; else the victim is who has done least, among equals the
    /// youngest.
    fn break_one(&self, circle: &Circle) {
        let members = || circle.members().map(|(owner, _)| owner);
        let lets_pass = |owner: &&Arc<Owner>| owner.waits_for().is_some_and(|key| key.is_gate());
        if let Some(scan) = members().find(lets_pass) {
            if let Some(key) = scan.waits_for() {
                self.withdraw(scan, &key, ticket::PASSED);
            }
            return;
        }
        let victim = members().min_by_key(|o| (o.work(), Reverse(o.txn))).expect("it holds its beginning");
        let Some(key) = victim.waits_for() else { return };
        #[cfg(test)]
        self.searches.judge(self.stands_in_circle(victim));
        if self.withdraw(victim, &key, ticket::DEADLOCK) {
            self.deadlocks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For whom `owner` waits now, in the wait of this number.
    fn blockers(&self, owner: &Owner, wait: u64) -> Blockers {
        let Some(key) = owner.waits_for() else { return Blockers::default() };
        if !key.in_queue() {
            return Blockers { holders: self.ranges.blockers(owner, &key), between: None };
        }
        let queues = self.lock_shard(&key);
        // Else it waits no longer, or somewhere else.
        let waits = owner.wait_number() == wait;
        queues.get(&key).filter(|_| waits).map_or_else(Blockers::default, |queue| queue.blockers(owner.txn))
    }

    /// One circle through `start`.
    fn find_cycle(&self, start: &Arc<Owner>) -> Option<Circle> {
        let (mut seen, mut only) = (Seen::default(), true);
        let step = |owner: Arc<Owner>| {
            let wait = owner.wait_number();
            let Blockers { mut holders, between } = self.blockers(&owner, wait);
            holders.reverse();
            Step { at: (owner, wait), between, open: holders }
        };
        let mut path = Vec::with_capacity(WAY_STEPS);
        path.push(step(Arc::clone(start)));
        while let Some(last) = path.last_mut() {
            // Behind one who stands between others may stand.
            only &= last.open.len() <= 1 && last.between.is_none();
            let Some(next) = last.open.pop() else {
                path.pop();
                continue;
            };
            if next.txn == start.txn {
                return Some(Circle { path, only });
            }
            let too_far = path.len() > 1 && planted(Bug::CircleUnseen);
            if seen.insert(next.txn) && !too_far {
                path.push(step(next));
            }
        }
        None
    }

    /// The same question asked naively, of every edge that there is: whether a way leads from `owner` back to it.
    #[cfg(test)]
    fn stands_in_circle(&self, owner: &Arc<Owner>) -> bool {
        let edges = |owner: &Owner| match owner.waits_for() {
            Some(key) if key.in_queue() => {
                self.lock_shard(&key).get(&key).map_or_else(Vec::new, |queue| queue.all_before(owner.txn))
            }
            Some(_) => self.blockers(owner, owner.wait_number()).holders.to_vec(),
            None => Vec::new(),
        };
        let (mut open, mut seen) = (edges(owner), BTreeSet::new());
        while let Some(next) = open.pop() {
            if next.txn == owner.txn {
                return true;
            }
            if seen.insert(next.txn) {
                open.extend(edges(&next));
            }
        }
        false
    }
}
