//! Applies a [`PageOp`]: first it checks the op against the page, then it changes the bytes. A
//! refused op leaves the page as it was. In normal operation a refusal is a bug of the engine; in
//! redo it means that a file was damaged.

use std::ops::Range;

use base::PageNo;
use base::assertions::VERIFY;

use super::edit::{self, Builder, NodeHead};
use super::header::{self, HEADER_BYTES, PageKind};
use super::node::{DELETED, FRESH, Inner, Leaf, Node, ROW_FLAGS, SETTLED, SLOTS, Version, row_head};
use super::op::{PageOp, RowChange, RowOp};
use super::{Damage, ensure, inline_limit, map, max_key, overflow, owners};

impl PageOp<'_> {
    /// Makes the change. REQUIRES: `page` has passed [`super::verify::quick`], or the op [is an
    /// init](PageOp::is_init).
    pub(crate) fn apply(&self, page: &mut [u8]) -> Result<(), Damage> {
        match *self {
            PageOp::Row(ref row) => row.make(page, true),
            PageOp::Restore { slot, version, flags, front, back, middle } => {
                let leaf = leaf(page)?;
                ensure!(slot < leaf.len(), "no such row");
                replace(page, slot, version, flags, (front, back), middle)
            }
            PageOp::Remove { slot } => {
                ensure!(slot < leaf(page)?.len(), "no such row");
                edit::remove(page, slot);
                Ok(())
            }
            PageOp::Init { head, body } => {
                let mut fresh = Builder::new(page.len(), &head)?;
                fresh.push_body(body)?;
                fresh.finish(page)
            }
            PageOp::PutChild { slot, child, key } => put_child(page, slot, child, key),
            PageOp::RemoveChild { slot } => {
                let node = inner(page)?;
                ensure!(slot > 0 && slot < node.len(), "no such child to remove");
                edit::remove(page, slot);
                Ok(())
            }
            PageOp::Cut { slot, right, high } => cut(page, slot, right, high),
            PageOp::Absorb { right, high, body } => absorb(page, right, high, body),
            PageOp::Free => {
                header::init(page, PageKind::Free, base::TreeId::NONE);
                page[HEADER_BYTES..].fill(0);
                Ok(())
            }
            PageOp::InitMap => {
                header::init(page, PageKind::Map, base::TreeId::NONE);
                page[HEADER_BYTES..].fill(0);
                Ok(())
            }
            PageOp::MapOwn { extent, tree } => map::own(page, extent, tree),
            PageOp::MapSet { extent, page: bit } => map::set(page, extent, bit),
            PageOp::MapClear { extent, pages } => map::clear(page, extent, pages),
            PageOp::MapRelease { extent } => map::release(page, extent),
            PageOp::InitOverflow { tree, owner, head, following, data } => {
                overflow::init(page, tree, owner, head, following, data)
            }
            PageOp::SetNext { next } => overflow::set_next(page, next),
            PageOp::CutNames { names } => overflow::cut_names(page, names),
            PageOp::InitFile { content } => {
                ensure!(content.len() <= page.len() - HEADER_BYTES, "the file header is longer than a page");
                header::init_file(page, content);
                Ok(())
            }
            PageOp::InitOwners => {
                header::init(page, PageKind::Owners, base::TreeId::NONE);
                page[HEADER_BYTES..].fill(0);
                Ok(())
            }
            PageOp::OwnerSet { page: index, tree } => owners::set(page, index, tree),
            PageOp::OwnerClear { page: index } => owners::clear(page, index),
        }
    }
}

impl PageOp<'_> {
    /// Makes the change in redo. REQUIRES: as [`PageOp::apply`], and the page is at the very LSN at
    /// which the change found it. So it has the same bytes, and a release program does not compare
    /// a row's key and old value: that would only take time. What does not fit the page is refused.
    pub(crate) fn redo(&self, page: &mut [u8]) -> Result<(), Damage> {
        match self {
            PageOp::Row(row) => row.make(page, VERIFY),
            _ => self.apply(page),
        }
    }
}

