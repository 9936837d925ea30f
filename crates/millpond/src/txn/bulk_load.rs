//! Bulk load into a new tree: rows that no other transaction can reach before the load commits, all
//! with one version.
//!
//! That version's undo record is the insert of an empty key, which the root of the new tree shows
//! until the build replaces it. A reader that does not see the load reads there that the row was
//! absent before, which is true of every row. So a load of any length has undo for its long values
//! alone. It is never undone row by row: the tree is removed as a whole.

use super::transaction::Txn;
use super::versions::Versions;
use super::write::refuse_long;
use crate::btree::{BulkBuilder, BulkSink, Tree, write_chain};
use crate::error::{Error, Result};
use crate::lock::LockTable;
use crate::mtr::Mtr;
use crate::page::node::{OVERFLOW, Version};
use crate::page::op::{PageOp, RowChange, RowOp};
use crate::page::{inline_limit, max_key};
use crate::tree_store::Store;
use crate::undo::UndoEntry;
use base::TreeId;

/// Loads new trees, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct Loads<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) locks: &'a LockTable,
}

impl Loads<'_> {
    /// Makes a tree and begins to fill it. If this or the load fails, the caller releases the
    /// extents of `id`. REQUIRES: no latch held; the transaction has changed nothing yet.
    pub(crate) fn begin_load(&self, txn: &Txn, id: TreeId) -> Result<BulkBuilder> {
        let store = self.store;
        let tree = Tree::create(store, id)?;
        let stream = txn.stream_or_begin(self.versions, self.locks)?;
        base::check!(stream.is_empty(), "{} loads a table after other changes", stream.owner());
        let version = Version { txn: stream.owner(), undo_at: stream.end() };
        let root = store.pool.fetch(tree.root)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool)?;
        let root = mtr.add(root.write());
        let change = RowChange::Insert { flags: 0, value: &[] };
        let op = RowOp { slot: 0, tree: id, key: &[], version, change };
        stream.append_row(&op);
        mtr.apply(root, &PageOp::Row(op));
        mtr.commit();
        Ok(BulkBuilder::begin(tree))
    }

    /// Adds a row to a load. After an error the load cannot go on. REQUIRES: no latch held.
    pub(crate) fn load_row(
        &self,
        txn: &Txn,
        bulk: &mut BulkBuilder,
        key: &[u8],
        value: &[u8],
        sink: &dyn BulkSink,
    ) -> Result {
        let store = self.store;
        let page_bytes = store.pool.page_bytes();
        let max = max_key(page_bytes);
        if key.len() > max {
            return Err(Error::KeyTooLong { len: key.len(), max });
        }
        if value.len() <= inline_limit(page_bytes) {
            return bulk.push(store, key, 0, value, sink);
        }
        let tree = bulk.tree().id;
        refuse_long(value.len())?;
        let stream = txn.stream_or_begin(self.versions, self.locks)?;
        let mut begin = |_: &mut Mtr<'_>, head| {
            let undo_at = stream.append(UndoEntry::Chain { tree, head });
            Version { txn: stream.owner(), undo_at }
        };
        let chain = write_chain(store, tree, value, &mut begin, &mut || sink.admit(page_bytes))?;
        bulk.push(store, key, OVERFLOW, &chain.encode(), sink)
    }
}
