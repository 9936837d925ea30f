//! Extents that trees share: a tree's first pages come from them (Fi5), so that a small table takes a page and not an extent.
//! The map says that an extent is shared, and pages of owners whose each of its pages is; see `page::owners`.

use super::Space;
use crate::error::{Error, Result};
use crate::mtr::{Mtr, Slot};
use crate::page::map::EXTENT_PAGES;
use crate::page::op::PageOp;
use crate::page::owners::{self, SHARED};
use crate::planted::{Bug, planted};
use base::{PageNo, TreeId};
use metrics::M;
use std::collections::BTreeMap;

impl Space {
    /// The page that names the owners of an extent's pages.
    pub(super) fn owners_page(&self, extent: u32) -> PageNo {
        owners::page_of(self.page_bytes(), extent)
    }

    /// Latches the page of owners that describes `page`, and says where in it.
    pub(super) fn latch_owners<'s>(&'s self, mtr: &mut Mtr<'s>, page: PageNo) -> (Slot, u16) {
        let slot = self.latch_pinned(mtr, self.owners_page(page.0 / EXTENT_PAGES));
        (slot, owners::index_of(self.page_bytes(), page))
    }

    /// Makes a free extent a shared one. False if none is free.
    pub(super) fn share_extent(&self) -> Result<bool> {
        let mut made = self.sharing.lock();
        if self.state.lock().shared.has_room() {
            return Ok(true);
        }
        self.log.make_room()?;
        let frame = self.pool.reserve_frame()?;
        let Some(extent) = self.state.lock().take_free() else { return Ok(false) };
        let (map, index) = self.place(extent);
        let names = self.owners_page(extent);
        let mut mtr = Mtr::begin(&self.log, &self.pool);
        let map = self.latch_pinned(&mut mtr, map);
        if made.insert(names) {
            let slot = mtr.add(self.pool.create(names, frame));
            // Never let go of, like a map page.
            std::mem::forget(self.pool.try_pin(names).expect("it was just made"));
            mtr.apply(slot, &PageOp::InitOwners);
        }
        mtr.apply(map, &PageOp::MapOwn { extent: index, tree: SHARED });
        mtr.commit();
        self.metrics.add(M::ExtentsAllocated, 1);
        self.state.lock().shared.add(extent, [TreeId::NONE; EXTENT_PAGES as usize]);
        Ok(true)
    }

    /// Makes shared extents of which no tree has a page free ones. Returns whether there was one.
    pub(super) fn unshare(&self) -> Result<bool> {
        let mut any = false;
        let _sharing = self.sharing.lock();
        loop {
            self.log.make_room()?;
            let Some(extent) = self.state.lock().shared.take_empty() else { return Ok(any) };
            let (map, index) = self.place(extent);
            let mut mtr = Mtr::begin(&self.log, &self.pool);
            let map = self.latch_pinned(&mut mtr, map);
            // Whoever gave its last page back has logged that before this.
            self.latch_pinned(&mut mtr, self.owners_page(extent));
            mtr.apply(map, &PageOp::MapRelease { extent: index });
            self.metrics.add(M::ExtentsFreed, 1);
            self.state.lock().free.insert(extent);
            mtr.commit();
            any = true;
        }
    }

    /// Gives the pages of a tree in shared extents back, in steps that are each safe to repeat.
    pub(super) fn release_shared(&self, tree: TreeId) -> Result {
        let pages = self.state.lock().shared.pages_of(tree).to_vec();
        let mut by_place: BTreeMap<PageNo, Vec<PageNo>> = BTreeMap::new();
        for page in pages {
            by_place.entry(self.owners_page(page.0 / EXTENT_PAGES)).or_default().push(page);
        }
        for pages in by_place.into_values() {
            self.log.make_room()?;
            let mut mtr = Mtr::begin(&self.log, &self.pool);
            for page in pages {
                if planted(Bug::SharedFreedWhole) {
                    self.free_whole(&mut mtr, page);
                    continue;
                }
                let (slot, index) = self.latch_owners(&mut mtr, page);
                mtr.apply(slot, &PageOp::OwnerClear { page: index });
                self.state.lock().shared.give_back(tree, page);
            }
            mtr.commit();
        }
        self.unshare().map(drop)
    }

    /// The planted mistake: the extent goes, whoever else has pages in it.
    fn free_whole<'s>(&'s self, mtr: &mut Mtr<'s>, page: PageNo) {
        let extent = page.0 / EXTENT_PAGES;
        let mut state = self.state.lock();
        if state.shared.holds(extent) {
            state.shared.remove(extent);
            state.free.insert(extent);
            drop(state);
            let (map, index) = self.place(extent);
            let map = self.latch_pinned(mtr, map);
            mtr.apply(map, &PageOp::MapRelease { extent: index });
        }
    }

    /// Reads the owners of the pages of these extents and keeps the pages that name them. Returns the greatest.
    pub(super) fn load_shared(&self, extents: &[u32]) -> Result<TreeId> {
        let mut greatest = TreeId::NONE;
        let alike: Vec<&[u32]> =
            extents.chunk_by(|a, b| self.owners_page(*a) == self.owners_page(*b)).collect();
        for together in alike.chunks(self.maps_together() as usize) {
            let places: Vec<PageNo> = together.iter().map(|alike| self.owners_page(alike[0])).collect();
            // Whatever fails here is told below.
            let _ = self.pool.fetch_many(&places);
            for (extents, place) in together.iter().zip(places) {
                let page = self.pin_for_good(place)?;
                self.refuse_damaged(place, &page)?;
                for &extent in *extents {
                    let owners = owners::of_extent(&page, extent);
                    greatest = greatest.max(owners.into_iter().max().unwrap_or_default());
                    self.state.lock().shared.add(extent, owners);
                }
                self.sharing.lock().insert(place);
            }
        }
        Ok(greatest)
    }

    /// The pages in use of a shared extent and whose they are.
    pub(super) fn owned_pages(&self, extent: u32) -> Result<impl Iterator<Item = (TreeId, PageNo)>> {
        let page = self.pool.fetch(self.owners_page(extent))?.read();
        let owners = owners::of_extent(&page, extent);
        let numbered = owners.into_iter().zip(extent * EXTENT_PAGES..);
        Ok(numbered.filter(|(tree, _)| *tree != TreeId::NONE).map(|(tree, page)| (tree, PageNo(page))))
    }

    /// That a page of the map holds what it can: one that looks free and is not would be given out and then refuse it, which nobody
    /// survives.
    pub(super) fn refuse_damaged(&self, place: PageNo, page: &[u8]) -> Result {
        match crate::page::verify::problems(page).first() {
            None => Ok(()),
            Some(damage) => Err(Error::corrupt(self.path(), format!("{place:?}: {damage}"))),
        }
    }
}
