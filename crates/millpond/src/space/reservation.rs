//! Reservations: pages reserved for a tree before anything is latched. And the map pages that
//! describe them, pinned before anything is latched.

use super::Space;
use super::state::{Picked, SpaceState};
use crate::buffer::{FrameHolder, Pin};
use crate::error::{Error, Result};
use crate::mtr::{Mtr, Slot};
use crate::page::map::{self, EXTENT_PAGES, Extent};
use crate::page::op::PageOp;
use crate::page::owners;
use base::{PageNo, TreeId};
use metrics::M;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Pages reserved for one tree. Those that are not taken are returned on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'s> {
    space: &'s Space,
    tree: TreeId,
    pages: SmallVec<[PageNo; 4]>,
}

/// A pinned map page or page of owners: it can be latched without waiting for I/O.
#[derive(Debug)]
#[must_use]
pub(crate) struct PinnedMap<'s> {
    page: PageNo,
    pin: Pin<'s>,
}

/// A map page latched by a mini-transaction. Its latch is the last in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatchedMap {
    page: PageNo,
    slot: Slot,
}

/// What describes one page in a page of the map.
enum MapEntry {
    /// The extent, by its index.
    Extent(u16),
    /// The owner of the single page, by its index.
    Owner(u16),
}

impl<'s> PinnedMap<'s> {
    /// Latches the page. REQUIRES: the mini-transaction has not latched it.
    pub(crate) fn latch(self, mtr: &mut Mtr<'s>) -> LatchedMap {
        LatchedMap { page: self.page, slot: mtr.add(self.pin.write()) }
    }
}

impl Space {
    /// Returns the page of the map that says which tree owns `page`. REQUIRES: no latch held; while
    /// the result is used, the page is in use or reserved, and the thread stays a frame holder if
    /// it waits for another frame.
    pub(crate) fn map_of(&self, page: PageNo, _holder: &FrameHolder<'_>) -> Result<PinnedMap<'_>> {
        let map = self.map_page_of(page);
        Ok(PinnedMap { page: map, pin: self.ground.pool.fetch(map)? })
    }

    /// As [`Space::map_of`], if the page of the map is in memory.
    pub(crate) fn try_map_of(&self, page: PageNo) -> Option<PinnedMap<'_>> {
        let map = self.map_page_of(page);
        Some(PinnedMap { page: map, pin: self.ground.pool.try_pin(map)? })
    }

    /// Returns the number of the page of the map that says which tree owns `page`: the map page, or
    /// the page of owners if trees share the extent.
    pub(crate) fn map_page_of(&self, page: PageNo) -> PageNo {
        let extent = page.0 / EXTENT_PAGES;
        if self.ground.is_shared(extent) {
            self.ground.owners_page(extent)
        } else {
            self.ground.map_entry(extent).0
        }
    }

    /// Returns what describes `page` in a latched page of the map. REQUIRES: `map` describes it.
    fn entry_in(&self, map: LatchedMap, page: PageNo) -> MapEntry {
        let extent = page.0 / EXTENT_PAGES;
        let (of_extent, index) = self.ground.map_entry(extent);
        if map.page == of_extent {
            return MapEntry::Extent(index);
        }
        let describes = map.page == self.ground.owners_page(extent);
        base::check!(describes, "{:?} does not describe {page:?}", map.page);
        MapEntry::Owner(owners::index_of(self.ground.page_bytes(), page))
    }

