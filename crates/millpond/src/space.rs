//! Space inside the `pages` file: which pages are whose.
//!
//! ```text
//!  page 0        1          2 …  15   16 …             G          G+1 …
//!  +-------------+----------+---------+----------------+----------+-----
//!  | file header | map of   | not     | extents of 16  | map of   |
//!  |             | group 0  | used    | pages          | group 1  |
//!  +-------------+----------+---------+----------------+----------+-----
//! ```
//! A group is as many extents as one map page describes. The first extent of each group holds the map page, behind it the pages
//! that name the owners of single pages, made when they are needed, and is given to no tree. They all stay pinned for good, so
//! that a mini-transaction can latch one without waiting for I/O.
//!
//! An extent belongs to one tree, or it is shared: its pages are given one by one to trees that have few (Fi5).
//!
//! Space is *reserved* before anything is latched: that may grow the file, if the thread that does so ahead of need (Fi4)
//! has not kept up, and may find the disk full. Taking a reserved
//! page inside a mini-transaction only sets a bit.

mod ends;
mod grow;
mod shared;
mod sharing;
mod state;

use crate::buffer::Pool;
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::mtr::{Mtr, Slot};
use crate::page::map::{self, EXTENT_PAGES, Extent, extents_per_map};
use crate::page::op::PageOp;
use crate::page::owners::{self, SHARED};
use crate::reserve::Reserve;
use base::codec::Reader;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use base::{PageNo, TreeId};
use metrics::{M, Metrics, SyncReason};
use smallvec::SmallVec;
use state::{Picked, State};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{File, Vfs};

pub(crate) const FILE_MAGIC: &[u8; 8] = b"MPPAGES\0";
/// Bytes of one write when the file grows.
const GROW_WRITE_BYTES: usize = 1 << 20;
/// What one growth writes at least, if a step is as much, bytes.
const SLICE_BYTES_MIN: u64 = 2 << 20;

/// Map pages that are read together.
const MAPS_TOGETHER: u32 = 64;

/// The first page that a new file can give to a tree: the extent before it holds the map.
pub(crate) const EXTENT_FIRST: PageNo = PageNo(EXTENT_PAGES);

/// Pages that a page number can name, in whole extents.
pub(crate) const PAGES_MAX: u32 = u32::MAX / EXTENT_PAGES * EXTENT_PAGES;

/// What the space of a database is made of.
#[derive(Debug)]
pub(crate) struct SpaceOptions {
    /// Files and time.
    pub(crate) vfs: Vfs,
    /// The `pages` file.
    pub(crate) file: Arc<dyn File>,
    /// Its name.
    pub(crate) path: PathBuf,
    /// The database.
    pub(crate) db_id: u64,
    /// Pages that are a step of growth.
    pub(crate) grow_pages: u32,
    /// The file never has more pages; [`PAGES_MAX`] but for tests.
    pub(crate) pages_max: u32,
    /// Wakes the thread that grows the file ahead of need.
    pub(crate) grower: Unparker,
    /// What must be held before the file grows.
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
    state: Mutex<State>,
    growing: Mutex<()>,
    /// One makes an extent shared, or free again. The pages of owners that there are.
    sharing: Mutex<BTreeSet<PageNo>>,
    /// Callers that found no free extent and wait for one.
    waiting: AtomicU64,
}

/// What came of setting pages aside.
enum Found {
    /// They are as many as were asked for.
    Enough,
    /// A small tree needs a page, and no shared extent has one.
    NoShared,
    /// No extent is free.
    NoExtent,
}

/// Pages set aside for one tree. What is not taken goes back on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'s> {
    space: &'s Space,
    tree: TreeId,
    pages: SmallVec<[PageNo; 4]>,
}

