//! The length of the `pages` file: the space that must be held before it grows, zeros, the map
//! pages of new groups, and the end that no extent uses.

use super::ground::Ground;
use super::options::{FILE_MAGIC, PAGES_MAX, SpaceOptions};
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::map::EXTENT_PAGES;
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use crate::role;
use base::PageNo;
use base::codec::Put;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use metrics::{M, SyncReason};
use pace::constants::{GROWTH_SLICE_BYTES_MIN, LOG_FILES_MIN};
use pace::growth::slice_bytes;

/// Makes the file longer and shorter.
#[derive(Debug)]
pub(super) struct Growth {
    options: SpaceOptions,
    growing: Mutex<()>,
    /// Callers that found no free extent and wait for one.
    waiting: AtomicU64,
}

impl Growth {
    pub(super) fn new(options: SpaceOptions) -> Growth {
        Growth { options, growing: Mutex::new(()), waiting: AtomicU64::new(0) }
    }

    /// The id of the database.
    pub(super) fn db_id(&self) -> u64 {
        self.options.db_id
    }

    /// Returns the bytes of a step of growth.
    pub(super) fn step_bytes(&self, ground: &Ground) -> u64 {
        u64::from(self.options.grow_pages) * ground.page_bytes() as u64
    }

    /// Wakes the thread that grows the file ahead of need.
    pub(super) fn wake(&self) {
        self.options.grower.unpark();
    }

    /// Makes sure that the disk space for opening, recovery, rollback and closing is held: the
    /// log's least files and the ballast. Every caller that takes space for anything else calls
    /// this first (INV-27).
    pub(super) fn hold_ballast(&self, ground: &Ground) -> Result {
        let files = ground.log.segments().at_least(LOG_FILES_MIN, ground.log.reserved_lsn());
        files.and_then(|()| self.options.ballast.hold()).map_err(|error| full_or_poison(ground, error))
    }

    /// Stops growth while the guard is held. A caller that frees disk space holds it, so that
    /// growth does not take that space.
    pub(super) fn stopped(&self) -> MutexGuard<'_, ()> {
        self.growing.lock()
    }

    /// Grows the file unless another thread has made a free extent meanwhile.
    pub(super) fn await_growth(&self, ground: &Ground) -> Result {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let growing = self.growing.lock();
        let needed = ground.state.lock().extents.free_count() == 0;
        let grown = if needed { self.grow(ground, &growing, SyncReason::Grow) } else { Ok(()) };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        ground.metrics.add(M::FileGrowthsAwaited, u64::from(needed && grown.is_ok()));
        grown
    }

    /// Extends the file by a slice of zeros and adds its extents to the map. One thread at a time.
    pub(super) fn grow(&self, ground: &Ground, _: &MutexGuard<'_, ()>, reason: SyncReason) -> Result {
        let (groups, from) = {
            let state = ground.state.lock();
            (state.extents.groups(), state.file_pages)
        };
        let most = self.options.pages_max.min(PAGES_MAX) / EXTENT_PAGES * EXTENT_PAGES;
        if from >= most {
            let what = format!("{} has {from} pages, the most that there can be", ground.path().display());
            return Err(Error::Limit { what });
        }
        let slice = slice_bytes(self.step_bytes(ground), GROWTH_SLICE_BYTES_MIN) / ground.page_bytes() as u64;
        let to = from.saturating_add((slice as u32).next_multiple_of(EXTENT_PAGES)).min(most);
        self.hold_ballast(ground)?;
        self.write_zeros(ground, from, to, reason)?;
        let needed = to.div_ceil(ground.group_pages());
        if needed > groups {
            self.describe(ground, groups, needed)?;
        }
        let group_extents = ground.group_extents();
        let mut state = ground.state.lock();
        base::check!(state.file_pages == from, "the file grows from {from}, where it does not end");
        let new = from / EXTENT_PAGES..to / EXTENT_PAGES;
        state.extents.describe(needed);
        new.filter(|extent| extent % group_extents != 0).for_each(|extent| state.extents.set_free(extent));
        state.file_pages = to;
        ground.metrics.set(M::FilePages, u64::from(to));
        Ok(())
    }

    fn write_zeros(&self, ground: &Ground, from: u32, to: u32, reason: SyncReason) -> Result {
        // Nothing refers to these pages yet, so a full disk does no harm: only the call that needed
        // them fails.
        ground.file.grow(from, to).map_err(|error| full_or_poison(ground, error))?;
        let waiting = || {
            let own = if reason == SyncReason::Create { role::callers() } else { 0 };
            own + self.waiting.load(Ordering::Relaxed)
        };
        if !planted(Bug::NoGrowSync) {
            ground.file.sync(reason, waiting).map_err(|error| ground.poison.set(error))?;
        }
        Ok(())
    }

    /// Creates the map pages of groups `from..to` and stores the number of groups in the file's
    /// header.
    fn describe(&self, ground: &Ground, from: u32, to: u32) -> Result {
        for group in from..to {
            let holder = ground.pool.hold_frames()?;
            let frame = holder.take_frame()?;
            let header_frame = if group == 0 { Some(holder.take_frame()?) } else { None };
            let header_pin = if group == 0 { None } else { Some(ground.pool.fetch(PageNo(0))?) };
            let (mut mtr, map) = Mtr::begin_new(&ground.log, &ground.pool, ground.map_page(group), frame)?;
            let header = match (header_frame, header_pin) {
                (Some(frame), _) => {
                    mtr.add(ground.pool.try_create(PageNo(0), frame).expect("nobody reads it"))
                }
                (None, Some(pin)) => mtr.add(pin.write()),
                (None, None) => unreachable!("one of the two was fetched"),
            };
            let mut content = FILE_MAGIC.to_vec();
            content.put_u64(self.options.db_id);
            content.put_u32(group + 1);
            mtr.apply(header, &PageOp::InitFile { content: &content });
            mtr.apply(map, &PageOp::InitMap);
            mtr.commit();
        }
        Ok(())
    }

    /// Shortens the file by the extents at its end that were added ahead of need and that no tree
    /// has taken.
    pub(super) fn trim(&self, ground: &Ground) -> Result {
        let _growing = self.growing.lock();
        let group_extents = ground.group_extents();
        let mut state = ground.state.lock();
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
        ground.file.shorten(kept * EXTENT_PAGES).map_err(|error| ground.poison.set(error))?;
        ground.metrics.set(M::FilePages, u64::from(kept * EXTENT_PAGES));
        Ok(())
    }
}

/// Returns an error for a full disk, or for a file that cannot be opened for want of a descriptor.
/// Any other error poisons the database.
fn full_or_poison(ground: &Ground, error: Error) -> Error {
    if error.may_pass() { error } else { ground.poison.set(error) }
}
