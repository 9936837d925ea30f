//! The second pass over the log, replay (the redo pass): applies every change to its page unless
//! the page has it already. It runs beside the callers, so it leaves alone what is not pending, and
//! a page may be ahead of it: a caller needed that page earlier.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, EndOnDrop, LogChunk};
use super::end::READ_AHEAD_BYTES;
use super::pending::Pending;
use crate::buffer::{FetchHint, PageWrite, Pool};
use crate::duty::spawn_engine;
use crate::error::{Error, Result};
use crate::log::group::{PREV_MASK, Record, Records};
use crate::log::reader::Scanner;
use crate::page::header;
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{Lsn, PageNo};
use std::path::Path;
use std::sync::Arc;

/// A worker's window takes at most this part of the pool's memory. As much again may wait in the
/// queue.
const WINDOW_SHARE: usize = 16;
/// A window has at least this many chunks, however small it is.
const CHUNKS_MIN: usize = 4;
/// Pages that are read in one batch.
const BATCH_PAGES: usize = 64;

/// Bits of the page number by which one pass of a sort goes.
const DIGIT_BITS: u32 = 11;

/// So many changes before its turn a change is brought into the processor's caches.
const LOOK_AHEAD: usize = 32;

/// The input of the second pass.
pub(crate) struct Replay {
    pub(crate) pool: Arc<Pool>,
    /// The pages that lack redo, and the log that has it.
    pub(crate) pending: Arc<Pending>,
    /// Below this LSN no page lacks redo.
    pub(crate) from: Lsn,
    /// Redo that a worker collects in memory before it applies it to pages.
    pub(crate) window_bytes: usize,
    /// Ends replay early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Is told up to which LSN all pages have been replayed. Until then the checkpoint must not
    /// pass that LSN, and no segment above it may be recycled.
    pub(crate) reached: Box<dyn Fn(Lsn) + Send + Sync>,
}

/// One change of one page.
#[derive(Clone, Copy, Debug)]
struct PageChange {
    page: PageNo,
    lsn: Lsn,
    /// Low bits of the LSN that it found on the page.
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
                self.changes[worker_of(page, workers)].push(PageChange { page, lsn, prev, op });
            }
        }
    }
}

/// Returns the worker that applies the redo of a page. Neighbours go to one worker, whose reads of
/// them the system can join.
fn worker_of(page: PageNo, workers: usize) -> usize {
    page.0 as usize / BATCH_PAGES % workers
}

/// The changes that a worker has collected.
#[derive(Debug, Default)]
struct ReplayWindow {
    chunks: Vec<Arc<PartitionedChunk>>,
    /// Once sorted, the changes of a page are together, in order.
    order: Vec<ChangePlace>,
    /// Memory for sorting.
    sorting: Vec<ChangePlace>,
    /// Bytes of the chunks.
    bytes: usize,
}

/// Where a change of a page is.
#[derive(Clone, Copy, Debug, Default)]
struct ChangePlace {
    page: PageNo,
    /// Index of its chunk.
    chunk: u32,
    /// Index among the worker's changes in that chunk.
    change: u32,
}

impl ReplayWindow {
    fn gather(&mut self, partitioned: Arc<PartitionedChunk>, worker: usize) {
        let index = self.chunks.len() as u32;
        let changes = partitioned.changes[worker].iter().enumerate();
        self.order.extend(changes.map(|(n, change)| ChangePlace {
            page: change.page,
            chunk: index,
            change: n as u32,
        }));
        self.bytes += partitioned.chunk.bytes().len();
        self.chunks.push(partitioned);
    }

    /// Sorts the changes by page. Those of a page keep their order.
    fn sort(&mut self) {
        let most = self.order.iter().map(|place| place.page.0).max().unwrap_or(0);
        self.sorting.resize(self.order.len(), ChangePlace::default());
        let mut shift = 0;
        while shift < u32::BITS && most >> shift > 0 {
            let digit = |place: &ChangePlace| (place.page.0 >> shift) as usize % (1 << DIGIT_BITS);
            let mut ends = [0usize; 1 << DIGIT_BITS];
            self.order.iter().for_each(|place| ends[digit(place)] += 1);
            let mut end = 0;
            for count in &mut ends {
                end += std::mem::replace(count, end);
            }
            for place in &self.order {
                let at = &mut ends[digit(place)];
                self.sorting[*at] = *place;
                *at += 1;
            }
            std::mem::swap(&mut self.order, &mut self.sorting);
            shift += DIGIT_BITS;
        }
    }

    /// Asks the processor for the memory of the changes that come soon after those from `from` on.
    /// Each of them is a miss of its caches otherwise.
    fn look_ahead(&self, worker: usize, from: usize, count: usize, pool: &Pool) {
        let place = |n: usize| self.order.get(n);
        for n in from..from + count {
            if let Some(far) = place(n + 2 * LOOK_AHEAD) {
                let changes = &self.chunks[far.chunk as usize].changes[worker];
                base::prefetch::to_read(&changes[far.change as usize..], 1);
            }
            if let Some(near) = place(n + LOOK_AHEAD) {
                base::prefetch::to_read(self.change(worker, near).1, 2);
                if place(n + LOOK_AHEAD - 1).is_none_or(|before| before.page != near.page) {
                    pool.prefetch(near.page);
                }
            }
        }
    }

