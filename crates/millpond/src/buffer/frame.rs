//! Frames: each has a control block and one page of memory. The memory is reached only through two
//! latched views.
//!
//! The state word of a frame counts its pins and has the flags that decide whether it may get
//! another page:
//!
//! - A frame is *claimed* while it holds no page: it is on the free list, or one thread owns it. A
//!   thread claims a frame with one compare-and-swap from "no pins, clean, not being written".
//! - A pin is taken optimistically: the thread adds it first, then judges the word from before. If
//!   that was claimed, or the frame holds another page, it takes the pin back. So a claimed frame
//!   may have pins for a short time, and code that changes the flags leaves the count alone.
//! - The page number changes only while the frame is claimed.
#![allow(unsafe_code)]

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use base::PageNo;
use base::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use base::sync::{latch_released, latch_taken};
use metrics::{M, Metrics};

use super::arena::{Arena, GrowingArray, ZeroIsValid};
use super::latch::Latch;

/// The part of the state word that counts pins.
pub(super) const PINS: u32 = (1 << 24) - 1;
/// Read ahead, and not used since.
pub(super) const AHEAD: u32 = 1 << 25;
/// Used since the last visit of the replacement hand.
pub(super) const REFERENCED: u32 = 1 << 26;
/// Lacks redo of the last run: only replay may use the page as it is. Changes under the exclusive
/// latch; set only while the page is loading.
pub(super) const INCOMPLETE: u32 = 1 << 27;
/// A copy is being written to the file. The page keeps its old first-dirty LSN until the copy is
/// synced (To2).
pub(super) const WRITING: u32 = 1 << 28;
/// Changed since the last copy was taken.
pub(super) const DIRTY: u32 = 1 << 29;
/// The page is being read; the reading thread holds the exclusive latch.
pub(super) const LOADING: u32 = 1 << 30;
/// Holds no page.
pub(super) const CLAIMED: u32 = 1 << 31;

/// The value of a first-dirty slot that is not in use.
pub(super) const NO_LSN: u64 = u64::MAX;

/// The control block of a frame: one cache line, so neighbours do not share one.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Frame {
    latch: Latch,
    state: AtomicU32,
    page_no: AtomicU32,
    /// The next frame of the chain in the page table: its number plus one, or 0 for none. Changes
    /// under the chain's mutex.
    pub(super) next: AtomicU32,
    /// Where the dirty set has the frame, if it is dirty. Changes under the dirty set's mutex.
    pub(super) dirty_position: AtomicU32,
    /// First-dirty LSN of the changes that no copy has. Written under the dirty set's mutex.
    pub(super) first_dirty: AtomicU64,
    /// The last change of a dirty page. Written under the exclusive latch.
    pub(super) last: AtomicU64,
    /// First-dirty LSN of the changes in the copy that is being written. Written under the dirty
    /// set's mutex.
    pub(super) writing: AtomicU64,
}

// SAFETY: all fields are numbers in atomic cells.
unsafe impl ZeroIsValid for Frame {}

