//! The second pass over the log, replay (the redo pass): applies every change to its page unless
//! the page has it already.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, EndOnDrop, LogChunk};
use super::end::{LogTail, READ_AHEAD_BYTES};
use crate::buffer::{FetchHint, Pool, ReadHook};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::group::{PREV_MASK, Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::page::op::PageOp;
use crate::page::{Damage, header};
use crate::planted::{Bug, planted};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, spawn};
use base::{Lsn, PageNo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checks pages as replay reads them. A damaged page is accepted, as a blank, only if redo makes it
/// anew.
#[derive(Debug)]
pub(crate) struct RedoHook {
    path: PathBuf,
    made_anew: MadeAnew,
    /// Pages that were written with this LSN or a greater one, and synced.
    stale: BTreeMap<PageNo, Lsn>,
    log: Arc<Log>,
    /// Where the log of the last run ended. The log of this run begins at or above it.
    end: Lsn,
    begin: Lsn,
}

impl RedoHook {
    /// Creates a hook for the pages of `path`, from the result of the first pass. `stale` are pages
    /// known to be older than they should be.
    pub(crate) fn new(
        path: &Path,
        log: &Arc<Log>,
        tail: &LogTail,
        stale: BTreeMap<PageNo, Lsn>,
    ) -> (RedoHook, MadeAnew) {
        let made_anew = MadeAnew(Arc::new(Mutex::new(tail.made_anew().collect())));
        let hook = RedoHook {
            path: path.to_owned(),
            made_anew: made_anew.clone(),
            stale,
            log: Arc::clone(log),
            end: tail.end,
            begin: log.durable_lsn(),
        };
        (hook, made_anew)
    }
}

/// Pages that may be damaged until their redo is applied.
#[derive(Clone, Debug)]
pub(crate) struct MadeAnew(Arc<Mutex<BTreeSet<PageNo>>>);

impl MadeAnew {
    fn contains(&self, page: PageNo) -> bool {
        self.0.lock().contains(&page)
    }
}

impl ReadHook for RedoHook {
    fn needs_no_image(&self, page: PageNo) -> bool {
        self.made_anew.contains(page)
    }

    fn after_read(
        &self,
        page: PageNo,
        bytes: &mut [u8],
        verified: Result<(), Damage>,
    ) -> Result<Option<Lsn>> {
        if let Err(damage) = verified {
            if !self.made_anew.contains(page) {
                return Err(Error::corrupt(&self.path, format!("{page:?}: {damage}")));
            }
            bytes.fill(0);
            return Ok(None);
        }
        // No page is written before its redo is durable. So a page that is ahead of the log proves
        // that the log has lost its end (El3).
        let lsn = header::lsn(bytes);
        if let Some(&written) = self.stale.get(&page)
            && lsn < written
        {
            if !self.made_anew.contains(page) {
                let what = format!(
                    "{page:?}: the file has an older version, of LSN {lsn}; the page had been written with LSN {written}"
                );
                return Err(Error::corrupt(&self.path, what));
            }
            bytes.fill(0);
            return Ok(None);
        }
        if (lsn >= self.end && lsn < self.begin) || lsn >= self.log.reserved_lsn().max(Lsn(1)) {
            let what = format!("{page:?} names LSN {lsn}, beyond the log's end at {}", self.end);
            return Err(Error::corrupt(&self.path, what));
        }
        Ok(None)
    }
}

/// A worker's window takes at most this part of the pool's memory. As much again may wait in the
/// queue.
const WINDOW_SHARE: usize = 16;
/// A window has at least this many chunks, however small it is.
const CHUNKS_MIN: usize = 4;
/// Pages that are read in one batch.
const BATCH_PAGES: usize = 64;

/// The input of the second pass.
pub(crate) struct Replay {
    pub(crate) pool: Arc<Pool>,
    pub(crate) log: Arc<Log>,
    pub(crate) epochs: Vec<EpochStart>,
    /// The checkpoint LSN.
    pub(crate) from: Lsn,
    /// Where the last group ends.
    pub(crate) end: Lsn,
    /// Redo that a worker collects in memory before it applies it to pages.
    pub(crate) window_bytes: usize,
    pub(crate) pages_path: PathBuf,
    /// Pages of which no image is needed.
    pub(crate) made_anew: MadeAnew,
    /// Is told up to which LSN all pages have been replayed. Until then the checkpoint must not
    /// pass that LSN, and no segment above it may be recycled.
    pub(crate) reached: Box<dyn Fn(Lsn) + Send + Sync>,
}

/// One change of one page.
#[derive(Clone, Copy, Debug)]
struct PageChange {
    page: PageNo,
    lsn: Lsn,
    prev: u64,
    /// Where in its chunk's bytes the op begins and ends.
    op: (u32, u32),
}

/// A chunk of the log, and each worker's changes in it. The thread that reads the chunk divides the
/// changes, because it has the bytes in its cache. A worker then reads only the bytes of its own
/// changes.
#[derive(Debug, Default)]
struct PartitionedChunk {
    chunk: LogChunk,
    changes: Vec<Vec<PageChange>>,
}

impl PartitionedChunk {
    fn partition(&mut self, workers: usize) {
        self.changes.resize_with(workers, Vec::new);
        self.changes.iter_mut().for_each(Vec::clear);
        for (lsn, records) in self.chunk.groups() {
            for record in Records::new(records).flatten() {
                let Record::Page { page, prev, op } = record else { continue };
                let start = self.chunk.offset_of(op);
                let op = (start as u32, (start + op.len()) as u32);
                self.changes[page.0 as usize % workers].push(PageChange { page, lsn, prev, op });
            }
        }
    }
}

/// The changes that a worker has collected.
#[derive(Debug, Default)]
struct ReplayWindow {
    chunks: Vec<Arc<PartitionedChunk>>,
    /// Page number, index of a chunk, index of a change in it. Sorted, this brings the changes of a
    /// page together, in order.
    order: Vec<(PageNo, u32, u32)>,
    /// Bytes of the chunks.
    bytes: usize,
}

impl ReplayWindow {
    fn gather(&mut self, partitioned: Arc<PartitionedChunk>, worker: usize) {
        let index = self.chunks.len() as u32;
        let changes = partitioned.changes[worker].iter().enumerate();
        self.order.extend(changes.map(|(n, change)| (change.page, index, n as u32)));
        self.bytes += partitioned.chunk.bytes().len();
        self.chunks.push(partitioned);
    }

    fn clear(&mut self, queue: &BoundedQueue<PartitionedChunk>) {
        self.chunks.drain(..).for_each(|partitioned| queue.give_back(partitioned));
        self.order.clear();
        self.bytes = 0;
    }
}

/// Applies all redo. Returns how many page changes were applied.
///
/// This thread reads and checks the log. Pages are divided among `workers` by number, so the
/// changes of one page are applied in order and no worker waits for another. Each worker collects
/// the changes of its own pages from a few megabytes of log, reads those pages in batches, and
/// applies all changes of a page under one latch. A group may span pages of several workers: that
/// does no harm, because all of it is applied before any other thread reads the pages.
pub(crate) fn replay(job: Replay, workers: usize) -> Result<u64> {
    base::check!(job.from <= job.end && workers > 0, "replay from {} to {}", job.from, job.end);
    let job = Arc::new(job);
    let queue = BoundedQueue::new(workers, job.window_bytes());
    let positions: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(job.from.0)).collect();
    let ending = EndOnDrop(Arc::clone(&queue));
    let mut others = Vec::new();
    let mut result = Ok(());
    for worker in 0..workers {
        let (job, queue, positions) = (Arc::clone(&job), Arc::clone(&queue), Arc::clone(&positions));
        match spawn("millpond-replay", move || job.work(worker, &queue, &positions)) {
            Ok(other) => others.push(other),
            Err(e) => {
                ending.0.abandon();
                result = Err(Error::io("start a thread for", Path::new("recovery"), e));
                break;
            }
        }
    }
    if result.is_ok() {
        result = job.read(&queue, workers);
    }
    drop(ending);
    let mut applied = Ok(0);
    for other in others {
        let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        applied = applied.and_then(|sum: u64| Ok(sum + theirs?));
    }
    result?;
    let applied = applied?;
    // From now on every page is as redo left it, and damage is an error.
    job.made_anew.0.lock().clear();
    Ok(applied)
}

