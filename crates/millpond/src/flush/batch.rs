//! One batch of page writes: copy dirty pages under try-latches, make their redo durable (the WAL
//! rule), protect the copies against torn writes, write them in place, sync, and only then mark
//! them clean (To1, To2).

use super::areas::{Areas, TakenArea};
use super::doublewrite::{AREAS, Doublewrite};
use super::runs::{BatchLimit, RunShape, runs};
use crate::buffer::{FlushTicket, Pool};
use crate::environment::Environment;
use crate::error::{Poison, Result};
use crate::log::Log;
use crate::options::Options;
use crate::page_file::{PageFile, set_checksum};
use crate::planted::{Bug, planted};
use crate::role;
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, Ordering};
use base::{Lsn, PageNo};
use metrics::{Force, M, Metrics, SyncReason};
use pace::law::Neighbours;
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::Vfs;

/// The longest run around a page whose frame is needed: up to this size every I/O costs about the
/// same (Fl4).
const NEIGHBOURHOOD_BYTES: usize = 64 << 10;
/// The longest run around another page. Its transfer takes a multiple of what beginning it costs.
const RUN_BYTES: usize = 1 << 20;
const _: () = assert!(NEIGHBOURHOOD_BYTES < RUN_BYTES);

/// What a batch wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchWritten {
    /// Pages.
    pub(crate) pages: u64,
    /// In-place I/Os.
    pub(crate) ios: u64,
    /// Microseconds from the first copy to the last sync.
    pub(crate) took_us: u64,
}

/// Writes batches of pages, several at the same time. No page is in two of them: the pool gives no
/// second copy of a page that is being written.
#[derive(Debug)]
pub(crate) struct Flusher {
    vfs: Vfs,
    log: Arc<Log>,
    pool: Arc<Pool>,
    file: Arc<PageFile>,
    copies: Copies,
    areas: Areas,
    /// Which neighbours InnoDB's law writes; `None` under Millpond's.
    neighbours: Neighbours,
    /// Held while pages are chosen and copied, so that two batches do not choose the same ones.
    choosing: Mutex<()>,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

/// The copies of pages that are written before the pages.
#[derive(Debug)]
struct Copies {
    /// Where they are written. A batch that begins after a change uses the new one.
    doublewrite: Mutex<Arc<Doublewrite>>,
    /// How many pages one batch may hold.
    slots: usize,
    /// Whether they are written.
    wanted: AtomicBool,
}

impl Copies {
    fn doublewrite(&self) -> Arc<Doublewrite> {
        Arc::clone(&self.doublewrite.lock())
    }
}

impl Flusher {
    /// A flusher for the pages of `pool`, which are in `file`.
    pub(crate) fn new(
        environment: &Environment,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        file: &Arc<PageFile>,
        doublewrite: Doublewrite,
        options: &Options,
    ) -> Flusher {
        let Environment { vfs, metrics, poison } = environment.clone();
        let slots = doublewrite.slots();
        let areas = Areas::new(AREAS, slots * pool.page_bytes());
        let wanted = AtomicBool::new(!options.doublewrite.is_off());
        Flusher {
            vfs,
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file: Arc::clone(file),
            copies: Copies { doublewrite: Mutex::new(Arc::new(doublewrite)), slots, wanted },
            areas,
            neighbours: options.experiments.law.neighbours(),
            choosing: Mutex::new(()),
            metrics,
            poison,
        }
    }

    /// Sets whether copies of pages are written before the pages. When this returns, a page that
    /// was written without a copy is synced in place if `protecting`. REQUIRES: only one thread is
    /// in this call. Before copies are left out, the root says so (INV-31).
    pub(crate) fn set_protecting(&self, protecting: bool) {
        self.copies.wanted.store(protecting, Ordering::Release);
        if protecting {
            self.areas.await_all(AREAS);
        }
    }

