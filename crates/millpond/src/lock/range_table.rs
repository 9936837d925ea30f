//! [`Ranges`]: the ranges of all trees, in shards, with the requests that wait for them.

use super::covered::Covered;
use super::key::LockKey;
use super::owner::WakeList;
use super::pending::{PendingState, TreeRanges};
use super::queue::Owners;
use super::{Owner, wait_state};
use base::sharded::shards;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{Sharded, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ranges of a few trees.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Number of transactions that have ranges here, counted once a tree. Changed under `mu`; read
    /// without it under the latch that covers the key in question.
    pub(super) holders: AtomicU32,
    /// Number of pending writes here. Changed and read in the same way.
    pub(super) pending: AtomicU32,
    pub(super) mu: Mutex<BTreeMap<TreeId, TreeRanges>>,
}

/// The ranges of all trees.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    shards: Sharded<Shard, { shards(16) }>,
    /// Counts the arrivals of pending writes.
    pub(super) turns: AtomicU64,
}

impl Ranges {
    pub(super) fn shard(&self, tree: TreeId) -> &Shard {
        self.shards.of(u64::from(tree.0))
    }

    /// Returns the transactions for which `owner` waits at `key`, if it still waits.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey) -> Owners {
        let mut trees = self.shard(key.tree()).mu.lock();
        trees.get_mut(&key.tree()).map_or_else(Owners::default, |ranges| ranges.blockers(owner, key))
    }

    /// Ends a transaction's wait with the reason `why`. Returns the bytes freed; none if it does
    /// not wait.
    pub(super) fn withdraw(
        &self,
        owner: &Arc<Owner>,
        key: &LockKey,
        why: u32,
        woken: &mut WakeList,
    ) -> Option<usize> {
        let shard = self.shard(key.tree());
        let mut trees = shard.mu.lock();
        let ranges = trees.get_mut(&key.tree())?;
        if key.is_scan_wait() {
            let at = ranges.scans.iter().position(|scan| scan.owner.txn == owner.txn)?;
            woken.end_wait(&ranges.scans.remove(at).owner, why);
            return Some(0);
        }
        let row = key.bytes_of_row();
        let waits = matches!(ranges.pending_of(owner.txn, row)?.stands, PendingState::BlockedBy(_));
        if !waits {
            return None;
        }
        woken.end_wait(owner, why);
        shard.pending.fetch_sub(1, Ordering::Release);
        ranges.remove_pending(owner.txn, row, woken)
    }

    /// Returns what `look` says of the ranges of a tree; none if it has none.
    pub(super) fn with_tree<R>(&self, tree: TreeId, look: impl FnOnce(&mut TreeRanges) -> R) -> Option<R> {
        self.shard(tree).mu.lock().get_mut(&tree).map(look)
    }

    /// Number of ranges.
    pub(super) fn count(&self) -> u64 {
        let in_shard = |shard: &Shard| -> usize {
            if shard.holders.load(Ordering::Relaxed) == 0 {
                return 0;
            }
            shard
                .mu
                .lock()
                .values()
                .flat_map(|ranges| ranges.holders.values())
                .map(|(_, set)| set.len())
                .sum()
        };
        self.shards.iter().map(in_shard).sum::<usize>() as u64
    }

    /// Ends every wait. REQUIRES: no new one begins.
    pub(super) fn stop(&self) {
        for shard in self.shards.iter() {
            let mut woken = WakeList::default();
            for ranges in shard.mu.lock().values_mut() {
                for scan in ranges.scans.drain(..) {
                    woken.end_wait(&scan.owner, wait_state::STOPPED);
                }
                for request in ranges.pending.values_mut().flatten() {
                    if matches!(request.stands, PendingState::BlockedBy(_)) {
                        request.stands = PendingState::Taken;
                        woken.end_wait(&request.owner, wait_state::STOPPED);
                    }
                }
            }
        }
    }

    /// Removes the ranges of `owner` in a tree, or its pending write, and wakes the transactions
    /// that no other blocks. Returns the bytes freed.
    pub(super) fn release(&self, owner: &Owner, noted: &LockKey, woken: &mut WakeList) -> usize {
        let tree = noted.tree();
        let shard = self.shard(tree);
        // Large sets are freed after the mutex.
        let gone: Covered;
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return 0 };
        let freed = if noted.is_pending_write() {
            let freed = ranges.remove_pending(owner.txn, noted.bytes_of_row(), woken);
            shard.pending.fetch_sub(u32::from(freed.is_some()), Ordering::Release);
            freed.unwrap_or(0)
        } else {
            let Some((_, covered)) = ranges.holders.remove(&owner.txn) else { return 0 };
            shard.holders.fetch_sub(1, Ordering::Release);
            ranges.uncover(owner.txn, woken);
            gone = covered;
            gone.bytes()
        };
        if ranges.is_empty() {
            trees.remove(&tree);
        }
        freed
    }
}
