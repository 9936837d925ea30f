//! The name of a lock, as bytes: `[tree u32 big-endian][kind u8][row key]`. It exists only in
//! memory.

use super::range::heap_bytes;
use base::{Spread, TreeId};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// Names a row, a whole table, a table's counter, a transaction's ranges in a table, a pending
/// write, or the wait of a scan that lets writers pass. Row keys of up to 18 bytes need no
/// allocation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockKey(SmallVec<[u8; 23]>);

const ROW: u8 = 1;
const TABLE: u8 = 2;
const COUNTER: u8 = 3;
const RANGES: u8 = 4;
const PENDING_WRITE: u8 = 5;
const SCAN_WAIT: u8 = 6;

impl LockKey {
    pub(super) fn row(tree: TreeId, key: &[u8]) -> LockKey {
        LockKey::new(tree, ROW, key)
    }

    pub(super) fn table(tree: TreeId) -> LockKey {
        LockKey::new(tree, TABLE, &[])
    }

    /// The name of a table's counter.
    pub(super) fn counter(tree: TreeId) -> LockKey {
        LockKey::new(tree, COUNTER, &[])
    }

    /// The entry in a transaction's list for its ranges in a tree.
    pub(super) fn ranges(tree: TreeId) -> LockKey {
        LockKey::new(tree, RANGES, &[])
    }

    /// The name of a pending write: a key in other transactions' ranges. The writer waits for it
    /// and has it in its list.
    pub(super) fn pending_write(tree: TreeId, key: &[u8]) -> LockKey {
        LockKey::new(tree, PENDING_WRITE, key)
    }

    /// The name of a scan's wait for the writers that it lets pass.
    pub(super) fn scan_wait(tree: TreeId) -> LockKey {
        LockKey::new(tree, SCAN_WAIT, &[])
    }

    fn new(tree: TreeId, kind: u8, key: &[u8]) -> LockKey {
        let mut bytes = SmallVec::with_capacity(5 + key.len());
        bytes.extend_from_slice(&tree.0.to_be_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(key);
        LockKey(bytes)
    }

    pub(super) fn is_row(&self) -> bool {
        self.0[4] == ROW
    }

    pub(super) fn is_counter(&self) -> bool {
        self.0[4] == COUNTER
    }

    /// Returns whether it names a queue. The others are kept with the ranges.
    pub(super) fn in_queue(&self) -> bool {
        self.0[4] <= COUNTER
    }

    /// Returns whether it names a scan's wait.
    pub(super) fn is_scan_wait(&self) -> bool {
        self.0[4] == SCAN_WAIT
    }

    /// Returns whether it names a pending write.
    pub(super) fn is_pending_write(&self) -> bool {
        self.0[4] == PENDING_WRITE
    }

    pub(super) fn tree(&self) -> TreeId {
        TreeId(u32::from_be_bytes(self.0[..4].try_into().expect("four bytes")))
    }

    /// The row's key.
    pub(super) fn bytes_of_row(&self) -> &[u8] {
        &self.0[5..]
    }

    /// Memory that the key takes on the heap, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.0.spilled() { heap_bytes(self.0.len()) } else { 0 }
    }

    /// Returns its hash from `seed` on.
    pub(super) fn hash_from(&self, seed: Spread) -> u64 {
        hash(seed, self.tree(), self.0[4], self.bytes_of_row()).finish()
    }
}

impl Clone for LockKey {
    fn clone(&self) -> LockKey {
        // Without spare capacity.
        LockKey(SmallVec::from_slice(&self.0))
    }
}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        feed(state, self.tree(), self.0[4], self.bytes_of_row());
    }
}

/// The hash of a row's key without building a [`LockKey`].
#[inline]
pub(crate) fn hash_row(seed: Spread, tree: TreeId, key: &[u8]) -> u64 {
    hash(seed, tree, ROW, key).finish()
}

#[inline]
fn hash(mut seed: Spread, tree: TreeId, kind: u8, key: &[u8]) -> Spread {
    feed(&mut seed, tree, kind, key);
    seed
}

#[inline]
fn feed(state: &mut impl Hasher, tree: TreeId, kind: u8, key: &[u8]) {
    state.write_u64((key.len() as u64) << 40 | u64::from(tree.0) << 8 | u64::from(kind));
    state.write(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn a_row_hashes_the_same_with_and_without_a_key() {
        for key in [&b""[..], b"a", b"a long key that does not fit into the inline bytes of a lock key"] {
            let (seed, lock) = (Spread::from(5), LockKey::row(TreeId(7), key));
            let hash = hash_row(seed, TreeId(7), key);
            assert_eq!((lock.hash_from(seed), seed.hash_one(&lock)), (hash, hash));
            assert_ne!(hash, hash_row(Spread::from(6), TreeId(7), key));
        }
        assert_ne!(LockKey::row(TreeId(7), b""), LockKey::table(TreeId(7)));
    }
}
