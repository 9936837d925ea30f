//! Another size for the pool, while all threads go on.
//!
//! *Growing*: memory is opened after the last frame, the new frames are free, and the page table
//! gets more chains.
//!
//! *Shrinking* takes away the frames with the highest numbers, in these steps:
//!
//! 1. Frame holders that came while the pool was larger end. Together they may keep more frames
//!    than the smaller pool has (Bp5). From here on only as many threads become holders as the
//!    smaller pool allows.
//! 2. No page is read into a frame that is leaving. A free one leaves at once.
//! 3. Each page in such a frame is evicted, if need be after it was written. The caller orders the
//!    writes; no page is written here.
//! 4. When no thread has any of these frames, their memory goes back to the system, and the page
//!    table loses chains.
//!
//! Up to the end of step 3 the shrink can be given up: the frames are free again. The control block
//! of a frame that is gone stays, because a thread that followed an old link may look at it. It is
//! claimed, so the thread looks elsewhere. `buffer_pool_bytes` includes these control blocks.

use std::time::Duration;

use base::PageNo;

use super::frame::{CLAIMED, DIRTY, LOADING, PINS, WRITING};
use super::free_list::holders_most;
use super::pool::Pool;
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};

/// Frames that become free at once when the pool grows; other threads come between.
const FREED_TOGETHER: usize = 1024;
/// Frames that one step looks at.
const SEEN_TOGETHER: usize = 1 << 16;

/// A shrink in progress. Gives up when it is dropped before its end.
#[derive(Debug)]
#[must_use]
pub(crate) struct Shrink<'p> {
    pool: &'p Pool,
    from: usize,
    to: usize,
    stage: Stage,
    /// The next frame that is looked at.
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has happened.
    Begun,
    /// Holders of the larger pool are to end.
    Holders,
    /// Frames are to lose their pages.
    Frames,
    /// The memory has gone back.
    Done,
}

/// What a step of a shrink found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ShrinkStep {
    /// The pool has its new size.
    Done,
    /// So many frames or holders still have to go; `dirty` are some pages that must be written
    /// first.
    Left { count: usize, dirty: Vec<PageNo> },
}

/// Adds frames until there are `frames`. After an error the pool is as before. REQUIRES: no
/// other thread changes the size, and there are fewer frames.
pub(crate) fn grow(pool: &Pool, frames: usize) -> Result {
    let from = pool.frame_count();
    base::check!(frames > from, "a pool of {from} frames grows to {frames}");
    if frames > pool.frames().most() {
        let most = pool.frames().most() as u64 * pool.page_bytes() as u64;
        let what =
            format!("the buffer pool can have at most {most} bytes until the database is opened again");
        return Err(Error::Limit { what });
    }
    let failed = |e| Error::io("map memory for the pages of", pool.path(), e);
    pool.frames().open(from..frames).map_err(failed)?;
    if let Err(error) = pool.table.resize(pool.frames(), frames) {
        pool.frames().close(from..frames);
        return Err(failed(error));
    }
    {
        let mut list = pool.free.list.lock();
        list.frames.reserve(frames - from);
        list.holders_most = holders_most(frames);
        pool.frames().set_count(frames);
        pool.free.may_hold.notify_all();
    }
    for first in (from..frames).step_by(FREED_TOGETHER) {
        let some = first as u32..frames.min(first + FREED_TOGETHER) as u32;
        let mut list = pool.free.list.lock();
        list.frames.extend(some);
        pool.free.engine_needs_free.notify_all();
        pool.free.need_free.notify_all();
    }
    Ok(())
}