impl Frame {
    /// Makes a control block of zeros that of a claimed frame.
    fn set_up(&self) {
        self.state.store(CLAIMED, Ordering::Relaxed);
        self.page_no.store(PageNo::NONE.0, Ordering::Relaxed);
        for lsn in [&self.first_dirty, &self.last, &self.writing] {
            lsn.store(NO_LSN, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    fn free() -> Frame {
        let zero = || AtomicU64::new(0);
        let frame = Frame {
            latch: Latch::new(),
            state: AtomicU32::new(0),
            page_no: AtomicU32::new(0),
            next: AtomicU32::new(0),
            dirty_position: AtomicU32::new(0),
            first_dirty: zero(),
            last: zero(),
            writing: zero(),
        };
        frame.set_up();
        frame
    }

    /// Returns the state word; only a hint.
    #[inline]
    pub(super) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Returns the page. Valid only for a thread that pins the frame or owns it claimed.
    #[inline]
    pub(super) fn page_no(&self) -> PageNo {
        PageNo(self.page_no.load(Ordering::Relaxed))
    }

    /// Returns whether the frame has this page, or is about to get it. In the second case the
    /// caller also sees that the frame is latched.
    #[inline]
    pub(super) fn names(&self, page: PageNo) -> bool {
        self.page_no.load(Ordering::Acquire) == page.0
    }

    /// Returns how often the frame's page may have changed, see [`Latch::version`].
    #[inline]
    pub(super) fn version(&self) -> Option<u32> {
        self.latch.version()
    }

    /// Adds a pin and returns the state before. The caller judges that state and takes a wrong pin
    /// back with [`Frame::unpin`].
    #[inline]
    pub(super) fn pin(&self) -> u32 {
        // Acquire pairs with `publish`: a thread that sees the frame unclaimed sees its page
        // number.
        let before = self.state.fetch_add(1, Ordering::Acquire);
        assert!(before & PINS < PINS, "more pins than the state word can count");
        before
    }

    /// Removes a pin.
    #[inline]
    pub(super) fn unpin(&self) {
        let before = self.state.fetch_sub(1, Ordering::Release);
        debug_assert!(before & PINS != 0, "an unpinned frame was unpinned");
    }

    /// Sets flags. Returns the state before.
    #[inline]
    pub(super) fn set(&self, flags: u32) -> u32 {
        self.state.fetch_or(flags, Ordering::AcqRel)
    }

    /// Clears flags. Returns the state before.
    #[inline]
    pub(super) fn clear(&self, flags: u32) -> u32 {
        self.state.fetch_and(!flags, Ordering::AcqRel)
    }

    /// Clears and sets flags in one step. Returns the state before.
    pub(super) fn change(&self, clear: u32, set: u32) -> u32 {
        self.step(|state| (state & !clear) | set)
    }

    fn step(&self, to: impl Fn(u32) -> u32) -> u32 {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            match self.state.compare_exchange_weak(state, to(state), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return state,
                Err(now) => state = now,
            }
        }
    }

    /// Claims the frame if no thread uses it and the file has its page's content. Returns the state
    /// before, if it did.
    pub(super) fn claim(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Relaxed);
        if state & (PINS | WRITING | DIRTY | LOADING | CLAIMED) != 0 {
            return None;
        }
        self.state.compare_exchange(state, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).ok()
    }

    /// Gives a page to a claimed frame that the caller owns. The page is loading from now on, and
    /// the owner has a pin.
    pub(super) fn publish(&self, page: PageNo) {
        self.page_no.store(page.0, Ordering::Release);
        let before = self.step(|state| ((state & PINS) + 1) | LOADING);
        assert!(before & CLAIMED != 0, "a page was put into a frame that has one");
    }

    /// Undoes [`Frame::publish`]: the page is not there after all. The caller owns the frame again.
    pub(super) fn withdraw(&self) {
        let before = self.step(|state| ((state & PINS) - 1) | CLAIMED);
        assert!(
            before & (LOADING | DIRTY | WRITING) == LOADING,
            "only a page that is being read can be withdrawn"
        );
    }

    /// Removes the page number from a claimed frame that the caller owns.
    pub(super) fn forget_page(&self) {
        base::check!(self.state() & CLAIMED != 0, "the page of a frame in use is forgotten");
        self.page_no.store(PageNo::NONE.0, Ordering::Relaxed);
    }
}

/// All frames and their memory.
#[derive(Debug)]
pub(super) struct Frames {
    /// One for each frame that the pool ever had: a thread may look at a frame that is gone. It
    /// finds it claimed.
    control: GrowingArray<Frame>,
    arena: Arena,
    /// Pages are read into frames below this.
    count: AtomicUsize,
    metrics: Arc<Metrics>,
}

impl Frames {
    /// Returns `count` claimed frames. Later there can be up to `most`, if the system has the
    /// addresses for them.
    pub(super) fn new(
        count: usize,
        most: usize,
        page_bytes: usize,
        metrics: &Arc<Metrics>,
    ) -> io::Result<Frames> {
        assert!(u32::try_from(count).is_ok_and(|n| n < u32::MAX), "frames are numbered in 32 bits");
        let most = most.clamp(count, u32::MAX as usize - 1);
        let reserve = |most| Ok((GrowingArray::reserve(most)?, Arena::reserve(most, page_bytes)?));
        let (control, arena) = reserve(most).or_else(|_: io::Error| reserve(count))?;
        let metrics = Arc::clone(metrics);
        let frames = Frames { control, arena, count: AtomicUsize::new(count), metrics };
        frames.open(0..count)?;
        Ok(frames)
    }

