//! Which extents are free and which pages of the others, in memory. Pure.

use super::shared::Shared;
use crate::page::map::EXTENT_PAGES;
use base::{PageNo, TreeId};
use std::collections::{BTreeMap, BTreeSet};

/// The free extents, and the free pages of the others.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Groups whose map page exists.
    pub(super) groups: u32,
    /// Pages of the file that are zero-written and durable in length.
    pub(super) file_pages: u32,
    /// Extents without an owner, by number.
    pub(super) free: BTreeSet<u32>,
    /// Free extents that trees have taken since the start.
    pub(super) taken: u64,
    /// The extents from this one on were added to the file since the start, and no tree has taken one yet: nothing of them is
    /// in memory or in the log.
    pub(super) untouched: u32,
    /// How often the file was made shorter.
    pub(super) trims: u64,
    /// With fewer free ones the file is to grow.
    pub(super) wake_below: usize,
    /// Extents whose pages belong to different trees.
    pub(super) shared: Shared,
    /// Extents of each tree that have room: extent → bits that are free and not reserved.
    pub(super) room: BTreeMap<(TreeId, u32), u16>,
}

/// What came of asking for a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Picked {
    /// The page.
    Page(PageNo),
    /// The tree is small, and no shared extent has room.
    NoShared,
    /// No extent is free.
    NoExtent,
}

impl State {
    /// Takes the first of the free extents.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let extent = self.free.pop_first()?;
        self.taken += 1;
        self.untouched = self.untouched.max(extent + 1);
        Some(extent)
    }

    /// An extent with free pages for `tree`, and which those are: one that it owns, or else one that was free and is taken
    /// out of the free ones.
    pub(super) fn pick_extent(&mut self, tree: TreeId) -> Option<(u32, u16)> {
        let own = self.room.range((tree, 0)..=(tree, u32::MAX)).next().map(|((_, e), bits)| (*e, *bits));
        own.or_else(|| Some((self.take_free()?, u16::MAX)))
    }

    /// A free page for `tree`: of an extent that it owns, of a shared one if it has few there, or of one that was free.
    pub(super) fn pick(&mut self, tree: TreeId) -> Picked {
        let owns = self.room.range((tree, 0)..=(tree, u32::MAX)).next().is_some();
        if !owns && self.shared.takes(tree) {
            return self.shared.pick(tree).map_or(Picked::NoShared, Picked::Page);
        }
        let Some((extent, bits)) = self.pick_extent(tree) else { return Picked::NoExtent };
        let bit = bits.trailing_zeros();
        let left = bits & !(1 << bit);
        if left == 0 {
            self.room.remove(&(tree, extent));
        } else {
            self.room.insert((tree, extent), left);
        }
        Picked::Page(PageNo(extent * EXTENT_PAGES + bit))
    }

    /// Takes a page back that was set aside for `tree`, or that it had.
    pub(super) fn give_back(&mut self, tree: TreeId, page: PageNo) {
        if self.shared.holds(page.0 / EXTENT_PAGES) {
            return self.shared.give_back(tree, page);
        }
        *self.room.entry((tree, page.0 / EXTENT_PAGES)).or_default() |= 1 << (page.0 % EXTENT_PAGES);
    }

    /// Frees the extents that were set aside for `tree` and of which it never took a page, so that no map names it as their owner.
    /// REQUIRES: those that it owned are free already.
    pub(super) fn forget(&mut self, tree: TreeId) {
        let left: Vec<_> = self.room.range((tree, 0)..=(tree, u32::MAX)).map(|(place, _)| *place).collect();
        for place in left {
            self.room.remove(&place);
            self.free.insert(place.1);
        }
    }
}
