//! The space map in memory: which extents are free, and in which of their extents trees have free
//! pages. Pure.
//!
//! One bit for each extent says whether it is free. For each tree and group, a few bytes say in
//! which extents the tree has free pages. Only the map page says which pages are free. For shared
//! extents the pages are in memory too; small trees need few of them.

use super::extent_set::ExtentSet;
use super::shared::SharedExtents;
use crate::page::map::EXTENT_PAGES;
use base::{PageNo, TreeId};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of one tree's entry for a group, with its share of a half-filled node of the map.
const ROOM_BYTES: usize = 2 * size_of::<((TreeId, u32), ExtentSet)>();

/// What is known of the extents of one map page.
#[derive(Clone, Copy, Debug, Default)]
struct ExtentGroup {
    /// Bit `id % 64` of each tree that had an extent here since the start, to find a tree's
    /// extents.
    owners: u64,
    /// The number of free extents.
    free: u16,
    /// A bit for each page of owners that is known to exist.
    owners_pages: u8,
}

/// The result of asking for a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Picked {
    /// This page, of a shared extent, was reserved.
    Page(PageNo),
    /// This extent of the tree may have a free page.
    Extent(u32),
    /// The tree is small, and no shared extent has a free page.
    NoSharedPage,
    /// No extent is free.
    NoExtent,
}

/// The free extents, and where the others have free pages.
#[derive(Debug)]
pub(super) struct SpaceState {
    /// Extents of a group.
    group_extents: u32,
    groups: Vec<ExtentGroup>,
    /// A bit for each extent, set for those without an owner.
    free: Vec<u64>,
    free_extents: usize,
    /// No group before this one has a free extent.
    first: u32,
    /// Pages of the file that are zero-written, and whose length is durable.
    pub(super) file_pages: u32,
    /// Free extents that trees have taken since the start.
    pub(super) taken: u64,
    /// The extents from this one on were added to the file since the start, and no tree has taken
    /// one yet. Neither the pool nor the log knows their pages.
    pub(super) untouched: u32,
    /// How often the file was made shorter.
    pub(super) trims: u64,
    /// The file is to grow when fewer extents are free.
    pub(super) wake_below: usize,
    /// The extents where a tree may have free pages that are not reserved, by tree and group. An
    /// extent that has some is always included. One that has none any more is removed when that is
    /// found.
    room: BTreeMap<(TreeId, u32), ExtentSet>,
    room_bytes: usize,
    /// Free pages of extents that trees own, without reserved ones.
    room_pages: u64,
    /// Pages that are reserved and not yet taken, by extent. There are as many as calls in progress
    /// that create pages.
    reserved: BTreeMap<u32, u16>,
    /// Extents whose pages belong to different trees.
    pub(super) shared: SharedExtents,
    /// The trees that owned extents or pages at the start, until a caller asks for them.
    pub(super) found: Option<BTreeSet<TreeId>>,
}

impl SpaceState {
    /// Creates the state of a file without groups, whose map pages describe `group_extents` extents
    /// each.
    pub(super) fn new(group_extents: u32) -> SpaceState {
        SpaceState {
            group_extents,
            groups: Vec::new(),
            free: Vec::new(),
            free_extents: 0,
            first: 0,
            file_pages: 0,
            taken: 0,
            untouched: 0,
            trims: 0,
            wake_below: 0,
            room: BTreeMap::new(),
            room_bytes: 0,
            room_pages: 0,
            reserved: BTreeMap::new(),
            shared: SharedExtents::default(),
            found: None,
        }
    }

    /// Returns the number of groups that have a map page.
    pub(super) fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Sets the number of groups. Nothing is free in new ones.
    pub(super) fn describe(&mut self, groups: u32) {
        self.groups.resize(groups as usize, ExtentGroup::default());
        self.free.resize(self.groups.len() * self.group_extents as usize / 64, 0);
    }

    /// Returns the memory of all this in bytes.
    pub(super) fn bytes(&self) -> usize {
        let fixed = self.groups.capacity() * size_of::<ExtentGroup>() + self.free.capacity() * 8;
        let room = self.room.len() * ROOM_BYTES + self.room_bytes + self.reserved.len() * 16;
        fixed + room + self.shared.bytes()
    }

    /// Returns the number of free extents.
    pub(super) fn free_extents(&self) -> usize {
        self.free_extents
    }

