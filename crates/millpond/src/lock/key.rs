//! What a lock is on, as bytes: `[tree u32 big-endian][kind u8][row key]`. Never leaves memory.

use super::range::heap_bytes;
use base::TreeId;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// Names a row, a whole table, the ranges of a table, a key that somebody wants who is kept from it by ranges, or the place where scans let
/// others go first. Rows' keys of up to 18 bytes need no allocation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockKey(SmallVec<[u8; 23]>);

const ROW: u8 = 1;
const TABLE: u8 = 2;
const RANGES: u8 = 3;
const WANTED: u8 = 4;
const GATE: u8 = 5;

impl LockKey {
    pub(super) fn row(tree: TreeId, key: &[u8]) -> LockKey {
        LockKey::new(tree, ROW, key)
    }

    pub(super) fn table(tree: TreeId) -> LockKey {
        LockKey::new(tree, TABLE, &[])
    }

    /// What a transaction notes of a tree in which it has ranges.
    pub(super) fn ranges(tree: TreeId) -> LockKey {
        LockKey::new(tree, RANGES, &[])
    }

    /// What a transaction waits for, and notes, that wants to change a key in others' ranges.
    pub(super) fn wanted(tree: TreeId, key: &[u8]) -> LockKey {
        LockKey::new(tree, WANTED, key)
    }

    /// What a scan waits for that lets others go first.
    pub(super) fn gate(tree: TreeId) -> LockKey {
        LockKey::new(tree, GATE, &[])
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

    pub(super) fn is_table(&self) -> bool {
        self.0[4] == TABLE
    }

    /// Whether a queue stands behind it; the others are kept with the ranges.
    pub(super) fn in_queue(&self) -> bool {
        self.0[4] <= TABLE
    }

    /// Whether it is a scan's place to wait.
    pub(super) fn is_gate(&self) -> bool {
        self.0[4] == GATE
    }

    /// Whether it is a key that somebody wants who was kept from it by ranges.
    pub(super) fn is_wanted(&self) -> bool {
        self.0[4] == WANTED
    }

    pub(super) fn tree(&self) -> TreeId {
        TreeId(u32::from_be_bytes(self.0[..4].try_into().expect("four bytes")))
    }

    /// The row's key.
    pub(super) fn bytes_of_row(&self) -> &[u8] {
        &self.0[5..]
    }

    /// Memory that the key takes beside itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.0.spilled() { heap_bytes(self.0.len()) } else { 0 }
    }

    pub(super) fn hash(&self) -> u64 {
        hash(self.tree(), self.0[4], self.bytes_of_row())
    }
}

impl Clone for LockKey {
    fn clone(&self) -> LockKey {
        // With no more room than it needs.
        LockKey(SmallVec::from_slice(&self.0))
    }
}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(LockKey::hash(self));
    }
}

/// The hash of a row's key without building a [`LockKey`].
pub(crate) fn hash_row(tree: TreeId, key: &[u8]) -> u64 {
    hash(tree, ROW, key)
}

/// Eight bytes at a time, each mixed in by a multiplication (the odd constant of Knuth's multiplicative hashing) and a shift;
/// fixed for ever, so that a seed replays.
#[inline]
fn hash(tree: TreeId, kind: u8, key: &[u8]) -> u64 {
    let mix = |h: u64, word: u64| {
        let h = (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^ h >> 32
    };
    let start = mix(key.len() as u64, u64::from(tree.0) << 8 | u64::from(kind));
    let (words, rest) = key.as_chunks::<8>();
    let h = words.iter().fold(start, |h, word| mix(h, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    mix(h, last) & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_hashes_the_same_with_and_without_a_key() {
        for key in [&b""[..], b"a", b"a long key that does not fit into the inline bytes of a lock key"] {
            assert_eq!(LockKey::row(TreeId(7), key).hash(), hash_row(TreeId(7), key));
        }
        assert_ne!(LockKey::row(TreeId(7), b""), LockKey::table(TreeId(7)));
    }
}
