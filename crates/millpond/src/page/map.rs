//! The space map: the owner of each extent of 16 pages, and the pages of it that are in use.
//!
//! ```text
//! 56  spare    8 B
//! 64  extents  page_bytes/16 x { owner u32, used u16, spare u16 }
//!              owner: a tree, 0 = free, u32::MAX = shared; used: bit i = page i
//! ```

use base::codec::fixed::{get_u16, get_u32, set_u16, set_u32};
use base::{PageNo, TreeId};

use super::header::{self, PageKind};
use super::{Damage, ensure};

const EXTENTS: usize = 64;
const EXTENT_BYTES: usize = 8;

/// Pages in an extent.
pub(crate) const EXTENT_PAGES: u32 = 16;

/// The owner that the map names for an extent whose pages belong to different trees. No tree has
/// this id.
pub(crate) const SHARED: TreeId = TreeId(u32::MAX);

/// Returns how many extents one map page describes.
#[must_use]
pub(crate) const fn extents_per_map(page_bytes: usize) -> u32 {
    (page_bytes / 16) as u32
}
/// Returns the map page of group `group`. That of group 0 follows the file's header.
#[must_use]
pub(crate) const fn page_of_group(page_bytes: usize, group: u32) -> PageNo {
    match group {
        0 => PageNo(1),
        _ => PageNo(group * extents_per_map(page_bytes) * EXTENT_PAGES),
    }
}
const _: () =
    assert!(EXTENTS + 4096 / 16 * EXTENT_BYTES <= 4096 && EXTENTS + 16384 / 16 * EXTENT_BYTES <= 16384);

/// What the map stores about one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The owner: none if the extent is free, [`SHARED`] if its pages have owners of their own.
    pub(crate) tree: TreeId,
    /// Bit i: page i is in use.
    pub(crate) used: u16,
}

#[inline]
fn extent_offset(extent: u16) -> usize {
    EXTENTS + EXTENT_BYTES * usize::from(extent)
}

/// Returns extent number `extent` of this map page. REQUIRES: it is below [`extents_per_map`].
#[inline]
#[must_use]
pub(crate) fn extent(page: &[u8], extent: u16) -> Extent {
    let at = extent_offset(extent);
    Extent { tree: TreeId(get_u32(page, at)), used: get_u16(page, at + 4) }
}

fn checked(page: &[u8], index: u16) -> Result<Extent, Damage> {
    ensure!(header::kind(page) == Some(PageKind::Map), "the page is no map page");
    ensure!(u32::from(index) < extents_per_map(page.len()), "no such extent in the map page");
    Ok(extent(page, index))
}

fn owned(page: &[u8], index: u16, bit: u8) -> Result<Extent, Damage> {
    let e = checked(page, index)?;
    ensure!(u32::from(bit) < EXTENT_PAGES, "no such page in the extent");
    ensure!(e.tree != TreeId::NONE, "the extent belongs to no tree");
    ensure!(e.tree != SHARED, "the pages of the extent have owners of their own");
    Ok(e)
}

pub(super) fn own(page: &mut [u8], index: u16, tree: TreeId) -> Result<(), Damage> {
    ensure!(checked(page, index)? == Extent { tree: TreeId::NONE, used: 0 }, "the extent has an owner");
    ensure!(tree != TreeId::NONE, "an extent cannot be given to no tree");
    set_u32(page, extent_offset(index), tree.0);
    Ok(())
}

pub(super) fn set(page: &mut [u8], index: u16, bit: u8) -> Result<(), Damage> {
    let e = owned(page, index, bit)?;
    ensure!(e.used & 1 << bit == 0, "the page is in use");
    set_u16(page, extent_offset(index) + 4, e.used | 1 << bit);
    Ok(())
}

pub(super) fn clear(page: &mut [u8], index: u16, pages: u16) -> Result<(), Damage> {
    let e = owned(page, index, 0)?;
    ensure!(pages != 0 && e.used & pages == pages, "the page is not in use");
    set_u16(page, extent_offset(index) + 4, e.used & !pages);
    Ok(())
}

pub(super) fn release(page: &mut [u8], index: u16) -> Result<(), Damage> {
    ensure!(checked(page, index)?.tree != TreeId::NONE, "the extent belongs to no tree");
    set_u32(page, extent_offset(index), 0);
    set_u16(page, extent_offset(index) + 4, 0);
    Ok(())
}

/// Sets the bits of the pages in use without any check.
#[cfg(test)]
pub(crate) fn set_used_for_test(page: &mut [u8], index: u16, used: u16) {
    set_u16(page, extent_offset(index) + 4, used);
}

/// Reports impossible entries: a free or shared extent with pages in use.
pub(super) fn check(page: &[u8], report: &mut dyn FnMut(Damage)) {
    for i in 0..extents_per_map(page.len()) {
        let e = extent(page, i as u16);
        if e.tree == TreeId::NONE && e.used != 0 {
            report(Damage("a free extent has pages in use"));
        }
        if e.tree == SHARED && e.used != 0 {
            report(Damage("the map says which pages of a shared extent are in use"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::op::PageOp;

    #[test]
    fn an_extent_is_given_used_and_released() {
        let mut page = vec![0u8; 4096];
        let mut apply = |op: PageOp<'_>| op.apply(&mut page).map(|()| extent(&page, 255));
        assert!(apply(PageOp::MapOwn { extent: 255, tree: TreeId(5) }).is_err(), "no map page yet");
        apply(PageOp::InitMap).unwrap();
        assert!(apply(PageOp::MapSet { extent: 255, page: 0 }).is_err(), "not owned");
        assert!(apply(PageOp::MapOwn { extent: 256, tree: TreeId(5) }).is_err(), "beyond the map");
        apply(PageOp::MapOwn { extent: 255, tree: TreeId(5) }).unwrap();
        assert!(apply(PageOp::MapOwn { extent: 255, tree: TreeId(6) }).is_err(), "owned");
        assert_eq!(
            apply(PageOp::MapSet { extent: 255, page: 15 }),
            Ok(Extent { tree: TreeId(5), used: 0x8000 })
        );
        assert!(apply(PageOp::MapSet { extent: 255, page: 15 }).is_err(), "set twice");
        assert!(apply(PageOp::MapSet { extent: 255, page: 16 }).is_err(), "beyond the extent");
        apply(PageOp::MapSet { extent: 255, page: 2 }).unwrap();
        assert!(apply(PageOp::MapClear { extent: 255, pages: 0x8008 }).is_err(), "one is not in use");
        apply(PageOp::MapClear { extent: 255, pages: 0x8004 }).unwrap();
        assert!(apply(PageOp::MapClear { extent: 255, pages: 0x8000 }).is_err(), "cleared twice");
        apply(PageOp::MapSet { extent: 255, page: 3 }).unwrap();
        assert_eq!(apply(PageOp::MapRelease { extent: 255 }), Ok(Extent { tree: TreeId::NONE, used: 0 }));
        assert!(apply(PageOp::MapRelease { extent: 255 }).is_err(), "released twice");
    }
}
