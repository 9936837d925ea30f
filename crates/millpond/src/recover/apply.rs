//! The second pass over the log, replay (the redo pass): applies every change to its page unless
//! the page has it already. It runs beside the callers, so it leaves alone what is not pending, and
//! a page may be ahead of it: a caller needed that page earlier.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, CloseOnDrop};
use super::first_pass::READ_AHEAD_BYTES;
use super::neighbour_reads::{NeighbourReads, all_fit};
use super::on_demand::pending::Pending;
use super::window::{ByPage, Change, ChangeRef, Shape, Window, memory_of};
use crate::buffer::{FetchHint, Pool, fetch_many};
use crate::error::{Error, Result};
use crate::log::group::PREV_MASK;
use crate::log::reader::Scanner;
use crate::page::header;
use crate::page::op::{PageOp, prefetch_entry};
use crate::planted::{Bug, planted};
use crate::role::spawn_engine;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{Lsn, PageNo};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A window takes at most this part (1/n) of the pool's memory.
const WINDOW_SHARE: usize = 16;
/// Windows that exist: one is being filled, one waits, and one is applied.
const WINDOWS: usize = 3;
/// The first window is so short, and each next one twice as long, up to the usual length: so pages
/// are being read while most of the log still is.
const FIRST_WINDOW_BYTES: usize = 8 << 20;
/// Log that is read before replay looks again whether it shall end, bytes.
const STEP_BYTES: usize = 1 << 20;
/// Pages that are read in one batch. Many, because each batch may wait behind the reading of the
/// log.
const BATCH_PAGES: usize = 256;
/// So many changes before its turn a change is brought into the processor's caches.
const PREFETCH_CHANGES: usize = 32;

/// The input of the second pass.
pub(crate) struct Replay {
    pub(crate) pool: Arc<Pool>,
    /// The pages that lack redo, and the log that has it.
    pub(crate) pending: Arc<Pending>,
    /// Below this LSN no page lacks redo.
    pub(crate) from: Lsn,
    /// The most redo that is divided by page before it is applied.
    pub(crate) window_bytes: usize,
    /// Ends replay early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Is told up to which LSN all pages have been replayed. Until then the checkpoint must not
    /// pass that LSN, and no segment above it may be recycled.
    pub(crate) reached: Box<dyn Fn(Lsn) + Send + Sync>,
}

/// Applies all redo. Returns false if it was told to stop before. After an error or a stop another
/// replay may begin where this one has come to.
///
/// This thread reads and checks the log, and divides the changes of a few megabytes, a window, by
/// page. A page belongs to one of `workers`, so its changes are applied in order and no worker
/// waits for another. Each worker reads its pages of a window in batches, and applies all changes
/// of a page under one latch. A group may span pages of several workers: that does no harm, because
/// no caller sees a page before it has all of its redo.
pub(crate) fn replay(job: Replay, workers: usize) -> Result<bool> {
    let (from, end) = (job.from, job.pending.end);
    base::check!(from <= end && workers > 0, "replay from {from} to {end}");
    let job = Arc::new(job);
    let shape = Shape::new(workers, job.window_bytes());
    let all_fit = all_fit(job.pending.count(), job.pool.frame_count());
    let queue = BoundedQueue::new(workers, WINDOWS - 2);
    let positions: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(from.0)).collect();
    let closing = CloseOnDrop(Arc::clone(&queue));
    let mut others = Vec::new();
    let mut read = Ok(false);
    for worker in 0..workers {
        let (job, queue, positions) = (Arc::clone(&job), Arc::clone(&queue), Arc::clone(&positions));
        match spawn_engine("millpond-replay", move || {
            job.work(worker, shape, NeighbourReads::new(all_fit), &queue, &positions)
        }) {
            Ok(other) => others.push(other),
            Err(e) => {
                closing.0.abandon();
                read = Err(Error::io("start a thread for", Path::new("recovery"), e));
                break;
            }
        }
    }
    if read.is_ok() {
        read = job.read(&queue, shape);
    }
    drop(closing);
    let mut worked = Ok(());
    for other in others {
        let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        worked = worked.and(theirs);
    }
    let whole = read?;
    worked.map(|()| whole)
}

/// Returns how much log a window has, bytes, if at most `most` is wanted.
fn window_bytes(most: usize, pool: &Pool) -> usize {
    most.min(pool.frame_count() * pool.page_bytes() / WINDOW_SHARE)
}

/// Returns about how much memory the replay of `redo_bytes` bytes of log takes beside the pool,
/// bytes: what is read ahead, and the windows.
pub(crate) fn replay_memory(redo_bytes: u64, window_bytes_most: usize, pool: &Pool) -> u64 {
    let window = memory_of(window_bytes(window_bytes_most, pool));
    redo_bytes.min((READ_AHEAD_BYTES + WINDOWS * window) as u64)
}

