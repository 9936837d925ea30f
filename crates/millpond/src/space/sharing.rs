//! Makes extents shared and free again. A tree's first pages come from shared extents (Fi5), so a
//! small table takes a page and not an extent. The map says that an extent is shared, and pages of
//! owners say which tree owns each of its pages; see `page::owners`.

use super::ground::Ground;
use crate::error::Result;
use crate::mtr::Mtr;
use crate::page::map::{EXTENT_PAGES, SHARED};
use crate::page::op::PageOp;
use crate::page::owners;
use base::sync::Mutex;
use base::{PageNo, TreeId};
use metrics::M;

/// Makes extents shared and free again, one thread at a time.
#[derive(Debug)]
pub(super) struct Sharing {
    /// Held while an extent becomes shared, or free again.
    changing: Mutex<()>,
}

impl Sharing {
    pub(super) fn new() -> Sharing {
        Sharing { changing: Mutex::new(()) }
    }

    /// Makes a free extent a shared one. Returns false if none is free.
    pub(super) fn share_extent(&self, ground: &Ground) -> Result<bool> {
        let _changing = self.changing.lock();
        let extent = {
            let mut state = ground.state.lock();
            if state.shared.has_room() {
                return Ok(true);
            }
            let Some(extent) = state.extents.take_free() else { return Ok(false) };
            extent
        };
        let shared = share(ground, extent);
        let mut state = ground.state.lock();
        match shared {
            Ok(()) => state.shared.add(extent, [TreeId::NONE; EXTENT_PAGES as usize]),
            Err(_) => state.extents.set_free(extent),
        }
        shared.map(|()| true)
    }

    /// Frees the shared extents in which no tree has a page. Returns whether there was one.
    pub(super) fn unshare(&self, ground: &Ground) -> Result<bool> {
        let mut any = false;
        let _changing = self.changing.lock();
        loop {
            let Some(extent) = ground.state.lock().shared.empty() else { return Ok(any) };
            let (map, index) = ground.map_entry(extent);
            let _holder = ground.pool.hold_frames()?;
            let (map, names) = (ground.pool.fetch(map)?, ground.pool.fetch(ground.owners_page(extent))?);
            if !ground.state.lock().shared.take_if_empty(extent) {
                continue;
            }
            let mut mtr = Mtr::begin(&ground.log, &ground.pool)?;
            let map = mtr.add(map.write());
            // The change that freed its last page was logged before this.
            mtr.add(names.write());
            mtr.apply(map, &PageOp::MapRelease { extent: index });
            ground.metrics.add(M::ExtentsFreed, 1);
            ground.state.lock().extents.set_free(extent);
            mtr.commit();
            any = true;
        }
    }
}

/// Marks a free extent as shared in the map, and creates its page of owners unless it exists. One
/// thread at a time.
fn share(ground: &Ground, extent: u32) -> Result {
    let names = ground.owners_page(extent);
    let (map, index) = ground.map_entry(extent);
    let holder = ground.pool.hold_frames()?;
    let map = ground.pool.fetch(map)?;
    let frame = holder.take_frame()?;
    let which = names.0 % EXTENT_PAGES - owners::FIRST;
    let group = extent / ground.group_extents();
    let make = ground.state.lock().extents.note_owners_page(group, which);
    let mut mtr = if make {
        let (mut mtr, slot) = Mtr::begin_new(&ground.log, &ground.pool, names, frame)?;
        mtr.apply(slot, &PageOp::InitOwners);
        mtr
    } else {
        Mtr::begin(&ground.log, &ground.pool)?
    };
    let map = mtr.add(map.write());
    mtr.apply(map, &PageOp::MapOwn { extent: index, tree: SHARED });
    mtr.commit();
    ground.metrics.add(M::ExtentsAllocated, 1);
    Ok(())
}

/// The planted mistake: frees the extent although other trees have pages in it.
pub(super) fn free_whole_extent(ground: &Ground, page: PageNo) -> Result {
    let extent = page.0 / EXTENT_PAGES;
    let (map, index) = ground.map_entry(extent);
    let map = ground.pool.fetch(map)?;
    let mut state = ground.state.lock();
    if state.shared.holds(extent) {
        state.shared.remove(extent);
        state.extents.set_free(extent);
        drop(state);
        let mut mtr = Mtr::begin(&ground.log, &ground.pool)?;
        let map = mtr.add(map.write());
        mtr.apply(map, &PageOp::MapRelease { extent: index });
        mtr.commit();
    }
    Ok(())
}
