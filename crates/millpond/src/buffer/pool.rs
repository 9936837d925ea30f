//! The buffer pool: finds pages in memory and reads missing ones from the file. It never writes the
//! file.
//!
//! A page is read in these steps. A thread takes a free frame, latches it exclusively, publishes
//! the page number in it as `LOADING`, and enters it in the page table. If another thread entered
//! the page first, this thread returns its frame. Other threads that want the page pin the frame,
//! see `LOADING`, and wait for its latch while they hold nothing. Then they look again, because a
//! page that could not be read has been withdrawn. In that case they try to read it themselves, and
//! get the error themselves.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use base::PageNo;
use base::aligned::AlignedBuf;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Unparker, spin};
use metrics::{Latency, M, Metrics};
use vfs::{Clock, File, ReadOp};

use super::dirty::DirtySet;
use super::frame::{AHEAD, BEHIND, CLAIMED, Exclusive, Frames, LOADING, REFERENCED};
use super::free::{FreeFrame, FreeFrames};
use super::guard::{PageWrite, Pin};
use super::page_table::PageTable;
use super::read_hook::{Arrival, ReadFor, ReadHook};
use super::resize;
use crate::error::{Error, Poison, Result};
use crate::page;

/// The most reads that [`Pool::damaged_in_file`] has in flight.
const LOOK_BATCH: usize = 64;

/// What a pool is made of.
#[derive(Debug)]
pub(crate) struct PoolOptions {
    /// How many pages fit in memory.
    pub(crate) frames: usize,
    /// How many may fit later, see [`Pool::grow`].
    pub(crate) frames_most: usize,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Whether scans may read ahead.
    pub(crate) reads_ahead: bool,
    /// The `pages` file.
    pub(crate) file: Arc<dyn File>,
    /// Its name, for errors.
    pub(crate) path: PathBuf,
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
    /// Replay: the page may be behind.
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
    file: Arc<dyn File>,
    path: PathBuf,
    hook: Box<dyn ReadHook>,
}

