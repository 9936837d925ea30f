//! [`Pool`]: what the buffer pool is made of, and what it knows of its frames.

use std::fmt::Debug;
use std::sync::Arc;

use base::PageNo;
use base::sync::Unparker;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::Metrics;
use vfs::Clock;

use super::dirty_set::DirtySet;
use super::frame::{Frames, INCOMPLETE, REFERENCED};
use super::free_list::FreeFrames;
use super::page_table::PageTable;
use super::read_hook::ReadHook;
use crate::error::{Error, Poison, Result};
use crate::page_file::PageFile;

/// What a pool is made of.
#[derive(Debug)]
pub(crate) struct PoolOptions {
    /// How many pages fit in memory.
    pub(crate) frames: usize,
    /// How many may fit later, see [`super::grow`].
    pub(crate) frames_most: usize,
    /// Whether scans may read ahead.
    pub(crate) reads_ahead: bool,
    /// The pages.
    pub(crate) file: Arc<PageFile>,
    /// Checks pages that were read.
    pub(crate) hook: Box<dyn ReadHook>,
    /// Wakes the cleaner when few frames are free.
    pub(crate) cleaner: Unparker,
    /// Ends all waits when it is set.
    pub(crate) poison: Arc<Poison>,
    /// Counts reads, waits and evictions.
    pub(crate) metrics: Arc<Metrics>,
    /// Measures the time of waits and reads.
    pub(crate) clock: Arc<dyn Clock>,
}

/// The expected use of a page that is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchHint {
    /// Not known.
    Normal,
    /// A long scan: the page is evicted first, unless another thread uses it too (Bp6).
    Scan,
    /// Replay: the page may be incomplete.
    Replay,
}

/// Identifies the contents of a page without holding it. If a page is in memory with the same stamp
/// as before, its bytes are the same as before. (A frame's count of changes wraps around after 2^32
/// of them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pool: u64,
    frame: u32,
    version: u32,
}

/// The buffer pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Unique among the pools of this process.
    id: u64,
    frames: Frames,
    /// Scans may read ahead.
    pub(super) reads_ahead: bool,
    pub(super) table: PageTable,
    pub(super) dirty: DirtySet,
    pub(super) free: FreeFrames,
    pub(super) poison: Arc<Poison>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    file: Arc<PageFile>,
    hook: Box<dyn ReadHook>,
}

impl Pool {
    /// Returns an empty pool.
    pub(crate) fn new(options: PoolOptions) -> Result<Pool> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let PoolOptions { frames, frames_most, file, .. } = options;
        let PoolOptions { reads_ahead, hook, cleaner, poison, metrics, clock, .. } = options;
        let failed = |e| Error::io("map memory for the pages of", file.path(), e);
        let memory = Frames::new(frames, frames_most, file.page_bytes(), &metrics).map_err(failed)?;
        let table = PageTable::new(frames, memory.most()).map_err(failed)?;
        Ok(Pool {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            frames: memory,
            reads_ahead,
            table,
            dirty: DirtySet::default(),
            free: FreeFrames::new(frames, cleaner),
            poison,
            metrics,
            clock,
            file,
            hook,
        })
    }

    /// Returns how many frames fit in `bytes` of memory, with all that a new pool keeps for them.
    pub(crate) fn frames_in(bytes: usize, page_bytes: usize) -> usize {
        frames_in(bytes, page_bytes, 0)
    }

    /// Returns how many frames this pool may have, if it may take `bytes` of memory.
    pub(crate) fn frames_within(&self, bytes: usize) -> usize {
        frames_in(bytes, self.page_bytes(), self.frames.with_control())
    }

    /// Returns the memory that the pool needs beside its pages, bytes: control blocks, page table
    /// and free list.
    pub(crate) fn overhead(&self) -> usize {
        beside(self.frame_count(), self.frames.with_control())
    }

    #[inline]
    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// How many pages fit in memory.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.count()
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.frames.page_bytes()
    }

    pub(super) fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    pub(super) fn file(&self) -> &PageFile {
        &self.file
    }

    pub(super) fn hook(&self) -> &dyn ReadHook {
        &*self.hook
    }

    /// Returns the state word of the frame that the page table has for the page. Only a hint: it
    /// may miss a page while other pages come and go.
    pub(super) fn resident_state(&self, page: PageNo) -> Option<u32> {
        self.table.hint(&self.frames, page).map(|(_, frame)| frame.state())
    }

    /// Returns whether a frame has the page, or replay may fetch it. If it returns false, another
    /// thread may fetch the page at once, unless no other thread knows the page's number.
    pub(crate) fn holds(&self, page: PageNo) -> bool {
        // In this order: a page leaves the pending ones after it has entered the pool.
        self.hook.is_pending(page) || self.table.get(&self.frames, page).is_some()
    }

    /// Returns the stamp of a page that is in memory and that no thread is changing. Marks the page
    /// as used.
    #[inline]
    pub(crate) fn stamp(&self, page: PageNo) -> Option<Stamp> {
        let (index, frame) = self.table.hint(&self.frames, page)?;
        if frame.state() & REFERENCED == 0 {
            frame.set(REFERENCED);
        }
        Some(Stamp { pool: self.id, frame: index, version: frame.version()? })
    }

    #[inline]
    pub(super) fn stamp_of(&self, frame: u32) -> Option<Stamp> {
        Some(Stamp { pool: self.id, frame, version: self.frames.get(frame).version()? })
    }

    /// Prefetches the beginning of a page, if it is in memory.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageNo) {
        if let Some((index, frame)) = self.table.hint(&self.frames, page) {
            base::prefetch::to_write(std::slice::from_ref(frame), 1);
            self.frames.prefetch(index);
        }
    }

    /// Notes that a page lacks no redo any more. REQUIRES: the caller holds the frame's exclusive
    /// latch, and the page is dirty if redo has changed it.
    pub(super) fn completed(&self, frame: u32, page: PageNo) {
        self.hook.is_current(page);
        self.frames.get(frame).clear(INCOMPLETE);
    }
}

/// Returns how many frames fit in `bytes` of memory, with all that the pool keeps for them, if
/// `with_control` frames have a control block already, which stays.
fn frames_in(bytes: usize, page_bytes: usize, with_control: usize) -> usize {
    let most = bytes / page_bytes;
    let overhead = |frames: usize| beside(frames, with_control.max(frames));
    most - overhead(most).div_ceil(page_bytes).min(most / 2)
}

/// Returns the bytes that a pool needs beside its pages.
fn beside(frames: usize, with_control: usize) -> usize {
    Frames::control_bytes(with_control) + PageTable::bytes(frames) + FreeFrames::bytes(frames)
}
