//! A map whose keys say what they hash to, and whose memory follows what is in it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Spreads what keys say over the bits that a map goes by. No seed: what is done in simulated worlds repeats.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
    }
}

/// A map that gives memory back as entries go. Its keys hash themselves, mostly with one call of `write_u64`; who can choose keys that
/// hash alike makes them be compared one by one.
#[derive(Debug)]
pub struct ByHash<K, V>(HashMap<K, V, BuildHasherDefault<Spread>>);

impl<K, V> Default for ByHash<K, V> {
    fn default() -> Self {
        ByHash(HashMap::default())
    }
}

impl<K: Hash + Eq, V> ByHash<K, V> {
    /// What is there under a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Enters a value; what was there comes back.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes a value out. Memory goes back when seven eighths of it stand empty, and all of it with the last entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.0.remove(key);
        let (len, room) = (self.0.len(), self.0.capacity());
        if len == 0 || len * 8 < room {
            self.0.shrink_to(len * 2);
        }
        old
    }

    /// Bytes of memory: of the room that there is, not only of what stands in it.
    pub fn bytes(&self) -> usize {
        // A byte of a mark an entry, and an eighth that always stays empty.
        self.0.capacity() * (size_of::<(K, V)>() + 1) * 8 / 7
    }
}

impl<K: Hash + Eq + Ord + Clone, V> ByHash<K, V> {
    /// Its keys, in their order.
    pub fn keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.0.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_what_is_in_it() {
        let mut map = ByHash::default();
        let keys = || (0..10_000u64).map(|n| n << 6 | 5);
        keys().for_each(|key| assert_eq!(map.insert(key, key + 1), None));
        assert_eq!((map.get(&5), map.get(&6)), (Some(&6), None));
        assert_eq!(map.get_mut(&69), Some(&mut 70));
        assert!(map.bytes() >= 170_000, "{}", map.bytes());
        assert!(keys().eq(map.keys()));
        for (left, key) in (0..10_000usize).rev().zip(keys()) {
            assert_eq!(map.remove(&key), Some(key + 1));
            assert!(map.bytes() <= 20 * (left * 8 + 64), "{} bytes for {left}", map.bytes());
        }
        assert_eq!((map.bytes(), map.remove(&5)), (0, None));
    }
}
