//! Delete marks that a scan passes. It notes the range that they fill, so that the next scan goes
//! past all of them at once ([`crate::mvcc::cleared`]).

use super::read::after;
use super::versions::Versions;
use crate::btree::Tree;
use crate::mvcc::cleared::{ClearedNote, MARKS_LEAST};
use crate::page::node::Leaf;
use crate::tree_store::Store;
use base::Lsn;
use metrics::M;

/// Neighbouring delete marks of a leaf, from slot `low` on and below `high`. All are committed, and
/// the scan sees them.
pub(super) struct DeleteMarks<'v> {
    store: &'v Store,
    versions: &'v Versions,
    tree: Tree,
    low: u16,
    high: u16,
    /// The greatest of their commits that may not be durable.
    newest: Option<Lsn>,
}

impl<'v> DeleteMarks<'v> {
    /// No marks yet of a leaf of `tree`.
    pub(super) fn of(store: &'v Store, versions: &'v Versions, tree: Tree) -> DeleteMarks<'v> {
        DeleteMarks { store, versions, tree, low: 0, high: 0, newest: None }
    }

    /// Adds one more mark. `since`: a reader that sees all commits below it sees the same marks as
    /// this scan. REQUIRES: the leaf is latched, and the mark is committed.
    pub(super) fn add(&mut self, leaf: Leaf<'_>, slot: u16, commit: Option<Lsn>, since: impl Fn() -> Lsn) {
        if slot + 1 == self.low && self.high > self.low {
            self.low = slot;
        } else if slot == self.high && self.high > self.low {
            self.high += 1;
        } else {
            self.note(leaf, since);
            (self.low, self.high, self.newest) = (slot, slot + 1, None);
        }
        self.newest = self.newest.max(commit);
    }

    /// Notes the range that the marks fill, up to the rows beside them or the leaf's fences.
    /// REQUIRES: the leaf is latched.
    pub(super) fn note(&self, leaf: Leaf<'_>, since: impl Fn() -> Lsn) {
        let DeleteMarks { store, versions, tree, low, high, newest } = *self;
        let count = u32::from(high - low);
        if count == 0 {
            return;
        }
        store.metrics.add(M::ScanMarks, count.into());
        // A few marks at a leaf's edge join the range of its neighbour. Without them there would be
        // a gap that each scan must look into.
        if count < MARKS_LEAST && low > 0 && high < leaf.len() {
            return;
        }
        let from = if low == 0 { leaf.low_fence().to_vec() } else { leaf.key(low).to_vec() };
        let to = match leaf.high_fence() {
            _ if high < leaf.len() => leaf.key(high).to_vec(),
            Some(high) => high.to_vec(),
            // Not to the end of all keys: rows will be added there.
            None => after(&leaf.key(high - 1).to_vec()),
        };
        let note = ClearedNote { from: &from, to: &to, since: since(), newest, marks: count };
        versions.cleared.note(tree.id, note, || versions.snapshot_cuts());
    }
}
