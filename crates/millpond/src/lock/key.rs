//! What a lock is on, as bytes: `[tree u32 big-endian][kind u8][row key]`. Never leaves memory.

use base::TreeId;
use smallvec::SmallVec;

/// Names a row or a whole table. Short keys need no allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockKey(SmallVec<[u8; 36]>);

const ROW: u8 = 1;
const TABLE: u8 = 2;

impl LockKey {
    pub(super) fn row(tree: TreeId, key: &[u8]) -> LockKey {
        LockKey::new(tree, ROW, key)
    }

    pub(super) fn table(tree: TreeId) -> LockKey {
        LockKey::new(tree, TABLE, &[])
    }

    fn new(tree: TreeId, kind: u8, key: &[u8]) -> LockKey {
        let mut bytes = SmallVec::with_capacity(5 + key.len());
        bytes.extend_from_slice(&tree.0.to_be_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(key);
        LockKey(bytes)
    }

    pub(super) fn is_table(&self) -> bool {
        self.0[4] == TABLE
    }

    /// Memory that the key takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + if self.0.spilled() { self.0.capacity() } else { 0 }
    }

    pub(super) fn hash(&self) -> u64 {
        hash(self.0[..5].iter().chain(&self.0[5..]))
    }
}

/// The hash of a row's key without building a [`LockKey`].
pub(super) fn hash_row(tree: TreeId, key: &[u8]) -> u64 {
    hash(tree.0.to_be_bytes().iter().chain(&[ROW]).chain(key))
}

/// FNV-1a with a final mix: fixed for ever, so that a seed replays.
fn hash<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    let h = bytes.fold(0xcbf2_9ce4_8422_2325, |h: u64, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (h ^ (h >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
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
