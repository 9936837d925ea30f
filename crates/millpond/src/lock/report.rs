//! [`LockView`]: what other threads may see of locks: the locks of a transaction, and for which
//! transactions it waits.
//!
//! It is no picture of one moment. Transactions are listed shard by shard, a transaction's list of
//! locks is copied chunk by chunk, and each lock is looked up by itself. Each step holds a mutex
//! for a bounded time, and nothing is shown that was not true when it was looked at.

use super::key::LockKey;
use super::pending::PendingState;
use super::queue::Blockers;
#[cfg(test)]
use super::queue::Queue;
use super::queue_table::QueueTable;
use super::ranges::Ranges;
use super::seen::{SeenLock, SeenPlace, SeenTxn, SeenWait};
use super::{Mode, Owner};
use base::TreeId;
#[cfg(test)]
use std::sync::Arc;

/// Ranges of one transaction in one tree that are shown.
const RANGES_MOST: usize = 1024;

/// What can be read of queues and ranges.
#[derive(Clone, Copy)]
pub(super) struct LockView<'t> {
    queues: &'t QueueTable,
    ranges: &'t Ranges,
}

impl<'t> LockView<'t> {
    pub(super) fn new(queues: &'t QueueTable, ranges: &'t Ranges) -> LockView<'t> {
        LockView { queues, ranges }
    }

    /// Returns the transactions for which `owner` waits, in the wait with this number.
    pub(super) fn blockers(self, owner: &Owner, wait: u64) -> Blockers {
        match owner.waits_for() {
            None => Blockers::default(),
            Some(key) if key.in_queue() => self.queues.blockers(owner, &key, wait),
            Some(key) => Blockers { holders: self.ranges.blockers(owner, &key), between: None },
        }
    }

    /// Returns the transactions for which `owner` waits, over every edge that exists.
    #[cfg(test)]
    pub(super) fn all_before(self, owner: &Owner) -> Vec<Arc<Owner>> {
        match owner.waits_for() {
            Some(key) if key.in_queue() => {
                let before = |queue: &Queue| queue.before(owner.txn).cloned().collect();
                self.queues.with_queue(&key, before).unwrap_or_default()
            }
            Some(_) => self.blockers(owner, owner.wait_number()).holders.to_vec(),
            None => Vec::new(),
        }
    }

    /// Returns the request with which `owner` waits, and for whom.
    pub(super) fn wait_of(self, owner: &Owner) -> Option<SeenWait> {
        let number = owner.wait_number();
        let request = self.request_of(owner)?;
        let blockers = self.blockers(owner, number);
        let between = blockers.between.map(|(owner, _)| owner);
        let all = blockers.holders.iter().chain(&between).map(|other| (other.txn, other.tag()));
        let blockers: Vec<_> = all.collect();
        // Otherwise it has got the lock meanwhile.
        (!blockers.is_empty()).then_some(SeenWait { request, blockers })
    }

    /// What is shown of a transaction.
    pub(super) fn seen(self, owner: &Owner) -> SeenTxn {
        SeenTxn {
            txn: owner.txn,
            tag: owner.tag(),
            rows_changed: owner.work(),
            locks: owner.lock_count(),
            waits_for: self.request_of(owner),
        }
    }

    /// Returns the request with which it waits.
    fn request_of(self, owner: &Owner) -> Option<SeenLock> {
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
        let mode = self.queues.with_queue(&key, |queue| queue.mode_wanted(owner.txn));
        mode.flatten().map(|mode| lock(place_of(&key), mode))
    }

    /// Returns the lock of `owner` that keeps a request for `key` waiting.
    pub(super) fn held_at(self, owner: &Owner, key: &LockKey) -> Option<SeenLock> {
        if key.in_queue() {
            let mode = self.queues.with_queue(key, |queue| queue.mode_held(owner.txn));
            return mode.flatten().map(|mode| lock_of(owner, key.tree(), place_of(key), mode, false));
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
    pub(super) fn locks_of(self, owner: &Owner, most: usize, out: &mut Vec<SeenLock>) {
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
    fn ranges_of(self, owner: &Owner, tree: TreeId) -> Vec<SeenLock> {
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
