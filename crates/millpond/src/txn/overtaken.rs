//! What a transaction has changed beyond its snapshot.
//!
//! A change by a current read may replace a version that is younger than the snapshot: the
//! transaction *overtakes* its snapshot there. Then a row and its index entries have different
//! versions to it. It sees its own version of the row, and of an entry that it did not change the
//! one of the snapshot, or none. So index entries are looked for in two views: that of the snapshot
//! without own changes, and the *present* view, the newest committed versions and the own ones
//! ([`crate::db::IndexCursor`]).

use super::system::{Txn, Txns};
use crate::btree::Tree;
use crate::error::Result;
use crate::mvcc::Snapshot;
use crate::mvcc::visible::WriterState;
use crate::page::node::{Leaf, SETTLED};
use base::{Lsn, TreeId, TxnId};

/// The snapshot of a transaction's plain reads.
#[derive(Debug)]
pub(crate) struct OwnSnapshot {
    snapshot: Snapshot,
    /// Where the transaction has overtaken it.
    overtaken: Option<Box<Overtaken>>,
}

#[derive(Debug, Default)]
struct Overtaken {
    trees: Vec<TreeId>,
    /// The snapshot of the present view: it sees every version that the transaction has replaced.
    present: Option<Snapshot>,
}

impl OwnSnapshot {
    #[inline]
    pub(super) fn new(snapshot: Snapshot) -> OwnSnapshot {
        OwnSnapshot { snapshot, overtaken: None }
    }

    #[inline]
    pub(super) fn lsn(&self) -> Lsn {
        self.snapshot.lsn()
    }
}

impl Txn {
    /// Tells whether the transaction has overtaken its snapshot anywhere.
    #[inline]
    pub(crate) fn has_overtaken(&self) -> bool {
        self.snapshot.borrow().as_ref().is_some_and(|own| own.overtaken.is_some())
    }

    /// Tells whether the transaction has overtaken its snapshot in one of two trees.
    pub(crate) fn has_overtaken_in(&self, trees: [TreeId; 2]) -> bool {
        let own = self.snapshot.borrow();
        let overtaken = own.as_ref().and_then(|own| own.overtaken.as_ref());
        overtaken.is_some_and(|overtaken| overtaken.trees.iter().any(|tree| trees.contains(tree)))
    }

    /// Remembers that the transaction overtakes its snapshot, if it has one, in a tree.
    fn note_overtaken(&self, tree: TreeId) {
        let mut own = self.snapshot.borrow_mut();
        let Some(own) = &mut *own else { return };
        let overtaken = own.overtaken.get_or_insert_default();
        // It may be too old for what is being changed now.
        overtaken.present = None;
        if !overtaken.trees.contains(&tree) {
            overtaken.trees.push(tree);
        }
    }
}

impl Txns {
    /// Remembers that the transaction overtakes its snapshot in a tree, if `newest`, the writer of
    /// the version that it is about to replace, committed at or above that snapshot.
    #[cold]
    pub(super) fn note_if_overtaken(&self, txn: &Txn, tree: Tree, newest: TxnId, snapshot: Lsn) {
        let view = self.view(snapshot, txn.id());
        if view.writer_state(newest, Some(snapshot), snapshot) == WriterState::Conflict {
            txn.note_overtaken(tree.id);
        }
    }

    /// Returns the snapshot LSN of the present view.
    pub(crate) fn present_lsn_of(&self, txn: &Txn) -> Lsn {
        let mut own = txn.snapshot.borrow_mut();
        let own = own.get_or_insert_with(|| OwnSnapshot::new(self.draw_snapshot()));
        own.overtaken.get_or_insert_default().present.get_or_insert_with(|| self.draw_snapshot()).lsn()
    }

    /// Tells whether the newest version of a row, or its delete mark, is the transaction's own.
    /// REQUIRES: no latch held.
    pub(crate) fn is_own(&self, txn: &Txn, tree: Tree, key: &[u8]) -> Result<bool> {
        let page = tree.leaf_read(&self.store, key)?;
        let leaf = Leaf::new(&page);
        let Ok(slot) = leaf.search(key) else { return Ok(false) };
        let row = leaf.row(slot);
        Ok(row.flags & SETTLED == 0 && row.version.txn == txn.id() && txn.id() != TxnId::NONE)
    }
}