impl<'p> Shrink<'p> {
    /// Begins to take frames away until there are `frames`. REQUIRES: no other thread changes the
    /// size, and there are more frames.
    pub(crate) fn begin(pool: &'p Pool, frames: usize) -> Shrink<'p> {
        let from = pool.frame_count();
        base::check!(frames < from && frames > 0, "a pool of {from} frames shrinks to {frames}");
        Shrink { pool, from, to: frames, stage: Stage::Begun, next: frames }
    }

    /// Does what can be done without waiting. Names up to `dirty` pages that must be written before
    /// their frames can leave.
    pub(crate) fn step(&mut self, dirty: usize) -> ShrinkStep {
        let left = |count| ShrinkStep::Left { count, dirty: Vec::new() };
        if self.stage == Stage::Begun {
            let mut list = self.pool.free.list.lock();
            // Some may be left from a shrink that was given up.
            if list.earlier_holders > 0 {
                return left(list.earlier_holders);
            }
            list.era += 1;
            list.earlier_holders = std::mem::take(&mut list.holders);
            list.holders_most = holders_most(self.to);
            self.stage = Stage::Holders;
        }
        if self.stage == Stage::Holders {
            let mut list = self.pool.free.list.lock();
            if list.earlier_holders > 0 {
                return left(list.earlier_holders);
            }
            self.pool.frames().set_count(self.to);
            let (stay, leave) = list.frames.drain(..).partition(|frame| (*frame as usize) < self.to);
            list.frames = stay;
            list.leaving = leave;
            self.stage = Stage::Frames;
        }
        let dirty = self.evict(dirty);
        let gone = self.pool.free.list.lock().leaving.len();
        match self.from - self.to - gone {
            0 => {
                self.finish();
                ShrinkStep::Done
            }
            count => ShrinkStep::Left { count, dirty },
        }
    }

    /// Evicts the pages of frames that are leaving, as far as they can be, and returns up to `most`
    /// of those that must be written first. Looks at a part of the frames, the next ones each time.
    fn evict(&mut self, most: usize) -> Vec<PageNo> {
        let mut dirty = Vec::new();
        for _ in 0..(self.from - self.to).min(SEEN_TOGETHER) {
            let index = self.next as u32;
            self.next = if self.next + 1 < self.from { self.next + 1 } else { self.to };
            let frame = self.pool.frames().get(index);
            let state = frame.state();
            if state & (PINS | LOADING | CLAIMED) != 0 {
                continue;
            }
            if planted(Bug::ShrunkWhileDirty) {
                self.pool.forget_dirty(index);
            } else if state & (DIRTY | WRITING) != 0 {
                if state & WRITING == 0 && dirty.len() < most {
                    // Only a hint: the page may have gone meanwhile.
                    dirty.push(frame.page_no());
                }
                continue;
            }
            // The frame leaves when this is dropped.
            drop(self.pool.evict(index));
        }
        dirty
    }

    /// Waits until a frame has left or a holder has ended, at most for `time`. Ends early where the
    /// database is poisoned.
    pub(crate) fn wait(&self, time: Duration) {
        let mut list = self.pool.free.list.lock();
        if !self.pool.poison.is_set() {
            self.pool.free.left.wait_for(&mut list, time);
        }
    }

    /// The last step. No thread has one of the frames: each is in the list of those that have left.
    fn finish(&mut self) {
        self.stage = Stage::Done;
        let mut list = self.pool.free.list.lock();
        list.leaving = Vec::new();
        list.frames.shrink_to(self.to);
        drop(list);
        self.pool.frames().close(self.to..self.from);
        let resized = self.pool.table.resize(self.pool.frames(), self.to);
        resized.expect("the smaller levels have their memory");
    }
}

impl Drop for Shrink<'_> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Begun | Stage::Done) {
            return;
        }
        let mut list = self.pool.free.list.lock();
        list.holders_most = holders_most(self.from);
        self.pool.frames().set_count(self.from);
        let back = std::mem::take(&mut list.leaving);
        list.frames.extend(back);
        self.pool.free.engine_needs_free.notify_all();
        self.pool.free.need_free.notify_all();
        self.pool.free.may_hold.notify_all();
    }
}
