//! The leaf cache: the leaf of a transaction's last row. Most rows are locked and read, then
//! changed; the change can skip the descent.

use crate::btree::Tree;
use crate::lock::hash_row;
use base::{PageNo, Spread, TreeId};
use std::cell::Cell;

/// Seed of the hash. If another key has the same hash, the wrong leaf is tried, nothing else.
const SUM: Spread = Spread::from(0);

/// The leaf of the key that was searched last. It is a guess: its user checks whether the page is
/// still that leaf.
#[derive(Debug, Default)]
pub(crate) struct LeafCache(Cell<Option<(TreeId, u64, PageNo)>>);

impl LeafCache {
    /// Returns the leaf of `key`, if `key` is probably the key that was searched last.
    pub(super) fn get(&self, tree: Tree, key: &[u8]) -> Option<PageNo> {
        let (last, sum, page) = self.0.get()?;
        (last == tree.id && sum == hash_row(SUM, tree.id, key)).then_some(page)
    }

    /// Remembers the leaf that holds or would hold `key`.
    pub(super) fn set(&self, tree: Tree, key: &[u8], page: PageNo) {
        self.0.set(Some((tree.id, hash_row(SUM, tree.id, key), page)));
    }
}