fn leaf(page: &[u8]) -> Result<Leaf<'_>, Damage> {
    ensure!(header::kind(page) == Some(PageKind::Leaf), "the page is no leaf");
    Ok(Leaf::new(page))
}

fn inner(page: &[u8]) -> Result<Inner<'_>, Damage> {
    ensure!(header::kind(page) == Some(PageKind::Inner), "the page is no inner page");
    Ok(Inner::new(page))
}

fn node(page: &[u8]) -> Result<Node<'_>, Damage> {
    ensure!(matches!(header::kind(page), Some(PageKind::Leaf | PageKind::Inner)), "the page is no tree page");
    Ok(Node::new(page))
}

/// Checks that `key` may be inserted at `slot`. Returns the part of the key that the page stores.
fn fits_between<'k>(node: &Node<'_>, slot: u16, key: &'k [u8]) -> Result<&'k [u8], Damage> {
    ensure!(key.len() <= max_key(node.bytes().len()), "the key is too long");
    ensure!(slot <= node.len(), "the slot lies beyond the entries");
    ensure!(node.covers(key), "the key lies outside the fences");
    let prefix = node.prefix();
    ensure!(key.starts_with(prefix), "the key lacks the page's prefix");
    let suffix = &key[prefix.len()..];
    // The key of slot 0 of an inner page is the low fence, which `covers` has checked.
    let first = u16::from(node.level() > 0);
    ensure!(slot <= first || node.order(slot - 1, suffix).is_lt(), "the key is not above its left neighbour");
    ensure!(
        slot == node.len() || node.order(slot, suffix).is_gt(),
        "the key is not below its right neighbour"
    );
    Ok(suffix)
}

fn check_version(version: Version, flags: u8) -> Result<(), Damage> {
    ensure!(version.txn.0 >> 48 == 0 && version.undo_at >> 40 == 0, "the version is out of range");
    ensure!(flags & !ROW_FLAGS == 0, "the row has unknown flags");
    ensure!(
        flags & SETTLED == 0 || (version == Version::default() && flags & (DELETED | FRESH) == 0),
        "a row without a version has one, or is deleted"
    );
    Ok(())
}

fn replace(
    page: &mut [u8],
    slot: u16,
    version: Version,
    flags: u8,
    (front, back): (u16, u16),
    middle: &[u8],
) -> Result<(), Damage> {
    check_version(version, flags)?;
    let (front, back) = (usize::from(front), usize::from(back));
    let node = Node::new(page);
    let entry = node.entry(slot);
    ensure!(
        row_head(entry[0]) + node.suffix(slot).len() + front + back <= entry.len(),
        "the row is shorter than what should stay of it"
    );
    ensure!(front + middle.len() + back <= inline_limit(page.len()), "the value is too long");
    edit::replace_row(page, slot, version, flags, (front, back), middle)
}

