//! What other threads may see of locks: the transactions that have some, the locks, which of them
//! wait for which transactions, and the last deadlocks.
//!
//! It is no picture of one moment. Transactions are listed shard by shard, a transaction's list of
//! locks is copied chunk by chunk, and each lock is looked up by itself. Each step holds a mutex
//! for a bounded time, and nothing is shown that was not true when it was looked at.

use super::key::LockKey;
use super::pending::PendingState;
use super::seen::{DEADLOCKS_KEPT, SeenDeadlock, SeenLock, SeenMember, SeenPlace, SeenTxn, SeenWait, Told};
use super::{LockTable, Mode, Owner};
use base::sync::atomic::Ordering;
use base::{TreeId, TxnId};
use std::sync::Arc;

/// Members of a cycle that its report names.
const MEMBERS_MOST: usize = 32;
/// Ranges of one transaction in one tree that are shown.
const RANGES_MOST: usize = 1024;

impl LockTable {
    /// Sets whoever wants to know of each deadlock. It is told while all members of the cycle still
    /// wait, and must not use locks. REQUIRES: called at most once.
    pub(crate) fn tell_deadlocks(&self, to: Told) {
        base::check!(self.reports.on_deadlock.set(to).is_ok(), "two want to know of deadlocks");
    }

    /// Remembers a deadlock that is about to be broken. REQUIRES: `breaking` is locked. The members
    /// still stand in their cycle, each waiting for the next one.
    pub(super) fn note_deadlock(&self, members: &[Arc<Owner>], victim: TxnId) {
        let number = self.deadlocks.load(Ordering::Relaxed) + 1;
        let before = members.iter().cycle().skip(members.len().saturating_sub(1));
        let report = SeenDeadlock {
            number,
            members: members
                .iter()
                .zip(before)
                .map(|(owner, before)| SeenMember {
                    txn: self.seen(owner),
                    holds: before.waits_for().and_then(|key| self.held_at(owner, &key)),
                    victim: owner.txn == victim,
                })
                .enumerate()
                .filter(|(n, member)| member.victim || *n < MEMBERS_MOST)
                .map(|(_, member)| member)
                .collect(),
        };
        let tags: Vec<u64> = report.members.iter().map(|member| member.txn.tag).collect();
        {
            let mut last = self.reports.last.lock();
            last.retain(|earlier| earlier.number != number);
            if last.len() == DEADLOCKS_KEPT {
                last.pop_front();
            }
            last.push_back(report);
        }
        if let Some(tell) = self.reports.on_deadlock.get() {
            tell(number, &tags);
        }
    }

    /// Forgets the deadlock that was remembered last: the victim's wait has ended by itself.
    pub(super) fn forget_deadlock(&self) {
        self.reports.last.lock().pop_back();
    }

    /// Returns the last deadlocks, the latest last.
    pub(crate) fn last_deadlocks(&self) -> Vec<SeenDeadlock> {
        self.reports.last.lock().iter().cloned().collect()
    }

    /// Returns the transactions that have or want locks, in order of their ids.
    pub(crate) fn transactions(&self) -> Vec<SeenTxn> {
        self.owners_in_order().iter().map(|owner| self.seen(owner)).collect()
    }

    /// Returns locks and waiting requests, at most `most`, those of one transaction together.
    pub(crate) fn locks(&self, most: usize) -> Vec<SeenLock> {
        let mut shown = Vec::new();
        for owner in self.owners_in_order() {
            self.locks_of(&owner, most, &mut shown);
            if shown.len() >= most {
                break;
            }
        }
        shown
    }

    /// Returns the requests that wait, at most `most`.
    pub(crate) fn waiting(&self, most: usize) -> Vec<SeenWait> {
        let waiting = self.owners_in_order().into_iter().filter_map(|owner| {
            let number = owner.wait_number();
            let request = self.request_of(&owner)?;
            let blockers = self.blockers(&owner, number);
            let between = blockers.between.map(|(owner, _)| owner);
            let all = blockers.holders.iter().chain(&between).map(|other| (other.txn, other.tag()));
            let blockers: Vec<_> = all.collect();
            // Otherwise it has got the lock meanwhile.
            (!blockers.is_empty()).then_some(SeenWait { request, blockers })
        });
        waiting.take(most).collect()
    }

