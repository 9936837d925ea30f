//! Which extents are free and which pages of the others, in memory. Pure.

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
    /// Extents of each tree that have room: extent → bits that are free and not reserved.
    pub(super) room: BTreeMap<(TreeId, u32), u16>,
}

impl State {
    /// An extent with free pages for `tree`, and which those are: one that it owns, or else one that was free and is taken
    /// out of the free ones.
    pub(super) fn pick_extent(&mut self, tree: TreeId) -> Option<(u32, u16)> {
        let own = self.room.range((tree, 0)..=(tree, u32::MAX)).next().map(|((_, e), bits)| (*e, *bits));
        own.or_else(|| {
            let extent = self.free.pop_first()?;
            self.taken += 1;
            self.untouched = self.untouched.max(extent + 1);
            Some((extent, u16::MAX))
        })
    }

    /// A free page for `tree`.
    pub(super) fn pick(&mut self, tree: TreeId) -> Option<PageNo> {
        let (extent, bits) = self.pick_extent(tree)?;
        let bit = bits.trailing_zeros();
        let left = bits & !(1 << bit);
        if left == 0 {
            self.room.remove(&(tree, extent));
        } else {
            self.room.insert((tree, extent), left);
        }
        Some(PageNo(extent * EXTENT_PAGES + bit))
    }

    pub(super) fn give_back(&mut self, tree: TreeId, page: PageNo) {
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
