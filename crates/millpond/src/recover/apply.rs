//! The second pass over the log: every change goes to its page unless the page has it already.

use super::end::LogTail;
use crate::buffer::{Pool, ReadHook};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::page::op::PageOp;
use crate::page::{Damage, header};
use crate::planted::{Bug, planted};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, spawn};
use base::{Lsn, PageNo};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Low bits of the previous page LSN that a record carries.
const PREV_MASK: u64 = (1 << 40) - 1;

/// Judges pages as they are read: a damaged one is taken, as a blank, only if redo makes it anew.
#[derive(Debug)]
pub(crate) struct RedoHook {
    path: PathBuf,
    made_anew: Arc<Mutex<BTreeSet<PageNo>>>,
    log: Arc<Log>,
    /// Where the log of the last run ended; this run's begins at or above it.
    end: Lsn,
    begin: Lsn,
}

impl RedoHook {
    /// A hook for the pages of `path`, given what the first pass found.
    pub(crate) fn new(path: &Path, log: &Arc<Log>, tail: &LogTail) -> (RedoHook, MadeAnew) {
        let made_anew = Arc::new(Mutex::new(tail.made_anew().collect()));
        let hook = RedoHook {
            path: path.to_owned(),
            made_anew: Arc::clone(&made_anew),
            log: Arc::clone(log),
            end: tail.end,
            begin: log.durable_lsn(),
        };
        (hook, MadeAnew(made_anew))
    }
}

/// Pages that may be damaged until their redo is applied.
#[derive(Debug)]
pub(crate) struct MadeAnew(Arc<Mutex<BTreeSet<PageNo>>>);

impl ReadHook for RedoHook {
    fn after_read(
        &self,
        page: PageNo,
        bytes: &mut [u8],
        verified: Result<(), Damage>,
    ) -> Result<Option<Lsn>> {
        if let Err(damage) = verified {
            if !self.made_anew.lock().contains(&page) {
                return Err(Error::corrupt(&self.path, format!("{page:?}: {damage}")));
            }
            bytes.fill(0);
            return Ok(None);
        }
        // No page reaches the file before its redo is durable, so one that is ahead of the log proves that the log has
        // lost its end (El3).
        let lsn = header::lsn(bytes);
        if (lsn >= self.end && lsn < self.begin) || lsn >= self.log.reserved_lsn().max(Lsn(1)) {
            let what = format!("{page:?} names LSN {lsn}, beyond the log's end at {}", self.end);
            return Err(Error::corrupt(&self.path, what));
        }
        Ok(None)
    }
}

/// Pages that are read in one batch.
const BATCH_PAGES: usize = 64;

/// What the second pass works on.
pub(crate) struct Replay {
    pub(crate) pool: Arc<Pool>,
    pub(crate) log: Arc<Log>,
    pub(crate) epochs: Vec<EpochStart>,
    /// The checkpoint.
    pub(crate) from: Lsn,
    /// Where the last group ends.
    pub(crate) end: Lsn,
    /// Redo that a worker holds in memory before it turns to the pages.
    pub(crate) window_bytes: usize,
    pub(crate) pages_path: PathBuf,
    /// Hears how far all pages have come: the checkpoint must not pass it yet, nor a segment above be recycled.
    pub(crate) reached: Box<dyn Fn(Lsn) + Send + Sync>,
}

/// One change of one page, its bytes in the window's arena.
#[derive(Clone, Copy)]
struct Change {
    page: PageNo,
    lsn: Lsn,
    prev: u64,
    op: (usize, usize),
}

/// Applies all redo. Returns how many page changes were applied.
///
/// Pages are dealt out to `workers` by number, so what happens to one page happens in order, and no worker waits for
/// another. Each reads the log for itself, keeps the changes of its own pages for a few megabytes, reads those pages in
/// batches, and applies all that it has for a page under one latch. That a group spans pages does not matter here: all of
/// it is applied before anybody looks.
pub(crate) fn replay(job: Replay, made_anew: &MadeAnew, workers: usize) -> Result<u64> {
    let job = Arc::new(job);
    let places: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(job.from.0)).collect();
    let mut others = Vec::new();
    for worker in 1..workers {
        let (job, places) = (Arc::clone(&job), Arc::clone(&places));
        let handle = spawn("millpond-replay", move || job.work(worker, &places));
        others.push(handle.map_err(|e| Error::io("start a thread for", Path::new("recovery"), e))?);
    }
    let mut result = job.work(0, &places);
    for other in others {
        let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result = result.and_then(|own| Ok(own + theirs?));
    }
    // From now on every page is as redo left it, and damage is damage.
    if result.is_ok() {
        made_anew.0.lock().clear();
    }
    result
}

