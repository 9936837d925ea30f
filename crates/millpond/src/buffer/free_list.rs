//! [`FreeFrames`]: the frames without a page, the threads that wait for one, and where more may
//! come from.

use std::collections::VecDeque;

use base::sync::atomic::AtomicUsize;
use base::sync::{Condvar, Mutex, Unparker};

/// One frame holder for so many frames of the pool.
const FRAMES_PER_HOLDER: usize = 8;

/// The free list and what refills it.
#[derive(Debug)]
pub(super) struct FreeFrames {
    pub(super) list: Mutex<FreeList>,
    pub(super) need_free: Condvar,
    /// Where threads of the engine wait.
    pub(super) engine_needs_free: Condvar,
    pub(super) may_hold: Condvar,
    /// The pool is being made smaller, and something of that has happened.
    pub(super) left: Condvar,
    pub(super) hand: AtomicUsize,
    /// The free-frame reserve: the cleaner keeps this many frames free. When fewer than half of
    /// them are left, the cleaner is woken.
    pub(super) reserve: AtomicUsize,
    /// Frames that scans filled, oldest first. A frame may have another page by now, so an entry is
    /// a hint.
    pub(super) scans: Mutex<VecDeque<u32>>,
    pub(super) cleaner: Unparker,
}

#[derive(Debug)]
pub(super) struct FreeList {
    pub(super) frames: Vec<u32>,
    /// Frames that the pool is losing and that have no page any more.
    pub(super) leaving: Vec<u32>,
    /// Callers that wait on `need_free`.
    pub(super) waiting: usize,
    /// Threads that wait on `engine_needs_free`. As many frames are theirs.
    pub(super) engine_waiting: usize,
    /// Frame holders.
    pub(super) holders: usize,
    /// At most this many threads are frame holders.
    pub(super) holders_most: usize,
    /// Grows when the pool begins to shrink.
    pub(super) era: u64,
    /// Frame holders of earlier eras, whose number fitted a larger pool.
    pub(super) earlier_holders: usize,
    /// Threads that wait on `may_hold`.
    pub(super) waiting_to_hold: usize,
}

/// Returns how many threads may be frame holders in a pool of `count` frames.
pub(super) fn holders_most(count: usize) -> usize {
    (count / FRAMES_PER_HOLDER).max(1)
}

impl FreeList {
    /// Whether there is a frame for a thread of the engine, or for a caller.
    pub(super) fn available(&self, engine: bool) -> bool {
        self.frames.len() > if engine { 0 } else { self.engine_waiting }
    }
}

impl FreeFrames {
    /// Returns the bytes that the list needs for `count` frames.
    pub(super) fn bytes(count: usize) -> usize {
        count * size_of::<u32>()
    }

    /// Returns a list with all `count` frames free.
    pub(super) fn new(count: usize, cleaner: Unparker) -> FreeFrames {
        FreeFrames {
            list: Mutex::new(FreeList {
                frames: (0..count as u32).rev().collect(),
                leaving: Vec::new(),
                waiting: 0,
                engine_waiting: 0,
                holders: 0,
                holders_most: holders_most(count),
                era: 0,
                earlier_holders: 0,
                waiting_to_hold: 0,
            }),
            need_free: Condvar::new(),
            engine_needs_free: Condvar::new(),
            may_hold: Condvar::new(),
            left: Condvar::new(),
            hand: AtomicUsize::new(0),
            reserve: AtomicUsize::new(0),
            scans: Mutex::new(VecDeque::new()),
            cleaner,
        }
    }
}