    /// Returns the number of free pages that are not reserved.
    pub(super) fn free_pages(&self) -> u64 {
        self.free_extents as u64 * u64::from(EXTENT_PAGES) + self.room_pages + self.shared.free_pages()
    }

    pub(super) fn is_free(&self, extent: u32) -> bool {
        self.free[extent as usize / 64] & 1 << (extent % 64) != 0
    }

    /// Makes an extent free: it is new or has no owner any more.
    pub(super) fn set_free(&mut self, extent: u32) {
        base::check!(!self.is_free(extent), "extent {extent} is free twice");
        let group = extent / self.group_extents;
        self.free[extent as usize / 64] |= 1 << (extent % 64);
        self.groups[group as usize].free += 1;
        self.first = self.first.min(group);
        self.free_extents += 1;
    }

    /// Stores that a page of owners of the group exists. Returns whether that is new.
    pub(super) fn note_owners_page(&mut self, group: u32, which: u32) -> bool {
        let owners_pages = &mut self.groups[group as usize].owners_pages;
        let before = *owners_pages;
        *owners_pages |= 1 << which;
        *owners_pages != before
    }

    fn unset_free(&mut self, extent: u32) {
        self.free[extent as usize / 64] &= !(1 << (extent % 64));
        self.groups[(extent / self.group_extents) as usize].free -= 1;
        self.free_extents -= 1;
    }

    /// Stores that the tree owns an extent, whose pages `free` are free.
    pub(super) fn set_owned(&mut self, tree: TreeId, extent: u32, free: u16) {
        self.groups[(extent / self.group_extents) as usize].owners |= Self::sign(tree);
        if free != 0 {
            self.set_room(tree, extent);
            self.room_pages += u64::from(free.count_ones());
        }
    }

    /// Removes the extents from `end` on.
    pub(super) fn cut(&mut self, end: u32) {
        for extent in end..self.file_pages / EXTENT_PAGES {
            if self.is_free(extent) {
                self.unset_free(extent);
            }
        }
    }

    fn sign(tree: TreeId) -> u64 {
        1 << (tree.0 % 64)
    }

    /// Whether the tree may own extents of the group. A yes may be wrong.
    pub(super) fn may_own(&self, tree: TreeId, group: u32) -> bool {
        self.groups[group as usize].owners & Self::sign(tree) != 0
    }

    fn change_room(&mut self, tree: TreeId, extent: u32, change: impl FnOnce(&mut ExtentSet, u16)) {
        let place = (tree, extent / self.group_extents);
        let room = self.room.entry(place).or_default();
        let before = room.bytes();
        change(room, (extent % self.group_extents) as u16);
        self.room_bytes = self.room_bytes - before + room.bytes();
        if room.first().is_none() {
            self.room_bytes -= room.bytes();
            self.room.remove(&place);
        }
    }

    fn set_room(&mut self, tree: TreeId, extent: u32) {
        self.change_room(tree, extent, ExtentSet::insert);
    }

    fn unset_room(&mut self, tree: TreeId, extent: u32) {
        self.change_room(tree, extent, ExtentSet::remove);
    }

    /// Returns the groups in which a tree may have free pages, and the extents there that may.
    pub(super) fn room_of(&self, tree: TreeId) -> Vec<(u32, Vec<u16>)> {
        let groups = self.room.range((tree, 0)..=(tree, u32::MAX));
        let extents = |room: &ExtentSet| (0..self.group_extents as u16).filter(|&n| room.holds(n)).collect();
        groups.map(|((_, group), room)| (*group, extents(room))).collect()
    }

