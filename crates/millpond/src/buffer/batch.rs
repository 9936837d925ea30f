//! Reads of many pages at once, with many reads in flight.
//!
//! All pages of a batch are entered in the page table before the first is read, so a thread holds
//! the exclusive latches of all their frames. It waits for no other latch meanwhile: it leaves out
//! pages that another thread has entered.

use base::PageNo;
use metrics::{Latency, M};
use pace::read_ahead::Room;

use super::fetch::LoadingPage;
use super::free::FreeFrame;
use super::pool::{FetchHint, Pool, Stamp};
use crate::error::Result;

/// Neighbouring pages of a tree that are to be read together, as their parent names them.
#[derive(Debug)]
pub(crate) struct Siblings {
    /// In the order in which they are needed. The first one is needed now.
    pub(crate) pages: Vec<PageNo>,
    /// The page that names them.
    pub(crate) parent: PageNo,
    /// Its stamp from when it was read.
    pub(crate) stamp: Stamp,
}

/// Pages that are being read together.
struct Batch<'p> {
    pool: &'p Pool,
    pages: Vec<LoadingPage<'p>>,
}

/// Reads the pages that are not in memory, with many reads in flight, as long as frames are
/// available without waiting. After an error the other pages are in memory all the same. REQUIRES:
/// the caller holds no latch.
pub(crate) fn fetch_many(pool: &Pool, pages: &[PageNo], hint: FetchHint) -> Result {
    let (mut batch, _) = Batch::install(pool, pages, || pool.try_take_frame(hint));
    let together = batch.read();
    let mut first_error = Ok(());
    for mut loading in batch.pages {
        // A batch reports only that some read failed. Reads one by one show which.
        let read = if together { Ok(()) } else { pool.read(&mut loading) };
        let arrived = read.and_then(|()| pool.finish_read(loading, hint).map(drop));
        first_error = first_error.and(arrived);
    }
    first_error
}

/// Returns what the pool has for reading ahead, for a scan with this hint.
pub(crate) fn room_ahead(pool: &Pool, hint: FetchHint) -> Room {
    Room {
        frames: if pool.reads_ahead { pool.frame_count() as u64 } else { 0 },
        free: pool.free_frames() as u64,
        reserve: pool.free_reserve() as u64,
        reusable: if hint == FetchHint::Scan { pool.reusable_frames() as u64 } else { 0 },
    }
}

impl Siblings {
    /// Reads those of the pages that are not in memory, as long as there are frames that no other
    /// thread needs. Returns how many of the pages it has gone through. Returns no errors: a page
    /// that cannot be read is left out, and the thread that needs it gets the error. REQUIRES: the
    /// caller holds no latch.
    pub(crate) fn read_ahead(&self, pool: &Pool, hint: FetchHint) -> usize {
        let Siblings { pages, parent, stamp } = self;
        let (mut batch, passed) = Batch::install(pool, pages, || pool.try_take_spare(hint));
        // Since the parent's latch was released a page may have been freed, and a bulk load may
        // write it past the pool if no frame has it. Now that the frames have the pages, an
        // unchanged parent proves that none was.
        if batch.pages.is_empty() || pool.stamp(*parent) != Some(*stamp) {
            return 0;
        }
        let together = batch.read();
        for mut loading in batch.pages {
            if !together && pool.read(&mut loading).is_err() {
                continue;
            }
            // Damage is judged again by the fetch of the single page.
            let _ = match loading.page() == pages[0] {
                true => pool.finish_read(loading, hint).map(drop),
                false => pool.finish_ahead(loading, hint),
            };
        }
        passed
    }
}

impl<'p> Batch<'p> {
    /// Enters the pages that are not in memory in the page table, until there is no frame. Also
    /// returns how many of the pages it has gone through.
    fn install(
        pool: &'p Pool,
        pages: &[PageNo],
        mut frame: impl FnMut() -> Option<FreeFrame<'p>>,
    ) -> (Batch<'p>, usize) {
        let mut batch = Batch { pool, pages: Vec::with_capacity(pages.len()) };
        for (n, &page) in pages.iter().enumerate() {
            if pool.table.get(pool.frames(), page).is_some() {
                continue;
            }
            let Some(free) = frame() else { return (batch, n) };
            if let Ok(loading) = pool.install(free, page) {
                batch.pages.push(loading);
            }
        }
        (batch, pages.len())
    }

    /// Reads the pages. Returns whether all could be read.
    fn read(&mut self) -> bool {
        if self.pages.is_empty() {
            return true;
        }
        let (pool, count) = (self.pool, self.pages.len() as u64);
        let begun_us = pool.clock.now_us();
        let pages = self.pages.iter_mut().map(|loading| (loading.page(), loading.bytes()));
        let together = pool.file().read_many(pages).is_ok();
        pool.metrics.add(M::PageReadsIo, count);
        pool.metrics.time(Latency::PageRead, pool.clock.now_us().saturating_sub(begun_us));
        together
    }
}
