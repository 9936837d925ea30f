//! Page replacement: where frames come from. A frame comes from the free list, or from a clean page
//! that is evicted. If there is neither, the thread waits for the cleaner.
//!
//! A thread that needs a frame never writes a page (Bp5). It wakes the cleaner and waits on
//! `need_free`. The cleaner sweeps clean frames into the free list before they are needed, and
//! writes dirty pages when the sweep finds too few clean ones.
//!
//! Some operations keep a frame, or a pin on one, while they wait for another: they make or free
//! pages. If enough threads did so at once, each would wait for frames of the others. So such a
//! thread is a [`FrameHolder`] first, and only few threads can be one at the same time.
//!
//! A waiting thread of the engine gets the next free frame before all callers: purge frees the
//! space that callers fill, so it must not wait behind each of them.
//!
//! Replacement is second chance (clock): a hand moves over the frames. It clears the
//! reference bit of a frame that was used since its last visit, and takes a clean frame without
//! the bit. Once the pool is full, long scans reuse a ring of the frames that they filled (Bp6), as
//! long as no other thread used those pages meanwhile.

use base::PageNo;
use base::sync::atomic::Ordering;
use metrics::{Latency, M};
use pace::constants::{SCAN_RING_BATCHES, SCAN_RING_FRAMES_MAX, SCAN_RING_POOL_PART};

use super::frame::{AHEAD, CLAIMED, DIRTY, LOADING, PINS, REFERENCED, WRITING};
use super::pool::{FetchHint, Pool};
use crate::error::Result;
use crate::role;

/// How many frames the hand may pass to find one for reading ahead.
const PROBES_AHEAD: usize = 16;

/// The right of a thread to keep frames while it waits for another: at most two, and the purge
/// thread three, fewer in a small pool. So all holders keep at most a quarter of the pool and one
/// frame more, and one of them can always go on. A thread is a holder once, and waits for nothing
/// but frames, log space and latches while it is one.
#[derive(Debug)]
#[must_use]
pub(crate) struct FrameHolder<'p> {
    pool: &'p Pool,
    era: u64,
}

/// A frame that holds no page and belongs to one thread. It returns to the free list when this is
/// dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct FreeFrame<'p> {
    pool: &'p Pool,
    frame: u32,
}

/// The result of a sweep of the replacement hand.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Frames put on the free list.
    pub(crate) freed: usize,
    /// Pages that could be evicted if they were clean, in the order of the hand.
    pub(crate) dirty: Vec<PageNo>,
}

impl FreeFrame<'_> {
    /// Returns the frame's index. The caller owns the frame from now on.
    pub(super) fn take(self) -> u32 {
        let frame = self.frame;
        std::mem::forget(self);
        frame
    }
}

impl Drop for FreeFrame<'_> {
    fn drop(&mut self) {
        self.pool.put_free(self.frame);
    }
}

impl<'p> FrameHolder<'p> {
    /// Returns a frame for a page that is to be created. Waits for one if none is free. REQUIRES:
    /// the caller holds no latch.
    pub(crate) fn take_frame(&self) -> Result<FreeFrame<'p>> {
        self.pool.take_frame(FetchHint::Normal)
    }
}

impl Drop for FrameHolder<'_> {
    fn drop(&mut self) {
        let mut list = self.pool.free.list.lock();
        if self.era != list.era {
            list.earlier_holders -= 1;
            self.pool.free.left.notify_all();
            return;
        }
        list.holders -= 1;
        if list.waiting_to_hold > 0 {
            self.pool.free.may_hold.notify_one();
        }
    }
}