    /// Writes copies to another doublewrite, with as many slots, from now on. When this returns, no
    /// copy in the one before is needed any more: its pages are synced in place. REQUIRES: only one
    /// thread is in this call or in [`Flusher::set_protecting`]; the root names both.
    pub(crate) fn move_doublewrite(&self, doublewrite: Doublewrite) {
        base::check!(doublewrite.slots() == self.copies.slots, "a batch would not fit");
        *self.copies.doublewrite.lock() = Arc::new(doublewrite);
        self.areas.await_all(AREAS);
    }

    /// Returns how many pages one batch may hold.
    pub(crate) fn batch_pages(&self) -> usize {
        self.copies.slots
    }

    /// Writes the pages that `choose` returns and their dirty neighbours, in the order given, until
    /// the limit is reached or the batch is full. Skips pages that another thread is changing now,
    /// and those whose copy is being written. A failure poisons the database.
    ///
    /// `choose` is called when no other batch is choosing, and gets the most pages of a batch.
    pub(crate) fn flush(
        &self,
        choose: impl FnOnce(usize) -> Vec<PageNo>,
        limit: BatchLimit,
        force: Force,
    ) -> Result<BatchWritten> {
        self.poison.check()?;
        self.try_flush(choose, limit, force).map_err(|error| self.poison.set(error))
    }

    fn try_flush(
        &self,
        choose: impl FnOnce(usize) -> Vec<PageNo>,
        limit: BatchLimit,
        force: Force,
    ) -> Result<BatchWritten> {
        let mut area = self.areas.take();
        let begun = self.vfs.clock.now_us();
        let choosing = self.choosing.lock();
        let wanted = choose(self.batch_pages());
        let pages = runs(&wanted, limit, self.shape(force), |page| self.pool.wants_flush(page));
        let (tickets, newest) = self.copy(&pages, &mut area);
        drop(choosing);
        if tickets.is_empty() {
            return Ok(BatchWritten::default());
        }
        if !planted(Bug::PageBeforeRedo) {
            self.log.flush_to(newest, SyncReason::WriteAhead)?;
        }
        // INV-3: no page reaches its file before its redo is durable.
        base::check!(
            self.log.durable_lsn() > newest || planted(Bug::PageBeforeRedo),
            "a page at LSN {newest} goes to its file before its redo"
        );
        let pages: Vec<PageNo> = tickets.iter().map(|ticket| ticket.page).collect();
        let images = &area.copies[..pages.len() * self.pool.page_bytes()];
        let ios = self.write(area.number, &pages, images, SyncReason::PageBatch)?;
        let pages = pages.len() as u64;
        self.metrics.page_writes(force, pages, ios, role::is_foreground());
        self.metrics.add(M::PageBatches, 1);
        // Before the area is given back: a thread that waits for the batch looks at the pages then.
        self.pool.flushed(tickets);
        Ok(BatchWritten { pages, ios, took_us: self.vfs.clock.now_us().saturating_sub(begun) })
    }

    /// Copies pages into an area, as images. Leaves out those that another thread is changing now.
    /// Returns the tickets of the copies and the highest LSN on them.
    fn copy(&self, wanted: &BTreeSet<PageNo>, area: &mut TakenArea<'_>) -> (Vec<FlushTicket>, Lsn) {
        let page_bytes = self.pool.page_bytes();
        let (mut tickets, mut newest) = (Vec::with_capacity(wanted.len()), Lsn::ZERO);
        for &page in wanted {
            let copy = &mut area.copies[tickets.len() * page_bytes..][..page_bytes];
            let Some(ticket) = self.pool.copy_for_flush(page, copy) else {
                self.metrics.add(M::CleanerLatchMisses, 1);
                continue;
            };
            newest = newest.max(set_checksum(copy, page));
            tickets.push(ticket);
        }
        (tickets, newest)
    }

