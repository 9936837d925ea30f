//! Delete marks that a scan passes. It notes the range that they fill, so that the next scan goes
//! past all of them at once ([`crate::mvcc::cleared`]).

use super::read::after;
use super::system::Txns;
use crate::btree::Tree;
use crate::mvcc::cleared::{ClearedNote, MARKS_LEAST};
use crate::page::node::Leaf;
use base::Lsn;
use metrics::M;

/// Neighbouring delete marks of a leaf, from slot `low` on and below `high`. All are committed, and
/// the scan sees them.
#[derive(Debug, Default)]
pub(super) struct Marks {
    low: u16,
    high: u16,
    /// The greatest of their commits that may not be durable.
    newest: Option<Lsn>,
}

impl Txns {
    /// Adds one more mark. `since`: a reader that sees all commits below it sees the same marks as
    /// this scan. REQUIRES: the leaf is latched, and the mark is committed.
    pub(super) fn note_mark(
        &self,
        tree: Tree,
        leaf: Leaf<'_>,
        marks: &mut Marks,
        slot: u16,
        commit: Option<Lsn>,
        since: impl Fn() -> Lsn,
    ) {
        if slot + 1 == marks.low && marks.high > marks.low {
            marks.low = slot;
        } else if slot == marks.high && marks.high > marks.low {
            marks.high += 1;
        } else {
            self.note_marks(tree, leaf, marks, since);
            *marks = Marks { low: slot, high: slot + 1, newest: None };
        }
        marks.newest = marks.newest.max(commit);
    }

    /// Notes the range that the marks fill, up to the rows beside them or the leaf's fences.
    /// REQUIRES: the leaf is latched.
    pub(super) fn note_marks(&self, tree: Tree, leaf: Leaf<'_>, marks: &Marks, since: impl Fn() -> Lsn) {
        let count = u32::from(marks.high - marks.low);
        if count == 0 {
            return;
        }
        self.store.metrics.add(M::ScanMarks, count.into());
        // A few marks at a leaf's edge join the range of its neighbour. Without them there would be
        // a gap that each scan must look into.
        if count < MARKS_LEAST && marks.low > 0 && marks.high < leaf.len() {
            return;
        }
        let from = if marks.low == 0 { leaf.low_fence().to_vec() } else { leaf.key(marks.low).to_vec() };
        let to = match leaf.high_fence() {
            _ if marks.high < leaf.len() => leaf.key(marks.high).to_vec(),
            Some(high) => high.to_vec(),
            // Not to the end of all keys: rows will be added there.
            None => after(&leaf.key(marks.high - 1).to_vec()),
        };
        let note = ClearedNote { from: &from, to: &to, since: since(), newest: marks.newest, marks: count };
        self.cleared.note(tree.id, note, || self.snapshots.cuts(|| self.store.log.reserved_lsn()));
    }
}