    fn change(&self, worker: usize, place: &ChangePlace) -> (PageChange, &[u8]) {
        let partitioned = &self.chunks[place.chunk as usize];
        let change = partitioned.changes[worker][place.change as usize];
        (change, &partitioned.chunk.bytes()[change.op.0 as usize..change.op.1 as usize])
    }

    fn clear(&mut self, queue: &BoundedQueue<PartitionedChunk>) {
        self.chunks.drain(..).for_each(|partitioned| queue.give_back(partitioned));
        self.order.clear();
        self.bytes = 0;
    }
}

/// Applies all redo. Returns false if it was told to stop before. After an error or a stop another
/// replay may begin where this one has come to.
///
/// This thread reads and checks the log. Pages are divided among `workers` by number, so the
/// changes of one page are applied in order and no worker waits for another. Each worker collects
/// the changes of its own pages from a few megabytes of log, reads those pages in batches, and
/// applies all changes of a page under one latch. A group may span pages of several workers: that
/// does no harm, because no caller sees a page before it has all of its redo.
pub(crate) fn replay(job: Replay, workers: usize) -> Result<bool> {
    let (from, end) = (job.from, job.pending.end);
    base::check!(from <= end && workers > 0, "replay from {from} to {end}");
    let job = Arc::new(job);
    let queue = BoundedQueue::new(workers, job.window_bytes());
    let positions: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(from.0)).collect();
    let ending = EndOnDrop(Arc::clone(&queue));
    let mut others = Vec::new();
    let mut read = Ok(false);
    for worker in 0..workers {
        let (job, queue, positions) = (Arc::clone(&job), Arc::clone(&queue), Arc::clone(&positions));
        match spawn_engine("millpond-replay", move || job.work(worker, &queue, &positions)) {
            Ok(other) => others.push(other),
            Err(e) => {
                ending.0.abandon();
                read = Err(Error::io("start a thread for", Path::new("recovery"), e));
                break;
            }
        }
    }
    if read.is_ok() {
        read = job.read(&queue, workers);
    }
    drop(ending);
    let mut worked = Ok(());
    for other in others {
        let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        worked = worked.and(theirs);
    }
    let whole = read?;
    worked.map(|()| whole)
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
    /// Reads the log and deals it out. Returns whether all of it was dealt out.
    fn read(&self, queue: &BoundedQueue<PartitionedChunk>, workers: usize) -> Result<bool> {
        let Pending { log, epochs, end, .. } = &*self.pending;
        let (segments, end) = (log.segments(), *end);
        let mut scanner = Scanner::new(segments, epochs, self.from).read_ahead()?;
        // The log beyond is of this run.
        while scanner.position() < end {
            if self.stop.load(Ordering::Acquire) {
                queue.abandon();
                return Ok(false);
            }
            let mut partitioned = queue.spare();
            if !partitioned.chunk.refill(&mut scanner, end, self.window_bytes() / CHUNKS_MIN)? {
                break;
            }
            partitioned.partition(workers);
            if !queue.put(partitioned) {
                // A worker failed, and returns the error.
                return Ok(false);
            }
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
        queue: &Arc<BoundedQueue<PartitionedChunk>>,
        positions: &[AtomicU64],
    ) -> Result {
        let abandoning = AbandonOnDrop::new(queue);
        let window_pages = (self.pool.frame_count() / (8 * positions.len())).max(1);
        let mut window = ReplayWindow::default();
        loop {
            // A page is fetched, latched and copied once a window: a long one costs less.
            if window.bytes >= self.window_bytes() {
                self.apply(&mut window, worker, window_pages)?;
                window.clear(queue);
            }
            let Some(partitioned) = queue.take(worker) else { break };
            if window.order.is_empty() || planted(Bug::ReplayedEarly) {
                let before = positions[worker].swap(partitioned.chunk.from.0, Ordering::AcqRel);
                base::check!(before <= partitioned.chunk.from.0, "replay goes back from {before}");
                let all = positions.iter().map(|position| position.load(Ordering::Acquire)).min();
                (self.reached)(Lsn(all.unwrap_or(0)));
            }
            window.gather(partitioned, worker);
        }
        self.apply(&mut window, worker, window_pages)?;
        window.clear(queue);
        abandoning.defuse();
        Ok(())
    }

    /// Returns how much log a worker processes at once, bytes.
    fn window_bytes(&self) -> usize {
        window_bytes(self.window_bytes, &self.pool)
    }

    /// Applies a window's changes page by page.
    fn apply(&self, window: &mut ReplayWindow, worker: usize, window_pages: usize) -> Result {
        window.sort();
        let mut changes = Vec::new();
        let mut image = Vec::new();
        let mut batch = Vec::new();
        let mut rest = &window.order[..];
        let mut at = 0;
        while !rest.is_empty() {
            // The changes of the next pages, page by page.
            batch.clear();
            batch.extend(rest.chunk_by(|a, b| a.page == b.page).take(BATCH_PAGES.min(window_pages)));
            rest = &rest[batch.iter().map(|page| page.len()).sum()..];
            let pages = InReplay::begin(&self.pending, batch.iter().map(|page| page[0].page));
            self.pool.fetch_many(&pages.0, FetchHint::Replay)?;
            for page in &batch {
                window.look_ahead(worker, at, page.len(), &self.pool);
                at += page.len();
                if pages.0.binary_search(&page[0].page).is_err() {
                    continue;
                }
                changes.clear();
                changes.extend(page.iter().map(|place| window.change(worker, place)));
                self.apply_to_page(&changes, &mut image)?;
            }
        }
        Ok(())
    }

    /// Applies changes to a page. REQUIRES: all are of that page, in order.
    fn apply_to_page(&self, changes: &[(PageChange, &[u8])], image: &mut Vec<u8>) -> Result {
        let no = changes[0].0.page;
        base::verify!(changes.iter().all(|(change, _)| change.page == no), "changes of two pages");
        base::verify!(changes.is_sorted_by_key(|(change, _)| change.lsn), "changes of {no:?} out of order");
        let mut page = self.pool.fetch_with(no, FetchHint::Replay)?.write();
        if !page.is_behind() {
            return Ok(());
        }
        // A change that does not fit must leave nothing behind: a caller could complete the page.
        image.clear();
        image.extend_from_slice(&page);
        let mut first_applied = None;
        for group in changes.chunk_by(|(a, _), (b, _)| a.lsn == b.lsn) {
            let lsn = group[0].0.lsn;
            let mut apply = header::lsn(&page) < lsn || header::is_blank(&page);
            if planted(Bug::RedoSkips) && lsn.0.is_multiple_of(7) {
                apply = false;
            }
            if !apply {
                continue;
            }
            base::verify!(
                lsn >= self.from && lsn < self.pending.end,
                "replay at {lsn} of {}..{}",
                self.from,
                self.pending.end
            );
            if header::is_blank(&page) && !makes_anew(group) {
                return self.complete(page);
            }
            if let Err(error) = self.apply_group(&mut page, group) {
                page.copy_from_slice(image);
                return Err(error);
            }
            first_applied.get_or_insert(lsn);
        }
        if let Some(lsn) = first_applied {
            let last = header::lsn(&page);
            self.pool.mark_dirty(&page, lsn, last);
        }
        if self.pending.last(no).is_none_or(|last| header::lsn(&page) >= last) {
            page.completed();
        }
        Ok(())
    }

    /// Completes a page without an image, if a later change makes it anew.
    fn complete(&self, mut page: PageWrite<'_>) -> Result {
        let no = page.page_no();
        let last = self.pending.last(no);
        let chain = last.map(|last| self.pending.redo(no, last, None)).transpose()?.flatten();
        let chain = chain.ok_or_else(|| self.pending.no_image(no))?;
        let mut image = page.to_vec();
        let first = self.pending.apply(&chain, &mut image)?;
        page.copy_from_slice(&image);
        self.pool.mark_dirty(&page, first, header::lsn(&image));
        page.completed();
        Ok(())
    }

    /// Applies the changes of one group to their page. After an error the page may have a part of
    /// them.
    fn apply_group(&self, page: &mut PageWrite<'_>, group: &[(PageChange, &[u8])]) -> Result {
        let (PageChange { page: no, lsn, .. }, _) = group[0];
        let damaged = |what: String| {
            let what = format!("{no:?}, redo at LSN {lsn}: {what}");
            Err(Error::corrupt(&self.pending.pages_path, what))
        };
        let before = header::lsn(page);
        let mut anew = false;
        for (change, op) in group {
            let Ok(op) = PageOp::decode(op) else {
                return damaged("the record is not one".into());
            };
            anew |= op.is_init();
            if !anew && before.0 & PREV_MASK != change.prev {
                let expects = change.prev;
                let what =
                    format!("the page is at LSN {before}, the change expects …{expects}: a write was lost");
                return damaged(what);
            }
            if let Err(damage) = op.apply(page) {
                return damaged(damage.to_string());
            }
        }
        header::set_page_no(page, no);
        header::set_lsn(page, lsn);
        Ok(())
    }
}

/// Whether the first of the changes makes its page anew.
fn makes_anew(group: &[(PageChange, &[u8])]) -> bool {
    PageOp::decode(group[0].1).is_ok_and(|op| op.is_init())
}

/// Pages that are in replay until this is dropped.
struct InReplay<'p>(Vec<PageNo>, &'p Pending);

impl<'p> InReplay<'p> {
    fn begin(pending: &'p Pending, pages: impl Iterator<Item = PageNo>) -> InReplay<'p> {
        InReplay(pending.begin_replay(pages), pending)
    }
}

impl Drop for InReplay<'_> {
    fn drop(&mut self) {
        self.1.end_replay(&self.0);
    }
}
