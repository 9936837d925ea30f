//! A concurrent map from transaction ids, in shards: what is known of each transaction that matters
//! just now.

use crate::TxnId;
use crate::by_hash::Spread;
use crate::sharded::{Sharded, shards};
use crate::striped::CachePadded;
use crate::sync::Mutex;
use std::collections::HashMap;

/// A shard keeps capacity for this many entries, however few it has.
const KEPT_CAPACITY: usize = 256;

/// Gives memory back that many transactions have left behind. Keeps room for twice as many entries
/// as there are.
#[cold]
fn shrink<V>(shard: &mut Map<V>) {
    shard.shrink_to(2 * shard.len());
}

/// It needs no seed: no caller chooses ids, so none can choose ids that hash alike.
type Map<V> = HashMap<TxnId, V, Spread>;

/// A map from transaction ids, in shards. Each shard is behind a mutex that is held for one look or
/// one change. A shard keeps the memory of removed entries for new ones, unless it has far more
/// than it needs.
///
/// Ids are dense, so transactions that run side by side are in different shards.
#[derive(Debug)]
pub struct ByTxn<V> {
    shards: Sharded<CachePadded<Mutex<Map<V>>>, { shards(64) }>,
}

impl<V> Default for ByTxn<V> {
    fn default() -> Self {
        ByTxn { shards: Sharded::new(|| CachePadded(Mutex::new(Map::default()))) }
    }
}

impl<V> ByTxn<V> {
    #[inline]
    fn shard(&self, txn: TxnId) -> &Mutex<Map<V>> {
        self.shards.of(txn.0)
    }

    /// Prefetches the shard that a transaction will be entered in soon.
    #[inline]
    pub fn prefetch(&self, txn: TxnId) {
        crate::prefetch::to_write(std::slice::from_ref(self.shard(txn)), 1);
    }

    /// Enters a transaction. Returns what was known of it before.
    pub fn insert(&self, txn: TxnId, value: V) -> Option<V> {
        self.shard(txn).lock().insert(txn, value)
    }

    /// Removes a transaction. Returns what was known of it.
    pub fn remove(&self, txn: TxnId) -> Option<V> {
        let mut shard = self.shard(txn).lock();
        let gone = shard.remove(&txn);
        if shard.capacity() > KEPT_CAPACITY && shard.capacity() > 8 * shard.len() {
            shrink(&mut shard);
        }
        gone
    }

    /// How many transactions there is memory for.
    pub fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().capacity()).sum()
    }

    /// How many transactions are known.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether no transaction is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V: Clone> ByTxn<V> {
    /// Returns what is known of a transaction.
    pub fn get(&self, txn: TxnId) -> Option<V> {
        self.shard(txn).lock().get(&txn).cloned()
    }

    /// Returns everything that is known, in no particular order. Not one point in time:
    /// transactions come and go meanwhile.
    pub fn list(&self) -> Vec<V> {
        let mut all = Vec::new();
        for shard in self.shards.iter() {
            all.extend(shard.lock().values().cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_transactions_leave_no_memory_behind() {
        let map = ByTxn::default();
        for id in 0..200_000 {
            map.insert(TxnId(id), id);
        }
        let most = map.capacity();
        for id in 0..200_000 {
            assert_eq!(map.remove(TxnId(id)), Some(id));
            assert!(id == 199_999 || map.get(TxnId(199_999)).is_some());
        }
        let kept = map.shards.iter().count() * 2 * KEPT_CAPACITY;
        assert!(most >= 200_000 && map.capacity() <= kept, "{most} {}", map.capacity());
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
