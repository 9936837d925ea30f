//! The extents of the file in memory: which are free, and in which groups a tree may own some.
//! Pure.

use crate::page::map::EXTENT_PAGES;
use base::TreeId;

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

/// All extents, by groups.
#[derive(Debug)]
pub(super) struct Extents {
    /// Extents of a group.
    group_extents: u32,
    groups: Vec<ExtentGroup>,
    /// A bit for each extent, set for those without an owner.
    free: Vec<u64>,
    free_count: usize,
    /// No group before this one has a free extent.
    first: u32,
    /// Free extents that trees have taken since the start.
    taken: u64,
    /// The extents from this one on were added to the file since the start, and no tree has taken
    /// one yet. Neither the pool nor the log knows their pages.
    untouched: u32,
}

impl Extents {
    /// Returns those of a file without groups, whose map pages describe `group_extents` extents
    /// each. The file has `count` extents at the start.
    pub(super) fn new(group_extents: u32, count: u32) -> Extents {
        Extents {
            group_extents,
            groups: Vec::new(),
            free: Vec::new(),
            free_count: 0,
            first: 0,
            taken: 0,
            untouched: count,
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
        self.groups.capacity() * size_of::<ExtentGroup>() + self.free.capacity() * 8
    }

    /// Returns the number of free extents.
    pub(super) fn free_count(&self) -> usize {
        self.free_count
    }

    /// Returns the number of pages of free extents.
    pub(super) fn free_pages(&self) -> u64 {
        self.free_count as u64 * u64::from(EXTENT_PAGES)
    }

    /// Returns how many free extents trees have taken since the start.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the extent from which on all were added since the start and none was taken.
    pub(super) fn untouched(&self) -> u32 {
        self.untouched
    }

    pub(super) fn is_free(&self, extent: u32) -> bool {
        self.free[extent as usize / 64] & 1 << (extent % 64) != 0
    }

    fn group_of(&mut self, extent: u32) -> &mut ExtentGroup {
        &mut self.groups[(extent / self.group_extents) as usize]
    }

    /// Makes an extent free: it is new or has no owner any more.
    pub(super) fn set_free(&mut self, extent: u32) {
        base::check!(!self.is_free(extent), "extent {extent} is free twice");
        self.free[extent as usize / 64] |= 1 << (extent % 64);
        self.group_of(extent).free += 1;
        self.first = self.first.min(extent / self.group_extents);
        self.free_count += 1;
    }

    fn unset_free(&mut self, extent: u32) {
        self.free[extent as usize / 64] &= !(1 << (extent % 64));
        self.group_of(extent).free -= 1;
        self.free_count -= 1;
    }

    /// Removes the free ones of these extents: the file ends before them.
    pub(super) fn cut(&mut self, extents: std::ops::Range<u32>) {
        for extent in extents {
            if self.is_free(extent) {
                self.unset_free(extent);
            }
        }
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

    /// Stores that a page of owners of the group exists. Returns whether that is new.
    pub(super) fn note_owners_page(&mut self, group: u32, which: u32) -> bool {
        let owners_pages = &mut self.groups[group as usize].owners_pages;
        let before = *owners_pages;
        *owners_pages |= 1 << which;
        *owners_pages != before
    }

    fn sign(tree: TreeId) -> u64 {
        1 << (tree.0 % 64)
    }

    /// Stores that the tree owns an extent.
    pub(super) fn note_owner(&mut self, tree: TreeId, extent: u32) {
        self.group_of(extent).owners |= Self::sign(tree);
    }

    /// Whether the tree may own extents of the group. A yes may be wrong.
    pub(super) fn may_own(&self, tree: TreeId, group: u32) -> bool {
        self.groups[group as usize].owners & Self::sign(tree) != 0
    }
}
