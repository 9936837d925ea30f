//! The mini-transaction (mtr): the only way to change a page while the database runs.
//!
//! Before its first change it has room in the log for its redo. It holds the latches of the pages
//! that it changes and gathers one group of redo. At its end it
//! does this, in this order: it reserves the position of the group in the log, stamps the LSN on
//! its pages and adds them to the dirty list, copies and publishes the group, releases the latches.
//! So a thread that sees the published LSN beyond a group finds its pages in the dirty list (INV-5,
//! INV-6), and no latch is released before the redo is in the log buffer.
//!
//! Once it has changed a page it must be committed: a mini-transaction cannot be rolled back, and
//! half of one in memory could reach a file. Dropping it then aborts the process, because the
//! database can recover from a crash and not from a wrong page.

use crate::buffer::{FreeFrame, PageWrite, Pool};
use crate::error::Result;
use crate::log::group;
use crate::log::room::CREDIT_BYTES;
use crate::log::{Credit, Log, Room};
use crate::page::header;
use crate::page::op::PageOp;
use base::{Lsn, PageNo};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// The most redo that one mini-transaction may gather, bytes (Pa6).
pub(crate) const MTR_REDO_BYTES_MAX: usize = pace::constants::MTR_REDO_BYTES_MAX as usize;
const _: () = assert!(MTR_REDO_BYTES_MAX <= CREDIT_BYTES);

/// A page held by a mini-transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// Pages that a mini-transaction latches at most (Tr1).
pub(crate) const LATCHED_MAX: usize = 4;

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
    /// Room in the log for the redo. `None` once it is used.
    credit: Option<Credit<'s>>,
    dirty: bool,
}

thread_local! {
    /// The redo buffer of the last mini-transaction of this thread, so that most of them allocate
    /// nothing.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Bytes of redo that mini-transactions of this thread have logged.
    static LOGGED: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many bytes of redo the changes of pages by the calling thread have taken since it
/// began, in all databases: the difference around a call is what that call has written. Commits,
/// and what the database's own threads do later, are not in it.
///
/// ```
/// let db = millpond::Db::open_in_memory()?;
/// let table = db.create_table("t")?;
/// let mut tx = db.begin()?;
/// let before = millpond::redo_bytes_of_thread();
/// tx.insert(&table, b"ada", &[0; 1000])?;
/// assert!((1000..1200).contains(&(millpond::redo_bytes_of_thread() - before)));
/// # Ok::<(), millpond::Error>(())
/// ```
#[must_use]
pub fn redo_bytes_of_thread() -> u64 {
    LOGGED.try_with(Cell::get).unwrap_or(0)
}

impl<'s> Mtr<'s> {
    /// Begins an empty mini-transaction. Waits for room in the log. REQUIRES: no latch is held.
    pub(crate) fn begin(log: &'s Log, pool: &'s Pool) -> Result<Mtr<'s>> {
        Ok(Mtr::on(log.credit()?, log, pool))
    }

    /// As [`Mtr::begin`], for a caller that holds latches. `None`: the log has no room now. The
    /// caller then releases its latches, calls [`Log::await_credit`], and looks at its pages again.
    #[inline]
    pub(crate) fn try_begin(log: &'s Log, pool: &'s Pool) -> Option<Mtr<'s>> {
        Some(Mtr::on(log.try_credit()?, log, pool))
    }

    /// Begins with a page that was just allocated, zeroed. REQUIRES: no latch is held.
    pub(crate) fn begin_new(
        log: &'s Log,
        pool: &'s Pool,
        page: PageNo,
        frame: FreeFrame<'s>,
    ) -> Result<(Mtr<'s>, Slot)> {
        let mut free = frame;
        loop {
            let mut mtr = Mtr::begin(log, pool)?;
            match pool.try_create(page, free) {
                Ok(new) => {
                    let slot = mtr.add(new);
                    return Ok((mtr, slot));
                }
                Err(back) => free = back,
            }
            drop(mtr);
            pool.await_read(page);
        }
    }

    // Inlined, so that it is made where it is used: a move copies 200 bytes.
    #[inline(always)]
    fn on(credit: Credit<'s>, log: &'s Log, pool: &'s Pool) -> Mtr<'s> {
        let mut redo = SPARE.try_with(RefCell::take).unwrap_or_default();
        group::begin(&mut redo);
        Mtr { log, pool, pages: SmallVec::new(), redo, credit: Some(credit), dirty: false }
    }

    /// Adds a latched page.
    pub(crate) fn add(&mut self, page: PageWrite<'s>) -> Slot {
        base::verify!(self.find(page.page_no()).is_none(), "{:?} is latched twice", page.page_no());
        base::verify!(
            self.pages.len() < LATCHED_MAX,
            "a mini-transaction latches more than {} pages",
            LATCHED_MAX
        );
        // The header names the page, unless the page is new or redo has yet to make it.
        base::verify!(
            header::page_no(&page) == page.page_no() || header::is_blank(&page),
            "{:?} is where {:?} should be",
            header::page_no(&page),
            page.page_no()
        );
        let before = header::lsn(&page);
        self.pages.push(HeldPage { page, before, changed: false });
        Slot(self.pages.len() - 1)
    }

    /// Returns the slot of a page that was added before.
    pub(crate) fn find(&self, page: PageNo) -> Option<Slot> {
        self.pages.iter().position(|held| held.page.page_no() == page).map(Slot)
    }

    /// Returns the bytes of a held page.
    #[inline(always)]
    pub(crate) fn page(&self, slot: Slot) -> &[u8] {
        &self.pages[slot.0].page
    }

    /// Changes a held page and gathers the redo. REQUIRES: the change fits; the caller has checked
    /// that under the same latch.
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

    /// Ends the mini-transaction: logs its changes and releases its latches. Returns the LSN of the
    /// group.
    pub(crate) fn commit(mut self) -> Lsn {
        self.finish()
    }

    fn finish(&mut self) -> Lsn {
        if !self.dirty {
            return self.log.reserved_lsn();
        }
        base::verify!(self.redo.len() <= MTR_REDO_BYTES_MAX, "{} bytes of redo at once", self.redo.len());
        let _ = LOGGED.try_with(|logged| logged.set(logged.get() + self.redo.len() as u64));
        let (pool, pages) = (self.pool, &mut self.pages);
        let credit = self.credit.take().expect("it ends once");
        let lsn = self.log.append_in(Room::Lent(credit), &mut self.redo, |lsn| {
            for held in pages.iter_mut().filter(|held| held.changed) {
                let page_no = held.page.page_no();
                // In a poisoned database several groups have the same LSN, which never becomes
                // durable.
                base::verify!(held.before <= lsn, "{page_no:?} goes back from {} to {lsn}", held.before);
                header::set_page_no(&mut held.page, page_no);
                header::set_lsn(&mut held.page, lsn);
                pool.mark_dirty(&held.page, lsn, lsn);
            }
        });
        self.dirty = false;
        lsn
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if self.dirty {
            // If a panic has ended the simulated world, the thread stays here.
            base::sync::point();
            // A panic message, if there was one, has been printed by now.
            eprintln!("millpond: a mini-transaction ended half done; aborting so that recovery can undo it");
            std::process::abort();
        }
        let spare = std::mem::take(&mut self.redo);
        let _ = SPARE.try_with(|s| *s.borrow_mut() = spare);
    }
}