impl RowOp<'_> {
    /// Makes the change. `compare`: keys and old values too, which redo trusts.
    pub(super) fn make(&self, page: &mut [u8], compare: bool) -> Result<(), Damage> {
        let leaf = leaf(page)?;
        ensure!(header::tree(page) == self.tree, "the page belongs to another tree");
        match self.change {
            RowChange::Insert { flags, value } => {
                check_version(self.version, flags)?;
                ensure!(value.len() <= inline_limit(page.len()), "the value is too long");
                ensure!(self.key.len() <= max_key(page.len()), "the key is too long");
                ensure!(self.slot <= leaf.len(), "the slot lies beyond the entries");
                let suffix = self.key.get(leaf.prefix().len()..);
                let suffix = suffix.ok_or(Damage("the key lacks the page's prefix"))?;
                if compare {
                    fits_between(&leaf, self.slot, self.key)?;
                }
                edit::insert_row(page, self.slot, suffix, self.version, flags, value)
            }
            RowChange::Replace { .. } => self.replace(page, leaf.len(), compare),
        }
    }

    /// Replaces a row. `compare`: also its key and its old value.
    #[inline(always)]
    fn replace(&self, page: &mut [u8], rows: u16, compare: bool) -> Result<(), Damage> {
        let RowChange::Replace { before, old_flags, new_flags, front, back, old_middle, new_middle } =
            self.change
        else {
            return Ok(());
        };
        ensure!(self.slot < rows, "no such row");
        let leaf = Leaf::new(page);
        let row = leaf.row_at(self.slot);
        ensure!(row.version == before && row.flags == old_flags, "another version stands in the slot");
        let ends = usize::from(front) + usize::from(back);
        ensure!(ends + old_middle.len() == row.value.len(), "the old value has another length");
        if compare {
            ensure!(leaf.key(self.slot).cmp(self.key).is_eq(), "another key stands in the slot");
            let middle = &page[row.value.start + usize::from(front)..][..old_middle.len()];
            ensure!(middle == old_middle, "the old value has other bytes");
        }
        if new_middle.len() == old_middle.len() && (old_flags ^ new_flags) & SETTLED == 0 {
            check_version(self.version, new_flags)?;
            edit::overwrite_row(page, &row, self.version, new_flags, front.into(), new_middle);
            return Ok(());
        }
        replace(page, self.slot, self.version, new_flags, (front, back), new_middle)
    }
}

fn put_child(page: &mut [u8], slot: u16, child: PageNo, key: &[u8]) -> Result<(), Damage> {
    let node = inner(page)?;
    ensure!(!child.is_none(), "a child has no page number");
    ensure!(slot > 0, "nothing may stand before the first child");
    ensure!(key > node.low_fence(), "the separator is not above the low fence");
    let suffix = fits_between(&node, slot, key)?;
    edit::insert_child(page, slot, suffix, child)
}

fn cut(page: &mut [u8], slot: u16, right: PageNo, high: &[u8]) -> Result<(), Damage> {
    let old = node(page)?;
    ensure!(slot <= old.len(), "the cut lies beyond the entries");
    ensure!(!right.is_none(), "a cut page has no right sibling");
    ensure!(old.below_high(high), "the cut does not lower the high fence");
    let head = NodeHead { tree: header::tree(page), level: old.level(), right, low: old.low_fence(), high };
    let mut fresh = Builder::new(page.len(), &head)?;
    let mut buf = Vec::new();
    for i in 0..slot {
        fresh.push_from(&old, i, &mut buf)?;
    }
    fresh.copy_insert_run(&old);
    fresh.finish(page)
}

fn absorb(page: &mut [u8], right: PageNo, high: &[u8], body: &[u8]) -> Result<(), Damage> {
    let old = node(page)?;
    ensure!(
        old.high_fence().is_some_and(|f| right.is_none() || f < high),
        "a merge does not raise the high fence"
    );
    let head = NodeHead { tree: header::tree(page), level: old.level(), right, low: old.low_fence(), high };
    let mut fresh = Builder::new(page.len(), &head)?;
    let mut buf = Vec::new();
    for i in 0..old.len() {
        fresh.push_from(&old, i, &mut buf)?;
    }
    fresh.push_body(body)?;
    fresh.finish(page)
}

/// Returns the bytes of a page, header included, that is made with `head` from these entries. Split
/// and merge call it before they log.
#[must_use]
pub(crate) fn content_bytes(head: &NodeHead<'_>, from: &[(Node<'_>, Range<u16>)]) -> usize {
    let prefix = head.prefix();
    let mut bytes = SLOTS + head.low.len() + head.high.len();
    let mut first = head.level > 0;
    for (node, slots) in from {
        for i in slots.clone() {
            let key = if first { 0 } else { node.key(i).len().saturating_sub(prefix) };
            bytes += node.entry_size(i) - node.suffix(i).len() + key;
            first = false;
        }
    }
    bytes
}
