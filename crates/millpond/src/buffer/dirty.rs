//! Pages become dirty, are copied for their file, and are clean again.
//!
//! A dirty page has a *first-dirty LSN* (recovery LSN): the start of the oldest change that its
//! file does not have. When a copy is taken for the file, this LSN moves to the *writing* slot. It
//! stays there until the copy is synced in place (To2). A change in the meantime sets the first
//! slot anew. The checkpoint must not pass the least LSN in either slot of any frame. While a copy
//! of a page is being written, no second one is taken, so no page is in two batches.
//!
//! The flags of the frame (`DIRTY`, `WRITING`) change under the mutex of the frame's shard of the
//! set. A holder of the exclusive latch sets `DIRTY`, and a holder of the shared latch clears it.
//! So a holder of the exclusive latch that sees it set may rely on it.

use crate::planted::{Bug, planted};
use base::sync::MutexGuard;
use base::sync::atomic::Ordering;
use base::{Lsn, PageNo};

use super::dirty_set::{DirtyFrames, LsnHistogram, SHARDS};
use super::frame::{DIRTY, NO_LSN, WRITING};
use super::guard::PageWrite;
use super::lsn_buckets::{Entry, ListPosition};
use super::pool::Pool;
use super::probe::PageProbe;

/// The most entries of a part that are read under its mutex at once, for a list of all.
const LIST_PIECE: usize = 64;

/// A copy of a page that is being written to the file. The page stays in memory and holds the
/// checkpoint back until [`Pool::flushed`] gets the ticket. If an error loses the ticket, it does
/// so for ever, which is right after a failed write.
#[derive(Debug)]
#[must_use]
pub(crate) struct FlushTicket {
    frame: u32,
    /// The page.
    pub(crate) page: PageNo,
    /// The start of the oldest change that the copy has and the file does not.
    pub(crate) first_dirty: Lsn,
}

impl Pool {
    /// Marks the page as changed from `first_dirty` to `last`. Of a mini-transaction both are the
    /// start of its group, which is not published yet. Only the mini-transaction and redo call
    /// this.
    #[inline]
    pub(crate) fn mark_dirty(&self, page: &PageWrite<'_>, first_dirty: Lsn, last: Lsn) {
        self.dirty_latched(page.pin().frame(), first_dirty, last);
    }

    /// As [`Pool::mark_dirty`], for a caller that holds the frame's exclusive latch in another way.
    #[inline]
    pub(super) fn dirty_latched(&self, index: u32, first_dirty: Lsn, last: Lsn) {
        let frame = self.frames().get(index);
        // Before the page is seen in the dirty set. Who finds a change published sees it here.
        frame.last.store(last.0, Ordering::Release);
        if frame.state() & DIRTY != 0 {
            return;
        }
        assert!(first_dirty.0 != NO_LSN);
        let mut sets = self.dirty.of(index);
        base::check!(
            frame.first_dirty.load(Ordering::Relaxed) == NO_LSN,
            "{:?} is clean and has a first-dirty LSN",
            frame.page_no()
        );
        // The changes in a copy are older than those that it does not have (To2).
        let copied = frame.writing.load(Ordering::Relaxed);
        base::check!(
            copied == NO_LSN || copied <= first_dirty.0,
            "{:?} has a copy that is newer than its first change",
            frame.page_no()
        );
        frame.first_dirty.store(first_dirty.0, Ordering::Relaxed);
        sets.insert_dirty(self.frames(), first_dirty, index);
        frame.set(DIRTY);
    }

