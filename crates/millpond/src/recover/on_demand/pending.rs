//! The redo of the last run that pages still lack while the database is open, and how a page gets
//! it when a thread needs the page before replay has come to it.
//!
//! A page is *pending* while it may lack redo. It leaves the table of pending pages for good when
//! it is in the file with all of it, when it is in the pool with all of it and dirty, and when it
//! is made anew. From then on the file alone counts: damage is an error, whatever the old redo says
//! (INV-28). Replay skips pages that are not pending, and the checkpoint follows replay: so a page
//! is dirty first and leaves the table then (INV-29).

use super::chain::{Chain, Followed, LogOfLastRun, ReaderMemory};
use super::permits::Permits;
use super::redo_table::RedoTable;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::reader::EpochStart;
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, Ordering};
use base::{Lsn, PageNo};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::Clock;

/// What the last run left.
#[derive(Debug)]
pub(crate) struct LastRun<'a> {
    pub(crate) epochs: &'a [EpochStart],
    /// No page lacks redo from below.
    pub(crate) from: Lsn,
    /// Where its log ends.
    pub(crate) end: Lsn,
    /// The pages that may lack redo.
    pub(crate) table: RedoTable,
    /// They were written without copies.
    pub(crate) may_be_torn: bool,
}

/// The pages that lack redo.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) log: Arc<Log>,
    pub(crate) epochs: Vec<EpochStart>,
    /// No page lacks redo from below.
    pub(crate) from: Lsn,
    /// Where the log of the last run ends.
    pub(crate) end: Lsn,
    pub(crate) pages_path: PathBuf,
    /// Pages that lack redo may be torn and have no copy: the doublewrite was off.
    may_be_torn: bool,
    pages: Mutex<PendingPages>,
    /// All redo has been applied. Then nobody asks for the mutex of `pages` any more.
    is_over: AtomicBool,
    permits: Permits,
    memory: ReaderMemory,
}

#[derive(Debug)]
struct PendingPages {
    table: RedoTable,
    /// Pages that each worker of replay works on now. They ascend.
    in_replay: Vec<Arc<[PageNo]>>,
}

impl Pending {
    /// The pages of the file at `pages_path` that lack redo of the last run.
    pub(crate) fn new(
        log: &Arc<Log>,
        last: LastRun<'_>,
        pages_path: PathBuf,
        clock: &Arc<dyn Clock>,
    ) -> Arc<Pending> {
        Arc::new(Pending {
            log: Arc::clone(log),
            epochs: last.epochs.to_vec(),
            from: last.from,
            end: last.end,
            pages_path,
            may_be_torn: last.may_be_torn,
            pages: Mutex::new(PendingPages { table: last.table, in_replay: Vec::new() }),
            is_over: AtomicBool::new(false),
            permits: Permits::new(clock.cores()),
            memory: ReaderMemory::new(),
        })
    }

    /// Whether all redo has been applied: no page is pending, and none will be.
    #[inline]
    fn is_over(&self) -> bool {
        // Acquire: what replay has done to a page happened before.
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns the LSN of the last change that the page may lack.
    #[inline]
    pub(crate) fn last(&self, page: PageNo) -> Option<Lsn> {
        if self.is_over() { None } else { self.pages.lock().table.last(page) }
    }

    /// Notes that the page lacks nothing any more.
    pub(crate) fn done(&self, page: PageNo) {
        if !self.is_over() {
            self.pages.lock().table.done(page);
        }
    }

    /// Returns whether the page lacks redo, or replay may be about to read it. Once this is false
    /// for a page, it stays false.
    pub(crate) fn is_pending(&self, page: PageNo) -> bool {
        if self.is_over() {
            return false;
        }
        let pages = self.pages.lock();
        pages.table.last(page).is_some()
            || pages.in_replay.iter().any(|pages| pages.binary_search(&page).is_ok())
    }

    /// Returns how many pages lack redo.
    pub(in super::super) fn count(&self) -> usize {
        self.pages.lock().table.count()
    }

    /// Adds those of the pages that lack redo.
    pub(in super::super) fn pending_among(&self, pages: RangeInclusive<PageNo>, out: &mut Vec<PageNo>) {
        let state = self.pages.lock();
        let pages = (pages.start().0..=pages.end().0).map(PageNo);
        out.extend(pages.filter(|page| state.table.last(*page).is_some()));
    }

    /// Says that a worker of replay begins to work on those of the pages that are pending, and
    /// returns them. They ascend. It ends its work on those before.
    pub(crate) fn begin_replay(&self, worker: usize, pages: impl Iterator<Item = PageNo>) -> Arc<[PageNo]> {
        let mut state = self.pages.lock();
        let pending: Arc<[PageNo]> = pages.filter(|page| state.table.last(*page).is_some()).collect();
        if state.in_replay.len() <= worker {
            state.in_replay.resize(worker + 1, Arc::default());
        }
        state.in_replay[worker] = Arc::clone(&pending);
        pending
    }

    /// Says that a worker has ended its work on pages until it meets them again.
    pub(crate) fn end_replay(&self, worker: usize) {
        if let Some(pages) = self.pages.lock().in_replay.get_mut(worker) {
            *pages = Arc::default();
        }
    }

    /// Says that all redo has been applied: no page is pending.
    pub(crate) fn all_done(&self) {
        self.pages.lock().table = RedoTable::default();
        self.is_over.store(true, Ordering::Release);
        self.memory.free();
        self.log.segments().end_cached();
    }

    /// Completes a page by `work`, which is done with a permit. Returns `None`, without the work,
    /// if the page is not `incomplete` any more.
    pub(super) fn with_permit<T>(
        &self,
        page: PageNo,
        incomplete: impl Fn() -> bool,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        self.permits.with(page, incomplete, work)
    }

    /// Whether more threads need pages than may complete them at a time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.permits.are_awaited()
    }