    /// Waits until no page has a copy on its way to the file that holds the checkpoint below `lsn`.
    /// An error if the database is poisoned: then such a copy may stay for ever.
    pub(crate) fn wait_for_copies(&self, lsn: Lsn) -> Result {
        let is_on_its_way = || self.pool.min_writing().is_some_and(|first| first < lsn);
        self.areas.wait_while(|| is_on_its_way() && !self.poison.is_set());
        self.poison.check()
    }

    /// Writes new pages whose redo has no content; no frame holds them and nothing refers to them
    /// yet. They are protected and synced like all others (To4): redo of an earlier use of such a
    /// page may lie above the checkpoint, and replay needs a whole page to see that it need not
    /// apply that redo. A failure poisons the database. REQUIRES: at most [`Flusher::batch_pages`]
    /// pages, each with its number and an LSN above all of its redo.
    pub(crate) fn write_new(&self, pages: &[PageNo], images: &mut [u8]) -> Result {
        self.poison.check()?;
        let page_bytes = self.pool.page_bytes();
        let mut newest = Lsn::ZERO;
        base::check!(pages.len() * page_bytes == images.len(), "{} pages have other images", pages.len());
        for (page, image) in pages.iter().zip(images.chunks_exact_mut(page_bytes)) {
            newest = newest.max(set_checksum(image, *page));
        }
        let area = self.areas.take();
        let written = self
            .log
            .flush_to(newest, SyncReason::WriteAhead)
            .and_then(|_| self.write(area.number, pages, images, SyncReason::BulkLoad));
        let ios = written.map_err(|error| self.poison.set(error))?;
        self.metrics.page_writes(Force::BulkLoad, pages.len() as u64, ios, role::is_foreground());
        Ok(())
    }

    /// Protects page images, writes them in place and syncs them. Returns the number of in-place
    /// I/Os.
    fn write(&self, area: usize, pages: &[PageNo], images: &[u8], reason: SyncReason) -> Result<u64> {
        let page_bytes = self.pool.page_bytes();
        let is_load = reason == SyncReason::BulkLoad;
        base::check!(pages.len() <= self.batch_pages(), "{} pages in one batch", pages.len());
        // The planted mistake: the second half of a batch uses the area of the first half, which is
        // not synced in place yet.
        let halves = if planted(Bug::AreaReusedEarly) { 2 } else { 1 };
        let each = pages.len().div_ceil(halves).max(1);
        // After the area was taken, see `set_protecting`. Of the pages of a load redo has no
        // content: a torn one could not even be made anew.
        let protect = is_load || self.copies.wanted.load(Ordering::Acquire);
        let mut ios = 0;
        for (pages, images) in pages.chunks(each).zip(images.chunks(each * page_bytes)) {
            if protect && !planted(Bug::NoDoublewrite) {
                self.copies.doublewrite().protect(area, images, self.waiting())?;
            }
            ios += self.file.write_runs(pages, images)?;
        }
        let unsynced = planted(Bug::NoPagesSync) || (is_load && planted(Bug::LoadNotSynced));
        if !unsynced {
            self.file.sync(reason, || self.waiting())?;
        }
        Ok(ios)
    }

    /// Returns how many callers wait for the batch: the one that asked for it, and those that need
    /// the frames of its pages.
    fn waiting(&self) -> u64 {
        role::callers() + self.pool.frame_waiters() as u64
    }

    /// Returns the sizes of runs in a batch that is written for this reason.
    fn shape(&self, force: Force) -> RunShape {
        let pages_in = |bytes: usize| (bytes / self.pool.page_bytes()) as u32;
        let longest = match force {
            // Only these frames are needed, and soon.
            Force::FreeFrames if self.neighbours == Neighbours::Adjacent => pages_in(NEIGHBOURHOOD_BYTES),
            _ => pages_in(RUN_BYTES),
        };
        RunShape { longest, neighbours: self.neighbours, batch: self.batch_pages() }
    }
}