impl Replay {
    /// Reads the log and deals it out. Returns whether all of it was dealt out.
    fn read(&self, queue: &BoundedQueue<Window>, shape: Shape) -> Result<bool> {
        let Pending { log, epochs, end, .. } = &*self.pending;
        let (segments, end) = (log.segments(), *end);
        let mut scanner = Scanner::new(segments, epochs, self.from).read_ahead()?;
        let mut full = self.window_bytes().min(FIRST_WINDOW_BYTES);
        let mut more = true;
        while more {
            let mut window = queue.spare();
            window.begin(scanner.position(), shape);
            while more && window.log_bytes() < full as u64 {
                if self.stop.load(Ordering::Acquire) {
                    queue.abandon();
                    return Ok(false);
                }
                // The log beyond is of this run.
                more = window.read(&mut scanner, end, full.min(STEP_BYTES) as u64, shape)?;
            }
            if !queue.put(window) {
                // A worker failed, and returns the error.
                return Ok(false);
            }
            full = (2 * full).min(self.window_bytes());
        }
        if scanner.position() == end {
            return Ok(true);
        }
        let what = format!(
            "replay stopped at LSN {}, the first pass found the end of the last group at {end}",
            scanner.position()
        );
        Err(Error::corrupt(&segments.dir(), what))
    }

    fn work(
        &self,
        worker: usize,
        shape: Shape,
        mut reads: NeighbourReads,
        queue: &Arc<BoundedQueue<Window>>,
        positions: &[AtomicU64],
    ) -> Result {
        let abandoning = AbandonOnDrop::new(queue);
        let batch_pages = (self.pool.frame_count() / (8 * positions.len())).clamp(1, BATCH_PAGES);
        let mut by_page = ByPage::default();
        while let Some(window) = queue.take(worker) {
            let position = if planted(Bug::ReplayedEarly) { window.to } else { window.from };
            let before = positions[worker].swap(position.0, Ordering::AcqRel);
            base::check!(before <= position.0, "replay goes back from {before}");
            let all = positions.iter().map(|position| position.load(Ordering::Acquire)).min();
            (self.reached)(Lsn(all.unwrap_or(0)));
            for partition in shape.of_worker(worker) {
                let refs = by_page.sort(&window, partition, shape);
                self.apply(&window, refs, worker, &mut reads, batch_pages)?;
            }
            queue.give_back(window);
        }
        abandoning.defuse();
        Ok(())
    }

    /// Returns how much log a window has, bytes.
    fn window_bytes(&self) -> usize {
        window_bytes(self.window_bytes, &self.pool)
    }