    fn log_of_last_run(&self) -> LogOfLastRun<'_> {
        LogOfLastRun {
            segments: self.log.segments(),
            epochs: &self.epochs,
            from: self.from,
            pages_path: &self.pages_path,
            memory: &self.memory,
        }
    }

    /// Finds what a page whose last change is at `last` lacks after its image of LSN `image`.
    /// `None`: there is no image, and redo does not make the page anew.
    pub(crate) fn redo(&self, page: PageNo, last: Lsn, image: Option<Lsn>) -> Result<Option<Chain>> {
        match self.log_of_last_run().follow(page, last, image)? {
            Followed::Whole(chain) => Ok(Some(chain)),
            Followed::NeedsImage(_) => Ok(None),
            Followed::LostWrite(lsn, expected) => {
                let is = image.unwrap_or(Lsn::ZERO);
                let what = format!(
                    "{page:?}, redo at LSN {lsn}: the page is at LSN {is}, the change expects {expected}: a write was lost"
                );
                Err(Error::corrupt(&self.pages_path, what))
            }
        }
    }

    /// Returns how a page that lacks redo may have been damaged, as the end of a sentence.
    pub(crate) fn torn(&self) -> &'static str {
        if self.may_be_torn { "; the page may have been torn while the doublewrite was off" } else { "" }
    }

    /// The error for a page that has no whole image and needs one.
    pub(crate) fn no_image(&self, page: PageNo) -> Error {
        let torn = self.torn();
        let what = format!("{page:?}: the file has no whole image of it, and redo needs one{torn}");
        Error::corrupt(&self.pages_path, what)
    }

    /// Applies redo to the page. Returns the LSN of the first change.
    pub(crate) fn apply(&self, chain: &Chain, bytes: &mut [u8]) -> Result<Lsn> {
        self.log_of_last_run().apply(chain, bytes)
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;
    use crate::log::tests::{LogDir, start};
    use vfs::mem::ManualClock;

    pub(in super::super::super) fn pending(
        name: &str,
        redo_bytes: u64,
        lacking: &[(PageNo, Lsn)],
    ) -> (LogDir, Arc<Pending>) {
        let dir = LogDir::new(name);
        let (log, path) = (Arc::new(dir.log(start())), PathBuf::from("pages"));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        let (from, end, mut table) = (Lsn::ZERO, Lsn(redo_bytes), RedoTable::default());
        lacking.iter().for_each(|(page, lsn)| table.note(*page, *lsn));
        let last = LastRun { epochs: &[], from, end, table, may_be_torn: false };
        let pending = Pending::new(&log, last, path, &clock);
        (dir, pending)
    }

    #[test]
    fn no_page_is_pending_when_all_redo_is_applied() {
        let lacking = [(PageNo(3), Lsn(9)), (PageNo(8), Lsn(7))];
        let (_dir, pending) = pending("all-done", 1 << 20, &lacking);
        assert_eq!((pending.last(PageNo(3)), pending.is_pending(PageNo(8))), (Some(Lsn(9)), true));
        pending.done(PageNo(8));
        assert_eq!((pending.last(PageNo(8)), pending.is_pending(PageNo(8))), (None, false));
        pending.all_done();
        // A page that is read now is as it is in the file, and asks nobody.
        let locked = pending.pages.lock();
        assert_eq!((pending.last(PageNo(3)), pending.is_pending(PageNo(3))), (None, false));
        pending.done(PageNo(3));
        drop(locked);
    }
}
