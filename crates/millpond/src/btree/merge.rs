//! Merges. A page takes over its right sibling when one of them is small and both have the same
//! parent. A root with one child takes over that child. Only purge calls this (Tr6), because only
//! purge makes pages emptier.

use super::descend::Latched;
use super::seek::Seek;
use super::tree::Tree;
use crate::buffer::PageWrite;
use crate::error::Result;
use crate::mtr::Mtr;
use crate::page::apply::content_bytes;
use crate::page::edit::body_of;
use crate::page::node::{Inner, Node, SLOTS};
use crate::page::op::{NodeHead, PageOp};
use crate::space::PinnedMap;
use crate::tree_store::Store;
use base::PageNo;
use metrics::M;

/// A page is small when its entries take less than this share of it.
const SMALL: (usize, usize) = (1, 4);
/// A merged page is at most this full; otherwise the next insert would split it again.
const MERGED_MAX: (usize, usize) = (3, 4);

/// Returns whether a page is so empty that [`Tree::try_merge`] is worth a try.
#[must_use]
pub(crate) fn is_small(page: &[u8]) -> bool {
    Node::new(page).entry_bytes() * SMALL.1 < (page.len() - SLOTS) * SMALL.0
}

/// The result of one attempt to merge.
enum MergeOutcome {
    /// This page must be fetched; then try again.
    Missing(PageNo),
    /// Try again.
    Again,
    /// Nothing to do.
    Nothing,
    /// Two pages were merged. `parent_small`: their parent should be merged too.
    Merged { parent_small: bool },
    /// The parent has only this child.
    OnlyChild { is_root: bool },
}

/// Two siblings to merge, their parent, and the map page of the right one.
struct MergePages<'s> {
    parent: PageWrite<'s>,
    /// Slot of the right page in the parent.
    right_at: u16,
    left: PageWrite<'s>,
    right: PageWrite<'s>,
    map: PinnedMap<'s>,
}

impl Tree {
    /// Merges the leaf that covers `key` with a neighbour if possible, then the pages above it that
    /// become small. Returns whether a page was freed. REQUIRES: no latch held.
    pub(crate) fn try_merge(&self, store: &Store, key: &[u8]) -> Result<bool> {
        let (mut level, mut freed) = (0u8, false);
        let mut missing = None;
        loop {
            store.log.make_room()?;
            let _holder = missing.map(|_| store.pool.hold_frames()).transpose()?;
            let _kept = missing.take().map(|page| store.pool.fetch(page)).transpose()?;
            match self.merge_once(store, level, key)? {
                MergeOutcome::Missing(page) => {
                    store.metrics.add(M::DescentRestarts, 1);
                    missing = Some(page);
                }
                MergeOutcome::Again => {}
                MergeOutcome::Nothing => return Ok(freed),
                MergeOutcome::Merged { parent_small } => {
                    freed = true;
                    if !parent_small {
                        return Ok(true);
                    }
                    level += 1;
                }
                MergeOutcome::OnlyChild { is_root: false } => level += 1,
                MergeOutcome::OnlyChild { is_root: true } => {
                    freed |= self.collapse_root(store)?;
                    return Ok(freed);
                }
            }
        }
    }

    fn merge_once(&self, store: &Store, level: u8, key: &[u8]) -> Result<MergeOutcome> {
        let Some(found) = self.descend(store, Seek::At(key), level + 1, true)? else {
            return Ok(MergeOutcome::Nothing);
        };
        let Latched::Write(parent) = found.page else { unreachable!("an exclusive latch was asked for") };
        let inner = Inner::new(&parent);
        let (n, at) = (inner.len(), inner.find(key));
        if n == 1 {
            return Ok(MergeOutcome::OnlyChild { is_root: parent.page_no() == self.root });
        }
        // Try the right neighbour, then the left one.
        for left_at in [Some(at), at.checked_sub(1)].into_iter().flatten().filter(|&i| i + 1 < n) {
            let (left_no, right_no) = (inner.child(left_at), inner.child(left_at + 1));
            let Some(left) = store.pool.try_pin(left_no) else { return Ok(MergeOutcome::Missing(left_no)) };
            let Some(right) = store.pool.try_pin(right_no) else {
                return Ok(MergeOutcome::Missing(right_no));
            };
            let left = left.write();
            self.verify_page(store, &left, level, left_no)?;
            if Node::new(&left).right() != right_no {
                continue; // The split of a page between them is not posted yet.
            }
            let right = right.write();
            self.verify_page(store, &right, level, right_no)?;
            if worth_merging(&left, &right) {
                let Some(map) = store.space.try_map_of(right_no) else {
                    return Ok(MergeOutcome::Missing(store.space.map_page_of(right_no)));
                };
                let right_at = left_at + 1;
                return self.merge(store, MergePages { parent, right_at, left, right, map });
            }
        }
        Ok(MergeOutcome::Nothing)
    }

