//! Shared extents, whose pages belong to different trees, in memory. Pure.

use crate::page::map::EXTENT_PAGES;
use base::{PageNo, TreeId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A tree without an extent of its own gets this many pages of shared extents before it gets one.
const PAGES_OF_A_TREE: usize = 16;

/// All pages of an extent.
const ALL: u16 = u16::MAX;

/// The shared extents.
#[derive(Debug, Default)]
pub(super) struct SharedExtents {
    /// By number: which of its pages are free and not reserved.
    extents: BTreeMap<u32, u16>,
    /// The extents with such a page.
    roomy: BTreeSet<u32>,
    /// The extents with only such pages.
    empty: BTreeSet<u32>,
    /// The pages of each tree in them, in use or reserved.
    pages: BTreeMap<TreeId, Pages>,
    /// Pages that are free and not reserved.
    free_pages: u64,
    /// Memory of the lists of pages in bytes, without their map entries.
    list_bytes: usize,
}

type Pages = SmallVec<[PageNo; 2]>;

/// Bytes of an extent in the maps and sets, and of a tree, with their share of half-filled nodes.
const EXTENT_BYTES: usize = 2 * 14;
const TREE_BYTES: usize = 2 * size_of::<(TreeId, Pages)>();

fn list_bytes(pages: &Pages) -> usize {
    if pages.spilled() { pages.capacity() * size_of::<PageNo>() } else { 0 }
}

fn extent_and_bit(page: PageNo) -> (u32, u16) {
    (page.0 / EXTENT_PAGES, 1 << (page.0 % EXTENT_PAGES))
}

impl SharedExtents {
    /// Whether the extent is shared.
    pub(super) fn holds(&self, extent: u32) -> bool {
        self.extents.contains_key(&extent)
    }

    fn put(&mut self, extent: u32, free: u16) {
        let before = self.extents.insert(extent, free).unwrap_or(0);
        self.free_pages = self.free_pages + u64::from(free.count_ones()) - u64::from(before.count_ones());
        let _ = if free == 0 { self.roomy.remove(&extent) } else { self.roomy.insert(extent) };
        let _ = if free == ALL { self.empty.insert(extent) } else { self.empty.remove(&extent) };
    }

    /// Adds an extent, and which tree owns each of its pages.
    pub(super) fn add(&mut self, extent: u32, owners: [TreeId; EXTENT_PAGES as usize]) {
        let mut free = 0;
        for (i, tree) in owners.into_iter().enumerate() {
            if tree == TreeId::NONE {
                free |= 1 << i;
            } else {
                self.change_list(tree, |pages| pages.push(PageNo(extent * EXTENT_PAGES + i as u32)));
            }
        }
        self.put(extent, free);
    }

    /// Whether a tree that has no extent with free pages gets a page here.
    pub(super) fn takes(&self, tree: TreeId) -> bool {
        self.pages_of(tree).len() < PAGES_OF_A_TREE
    }

    /// Whether any page is free and not reserved.
    pub(super) fn has_room(&self) -> bool {
        !self.roomy.is_empty()
    }

    /// Reserves a free page for `tree`, the first there is.
    pub(super) fn pick(&mut self, tree: TreeId) -> Option<PageNo> {
        let extent = *self.roomy.first()?;
        let free = self.extents[&extent];
        let bit = free.trailing_zeros();
        self.put(extent, free & !(1 << bit));
        let page = PageNo(extent * EXTENT_PAGES + bit);
        self.change_list(tree, |pages| pages.push(page));
        Some(page)
    }

    /// Frees a page of `tree`.
    pub(super) fn give_back(&mut self, tree: TreeId, page: PageNo) {
        let (extent, bit) = extent_and_bit(page);
        let free = self.extents[&extent];
        base::verify!(free & bit == 0, "{page:?} is given back twice");
        self.put(extent, free | bit);
        self.change_list(tree, |pages| pages.retain(|had| *had != page));
    }

    fn change_list(&mut self, tree: TreeId, change: impl FnOnce(&mut Pages)) {
        let pages = self.pages.entry(tree).or_default();
        let before = list_bytes(pages);
        change(pages);
        self.list_bytes = self.list_bytes - before + list_bytes(pages);
        if pages.is_empty() {
            self.list_bytes -= list_bytes(pages);
            self.pages.remove(&tree);
        }
    }

    /// Returns the pages of a tree.
    pub(super) fn pages_of(&self, tree: TreeId) -> &[PageNo] {
        self.pages.get(&tree).map_or(&[], |pages| pages)
    }

    /// Returns an extent in which no tree has a page.
    pub(super) fn empty(&self) -> Option<u32> {
        self.empty.first().copied()
    }

    /// Removes an extent if no tree has a page of it.
    pub(super) fn take_if_empty(&mut self, extent: u32) -> bool {
        let is_empty = self.empty.contains(&extent);
        if is_empty {
            self.remove(extent);
        }
        is_empty
    }

    /// Removes an extent.
    pub(super) fn remove(&mut self, extent: u32) {
        let free = self.extents.remove(&extent).unwrap_or(0);
        self.free_pages -= u64::from(free.count_ones());
        self.roomy.remove(&extent);
        self.empty.remove(&extent);
    }

    /// Returns the number of pages that are free and not reserved.
    pub(super) fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Returns the memory of all this in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.extents.len() * EXTENT_BYTES + self.pages.len() * TREE_BYTES + self.list_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_free_once_no_tree_has_pages_in_it() {
        let mut shared = SharedExtents::default();
        let mut owners = [TreeId::NONE; 16];
        (owners[0], owners[3]) = (TreeId(1), TreeId(2));
        shared.add(5, owners);
        assert!(shared.holds(5) && !shared.holds(4));
        assert_eq!((shared.pages_of(TreeId(2)), shared.free_pages()), (&[PageNo(83)][..], 14));
        let picked: Vec<_> = std::iter::from_fn(|| shared.pick(TreeId(3))).collect();
        let wanted: Vec<_> = (80..96).filter(|page| ![80, 83].contains(page)).map(PageNo).collect();
        assert_eq!((picked.as_slice(), shared.free_pages()), (&wanted[..], 0));
        shared.add(2, [TreeId::NONE; 16]);
        let more: Vec<_> = (0..2).map(|_| shared.pick(TreeId(3)).unwrap()).collect();
        assert!(!shared.takes(TreeId(3)) && shared.takes(TreeId(1)));
        assert!(shared.empty().is_none() && !shared.take_if_empty(2));
        shared.give_back(TreeId(3), more[1]);
        assert!(shared.takes(TreeId(3)));
        shared.give_back(TreeId(3), more[0]);
        assert_eq!(shared.empty(), Some(2));
        assert!(shared.take_if_empty(2) && !shared.holds(2));
        picked.iter().for_each(|page| shared.give_back(TreeId(3), *page));
        assert!(shared.pages_of(TreeId(3)).is_empty() && shared.empty().is_none());
        for (tree, page) in [(1, 80), (2, 83)] {
            shared.give_back(TreeId(tree), PageNo(page));
        }
        assert_eq!(shared.empty(), Some(5));
        assert!(shared.take_if_empty(5) && shared.pick(TreeId(1)).is_none());
        assert_eq!((shared.free_pages(), shared.bytes()), (0, 0));
    }
}
