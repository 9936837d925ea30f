//! Makes extents shared and free again. A tree's first pages come from shared extents (Fi5), so a
//! small table takes a page and not an extent. The map says that an extent is shared, and pages of
//! owners say which tree owns each of its pages; see `page::owners`.

use super::Space;
use super::state::SpaceState;
use crate::error::Result;
use crate::mtr::Mtr;
use crate::page::map::{EXTENT_PAGES, SHARED, extents_per_map};
use crate::page::op::PageOp;
use crate::page::owners;
use base::{PageNo, TreeId};
use metrics::M;
use std::collections::BTreeSet;

impl Space {
    /// Returns the page of owners of an extent's pages.
    pub(super) fn owners_page(&self, extent: u32) -> PageNo {
        owners::page_of(self.page_bytes(), extent)
    }

    /// Makes a free extent a shared one. Returns false if none is free.
    pub(super) fn share_extent(&self) -> Result<bool> {
        let _sharing = self.sharing.lock();
        let extent = {
            let mut state = self.state.lock();
            if state.shared.has_room() {
                return Ok(true);
            }
            let Some(extent) = state.extents.take_free() else { return Ok(false) };
            extent
        };
        let shared = self.share(extent);
        let mut state = self.state.lock();
        match shared {
            Ok(()) => state.shared.add(extent, [TreeId::NONE; EXTENT_PAGES as usize]),
            Err(_) => state.extents.set_free(extent),
        }
        shared.map(|()| true)
    }

    /// Marks a free extent as shared in the map, and creates its page of owners unless it exists.
    /// One thread at a time.
    fn share(&self, extent: u32) -> Result {
        let names = self.owners_page(extent);
        let (map, index) = self.map_entry(extent);
        let holder = self.pool.hold_frames()?;
        let map = self.pool.fetch(map)?;
        let frame = holder.reserve_frame()?;
        let which = names.0 % EXTENT_PAGES - owners::FIRST;
        let group = extent / extents_per_map(self.page_bytes());
        let make = self.state.lock().extents.note_owners_page(group, which);
        let mut mtr = if make {
            let (mut mtr, slot) = Mtr::begin_new(&self.log, &self.pool, names, frame)?;
            mtr.apply(slot, &PageOp::InitOwners);
            mtr
        } else {
            Mtr::begin(&self.log, &self.pool)?
        };
        let map = mtr.add(map.write());
        mtr.apply(map, &PageOp::MapOwn { extent: index, tree: SHARED });
        mtr.commit();
        self.metrics.add(M::ExtentsAllocated, 1);
        Ok(())
    }

    /// Frees the shared extents in which no tree has a page. Returns whether there was one.
    pub(super) fn unshare(&self) -> Result<bool> {
        let mut any = false;
        let _sharing = self.sharing.lock();
        loop {
            let Some(extent) = self.state.lock().shared.empty() else { return Ok(any) };
            let (map, index) = self.map_entry(extent);
            let _holder = self.pool.hold_frames()?;
            let (map, names) = (self.pool.fetch(map)?, self.pool.fetch(self.owners_page(extent))?);
            if !self.state.lock().shared.take_if_empty(extent) {
                continue;
            }
            let mut mtr = Mtr::begin(&self.log, &self.pool)?;
            let map = mtr.add(map.write());
            // The change that freed its last page was logged before this.
            mtr.add(names.write());
            mtr.apply(map, &PageOp::MapRelease { extent: index });
            self.metrics.add(M::ExtentsFreed, 1);
            self.state.lock().extents.set_free(extent);
            mtr.commit();
            any = true;
        }
    }

    /// The planted mistake: frees the extent although other trees have pages in it.
    pub(super) fn free_whole_extent(&self, page: PageNo) -> Result {
        let extent = page.0 / EXTENT_PAGES;
        let (map, index) = self.map_entry(extent);
        let map = self.pool.fetch(map)?;
        let mut state = self.state.lock();
        if state.shared.holds(extent) {
            state.shared.remove(extent);
            state.extents.set_free(extent);
            drop(state);
            let mut mtr = Mtr::begin(&self.log, &self.pool)?;
            let map = mtr.add(map.write());
            mtr.apply(map, &PageOp::MapRelease { extent: index });
            mtr.commit();
        }
        Ok(())
    }

    /// Reads the owners of the pages of these extents, which are in order.
    pub(super) fn load_shared(
        &self,
        extents: &[u32],
        state: &mut SpaceState,
        found: &mut BTreeSet<TreeId>,
    ) -> Result {
        let alike: Vec<&[u32]> =
            extents.chunk_by(|a, b| self.owners_page(*a) == self.owners_page(*b)).collect();
        let places: Vec<PageNo> = alike.iter().map(|alike| self.owners_page(alike[0])).collect();
        self.each_page(&places, |n, page| {
            self.check_page(places[n], page)?;
            let group = alike[n][0] / extents_per_map(self.page_bytes());
            state.extents.note_owners_page(group, places[n].0 % EXTENT_PAGES - owners::FIRST);
            for &extent in alike[n] {
                let owners = owners::of_extent(page, extent);
                found.extend(owners.into_iter().filter(|tree| *tree != TreeId::NONE));
                state.shared.add(extent, owners);
            }
            Ok(())
        })
    }

    /// Returns the pages in use of a shared extent, each with its tree.
    pub(super) fn owned_pages(&self, extent: u32) -> Result<impl Iterator<Item = (TreeId, PageNo)>> {
        let page = self.pool.fetch(self.owners_page(extent))?.read();
        let owners = owners::of_extent(&page, extent);
        let numbered = owners.into_iter().zip(extent * EXTENT_PAGES..);
        Ok(numbered.filter(|(tree, _)| *tree != TreeId::NONE).map(|(tree, page)| (tree, PageNo(page))))
    }
}
