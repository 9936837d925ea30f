//! The snapshot of a transaction's plain reads, and where the transaction has
//! [overtaken](super::overtaken) it.

use crate::mvcc::Snapshot;
use base::{Lsn, TreeId};
use std::cell::RefCell;

/// The snapshot of a transaction's plain reads, once drawn.
#[derive(Debug, Default)]
pub(crate) struct OwnSnapshot(RefCell<Option<DrawnSnapshot>>);

#[derive(Debug)]
struct DrawnSnapshot {
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

impl DrawnSnapshot {
    #[inline]
    fn new(snapshot: Snapshot) -> DrawnSnapshot {
        DrawnSnapshot { snapshot, overtaken: None }
    }
}

impl OwnSnapshot {
    /// Returns the LSN of the snapshot, if it is drawn.
    #[inline]
    pub(crate) fn lsn(&self) -> Option<Lsn> {
        self.0.borrow().as_ref().map(|own| own.snapshot.lsn())
    }

    /// Returns the LSN of the snapshot. The first call draws it.
    #[inline]
    pub(super) fn lsn_or_draw(&self, draw: impl FnOnce() -> Snapshot) -> Lsn {
        self.0.borrow_mut().get_or_insert_with(|| DrawnSnapshot::new(draw())).snapshot.lsn()
    }

    /// Drops the snapshot; the transaction reads no more.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().take();
    }

    /// Tells whether the transaction has overtaken its snapshot anywhere.
    #[inline]
    pub(crate) fn is_overtaken(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|own| own.overtaken.is_some())
    }

    /// Tells whether the transaction has overtaken its snapshot in one of two trees.
    pub(crate) fn is_overtaken_in(&self, trees: [TreeId; 2]) -> bool {
        let own = self.0.borrow();
        let overtaken = own.as_ref().and_then(|own| own.overtaken.as_ref());
        overtaken.is_some_and(|overtaken| overtaken.trees.iter().any(|tree| trees.contains(tree)))
    }

    /// Remembers that the transaction overtakes its snapshot, if it has one, in a tree.
    pub(super) fn note_overtaken(&self, tree: TreeId) {
        let mut own = self.0.borrow_mut();
        let Some(own) = &mut *own else { return };
        let overtaken = own.overtaken.get_or_insert_default();
        // It may be too old for what is being changed now.
        overtaken.present = None;
        if !overtaken.trees.contains(&tree) {
            overtaken.trees.push(tree);
        }
    }

    /// Returns the snapshot LSN of the present view.
    pub(super) fn present_lsn(&self, draw: impl Fn() -> Snapshot) -> Lsn {
        let mut own = self.0.borrow_mut();
        let own = own.get_or_insert_with(|| DrawnSnapshot::new(draw()));
        let present = own.overtaken.get_or_insert_default().present.get_or_insert_with(draw).lsn();
        let drawn = own.snapshot.lsn();
        base::check!(
            drawn <= present,
            "the present view, at {present}, is older than the snapshot at {drawn}"
        );
        present
    }
}