    /// Reserves `n` pages for `tree`. REQUIRES: no latch held. `DiskFull` and the limit of pages
    /// are returned here, and then nothing has changed.
    pub(crate) fn reserve(&self, tree: TreeId, n: u32) -> Result<Reservation<'_>> {
        let mut reservation = Reservation { space: self, tree, pages: SmallVec::new() };
        self.reserve_more(&mut reservation, n)?;
        Ok(reservation)
    }

    /// Reserves `n` more pages. After an error some of them may be reserved; they are returned with
    /// the others.
    pub(crate) fn reserve_more(&self, reservation: &mut Reservation<'_>, n: u32) -> Result {
        let wanted = reservation.pages.len() + n as usize;
        while reservation.pages.len() < wanted {
            let most = wanted - reservation.pages.len();
            match self.pick(|state| state.pick(reservation.tree)) {
                Picked::Page(page) => reservation.pages.push(page),
                Picked::Extent(extent) => self.reserve_pages(reservation, extent, most)?,
                Picked::NoSharedPage if self.sharing.share_extent(&self.ground)? => {}
                Picked::NoExtent if self.sharing.unshare(&self.ground)? => {}
                Picked::NoSharedPage | Picked::NoExtent => self.growth.await_growth(&self.ground)?,
            }
        }
        Ok(())
    }

    /// Reserves all free pages of one extent for `tree`, in order. Otherwise as [`Space::reserve`].
    pub(crate) fn reserve_extent(&self, tree: TreeId) -> Result<Reservation<'_>> {
        let mut reservation = Reservation { space: self, tree, pages: SmallVec::new() };
        while reservation.pages.is_empty() {
            match self.pick(|state| state.pick_extent(tree)) {
                Some(extent) => self.reserve_pages(&mut reservation, extent, EXTENT_PAGES as usize)?,
                None if self.sharing.unshare(&self.ground)? => {}
                None => self.growth.await_growth(&self.ground)?,
            }
        }
        Ok(reservation)
    }

    /// Reserves up to `most` pages of an extent, perhaps none.
    fn reserve_pages(&self, reservation: &mut Reservation<'_>, extent: u32, most: usize) -> Result {
        let tree = reservation.tree;
        let (map_page, index) = self.ground.map_entry(extent);
        let page = self.ground.pool.fetch(map_page)?.read();
        let entry = map::extent(&page, index);
        let mut state = self.ground.state.lock();
        if entry.tree != tree && entry != (Extent { tree: TreeId::NONE, used: 0 }) {
            // Taking a page of it would fail in the middle of a mini-transaction.
            state.room.exclude(tree, extent);
            let what = format!("{map_page:?}: extent {extent} has another owner than it had");
            return Err(Error::corrupt(self.ground.path(), what));
        }
        let picked = state.room.reserve(tree, extent, entry.used, most);
        let bits = (0..EXTENT_PAGES).filter(|bit| picked & 1 << bit != 0);
        reservation.pages.extend(bits.map(|bit| PageNo(extent * EXTENT_PAGES + bit)));
        Ok(())
    }

    /// Calls `pick` on the state, and wakes the thread that grows the file if few extents are free.
    fn pick<T>(&self, pick: impl FnOnce(&mut SpaceState) -> T) -> T {
        let mut state = self.ground.state.lock();
        let picked = pick(&mut state);
        let wake = state.extents.free_count() < state.wake_below;
        if wake {
            state.wake_below = 0;
        }
        drop(state);
        if wake {
            self.growth.wake();
        }
        picked
    }

    /// Frees a page, in the mini-transaction that empties it. It may be reused once that is logged.
    /// REQUIRES: `map` describes it.
    pub(crate) fn free(&self, mtr: &mut Mtr<'_>, map: LatchedMap, page: PageNo) {
        let owner = match self.entry_in(map, page) {
            MapEntry::Owner(index) => {
                let owner = owners::owner(mtr.page(map.slot), index);
                mtr.apply(map.slot, &PageOp::OwnerClear { page: index });
                owner
            }
            MapEntry::Extent(extent) => {
                let owner = map::extent(mtr.page(map.slot), extent).tree;
                mtr.apply(map.slot, &PageOp::MapClear { extent, pages: bit_of(page) });
                owner
            }
        };
        // The page can be reused at once. A caller that takes it must latch this page of the map
        // and then the page itself. This mini-transaction holds both until its redo is in the log
        // buffer.
        self.ground.state.lock().freed(owner, page);
    }

    /// Whether the page is in use and belongs to `tree`. REQUIRES: `map` describes it.
    pub(crate) fn is_owner(&self, mtr: &Mtr<'_>, map: LatchedMap, tree: TreeId, page: PageNo) -> bool {
        match self.entry_in(map, page) {
            MapEntry::Owner(index) => owners::owner(mtr.page(map.slot), index) == tree,
            MapEntry::Extent(index) => {
                let extent = map::extent(mtr.page(map.slot), index);
                extent.tree == tree && extent.used & bit_of(page) != 0
            }
        }
    }

    /// Frees pages whose content is not read any more, without a change of their content. They may
    /// be reused once that is logged. REQUIRES: `map` describes them, and `tree` owns them.
    pub(crate) fn free_many(&self, mtr: &mut Mtr<'_>, map: LatchedMap, tree: TreeId, pages: &[PageNo]) {
        let mut extents: BTreeMap<u16, u16> = BTreeMap::new();
        for &page in pages {
            match self.entry_in(map, page) {
                MapEntry::Owner(index) => mtr.apply(map.slot, &PageOp::OwnerClear { page: index }),
                MapEntry::Extent(extent) => *extents.entry(extent).or_default() |= bit_of(page),
            }
        }
        for (extent, pages) in extents {
            mtr.apply(map.slot, &PageOp::MapClear { extent, pages });
        }
        // As in `free`.
        let mut state = self.ground.state.lock();
        pages.iter().for_each(|page| state.freed(tree, *page));
    }
}

/// Returns the bit of a page in its extent.
fn bit_of(page: PageNo) -> u16 {
    1 << (page.0 % EXTENT_PAGES)
}

impl<'s> Reservation<'s> {
    /// Returns the pages that have not been handed out, in the order in which they will be.
    pub(crate) fn pages(&self) -> &[PageNo] {
        &self.pages
    }

    /// Returns how many pages have not been handed out.
    pub(crate) fn left(&self) -> usize {
        self.pages.len()
    }

    /// Returns the page of the map that describes the next page. REQUIRES: no latch held; a page is
    /// left.
    pub(crate) fn map(&self, holder: &FrameHolder<'_>) -> Result<PinnedMap<'s>> {
        self.space.map_of(self.pages[0], holder)
    }

    /// Hands out the next page. It is in use once `mtr` is committed. REQUIRES: `map` describes it.
    pub(crate) fn take(&mut self, mtr: &mut Mtr<'s>, map: LatchedMap) -> PageNo {
        let page = self.pages.remove(0);
        base::verify!(page >= super::FIRST_TREE_PAGE, "{page:?} describes the file and is given to a tree");
        match self.space.entry_in(map, page) {
            MapEntry::Owner(page) => mtr.apply(map.slot, &PageOp::OwnerSet { page, tree: self.tree }),
            MapEntry::Extent(extent) => {
                if map::extent(mtr.page(map.slot), extent).tree == TreeId::NONE {
                    mtr.apply(map.slot, &PageOp::MapOwn { extent, tree: self.tree });
                    self.space.ground.metrics.add(M::ExtentsAllocated, 1);
                }
                mtr.apply(map.slot, &PageOp::MapSet { extent, page: (page.0 % EXTENT_PAGES) as u8 });
                self.space.ground.state.lock().room.taken(page);
            }
        }
        page
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.space.ground.state.lock();
        for page in self.pages.drain(..) {
            state.give_back(self.tree, page);
        }
    }
}
