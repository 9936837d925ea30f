//! Circles of waits: found when a wait begins, broken at once.
//!
//! An edge leads from a waiting transaction to each one before it in its queue that excludes it, or to each one whose range
//! covers the key that it wants to change. Edges are read from the queues and ranges themselves, so they are never stale by more than the walk. A circle is closed by the request that completes
//! it, and that request looks for circles through itself after it stands in its queue; looking is serialised, so of two
//! that close a circle together the second sees both. Who is in a circle waits, and so releases nothing: a circle seen
//! is real, unless one of its waits runs out of time meanwhile, and then a victim more does no harm.

use super::{LockTable, Owner, ticket};
use base::TxnId;
use base::sync::atomic::Ordering;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

impl LockTable {
    /// Breaks every circle of waits that `start` stands in. The victim is who has done least; among equals the youngest.
    pub(super) fn break_cycles(&self, start: &Arc<Owner>) {
        let _one_at_a_time = self.detecting.lock();
        while let Some(circle) = self.find_cycle(start) {
            let victim = circle.iter().min_by_key(|o| (o.work(), Reverse(o.txn))).expect("it holds `start`");
            let Some(key) = victim.waits_for() else { continue };
            if self.withdraw(victim, &key, ticket::DEADLOCK) {
                self.deadlocks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// For whom `owner` waits now.
    fn blockers(&self, owner: &Owner) -> Vec<Arc<Owner>> {
        let Some(key) = owner.waits_for() else { return Vec::new() };
        if key.is_range() {
            return self.ranges.blockers(owner, &key);
        }
        self.lock_shard(&key).get(&key).map_or_else(Vec::new, |queue| queue.blockers(owner.txn))
    }

    /// The transactions of one circle through `start`, in the order in which they wait for each other.
    fn find_cycle(&self, start: &Arc<Owner>) -> Option<Vec<Arc<Owner>>> {
        let mut seen: BTreeSet<TxnId> = BTreeSet::new();
        let mut path = vec![Arc::clone(start)];
        // Per owner of the path: those it waits for that have not been visited, the first one last.
        let reversed = |mut v: Vec<_>| {
            v.reverse();
            v
        };
        let mut open = vec![reversed(self.blockers(start))];
        while let Some(next) = open.last_mut() {
            let Some(owner) = next.pop() else {
                open.pop();
                path.pop();
                continue;
            };
            if owner.txn == start.txn {
                return Some(path);
            }
            if seen.insert(owner.txn) {
                open.push(reversed(self.blockers(&owner)));
                path.push(owner);
            }
        }
        None
    }
}
