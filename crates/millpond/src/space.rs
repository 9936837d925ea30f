//! The space map: which extents and pages of the `pages` file are free, and which tree owns the
//! others.
//!
//! ```text
//!  page 0        1          2 …  15   16 …             G          G+1 …
//!  +-------------+----------+---------+----------------+----------+-----
//!  | file header | map of   | not     | extents of 16  | map of   |
//!  |             | group 0  | used    | pages          | group 1  |
//!  +-------------+----------+---------+----------------+----------+-----
//! ```
//! A group has as many extents as one map page describes. The first extent of each group belongs to
//! no tree. It holds the map page and, after it, the pages of owners, which name the owners of
//! single pages and are made when they are needed. All of these are cached and evicted like other
//! pages. A caller that changes one of them pins it before it latches anything ([`PinnedMap`]), so
//! a mini-transaction can latch it without waiting for I/O.
//!
//! An extent belongs to one tree, or it is shared: then each of its pages may belong to a different
//! small tree (Fi5).
//!
//! Pages are *reserved* before anything is latched. A reservation grows the file if the thread that
//! grows it ahead of need (Fi4) is too slow; then it may find the disk full. Taking a reserved page
//! inside a mini-transaction only sets a bit.

mod extent_set;
mod extents;
mod ground;
mod grow;
mod length;
mod options;
mod read_map;
mod release;
mod reservation;
mod room;
mod shared;
mod sharing;
mod state;

pub(crate) use options::{FILE_MAGIC, SpaceOptions};
pub(crate) use reservation::PinnedMap;

use crate::buffer::Pool;
use crate::error::{Poison, Result};
use crate::log::Log;
use crate::page::map::{self, EXTENT_PAGES, SHARED, extents_per_map};
use base::sync::{Mutex, MutexGuard};
use base::{PageNo, TreeId};
use ground::Ground;
use grow::Growth;
use metrics::{M, Metrics, SyncReason};
use release::{AskRoom, release_tree};
use sharing::Sharing;
use state::SpaceState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The first page that a new file can give to a tree. The extent before it holds the map.
pub(crate) const FIRST_TREE_PAGE: PageNo = PageNo(EXTENT_PAGES);

/// The space map of an open database.
#[derive(Debug)]
pub(crate) struct Space {
    ground: Ground,
    growth: Growth,
    sharing: Sharing,
}

impl Space {
    /// Creates the space map of a database. Call [`Space::load`] or [`Space::format`] next.
    /// REQUIRES: the pages are those of the database's last state.
    pub(crate) fn new(
        options: SpaceOptions,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        metrics: &Arc<Metrics>,
        poison: &Arc<Poison>,
    ) -> Space {
        let group_extents = extents_per_map(pool.page_bytes());
        let ground = Ground {
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file: Arc::clone(&options.file),
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
            state: Mutex::new(SpaceState::new(group_extents, 0)),
        };
        Space { ground, growth: Growth::new(options), sharing: Sharing::new() }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.ground.path()
    }

    /// Creates the first group in an empty file.
    pub(crate) fn format(&self) -> Result {
        self.growth.grow(&self.ground, &self.growth.stopped(), SyncReason::Create)
    }

    /// Reads the map of an existing file. Returns the greatest id of a tree that owns an extent or
    /// a page.
    pub(crate) fn load(&self) -> Result<TreeId> {
        read_map::read_map(&self.ground, self.growth.db_id())
    }

    /// Returns the pages of the map, but for those that name owners.
    pub(crate) fn map_pages(&self) -> Vec<PageNo> {
        let groups = self.ground.state.lock().extents.groups();
        self.ground.maps(0..groups)
    }

    /// Returns the trees that owned extents or pages when the map was loaded, and forgets them.
    /// REQUIRES: no tree was created or dropped since.
    pub(crate) fn owners_found(&self) -> BTreeSet<TreeId> {
        self.ground.state.lock().found.take().unwrap_or_default()
    }

    /// Returns the bytes of free extents, and of those that trees have taken since the start.
    pub(crate) fn free_and_taken(&self) -> (u64, u64) {
        let state = self.ground.state.lock();
        let (free, taken) = (state.extents.free_count() as u64, state.extents.taken());
        (self.ground.extent_bytes() * free, self.ground.extent_bytes() * taken)
    }

    /// Returns the bytes of a step of growth.
    pub(crate) fn step_bytes(&self) -> u64 {
        self.growth.step_bytes(&self.ground)
    }

    /// Asks that the thread that grows the file is woken, once, when fewer bytes are free. Returns
    /// false if fewer are free now.
    pub(crate) fn wake_grower_below(&self, bytes: u64) -> bool {
        let mut state = self.ground.state.lock();
        let extents = (bytes / self.ground.extent_bytes()) as usize;
        state.wake_below = extents;
        state.extents.free_count() >= extents
    }

