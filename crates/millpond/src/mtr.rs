//! The mini-transaction: the only way to change a page while the database runs.
//!
//! It holds the latches of the pages it changes, gathers one group of redo, and at its end, in this order: reserves the
//! group's place in the log, stamps the LSN on its pages and enters them in the dirty list, copies and publishes the
//! group, releases the latches. So whoever sees the published LSN beyond a group finds its pages in the dirty list
//! (INV-5, INV-6), and no latch is free before the redo is in the log buffer.
//!
//! Once it has changed a page it must be committed: a mini-transaction has no way back, and half of one in memory could
//! reach a file. Dropping it then aborts the process, because a crash is recovered from and a wrong page is not.

use crate::buffer::{PageWrite, Pool};
use crate::log::Log;
use crate::log::group;
use crate::page::header;
use crate::page::op::PageOp;
use base::{Lsn, PageNo};
use smallvec::SmallVec;
use std::cell::RefCell;

/// The most redo that one mini-transaction may gather, bytes (Pa6).
pub(crate) const MTR_REDO_BYTES_MAX: usize = 64 << 10;

/// A page held by a mini-transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// Pages that a mini-transaction latches at most (Tr1).
const LATCHED_MAX: usize = 4;

struct HeldPage<'s> {
    page: PageWrite<'s>,
    /// Its LSN before this mini-transaction.
    before: Lsn,
    changed: bool,
}

/// A mini-transaction in progress.
pub(crate) struct Mtr<'s> {
    log: &'s Log,
    pool: &'s Pool,
    pages: SmallVec<[HeldPage<'s>; 4]>,
    redo: Vec<u8>,
    dirty: bool,
}

thread_local! {
    /// The buffer that the last mini-transaction of this thread left, so that the common one allocates nothing.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<'s> Mtr<'s> {
    /// An empty mini-transaction.
    pub(crate) fn begin(log: &'s Log, pool: &'s Pool) -> Mtr<'s> {
        let mut redo = SPARE.try_with(RefCell::take).unwrap_or_default();
        group::begin(&mut redo);
        Mtr { log, pool, pages: SmallVec::new(), redo, dirty: false }
    }

    /// Takes a latched page in.
    pub(crate) fn add(&mut self, page: PageWrite<'s>) -> Slot {
        base::verify!(self.find(page.page_no()).is_none(), "{:?} is latched twice", page.page_no());
        base::verify!(self.pages.len() < LATCHED_MAX, "a mini-transaction latches five pages");
        // What the header names is the page, unless it was just made, or redo has yet to make it.
        base::verify!(
            header::page_no(&page) == page.page_no() || header::is_blank(&page),
            "{:?} stands where {:?} should",
            header::page_no(&page),
            page.page_no()
        );
        let before = header::lsn(&page);
        self.pages.push(HeldPage { page, before, changed: false });
        Slot(self.pages.len() - 1)
    }

    /// The slot of a page that was taken in before.
    pub(crate) fn find(&self, page: PageNo) -> Option<Slot> {
        self.pages.iter().position(|held| held.page.page_no() == page).map(Slot)
    }

    /// The bytes of a held page.
    #[inline(always)]
    pub(crate) fn page(&self, slot: Slot) -> &[u8] {
        &self.pages[slot.0].page
    }

    /// Changes a held page and gathers the redo. The change must fit: the caller looked under the same latch.
    pub(crate) fn apply(&mut self, slot: Slot, op: &PageOp<'_>) {
        let held = &mut self.pages[slot.0];
        let page = held.page.page_no();
        let prev = if op.is_init() { 0 } else { held.before.0 & group::PREV_MASK };
        self.dirty = true;
        held.changed = true;
        group::put_page(&mut self.redo, page, prev, |out| op.encode(out));
        if let Err(damage) = op.apply(&mut held.page) {
            panic!("the change does not fit page {page}: {damage:?} ({op:?})");
        }
    }

    /// Ends the mini-transaction: logs what it did and releases its latches. Returns the group's LSN.
    pub(crate) fn commit(mut self) -> Lsn {
        self.finish()
    }

    fn finish(&mut self) -> Lsn {
        if !self.dirty {
            return self.log.reserved_lsn();
        }
        base::verify!(self.redo.len() <= MTR_REDO_BYTES_MAX, "{} bytes of redo at once", self.redo.len());
        let (pool, pages) = (self.pool, &mut self.pages);
        let lsn = self.log.append(&mut self.redo, |lsn| {
            for held in pages.iter_mut().filter(|held| held.changed) {
                let page_no = held.page.page_no();
                // Once poisoned, several have the LSN that never becomes durable.
                base::verify!(held.before <= lsn, "{page_no:?} goes back from {} to {lsn}", held.before);
                header::set_page_no(&mut held.page, page_no);
                header::set_lsn(&mut held.page, lsn);
                pool.mark_dirty(&held.page, lsn);
            }
        });
        self.dirty = false;
        lsn
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if self.dirty {
            // A simulated world that a panic has ended keeps this thread here.
            base::sync::point();
            // A panic message, if there was one, has been printed by now.
            eprintln!("millpond: a mini-transaction ended half done; aborting so that recovery can undo it");
            std::process::abort();
        }
        let spare = std::mem::take(&mut self.redo);
        let _ = SPARE.try_with(|s| *s.borrow_mut() = spare);
    }
}
