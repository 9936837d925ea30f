//! Ranges of keys that transactions keep as they are, shared: what a serializable scan has read, rows and gaps alike (Lk3).
//!
//! A range never waits: it says what has been seen. Who wants to change or exclusively lock a key waits until no other
//! transaction's range covers it, and then looks at the row again, for nothing is held for him meanwhile. So a waiting
//! writer does not hold up readers, and readers that follow each other without a pause can hold up a writer until his time
//! limit.
//!
//! **The latch rule.** A range is added under the latch of a leaf whose fences enclose it, after its rows have been looked at
//! under the same latch; a key is asked for under the exclusive latch of the leaf that covers it, before it is changed. So
//! either the reader has seen the change or the writer sees the range, and an empty shard may be recognised by one atomic
//! load. Ranges name keys and not pages: neither splits nor merges nor purge concern them.
//!
//! **Deadlocks.** A waiting writer waits for every transaction whose range covers its key. A range that comes later adds to
//! these, but who adds one is not waiting, or stands in a queue and has yet to look for circles.

use super::key::LockKey;
use super::range::RangeSet;
use super::ticket::{self, Ticket};
use super::{Denied, Enqueued, LockTable, Owner, Wait};
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, Ordering};
use base::{TreeId, TxnId};
use std::collections::BTreeMap;
use std::sync::Arc;

const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The ranges of a few trees.
#[derive(Debug, Default)]
struct Shard {
    /// How many transactions have ranges here, counted once a tree. Changed under `mu`; read without it under the latch that
    /// covers the key in question.
    holders: AtomicU32,
    mu: Mutex<BTreeMap<TreeId, TreeRanges>>,
}

#[derive(Debug)]
pub(super) struct Ranges {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
struct Holder {
    owner: Arc<Owner>,
    set: RangeSet,
}

#[derive(Debug, Default)]
struct TreeRanges {
    holders: Vec<Holder>,
    /// Who waits to change which key, in order of arrival.
    waiting: Vec<(Arc<Owner>, LockKey)>,
}

impl TreeRanges {
    fn covering(&self, txn: TxnId, key: &[u8]) -> impl Iterator<Item = &Arc<Owner>> {
        self.holders.iter().filter(move |h| h.owner.txn != txn && h.set.covers(key)).map(|h| &h.owner)
    }
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl Ranges {
    fn shard(&self, tree: TreeId) -> &Shard {
        &self.shards[tree.0 as usize % SHARDS]
    }

    /// Those whose ranges keep `owner` from the key that it waits for.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey) -> Vec<Arc<Owner>> {
        let trees = self.shard(key.tree()).mu.lock();
        let Some(ranges) = trees.get(&key.tree()) else { return Vec::new() };
        ranges.covering(owner.txn, key.bytes_of_row()).cloned().collect()
    }

    /// Takes a waiting transaction out and tells it why. False if it waits no longer.
    pub(super) fn withdraw(&self, owner: &Owner, key: &LockKey, why: u32) -> bool {
        let mut trees = self.shard(key.tree()).mu.lock();
        let Some(ranges) = trees.get_mut(&key.tree()) else { return false };
        let Some(at) = ranges.waiting.iter().position(|(o, _)| o.txn == owner.txn) else { return false };
        ranges.waiting.remove(at).0.end_wait(why);
        true
    }

    /// Ends every wait. REQUIRES: no new one begins.
    pub(super) fn stop(&self) {
        for shard in &self.shards {
            for ranges in shard.mu.lock().values_mut() {
                for (owner, _) in ranges.waiting.drain(..) {
                    owner.end_wait(ticket::STOPPED);
                }
            }
        }
    }

    /// Takes away what `owner` keeps of a tree, and wakes whom nobody else keeps from his key. Returns the bytes freed.
    pub(super) fn release(&self, owner: &Owner, tree: TreeId) -> usize {
        let shard = self.shard(tree);
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return 0 };
        let Some(at) = ranges.holders.iter().position(|h| h.owner.txn == owner.txn) else { return 0 };
        let freed = ranges.holders.remove(at).set.bytes();
        shard.holders.fetch_sub(1, Ordering::Release);
        for (waiter, key) in std::mem::take(&mut ranges.waiting) {
            if ranges.covering(waiter.txn, key.bytes_of_row()).next().is_some() {
                ranges.waiting.push((waiter, key));
            } else {
                waiter.end_wait(ticket::GRANTED);
            }
        }
        if ranges.holders.is_empty() {
            trees.remove(&tree);
        }
        freed
    }
}

impl LockTable {
    /// Keeps the keys from `from` on and below `to` as `owner` has seen them, rows and gaps, until it ends. REQUIRES: one
    /// leaf encloses them and has been latched since its rows were looked at; none of them was another transaction's
    /// uncommitted version or exclusively locked.
    pub(crate) fn cover(&self, owner: &Arc<Owner>, tree: TreeId, from: &[u8], to: Option<&[u8]>) {
        let shard = self.ranges.shard(tree);
        let mut trees = shard.mu.lock();
        let ranges = trees.entry(tree).or_default();
        let at = ranges.holders.iter().position(|h| h.owner.txn == owner.txn).unwrap_or_else(|| {
            base::check!(owner.note(&LockKey::ranges(tree)), "{} locks after its end", owner.txn);
            shard.holders.fetch_add(1, Ordering::Release);
            ranges.holders.push(Holder { owner: Arc::clone(owner), set: RangeSet::default() });
            ranges.holders.len() - 1
        });
        let set = &mut ranges.holders[at].set;
        let before = set.bytes();
        set.add(from, to);
        // Joining ranges can free more than it takes.
        self.bytes.fetch_add((set.bytes() as u64).wrapping_sub(before as u64), Ordering::Relaxed);
    }

    /// Whether no other transaction's range covers `key`. After a wait the caller looks at the row again: `Waiting` never
    /// means that the key is the caller's. REQUIRES: the leaf that covers the key is latched.
    #[inline]
    pub(super) fn out_of_ranges(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let none = self.ranges.shard(tree).holders.load(Ordering::Acquire) == 0;
        if none || planted(Bug::RangesIgnored) {
            return Ok(Enqueued::Granted);
        }
        self.ask_ranges(owner, tree, key, wait)
    }

    fn ask_ranges(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let mut trees = self.ranges.shard(tree).mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return Ok(Enqueued::Granted) };
        if ranges.covering(owner.txn, key).next().is_none() {
            return Ok(Enqueued::Granted);
        }
        let limit = match wait {
            _ if self.stopped() => return Err(Denied::Stopped),
            Wait::NoWait => return Err(Denied::Timeout),
            Wait::Skip => return Err(Denied::Skipped),
            Wait::Until(limit) => limit,
        };
        let key = LockKey::in_range(tree, key);
        ranges.waiting.push((Arc::clone(owner), key.clone()));
        owner.begin_wait(&key, ticket::WAITING);
        self.count_wait();
        Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), key, limit)))
    }
}
