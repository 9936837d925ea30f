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
//! broken meanwhile. The latter would make a victim more than is needed. So looking goes side by side, and who has found
//! something looks again with the mutex `breaking`, under which alone victims are chosen.

use super::owner::Owner;
use super::queue::{Blockers, Owners};
use super::{LockTable, ticket};
use base::TxnId;
use base::sync::atomic::Ordering;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A transaction on the way of a search.
struct Step {
    owner: Arc<Owner>,
    /// Who else stands on the way from it to the next.
    between: Option<Arc<Owner>>,
    /// For whom it waits and who has not been visited.
    open: Owners,
}

impl LockTable {
    /// Breaks every circle of waits that `start` stands in, whose wait began at `begun_us`.
    pub(super) fn break_cycles(&self, start: &Arc<Owner>, begun_us: u64) {
        if !start.was_awaited() {
            return;
        }
        let found = self.find_cycle(start).is_some();
        self.searches.count(self.clock.now_us().saturating_sub(begun_us));
        if !found {
            return;
        }
        let _one_at_a_time = self.breaking.lock();
        while let Some(circle) = self.find_cycle(start) {
            self.break_one(&circle);
        }
        self.searches.broken(self.clock.now_us().saturating_sub(begun_us));
    }

    /// Breaks a circle. A scan that only lets others go first goes on; else the victim is who has done least, among equals the
    /// youngest.
    fn break_one(&self, circle: &[Arc<Owner>]) {
        let lets_pass = |owner: &&Arc<Owner>| owner.waits_for().is_some_and(|key| key.is_gate());
        if let Some(scan) = circle.iter().find(lets_pass) {
            if let Some(key) = scan.waits_for() {
                self.withdraw(scan, &key, ticket::PASSED);
            }
            return;
        }
        let victim =
            circle.iter().min_by_key(|o| (o.work(), Reverse(o.txn))).expect("it holds its beginning");
        let Some(key) = victim.waits_for() else { return };
        #[cfg(test)]
        self.searches.judge(self.stands_in_circle(victim));
        if self.withdraw(victim, &key, ticket::DEADLOCK) {
            self.deadlocks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For whom `owner` waits now.
    pub(super) fn blockers(&self, owner: &Owner) -> Blockers {
        let Some(key) = owner.waits_for() else { return Blockers::default() };
        if !key.in_queue() {
            return Blockers { holders: self.ranges.blockers(owner, &key), between: None };
        }
        self.lock_shard(&key).get(&key).map_or_else(Blockers::default, |queue| queue.blockers(owner.txn))
    }

    /// The transactions of one circle through `start`.
    fn find_cycle(&self, start: &Arc<Owner>) -> Option<Vec<Arc<Owner>>> {
        let mut seen: BTreeSet<TxnId> = BTreeSet::new();
        let step = |owner: Arc<Owner>| {
            let Blockers { mut holders, between } = self.blockers(&owner);
            holders.reverse();
            Step { owner, between, open: holders }
        };
        let mut path = vec![step(Arc::clone(start))];
        while let Some(last) = path.last_mut() {
            let Some(next) = last.open.pop() else {
                path.pop();
                continue;
            };
            if next.txn == start.txn {
                return Some(
                    path.into_iter().flat_map(|step| [Some(step.owner), step.between]).flatten().collect(),
                );
            }
            if seen.insert(next.txn) {
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
            Some(_) => self.blockers(owner).holders.to_vec(),
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
