//! The buffer pool: finds pages in memory, brings them there, and says which may go. It reads the file and never writes
//! it.
//!
//! A page comes in like this: a thread takes a free frame, latches it exclusively, publishes the page number in it as
//! `LOADING`, and enters it in the page table; who loses the race for the entry gives the frame back. Others that want
//! the page pin the frame, see `LOADING`, and wait for the latch holding nothing; then they look again, because a page
//! that could not be read has been withdrawn. They then try themselves and get the error themselves.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use base::aligned::AlignedBuf;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Unparker, spin};
use base::{Lsn, PageNo};
use metrics::{Latency, M, Metrics};
use vfs::{Clock, File, ReadOp};

use super::dirty::DirtySet;
use super::frame::{CLAIMED, Exclusive, Frames, LOADING, REFERENCED};
use super::free::{FreeFrame, FreeFrames};
use super::guard::{PageWrite, Pin};
use super::page_table::PageTable;
use crate::error::{Error, Poison, Result};
use crate::page::{self, Damage};

/// Looks at a page that was just read, before anyone else does.
pub(crate) trait ReadHook: Send + Sync + Debug {
    /// `verified` is what the page's checksum and structure say. The hook decides: an error refuses the page;
    /// `Ok(None)` takes it as the bytes are; `Ok(Some(lsn))` says that the hook changed it by redo that starts at `lsn`,
    /// so that it enters the pool dirty. Called with no latch held but that of the new frame; may do I/O.
    fn after_read(&self, page: PageNo, bytes: &mut [u8], verified: Result<(), Damage>)
    -> Result<Option<Lsn>>;
    /// Whether the page is taken as a blank where it cannot be read.
    fn needs_no_image(&self, _: PageNo) -> bool {
        false
    }
}

/// Takes intact pages as they are and refuses damaged ones.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct RefuseDamage {
    /// The file to name.
    pub(crate) path: PathBuf,
}

#[cfg(test)]
impl ReadHook for RefuseDamage {
    fn after_read(&self, page: PageNo, _: &mut [u8], verified: Result<(), Damage>) -> Result<Option<Lsn>> {
        match verified {
            Ok(()) => Ok(None),
            Err(damage) => Err(Error::corrupt(&self.path, format!("{page:?}: {damage}"))),
        }
    }
}

/// What a pool is made of.
#[derive(Debug)]
pub(crate) struct PoolOptions {
    /// How many pages fit.
    pub(crate) frames: usize,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// The `pages` file.
    pub(crate) file: Arc<dyn File>,
    /// Its name, for errors.
    pub(crate) path: PathBuf,
    /// Judges pages that were read.
    pub(crate) hook: Box<dyn ReadHook>,
    /// Wakes the cleaner when frames run short.
    pub(crate) cleaner: Unparker,
    /// Ends all waiting when set.
    pub(crate) poison: Arc<Poison>,
    /// Where reads, waits and evictions are counted.
    pub(crate) metrics: Arc<Metrics>,
    /// What waits and reads are timed by.
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a fetch knows about the future of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchHint {
    /// Nothing.
    Normal,
    /// A long scan passes by: the page is evicted first unless somebody else uses it too (Bp6).
    Scan,
}

/// Names a page's bytes without holding them: a page that is in memory with the stamp that it had before has the same bytes
/// as before. (A frame's count of changes runs round after 2^32 of them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pool: u64,
    frame: u32,
    version: u32,
}

/// The buffer pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Tells the pools of one process apart.
    id: u64,
    frames: Frames,
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