    /// Gives frames their memory. They are claimed. REQUIRES: at most [`Frames::most`], and only
    /// one thread is in this call.
    pub(super) fn open(&self, frames: std::ops::Range<usize>) -> io::Result<()> {
        self.control.open(frames.end, Frame::set_up)?;
        self.arena.open(frames)
    }

    /// Takes the memory of the frames' pages away. REQUIRES: they are claimed, and no thread has
    /// one of them.
    pub(super) fn close(&self, frames: std::ops::Range<usize>) {
        base::verify!(
            frames
                .clone()
                .all(|index| self.control.get(index).state() & (CLAIMED | DIRTY | WRITING) == CLAIMED),
            "a frame with a page is taken away"
        );
        self.arena.close(frames);
    }

    /// Returns the bytes of the control blocks of `count` frames.
    pub(super) fn control_bytes(count: usize) -> usize {
        count * size_of::<Frame>()
    }

    /// Returns the number of frames that pages are read into.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the number of frames that pages are read into. Frames beyond it may still have pages.
    pub(super) fn set_count(&self, count: usize) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// How many frames there can ever be.
    pub(super) fn most(&self) -> usize {
        self.arena.most()
    }

    /// How many frames have a control block: as many as there ever were.
    pub(super) fn with_control(&self) -> usize {
        self.control.len()
    }

    /// Returns the bytes of a page.
    #[inline]
    pub(super) fn page_bytes(&self) -> usize {
        self.arena.page_bytes()
    }

    /// Prefetches what a search in the frame's page reads first.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.arena.prefetch(index);
    }

    /// Returns the control block of a frame.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &Frame {
        self.control.get(index as usize)
    }

    #[inline]
    fn count_sleeps(&self, slept: u32) {
        if slept > 0 {
            self.metrics.add(M::LatchWaits, u64::from(slept));
        }
    }

    /// Takes the shared latch; waits for it.
    #[inline]
    pub(super) fn share(&self, index: u32) -> Shared<'_> {
        let slept = self.get(index).latch.read();
        self.count_sleeps(slept);
        latch_taken();
        Shared { frames: self, index }
    }

    /// Takes the shared latch if that is possible now.
    #[inline]
    pub(super) fn try_share(&self, index: u32) -> Option<Shared<'_>> {
        self.get(index).latch.try_read().then(|| {
            latch_taken();
            Shared { frames: self, index }
        })
    }

    /// Takes the exclusive latch; waits for it.
    #[inline]
    pub(super) fn exclude(&self, index: u32) -> Exclusive<'_> {
        let slept = self.get(index).latch.write();
        self.count_sleeps(slept);
        latch_taken();
        Exclusive { frames: self, index }
    }

    /// Takes the exclusive latch if that is possible now.
    #[inline]
    #[cfg(test)]
    pub(super) fn try_exclude(&self, index: u32) -> Option<Exclusive<'_>> {
        self.get(index).latch.try_write().then(|| {
            latch_taken();
            Exclusive { frames: self, index }
        })
    }
}

