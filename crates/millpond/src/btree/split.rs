//! Splits. One mini-transaction moves half of a page to a new right sibling, a second one posts the
//! separator in the parent (Tr2). The root cannot get a sibling: it moves its content to a new
//! child and gains a level.

use std::cmp::Ordering;

use base::PageNo;
use metrics::M;

use super::descend::Latched;
use super::leaf::slot_with_room;
use super::seek::Seek;
use super::tree::Tree;
use crate::buffer::PageWrite;
use crate::error::Result;
use crate::mtr::{Mtr, Slot};
use crate::page::apply::content_bytes;
use crate::page::edit::{body_of, push_child};
use crate::page::node::{CHILD_OVERHEAD, Inner, Leaf, Node, separator};
use crate::page::op::{NodeHead, PageOp};
use crate::tree_store::Store;

/// This many inserts in a row from one side count as a sequential load.
const SEQUENTIAL_RUN: u8 = 4;

/// Where a page is split.
#[derive(Debug, PartialEq, Eq)]
struct SplitPoint {
    /// The first entry that moves right.
    slot: u16,
    /// The least key that belongs to the right page.
    key: Vec<u8>,
}

impl Tree {
    /// Makes room at `level` around `key` for an entry that takes `bytes`, unless there is room. It
    /// may take several calls. REQUIRES: no latch held.
    pub(super) fn split(&self, store: &Store, level: u8, key: &[u8], bytes: usize) -> Result {
        match self.split_page(store, level, key, bytes)? {
            Some(sep) => self.post(store, level, &sep),
            None => Ok(()),
        }
    }

    /// The first half of [`Tree::split`]. Returns the separator to post, if it has split the page.
    pub(super) fn split_page(
        &self,
        store: &Store,
        level: u8,
        key: &[u8],
        bytes: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut reserved = store.space.reserve(self.id, 1)?;
        let holder = store.pool.hold_frames()?;
        let map = reserved.map(&holder)?;
        let frame = holder.take_frame()?;
        let Some(found) = self.descend(store, Seek::At(key), level, true)? else { return Ok(None) };
        let Latched::Write(page) = found.page else { unreachable!("an exclusive latch was asked for") };
        if has_room(&page, key, bytes) {
            return Ok(None);
        }
        let Some(mut mtr) = Mtr::try_begin(&store.log, &store.pool) else {
            drop(page);
            store.log.await_credit()?;
            return Ok(None);
        };
        let old_no = page.page_no();
        let old = mtr.add(page);
        let new = match store.pool.try_create(reserved.pages()[0], frame) {
            Ok(new) => mtr.add(new),
            Err(_) => {
                drop(mtr);
                store.pool.await_read(reserved.pages()[0]);
                return Ok(None);
            }
        };
        let map = map.latch(&mut mtr);
        let new_no = reserved.take(&mut mtr, map);
        if old_no == self.root {
            self.grow_root(&mut mtr, old, new, new_no);
            mtr.commit();
            store.metrics.add(M::Splits, 1);
            return Ok(None);
        }
        let node = Node::new(mtr.page(old));
        let cut = match split_point_after(&node, key, bytes) {
            Some(cut) => cut,
            None => choose_split_point(&node, key),
        };
        let high = node.high_fence().unwrap_or_default().to_vec();
        let head = NodeHead { tree: self.id, level, right: node.right(), low: &cut.key, high: &high };
        let body = body_of(&node, cut.slot..node.len(), head.prefix(), true);
        mtr.apply(new, &PageOp::Init { head, body: &body });
        mtr.apply(old, &PageOp::Cut { slot: cut.slot, right: new_no, high: &cut.key });
        mtr.commit();
        store.metrics.add(M::Splits, 1);
        Ok(Some(cut.key))
    }