    fn owners_in_order(&self) -> Vec<Arc<Owner>> {
        let mut owners = self.owners.list();
        owners.sort_unstable_by_key(|owner| owner.txn);
        owners
    }

    fn seen(&self, owner: &Owner) -> SeenTxn {
        SeenTxn {
            txn: owner.txn,
            tag: owner.tag(),
            rows_changed: owner.work(),
            locks: owner.lock_count(),
            waits_for: self.request_of(owner),
        }
    }

    /// Returns the request with which it waits.
    fn request_of(&self, owner: &Owner) -> Option<SeenLock> {
        let key = owner.waits_for()?;
        let lock = |place, mode| lock_of(owner, key.tree(), place, mode, true);
        if key.is_scan_wait() {
            return Some(lock(SeenPlace::Turn, Mode::Shared));
        }
        if key.is_pending_write() {
            let mode = self.ranges.with_tree(key.tree(), |ranges| {
                let request = ranges.pending_of(owner.txn, key.bytes_of_row())?;
                matches!(request.stands, PendingState::BlockedBy(_)).then_some(request.want.mode)
            });
            return mode.flatten().map(|mode| lock(place_of(&key), mode));
        }
        let mode = self.lock_shard(&key).get(&key)?.mode_wanted(owner.txn);
        mode.map(|mode| lock(place_of(&key), mode))
    }

    /// Returns the lock of `owner` that keeps a request for `key` waiting.
    fn held_at(&self, owner: &Owner, key: &LockKey) -> Option<SeenLock> {
        if key.in_queue() {
            let mode = self.lock_shard(key).get(key)?.mode_held(owner.txn);
            return mode.map(|mode| lock_of(owner, key.tree(), place_of(key), mode, false));
        }
        if !key.is_pending_write() {
            return None;
        }
        let row = key.bytes_of_row();
        let covers = |place: &SeenPlace| match place {
            SeenPlace::Range { from, to, .. } => {
                &from[..] <= row && to.as_ref().is_none_or(|to| row < &to[..])
            }
            _ => false,
        };
        self.ranges_of(owner, key.tree()).into_iter().find(|lock| covers(&lock.place))
    }

    /// Appends the locks of a transaction to `out`, which becomes no longer than `most`.
    fn locks_of(&self, owner: &Owner, most: usize, out: &mut Vec<SeenLock>) {
        out.extend(self.request_of(owner));
        let chunks = (0..).map_while(|n| owner.chunk(n));
        for key in std::iter::once(owner.locked_counters()).chain(chunks).flatten() {
            if out.len() >= most {
                break;
            }
            if key.in_queue() {
                out.extend(self.held_at(owner, &key));
            } else if !key.is_pending_write() {
                out.extend(self.ranges_of(owner, key.tree()));
            }
        }
        out.truncate(most);
    }

    /// Returns the ranges of a transaction in a tree.
    fn ranges_of(&self, owner: &Owner, tree: TreeId) -> Vec<SeenLock> {
        let shown = self.ranges.with_tree(tree, |ranges| {
            let (_, covered) = ranges.holders.get(&owner.txn)?;
            let range = |(from, to, rows, gaps): (&[u8], Option<&[u8]>, _, _)| {
                let place = SeenPlace::Range { from: from.to_vec(), to: to.map(<[u8]>::to_vec), gaps };
                lock_of(owner, tree, place, rows, false)
            };
            Some(covered.list().take(RANGES_MOST).map(range).collect())
        });
        shown.flatten().unwrap_or_default()
    }
}

fn lock_of(owner: &Owner, tree: TreeId, place: SeenPlace, mode: Mode, waits: bool) -> SeenLock {
    SeenLock { txn: owner.txn, tag: owner.tag(), tree, place, mode, waits }
}

fn place_of(key: &LockKey) -> SeenPlace {
    if key.is_row() || key.is_pending_write() {
        SeenPlace::Row(key.bytes_of_row().to_vec())
    } else if key.is_counter() {
        SeenPlace::Counter
    } else {
        SeenPlace::Table
    }
}
