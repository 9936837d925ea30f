//! Sharding: one value for each group of keys, as a rule a map behind a mutex, so that threads that
//! work on different keys seldom wait for each other. [`Striped`](crate::Striped) is its sibling:
//! one value for each group of threads.

/// `usual` shards, or 1 in a loom model, where all keys are to meet.
#[must_use]
pub const fn shards(usual: usize) -> usize {
    if cfg!(loom) { 1 } else { usual }
}

/// `N` values in one allocation, one for the keys of each hash modulo `N`.
///
/// Neighbours may share a cache line. Where they are changed side by side, make `T` a
/// [`CachePadded`](crate::CachePadded).
#[derive(Debug)]
pub struct Sharded<T, const N: usize>(Box<[T; N]>);

impl<T: Default, const N: usize> Default for Sharded<T, N> {
    fn default() -> Self {
        Sharded::new(T::default)
    }
}

impl<T, const N: usize> Sharded<T, N> {
    /// Shards that `make` makes.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        // Collected on the heap: a shard may have many maps, and a caller's stack may be small.
        let all: Box<[T]> = (0..N).map(|_| make()).collect();
        Sharded(all.try_into().ok().expect("N were made"))
    }

    /// The shard of the keys with this hash. Dense numbers need no hashing: neighbours are in
    /// different shards.
    #[inline]
    pub fn of(&self, hash: u64) -> &T {
        &self.0[hash as usize % N]
    }

    /// All shards, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn each_hash_has_one_shard_and_neighbours_have_different_ones() {
        let sharded: Sharded<Mutex<Vec<u64>>, { shards(16) }> = Sharded::default();
        for hash in [0, 1, 15, 16, u64::MAX] {
            sharded.of(hash).lock().push(hash);
        }
        let all: Vec<Vec<u64>> = sharded.iter().map(|shard| shard.lock().clone()).collect();
        assert_eq!(
            (all.len(), &all[0], &all[1], &all[15]),
            (16, &vec![0, 16], &vec![1], &vec![15, u64::MAX])
        );
    }
}