    fn merge<'s>(&self, store: &'s Store, pages: MergePages<'s>) -> Result<MergeOutcome> {
        let Some(mut mtr) = Mtr::try_begin(&store.log, &store.pool) else {
            drop(pages);
            store.log.await_credit()?;
            return Ok(MergeOutcome::Again);
        };
        let MergePages { parent, right_at, left, right, map } = pages;
        let right_no = right.page_no();
        let is_root = parent.page_no() == self.root;
        let (parent, left, right) = (mtr.add(parent), mtr.add(left), mtr.add(right));
        let node = Node::new(mtr.page(right));
        let high = node.high_fence().unwrap_or_default().to_vec();
        let low = Node::new(mtr.page(left)).low_fence();
        let head = NodeHead { tree: self.id, level: node.level(), right: node.right(), low, high: &high };
        let body = body_of(&node, 0..node.len(), head.prefix(), false);
        let new_right = node.right();
        mtr.apply(left, &PageOp::Absorb { right: new_right, high: &high, body: &body });
        mtr.apply(parent, &PageOp::RemoveChild { slot: right_at });
        mtr.apply(right, &PageOp::Free);
        let inner = Inner::new(mtr.page(parent));
        let parent_small = inner.len() == 1 || (!is_root && is_small(inner.bytes()));
        let map = map.latch(&mut mtr);
        store.space.free(&mut mtr, map, right_no);
        mtr.commit();
        store.metrics.add(M::Merges, 1);
        Ok(MergeOutcome::Merged { parent_small })
    }

    /// Moves the content of the root's only child into the root, as long as the root has only one
    /// child.
    fn collapse_root(&self, store: &Store) -> Result<bool> {
        let mut freed = false;
        let mut missing = None;
        loop {
            store.log.make_room()?;
            let _holder = missing.map(|_| store.pool.hold_frames()).transpose()?;
            let _kept = missing.take().map(|page| store.pool.fetch(page)).transpose()?;
            let root = store.pool.fetch(self.root)?.write();
            let inner = Inner::new(&root);
            if inner.level() == 0 || inner.len() != 1 {
                return Ok(freed);
            }
            let (child_no, level) = (inner.child(0), inner.level() - 1);
            let Some(pin) = store.pool.try_pin(child_no) else {
                store.metrics.add(M::DescentRestarts, 1);
                missing = Some(child_no);
                continue;
            };
            let child = pin.write();
            self.verify_page(store, &child, level, child_no)?;
            if !Node::new(&child).right().is_none() {
                return Ok(freed); // The split of the child is not posted yet.
            }
            let Some(map) = store.space.try_map_of(child_no) else {
                store.metrics.add(M::DescentRestarts, 1);
                missing = Some(store.space.map_page_of(child_no));
                continue;
            };
            let Some(mut mtr) = Mtr::try_begin(&store.log, &store.pool) else {
                drop((root, child));
                store.log.await_credit()?;
                continue;
            };
            let (root, child) = (mtr.add(root), mtr.add(child));
            let node = Node::new(mtr.page(child));
            let body = body_of(&node, 0..node.len(), 0, true);
            let head = NodeHead { tree: self.id, level, right: PageNo::NONE, low: &[], high: &[] };
            mtr.apply(root, &PageOp::Init { head, body: &body });
            mtr.apply(child, &PageOp::Free);
            let map = map.latch(&mut mtr);
            store.space.free(&mut mtr, map, child_no);
            mtr.commit();
            store.metrics.add(M::Merges, 1);
            freed = true;
        }
    }
}

/// Returns whether one of the pages is small and the merged page would not be too full.
fn worth_merging(left: &[u8], right: &[u8]) -> bool {
    if !is_small(left) && !is_small(right) {
        return false;
    }
    let (l, r) = (Node::new(left), Node::new(right));
    let high = r.high_fence().unwrap_or_default();
    let head =
        NodeHead { tree: base::TreeId::NONE, level: l.level(), right: r.right(), low: l.low_fence(), high };
    content_bytes(&head, &[(l, 0..l.len()), (r, 0..r.len())]) * MERGED_MAX.1 <= left.len() * MERGED_MAX.0
}
