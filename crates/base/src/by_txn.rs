//! What is known of each transaction that matters just now, found by its id.

use crate::TxnId;
use crate::by_hash::Spread;
use crate::sync::Mutex;
use std::collections::HashMap;

/// Ids are dense, so transactions that run side by side are in different shards.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

/// A shard with room for no more entries than this keeps it.
const ROOMY: usize = 256;

/// Gives memory back that a crowd has left, and keeps room for twice as many as there are.
#[cold]
fn shrink<V>(shard: &mut Map<V>) {
    shard.shrink_to(2 * shard.len());
}

/// Nobody chooses ids: no seed is needed against those who would choose badly.
type Map<V> = HashMap<TxnId, V, Spread>;

/// A cache line of its own, so that neighbours do not wait for each other.
#[derive(Debug)]
#[repr(align(64))]
struct Shard<V>(Mutex<Map<V>>);

/// A map from transaction ids, in shards behind mutexes that are held for a look or a change. Memory that entries took
/// stays for the next ones, but not that of a crowd that is gone.
#[derive(Debug)]
pub struct ByTxn<V> {
    shards: Box<[Shard<V>]>,
}

impl<V> Default for ByTxn<V> {
    fn default() -> Self {
        ByTxn { shards: (0..SHARDS).map(|_| Shard(Mutex::new(Map::default()))).collect() }
    }
}

impl<V> ByTxn<V> {
    #[inline]
    fn shard(&self, txn: TxnId) -> &Mutex<Map<V>> {
        &self.shards[txn.0 as usize % SHARDS].0
    }

    /// Asks the processor for the place where a transaction will be entered soon.
    #[inline]
    pub fn prefetch(&self, txn: TxnId) {
        crate::prefetch::to_write(std::slice::from_ref(self.shard(txn)), 1);
    }

    /// Enters a transaction; what was known of it before comes back.
    pub fn insert(&self, txn: TxnId, value: V) -> Option<V> {
        self.shard(txn).lock().insert(txn, value)
    }

    /// Forgets a transaction; what was known of it comes back.
    pub fn remove(&self, txn: TxnId) -> Option<V> {
        let mut shard = self.shard(txn).lock();
        let gone = shard.remove(&txn);
        if shard.capacity() > ROOMY && shard.capacity() > 8 * shard.len() {
            shrink(&mut shard);
        }
        gone
    }

    /// How many transactions there is memory for.
    pub fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().capacity()).sum()
    }

    /// How many transactions are known.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V: Clone> ByTxn<V> {
    /// What is known of a transaction.
    pub fn get(&self, txn: TxnId) -> Option<V> {
        self.shard(txn).lock().get(&txn).cloned()
    }

    /// Everything that is known, in no order that means anything. Not one moment: transactions come and go meanwhile.
    pub fn list(&self) -> Vec<V> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.0.lock().values().cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_leaves_no_memory_behind() {
        let map = ByTxn::default();
        for id in 0..200_000 {
            map.insert(TxnId(id), id);
        }
        let most = map.capacity();
        for id in 0..200_000 {
            assert_eq!(map.remove(TxnId(id)), Some(id));
            assert!(id == 199_999 || map.get(TxnId(199_999)).is_some());
        }
        assert!(most >= 200_000 && map.capacity() <= SHARDS * 2 * ROOMY, "{most} {}", map.capacity());
    }

    #[test]
    fn transactions_are_found_until_they_are_removed() {
        let map = ByTxn::default();
        assert!(map.is_empty());
        for id in 0..1000 {
            assert_eq!(map.insert(TxnId(id), id * 2), None);
        }
        assert_eq!((map.get(TxnId(7)), map.get(TxnId(1000)), map.len()), (Some(14), None, 1000));
        assert_eq!(
            (map.insert(TxnId(7), 1), map.remove(TxnId(7)), map.remove(TxnId(7))),
            (Some(14), Some(1), None)
        );
        let mut rest = map.list();
        rest.sort_unstable();
        assert!(rest.into_iter().eq((0..1000).filter(|id| *id != 7).map(|id| id * 2)));
    }
}
