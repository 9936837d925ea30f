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
//! no tree. It holds the map page and, behind it, the pages of owners, which name the owners of
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
mod grow;
mod length;
mod release;
mod reservation;
mod room;
mod shared;
mod sharing;
mod state;

pub(crate) use reservation::PinnedMap;

use crate::buffer::{FetchHint, Pool};
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::page::map::{self, EXTENT_PAGES, SHARED, extents_per_map};
use crate::page_file::PageFile;
use crate::reserve::Reserve;
use base::codec::Reader;
use base::sync::atomic::AtomicU64;
use base::sync::{Mutex, Unparker};
use base::{PageNo, TreeId};
use metrics::{M, Metrics, SyncReason};
use state::SpaceState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub(crate) const FILE_MAGIC: &[u8; 8] = b"MPPAGES\0";
/// The least that one growth writes if a step is as long, bytes.
const SLICE_BYTES_MIN: u64 = 2 << 20;

/// Map pages that are read together.
const MAPS_TOGETHER: usize = 64;

/// The first page that a new file can give to a tree. The extent before it holds the map.
pub(crate) const FIRST_TREE_PAGE: PageNo = PageNo(EXTENT_PAGES);

/// The number of pages that page numbers can name, in whole extents.
pub(crate) const PAGES_MAX: u32 = u32::MAX / EXTENT_PAGES * EXTENT_PAGES;

/// The parameters of the space map.
#[derive(Debug)]
pub(crate) struct SpaceOptions {
    /// The pages.
    pub(crate) file: Arc<PageFile>,
    /// The id of the database.
    pub(crate) db_id: u64,
    /// Pages of one step of growth.
    pub(crate) grow_pages: u32,
    /// The most pages of the file; [`PAGES_MAX`] except in tests.
    pub(crate) pages_max: u32,
    /// Wakes the thread that grows the file ahead of need.
    pub(crate) grower: Unparker,
    /// The disk reserve, which must be held before the file grows.
    pub(crate) reserve: Arc<Reserve>,
}