/// Returns how much log a worker processes at once, bytes, if at most `most` is wanted.
fn window_bytes(most: usize, pool: &Pool) -> usize {
    most.min(pool.frame_count() * pool.page_bytes() / WINDOW_SHARE)
}

/// Returns about how much memory the replay of `redo_bytes` bytes of log takes beside the pool,
/// bytes: what is read ahead, what waits in the queue, and the workers' windows, which share their
/// chunks.
pub(crate) fn replay_memory(redo_bytes: u64, window_bytes_most: usize, pool: &Pool) -> u64 {
    redo_bytes.min((READ_AHEAD_BYTES + 2 * window_bytes(window_bytes_most, pool)) as u64)
}

impl Replay {
    fn read(&self, queue: &BoundedQueue<PartitionedChunk>, workers: usize) -> Result {
        let segments = self.log.segments();
        let mut scanner = Scanner::new(segments, &self.epochs, self.from).read_ahead()?;
        // The log beyond is of this run: a checkpoint may be logging its list already.
        while scanner.position() < self.end {
            let mut partitioned = queue.spare();
            if !partitioned.chunk.refill(&mut scanner, self.end, self.window_bytes() / CHUNKS_MIN)? {
                break;
            }
            partitioned.partition(workers);
            if !queue.put(partitioned) {
                // A worker failed, and returns the error.
                return Ok(());
            }
        }
        if scanner.position() == self.end {
            return Ok(());
        }
        let what = format!(
            "replay stopped at LSN {}, the first pass found the end of the last group at {}",
            scanner.position(),
            self.end
        );
        Err(Error::corrupt(segments.dir(), what))
    }