    /// Moves the content of the root to its new only child `child`; the root gains a level.
    fn grow_root(&self, mtr: &mut Mtr<'_>, root: Slot, child: Slot, child_no: PageNo) {
        let mut only_child = Vec::new();
        push_child(&mut only_child, &[], child_no);
        let node = Node::new(mtr.page(root));
        let (level, all) = (node.level(), body_of(&node, 0..node.len(), 0, true));
        base::check!(level < u8::MAX, "a tree of 255 levels has more pages than a file");
        let head = NodeHead { tree: self.id, level, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(child, &PageOp::Init { head, body: &all });
        mtr.apply(root, &PageOp::Init { head: NodeHead { level: level + 1, ..head }, body: &only_child });
    }

    /// Posts the separators of all unposted splits at `level`, from the child that the parent names
    /// for `key` to the page that covers `key`. It looks only at the pages as they are. So it does
    /// not matter which thread split them, when, or which other threads are posting. REQUIRES: no
    /// latch held.
    pub(super) fn post(&self, store: &Store, level: u8, key: &[u8]) -> Result {
        let mut missing = None;
        loop {
            store.log.make_room()?;
            let holder = missing.map(|_| store.pool.hold_frames()).transpose()?;
            let kept = missing.take().map(|page| store.pool.fetch(page)).transpose()?;
            let Some(found) = self.descend(store, Seek::At(key), level + 1, true)? else { return Ok(()) };
            if let Some(above) = found.unposted {
                drop((found, kept, holder));
                self.post(store, above, key)?;
                continue;
            }
            let Latched::Write(parent) = found.page else { unreachable!("an exclusive latch was asked for") };
            let inner = Inner::new(&parent);
            let child_no = inner.child(inner.find(key));
            let Some(pin) = store.pool.try_pin(child_no) else {
                store.metrics.add(M::DescentRestarts, 1);
                missing = Some(child_no);
                continue;
            };
            let child = pin.read();
            self.verify_page(store, &child, level, child_no)?;
            let node = Node::new(&child);
            let Some(sep) = node.high_fence().filter(|&high| key >= high) else { return Ok(()) };
            let Err(slot) = inner.search(sep) else {
                return Err(self.damage(store, child_no, "the page ends where its parent says it goes on"));
            };
            let bytes = CHILD_OVERHEAD + sep.len();
            if has_room(&parent, sep, bytes) {
                let Some(mut mtr) = Mtr::try_begin(&store.log, &store.pool) else {
                    drop(child);
                    drop((parent, kept, holder));
                    store.log.await_credit()?;
                    continue;
                };
                let parent = mtr.add(parent);
                mtr.apply(parent, &PageOp::PutChild { slot, child: node.right(), key: sep });
                mtr.commit();
            } else {
                let sep = sep.to_vec();
                drop(child);
                drop((parent, kept, holder));
                self.split(store, level + 1, &sep, bytes)?;
            }
        }
    }
}

fn has_room(page: &PageWrite<'_>, key: &[u8], bytes: usize) -> bool {
    let node = Node::new(page);
    if node.level() == 0 {
        return slot_with_room(page, key, bytes).is_some();
    }
    node.free_bytes() + node.prefix().len() >= bytes
}

/// Bytes by which a separator may be longer than needed, if that makes a page fuller.
const LONGER_MAX: usize = 4;

/// Returns a split point right after `key`, if `key` is greater than all keys of the last leaf and
/// fits there once the leaf has a high fence. The last leaf has no high fence yet, so its keys
/// share no prefix. Without this split point each page of a load in key order would lack the row or
/// two that the prefix saves room for.
fn split_point_after(node: &Node<'_>, key: &[u8], bytes: usize) -> Option<SplitPoint> {
    let at = node.len();
    if node.level() > 0
        || !node.right().is_none()
        || at == 0
        || Leaf::new(node.bytes()).search(key) != Err(at)
    {
        return None;
    }
    // The separator: above the key, and not longer.
    let mut high = key.to_vec();
    *high.last_mut()? = high.last()?.checked_add(1)?;
    let last = node.key(at - 1).to_vec();
    if high.len() > separator(&last, key).len() + LONGER_MAX {
        return None;
    }
    let (tree, low) = (base::TreeId::NONE, node.low_fence());
    let left = NodeHead { tree, level: 0, right: PageNo(1), low, high: &high };
    let taken = content_bytes(&left, &[(*node, 0..at)]) + bytes.checked_sub(left.prefix())?;
    let cut = SplitPoint { slot: at, key: high.clone() };
    (taken <= node.bytes().len() && fits(node, &cut)).then_some(cut)
}

/// Chooses where to split a full page that is to take `key`. A load in key order leaves full pages
/// behind; all other inserts split in the middle.
fn choose_split_point(node: &Node<'_>, key: &[u8]) -> SplitPoint {
    if node.level() > 0 {
        return inner_split_point(&Inner::new(node.bytes()), key);
    }
    let n = node.len();
    if let Err(at) = Leaf::new(node.bytes()).search(key) {
        let after =
            |at: u16| SplitPoint { slot: at, key: separator(&node.key(at - 1).to_vec(), key).to_vec() };
        let before = |at: u16| SplitPoint { slot: at, key: separator(key, &node.key(at).to_vec()).to_vec() };
        let run = node.insert_run(at, SEQUENTIAL_RUN);
        let ordered = match run {
            _ if at == n && node.right().is_none() => Some(after(at)),
            Ordering::Greater if at == n => Some(after(at)),
            // Rows of others are in the way of the load. They move, so the load has the page to
            // itself.
            Ordering::Greater => Some(before(at)),
            Ordering::Less if at == 0 => Some(before(at)),
            Ordering::Less => Some(after(at)),
            Ordering::Equal => None,
        };
        if let Some(cut) = ordered.filter(|cut| fits(node, cut)) {
            return cut;
        }
        if n == 1 {
            // The rows are so large that one fills the page. The new row gets a page of its own.
            return if at == 0 { before(0) } else { after(1) };
        }
    }
    let slot = middle(node);
    SplitPoint { slot, key: separator(&node.key(slot - 1).to_vec(), &node.key(slot).to_vec()).to_vec() }
}

fn inner_split_point(inner: &Inner<'_>, key: &[u8]) -> SplitPoint {
    let at_end = inner.find(key) + 1 == inner.len() && inner.right().is_none();
    let slot = if at_end { inner.len() - 1 } else { middle(inner) };
    SplitPoint { slot, key: inner.key(slot).to_vec() }
}

/// Returns the slot that halves the page's bytes, with at least one entry on each side. A full page
/// has two entries or more; [`choose_split_point`] has handled the page with one row.
fn middle(node: &Node<'_>) -> u16 {
    base::check!(node.len() >= 2, "a page with one entry cannot be cut in the middle");
    let half = node.entry_bytes() / 2;
    let mut left = 0;
    for i in 0..node.len() - 1 {
        left += node.entry_size(i);
        if left >= half {
            // The entry that crosses the middle goes to the side where the halves differ less.
            let without = left - node.entry_size(i);
            return if i > 0 && half - without < left - half { i } else { i + 1 };
        }
    }
    node.len() - 1
}

/// Returns whether both pages have room for their entries and their new fence.
fn fits(node: &Node<'_>, cut: &SplitPoint) -> bool {
    let (low, high) = (node.low_fence(), node.high_fence().unwrap_or_default());
    // Neither number is used. The left page has some right sibling, the right page the old one or
    // none.
    let (tree, level) = (base::TreeId::NONE, node.level());
    let left = NodeHead { tree, level, right: PageNo(1), low, high: &cut.key };
    let right = NodeHead { tree, level, right: node.right(), low: &cut.key, high };
    low < &cut.key[..]
        && content_bytes(&left, &[(*node, 0..cut.slot)]) <= node.bytes().len()
        && content_bytes(&right, &[(*node, cut.slot..node.len())]) <= node.bytes().len()
}
