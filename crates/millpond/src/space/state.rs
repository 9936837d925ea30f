//! The space map in memory: which extents are free, and in which of their extents trees have free
//! pages. Pure.
//!
//! One bit for each extent says whether it is free. For each tree and group, a few bytes say in
//! which extents the tree has free pages. Only the map page says which pages are free. For shared
//! extents the pages are in memory too; small trees need few of them.

use super::extents::Extents;
use super::room::Room;
use super::shared::SharedExtents;
use crate::page::map::EXTENT_PAGES;
use base::{PageNo, TreeId};
use std::collections::BTreeSet;

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
    pub(super) extents: Extents,
    /// Free pages of extents that trees own.
    pub(super) room: Room,
    /// Extents whose pages belong to different trees.
    pub(super) shared: SharedExtents,
    /// Pages of the file that are zero-written, and whose length is durable.
    pub(super) file_pages: u32,
    /// How often the file was made shorter.
    pub(super) trims: u64,
    /// The file is to grow when fewer extents are free.
    pub(super) wake_below: usize,
    /// The trees that owned extents or pages at the start, until a caller asks for them.
    pub(super) found: Option<BTreeSet<TreeId>>,
}

impl SpaceState {
    /// Creates the state of a file of `file_pages` pages without groups, whose map pages describe
    /// `group_extents` extents each.
    pub(super) fn new(group_extents: u32, file_pages: u32) -> SpaceState {
        SpaceState {
            extents: Extents::new(group_extents, file_pages / EXTENT_PAGES),
            room: Room::new(group_extents),
            shared: SharedExtents::default(),
            file_pages,
            trims: 0,
            wake_below: 0,
            found: None,
        }
    }

    /// Returns the memory of all this in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.extents.bytes() + self.room.bytes() + self.shared.bytes()
    }

    /// Returns the number of free pages that are not reserved.
    pub(super) fn free_pages(&self) -> u64 {
        self.extents.free_pages() + self.room.pages() + self.shared.free_pages()
    }

    /// Stores that the tree owns an extent, whose pages `free` are free.
    pub(super) fn set_owned(&mut self, tree: TreeId, extent: u32, free: u16) {
        self.extents.note_owner(tree, extent);
        self.room.add(tree, extent, free);
    }

    /// Stores that the file ends before extent `end`.
    pub(super) fn cut(&mut self, end: u32) {
        self.extents.cut(end..self.file_pages / EXTENT_PAGES);
        self.file_pages = end * EXTENT_PAGES;
        self.trims += 1;
    }

    /// Returns an extent that may have free pages for `tree`: one of its own, or else a free
    /// extent, which the tree owns from now on.
    pub(super) fn pick_extent(&mut self, tree: TreeId) -> Option<u32> {
        self.room.first_of(tree).or_else(|| {
            let extent = self.extents.take_free()?;
            self.set_owned(tree, extent, u16::MAX);
            Some(extent)
        })
    }

    /// Picks a page or extent for `tree`: in an extent that it owns; else in a shared one, if the
    /// tree has few pages there; else in an extent that was free.
    pub(super) fn pick(&mut self, tree: TreeId) -> Picked {
        if self.room.first_of(tree).is_none() && self.shared.takes(tree) {
            return self.shared.pick(tree).map_or(Picked::NoSharedPage, Picked::Page);
        }
        self.pick_extent(tree).map_or(Picked::NoExtent, Picked::Extent)
    }

    /// Returns a page that was reserved for `tree` and is not needed.
    pub(super) fn give_back(&mut self, tree: TreeId, page: PageNo) {
        if !self.shared.holds(page.0 / EXTENT_PAGES) {
            self.room.taken(page);
        }
        self.freed(tree, page);
    }

    /// Stores that a page of `tree` is free. REQUIRES: the page that says so is latched, if it was
    /// in use.
    pub(super) fn freed(&mut self, tree: TreeId, page: PageNo) {
        if self.shared.holds(page.0 / EXTENT_PAGES) {
            return self.shared.give_back(tree, page);
        }
        self.room.add(tree, page.0 / EXTENT_PAGES, 1 << (page.0 % EXTENT_PAGES));
    }

    /// Makes an extent of `tree` free, whose pages `used` were in use. REQUIRES: none of its pages
    /// is reserved.
    pub(super) fn released(&mut self, tree: TreeId, extent: u32, used: u16) {
        self.room.remove(tree, extent, used);
        self.extents.set_free(extent);
    }

    /// Frees the extents that were picked for `tree` but from which it never took a page, so no map
    /// page names it as their owner. REQUIRES: the extents that it owned are free already.
    pub(super) fn forget(&mut self, tree: TreeId) {
        self.room.forget(tree, |extent| self.extents.set_free(extent));
    }
}
