//! The second pass over the log, replay (the redo pass): applies every change to its page unless
//! the page has it already. It runs beside the callers, so it leaves alone what is not pending, and
//! a page may be ahead of it: a caller needed that page earlier.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, EndOnDrop, LogChunk};
use super::end::READ_AHEAD_BYTES;
use super::pending::Pending;
use crate::buffer::{FetchHint, PageWrite, Pool};
use crate::duty::spawn_engine;
use crate::error::{Error, Result};
use crate::log::group::{self, PREV_BYTES, PREV_MASK, Record, Records};
use crate::log::reader::Scanner;
use crate::page::header;
use crate::page::op::{PageOp, prefetch_entry};
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
/// Pages that are read in one batch. Many, because each batch may wait behind the reading of the
/// log.
const BATCH_PAGES: usize = 256;
/// So many neighbours go to one worker, whose reads of them the system can join.
const NEIGHBOURS: usize = 64;

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
    /// The log is read through the page cache: callers read it too.
    pub(crate) cached: bool,
    /// Ends replay early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Is told up to which LSN all pages have been replayed. Until then the checkpoint must not
    /// pass that LSN, and no segment above it may be recycled.
    pub(crate) reached: Box<dyn Fn(Lsn) + Send + Sync>,
}

/// One change of one page.
#[derive(Clone, Copy, Debug, Default)]
struct PageChange {
    page: PageNo,
    /// Index of its chunk in the window.
    chunk: u32,
    /// Where in the chunk's bytes the change begins and ends: `prev` and the op.
    bytes: (u32, u32),
    lsn: Lsn,
}

/// A change with its bytes.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    lsn: Lsn,
    /// Low bits of the LSN that it found on the page.
    prev: u64,
    op: &'a [u8],
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
                let Record::Page { page, op, .. } = record else { continue };
                let start = self.chunk.offset_of(op);
                let bytes = ((start - PREV_BYTES) as u32, (start + op.len()) as u32);
                self.changes[worker_of(page, workers)].push(PageChange { page, chunk: 0, bytes, lsn });
            }
        }
    }
}

/// Returns the worker that applies the redo of a page.
fn worker_of(page: PageNo, workers: usize) -> usize {
    page.0 as usize / NEIGHBOURS % workers
}

/// The changes that a worker has collected.
#[derive(Debug, Default)]
struct ReplayWindow {
    chunks: Vec<Arc<PartitionedChunk>>,
    /// Once sorted, the changes of a page are together, in order.
    order: Vec<PageChange>,
    /// Memory for sorting.
    sorting: Vec<PageChange>,
    /// Bytes of the chunks.
    bytes: usize,
}

impl ReplayWindow {
    fn gather(&mut self, partitioned: Arc<PartitionedChunk>, worker: usize) {
        let index = self.chunks.len() as u32;
        let changes = partitioned.changes[worker].iter();
        self.order.extend(changes.map(|change| PageChange { chunk: index, ..*change }));
        self.bytes += partitioned.chunk.bytes().len();
        self.chunks.push(partitioned);
    }

    /// Sorts the changes by page. Those of a page keep their order.
    fn sort(&mut self) {
        let most = self.order.iter().map(|place| place.page.0).max().unwrap_or(0);
        self.sorting.resize(self.order.len(), PageChange::default());
        let mut shift = 0;
        while shift < u32::BITS && most >> shift > 0 {
            let digit = |place: &PageChange| (place.page.0 >> shift) as usize % (1 << DIGIT_BITS);
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
    fn look_ahead(&self, from: usize, count: usize, pool: &Pool) {
        for n in from..from + count {
            let Some(change) = self.order.get(n + LOOK_AHEAD) else { break };
            base::prefetch::to_read(self.bytes(change), 2);
            if self.order[n + LOOK_AHEAD - 1].page != change.page {
                pool.prefetch(change.page);
            }
        }
    }

    fn bytes(&self, change: &PageChange) -> &[u8] {
        &self.chunks[change.chunk as usize].chunk.bytes()[change.bytes.0 as usize..change.bytes.1 as usize]
    }

    fn change(&self, change: &PageChange) -> Change<'_> {
        let (prev, op) = group::split_prev(self.bytes(change));
        Change { lsn: change.lsn, prev, op }
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
        if self.cached {
            scanner = scanner.cached();
        }
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
                window.look_ahead(at, page.len(), &self.pool);
                at += page.len();
                if pages.0.binary_search(&page[0].page).is_err() {
                    continue;
                }
                self.pending.make_way(worker);
                changes.clear();
                changes.extend(page.iter().map(|change| window.change(change)));
                self.apply_to_page(page[0].page, &changes, &mut image)?;
            }
        }
        Ok(())
    }

    /// Applies changes to a page. REQUIRES: all are of that page, in order.
    fn apply_to_page(&self, no: PageNo, changes: &[Change<'_>], image: &mut Vec<u8>) -> Result {
        base::verify!(changes.is_sorted_by_key(|change| change.lsn), "changes of {no:?} out of order");
        let mut page = self.pool.fetch_with(no, FetchHint::Replay)?.write();
        if !page.is_behind() {
            return Ok(());
        }
        // Each of them would be a miss of the processor's caches, one after the other.
        for change in changes {
            prefetch_entry(&page, change.op);
        }
        let mut first_applied = None;
        let mut applied = Ok(());
        for group in changes.chunk_by(|a, b| a.lsn == b.lsn) {
            let lsn = group[0].lsn;
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
            applied = self.apply_group(&mut page, group, image);
            if applied.is_err() {
                break;
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
        applied
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

    /// Applies the changes of one group to their page. An error leaves nothing of them behind: a
    /// caller could complete the page. `copy` is memory for a copy of the page.
    fn apply_group(&self, page: &mut PageWrite<'_>, group: &[Change<'_>], copy: &mut Vec<u8>) -> Result {
        let (no, lsn, before) = (page.page_no(), group[0].lsn, header::lsn(page));
        let mut copied = false;
        let mut anew = false;
        for (n, change) in group.iter().enumerate() {
            let applied =
                PageOp::decode(change.op).map_err(|_| "the record is not one".into()).and_then(|op| {
                    anew |= op.is_init();
                    if !anew && before.0 & PREV_MASK != change.prev {
                        let expects = change.prev;
                        return Err(format!(
                            "the page is at LSN {before}, the change expects …{expects}: a write was lost"
                        ));
                    }
                    // A refused op changes nothing.
                    if n == 0 && group.len() > 1 {
                        copy.clear();
                        copy.extend_from_slice(page);
                        copied = true;
                    }
                    op.apply(page).map_err(|damage| damage.to_string())
                });
            if let Err(what) = applied {
                if copied {
                    page.copy_from_slice(copy);
                }
                let what = format!("{no:?}, redo at LSN {lsn}: {what}");
                return Err(Error::corrupt(&self.pending.pages_path, what));
            }
        }
        header::set_page_no(page, no);
        header::set_lsn(page, lsn);
        Ok(())
    }
}

/// Whether the first of the changes makes its page anew.
fn makes_anew(group: &[Change<'_>]) -> bool {
    PageOp::decode(group[0].op).is_ok_and(|op| op.is_init())
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