impl Replay {
    fn work(&self, worker: usize, places: &[AtomicU64]) -> Result<u64> {
        let segments = self.log.segments();
        let mut scanner = Scanner::new(segments, &self.epochs, self.from);
        let window_pages = (self.pool.frame_count() / (8 * places.len())).max(1);
        let (mut arena, mut changes) = (Vec::new(), Vec::<Change>::new());
        let mut applied = 0;
        // What stands beyond is of this run: a checkpoint may be logging its list already.
        while scanner.position() < self.end {
            let Some(group) = scanner.next()? else { break };
            if arena.len() >= self.window_bytes {
                applied += self.apply(&mut changes, &arena, window_pages)?;
                arena.clear();
            }
            if changes.is_empty() || planted(Bug::ReplayedEarly) {
                places[worker].store(group.lsn.0, Ordering::Release);
                let all = places.iter().map(|place| place.load(Ordering::Acquire)).min();
                (self.reached)(Lsn(all.unwrap_or(0)));
            }
            for record in Records::new(group.records).flatten() {
                let Record::Page { page, prev, op } = record else { continue };
                if page.0 as usize % places.len() != worker {
                    continue;
                }
                let start = arena.len();
                arena.extend_from_slice(op);
                changes.push(Change { page, lsn: group.lsn, prev, op: (start, arena.len()) });
            }
        }
        if scanner.position() != self.end {
            let what = format!(
                "replay stopped at LSN {}, the last group ended at {} a moment ago",
                scanner.position(),
                self.end
            );
            return Err(Error::corrupt(segments.dir(), what));
        }
        applied += self.apply(&mut changes, &arena, window_pages)?;
        places[worker].store(self.end.0, Ordering::Release);
        Ok(applied)
    }

    /// Applies a window's changes page by page, and empties it.
    fn apply(&self, changes: &mut Vec<Change>, arena: &[u8], window_pages: usize) -> Result<u64> {
        // Stable: the changes of a page stay in order.
        changes.sort_by_key(|change| change.page);
        let mut applied = 0;
        let by_page: Vec<&[Change]> = changes.chunk_by(|a, b| a.page == b.page).collect();
        for batch in by_page.chunks(BATCH_PAGES.min(window_pages)) {
            let pages: Vec<PageNo> = batch.iter().map(|page| page[0].page).collect();
            self.pool.fetch_many(&pages)?;
            for page in batch {
                applied += self.apply_to_page(page, arena)?;
            }
        }
        changes.clear();
        Ok(applied)
    }

    /// Applies changes to the page that all of them are of.
    fn apply_to_page(&self, changes: &[Change], arena: &[u8]) -> Result<u64> {
        let no = changes[0].page;
        let mut page = self.pool.fetch(no)?.write();
        let (mut applied, mut first_applied) = (0, None);
        for group in changes.chunk_by(|a, b| a.lsn == b.lsn) {
            let lsn = group[0].lsn;
            let damaged = |what: String| {
                Err(Error::corrupt(&self.pages_path, format!("{no:?}, redo at LSN {lsn}: {what}")))
            };
            let before = header::lsn(&page);
            let mut apply = before < lsn || header::is_blank(&page);
            if planted(Bug::RedoTwice) {
                apply = true;
            }
            if planted(Bug::RedoSkips) && lsn.0.is_multiple_of(7) {
                apply = false;
            }
            if !apply {
                continue;
            }
            for change in group {
                let Ok(op) = PageOp::decode(&arena[change.op.0..change.op.1]) else {
                    return damaged("the record is not one".into());
                };
                if !op.is_init() && before.0 & PREV_MASK != change.prev {
                    let expects = change.prev;
                    let what = format!(
                        "the page stands at LSN {before}, the change expects …{expects}: a write was lost"
                    );
                    return damaged(what);
                }
                if let Err(damage) = op.apply(&mut page) {
                    return damaged(damage.to_string());
                }
                applied += 1;
            }
            header::set_page_no(&mut page, no);
            header::set_lsn(&mut page, lsn);
            first_applied.get_or_insert(lsn);
        }
        if let Some(lsn) = first_applied {
            self.pool.mark_dirty(&page, lsn);
        }
        Ok(applied)
    }
}