    /// Applies changes of a window, sorted by page.
    fn apply(
        &self,
        window: &Window,
        refs: &[ChangeRef],
        worker: usize,
        reads: &mut NeighbourReads,
        batch_pages: usize,
    ) -> Result {
        let mut changes = Vec::new();
        let mut image = Vec::new();
        let (mut batch, mut wanted) = (Vec::new(), Vec::new());
        let mut by_page = refs.chunk_by(|a, b| a.page == b.page);
        let mut at = 0;
        loop {
            // The changes of the next pages, page by page.
            batch.clear();
            wanted.clear();
            while wanted.len() < batch_pages
                && let Some(page) = by_page.next()
            {
                batch.push(page);
                reads.want(page[0].page, &self.pending, &mut wanted);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let mine = InReplay::begin(&self.pending, worker, wanted.iter().copied());
            fetch_many(&self.pool, &mine.numbers, FetchHint::Replay)?;
            for page in &batch {
                self.prefetch(window, &refs[at..], page.len());
                at += page.len();
                if mine.numbers.binary_search(&page[0].page).is_err() {
                    continue;
                }
                changes.clear();
                changes.extend(page.iter().map(|change| window.change(*change)));
                self.apply_to_page(page[0].page, &changes, &mut image)?;
            }
        }
    }

    /// Asks the processor for the memory of the changes that come soon after the next `count`, and
    /// of their pages. Each of them is a miss of its caches otherwise.
    fn prefetch(&self, window: &Window, refs: &[ChangeRef], count: usize) {
        let from = PREFETCH_CHANGES.min(refs.len());
        let mut before = refs[from.saturating_sub(1)].page;
        for change in refs[from..].iter().take(count) {
            window.prefetch(*change);
            if before != change.page {
                self.pool.prefetch(change.page);
            }
            before = change.page;
        }
    }

    /// Applies changes to a page. REQUIRES: all are of that page, in order.
    fn apply_to_page(&self, no: PageNo, changes: &[Change<'_>], image: &mut Vec<u8>) -> Result {
        base::verify!(changes.is_sorted_by_key(|change| change.lsn), "changes of {no:?} out of order");
        let mut page = self.pool.fetch_with(no, FetchHint::Replay)?.write();
        if !page.is_incomplete() {
            return Ok(());
        }
        // Each of them would be a miss of the processor's caches, one after the other.
        for change in changes {
            prefetch_entry(&page, change.op);
        }
        let (first, applied) = self.apply_changes(no, &mut page, changes, image);
        if let Some(lsn) = first {
            let last = header::lsn(&page);
            self.pool.mark_dirty(&page, lsn, last);
        }
        match applied? {
            Redone::All => {
                let is_complete = |last| header::lsn(&page) >= last;
                if self.pending.last(no).is_none_or(is_complete) || planted(Bug::RedoSkips) {
                    page.completed();
                }
                Ok(())
            }
            // A later change may make it anew.
            Redone::NeedsOther => self.pool.complete(&page.unlatch()),
        }
    }

    /// Applies those of the changes that the page lacks. Also returns the LSN of the first.
    fn apply_changes(
        &self,
        no: PageNo,
        page: &mut [u8],
        changes: &[Change<'_>],
        copy: &mut Vec<u8>,
    ) -> (Option<Lsn>, Result<Redone>) {
        let mut first = None;
        for group in changes.chunk_by(|a, b| a.lsn == b.lsn) {
            let lsn = group[0].lsn;
            let blank = header::is_blank(page);
            if header::lsn(page) >= lsn && !blank || planted(Bug::RedoSkips) && lsn.0.is_multiple_of(7) {
                continue;
            }
            base::verify!(
                lsn >= self.from && lsn < self.pending.end,
                "replay at {lsn} of {}..{}",
                self.from,
                self.pending.end
            );
            if blank && !makes_anew(group) {
                return (first, Ok(Redone::NeedsOther));
            }
            match apply_group(no, page, group, copy) {
                Ok(()) => first = first.or(Some(lsn)),
                Err(Refused::OtherVersion) if !planted(Bug::AnewUnseen) => {
                    return (first, Ok(Redone::NeedsOther));
                }
                Err(refused) => {
                    let what = format!("{no:?}, redo at LSN {lsn}: {refused}");
                    return (first, Err(Error::corrupt(&self.pending.pages_path, what)));
                }
            }
        }
        (first, Ok(Redone::All))
    }
}

/// What became of a page's changes.
#[derive(Clone, Copy, Debug)]
enum Redone {
    All,
    /// The page has no image, or the next change needs another version of it. Either a write of the
    /// page was lost, or the last run made the page anew before replay came to it: then the
    /// checkpoint may lie in the middle of its older redo, which is not needed.
    NeedsOther,
}

/// Why the changes of a group are not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refused {
    /// They were made to another version of the page.
    OtherVersion,
    Damaged(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OtherVersion => write!(f, "the change expects another version of the page"),
            Refused::Damaged(what) => write!(f, "{what}"),
        }
    }
}

/// Applies the changes of one group to their page. An error leaves nothing of them behind: a caller
/// could complete the page. `copy` is memory for a copy of the page.
#[inline]
fn apply_group(
    no: PageNo,
    page: &mut [u8],
    group: &[Change<'_>],
    copy: &mut Vec<u8>,
) -> std::result::Result<(), Refused> {
    let before = header::lsn(page);
    let mut anew = false;
    if let [change] = group {
        // A refused change changes nothing.
        apply_change(page, before, change, &mut anew)?;
    } else {
        copy.clear();
        copy.extend_from_slice(page);
        for change in group {
            let applied = apply_change(page, before, change, &mut anew);
            if applied.is_err() {
                page.copy_from_slice(copy);
                return applied;
            }
        }
    }
    header::set_page_no(page, no);
    header::set_lsn(page, group[0].lsn);
    Ok(())
}

/// Applies a change to a page that had the LSN `before` before the change's group. `anew`: a change
/// of the group has made the page.
#[inline]
fn apply_change(
    page: &mut [u8],
    before: Lsn,
    change: &Change<'_>,
    anew: &mut bool,
) -> std::result::Result<(), Refused> {
    let op = PageOp::decode(change.op).map_err(|_| Refused::Damaged("the record is not one".into()))?;
    *anew |= op.is_init();
    if !*anew && before.0 & PREV_MASK != change.prev {
        return Err(Refused::OtherVersion);
    }
    let applied = if *anew { op.apply(page) } else { op.redo(page) };
    applied.map_err(|damage| Refused::Damaged(damage.to_string()))
}

/// Whether the first of the changes makes its page anew.
fn makes_anew(group: &[Change<'_>]) -> bool {
    PageOp::decode(group[0].op).is_ok_and(|op| op.is_init())
}

/// Pages that a worker works on until this is dropped.
struct InReplay<'p> {
    numbers: Arc<[PageNo]>,
    worker: usize,
    pending: &'p Pending,
}

impl<'p> InReplay<'p> {
    fn begin(pending: &'p Pending, worker: usize, pages: impl Iterator<Item = PageNo>) -> InReplay<'p> {
        InReplay { numbers: pending.begin_replay(worker, pages), worker, pending }
    }
}

impl Drop for InReplay<'_> {
    fn drop(&mut self) {
        self.pending.end_replay(self.worker);
    }
}