    /// Returns the start of the oldest change that a page's file may not have; `None` if every page
    /// is as in its file. The checkpoint reads the published end of the log first and then this.
    pub(crate) fn min_first_dirty(&self) -> Option<Lsn> {
        let of_part = |sets: MutexGuard<'_, DirtyFrames>| {
            let copied = sets.min_writing().filter(|_| !planted(Bug::CheckpointIgnoresWriting));
            [sets.dirty.min(), copied].into_iter().flatten().min()
        };
        self.dirty.parts().filter_map(of_part).min()
    }

    /// Returns the pages that may differ from their file by a change below `lsn`, ascending, and
    /// the last change of each. That one may lie above `lsn`, and need not be published yet.
    pub(crate) fn dirty_below(&self, lsn: Lsn) -> Vec<(PageNo, Lsn)> {
        let frames = self.frames();
        // The frame of a page in one of the sets keeps it.
        let entry = |&(_, index): &Entry| {
            let frame = frames.get(index);
            (frame.page_no(), Lsn(frame.last.load(Ordering::Acquire)))
        };
        let mut pages = Vec::with_capacity(self.dirty_pages());
        // A part is listed in several pieces whatever the size of the pool.
        let piece = (self.frame_count() / (8 * SHARDS)).clamp(1, LIST_PIECE);
        // In pieces: writers need the mutex. A page that gets dirty meanwhile does so from `lsn`
        // on; one that leaves the first set enters the second.
        for part in self.dirty.shards.iter() {
            let mut at = ListPosition::default();
            loop {
                let sets = part.lock();
                if !sets.dirty.list(lsn, &mut at, piece, |found| pages.push(entry(&found))) {
                    pages.extend(sets.writing.iter().filter(|&&(first, _)| first < lsn).map(entry));
                    break;
                }
                drop(sets);
                base::sync::point();
            }
        }
        pages.sort_unstable();
        // A page is in both sets if it was changed after its copy was taken. The later LSN counts.
        pages.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        pages
    }

    /// Returns the start of the oldest change in a copy that is being written.
    pub(crate) fn min_writing(&self) -> Option<Lsn> {
        self.dirty.parts().filter_map(|sets| sets.min_writing()).min()
    }

    /// Returns the number of pages that differ from their file, apart from changes in a copy that
    /// is being written.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.parts().map(|sets| sets.dirty.len()).sum()
    }

    /// Returns the number of pages with a copy that is being written.
    pub(super) fn writing_pages(&self) -> usize {
        self.dirty.parts().map(|sets| sets.writing.len()).sum()
    }

    /// Returns the number of pages that differ, or may differ, from their file.
    pub(crate) fn differing_pages(&self) -> usize {
        let only = |frame: u32| self.frames().get(frame).state() & DIRTY == 0;
        let of_part = |sets: MutexGuard<'_, DirtyFrames>| {
            sets.dirty.len() + sets.writing.iter().filter(|&&(_, frame)| only(frame)).count()
        };
        self.dirty.parts().map(of_part).sum()
    }

    /// Counts dirty pages by ranges of first-dirty LSN: for each range its end and its pages,
    /// oldest first, without pages whose copy is being written. A range is at most `width` bytes of
    /// the log wide, and at least half of that.
    pub(crate) fn dirty_by_lsn(&self, width: u64, out: &mut Vec<(Lsn, u64)>) {
        let shift = width.max(1).ilog2();
        let mut all = LsnHistogram { shift, ..LsnHistogram::default() };
        for mut sets in self.dirty.parts() {
            sets.set_shift(self.frames(), shift);
            all.add_all(&sets.histogram);
        }
        out.clear();
        let end = |n: usize| Lsn((all.first + n as u64 + 1) << shift);
        out.extend(all.pages.iter().enumerate().map(|(n, pages)| (end(n), u64::from(*pages))));
    }

    /// Returns up to `max` dirty pages with first-dirty LSNs below `up_to`, oldest first, without
    /// pages whose copy is being written. If there are such pages, at least one.
    pub(crate) fn oldest_dirty(&self, up_to: Lsn, max: usize) -> Vec<(PageNo, Lsn)> {
        let frames = self.frames();
        // A part has about its share of them; twice as many leave little chance to miss some.
        let of_part = max / SHARDS * 2 + 8;
        let mut pages = Vec::new();
        // What lies from here on may not be the next oldest: some part has more that was not looked
        // at.
        let mut complete_to = up_to;
        for sets in self.dirty.parts() {
            let before = pages.len();
            for (end, entries) in sets.dirty.each() {
                let ready = |&&(lsn, index): &&Entry| lsn < up_to && frames.get(index).state() & WRITING == 0;
                let page = |&(lsn, index): &Entry| (frames.get(index).page_no(), lsn);
                pages.extend(entries.iter().filter(ready).map(page));
                if end >= up_to {
                    break;
                }
                if pages.len() >= before + of_part {
                    complete_to = complete_to.min(end);
                    break;
                }
            }
        }
        pages.retain(|&(_, lsn)| lsn < complete_to);
        pages.sort_unstable_by_key(|&(_, lsn)| lsn);
        pages.truncate(max);
        pages
    }

    /// Returns whether the page is in memory and dirty, and no copy of it is being written. Only a
    /// hint.
    pub(crate) fn wants_flush(&self, page: PageNo) -> bool {
        self.resident_state(page).is_some_and(|state| state & (DIRTY | WRITING) == DIRTY)
    }

    /// Copies a dirty page for its file, without waiting. Returns `None` if the page is not dirty,
    /// is not in memory, is latched for writing, or has a copy that is being written.
    pub(crate) fn copy_for_flush(&self, page: PageNo, copy: &mut [u8]) -> Option<FlushTicket> {
        // What a page lacks is still in the log: the checkpoint does not pass it.
        let (PageProbe::Resident(pin) | PageProbe::Incomplete(pin)) = PageProbe::of(self, page) else {
            return None;
        };
        let index = pin.frame();
        let latched = self.frames().try_share(index)?;
        let frame = self.frames().get(index);
        let first_dirty;
        {
            let mut sets = self.dirty.of(index);
            if frame.state() & (DIRTY | WRITING) != DIRTY {
                return None;
            }
            first_dirty = Lsn(frame.first_dirty.swap(NO_LSN, Ordering::Relaxed));
            base::check!(
                frame.writing.load(Ordering::Relaxed) == NO_LSN,
                "{page:?} has two copies under way"
            );
            frame.writing.store(first_dirty.0, Ordering::Relaxed);
            sets.remove_dirty(self.frames(), first_dirty, index);
            sets.writing.push((first_dirty, index));
            frame.change(DIRTY, WRITING);
        }
        copy.copy_from_slice(&latched);
        Some(FlushTicket { frame: index, page, first_dirty })
    }

    /// The planted mistake: forgets that a page differs from its file.
    pub(super) fn forget_dirty(&self, index: u32) {
        let mut sets = self.dirty.of(index);
        let frame = self.frames().get(index);
        if frame.state() & (DIRTY | WRITING) == DIRTY {
            let first_dirty = Lsn(frame.first_dirty.swap(NO_LSN, Ordering::Relaxed));
            sets.remove_dirty(self.frames(), first_dirty, index);
            frame.clear(DIRTY);
        }
    }

    /// Notes that the copies are written in place and synced.
    pub(crate) fn flushed(&self, tickets: Vec<FlushTicket>) {
        for ticket in tickets {
            let frame = self.frames().get(ticket.frame);
            let mut sets = self.dirty.of(ticket.frame);
            let entry = (ticket.first_dirty, ticket.frame);
            let place = sets.writing.iter().position(|written| *written == entry);
            sets.writing.swap_remove(place.expect("a copy is flushed once"));
            base::check!(
                frame.state() & WRITING != 0 && frame.page_no() == ticket.page,
                "{:?} left its frame during its write",
                ticket.page
            );
            frame.writing.store(NO_LSN, Ordering::Relaxed);
            frame.clear(WRITING);
        }
    }
}
