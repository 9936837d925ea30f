//! Frees the space of a dropped tree: its pages in shared extents, then its own extents, one map
//! page at a time. Each step asks for room in the log, may be repeated, and is independent. If a
//! page of the map cannot be read, only the pages that it describes stay allocated.

use super::ground::Ground;
use super::sharing::{Sharing, free_whole_extent};
use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::map::{self, EXTENT_PAGES};
use crate::page::op::PageOp;
use crate::page::owners;
use crate::planted::{Bug, planted};
use base::{PageNo, TreeId};
use metrics::M;
use std::collections::BTreeMap;

/// Approximate bytes that a step logs, and bytes for each page or extent.
const STEP_REDO: u64 = 64;
const EACH_REDO: u64 = 8;
/// The most shared extents that become free with a tree: as many as its own pages there, and a few
/// that other callers have emptied.
const EMPTIED: u64 = 20;

/// Called before each step with the bytes of redo that it needs; no latch is held.
pub(super) type AskRoom<'a> = &'a dyn Fn(u64) -> Result;

/// Whether other steps can go on after a step that failed with this error.
fn fails_alone(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Io { .. })
}

/// Frees all extents and pages of a tree. What cannot be read is skipped, and its error is
/// returned at the end. A second call does what is left. REQUIRES: no caller uses the tree now
/// or later; no latch held.
pub(super) fn release_tree(ground: &Ground, sharing: &Sharing, tree: TreeId, room: AskRoom<'_>) -> Result {
    let mut first = Ok(());
    let mut pass = |done: Result| match done {
        Err(error) if !fails_alone(&error) => Err(error),
        done => {
            if first.is_ok() {
                first = done;
            }
            Ok(())
        }
    };
    let pages = ground.state.lock().shared.pages_of(tree).to_vec();
    let mut by_owners_page: BTreeMap<PageNo, Vec<PageNo>> = BTreeMap::new();
    for page in pages {
        by_owners_page.entry(ground.owners_page(page.0 / EXTENT_PAGES)).or_default().push(page);
    }
    for (owners_page, pages) in by_owners_page {
        pass(release_pages(ground, tree, owners_page, pages, room))?;
    }
    let groups: Vec<u32> = {
        let state = ground.state.lock();
        (0..state.extents.groups()).filter(|group| state.extents.may_own(tree, *group)).collect()
    };
    let maps = ground.maps(groups.iter().copied());
    for (n, &group) in groups.iter().enumerate() {
        ground.read_maps_together(&maps, n);
        pass(release_group(ground, tree, group, room))?;
    }
    // Extents that stay shared and empty are used by small trees, or freed by the next drop.
    match room(STEP_REDO * EMPTIED).and_then(|()| sharing.unshare(ground)) {
        Err(error) if !fails_alone(&error) => return Err(error),
        Ok(_) | Err(_) => {}
    }
    first?;
    ground.state.lock().forget(tree);
    Ok(())
}

/// Frees those pages of a tree in shared extents that the page of owners `owners_page` describes.
fn release_pages(
    ground: &Ground,
    tree: TreeId,
    owners_page: PageNo,
    pages: Vec<PageNo>,
    room: AskRoom<'_>,
) -> Result {
    room(STEP_REDO + EACH_REDO * pages.len() as u64)?;
    if planted(Bug::SharedFreedWhole) {
        return pages.into_iter().try_for_each(|page| free_whole_extent(ground, page));
    }
    let names = ground.pool.fetch(owners_page)?;
    let mut mtr = Mtr::begin(&ground.log, &ground.pool)?;
    let slot = mtr.add(names.write());
    for page in pages {
        mtr.apply(slot, &PageOp::OwnerClear { page: owners::index_of(ground.page_bytes(), page) });
        ground.state.lock().shared.give_back(tree, page);
    }
    mtr.commit();
    Ok(())
}

/// Frees the extents of a tree in one group.
fn release_group(ground: &Ground, tree: TreeId, group: u32, room: AskRoom<'_>) -> Result {
    let group_extents = ground.group_extents();
    let map = ground.map_page(group);
    let page = ground.pool.fetch_with(map, FetchHint::Scan)?.read();
    let extents = (0..group_extents as u16).map(|index| (index, map::extent(&page, index)));
    let owned: Vec<_> = extents.filter(|(_, extent)| extent.tree == tree).collect();
    drop(page);
    if owned.is_empty() {
        return Ok(());
    }
    room(STEP_REDO + EACH_REDO * owned.len() as u64)?;
    // No other thread changes what the page says of them.
    let page = ground.pool.fetch_with(map, FetchHint::Scan)?;
    let mut mtr = Mtr::begin(&ground.log, &ground.pool)?;
    let slot = mtr.add(page.write());
    for &(extent, _) in &owned {
        mtr.apply(slot, &PageOp::MapRelease { extent });
    }
    ground.metrics.add(M::ExtentsFreed, owned.len() as u64);
    {
        let mut state = ground.state.lock();
        for &(index, extent) in &owned {
            state.released(tree, group * group_extents + u32::from(index), extent.used);
        }
    }
    mtr.commit();
    Ok(())
}
