//! [`Tree`]: what a tree is known by, and how it begins. What it does is in the other files.

use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::op::{NodeHead, PageOp};
use crate::tree_store::Store;
use base::{PageNo, TreeId};

/// A tree: its id and the page of its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Its id, for ever the same.
    pub(crate) id: TreeId,
    /// Its root page, for ever the same.
    pub(crate) root: PageNo,
}

impl Tree {
    /// Creates an empty tree. Until the catalog names it, only the owner of its extents in the
    /// space map tells that it exists.
    pub(crate) fn create(store: &Store, id: TreeId) -> Result<Tree> {
        let mut reserved = store.space.reserve(id, 1)?;
        let holder = store.pool.hold_frames()?;
        let map = reserved.map(&holder)?;
        let frame = holder.take_frame()?;
        let (mut mtr, slot) = Mtr::begin_new(&store.log, &store.pool, reserved.pages()[0], frame)?;
        let map = map.latch(&mut mtr);
        let root = reserved.take(&mut mtr, map);
        let head = NodeHead { tree: id, level: 0, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body: &[] });
        mtr.commit();
        Ok(Tree { id, root })
    }

    /// Returns an error that reports damage in one of the tree's pages.
    pub(super) fn damage(&self, store: &Store, page: PageNo, what: &str) -> Error {
        Error::corrupt(store.pages_path(), format!("{:?}, {page:?}: {what}", self.id))
    }
}