impl Space {
    /// The space of a database whose pages are those of its last state. Call [`Space::load`] or [`Space::format`] next.
    pub(crate) fn new(
        options: SpaceOptions,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        metrics: &Arc<Metrics>,
        poison: &Arc<Poison>,
    ) -> Space {
        Space {
            options,
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
            state: Mutex::new(State::default()),
            growing: Mutex::new(()),
            sharing: Mutex::new(BTreeSet::new()),
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

    /// The map page that describes `extent`, and the extent's index in it.
    fn place(&self, extent: u32) -> (PageNo, u16) {
        let each = extents_per_map(self.page_bytes());
        (self.map_page(extent / each), (extent % each) as u16)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.options.path
    }

    /// Begins an empty file.
    pub(crate) fn format(&self) -> Result {
        self.grow(&self.growing.lock(), SyncReason::Create)
    }

    /// Map pages that are read together: a file of half a terabyte has eight thousand.
    fn maps_together(&self) -> u32 {
        MAPS_TOGETHER.min(self.pool.frame_count() as u32 / 8).max(1)
    }

    /// Reads the map of an existing file. Returns the greatest id of a tree that owns an extent or a page.
    pub(crate) fn load(&self) -> Result<TreeId> {
        let len = self.options.file.len().map_err(|e| Error::io("measure", self.path(), e))?;
        let file_pages = u32::try_from(len / self.page_bytes() as u64).unwrap_or(PAGES_MAX).min(PAGES_MAX);
        let groups = self.read_header()?;
        let each = extents_per_map(self.page_bytes());
        let untouched = file_pages / EXTENT_PAGES;
        let mut state = State { groups, file_pages, untouched, ..State::default() };
        let mut greatest = TreeId::NONE;
        let (together, mut shared) = (self.maps_together(), Vec::new());
        for group in 0..groups {
            if group % together == 0 {
                let maps = group..(group + together).min(groups);
                let maps: Vec<_> =
                    maps.map(|group| self.map_page(group)).filter(|map| map.0 < file_pages).collect();
                // Whatever fails here is told below.
                let _ = self.pool.fetch_many(&maps);
            }
            ends::holds_map(self.path(), self.map_page(group), file_pages, groups)?;
            let page = self.pin_for_good(self.map_page(group))?;
            self.refuse_damaged(self.map_page(group), &page)?;
            ends::holds_owned(self.path(), &page, group * each, file_pages)?;
            for index in 1..each as u16 {
                let number = group * each + u32::from(index);
                if number >= file_pages / EXTENT_PAGES {
                    break;
                }
                let extent = map::extent(&page, index);
                if extent.tree == SHARED {
                    shared.push(number);
                    continue;
                }
                greatest = greatest.max(extent.tree);
                if extent.tree == TreeId::NONE {
                    state.free.insert(number);
                } else if extent.used != u16::MAX {
                    state.room.insert((extent.tree, number), !extent.used);
                }
            }
        }
        self.metrics.set(M::FilePages, u64::from(file_pages));
        *self.state.lock() = state;
        Ok(greatest.max(self.load_shared(&shared)?))
    }

    /// Takes all extents and pages of a tree back, in steps that are each safe to repeat. REQUIRES: nobody uses the tree any more,
    /// and none will; no latch held.
    pub(crate) fn release_tree(&self, tree: TreeId) -> Result {
        self.release_shared(tree)?;
        let groups = self.state.lock().groups;
        let each = extents_per_map(self.page_bytes());
        for group in 0..groups {
            self.log.make_room()?;
            let map = self.map_page(group);
            let mut mtr = Mtr::begin(&self.log, &self.pool);
            let slot = self.latch_pinned(&mut mtr, map);
            let owned: Vec<u16> =
                (0..each as u16).filter(|&i| map::extent(mtr.page(slot), i).tree == tree).collect();
            for &extent in &owned {
                mtr.apply(slot, &PageOp::MapRelease { extent });
            }
            self.metrics.add(M::ExtentsFreed, owned.len() as u64);
            {
                let mut state = self.state.lock();
                for &extent in &owned {
                    let number = group * each + u32::from(extent);
                    state.room.remove(&(tree, number));
                    state.free.insert(number);
                }
            }
            mtr.commit();
        }
        self.state.lock().forget(tree);
        Ok(())
    }

    /// The trees that own extents or pages.
    pub(crate) fn owners(&self) -> Result<BTreeSet<TreeId>> {
        let mut owners = BTreeSet::new();
        self.each_extent(|number, extent| {
            if extent.tree == SHARED {
                owners.extend(self.owned_pages(number)?.map(|(tree, _)| tree));
            } else if extent.tree != TreeId::NONE {
                owners.insert(extent.tree);
            }
            Ok(())
        })?;
        Ok(owners)
    }

    /// Shows all extents with their numbers. No latch is held meanwhile.
    fn each_extent(&self, mut each: impl FnMut(u32, Extent) -> Result) -> Result {
        let (groups, per_map) = (self.state.lock().groups, extents_per_map(self.page_bytes()));
        for group in 0..groups {
            let page = self.pool.fetch(self.map_page(group))?.read();
            let extents: Vec<Extent> = (0..per_map as u16).map(|index| map::extent(&page, index)).collect();
            drop(page);
            extents
                .into_iter()
                .zip(group * per_map..)
                .try_for_each(|(extent, number)| each(number, extent))?;
        }
        Ok(())
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

    /// Fetches a map page and never lets go of its pin.
    fn pin_for_good(&self, page: PageNo) -> Result<crate::buffer::PageRead<'_>> {
        // The pin count of a map page stays above 0 for the life of the pool, so `try_pin` always finds it.
        std::mem::forget(self.pool.fetch(page)?);
        Ok(self.pool.fetch(page)?.read())
    }

    /// Sets `n` pages aside for `tree`. REQUIRES: no latch held. `DiskFull` and the limit of pages come from here, and then nothing
    /// changed.
    pub(crate) fn reserve(&self, tree: TreeId, n: u32) -> Result<Reservation<'_>> {
        let mut reservation = Reservation { space: self, tree, pages: SmallVec::new() };
        self.reserve_more(&mut reservation, n)?;
        Ok(reservation)
    }

    /// Sets `n` more pages aside. After an error some more may be, and go back with the others.
    pub(crate) fn reserve_more(&self, reservation: &mut Reservation<'_>, n: u32) -> Result {
        let (tree, wanted) = (reservation.tree, reservation.pages.len() + n as usize);
        self.reserve_by(reservation, |state, pages| {
            while pages.len() < wanted {
                match state.pick(tree) {
                    Picked::Page(page) => pages.push(page),
                    Picked::NoShared => return Found::NoShared,
                    Picked::NoExtent => return Found::NoExtent,
                }
            }
            Found::Enough
        })
    }

    /// Sets all free pages of one extent aside for `tree`, in order. Otherwise as [`Space::reserve`].
    pub(crate) fn reserve_extent(&self, tree: TreeId) -> Result<Reservation<'_>> {
        let mut reservation = Reservation { space: self, tree, pages: SmallVec::new() };
        self.reserve_by(&mut reservation, |state, pages| {
            let Some((extent, bits)) = state.pick_extent(tree) else { return Found::NoExtent };
            state.room.remove(&(tree, extent));
            let free = (0..EXTENT_PAGES).filter(|bit| bits & 1 << bit != 0);
            pages.extend(free.map(|bit| PageNo(extent * EXTENT_PAGES + bit)));
            Found::Enough
        })?;
        Ok(reservation)
    }

