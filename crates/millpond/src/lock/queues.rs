//! The queues of a shard, found by their keys. Pure.

use super::key::LockKey;
use super::queue::Queue;
use base::{ByHash, Spread, TxnId};

/// Maps of each kind, so that no single insertion moves many entries under the shard's mutex.
const PARTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The kind of transaction that first entered a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A transaction with few locks.
    Few,
    /// A transaction with thousands of locks.
    Many,
}

/// Returns the bits of a hash that choose the shard. Shard and map are chosen by bits that the map
/// itself does not use; it uses the lowest and the highest. Otherwise all keys of a map would want
/// the same few places in it.
#[inline]
pub(super) fn shard_bits(hash: u64) -> u64 {
    hash >> 32
}

fn part_of(hash: u64) -> usize {
    (hash >> 44) as usize % PARTS
}

/// The queues of a shard. Queues that transactions with few locks have entered are kept apart from
/// those of transactions with very many. So the former are found in maps that are small and cached,
/// and a search for a missing key costs one more memory access instead of a search through a map of
/// a million.
#[derive(Debug)]
pub(super) struct Queues {
    seed: Spread,
    few: [ByHash<LockKey, Queue>; PARTS],
    many: [ByHash<LockKey, Queue>; PARTS],
}

impl Queues {
    pub(super) fn new(seed: Spread) -> Queues {
        let parts = || std::array::from_fn(|_| ByHash::new(seed));
        Queues { seed, few: parts(), many: parts() }
    }

    fn part_of(&self, key: &LockKey) -> usize {
        part_of(key.hash_from(self.seed))
    }

    pub(super) fn get(&self, key: &LockKey) -> Option<&Queue> {
        let part = self.part_of(key);
        self.few[part].get(key).or_else(|| self.many[part].get(key))
    }

    /// Returns whether a transaction has a lock in the queue of `key`.
    pub(super) fn holds(&self, key: &LockKey, txn: TxnId) -> bool {
        self.get(key).is_some_and(|queue| queue.holds(txn))
    }

    pub(super) fn get_mut(&mut self, key: &LockKey) -> Option<&mut Queue> {
        let part = self.part_of(key);
        self.map_of(part, key).get_mut(key)
    }

    /// Returns the map that holds the queue, if one does.
    fn map_of(&mut self, part: usize, key: &LockKey) -> &mut ByHash<LockKey, Queue> {
        if self.few[part].get(key).is_some() { &mut self.few[part] } else { &mut self.many[part] }
    }

    /// Adds an empty queue. Returns the bytes that this takes. REQUIRES: there is none.
    pub(super) fn insert(&mut self, key: &LockKey, by: By) -> usize {
        let part = self.part_of(key);
        let map = match by {
            By::Few => &mut self.few[part],
            By::Many => &mut self.many[part],
        };
        let before = map.bytes();
        map.insert(key.clone(), Queue::default());
        map.bytes() - before + key.heap_bytes()
    }

    /// Removes a queue. Returns the bytes that this frees. REQUIRES: it is there.
    pub(super) fn remove(&mut self, key: &LockKey) -> usize {
        let part = self.part_of(key);
        let map = self.map_of(part, key);
        let before = map.bytes();
        map.remove(key);
        before - map.bytes() + key.heap_bytes()
    }

    /// The keys of all queues, map by map in their order.
    pub(super) fn keys(&self) -> Vec<LockKey> {
        self.few.iter().chain(&self.many).flat_map(ByHash::keys).collect()
    }

    /// Room in the maps for queues that transactions with few locks have entered, bytes.
    #[cfg(test)]
    pub(super) fn bytes_of_few(&self) -> usize {
        self.few.iter().map(ByHash::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash_row;
    use super::*;
    use base::TreeId;
    use std::collections::BTreeSet;

    #[test]
    fn keys_of_one_map_are_spread_over_its_places() {
        let hash = |n: u64| hash_row(Spread::from(3), TreeId(1), &n.to_be_bytes());
        let of_one_map =
            (0..500_000).map(hash).filter(|&hash| shard_bits(hash) % 64 == 5 && part_of(hash) == 7);
        let places: BTreeSet<u64> = of_one_map.map(|hash| hash % 256).collect();
        assert!(places.len() > 150, "{} of 256", places.len());
    }
}
