//! The second part of the space map: owners of single pages in extents that trees share. A page of
//! owners is made when it is first needed.
//!
//! ```text
//! 56  spare   8 B
//! 64  owners  page_bytes/128 extents x 16 x tree u32 (0 = free)
//! ```
//! The extent that holds the map page of a group belongs to no tree. Eight pages of owners follow
//! the map page there: number `i` describes the `i`-th eighth of the group's extents. The map page
//! marks a shared extent with [`SHARED`] and stores nothing about its pages.

use base::codec::fixed::{get_u32, set_u32};
use base::{PageNo, TreeId};

use super::header::{self, PageKind};
use super::map::{EXTENT_PAGES, SHARED, extents_per_map};
use super::{Damage, ensure};

const OWNERS: usize = 64;

/// The place of the first page of owners in the extent that holds the map page of its group.
pub(crate) const FIRST: u32 = 2;

/// Returns how many extents one page of owners describes.
#[must_use]
pub(crate) const fn extents_per_page(page_bytes: usize) -> u32 {
    (page_bytes / 128) as u32
}

const _: () = assert!(OWNERS + 4096 / 128 * 16 * 4 <= 4096 && FIRST + 8 <= EXTENT_PAGES);

/// Returns the page that names the owners of the pages of `extent`.
#[must_use]
pub(crate) const fn page_of(page_bytes: usize, extent: u32) -> PageNo {
    let each = extents_per_map(page_bytes);
    let group = extent / each;
    PageNo(group * each * EXTENT_PAGES + FIRST + extent % each / extents_per_page(page_bytes))
}

/// Returns the index of the owner of `page` within its page of owners.
#[must_use]
pub(crate) const fn index_of(page_bytes: usize, page: PageNo) -> u16 {
    (page.0 % (extents_per_page(page_bytes) * EXTENT_PAGES)) as u16
}

#[inline]
fn owner_offset(index: u16) -> usize {
    OWNERS + 4 * usize::from(index)
}

/// Returns the owner at `index`; none if the page is free. REQUIRES: `index` is below 16 times
/// [`extents_per_page`].
#[inline]
#[must_use]
pub(crate) fn owner(page: &[u8], index: u16) -> TreeId {
    TreeId(get_u32(page, owner_offset(index)))
}

/// Returns the owners of the 16 pages of `extent`, in the order of the pages.
pub(crate) fn of_extent(page: &[u8], extent: u32) -> [TreeId; EXTENT_PAGES as usize] {
    let first = extent % extents_per_page(page.len()) * EXTENT_PAGES;
    std::array::from_fn(|i| owner(page, first as u16 + i as u16))
}

fn checked(page: &[u8], index: u16) -> Result<TreeId, Damage> {
    ensure!(header::kind(page) == Some(PageKind::Owners), "the page names no owners");
    let all = extents_per_page(page.len()) * EXTENT_PAGES;
    ensure!(u32::from(index) < all, "the page does not name the owner of so many pages");
    Ok(owner(page, index))
}

pub(super) fn set(page: &mut [u8], index: u16, tree: TreeId) -> Result<(), Damage> {
    ensure!(checked(page, index)? == TreeId::NONE, "the page has an owner");
    ensure!(tree != TreeId::NONE && tree != SHARED, "a page cannot be given to no tree");
    set_u32(page, owner_offset(index), tree.0);
    Ok(())
}

pub(super) fn clear(page: &mut [u8], index: u16) -> Result<(), Damage> {
    ensure!(checked(page, index)? != TreeId::NONE, "the page has no owner");
    set_u32(page, owner_offset(index), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_SIZES;
    use crate::page::map::page_of_group;
    use crate::page::op::PageOp;
    use std::collections::BTreeSet;

    #[test]
    fn every_page_has_an_entry_of_its_own() {
        for bytes in PAGE_SIZES {
            let each = extents_per_map(bytes);
            let mut entries = BTreeSet::new();
            for extent in (0..3 * each).step_by(7) {
                for page in extent * EXTENT_PAGES..(extent + 1) * EXTENT_PAGES {
                    let (no, index) = (page_of(bytes, extent), index_of(bytes, PageNo(page)));
                    assert!(owner_offset(index) + 4 <= bytes);
                    assert!(entries.insert((no, index)), "{bytes}: page {page}");
                    // In the same extent as the map page, which no tree gets.
                    assert_eq!(no.0 / EXTENT_PAGES, extent / each * each);
                    assert!(no != page_of_group(bytes, extent / each) && no != PageNo(0));
                }
            }
        }
    }

    #[test]
    fn a_shared_page_is_given_and_released() {
        let mut page = vec![0u8; 4096];
        let mut apply = |op: PageOp<'_>| op.apply(&mut page).map(|()| owner(&page, 511));
        let give = |tree| PageOp::OwnerSet { page: 511, tree };
        assert!(apply(give(TreeId(5))).is_err(), "no page of owners yet");
        apply(PageOp::InitOwners).unwrap();
        assert!(apply(PageOp::OwnerSet { page: 512, tree: TreeId(5) }).is_err(), "beyond the page");
        assert!(apply(give(TreeId::NONE)).is_err() && apply(give(SHARED)).is_err());
        assert_eq!(apply(give(TreeId(5))), Ok(TreeId(5)));
        assert!(apply(give(TreeId(6))).is_err(), "owned");
        assert_eq!(apply(PageOp::OwnerClear { page: 511 }), Ok(TreeId::NONE));
        assert!(apply(PageOp::OwnerClear { page: 511 }).is_err(), "cleared twice");
    }
}
