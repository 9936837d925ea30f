//! Owners of single pages, where an extent is shared by trees: a part of the space map that is made when it is first needed.
//!
//! ```text
//! 56  spare   8 B
//! 64  owners  page_bytes/128 extents x 16 x tree u32 (0 = free)
//! ```
//! Eight such pages follow the map page of a group, in the extent that no tree gets: number `i` is for the `i`-th eighth of the
//! group's extents. The map calls a shared extent [`SHARED`] and knows nothing of its pages.

use base::codec::fixed::{get_u32, set_u32};
use base::{PageNo, TreeId};

use super::header::{self, PageKind};
use super::map::{EXTENT_PAGES, extents_per_map};
use super::{Damage, ensure};

const OWNERS: usize = 64;

/// What the map names as the owner of an extent whose pages belong to different trees. No tree has this id.
pub(crate) const SHARED: TreeId = TreeId(u32::MAX);

/// Where the first page of owners stands in the extent that holds the map page of its group.
pub(crate) const FIRST: u32 = 2;

/// Extents that one page of owners describes.
#[must_use]
pub(crate) const fn extents_per_page(page_bytes: usize) -> u32 {
    (page_bytes / 128) as u32
}

const _: () = assert!(OWNERS + 4096 / 128 * 16 * 4 <= 4096 && FIRST + 8 <= EXTENT_PAGES);

/// The page that names the owners of the pages of `extent`.
#[must_use]
pub(crate) const fn page_of(page_bytes: usize, extent: u32) -> PageNo {
    let each = extents_per_map(page_bytes);
    let group = extent / each;
    PageNo(group * each * EXTENT_PAGES + FIRST + extent % each / extents_per_page(page_bytes))
}

/// Which of the owners in its page of owners is that of `page`.
#[must_use]
pub(crate) const fn index_of(page_bytes: usize, page: PageNo) -> u16 {
    (page.0 % (extents_per_page(page_bytes) * EXTENT_PAGES)) as u16
}

#[inline]
fn owner_offset(index: u16) -> usize {
    OWNERS + 4 * usize::from(index)
}

/// The owner at `index`, which is below 16 times [`extents_per_page`]; none if the page is free.
#[inline]
#[must_use]
pub(crate) fn owner(page: &[u8], index: u16) -> TreeId {
    TreeId(get_u32(page, owner_offset(index)))
}

/// The owners of the pages of `extent`, by their place in it.
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
    fn every_page_has_a_place_of_its_own() {
        for bytes in PAGE_SIZES {
            let each = extents_per_map(bytes);
            let mut places = BTreeSet::new();
            for extent in (0..3 * each).step_by(7) {
                for page in extent * EXTENT_PAGES..(extent + 1) * EXTENT_PAGES {
                    let (no, index) = (page_of(bytes, extent), index_of(bytes, PageNo(page)));
                    assert!(owner_offset(index) + 4 <= bytes);
                    assert!(places.insert((no, index)), "{bytes}: page {page}");
                    // Beside the map page, in the extent that no tree gets.
                    assert_eq!(no.0 / EXTENT_PAGES, extent / each * each);
                    assert!(no != page_of_group(bytes, extent / each) && no != PageNo(0));
                }
            }
        }
    }

    #[test]
    fn a_page_goes_round() {
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