/// What the page table and the frame say about a page.
pub(super) enum PageProbe<'p> {
    /// In no frame.
    Absent,
    /// Somebody is putting it or another in or out: look again.
    Leaving,
    /// Being read.
    Loading(Pin<'p>),
    /// There.
    Resident(Pin<'p>),
}

/// A page on its way in: entered in the table, its frame latched. Dropping it takes the page out again.
pub(super) struct LoadingPage<'p> {
    pool: &'p Pool,
    frame: u32,
    page: PageNo,
    /// `None` when the page has arrived.
    latched: Option<Exclusive<'p>>,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(options: PoolOptions) -> Result<Pool> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let PoolOptions { frames, page_bytes, file, path, hook, cleaner, poison, metrics, clock } = options;
        let memory = Frames::new(frames, page_bytes, &metrics)
            .map_err(|e| Error::io("map memory for the pages of", &path, e))?;
        Ok(Pool {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            frames: memory,
            table: PageTable::new(frames),
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

    /// Frames of a pool that takes `bytes` of memory with all that it keeps for them.
    pub(crate) fn frames_in(bytes: usize, page_bytes: usize) -> usize {
        let most = bytes / page_bytes;
        most - Self::overhead(most).div_ceil(page_bytes).min(most / 2)
    }

    /// Bytes of memory of a pool of so many frames beside its pages: the frames' control blocks, the page table, the free list.
    pub(crate) fn overhead(frames: usize) -> usize {
        Frames::control_bytes(frames) + PageTable::bytes(frames) + FreeFrames::bytes(frames)
    }

    #[inline]
    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// How many pages fit.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.count()
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.frames.page_bytes()
    }

    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    pub(super) fn hook(&self) -> &dyn ReadHook {
        &*self.hook
    }

    /// The state word of the frame that the table has for the page: a hint.
    pub(super) fn resident_state(&self, page: PageNo) -> Option<u32> {
        self.table.get(&self.frames, page).map(|frame| self.frames.get(frame).state())
    }

    /// Whether a frame has the page. REQUIRES, for a no to last: nobody who could fetch it knows the page.
    pub(crate) fn holds(&self, page: PageNo) -> bool {
        self.table.get(&self.frames, page).is_some()
    }

    pub(super) fn probe(&self, page: PageNo) -> PageProbe<'_> {
        let Some((index, frame)) = self.table.hint(&self.frames, page) else {
            // One that is there after all was missed because others come and go.
            let there = self.table.get_locked(&self.frames, page);
            return if there.is_some() { PageProbe::Leaving } else { PageProbe::Absent };
        };
        self.frames.prefetch(index);
        let before = frame.pin();
        let pin = Pin::adopt(self, index, page);
        if before & CLAIMED != 0 || frame.page_no() != page {
            return PageProbe::Leaving;
        }
        if before & LOADING != 0 { PageProbe::Loading(pin) } else { PageProbe::Resident(pin) }
    }

    /// Leaves the mark that somebody used the page.
    #[inline]
    fn touch(&self, pin: &Pin<'_>) {
        let frame = self.frames.get(pin.frame());
        if frame.state() & REFERENCED == 0 {
            frame.set(REFERENCED);
        }
    }

    /// The stamp of a page that is in memory and that nobody is changing. It counts as used.
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

    /// Pins a page that is in memory. Never waits: `None` also for a page that is on its way in or out, and perhaps while others are.
    #[inline]
    pub(crate) fn try_pin(&self, page: PageNo) -> Option<Pin<'_>> {
        self.try_pin_with(page, FetchHint::Normal)
    }

    /// As [`Pool::try_pin`], told what the page is for.
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

    /// Asks the processor for the beginning of a page that is in memory, if it is.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageNo) {
        if let Some((index, frame)) = self.table.hint(&self.frames, page) {
            base::prefetch::to_write(std::slice::from_ref(frame), 1);
            self.frames.prefetch(index);
        }
    }

    /// Pins a page, reading it if need be. REQUIRES: the caller holds no latch.
    #[inline]
    pub(crate) fn fetch(&self, page: PageNo) -> Result<Pin<'_>> {
        self.fetch_with(page, FetchHint::Normal)
    }

    /// As [`Pool::fetch`], told what the page is for. REQUIRES: the caller holds no latch.
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
                PageProbe::Loading(pin) => drop(self.frames.share(pin.frame())),
                PageProbe::Leaving => spin(&mut turn),
                PageProbe::Absent => {
                    let free = self.take_frame(hint)?;
                    if let Ok(mut loading) = self.install(free, page) {
                        self.read(&mut loading)?;
                        return self.finish_read(loading, hint);
                    }
                }
            }
        }
    }

    /// Brings pages in that are not there, with many reads in flight; as many as frames can be had for without waiting.
    /// REQUIRES: the caller holds no latch. After an error the other pages are in all the same.
    pub(crate) fn fetch_many(&self, pages: &[PageNo], hint: FetchHint) -> Result {
        let mut batch = Vec::with_capacity(pages.len());
        for &page in pages {
            if self.table.get(&self.frames, page).is_some() {
                continue;
            }
            let Some(free) = self.try_take_frame(hint) else { break };
            if let Ok(loading) = self.install(free, page) {
                batch.push(loading);
            }
        }
        let page_bytes = self.page_bytes() as u64;
        let mut reads: Vec<_> = batch
            .iter_mut()
            .map(|l| ReadOp { offset: u64::from(l.page.0) * page_bytes, bytes: l.bytes() })
            .collect();
        let count = reads.len() as u64;
        let begun_us = self.clock.now_us();
        let together = reads.is_empty() || self.file.read_batch(&mut reads).is_ok();
        if count > 0 {
            self.metrics.add(M::PageReadsIo, count);
            self.metrics.time(Latency::PageRead, self.clock.now_us().saturating_sub(begun_us));
        }
        let mut first_error = Ok(());
        for mut loading in batch {
            // A batch tells only that some read failed; one by one they tell which.
            let read = if together { Ok(()) } else { self.read(&mut loading) };
            let arrived = read.and_then(|()| self.finish_read(loading, hint).map(drop));
            first_error = first_error.and(arrived);
        }
        first_error
    }

    /// A page that was just allocated: zeroed and latched. A stale copy in memory, from before the page was freed, is
    /// taken over. Its latch may be waited for, as only a reader that followed an outdated pointer can hold it, and such
    /// a reader waits for nothing; if one is reading the freed page from the file right now, that is waited for too.
    pub(crate) fn create<'p>(&'p self, page: PageNo, frame: FreeFrame<'p>) -> PageWrite<'p> {
        let mut free = frame;
        let mut turn = 0;
        loop {
            match self.probe(page) {
                PageProbe::Resident(pin) => {
                    self.touch(&pin);
                    let mut write = pin.write();
                    write.fill(0);
                    return write;
                }
                PageProbe::Loading(pin) => drop(self.frames.share(pin.frame())),
                PageProbe::Leaving => spin(&mut turn),
                PageProbe::Absent => match self.install(free, page) {
                    Ok(mut loading) => {
                        loading.bytes().fill(0);
                        let (pin, latched) = loading.finish();
                        self.touch(&pin);
                        return PageWrite::join(latched, pin);
                    }
                    Err(back) => free = back,
                },
            }
        }
    }

    /// Gives the frame the page, or the frame back if the page has one.
    pub(super) fn install<'p>(
        &'p self,
        free: FreeFrame<'p>,
        page: PageNo,
    ) -> Result<LoadingPage<'p>, FreeFrame<'p>> {
        let index = free.take();
        let frame = self.frames.get(index);
        // At most somebody who waited here for a page that was withdrawn is about to release it.
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

    /// Gives a page on its way in these bytes, which were checked.
    pub(super) fn fill(&self, mut loading: LoadingPage<'_>, bytes: &[u8]) {
        loading.bytes().copy_from_slice(bytes);
        let (pin, latched) = loading.finish();
        drop(latched);
        self.touch(&pin);
    }

    fn read(&self, loading: &mut LoadingPage<'_>) -> Result {
        let offset = u64::from(loading.page.0) * self.page_bytes() as u64;
        let begun_us = self.clock.now_us();
        let read = self.file.read_at(loading.bytes(), offset);
        self.metrics.add(M::PageReadsIo, 1);
        self.metrics.time(Latency::PageRead, self.clock.now_us().saturating_sub(begun_us));
        match read {
            Ok(()) => Ok(()),
            // A page that the file never grew to is one that was never written; the hook sees a blank page.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(_) if self.hook.needs_no_image(loading.page) => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(e) => {
                let named = std::io::Error::new(e.kind(), format!("{:?}: {e}", loading.page));
                Err(Error::io("read", &self.path, named))
            }
        }
    }

    /// Checks a page in the file that is in no frame, without bringing it into one: it may be one that is being written aside, and a frame
    /// would go on showing what stood there before.
    pub(crate) fn look(&self, page: PageNo) -> Result {
        if self.table.get(&self.frames, page).is_some() {
            return Ok(());
        }
        let mut bytes = AlignedBuf::zeroed(self.page_bytes());
        let offset = u64::from(page.0) * self.page_bytes() as u64;
        self.file.read_at(&mut bytes, offset).map_err(|e| Error::io("read", &self.path, e))?;
        let verified = page::header::verify(&bytes, page).and_then(|()| page::verify::quick(&bytes));
        self.hook.after_read(page, &mut bytes, verified).map(drop)
    }

    /// Checks what was read and lets everybody see it.
    fn finish_read<'p>(&'p self, mut loading: LoadingPage<'p>, hint: FetchHint) -> Result<Pin<'p>> {
        self.metrics.add(M::PagesRead, 1);
        let page = loading.page;
        let bytes = loading.bytes();
        let verified = page::header::verify(bytes, page).and_then(|()| page::verify::quick(bytes));
        if let Some(first_dirty) = self.hook.after_read(page, bytes, verified)? {
            self.dirty_latched(loading.frame, first_dirty);
        }
        let (pin, latched) = loading.finish();
        drop(latched);
        match hint {
            FetchHint::Normal => self.touch(&pin),
            FetchHint::Scan => self.note_scanned(pin.frame()),
        }
        Ok(pin)
    }
}

impl<'p> LoadingPage<'p> {
    fn bytes(&mut self) -> &mut [u8] {
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