impl Pool {
    /// Makes the thread a frame holder. Waits while there are too many. REQUIRES: the caller holds
    /// no latch, no frame and no pin, and is not a holder.
    pub(crate) fn hold_frames(&self) -> Result<FrameHolder<'_>> {
        let mut list = self.free.list.lock();
        while list.holders >= list.holders_most {
            // As in `take_frame`: the check under the mutex misses nothing.
            self.poison.check()?;
            list.waiting_to_hold += 1;
            self.free.may_hold.wait(&mut list);
            list.waiting_to_hold -= 1;
        }
        list.holders += 1;
        Ok(FrameHolder { pool: self, era: list.era })
    }

    /// Returns the number of free frames.
    pub(crate) fn free_frames(&self) -> usize {
        self.free.list.lock().frames.len()
    }

    /// Returns the number of callers that wait for a frame.
    pub(crate) fn frame_waiters(&self) -> usize {
        self.free.list.lock().waiting
    }

    /// Returns the number of threads of the engine that wait for a frame.
    #[cfg(test)]
    pub(crate) fn engine_frame_waiters(&self) -> usize {
        self.free.list.lock().engine_waiting
    }

    /// Returns the number of threads that wait to be a frame holder.
    #[cfg(test)]
    pub(crate) fn waiting_to_hold(&self) -> usize {
        self.free.list.lock().waiting_to_hold
    }

    /// Sets how many frames the cleaner keeps free.
    pub(crate) fn set_free_reserve(&self, frames: usize) {
        self.free.reserve.store(frames, Ordering::Relaxed);
    }

    /// Returns how many frames the cleaner keeps free.
    pub(crate) fn free_reserve(&self) -> usize {
        self.free.reserve.load(Ordering::Relaxed)
    }

    /// Wakes all threads that wait for a frame, or to be a frame holder. They check whether the
    /// database is poisoned.
    pub(crate) fn wake_frame_waiters(&self) {
        let _list = self.free.list.lock();
        self.free.need_free.notify_all();
        self.free.engine_needs_free.notify_all();
        self.free.may_hold.notify_all();
        self.free.left.notify_all();
    }

    pub(super) fn own_frame(&self, frame: u32) -> FreeFrame<'_> {
        FreeFrame { pool: self, frame }
    }

    /// Returns a frame if there is one without waiting.
    pub(super) fn try_take_frame(&self, hint: FetchHint) -> Option<FreeFrame<'_>> {
        if hint == FetchHint::Scan
            && self.free_frames() <= self.free_reserve()
            && let Some(frame) = self.reuse_scanned()
        {
            return Some(frame);
        }
        if let Some((frame, left)) = self.pop_free() {
            if left == self.free.reserve.load(Ordering::Relaxed) / 2 {
                self.free.cleaner.unpark();
            }
            return Some(frame);
        }
        self.evict_one()
    }

    /// Returns a frame that no other thread needs, if there is one: the free-frame reserve stays as
    /// it is, and no page is evicted that was used lately.
    pub(super) fn try_take_spare(&self, hint: FetchHint) -> Option<FreeFrame<'_>> {
        if self.free_frames() > self.free_reserve() {
            return self.pop_free().map(|(frame, _)| frame);
        }
        let scanned = if hint == FetchHint::Scan { self.reuse_scanned() } else { None };
        scanned.or_else(|| self.evict_within(PROBES_AHEAD))
    }

    pub(super) fn take_frame(&self, hint: FetchHint) -> Result<FreeFrame<'_>> {
        let mut since_us = None;
        loop {
            self.poison.check()?;
            if let Some(frame) = self.try_take_frame(hint) {
                return Ok(self.waited_for(frame, since_us));
            }
            if since_us.is_none() {
                since_us = Some(self.clock.now_us());
                self.metrics.add(M::FreeFrameWaits, 1);
            }
            if role::is_engine() {
                match self.await_frame_first() {
                    Some(frame) => return Ok(self.waited_for(frame, since_us)),
                    None => continue,
                }
            }
            let mut list = self.free.list.lock();
            // The cleaner poisons first and wakes under this mutex, so a check under it misses
            // nothing.
            if list.available(false) || self.poison.is_set() {
                continue;
            }
            list.waiting += 1;
            self.free.cleaner.unpark();
            self.free.need_free.wait(&mut list);
            list.waiting -= 1;
        }
    }

    /// Waits, as a thread of the engine, for the next free frame. Returns `None` if the database is
    /// poisoned.
    fn await_frame_first(&self) -> Option<FreeFrame<'_>> {
        let mut list = self.free.list.lock();
        list.engine_waiting += 1;
        self.free.cleaner.unpark();
        while list.frames.is_empty() && !self.poison.is_set() {
            self.free.engine_needs_free.wait(&mut list);
        }
        list.engine_waiting -= 1;
        // Taken under the same mutex: no caller comes between.
        list.frames.pop().map(|frame| self.own_frame(frame))
    }

    fn pop_free(&self) -> Option<(FreeFrame<'_>, usize)> {
        let mut list = self.free.list.lock();
        if !list.available(role::is_engine()) {
            return None;
        }
        let frame = list.frames.pop()?;
        Some((self.own_frame(frame), list.frames.len()))
    }

    /// Measures a wait for a frame, if there was one.
    fn waited_for<'p>(&self, frame: FreeFrame<'p>, since_us: Option<u64>) -> FreeFrame<'p> {
        if let Some(since_us) = since_us {
            self.metrics.time(Latency::FreeFrameWait, self.clock.now_us().saturating_sub(since_us));
        }
        frame
    }

    pub(super) fn put_free(&self, frame: u32) {
        let state = self.frames().get(frame).state();
        base::check!(state & CLAIMED != 0 && state & (DIRTY | WRITING) == 0, "frame {frame} has a page");
        base::verify!(self.frames().get(frame).page_no().is_none(), "frame {frame} names a page");
        let mut list = self.free.list.lock();
        if frame as usize >= self.frames().count() {
            list.leaving.push(frame);
            return self.free.left.notify_all();
        }
        list.frames.push(frame);
        base::check!(list.frames.len() <= self.frames().count(), "a frame is free twice");
        if list.frames.len() <= list.engine_waiting {
            self.free.engine_needs_free.notify_one();
        } else if list.waiting > 0 {
            self.free.need_free.notify_one();
        }
    }

    /// Evicts the page of a frame if the file has its content and no thread uses it.
    pub(super) fn evict(&self, index: u32) -> Option<FreeFrame<'_>> {
        let frame = self.frames().get(index);
        let before = frame.claim()?;
        if before & AHEAD != 0 {
            self.metrics.add(M::PagesReadAheadUnused, 1);
        }
        // Between the claim and the removal, a fetch of the page finds a claimed frame and looks
        // again.
        self.table.remove(self.frames(), frame.page_no(), index);
        frame.forget_page();
        self.metrics.add(M::FrameEvictions, 1);
        Some(self.own_frame(index))
    }

    /// Moves the hand one frame on.
    fn next_hand(&self) -> u32 {
        (self.free.hand.fetch_add(1, Ordering::Relaxed) % self.frames().count()) as u32
    }

    fn evict_one(&self) -> Option<FreeFrame<'_>> {
        let frames = self.frames().count();
        // After two rounds the hand has seen every frame without its bit. If nearly all pages are
        // dirty, two rounds take long and find little.
        let mostly_dirty = self.dirty_pages() + self.writing_pages() > frames - frames / 16;
        self.evict_within(if mostly_dirty { frames.min(512) } else { 2 * frames })
    }

    /// Evicts a page that was not used since the hand's last visit, if the hand finds one among so
    /// many frames.
    fn evict_within(&self, probes: usize) -> Option<FreeFrame<'_>> {
        for _ in 0..probes {
            let index = self.next_hand();
            let state = self.frames().get(index).state();
            if state & REFERENCED != 0 {
                self.frames().get(index).clear(REFERENCED);
            } else if let Some(frame) = self.evict(index) {
                return Some(frame);
            }
        }
        None
    }

    /// Used by the cleaner. Moves the hand until `free` frames are free, or until it has seen
    /// `dirty` pages that a write would make evictable; two rounds at most.
    pub(crate) fn sweep(&self, free: usize, dirty: usize) -> Sweep {
        let mut swept = Sweep::default();
        let missing = free.saturating_sub(self.free_frames());
        for _ in 0..2 * self.frames().count() {
            if swept.freed >= missing || swept.dirty.len() >= dirty {
                break;
            }
            let index = self.next_hand();
            let frame = self.frames().get(index);
            let state = frame.state();
            if state & (PINS | LOADING | CLAIMED) != 0 {
                continue;
            }
            if state & REFERENCED != 0 {
                frame.clear(REFERENCED);
            } else if state & (DIRTY | WRITING) == DIRTY {
                swept.dirty.push(frame.page_no());
            } else if let Some(frame) = self.evict(index) {
                drop(frame);
                swept.freed += 1;
            }
        }
        swept
    }

    /// Used by the cleaner. Frees the frames of pages that were just written, until `free` frames
    /// are free in all. Skips pages that were used meanwhile. Returns how many frames it freed.
    pub(crate) fn free_cleaned(&self, pages: &[PageNo], free: usize) -> usize {
        let missing = free.saturating_sub(self.free_frames());
        let mut freed = 0;
        for page in pages {
            if freed >= missing {
                break;
            }
            let Some(index) = self.table.get(self.frames(), *page) else { continue };
            if self.frames().get(index).state() & REFERENCED == 0 && self.evict(index).is_some() {
                freed += 1;
            }
        }
        freed
    }

    /// Adds a frame that a scan filled to the ring of scans.
    pub(super) fn note_scanned(&self, frame: u32) {
        let ring = self.scan_ring();
        let mut scans = self.free.scans.lock();
        while scans.len() >= ring {
            scans.pop_front();
        }
        scans.push_back(frame);
    }

    /// Returns how many frames the ring of scans has at most: room for what a few of them read
    /// ahead.
    fn scan_ring(&self) -> usize {
        (self.frames().count() / SCAN_RING_POOL_PART).clamp(1, SCAN_RING_FRAMES_MAX)
    }

    /// Returns how many frames of the ring scans may reuse. A part of them stays, because a batch
    /// of reads takes its frames from the ring before it puts them back.
    pub(super) fn reusable_frames(&self) -> usize {
        let scans = self.free.scans.lock().len();
        if scans < self.scan_ring().div_ceil(SCAN_RING_BATCHES) { 0 } else { scans }
    }

    fn reuse_scanned(&self) -> Option<FreeFrame<'_>> {
        let index = {
            let mut scans = self.free.scans.lock();
            if scans.len() < self.scan_ring().div_ceil(SCAN_RING_BATCHES) {
                return None;
            }
            scans.pop_front()?
        };
        let is_leaving = index as usize >= self.frames().count();
        // Others have used it, or its scan has not come to it yet.
        let kept = is_leaving || self.frames().get(index).state() & (REFERENCED | AHEAD) != 0;
        if kept { None } else { self.evict(index) }
    }
}
