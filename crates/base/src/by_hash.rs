//! A hash function for keys that a user may choose, and a hash map that gives memory back.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// A hash function with a seed. It takes eight bytes at a time, multiplies by the odd constant of
/// Knuth's multiplicative hashing, and folds the upper half of the product into the lower.
///
/// A user who does not know the seed cannot choose keys with the same hash. Where no user chooses
/// the keys, the seed is 0. The seed is never random by itself, so simulated worlds repeat.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Spread {
    /// The function with this seed. A user who chooses the keys must not know it.
    #[inline]
    #[must_use]
    pub const fn from(seed: u64) -> Spread {
        Spread(seed)
    }
}

impl Hasher for Spread {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    /// Does not mix in the length: a caller that writes several byte strings writes their lengths
    /// too.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        self.write_u64(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl BuildHasher for Spread {
    type Hasher = Spread;

    #[inline]
    fn build_hasher(&self) -> Spread {
        *self
    }
}

/// A hash map that gives memory back as entries are removed.
#[derive(Debug)]
pub struct ByHash<K, V>(HashMap<K, V, Spread>);

impl<K, V> ByHash<K, V> {
    /// An empty map whose keys are hashed by `spread`.
    #[must_use]
    pub fn new(spread: Spread) -> Self {
        ByHash(HashMap::with_hasher(spread))
    }
}

impl<K: Hash + Eq, V> ByHash<K, V> {
    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Enters a value. Returns the value that the key had before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes a value and returns it. Memory is freed when seven eighths of it are unused, and all
    /// of it with the last entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.0.remove(key);
        let (len, room) = (self.0.len(), self.0.capacity());
        if len == 0 || len * 8 < room {
            self.0.shrink_to(len * 2);
        }
        old
    }

    /// Returns the memory of the map, bytes: of its capacity, not only of its entries.
    pub fn bytes(&self) -> usize {
        // Each entry has a control byte, and an eighth of the table always stays empty.
        self.0.capacity() * (size_of::<(K, V)>() + 1) * 8 / 7
    }
}

impl<K: Hash + Eq + Ord + Clone, V> ByHash<K, V> {
    /// Returns the keys in their order.
    pub fn keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.0.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(seed: u64, words: [u64; 2]) -> u64 {
        let mut spread = Spread::from(seed);
        words.into_iter().for_each(|word| spread.write_u64(word));
        spread.finish()
    }

    /// The upper bits of a product depend on all bits, the lower ones on few. After a plain
    /// multiplication and a shift, some words have the same hash with every seed.
    #[test]
    fn keys_with_the_same_hash_cannot_be_chosen_without_the_seed() {
        const TOP: u64 = 1 << 63;
        for seed in (0..1000u64).map(|n| n.wrapping_mul(0x2545_f491_4f6c_dd1d)) {
            let other = [7 ^ TOP, 9 ^ TOP ^ TOP >> 32];
            assert_ne!(hash(seed, [7, 9]), hash(seed, other), "seed {seed}");
        }
        let falls_to = |seed: u64, n: u64| hash(seed, [n, 0]) % 64;
        let chosen: Vec<u64> = (0..).filter(|&n| falls_to(1, n) == 0).take(640).collect();
        for seed in 2..10 {
            let most =
                (0..64).map(|place| chosen.iter().filter(|&&n| falls_to(seed, n) == place).count()).max();
            assert!(most < Some(40), "seed {seed}: {most:?} of 640 in one of 64 places");
        }
    }

    #[test]
    fn memory_follows_what_is_in_it() {
        let mut map = ByHash::new(Spread::from(3));
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