    fn work(
        &self,
        worker: usize,
        queue: &Arc<BoundedQueue<PartitionedChunk>>,
        positions: &[AtomicU64],
    ) -> Result<u64> {
        let abandoning = AbandonOnDrop::new(queue);
        let window_pages = (self.pool.frame_count() / (8 * positions.len())).max(1);
        let (mut window, mut applied) = (ReplayWindow::default(), 0);
        loop {
            // Apply what is collected rather than wait for the reader.
            let more = if window.bytes < self.window_bytes() { queue.try_take(worker) } else { None };
            if more.is_none() {
                applied += self.apply(&mut window, worker, window_pages)?;
                window.clear(queue);
            }
            let Some(partitioned) = more.or_else(|| queue.take(worker)) else { break };
            if window.order.is_empty() || planted(Bug::ReplayedEarly) {
                let before = positions[worker].swap(partitioned.chunk.from.0, Ordering::AcqRel);
                base::check!(before <= partitioned.chunk.from.0, "replay goes back from {before}");
                let all = positions.iter().map(|position| position.load(Ordering::Acquire)).min();
                (self.reached)(Lsn(all.unwrap_or(0)));
            }
            window.gather(partitioned, worker);
        }
        abandoning.defuse();
        Ok(applied)
    }

    /// Returns how much log a worker processes at once, bytes.
    fn window_bytes(&self) -> usize {
        window_bytes(self.window_bytes, &self.pool)
    }

    /// Applies a window's changes page by page.
    fn apply(&self, window: &mut ReplayWindow, worker: usize, window_pages: usize) -> Result<u64> {
        window.order.sort_unstable();
        let mut applied = 0;
        let by_page: Vec<_> = window.order.chunk_by(|a, b| a.0 == b.0).collect();
        let mut changes = Vec::new();
        for batch in by_page.chunks(BATCH_PAGES.min(window_pages)) {
            let pages: Vec<PageNo> = batch.iter().map(|page| page[0].0).collect();
            self.pool.fetch_many(&pages, FetchHint::Normal)?;
            for page in batch {
                changes.clear();
                changes.extend(page.iter().map(|&(_, chunk, change)| {
                    let partitioned = &window.chunks[chunk as usize];
                    let change = partitioned.changes[worker][change as usize];
                    (change, &partitioned.chunk.bytes()[change.op.0 as usize..change.op.1 as usize])
                }));
                applied += self.apply_to_page(&changes)?;
            }
        }
        Ok(applied)
    }

    /// Applies changes to a page. REQUIRES: all are of that page, in order.
    fn apply_to_page(&self, changes: &[(PageChange, &[u8])]) -> Result<u64> {
        let no = changes[0].0.page;
        base::verify!(changes.iter().all(|(change, _)| change.page == no), "changes of two pages");
        base::verify!(changes.is_sorted_by_key(|(change, _)| change.lsn), "changes of {no:?} out of order");
        let mut page = self.pool.fetch(no)?.write();
        let (mut applied, mut first_applied) = (0, None);
        for group in changes.chunk_by(|(a, _), (b, _)| a.lsn == b.lsn) {
            let lsn = group[0].0.lsn;
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
            let mut changed = false;
            for (change, op) in group {
                let Ok(op) = PageOp::decode(op) else {
                    return damaged("the record is not one".into());
                };
                let lacks_image = || before.0 & PREV_MASK != change.prev || header::is_blank(&page);
                if !op.is_init() && lacks_image() {
                    if !changed && self.made_anew.contains(no) {
                        // The image before it is lost, and a later record makes the page anew.
                        continue;
                    }
                    let expects = change.prev;
                    let what = format!(
                        "the page is at LSN {before}, the change expects …{expects}: a write was lost"
                    );
                    return damaged(what);
                }
                if let Err(damage) = op.apply(&mut page) {
                    return damaged(damage.to_string());
                }
                applied += 1;
                changed = true;
            }
            if !changed {
                continue;
            }
            base::verify!(
                lsn >= self.from && lsn < self.end,
                "replay at {lsn} of {}..{}",
                self.from,
                self.end
            );
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
