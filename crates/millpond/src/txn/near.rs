//! Where a transaction's last row stood. Most rows are locked and read, then changed: the second way down the tree is saved.

use crate::btree::Tree;
use crate::lock::hash_row;
use base::{PageNo, Spread, TreeId};
use std::cell::Cell;

/// Keys that sum up alike cost who chose them a look at the wrong leaf.
const SUM: Spread = Spread::from(0);

/// The leaf of the row that was looked for last. It is a guess: who follows it looks whether the page is still that leaf.
#[derive(Debug, Default)]
pub(crate) struct Near(Cell<Option<(TreeId, u64, PageNo)>>);

impl Near {
    /// The leaf of `key`, if it is probably the key that was looked for last.
    pub(super) fn leaf(&self, tree: Tree, key: &[u8]) -> Option<PageNo> {
        let (last, sum, page) = self.0.get()?;
        (last == tree.id && sum == hash_row(SUM, tree.id, key)).then_some(page)
    }

    /// Remembers where `key` stands or would stand.
    pub(super) fn was(&self, tree: Tree, key: &[u8], page: PageNo) {
        self.0.set(Some((tree.id, hash_row(SUM, tree.id, key), page)));
    }
}
