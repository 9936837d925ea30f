//! Reads the map of an existing file.

use super::ground::Ground;
use super::length;
use super::options::{FILE_MAGIC, PAGES_MAX};
use super::state::SpaceState;
use crate::error::{Error, Result};
use crate::page::header::HEADER_BYTES;
use crate::page::map::{self, EXTENT_PAGES, SHARED};
use crate::page::owners;
use base::codec::Reader;
use base::{PageNo, TreeId};
use metrics::M;
use std::collections::BTreeSet;

/// Reads the map of database `db_id`. Returns the greatest id of a tree that owns an extent or a
/// page.
pub(super) fn read_map(ground: &Ground, db_id: u64) -> Result<TreeId> {
    let file_pages = ground.file.count()?.min(PAGES_MAX);
    let groups = read_header(ground, db_id)?;
    let group_extents = ground.group_extents();
    // Checked before memory is allocated for the groups: a damaged header may name far too many.
    // The map of the first group is page 1.
    if let Some(last) = groups.checked_sub(1) {
        let map = u64::from(last) * u64::from(ground.group_pages());
        let map = PageNo(u32::try_from(map.max(1)).unwrap_or(u32::MAX));
        length::holds_map(ground.path(), map, file_pages, groups)?;
    }
    let mut state = SpaceState::new(group_extents, file_pages);
    state.extents.describe(groups);
    let (mut found, mut shared) = (BTreeSet::new(), Vec::new());
    ground.each_page(&ground.maps(0..groups), |group, page| {
        let group = group as u32;
        ground.check_page(ground.map_page(group), page)?;
        length::holds_owned(ground.path(), page, group * group_extents, file_pages)?;
        for index in 1..group_extents as u16 {
            let number = group * group_extents + u32::from(index);
            if number >= file_pages / EXTENT_PAGES {
                break;
            }
            let extent = map::extent(page, index);
            match extent.tree {
                TreeId::NONE => state.extents.set_free(number),
                SHARED => shared.push(number),
                tree => {
                    state.set_owned(tree, number, !extent.used);
                    found.insert(tree);
                }
            }
        }
        Ok(())
    })?;
    load_shared(ground, &shared, &mut state, &mut found)?;
    ground.metrics.set(M::FilePages, u64::from(file_pages));
    let greatest = found.last().copied().unwrap_or(TreeId::NONE);
    state.found = Some(found);
    *ground.state.lock() = state;
    Ok(greatest)
}

/// Returns the number of groups that the file's header names.
fn read_header(ground: &Ground, db_id: u64) -> Result<u32> {
    let page = ground.pool.fetch(PageNo(0))?.read();
    let mut r = Reader::new(&page[HEADER_BYTES..]);
    let damage = |_| Error::corrupt(ground.path(), "its header is too short");
    let foreign = |what: &str| Error::Foreign { file: ground.path().to_owned(), what: what.into() };
    if r.bytes(8).map_err(damage)? != FILE_MAGIC {
        return Err(foreign("is not a pages file"));
    }
    if r.u64().map_err(damage)? != db_id {
        return Err(foreign("belongs to another database"));
    }
    r.u32().map_err(damage)
}

/// Reads the owners of the pages of these extents, which are in order.
fn load_shared(
    ground: &Ground,
    extents: &[u32],
    state: &mut SpaceState,
    found: &mut BTreeSet<TreeId>,
) -> Result {
    let alike: Vec<&[u32]> =
        extents.chunk_by(|a, b| ground.owners_page(*a) == ground.owners_page(*b)).collect();
    let owners_pages: Vec<PageNo> = alike.iter().map(|alike| ground.owners_page(alike[0])).collect();
    ground.each_page(&owners_pages, |n, page| {
        ground.check_page(owners_pages[n], page)?;
        let group = alike[n][0] / ground.group_extents();
        state.extents.note_owners_page(group, owners_pages[n].0 % EXTENT_PAGES - owners::FIRST);
        for &extent in alike[n] {
            let owners = owners::of_extent(page, extent);
            found.extend(owners.into_iter().filter(|tree| *tree != TreeId::NONE));
            state.shared.add(extent, owners);
        }
        Ok(())
    })
}