/// The state of a page according to the page table and the frame.
pub(super) enum PageProbe<'p> {
    /// No frame has it.
    Absent,
    /// A thread is moving this page or another one in or out: look again.
    Leaving,
    /// Being read.
    Loading(Pin<'p>),
    /// In memory, and it lacks redo.
    Behind(Pin<'p>),
    /// In memory.
    Resident(Pin<'p>),
}

/// A page that is being read: it is entered in the page table, and its frame is latched. Dropping
/// this takes the page out again.
pub(super) struct LoadingPage<'p> {
    pool: &'p Pool,
    frame: u32,
    page: PageNo,
    /// `None` once the page has been read.
    latched: Option<Exclusive<'p>>,
}

impl Pool {
    /// Returns an empty pool.
    pub(crate) fn new(options: PoolOptions) -> Result<Pool> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let PoolOptions { frames, frames_most, page_bytes, file, path, .. } = options;
        let PoolOptions { reads_ahead, hook, cleaner, poison, metrics, clock, .. } = options;
        let failed = |e| Error::io("map memory for the pages of", &path, e);
        let memory = Frames::new(frames, frames_most, page_bytes, &metrics).map_err(failed)?;
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
            path,
            hook,
        })
    }

    /// Returns how many frames fit in `bytes` of memory, with all that a new pool keeps for them.
    pub(crate) fn frames_in(bytes: usize, page_bytes: usize) -> usize {
        resize::frames_in(bytes, page_bytes, 0)
    }

    /// Returns how many frames this pool may have, if it may take `bytes` of memory.
    pub(crate) fn frames_within(&self, bytes: usize) -> usize {
        resize::frames_in(bytes, self.page_bytes(), self.frames.with_control())
    }

    /// Returns the memory that the pool needs beside its pages, bytes: control blocks, page table
    /// and free list.
    pub(crate) fn overhead(&self) -> usize {
        resize::beside(self.frame_count(), self.frames.with_control())
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
        &self.path
    }

    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    pub(super) fn hook(&self) -> &dyn ReadHook {
        &*self.hook
    }

    /// Returns the state word of the frame that the page table has for the page. Only a hint: it
    /// may miss a page while other pages come and go.
    pub(super) fn resident_state(&self, page: PageNo) -> Option<u32> {
        self.table.hint(&self.frames, page).map(|(_, frame)| frame.state())
    }

    /// Returns whether a frame has the page, or replay may fetch it. REQUIRES, for a lasting "no":
    /// no other thread that could fetch the page knows it.
    pub(crate) fn holds(&self, page: PageNo) -> bool {
        // In this order: a page leaves the pending ones after it has entered the pool.
        self.hook.is_pending(page) || self.table.get(&self.frames, page).is_some()
    }

    pub(super) fn probe(&self, page: PageNo) -> PageProbe<'_> {
        let Some((index, frame)) = self.table.hint(&self.frames, page) else {
            // The lookup without the mutex may miss a page that is there, while other pages come
            // and go.
            let there = self.table.get_locked(&self.frames, page);
            return if there.is_some() { PageProbe::Leaving } else { PageProbe::Absent };
        };
        self.frames.prefetch(index);
        let before = frame.pin();
        let pin = Pin::adopt(self, index, page);
        if before & CLAIMED != 0 || frame.page_no() != page {
            return PageProbe::Leaving;
        }
        match before & (LOADING | BEHIND | AHEAD) {
            0 => PageProbe::Resident(pin),
            AHEAD => {
                self.frames.get(index).clear(AHEAD);
                PageProbe::Resident(pin)
            }
            _ if before & LOADING != 0 => PageProbe::Loading(pin),
            _ => {
                self.frames.get(index).clear(AHEAD);
                PageProbe::Behind(pin)
            }
        }
    }

    /// Marks the page as used.
    #[inline]
    fn touch(&self, pin: &Pin<'_>) {
        let frame = self.frames.get(pin.frame());
        if frame.state() & REFERENCED == 0 {
            frame.set(REFERENCED);
        }
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

    /// Pins a page that is in memory. Never waits. Returns `None` also for a page that is being
    /// read or evicted, and sometimes while other pages are.
    #[inline]
    pub(crate) fn try_pin(&self, page: PageNo) -> Option<Pin<'_>> {
        self.try_pin_with(page, FetchHint::Normal)
    }

    /// As [`Pool::try_pin`], with the expected use of the page.
    #[inline]
    pub(crate) fn try_pin_with(&self, page: PageNo, hint: FetchHint) -> Option<Pin<'_>> {
        match self.probe(page) {
            PageProbe::Resident(pin) => {
                if hint == FetchHint::Normal {
                    self.touch(&pin);
                }
                Some(pin)
            }
            _ => None,
        }
    }

    /// Prefetches the beginning of a page, if it is in memory.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageNo) {
        if let Some((index, frame)) = self.table.hint(&self.frames, page) {
            base::prefetch::to_write(std::slice::from_ref(frame), 1);
            self.frames.prefetch(index);
        }
    }

    /// Pins a page; reads it if it is not in memory. REQUIRES: the caller holds no latch.
    #[inline]
    pub(crate) fn fetch(&self, page: PageNo) -> Result<Pin<'_>> {
        self.fetch_with(page, FetchHint::Normal)
    }

    /// As [`Pool::fetch`], with the expected use of the page. REQUIRES: the caller holds no latch.
    pub(crate) fn fetch_with(&self, page: PageNo, hint: FetchHint) -> Result<Pin<'_>> {
        let mut turn = 0;
        loop {
            match self.probe(page) {
                PageProbe::Resident(pin) => {
                    if hint == FetchHint::Normal {
                        self.touch(&pin);
                    }
                    return Ok(pin);
                }
                PageProbe::Behind(pin) if hint == FetchHint::Replay => return Ok(pin),
                PageProbe::Behind(pin) => self.catch_up(&pin, page)?,
                PageProbe::Loading(pin) => drop(self.frames.share(pin.frame())),
                PageProbe::Leaving => spin(&mut turn),
                PageProbe::Absent => {
                    let free = self.take_frame(hint)?;
                    if let Ok(mut loading) = self.install(free, page) {
                        self.read(&mut loading)?;
                        let pin = self.finish_read(loading, hint)?;
                        if hint != FetchHint::Replay {
                            self.catch_up(&pin, page)?;
                        }
                        return Ok(pin);
                    }
                }
            }
        }
    }

    /// Completes a page if it is behind. The turn is awaited without the latch, for which replay
    /// may wait.
    fn catch_up(&self, pin: &Pin<'_>, page: PageNo) -> Result {
        let is_behind = || self.frames.get(pin.frame()).state() & BEHIND != 0;
        if !is_behind() {
            return Ok(());
        }
        self.hook.in_turn(&mut || {
            let mut latched = self.frames.exclude(pin.frame());
            if is_behind() {
                if let Some(first) = self.hook.catch_up(page, &mut latched)? {
                    self.dirty_latched(pin.frame(), first, page::header::lsn(&latched));
                }
                self.completed(pin.frame(), page);
            }
            Ok(())
        })
    }

    /// Notes that a page lacks no redo any more. REQUIRES: the caller holds the frame's exclusive
    /// latch, and the page is dirty if redo has changed it.
    pub(super) fn completed(&self, frame: u32, page: PageNo) {
        self.hook.is_current(page);
        self.frames.get(frame).clear(BEHIND);
    }

    /// Returns a page that was just allocated, zeroed and latched. If memory has an old copy, from
    /// before the page was freed, the copy's frame is used. This may wait for its latch: only a
    /// reader that followed an outdated pointer can hold it, and such a reader waits for nothing.
    /// It also waits for a thread that is reading the freed page from the file right now.
    pub(crate) fn create<'p>(&'p self, page: PageNo, frame: FreeFrame<'p>) -> PageWrite<'p> {
        let mut free = frame;
        let mut turn = 0;
        loop {
            match self.probe(page) {
                PageProbe::Resident(pin) | PageProbe::Behind(pin) => {
                    self.touch(&pin);
                    let mut write = pin.write();
                    write.fill(0);
                    self.completed(write.pin().frame(), page);
                    return write;
                }
                PageProbe::Loading(pin) => drop(self.frames.share(pin.frame())),
                PageProbe::Leaving => spin(&mut turn),
                PageProbe::Absent => match self.install(free, page) {
                    Ok(mut loading) => {
                        loading.bytes().fill(0);
                        self.hook.is_current(page);
                        let (pin, latched) = loading.finish();
                        self.touch(&pin);
                        return PageWrite::join(latched, pin);
                    }
                    Err(back) => free = back,
                },
            }
        }
    }

    /// Gives the frame to the page. Returns the frame if the page has one already.
    pub(super) fn install<'p>(
        &'p self,
        free: FreeFrame<'p>,
        page: PageNo,
    ) -> Result<LoadingPage<'p>, FreeFrame<'p>> {
        let index = free.take();
        let frame = self.frames.get(index);
        // At most a thread that waited here for a withdrawn page is about to release the latch.
        let latched = self.frames.exclude(index);
        frame.publish(page);
        if self.table.enter(&self.frames, page, index) {
            return Ok(LoadingPage { pool: self, frame: index, page, latched: Some(latched) });
        }
        frame.withdraw();
        frame.forget_page();
        drop(latched);
        Err(self.own_frame(index))
    }

    /// Fills a page that is being read with these bytes, which were checked.
    pub(super) fn fill(&self, mut loading: LoadingPage<'_>, bytes: &[u8]) {
        loading.bytes().copy_from_slice(bytes);
        let (pin, latched) = loading.finish();
        drop(latched);
        self.touch(&pin);
    }

    /// Reads one page.
    pub(super) fn read(&self, loading: &mut LoadingPage<'_>) -> Result {
        let offset = u64::from(loading.page.0) * self.page_bytes() as u64;
        let begun_us = self.clock.now_us();
        let read = self.file.read_at(loading.bytes(), offset);
        self.metrics.add(M::PageReadsIo, 1);
        self.metrics.time(Latency::PageRead, self.clock.now_us().saturating_sub(begun_us));
        match read {
            Ok(()) => Ok(()),
            // A page beyond the end of the file was never written; the hook sees a blank page.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(_) if self.hook.needs_no_image(loading.page)? => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(e) => {
                let named = std::io::Error::new(e.kind(), format!("{:?}: {e}", loading.page));
                Err(Error::io("read", &self.path, named))
            }
        }
    }

    /// Checks those of the pages in the file that no frame has, without reading them into frames,
    /// and returns the damaged ones. Another thread may be writing such a page past the pool; a
    /// frame would then keep the old content. Many reads are in flight.
    pub(crate) fn damaged_in_file(&self, pages: &[PageNo]) -> Result<Vec<(PageNo, Error)>> {
        let page_bytes = self.page_bytes();
        let absent = |page: &PageNo| !self.holds(*page);
        let mut buffer = AlignedBuf::zeroed(LOOK_BATCH * page_bytes);
        let mut damaged = Vec::new();
        for part in pages.chunks(LOOK_BATCH) {
            let part: Vec<PageNo> = part.iter().copied().filter(absent).collect();
            let offset = |page: &PageNo| u64::from(page.0) * page_bytes as u64;
            let mut reads: Vec<_> = part
                .iter()
                .zip(buffer.chunks_mut(page_bytes))
                .map(|(page, bytes)| ReadOp { offset: offset(page), bytes })
                .collect();
            if !reads.is_empty() {
                self.file.read_batch(&mut reads).map_err(|e| Error::io("read", &self.path, e))?;
            }
            for (&page, bytes) in part.iter().zip(buffer.chunks_mut(page_bytes)) {
                let verified = page::header::verify(bytes, page).and_then(|()| page::verify::quick(bytes));
                match self.hook.after_read(page, bytes, verified, ReadFor::Content) {
                    Ok(_) => {}
                    Err(error @ Error::Corrupt { .. }) => damaged.push((page, error)),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(damaged)
    }

    /// Checks what was read and makes the page visible to all threads.
    pub(super) fn finish_read<'p>(
        &'p self,
        mut loading: LoadingPage<'p>,
        hint: FetchHint,
    ) -> Result<Pin<'p>> {
        self.accept(&mut loading, hint)?;
        let (pin, latched) = loading.finish();
        drop(latched);
        match hint {
            FetchHint::Normal | FetchHint::Replay => self.touch(&pin),
            FetchHint::Scan => self.note_scanned(pin.frame()),
        }
        Ok(pin)
    }

    /// As [`Pool::finish_read`], for a page that nobody has asked for yet: it does not count as
    /// used.
    pub(super) fn finish_ahead(&self, mut loading: LoadingPage<'_>, hint: FetchHint) -> Result {
        self.accept(&mut loading, hint)?;
        self.frames.get(loading.frame).set(AHEAD);
        let (pin, latched) = loading.finish();
        drop(latched);
        self.metrics.add(M::PagesReadAhead, 1);
        if hint == FetchHint::Scan {
            self.note_scanned(pin.frame());
        }
        Ok(())
    }

    /// Checks what was read. An error refuses the page.
    fn accept(&self, loading: &mut LoadingPage<'_>, hint: FetchHint) -> Result {
        self.metrics.add(M::PagesRead, 1);
        let page = loading.page;
        let bytes = loading.bytes();
        let verified = page::header::verify(bytes, page).and_then(|()| page::verify::quick(bytes));
        let reader = if hint == FetchHint::Replay { ReadFor::Replay } else { ReadFor::Caller };
        match self.hook.after_read(page, bytes, verified, reader)? {
            Arrival::AsRead => {}
            Arrival::Changed(first_dirty) => {
                let last = page::header::lsn(loading.bytes());
                self.dirty_latched(loading.frame, first_dirty, last);
                self.hook.is_current(page);
            }
            Arrival::Behind => drop(self.frames.get(loading.frame).set(BEHIND)),
        }
        Ok(())
    }
}

impl<'p> LoadingPage<'p> {
    pub(super) fn page(&self) -> PageNo {
        self.page
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.latched.as_mut().expect("latched until it has arrived")
    }

    fn finish(mut self) -> (Pin<'p>, Exclusive<'p>) {
        let latched = self.latched.take().expect("it arrives once");
        let before = self.pool.frames.get(self.frame).clear(LOADING);
        base::check!(before & (LOADING | CLAIMED) == LOADING, "{:?} arrived twice", self.page);
        (Pin::adopt(self.pool, self.frame, self.page), latched)
    }
}

impl Drop for LoadingPage<'_> {
    fn drop(&mut self) {
        let Some(latched) = self.latched.take() else { return };
        let frame = self.pool.frames.get(self.frame);
        self.pool.table.remove(&self.pool.frames, self.page, self.frame);
        frame.withdraw();
        frame.forget_page();
        drop(latched);
        self.pool.put_free(self.frame);
    }
}
