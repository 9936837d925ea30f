//! Finds pages in memory and reads missing ones from the file.
//!
//! A page is read in these steps. A thread takes a free frame, latches it exclusively, publishes
//! the page number in it as `LOADING`, and enters it in the page table. If another thread entered
//! the page first, this thread returns its frame. Other threads that want the page pin the frame,
//! see `LOADING`, and wait for its latch while they hold nothing. Then they look again, because a
//! page that could not be read has been withdrawn. In that case they try to read it themselves, and
//! get the error themselves.

use base::PageNo;
use base::aligned::AlignedBuf;
use base::sync::{holds_no_latch, latch_released, latch_taken, spin};
use metrics::{Latency, M};

use super::frame::{AHEAD, CLAIMED, Exclusive, INCOMPLETE, LOADING, REFERENCED};
use super::free::FreeFrame;
use super::guard::{PageWrite, Pin};
use super::pool::{FetchHint, Pool};
use super::probe::PageProbe;
use super::read_hook::Arrival;
use crate::error::{Error, Result};
use crate::page;
use crate::page_file::accept;

/// The most reads that [`Pool::damaged_in_file`] has in flight.
const LOOK_BATCH: usize = 64;

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
    /// Marks the page as used.
    #[inline]
    fn touch(&self, pin: &Pin<'_>) {
        let frame = self.frames().get(pin.frame());
        if frame.state() & REFERENCED == 0 {
            frame.set(REFERENCED);
        }
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
        match PageProbe::of(self, page) {
            PageProbe::Resident(pin) => {
                if hint == FetchHint::Normal {
                    self.touch(&pin);
                }
                Some(pin)
            }
            _ => None,
        }
    }

    /// Pins a page; reads it if it is not in memory. REQUIRES: the caller holds no latch.
    #[inline]
    pub(crate) fn fetch(&self, page: PageNo) -> Result<Pin<'_>> {
        self.fetch_with(page, FetchHint::Normal)
    }

    /// As [`Pool::fetch`], with the expected use of the page. REQUIRES: the caller holds no latch.
    pub(crate) fn fetch_with(&self, page: PageNo, hint: FetchHint) -> Result<Pin<'_>> {
        holds_no_latch();
        let mut spins = 0;
        loop {
            match PageProbe::of(self, page) {
                PageProbe::Resident(pin) => {
                    if hint == FetchHint::Normal {
                        self.touch(&pin);
                    }
                    return Ok(pin);
                }
                PageProbe::Incomplete(pin) if hint == FetchHint::Replay => return Ok(pin),
                PageProbe::Incomplete(pin) => self.catch_up(&pin)?,
                PageProbe::Loading(pin) => drop(self.frames().share(pin.frame())),
                PageProbe::Leaving => spin(&mut spins),
                PageProbe::Absent => {
                    let free = self.take_frame(hint)?;
                    if let Ok(mut loading) = self.install(free, page) {
                        self.read(&mut loading)?;
                        let pin = self.finish_read(loading, hint)?;
                        if hint != FetchHint::Replay {
                            self.catch_up(&pin)?;
                        }
                        return Ok(pin);
                    }
                }
            }
        }
    }

    /// Completes an incomplete page, with a permit, or waits until another thread has.
    fn catch_up(&self, pin: &Pin<'_>) -> Result {
        if !pin.is_incomplete() {
            return Ok(());
        }
        self.hook().with_permit(pin.page(), &|| pin.is_incomplete(), &mut || self.complete(pin))
    }

    /// Completes an incomplete page. Its redo is read without the latch, for a copy of the
    /// page. If replay has changed the page meanwhile, it begins again. REQUIRES: the caller holds
    /// no latch.
    pub(crate) fn complete(&self, pin: &Pin<'_>) -> Result {
        let state = |bytes: &[u8]| (page::header::lsn(bytes), page::header::is_blank(bytes));
        loop {
            let mut copy = {
                let latched = self.frames().share(pin.frame());
                if !pin.is_incomplete() {
                    return Ok(());
                }
                latched.to_vec()
            };
            let before = state(&copy);
            let caught_up = self.hook().catch_up(pin.page(), &mut copy);
            let mut latched = self.frames().exclude(pin.frame());
            if !pin.is_incomplete() {
                return Ok(());
            }
            if state(&latched) != before {
                continue;
            }
            // An error counts only now: once replay has changed the page, a checkpoint may pass the
            // redo that was read here, and its segment may be recycled.
            let first = caught_up?;
            latched.copy_from_slice(&copy);
            if let Some(first) = first {
                self.dirty_latched(pin.frame(), first, page::header::lsn(&latched));
            }
            self.completed(pin.frame(), pin.page());
            return Ok(());
        }
    }

    /// Returns a page that was just allocated, zeroed and latched. If memory has an old copy, from
    /// before the page was freed, the copy's frame is used. This may wait for its latch: only a
    /// reader that followed an outdated pointer can hold it, and such a reader waits for nothing.
    /// Returns the frame if such a reader is reading the freed page from the file right now. The
    /// caller then releases its latches and waits with [`Pool::await_read`].
    pub(crate) fn try_create<'p>(
        &'p self,
        page: PageNo,
        frame: FreeFrame<'p>,
    ) -> Result<PageWrite<'p>, FreeFrame<'p>> {
        let mut free = frame;
        let mut spins = 0;
        loop {
            match PageProbe::of(self, page) {
                PageProbe::Resident(pin) | PageProbe::Incomplete(pin) => {
                    self.touch(&pin);
                    let mut write = pin.write();
                    write.fill(0);
                    self.completed(write.pin().frame(), page);
                    return Ok(write);
                }
                PageProbe::Loading(_) => return Err(free),
                PageProbe::Leaving => spin(&mut spins),
                PageProbe::Absent => match self.install(free, page) {
                    Ok(mut loading) => {
                        loading.bytes().fill(0);
                        self.hook().is_current(page);
                        let (pin, latched) = loading.finish();
                        self.touch(&pin);
                        return Ok(PageWrite::join(latched, pin));
                    }
                    Err(back) => free = back,
                },
            }
        }
    }

    /// As [`Pool::try_create`]; waits. REQUIRES: the caller holds no latch.
    #[cfg(test)]
    pub(crate) fn create<'p>(&'p self, page: PageNo, frame: FreeFrame<'p>) -> PageWrite<'p> {
        let mut free = frame;
        loop {
            match self.try_create(page, free) {
                Ok(new) => return new,
                Err(back) => free = back,
            }
            self.await_read(page);
        }
    }

    /// Waits while a thread reads the page from the file. REQUIRES: the caller holds no latch.
    pub(crate) fn await_read(&self, page: PageNo) {
        holds_no_latch();
        if let PageProbe::Loading(pin) = PageProbe::of(self, page) {
            drop(self.frames().share(pin.frame()));
        }
    }

    /// Gives the frame to the page. Returns the frame if the page has one already.
    pub(super) fn install<'p>(
        &'p self,
        free: FreeFrame<'p>,
        page: PageNo,
    ) -> Result<LoadingPage<'p>, FreeFrame<'p>> {
        let index = free.take();
        let frame = self.frames().get(index);
        // At most a thread that waited here for a withdrawn page is about to release the latch.
        let latched = self.frames().exclude(index);
        frame.publish(page);
        if self.table.enter(self.frames(), page, index) {
            // From here on the frame is owned and not latched: a thread waits for it only while it
            // holds no latch.
            latch_released();
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
        let begun_us = self.clock.now_us();
        let read = self.file().read(loading.page, loading.bytes());
        self.metrics.add(M::PageReadsIo, 1);
        self.metrics.time(Latency::PageRead, self.clock.now_us().saturating_sub(begun_us));
        match read {
            Ok(()) => Ok(()),
            // A page beyond the end of the file was never written; the hook sees a blank page.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(_) if self.hook().needs_no_image(loading.page)? => {
                loading.bytes().fill(0);
                Ok(())
            }
            Err(e) => {
                let named = std::io::Error::new(e.kind(), format!("{:?}: {e}", loading.page));
                Err(Error::io("read", self.path(), named))
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
            let reads = part.iter().copied().zip(buffer.chunks_mut(page_bytes));
            if !part.is_empty() {
                self.file().read_many(reads).map_err(|e| Error::io("read", self.path(), e))?;
            }
            for (&page, bytes) in part.iter().zip(buffer.chunks_mut(page_bytes)) {
                match self.arrival(page, bytes).and_then(|arrival| match arrival {
                    Arrival::AsRead => Ok(()),
                    Arrival::Incomplete => {
                        let mut catch_up = || self.hook().catch_up(page, bytes).map(drop);
                        self.hook().with_permit(page, &|| true, &mut catch_up)
                    }
                }) {
                    Ok(()) => {}
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
        self.accept(&mut loading)?;
        let (pin, latched) = loading.finish();
        drop(latched);
        match hint {
            FetchHint::Normal | FetchHint::Replay => self.touch(&pin),
            FetchHint::Scan => self.note_scanned(pin.frame()),
        }
        Ok(pin)
    }

    /// As [`Pool::finish_read`], for a page that no thread has asked for yet: it does not count as
    /// used.
    pub(super) fn finish_ahead(&self, mut loading: LoadingPage<'_>, hint: FetchHint) -> Result {
        self.accept(&mut loading)?;
        self.frames().get(loading.frame).set(AHEAD);
        let (pin, latched) = loading.finish();
        drop(latched);
        self.metrics.add(M::PagesReadAhead, 1);
        if hint == FetchHint::Scan {
            self.note_scanned(pin.frame());
        }
        Ok(())
    }

    /// Checks what was read. An error refuses the page.
    fn accept(&self, loading: &mut LoadingPage<'_>) -> Result {
        self.metrics.add(M::PagesRead, 1);
        if self.arrival(loading.page, loading.bytes())? == Arrival::Incomplete {
            self.frames().get(loading.frame).set(INCOMPLETE);
        }
        Ok(())
    }

    /// Makes a page of the image that was read. An error refuses it.
    fn arrival(&self, page: PageNo, image: &mut [u8]) -> Result<Arrival> {
        let verified = accept(image, page);
        self.hook().after_read(page, image, verified)
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
        latch_taken();
        let before = self.pool.frames().get(self.frame).clear(LOADING);
        base::check!(before & (LOADING | CLAIMED) == LOADING, "{:?} arrived twice", self.page);
        (Pin::adopt(self.pool, self.frame, self.page), latched)
    }
}

impl Drop for LoadingPage<'_> {
    fn drop(&mut self) {
        let Some(latched) = self.latched.take() else { return };
        latch_taken();
        let frame = self.pool.frames().get(self.frame);
        self.pool.table.remove(self.pool.frames(), self.page, self.frame);
        frame.withdraw();
        frame.forget_page();
        drop(latched);
        self.pool.put_free(self.frame);
    }
}