    /// Lets `pick` set pages aside until it says that they are enough, growing the file when it runs out of extents.
    fn reserve_by(
        &self,
        reservation: &mut Reservation<'_>,
        mut pick: impl FnMut(&mut State, &mut SmallVec<[PageNo; 4]>) -> Found,
    ) -> Result {
        loop {
            let mut state = self.state.lock();
            let found = pick(&mut state, &mut reservation.pages);
            let wake = state.free.len() < state.wake_below;
            if wake {
                state.wake_below = 0;
            }
            drop(state);
            if wake {
                self.options.grower.unpark();
            }
            match found {
                Found::Enough => return Ok(()),
                Found::NoShared if self.share_extent()? => continue,
                Found::NoExtent if self.unshare()? => continue,
                Found::NoShared | Found::NoExtent => {}
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let growing = self.growing.lock();
            let needed = self.state.lock().free.is_empty();
            let grown = if needed { self.grow(&growing, SyncReason::Grow) } else { Ok(()) };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.add(M::FileGrowthsAwaited, u64::from(needed && grown.is_ok()));
            grown?;
        }
    }

    /// Bytes of free extents, and of those that trees have taken since the start.
    pub(crate) fn free_and_taken(&self) -> (u64, u64) {
        let state = self.state.lock();
        (self.extent_bytes() * state.free.len() as u64, self.extent_bytes() * state.taken)
    }

    fn extent_bytes(&self) -> u64 {
        u64::from(EXTENT_PAGES) * self.page_bytes() as u64
    }

    /// Bytes of a step of growth.
    pub(crate) fn step_bytes(&self) -> u64 {
        u64::from(self.options.grow_pages) * self.page_bytes() as u64
    }

    /// Wakes the thread that grows the file, once, when fewer bytes are free. False if that is so already.
    pub(crate) fn wake_grower_below(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let extents = (bytes / self.extent_bytes()) as usize;
        state.wake_below = extents;
        state.free.len() >= extents
    }

    /// Grows the file before anybody needs it. A full disk harms nobody yet.
    pub(crate) fn grow_ahead(&self) -> Result {
        self.grow(&self.growing.lock(), SyncReason::GrowAhead)?;
        self.metrics.add(M::FileGrowthsAhead, 1);
        Ok(())
    }

    /// Gives the disk back what was grown ahead of need and nobody has taken.
    pub(crate) fn trim(&self) -> Result {
        let _growing = self.growing.lock();
        let each = extents_per_map(self.page_bytes());
        let mut state = self.state.lock();
        let end = state.file_pages / EXTENT_PAGES;
        // The map page of the last group stays.
        let last_map = end.saturating_sub(1) / each * each;
        let kept = state.untouched.max(last_map + 1);
        if kept >= end {
            return Ok(());
        }
        // From here on nobody can take them.
        drop(state.free.split_off(&kept));
        state.file_pages = kept * EXTENT_PAGES;
        state.trims += 1;
        drop(state);
        // After a crash the file may be as long as before: then they are free extents again.
        let len = u64::from(kept) * self.extent_bytes();
        self.options.file.set_len(len).map_err(|e| self.poison.set(Error::io("shorten", self.path(), e)))?;
        self.metrics.set(M::FilePages, u64::from(kept * EXTENT_PAGES));
        Ok(())
    }

    /// How often the file was made shorter, and how long it is, bytes.
    pub(crate) fn trims_and_bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.trims, u64::from(state.file_pages) * self.page_bytes() as u64)
    }

    /// Latches a page of the map.
    fn latch_pinned<'s>(&'s self, mtr: &mut Mtr<'s>, map: PageNo) -> Slot {
        mtr.find(map).unwrap_or_else(|| {
            let pin = self.pool.try_pin(map).expect("map pages stay pinned");
            mtr.add(pin.write())
        })
    }

    /// Whether trees share the extent. That lasts for as long as one of them has a page of it in use or set aside.
    fn is_shared(&self, extent: u32) -> bool {
        self.state.lock().shared.holds(extent)
    }

    /// Gives a page back, in the mini-transaction that empties it. It may be reused once that is logged.
    pub(crate) fn free<'s>(&'s self, mtr: &mut Mtr<'s>, page: PageNo) {
        let extent = page.0 / EXTENT_PAGES;
        let owner = if self.is_shared(extent) {
            let (slot, index) = self.latch_owners(mtr, page);
            let owner = owners::owner(mtr.page(slot), index);
            mtr.apply(slot, &PageOp::OwnerClear { page: index });
            owner
        } else {
            let (map, index) = self.place(extent);
            let slot = self.latch_pinned(mtr, map);
            let owner = map::extent(mtr.page(slot), index).tree;
            mtr.apply(slot, &PageOp::MapClear { extent: index, page: (page.0 % EXTENT_PAGES) as u8 });
            owner
        };
        // Reusable at once: whoever takes it must latch this map page and then the page itself, which this
        // mini-transaction holds until its redo is in the log buffer.
        self.state.lock().give_back(owner, page);
    }

    /// Whether the page belongs to a tree. REQUIRES: no latch held.
    pub(crate) fn uses(&self, page: PageNo) -> Result<bool> {
        let extent = page.0 / EXTENT_PAGES;
        if self.is_shared(extent) {
            return Ok(self.owned_pages(extent)?.any(|(_, owned)| owned == page));
        }
        let (map_page, index) = self.place(extent);
        let map = self.pool.fetch(map_page)?.read();
        Ok(map::extent(&map, index).used & 1 << (page.0 % EXTENT_PAGES) != 0)
    }

    /// Pages that are in no use: those of free extents, and free ones in the extents of trees and in shared ones.
    pub(crate) fn free_pages(&self) -> u64 {
        let state = self.state.lock();
        let room: u64 = state.room.values().map(|bits| u64::from(bits.count_ones())).sum();
        state.free.len() as u64 * u64::from(EXTENT_PAGES) + room + state.shared.free_pages()
    }

    /// Pages in use by each tree, for the whole-database check.
    pub(crate) fn used_pages(&self) -> Result<BTreeMap<TreeId, Vec<PageNo>>> {
        let mut used: BTreeMap<TreeId, Vec<PageNo>> = BTreeMap::new();
        self.each_extent(|number, extent| {
            if extent.tree == SHARED {
                self.owned_pages(number)?.for_each(|(tree, page)| used.entry(tree).or_default().push(page));
            } else if extent.used != 0 {
                let bits = (0..EXTENT_PAGES).filter(|bit| extent.used & 1 << bit != 0);
                let pages = bits.map(|bit| PageNo(number * EXTENT_PAGES + bit));
                used.entry(extent.tree).or_default().extend(pages);
            }
            Ok(())
        })?;
        Ok(used)
    }
}