/// The space map of an open database.
#[derive(Debug)]
pub(crate) struct Space {
    options: SpaceOptions,
    log: Arc<Log>,
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
    state: Mutex<SpaceState>,
    growing: Mutex<()>,
    /// Held while an extent becomes shared, or free again.
    sharing: Mutex<()>,
    /// Callers that found no free extent and wait for one.
    waiting: AtomicU64,
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
        Space {
            options,
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
            state: Mutex::new(SpaceState::new(group_extents, 0)),
            growing: Mutex::new(()),
            sharing: Mutex::new(()),
            waiting: AtomicU64::new(0),
        }
    }

    fn page_bytes(&self) -> usize {
        self.pool.page_bytes()
    }

    fn group_pages(&self) -> u32 {
        extents_per_map(self.page_bytes()) * EXTENT_PAGES
    }

    fn map_page(&self, group: u32) -> PageNo {
        map::page_of_group(self.page_bytes(), group)
    }

    /// Returns the map page that describes `extent`, and the extent's index in it.
    fn map_entry(&self, extent: u32) -> (PageNo, u16) {
        let group_extents = extents_per_map(self.page_bytes());
        (self.map_page(extent / group_extents), (extent % group_extents) as u16)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.options.file.path()
    }

    /// Creates the first group in an empty file.
    pub(crate) fn format(&self) -> Result {
        self.grow(&self.growing.lock(), SyncReason::Create)
    }

    /// Reads the map of an existing file. Returns the greatest id of a tree that owns an extent or
    /// a page.
    pub(crate) fn load(&self) -> Result<TreeId> {
        let file_pages = self.options.file.count()?.min(PAGES_MAX);
        let groups = self.read_header()?;
        let group_extents = extents_per_map(self.page_bytes());
        // Checked before memory is allocated for the groups: a damaged header may name far too
        // many. The map of the first group is page 1.
        if let Some(last) = groups.checked_sub(1) {
            let map = u64::from(last) * u64::from(self.group_pages());
            let map = PageNo(u32::try_from(map.max(1)).unwrap_or(u32::MAX));
            length::holds_map(self.path(), map, file_pages, groups)?;
        }
        let mut state = SpaceState::new(group_extents, file_pages);
        state.extents.describe(groups);
        let (mut found, mut shared) = (BTreeSet::new(), Vec::new());
        self.each_page(&self.maps(0..groups), |group, page| {
            let group = group as u32;
            self.check_page(self.map_page(group), page)?;
            length::holds_owned(self.path(), page, group * group_extents, file_pages)?;
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
        self.load_shared(&shared, &mut state, &mut found)?;
        self.metrics.set(M::FilePages, u64::from(file_pages));
        let greatest = found.last().copied().unwrap_or(TreeId::NONE);
        state.found = Some(found);
        *self.state.lock() = state;
        Ok(greatest)
    }

    /// Returns the pages of the map, but for those that name owners.
    pub(crate) fn map_pages(&self) -> Vec<PageNo> {
        let groups = self.state.lock().extents.groups();
        self.maps(0..groups)
    }

    fn maps(&self, groups: impl IntoIterator<Item = u32>) -> Vec<PageNo> {
        groups.into_iter().map(|group| self.map_page(group)).collect()
    }

    /// Shows `look` pages of the map, in order and with their index in `pages`, and reads many at
    /// once. REQUIRES: no latch held.
    fn each_page(&self, pages: &[PageNo], mut look: impl FnMut(usize, &[u8]) -> Result) -> Result {
        for (n, &page) in pages.iter().enumerate() {
            self.read_ahead(pages, n);
            let page = self.pool.fetch_with(page, FetchHint::Scan)?.read();
            look(n, &page)?;
        }
        Ok(())
    }

    /// Reads the next pages of the map with many reads in flight, each time `n` comes to such a
    /// batch. A file of half a terabyte has eight thousand map pages, and a small pool has few
    /// frames. Errors are ignored here: the fetch of the single page returns them.
    fn read_ahead(&self, pages: &[PageNo], n: usize) {
        let together = MAPS_TOGETHER.min(self.pool.frame_count() / 8).max(1);
        if n.is_multiple_of(together) {
            let _ = self.pool.fetch_many(&pages[n..pages.len().min(n + together)], FetchHint::Scan);
        }
    }

    /// Returns an error if a page of the map holds impossible values. Otherwise an extent might
    /// look free and be handed out, and then the map page would refuse the change in the middle of
    /// a mini-transaction.
    fn check_page(&self, no: PageNo, page: &[u8]) -> Result {
        match crate::page::verify::problems(page).first() {
            None => Ok(()),
            Some(damage) => Err(Error::corrupt(self.path(), format!("{no:?}: {damage}"))),
        }
    }

    /// Returns the trees that owned extents or pages when the map was loaded, and forgets them.
    /// REQUIRES: no tree was created or dropped since.
    pub(crate) fn owners_found(&self) -> BTreeSet<TreeId> {
        self.state.lock().found.take().unwrap_or_default()
    }

    fn read_header(&self) -> Result<u32> {
        let page = self.pool.fetch(PageNo(0))?.read();
        let mut r = Reader::new(&page[crate::page::header::HEADER_BYTES..]);
        let damage = |_| Error::corrupt(self.path(), "its header is too short");
        let foreign = |what: &str| Error::Foreign { file: self.path().to_owned(), what: what.into() };
        if r.bytes(8).map_err(damage)? != FILE_MAGIC {
            return Err(foreign("is not a pages file"));
        }
        if r.u64().map_err(damage)? != self.options.db_id {
            return Err(foreign("belongs to another database"));
        }
        r.u32().map_err(damage)
    }

    /// Returns the bytes of free extents, and of those that trees have taken since the start.
    pub(crate) fn free_and_taken(&self) -> (u64, u64) {
        let state = self.state.lock();
        let (free, taken) = (state.extents.free_count() as u64, state.extents.taken());
        (self.extent_bytes() * free, self.extent_bytes() * taken)
    }

    fn extent_bytes(&self) -> u64 {
        u64::from(EXTENT_PAGES) * self.page_bytes() as u64
    }

    /// Returns the bytes of a step of growth.
    pub(crate) fn step_bytes(&self) -> u64 {
        u64::from(self.options.grow_pages) * self.page_bytes() as u64
    }

    /// Asks that the thread that grows the file is woken, once, when fewer bytes are free. Returns
    /// false if fewer are free now.
    pub(crate) fn wake_grower_below(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let extents = (bytes / self.extent_bytes()) as usize;
        state.wake_below = extents;
        state.extents.free_count() >= extents
    }

    /// Grows the file before an extent is needed. A full disk does no harm yet.
    pub(crate) fn grow_ahead(&self) -> Result {
        self.grow(&self.growing.lock(), SyncReason::GrowAhead)?;
        self.metrics.add(M::FileGrowthsAhead, 1);
        Ok(())
    }

    /// Shortens the file by the extents at its end that were added ahead of need and that no tree
    /// has taken.
    pub(crate) fn trim(&self) -> Result {
        let _growing = self.growing.lock();
        let group_extents = extents_per_map(self.page_bytes());
        let mut state = self.state.lock();
        let end = state.file_pages / EXTENT_PAGES;
        // The map page of the last group stays.
        let last_map = end.saturating_sub(1) / group_extents * group_extents;
        let kept = state.extents.untouched().max(last_map + 1);
        if kept >= end {
            return Ok(());
        }
        // From here on no caller can take them.
        state.cut(kept);
        drop(state);
        // After a crash the file may be as long as before. Then they are free extents again.
        self.options.file.shorten(kept * EXTENT_PAGES).map_err(|error| self.poison.set(error))?;
        self.metrics.set(M::FilePages, u64::from(kept * EXTENT_PAGES));
        Ok(())
    }

    /// Returns how often the file was made shorter, and its length in bytes.
    pub(crate) fn trims_and_bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.trims, u64::from(state.file_pages) * self.page_bytes() as u64)
    }

    /// Whether trees share the extent. It stays shared while one of its pages is in use or
    /// reserved.
    fn is_shared(&self, extent: u32) -> bool {
        self.state.lock().shared.holds(extent)
    }

    /// Whether the page belongs to a tree. REQUIRES: no latch held.
    pub(crate) fn uses(&self, page: PageNo) -> Result<bool> {
        let extent = page.0 / EXTENT_PAGES;
        if self.is_shared(extent) {
            return Ok(self.owned_pages(extent)?.any(|(_, owned)| owned == page));
        }
        let (map_page, index) = self.map_entry(extent);
        let map = self.pool.fetch(map_page)?.read();
        Ok(map::extent(&map, index).used & 1 << (page.0 % EXTENT_PAGES) != 0)
    }

    /// Returns the number of free pages: those of free extents, and the free ones in extents of
    /// trees and in shared extents.
    pub(crate) fn free_pages(&self) -> u64 {
        self.state.lock().free_pages()
    }

    /// Returns how many pages are free in extents that `tree` alone owns: only it will use them.
    /// REQUIRES: no latch held.
    pub(crate) fn free_pages_of(&self, tree: TreeId) -> Result<u64> {
        let room = self.state.lock().room.of(tree);
        let mut free = 0;
        self.each_page(&self.maps(room.iter().map(|(group, _)| *group)), |n, page| {
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
        self.state.lock().bytes() as u64
    }

    /// Returns the pages in use of each tree, for the check of the whole database.
    pub(crate) fn used_pages(&self) -> Result<BTreeMap<TreeId, Vec<PageNo>>> {
        let groups = self.state.lock().extents.groups();
        let mut used: BTreeMap<TreeId, Vec<PageNo>> = BTreeMap::new();
        let group_extents = extents_per_map(self.page_bytes());
        let mut shared = Vec::new();
        self.each_page(&self.maps(0..groups), |group, page| {
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
            self.owned_pages(extent)?.for_each(|(tree, page)| used.entry(tree).or_default().push(page));
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests;