    /// Grows the file before an extent is needed. A full disk does no harm yet.
    pub(crate) fn grow_ahead(&self) -> Result {
        self.growth.grow(&self.ground, &self.growth.stopped(), SyncReason::GrowAhead)?;
        self.ground.metrics.add(M::FileGrowthsAhead, 1);
        Ok(())
    }

    /// Makes sure that the disk space for opening, recovery, rollback and closing is held. Every
    /// caller that takes space for anything else calls this first (INV-27).
    pub(crate) fn hold_ballast(&self) -> Result {
        self.growth.hold_ballast(&self.ground)
    }

    /// Stops growth while the guard is held. A caller that frees disk space holds it, so that
    /// growth does not take that space.
    pub(crate) fn growth_stopped(&self) -> MutexGuard<'_, ()> {
        self.growth.stopped()
    }

    /// Shortens the file by the extents at its end that were added ahead of need and that no tree
    /// has taken.
    pub(crate) fn trim(&self) -> Result {
        self.growth.trim(&self.ground)
    }

    /// Returns how often the file was made shorter, and its length in bytes.
    pub(crate) fn trims_and_bytes(&self) -> (u64, u64) {
        let state = self.ground.state.lock();
        (state.trims, u64::from(state.file_pages) * self.ground.page_bytes() as u64)
    }

    /// Whether the page belongs to a tree. REQUIRES: no latch held.
    pub(crate) fn uses(&self, page: PageNo) -> Result<bool> {
        let (ground, extent) = (&self.ground, page.0 / EXTENT_PAGES);
        if ground.is_shared(extent) {
            return Ok(ground.owned_pages(extent)?.any(|(_, owned)| owned == page));
        }
        let (map_page, index) = ground.map_entry(extent);
        let map = ground.pool.fetch(map_page)?.read();
        Ok(map::extent(&map, index).used & 1 << (page.0 % EXTENT_PAGES) != 0)
    }

    /// Returns the number of free pages: those of free extents, and the free ones in extents of
    /// trees and in shared extents.
    pub(crate) fn free_pages(&self) -> u64 {
        self.ground.state.lock().free_pages()
    }

    /// Returns how many pages are free in extents that `tree` alone owns: only it will use them.
    /// REQUIRES: no latch held.
    pub(crate) fn free_pages_of(&self, tree: TreeId) -> Result<u64> {
        let room = self.ground.state.lock().room.of(tree);
        let mut free = 0;
        let maps = self.ground.maps(room.iter().map(|(group, _)| *group));
        self.ground.each_page(&maps, |n, page| {
            let extents = room[n].1.iter().map(|&index| map::extent(page, index));
            free += extents
                .filter(|found| found.tree == tree)
                .map(|found| u64::from(found.used.count_zeros()))
                .sum::<u64>();
            Ok(())
        })?;
        Ok(free)
    }

    /// Returns the memory of the space map in bytes, without the map's pages in the pool.
    pub(crate) fn map_bytes(&self) -> u64 {
        self.ground.state.lock().bytes() as u64
    }

    /// Returns the pages in use of each tree, for the check of the whole database.
    pub(crate) fn used_pages(&self) -> Result<BTreeMap<TreeId, Vec<PageNo>>> {
        let ground = &self.ground;
        let groups = ground.state.lock().extents.groups();
        let mut used: BTreeMap<TreeId, Vec<PageNo>> = BTreeMap::new();
        let group_extents = ground.group_extents();
        let mut shared = Vec::new();
        ground.each_page(&ground.maps(0..groups), |group, page| {
            for index in 0..group_extents as u16 {
                let extent = map::extent(page, index);
                let number = group as u32 * group_extents + u32::from(index);
                if extent.tree == SHARED {
                    shared.push(number);
                } else if extent.used != 0 {
                    let bits = (0..EXTENT_PAGES).filter(|bit| extent.used & 1 << bit != 0);
                    let pages = bits.map(|bit| PageNo(number * EXTENT_PAGES + bit));
                    used.entry(extent.tree).or_default().extend(pages);
                }
            }
            Ok(())
        })?;
        for extent in shared {
            ground.owned_pages(extent)?.for_each(|(tree, page)| used.entry(tree).or_default().push(page));
        }
        Ok(used)
    }

    /// Frees all extents and pages of a tree. What cannot be read is skipped, and its error is
    /// returned at the end. A second call does what is left. `room` is called before each step with
    /// the bytes of redo that it needs; no latch is held. REQUIRES: no caller uses the tree now or
    /// later; no latch held.
    pub(crate) fn release_tree(&self, tree: TreeId, room: AskRoom<'_>) -> Result {
        release_tree(&self.ground, &self.sharing, tree, room)
    }
}

#[cfg(test)]
mod tests;