/// The shared latch of a frame and the bytes under it.
#[derive(Debug)]
#[must_use]
pub(super) struct Shared<'a> {
    frames: &'a Frames,
    index: u32,
}

/// The exclusive latch of a frame and the bytes under it.
#[derive(Debug)]
#[must_use]
pub(super) struct Exclusive<'a> {
    frames: &'a Frames,
    index: u32,
}

impl Deref for Shared<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.frames.arena.frame(self.index);
        // SAFETY: `page_bytes` bytes from `start` lie in the arena, which `frames` keeps mapped and
        // which began as zeros. A frame with a page is open (`close` demands that it has none). A
        // `Shared` exists only while its shared latch is held (made after it was taken, released by
        // drop, not copied), so no `Exclusive` of this frame exists, and nothing else forms a
        // unique reference into the arena.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.frames.page_bytes()) }
    }
}

impl Deref for Exclusive<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.frames.arena.frame(self.index);
        // SAFETY: as for `Shared`; an `Exclusive` exists only while its exclusive latch is held, so
        // no other view of the frame does, and a unique borrow of this one rules out this shared
        // borrow.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.frames.page_bytes()) }
    }
}

impl DerefMut for Exclusive<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.frames.arena.frame(self.index);
        // SAFETY: the bytes are in the arena as above. The exclusive latch is held, so no other
        // view of this frame exists; `&mut self` makes this the only borrow of this view; frames do
        // not overlap.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.frames.page_bytes()) }
    }
}

impl Drop for Shared<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frames.get(self.index).latch.release_read();
        latch_released();
    }
}

impl Drop for Exclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frames.get(self.index).latch.release_write();
        latch_released();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "more pins than the state word can count")]
    fn one_pin_more_than_can_be_counted_panics() {
        let frame = Frame::free();
        frame.publish(PageNo(3));
        frame.clear(LOADING);
        frame.state.fetch_add(PINS - 2, Ordering::Relaxed);
        assert_eq!(frame.pin(), PINS - 1);
        frame.pin();
    }

    #[test]
    fn a_frame_is_claimed_only_when_it_is_clean_and_unpinned() {
        let frame = Frame::free();
        assert!(frame.claim().is_none(), "claimed already");
        frame.publish(PageNo(3));
        frame.unpin();
        assert!(frame.claim().is_none(), "loading");
        frame.clear(LOADING);
        for flag in [DIRTY, WRITING] {
            frame.set(flag);
            assert!(frame.claim().is_none());
            frame.clear(flag);
        }
        frame.pin();
        assert!(frame.claim().is_none(), "pinned");
        frame.unpin();
        frame.set(REFERENCED);
        assert_eq!(frame.claim(), Some(REFERENCED));
        assert_eq!(frame.state(), CLAIMED);
    }

    #[test]
    fn a_pin_that_came_too_late_is_kept_when_the_page_changes() {
        let frame = Frame::free();
        let before = frame.pin();
        assert!(before & CLAIMED != 0);
        frame.publish(PageNo(9));
        frame.clear(LOADING);
        frame.unpin(); // the late one
        assert!(frame.claim().is_none(), "the owner's pin counts");
        frame.unpin();
        assert!(frame.claim().is_some());
    }

    #[test]
    fn views_follow_the_latch_and_frames_do_not_overlap() {
        let frames = Frames::new(3, 3, 4096, &Arc::default()).unwrap();
        let mut b = frames.try_exclude(1).unwrap();
        assert!(frames.try_share(1).is_none() && frames.try_exclude(1).is_none());
        b.fill(7);
        drop(b);
        let first = frames.try_share(1).unwrap();
        let second = frames.try_share(1).unwrap();
        assert!(frames.try_exclude(1).is_none());
        assert!(first.iter().chain(second.iter()).all(|&x| x == 7));
        assert!(frames.share(0).iter().chain(frames.share(2).iter()).all(|&x| x == 0));
    }
}
