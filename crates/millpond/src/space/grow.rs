//! Growth of the `pages` file: the space that must be held first, zeros, and the map pages of new
//! groups.

use super::{FILE_MAGIC, PAGES_MAX, SLICE_BYTES_MIN, Space};
use crate::duty;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::map::{EXTENT_PAGES, extents_per_map};
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use base::PageNo;
use base::codec::Put;
use base::sync::MutexGuard;
use base::sync::atomic::Ordering;
use metrics::{M, SyncReason};
use pace::growth::slice_bytes;
use pace::segments::FILES_MIN;

impl Space {
    /// Makes sure that the disk space for opening, recovery, rollback and closing is held: the
    /// log's least files and the reserve. Every caller that takes space for anything else calls
    /// this first (INV-27).
    pub(crate) fn hold_reserve(&self) -> Result {
        let files = self.log.segments().at_least(FILES_MIN, self.log.reserved_lsn());
        files.and_then(|()| self.options.reserve.hold()).map_err(|error| self.full_or_poison(error))
    }

    /// Stops growth while the guard is held. A caller that frees disk space holds it, so that
    /// growth does not take that space.
    pub(crate) fn growth_stopped(&self) -> MutexGuard<'_, ()> {
        self.growing.lock()
    }

    /// Returns an error for a full disk, or for a file that cannot be opened for want of a
    /// descriptor. Any other error poisons the database.
    fn full_or_poison(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.poison.set(error) }
    }

    /// Extends the file by a slice of zeros and adds its extents to the map. One thread at a time.
    pub(super) fn grow(&self, _: &MutexGuard<'_, ()>, reason: SyncReason) -> Result {
        let (groups, from) = {
            let state = self.state.lock();
            (state.extents.groups(), state.file_pages)
        };
        let most = self.options.pages_max.min(PAGES_MAX) / EXTENT_PAGES * EXTENT_PAGES;
        if from >= most {
            let what = format!("{} has {from} pages, the most that there can be", self.path().display());
            return Err(Error::Limit { what });
        }
        let slice = slice_bytes(self.step_bytes(), SLICE_BYTES_MIN) / self.page_bytes() as u64;
        let to = from.saturating_add((slice as u32).next_multiple_of(EXTENT_PAGES)).min(most);
        self.hold_reserve()?;
        self.write_zeros(from, to, reason)?;
        let needed = to.div_ceil(self.group_pages());
        if needed > groups {
            self.describe(groups, needed)?;
        }
        let group_extents = extents_per_map(self.page_bytes());
        let mut state = self.state.lock();
        base::check!(state.file_pages == from, "the file grows from {from}, where it does not end");
        let new = from / EXTENT_PAGES..to / EXTENT_PAGES;
        state.extents.describe(needed);
        new.filter(|extent| extent % group_extents != 0).for_each(|extent| state.extents.set_free(extent));
        state.file_pages = to;
        self.metrics.set(M::FilePages, u64::from(to));
        Ok(())
    }

    fn write_zeros(&self, from: u32, to: u32, reason: SyncReason) -> Result {
        let file = &self.options.file;
        // Nothing refers to these pages yet, so a full disk does no harm: only the call that needed
        // them fails.
        file.grow(from, to).map_err(|error| self.full_or_poison(error))?;
        let waiting = || {
            let own = if reason == SyncReason::Create { duty::callers() } else { 0 };
            own + self.waiting.load(Ordering::Relaxed)
        };
        if !planted(Bug::NoGrowSync) {
            file.sync(reason, waiting).map_err(|error| self.poison.set(error))?;
        }
        Ok(())
    }

    /// Creates the map pages of groups `from..to` and stores the number of groups in the file's
    /// header.
    fn describe(&self, from: u32, to: u32) -> Result {
        for group in from..to {
            let holder = self.pool.hold_frames()?;
            let frame = holder.reserve_frame()?;
            let header_frame = if group == 0 { Some(holder.reserve_frame()?) } else { None };
            let header_pin = if group == 0 { None } else { Some(self.pool.fetch(PageNo(0))?) };
            let (mut mtr, map) = Mtr::begin_new(&self.log, &self.pool, self.map_page(group), frame)?;
            let header = match (header_frame, header_pin) {
                (Some(frame), _) => mtr.add(self.pool.try_create(PageNo(0), frame).expect("nobody reads it")),
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
}