impl<'s> Reservation<'s> {
    /// The pages that have not been handed out, in the order in which they will be.
    pub(crate) fn pages(&self) -> &[PageNo] {
        &self.pages
    }

    /// How many of the pages have not been handed out.
    pub(crate) fn left(&self) -> usize {
        self.pages.len()
    }

    /// Hands out one of the pages: it is in use once `mtr` is committed. Latches its map page, the last latch in order.
    pub(crate) fn take(&mut self, mtr: &mut Mtr<'s>) -> PageNo {
        let page = self.pages.remove(0);
        base::verify!(page >= EXTENT_FIRST, "{page:?} describes the file and is given to a tree");
        let extent = page.0 / EXTENT_PAGES;
        if self.space.is_shared(extent) {
            let (slot, index) = self.space.latch_owners(mtr, page);
            mtr.apply(slot, &PageOp::OwnerSet { page: index, tree: self.tree });
            return page;
        }
        let (map, index) = self.space.place(extent);
        let slot = self.space.latch_pinned(mtr, map);
        if map::extent(mtr.page(slot), index).tree == TreeId::NONE {
            mtr.apply(slot, &PageOp::MapOwn { extent: index, tree: self.tree });
            self.space.metrics.add(M::ExtentsAllocated, 1);
        }
        mtr.apply(slot, &PageOp::MapSet { extent: index, page: (page.0 % EXTENT_PAGES) as u8 });
        page
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.space.state.lock();
        for page in self.pages.drain(..) {
            state.give_back(self.tree, page);
        }
    }
}

#[cfg(test)]
mod tests;
