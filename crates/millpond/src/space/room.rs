//! Where trees have free pages in their own extents, and which of these are reserved. Pure. Only
//! the map page says which pages are free.

use super::extent_set::ExtentSet;
use crate::page::map::EXTENT_PAGES;
use base::{PageNo, TreeId};
use std::collections::BTreeMap;

/// Bytes of one tree's entry for a group, with its share of a half-filled node of the map.
const ROOM_BYTES: usize = 2 * size_of::<((TreeId, u32), ExtentSet)>();

/// The free pages in extents that one tree each owns.
#[derive(Debug)]
pub(super) struct Room {
    /// Extents of a group.
    group_extents: u32,
    /// The extents where a tree may have free pages that are not reserved, by tree and group. An
    /// extent that has some is always included. One that has none any more is removed when that is
    /// found.
    extents: BTreeMap<(TreeId, u32), ExtentSet>,
    set_bytes: usize,
    /// Free pages without reserved ones.
    pages: u64,
    /// Pages that are reserved and not yet taken, by extent. There are as many as calls in progress
    /// that create pages.
    reserved: BTreeMap<u32, u16>,
}

impl Room {
    /// Returns that of a file where no tree owns an extent.
    pub(super) fn new(group_extents: u32) -> Room {
        Room { group_extents, extents: BTreeMap::new(), set_bytes: 0, pages: 0, reserved: BTreeMap::new() }
    }

    /// Returns the memory of all this in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.extents.len() * ROOM_BYTES + self.set_bytes + self.reserved.len() * 16
    }

    /// Returns the number of free pages that are not reserved.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    fn change(&mut self, tree: TreeId, extent: u32, change: impl FnOnce(&mut ExtentSet, u16)) {
        let key = (tree, extent / self.group_extents);
        let set = self.extents.entry(key).or_default();
        let before = set.bytes();
        change(set, (extent % self.group_extents) as u16);
        self.set_bytes = self.set_bytes - before + set.bytes();
        if set.first().is_none() {
            self.set_bytes -= set.bytes();
            self.extents.remove(&key);
        }
    }

    /// Adds the pages `free` of an extent of the tree.
    pub(super) fn add(&mut self, tree: TreeId, extent: u32, free: u16) {
        if free != 0 {
            self.change(tree, extent, ExtentSet::insert);
            self.pages += u64::from(free.count_ones());
        }
    }

    /// Returns the groups in which a tree may have free pages, and the extents there that may.
    pub(super) fn of(&self, tree: TreeId) -> Vec<(u32, Vec<u16>)> {
        let groups = self.extents.range((tree, 0)..=(tree, u32::MAX));
        let extents = |set: &ExtentSet| (0..self.group_extents as u16).filter(|&n| set.holds(n)).collect();
        groups.map(|((_, group), set)| (*group, extents(set))).collect()
    }

    /// Returns the first extent in which a tree may have free pages.
    pub(super) fn first_of(&self, tree: TreeId) -> Option<u32> {
        let ((_, group), set) = self.extents.range((tree, 0)..=(tree, u32::MAX)).next()?;
        Some(group * self.group_extents + u32::from(set.first()?))
    }

    /// Reserves up to `most` pages of an extent for `tree`, and returns which. REQUIRES: the map
    /// page, which the caller has latched, says that the pages `used` are in use.
    pub(super) fn reserve(&mut self, tree: TreeId, extent: u32, used: u16, most: usize) -> u16 {
        let reserved = self.reserved.get(&extent).copied().unwrap_or(0);
        let mut left = !(used | reserved);
        let mut picked = 0;
        for _ in 0..most.min(left.count_ones() as usize) {
            picked |= left & left.wrapping_neg();
            left &= left - 1;
        }
        if picked != 0 {
            self.reserved.insert(extent, reserved | picked);
            self.pages = self.pages.saturating_sub(u64::from(picked.count_ones()));
        }
        if left == 0 {
            self.exclude(tree, extent);
        }
        picked
    }

    /// Ends the reservation of a page.
    pub(super) fn taken(&mut self, page: PageNo) {
        let (extent, bit) = (page.0 / EXTENT_PAGES, 1 << (page.0 % EXTENT_PAGES));
        let reserved = self.reserved.get_mut(&extent).filter(|reserved| **reserved & bit != 0);
        let reserved = reserved.unwrap_or_else(|| panic!("{page:?} is taken and was not reserved"));
        *reserved &= !bit;
        if *reserved == 0 {
            self.reserved.remove(&extent);
        }
    }

    /// Removes an extent, so that no page of it is taken.
    pub(super) fn exclude(&mut self, tree: TreeId, extent: u32) {
        self.change(tree, extent, ExtentSet::remove);
    }

    /// Removes an extent that the tree does not own any more, whose pages `used` were in use.
    /// REQUIRES: none of its pages is reserved.
    pub(super) fn remove(&mut self, tree: TreeId, extent: u32, used: u16) {
        base::check!(!self.reserved.contains_key(&extent), "extent {extent} is freed and has reserved pages");
        self.exclude(tree, extent);
        self.pages = self.pages.saturating_sub(u64::from(used.count_zeros()));
    }

    /// Removes all extents of a tree, and calls `each` with them.
    pub(super) fn forget(&mut self, tree: TreeId, mut each: impl FnMut(u32)) {
        while let Some((_, group)) =
            self.extents.range((tree, 0)..=(tree, u32::MAX)).next().map(|(at, _)| *at)
        {
            let mut set = self.extents.remove(&(tree, group)).unwrap_or_default();
            self.set_bytes -= set.bytes();
            while let Some(index) = set.first() {
                set.remove(index);
                self.pages = self.pages.saturating_sub(u64::from(EXTENT_PAGES));
                each(group * self.group_extents + u32::from(index));
            }
        }
    }
}
