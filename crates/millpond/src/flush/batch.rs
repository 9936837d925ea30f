//! One batch of page writes: copy dirty pages under try-latches, make their redo durable (the WAL
//! rule), protect the copies against torn writes, write them in place, sync, and only then mark
//! them clean (To1, To2).

use super::doublewrite::Doublewrite;
use crate::buffer::Pool;
use crate::context::Context;
use crate::duty;
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::page::header;
use crate::planted::{Bug, planted};
use base::aligned::AlignedBuf;
use base::{Lsn, PageNo};
use metrics::{FileKind, Force, M, Metrics, SyncReason};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::{File, Vfs, WriteOp};

/// Dirty pages in the same aligned range of this size go in one write (Fl4): up to this size every
/// I/O costs the same.
const NEIGHBOURHOOD_BYTES: usize = 64 << 10;

/// Where a batch ends, if it is not full before. It may exceed the limit by one neighbourhood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimit {
    /// Pages.
    pub(crate) pages: u64,
    /// In-place I/Os.
    pub(crate) ios: u64,
}

impl BatchLimit {
    /// No limit: the batch ends when it is full.
    pub(crate) const NONE: BatchLimit = BatchLimit { pages: u64::MAX, ios: u64::MAX };
}

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

/// Writes batches of pages. There is only one, so no page is in two batches.
#[derive(Debug)]
pub(crate) struct Flusher {
    vfs: Vfs,
    log: Arc<Log>,
    pool: Arc<Pool>,
    file: Arc<dyn File>,
    path: PathBuf,
    doublewrite: Doublewrite,
    copies: AlignedBuf,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Flusher {
    /// A flusher for the pages of `pool`, which are in `file` at `path`.
    pub(crate) fn new(
        context: &Context,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        (file, path): (Arc<dyn File>, PathBuf),
        doublewrite: Doublewrite,
    ) -> Flusher {
        let Context { vfs, metrics, poison } = context.clone();
        let copies = AlignedBuf::zeroed(doublewrite.slots() * pool.page_bytes());
        Flusher {
            vfs,
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file,
            path,
            doublewrite,
            copies,
            metrics,
            poison,
        }
    }

    /// Returns how many pages one batch may hold.
    pub(crate) fn batch_pages(&self) -> usize {
        self.doublewrite.slots()
    }

    /// Writes the pages of `wanted` and their dirty neighbours, in the order given, until the limit
    /// is reached or the batch is full. Skips pages that another thread is changing now. A failure
    /// poisons the database.
    pub(crate) fn flush(
        &mut self,
        wanted: &[PageNo],
        limit: BatchLimit,
        force: Force,
    ) -> Result<BatchWritten> {
        self.poison.check()?;
        self.try_flush(wanted, limit, force).map_err(|error| self.poison.set(error))
    }

    fn try_flush(&mut self, wanted: &[PageNo], limit: BatchLimit, force: Force) -> Result<BatchWritten> {
        let begun = self.vfs.clock.now_us();
        let page_bytes = self.pool.page_bytes();
        let mut tickets = Vec::new();
        let mut newest = Lsn::ZERO;
        for page in self.with_neighbours(wanted, limit) {
            let copy = &mut self.copies[tickets.len() * page_bytes..][..page_bytes];
            let Some(ticket) = self.pool.copy_for_flush(page, copy) else {
                self.metrics.add(M::CleanerLatchMisses, 1);
                continue;
            };
            base::check!(header::page_no(copy) == page, "{page:?} names {:?}", header::page_no(copy));
            newest = newest.max(header::lsn(copy));
            header::seal(copy);
            tickets.push(ticket);
        }
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
        let copies = std::mem::replace(&mut self.copies, AlignedBuf::zeroed(1));
        let ios = self.write(&pages, &copies[..pages.len() * page_bytes], SyncReason::PageBatch);
        self.copies = copies;
        let (pages, ios) = (pages.len() as u64, ios?);
        self.metrics.page_writes(force, pages, ios, duty::is_foreground());
        self.metrics.add(M::PageBatches, 1);
        self.pool.flushed(tickets);
        Ok(BatchWritten { pages, ios, took_us: self.vfs.clock.now_us().saturating_sub(begun) })
    }

    /// Writes new pages whose redo has no content; no frame holds them and nothing refers to them
    /// yet. They are protected and synced like all others (To4): redo of an earlier use of such a
    /// page may lie above the checkpoint, and replay needs a whole page to see that it need not
    /// apply that redo. A failure poisons the database. REQUIRES: at most [`Flusher::batch_pages`]
    /// pages, each with its number and an LSN above all of its redo.
    pub(crate) fn write_new(&mut self, pages: &[PageNo], images: &mut [u8]) -> Result {
        self.poison.check()?;
        let page_bytes = self.pool.page_bytes();
        let mut newest = Lsn::ZERO;
        base::check!(pages.len() * page_bytes == images.len(), "{} pages have other images", pages.len());
        for (page, image) in pages.iter().zip(images.chunks_exact_mut(page_bytes)) {
            base::check!(header::page_no(image) == *page, "{page:?} names {:?}", header::page_no(image));
            newest = newest.max(header::lsn(image));
            header::seal(image);
        }
        let written = self
            .log
            .flush_to(newest, SyncReason::WriteAhead)
            .and_then(|_| self.write(pages, images, SyncReason::BulkLoad));
        let ios = written.map_err(|error| self.poison.set(error))?;
        self.metrics.page_writes(Force::BulkLoad, pages.len() as u64, ios, duty::is_foreground());
        Ok(())
    }

    /// Protects page images, writes them in place and syncs them. Returns the number of in-place
    /// I/Os.
    fn write(&mut self, pages: &[PageNo], images: &[u8], reason: SyncReason) -> Result<u64> {
        let page_bytes = self.pool.page_bytes();
        let is_load = reason == SyncReason::BulkLoad;
        base::check!(pages.len() <= self.batch_pages(), "{} pages in one batch", pages.len());
        // The planted mistake: the second half of a batch uses the area of the first half, which is
        // not synced in place yet.
        let halves = if planted(Bug::AreaReusedEarly) { 2 } else { 1 };
        let each = pages.len().div_ceil(halves).max(1);
        let mut ios = 0;
        for (pages, images) in pages.chunks(each).zip(images.chunks(each * page_bytes)) {
            if !planted(Bug::NoDoublewrite) {
                self.doublewrite.protect(images, self.waiting())?;
            }
            ios += self.write_in_place(pages, images)?;
        }
        let start = self.vfs.clock.now_us();
        let unsynced = planted(Bug::NoPagesSync) || (is_load && planted(Bug::LoadNotSynced));
        if !unsynced {
            self.file.sync().map_err(|e| Error::io("sync", &self.path, e))?;
        }
        self.metrics.fsync(FileKind::Pages, reason, self.vfs.clock.now_us() - start, self.waiting());
        Ok(ios)
    }

    /// Writes page images in place, neighbours together. Returns the number of I/Os.
    fn write_in_place(&self, pages: &[PageNo], images: &[u8]) -> Result<u64> {
        let page_bytes = self.pool.page_bytes();
        let mut writes: Vec<WriteOp<'_>> = Vec::new();
        for (n, page) in pages.iter().enumerate() {
            let offset = u64::from(page.0) * page_bytes as u64;
            match writes.last_mut() {
                Some(last) if last.offset + last.bytes.len() as u64 == offset => {
                    let from = n * page_bytes - last.bytes.len();
                    last.bytes = &images[from..(n + 1) * page_bytes];
                }
                _ => writes.push(WriteOp { offset, bytes: &images[n * page_bytes..][..page_bytes] }),
            }
        }
        self.file.write_batch(&writes).map_err(|e| Error::io("write", &self.path, e))?;
        Ok(writes.len() as u64)
    }

    /// Returns how many callers wait for the batch: the one that asked for it, and those that need
    /// the frames of its pages.
    fn waiting(&self) -> u64 {
        duty::callers() + self.pool.frame_waiters() as u64
    }

    /// Returns the wanted pages and the dirty ones in their neighbourhoods, by page number.
    fn with_neighbours(&self, wanted: &[PageNo], limit: BatchLimit) -> BTreeSet<PageNo> {
        let each = (NEIGHBOURHOOD_BYTES / self.pool.page_bytes()) as u32;
        let mut all = BTreeSet::new();
        let mut runs = 0;
        for page in wanted {
            if all.contains(page) {
                continue;
            }
            if runs >= limit.ios || all.len() as u64 >= limit.pages {
                return all;
            }
            let first = page.0 / each * each;
            let mut apart = true;
            for near in first..first + each {
                let take = near == page.0 || self.pool.wants_flush(PageNo(near));
                if take {
                    if all.len() == self.batch_pages() {
                        return all;
                    }
                    all.insert(PageNo(near));
                    runs += u64::from(apart);
                }
                apart = !take;
            }
        }
        all
    }
}