    /// Takes the first free extent.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let group = (self.first..self.groups()).find(|group| self.groups[*group as usize].free > 0)?;
        self.first = group;
        let words =
            (group * self.group_extents / 64) as usize..((group + 1) * self.group_extents / 64) as usize;
        let word = words.into_iter().find(|word| self.free[*word] != 0).expect("the group has a free extent");
        let extent = word as u32 * 64 + self.free[word].trailing_zeros();
        self.unset_free(extent);
        self.taken += 1;
        self.untouched = self.untouched.max(extent + 1);
        Some(extent)
    }

    /// Returns an extent that may have free pages for `tree`: one of its own, or else a free
    /// extent, which the tree owns from now on.
    pub(super) fn pick_extent(&mut self, tree: TreeId) -> Option<u32> {
        let own = self.room.range((tree, 0)..=(tree, u32::MAX)).next();
        let own =
            own.and_then(|((_, group), room)| Some(group * self.group_extents + u32::from(room.first()?)));
        own.or_else(|| {
            let extent = self.take_free()?;
            self.set_owned(tree, extent, u16::MAX);
            Some(extent)
        })
    }

    /// Picks a page or extent for `tree`: in an extent that it owns; else in a shared one, if the
    /// tree has few pages there; else in an extent that was free.
    pub(super) fn pick(&mut self, tree: TreeId) -> Picked {
        let owns = self.room.range((tree, 0)..=(tree, u32::MAX)).next().is_some();
        if !owns && self.shared.takes(tree) {
            return self.shared.pick(tree).map_or(Picked::NoSharedPage, Picked::Page);
        }
        self.pick_extent(tree).map_or(Picked::NoExtent, Picked::Extent)
    }

    /// Reserves up to `most` pages of a picked extent for `tree`, and returns which. REQUIRES: the
    /// map page, which the caller has latched, says that the pages `used` are in use.
    pub(super) fn reserve_pages(&mut self, tree: TreeId, extent: u32, used: u16, most: usize) -> u16 {
        let reserved = self.reserved.get(&extent).copied().unwrap_or(0);
        let mut left = !(used | reserved);
        let mut picked = 0;
        for _ in 0..most.min(left.count_ones() as usize) {
            picked |= left & left.wrapping_neg();
            left &= left - 1;
        }
        if picked != 0 {
            self.reserved.insert(extent, reserved | picked);
            self.room_pages = self.room_pages.saturating_sub(u64::from(picked.count_ones()));
        }
        if left == 0 {
            self.unset_room(tree, extent);
        }
        picked
    }

    /// Stores that a reserved page is in use. REQUIRES: its map page, which says so, is latched;
    /// its extent is not shared.
    pub(super) fn taken(&mut self, page: PageNo) {
        let (extent, bit) = (page.0 / EXTENT_PAGES, 1 << (page.0 % EXTENT_PAGES));
        let reserved = self.reserved.get_mut(&extent).filter(|reserved| **reserved & bit != 0);
        let reserved = reserved.unwrap_or_else(|| panic!("{page:?} is taken and was not reserved"));
        *reserved &= !bit;
        if *reserved == 0 {
            self.reserved.remove(&extent);
        }
    }

    /// Returns a page that was reserved for `tree` and is not needed.
    pub(super) fn give_back(&mut self, tree: TreeId, page: PageNo) {
        if !self.shared.holds(page.0 / EXTENT_PAGES) {
            self.taken(page);
        }
        self.freed(tree, page);
    }

    /// Stores that a page of `tree` is free. REQUIRES: the page that says so is latched, if it was
    /// in use.
    pub(super) fn freed(&mut self, tree: TreeId, page: PageNo) {
        if self.shared.holds(page.0 / EXTENT_PAGES) {
            return self.shared.give_back(tree, page);
        }
        self.set_room(tree, page.0 / EXTENT_PAGES);
        self.room_pages += 1;
    }

    /// Makes an extent of `tree` free, whose pages `used` were in use. REQUIRES: none of its pages
    /// is reserved.
    pub(super) fn released(&mut self, tree: TreeId, extent: u32, used: u16) {
        base::check!(!self.reserved.contains_key(&extent), "extent {extent} is freed and has reserved pages");
        self.unset_room(tree, extent);
        self.room_pages = self.room_pages.saturating_sub(u64::from(used.count_zeros()));
        self.set_free(extent);
    }

    /// Removes an extent whose map page disagrees with this state, so that no page of it is taken.
    pub(super) fn exclude(&mut self, tree: TreeId, extent: u32) {
        self.unset_room(tree, extent);
    }

    /// Frees the extents that were picked for `tree` but from which it never took a page, so no map
    /// page names it as their owner. REQUIRES: the extents that it owned are free already.
    pub(super) fn forget(&mut self, tree: TreeId) {
        while let Some((_, group)) = self.room.range((tree, 0)..=(tree, u32::MAX)).next().map(|(at, _)| *at) {
            let room = self.room.remove(&(tree, group)).unwrap_or_default();
            self.room_bytes -= room.bytes();
            let mut room = room;
            while let Some(index) = room.first() {
                room.remove(index);
                self.room_pages = self.room_pages.saturating_sub(u64::from(EXTENT_PAGES));
                self.set_free(group * self.group_extents + u32::from(index));
            }
        }
    }
}
