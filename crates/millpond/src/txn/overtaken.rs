//! What a transaction has changed beyond its snapshot.
//!
//! A change by a current read may replace a version that is younger than the snapshot: the
//! transaction *overtakes* its snapshot there. Then a row and its index entries have different
//! versions to it. It sees its own version of the row, and of an entry that it did not change the
//! one of the snapshot, or none. So index entries are looked for in two views: that of the snapshot
//! without own changes, and the *present* view, the newest committed versions and the own ones
//! ([`crate::db::IndexCursor`]).

use super::transaction::Txn;
use super::versions::Versions;
use crate::btree::Tree;
use crate::error::Result;
use crate::mvcc::visible::WriterState;
use crate::page::node::{Leaf, SETTLED};
use crate::tree_store::Store;
use base::{Lsn, TxnId};

/// Remembers that the transaction overtakes its snapshot in a tree, if `newest`, the writer of the
/// version that it is about to replace, committed at or above that snapshot.
#[cold]
pub(super) fn note_if_overtaken(versions: &Versions, txn: &Txn, tree: Tree, newest: TxnId, snapshot: Lsn) {
    let view = versions.view(snapshot, txn.id());
    if view.writer_state(newest, Some(snapshot), snapshot) == WriterState::Conflict {
        txn.snapshot.note_overtaken(tree.id);
    }
}

/// Tells whether the newest version of a row, or its delete mark, is the transaction's own.
/// REQUIRES: no latch held.
pub(crate) fn is_own(store: &Store, txn: &Txn, tree: Tree, key: &[u8]) -> Result<bool> {
    let page = tree.leaf_read(store, key)?;
    let leaf = Leaf::new(&page);
    let Ok(slot) = leaf.search(key) else { return Ok(false) };
    let row = leaf.row(slot);
    Ok(row.flags & SETTLED == 0 && row.version.txn == txn.id() && txn.id() != TxnId::NONE)
}
