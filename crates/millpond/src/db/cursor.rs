//! [`Cursor`]: a position in a table, from which rows are read in both directions.
//!
//! A cursor reads by copying a run of rows of one leaf, then shows them one by one. The run is
//! valid for one snapshot and one state of the transaction's own changes, its [`RunStamp`]. After a
//! change the cursor seeks again, from the key of its last row.

use super::Transaction;
use super::fetch_size::FetchSize;
use super::isolation::{LockWait, RowLock};
use super::range::{half_open, owned_bound};
use crate::btree::read_chain;
use crate::error::{Error, Result};
use crate::lock::ScanStart;
use crate::mvcc::Snapshot;
use crate::table_handle::Table;
use crate::txn::read::{FoundRow, Value, after};
use crate::txn::scan::{Next, Progress, Rows, ScanRange};
use crate::txn::{LockingScan, ScanLocks};
use base::{Lsn, TxnId};
use std::ops::RangeBounds;

/// Rows that the first run after a seek copies.
const FIRST_RUN: u16 = 4;
/// From this length on a run is as long as its leaf.
const LONG_RUN: u16 = 256;
/// Where [`Cursor::seek`] looks for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek<'k> {
    /// The first row whose key is this one or greater.
    AtOrAfter(&'k [u8]),
    /// The first row whose key is greater.
    After(&'k [u8]),
    /// The last row whose key is this one or less.
    AtOrBefore(&'k [u8]),
    /// The last row whose key is less.
    Before(&'k [u8]),
    /// The first row.
    First,
    /// The last row.
    Last,
}

/// A position in a table. It owns what it needs, so it may be kept while the transaction changes
/// rows, and moved to another thread. Each call names the transaction that reads.
///
/// A cursor sees the transaction's own changes, also those made since its last call. It can be used
/// with one transaction after the other.
///
/// ```
/// # let db = millpond::Db::open_in_memory()?;
/// use millpond::{Cursor, Seek};
/// let table = db.create_table("t")?;
/// let mut tx = db.begin()?;
/// for key in [b"a", b"b", b"c"] {
///     tx.put(&table, key, b"1")?;
/// }
/// let mut cursor = Cursor::new(&table);
/// assert_eq!(cursor.seek(&mut tx, Seek::AtOrAfter(b"aa"))?, Some((&b"b"[..], &b"1"[..])));
/// tx.put(&table, b"bb", b"2")?; // the cursor stays
/// assert_eq!(cursor.next(&mut tx)?, Some((&b"bb"[..], &b"2"[..])));
/// assert_eq!(cursor.prev(&mut tx)?, Some((&b"b"[..], &b"1"[..])));
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor {
    table: Table,
    how: Reading,
    run: Run,
    /// The key of the present row; without one, the position between rows where the cursor is.
    key: Vec<u8>,
    /// The value of the present row, if it is not in the run.
    value: Vec<u8>,
    present: Present,
    /// The present row is not locked, because another transaction has it.
    peeked: bool,
    /// `key` is the key of a row of the run.
    key_in_run: bool,
}

/// How the program wants rows to be read.
#[derive(Clone, Debug)]
struct Reading {
    /// Rows have keys from here on, and below `upper`.
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    lock: Option<RowLock>,
    wait: LockWait,
    /// Rows that others have are shown as they were last committed.
    peeks: bool,
    /// By what plain reads see rows.
    view: CursorView,
    /// Rows that the first run copies.
    first_run: u16,
}

/// By what the plain reads of a cursor see rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorView {
    /// By the transaction's snapshot; and its own changes.
    Transaction,
    /// By the transaction's snapshot alone.
    Snapshot,
    /// By the present view, see `txn::overtaken`.
    Present,
}

/// Where the value of the present row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Present {
    /// The cursor has not been positioned.
    Nowhere,
    /// In the run, at this index.
    InRun(usize),
    /// In `Cursor::value`.
    Own,
}

/// Above the LSN of any snapshot.
const NO_SNAPSHOT: Lsn = Lsn(u64::MAX);

/// What must be as it was for a run to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunStamp {
    /// `NO_SNAPSHOT` if the transaction has none.
    snapshot: Lsn,
    txn: TxnId,
    writes: u64,
}

/// Copied rows, in the order of the scan.
#[derive(Debug, Default)]
struct Run {
    stamp: Option<RunStamp>,
    backward: bool,
    /// The snapshot that its rows were read by.
    snapshot_lsn: Lsn,
    /// Rows of a plain read.
    rows: Rows,
    /// Rows of a locking read.
    found: Vec<FoundRow>,
    locked: bool,
    /// The next row to show.
    at: usize,
    /// Where the table goes on after the run; none at the end.
    next: Option<Vec<u8>>,
    /// How many rows the next run copies, without locks.
    most: u16,
    /// How many rows the next run locks.
    fetch_size: FetchSize,
    progress: Progress,
    scan_start: ScanStart,
}

impl Run {
    fn len(&self) -> usize {
        if self.locked { self.found.len() } else { self.rows.len() }
    }
}

/// The part of a table that a cursor reads next.
struct Part {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    backward: bool,
}

impl Cursor {
    /// Returns a cursor of the whole table, for plain reads, that is not positioned yet.
    #[must_use]
    pub fn new(table: &Table) -> Cursor {
        Cursor {
            table: table.clone(),
            how: Reading {
                lower: Vec::new(),
                upper: None,
                lock: None,
                wait: LockWait::Wait,
                peeks: false,
                view: CursorView::Transaction,
                first_run: FIRST_RUN,
            },
            run: Run::default(),
            key: Vec::new(),
            value: Vec::new(),
            present: Present::Nowhere,
            peeked: false,
            key_in_run: false,
        }
    }

    /// Returns a cursor for plain reads of the rows that this one has, by another view.
    pub(super) fn with_view(&self, view: CursorView) -> Cursor {
        let how = Reading { lock: None, wait: LockWait::Wait, peeks: false, view, ..self.how.clone() };
        Cursor { how, ..Cursor::new(&self.table) }
    }

    /// Returns the cursor's table, and whether its reads lock rows.
    pub(super) fn reads(&self) -> (&Table, bool) {
        (&self.table, self.how.lock.is_some())
    }

    /// Returns whether the cursor has been positioned.
    pub(super) fn is_positioned(&self) -> bool {
        self.present != Present::Nowhere
    }

    /// Limits the cursor to keys in `range`. The present row is lost.
    pub fn set_bounds<'k>(&mut self, range: impl RangeBounds<&'k [u8]>) {
        self.reset();
        let bounds = half_open(owned_bound(range.start_bound()), owned_bound(range.end_bound()));
        // No key lies below the empty one.
        (self.how.lower, self.how.upper) = bounds.unwrap_or_else(|| (Vec::new(), Some(Vec::new())));
    }

    /// Sets the lock that the cursor takes on each row that it returns, and what it does if that
    /// lock is not free. Default: none. The present row is lost.
    pub fn set_lock(&mut self, lock: Option<RowLock>, wait: LockWait) {
        self.reset();
        (self.how.lock, self.how.wait) = (lock, wait);
    }

    /// Sets whether a cursor that locks waits for a row that another transaction has (the default),
    /// or shows it as it was last committed, without a lock. [`Cursor::is_peeked`] tells. A program
    /// that then wants the row locks it with [`Transaction::get_for_update`], which waits and may
    /// find another value. It has no effect where ranges are locked, and with another [`LockWait`]
    /// than [`LockWait::Wait`]. The present row is lost.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::{Cursor, Isolation, LockWait, RowLock, Seek, TxnOptions};
    /// # let mut tx = db.begin()?;
    /// # tx.put(&table, b"a", b"1")?;
    /// # tx.put(&table, b"b", b"1")?;
    /// # tx.commit()?;
    /// let mut other = db.begin()?;
    /// other.put(&table, b"a", b"2")?;
    ///
    /// let mut tx = db.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted))?;
    /// let mut cursor = Cursor::new(&table);
    /// cursor.set_lock(Some(RowLock::Exclusive), LockWait::Wait);
    /// cursor.set_peeks(true);
    /// assert_eq!(cursor.seek(&mut tx, Seek::First)?, Some((&b"a"[..], &b"1"[..])));
    /// assert!(cursor.is_peeked());
    /// cursor.next(&mut tx)?;
    /// assert!(!cursor.is_peeked());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    pub fn set_peeks(&mut self, peeks: bool) {
        self.reset();
        self.how.peeks = peeks;
    }

    /// Returns whether the present row is shown as it was last committed, and is not locked, see
    /// [`Cursor::set_peeks`].
    #[must_use]
    pub fn is_peeked(&self) -> bool {
        self.peeked
    }

    /// Tells the cursor about how many rows will be read after a seek. A hint: more can be read.
    pub fn expect_rows(&mut self, rows: usize) {
        self.how.first_run = u16::try_from(rows.max(1)).unwrap_or(u16::MAX);
    }

    /// Forgets the position and the copied rows.
    pub fn reset(&mut self) {
        self.present = Present::Nowhere;
        self.key.clear();
        self.key_in_run = false;
        self.run.stamp = None;
    }

    /// Goes to a row, and returns its key and its value; `None` if there is no such row.
    ///
    /// # Errors
    /// As [`Transaction::get`], and for a cursor that locks as [`Transaction::get_for_update`].
    pub fn seek(&mut self, tx: &mut Transaction, to: Seek<'_>) -> Result<Option<(&[u8], &[u8])>> {
        self.reset();
        let (key, backward) = match to {
            Seek::AtOrAfter(key) => (key.to_vec(), false),
            Seek::After(key) => (after(key), false),
            Seek::AtOrBefore(key) => (after(key), true),
            Seek::Before(key) => (key.to_vec(), true),
            Seek::First => (self.how.lower.clone(), false),
            Seek::Last => (Vec::new(), true),
        };
        let part = match backward {
            false => Part { from: key.max(self.how.lower.clone()), to: self.how.upper.clone(), backward },
            true => {
                let end = (to != Seek::Last).then_some(key);
                let to = match (end, &self.how.upper) {
                    (Some(end), Some(upper)) => Some(end.min(upper.clone())),
                    (end, upper) => end.or_else(|| upper.clone()),
                };
                Part { from: self.how.lower.clone(), to, backward }
            }
        };
        self.key.clone_from(if backward { part.to.as_ref().unwrap_or(&part.from) } else { &part.from });
        (self.run.most, self.run.fetch_size, self.run.locked) =
            (self.how.first_run, FetchSize::default(), false);
        (self.run.scan_start, self.run.progress) = (ScanStart::default(), Progress::default());
        let Some(_held) = self.fill(tx, backward, Some(part))? else { return Ok(None) };
        self.show_first(tx)?;
        Ok(Some(self.present()))
    }

    /// Goes to the next row in key order, and returns its key and its value. `None` if there is
    /// none; then the cursor stays where it is. A cursor that is not positioned goes to the first
    /// row.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn next(&mut self, tx: &mut Transaction) -> Result<Option<(&[u8], &[u8])>> {
        self.step(tx, false)
    }

    /// Goes to the row before in key order, and returns its key and its value. `None` if there is
    /// none; then the cursor stays where it is. A cursor that is not positioned goes to the last
    /// row.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn prev(&mut self, tx: &mut Transaction) -> Result<Option<(&[u8], &[u8])>> {
        self.step(tx, true)
    }

    #[inline]
    fn step(&mut self, tx: &mut Transaction, backward: bool) -> Result<Option<(&[u8], &[u8])>> {
        let _held = if !tx.aborted.get() && self.goes_on(tx, backward) {
            tx.check_cancelled()?;
            None
        } else if self.present == Present::Nowhere {
            return self.seek(tx, if backward { Seek::Last } else { Seek::First });
        } else {
            let Some(held) = self.fill(tx, backward, None)? else { return Ok(None) };
            held
        };
        self.show(tx)?;
        Ok(Some(self.present()))
    }

    /// Returns whether the run has the next row.
    #[inline]
    fn goes_on(&self, tx: &Transaction, backward: bool) -> bool {
        let run = &self.run;
        run.at < run.len() && run.backward == backward && run.stamp == Some(RunStamp::of(tx))
    }

    /// Returns the present row. REQUIRES: there is one.
    #[inline]
    pub(super) fn present(&self) -> (&[u8], &[u8]) {
        let value = match self.present {
            Present::InRun(n) => self.run.rows.value(n),
            Present::Own | Present::Nowhere => &self.value,
        };
        (&self.key, value)
    }

    /// Copies rows until the run has the next one. `part` is where a seek begins. Returns `None` if
    /// there is no row; else the snapshot of this call, which must be held until the row is shown,
    /// if there is one.
    #[cold]
    fn fill(
        &mut self,
        tx: &Transaction,
        backward: bool,
        part: Option<Part>,
    ) -> Result<Option<Option<Snapshot>>> {
        if tx.aborted.get() {
            return Err(Error::Aborted);
        }
        tx.check_cancelled()?;
        let mut part = part;
        let mut held = None;
        loop {
            self.pass_other_writes(tx);
            if part.is_none() && self.run.backward == backward && self.run.stamp == Some(RunStamp::of(tx)) {
                if self.run.at < self.run.len() {
                    return Ok(Some(held));
                }
                let Some(boundary) = self.run.next.take() else { return Ok(None) };
                part = Some(match backward {
                    false => Part { from: boundary, to: self.how.upper.clone(), backward },
                    true => Part { from: self.how.lower.clone(), to: Some(boundary), backward },
                });
            }
            let part = part.take().unwrap_or_else(|| match backward {
                false => Part { from: after(&self.key), to: self.how.upper.clone(), backward },
                true => Part { from: self.how.lower.clone(), to: Some(self.key.clone()), backward },
            });
            if part.to.as_ref().is_some_and(|to| *to <= part.from) {
                // The bounds enclose no key: an empty run, at the end.
                self.run.stamp = None;
                return Ok(None);
            }
            held = self.fetch(tx, &part)?.or(held);
        }
    }

    /// Keeps the run if the transaction has changed only rows of other tables since it was copied.
    fn pass_other_writes(&mut self, tx: &Transaction) {
        if self.how.view == CursorView::Transaction
            && let Some(stamp) = &mut self.run.stamp
            && tx.last_write(self.table.entry.tree.id) <= stamp.writes
        {
            stamp.writes = tx.writes;
        }
    }

    /// [`Cursor::show`] for the first row, apart so that the other rows are shown without a call.
    #[inline(never)]
    fn show_first(&mut self, tx: &Transaction) -> Result {
        self.show(tx)
    }

    /// Makes the row at `run.at` the present one. Always inlined: a call takes a tenth of the work.
    #[inline(always)]
    fn show(&mut self, tx: &Transaction) -> Result {
        let n = self.run.at;
        self.run.at += 1;
        tx.count_row_shown();
        if self.run.locked {
            return self.show_locked(tx, n);
        }
        self.peeked = false;
        let in_row = self.run.rows.show(n, &mut self.key, self.key_in_run);
        self.key_in_run = true;
        self.present = Present::InRun(n);
        if in_row { Ok(()) } else { self.load_value(tx, n) }
    }

    /// Makes a row of a locking read the present one.
    #[inline(never)]
    fn show_locked(&mut self, tx: &Transaction, n: usize) -> Result {
        let Run { found, progress, .. } = &mut self.run;
        let txns = &tx.core().engine.txns;
        let FoundRow { key, value, peeked } = &mut found[n];
        self.peeked = *peeked;
        std::mem::swap(&mut self.key, key);
        self.present = Present::Own;
        match std::mem::replace(value, Value::Inline(Vec::new())) {
            Value::Inline(value) => self.value = value,
            chain @ Value::Chain(_) => {
                let _inside = tx.enter()?;
                self.value = chain.load(&txns.store, progress.hint(&txns.store.pool))?;
            }
        }
        Ok(())
    }

    /// Reads the long value of the run's row `n`.
    #[cold]
    fn load_value(&mut self, tx: &Transaction, n: usize) -> Result {
        let Run { rows, progress, snapshot_lsn, .. } = &mut self.run;
        let txns = &tx.core().engine.txns;
        let chain = rows.chain(&txns.store, n)?;
        let _inside = tx.enter()?;
        progress.pass(&chain, &txns.store.pool);
        self.value.clear();
        let hint = progress.hint(&txns.store.pool);
        let read = read_chain(&txns.store, &chain, hint, &mut self.value);
        txns.versions.check_not_expired(*snapshot_lsn, read)?;
        self.present = Present::Own;
        Ok(())
    }

    /// Copies the next rows of `part`. Returns a snapshot to be held until they have been shown.
    fn fetch(&mut self, tx: &Transaction, part: &Part) -> Result<Option<Snapshot>> {
        self.run.stamp = None;
        self.key_in_run = false;
        tx.publish_rows_shown();
        let held = match self.locks(tx) {
            Some(locks) => self.fetch_locked(tx, part, locks).map(|()| None),
            None => self.fetch_plain(tx, part),
        }?;
        tx.wait_reads_durable()?;
        let run = &mut self.run;
        (run.at, run.backward, run.stamp) = (0, part.backward, Some(RunStamp::of(tx)));
        Ok(held)
    }

    /// Returns the locks that the cursor takes; none for a plain read by a snapshot.
    fn locks(&self, tx: &Transaction) -> Option<ScanLocks> {
        match self.how.lock {
            Some(lock) => {
                let range = tx.options.locks_gaps() && self.how.wait != LockWait::SkipLocked;
                Some(ScanLocks { rows: Some(lock.mode()), range })
            }
            None => tx.locks_reads().then_some(ScanLocks { rows: None, range: true }),
        }
    }

    fn fetch_plain(&mut self, tx: &Transaction, part: &Part) -> Result<Option<Snapshot>> {
        let (_inside, tree) = tx.enter_to_read(&self.table)?;
        let (run, txns) = (&mut self.run, &tx.core().engine.txns);
        let (snapshot_lsn, held) = match self.how.view {
            CursorView::Transaction | CursorView::Snapshot => tx.read_position(),
            CursorView::Present => (tx.txn().present_lsn(&txns.versions), None),
        };
        let own = match self.how.view {
            CursorView::Transaction | CursorView::Present => tx.txn().id(),
            CursorView::Snapshot => TxnId::NONE,
        };
        let view = txns.versions.view(snapshot_lsn, own);
        let range = ScanRange { tree, from: &part.from, to: part.to.as_deref() };
        run.progress.most = match &held {
            // The rows of a run are shown by later calls, which the snapshot does not reach.
            Some(_) => Some(1),
            None => Some(run.most).filter(|&most| most < LONG_RUN),
        };
        run.most = run.most.saturating_mul(2);
        let reader = txns.reader(tx.txn(), view);
        let read = match part.backward {
            true => reader.scan_backward(range, &mut run.progress, &mut run.rows),
            false => reader.scan_forward(range, &mut run.progress, &mut run.rows),
        };
        run.next = boundary(txns.versions.check_not_expired(snapshot_lsn, read)?);
        (run.snapshot_lsn, run.locked) = (snapshot_lsn, false);
        Ok(held)
    }

    fn fetch_locked(&mut self, tx: &Transaction, part: &Part, locks: ScanLocks) -> Result {
        if self.how.lock.is_some() {
            tx.writable()?;
        }
        let (_inside, tree) = tx.enter_to_read(&self.table)?;
        let peeks = self.how.peeks && self.how.wait == LockWait::Wait && !locks.range;
        let rules = tx.rules_with(if peeks { LockWait::SkipLocked } else { self.how.wait });
        let (run, txns) = (&mut self.run, &tx.core().engine.txns);
        if run.locked {
            run.fetch_size.note_shown(run.at);
        }
        // Without a range a row is locked when it is returned and not before.
        let max = if locks.range { run.fetch_size.rows(locks.rows.is_some()) } else { 1 };
        run.found.clear();
        (run.at, run.locked) = (0, false);
        txns.owner(tx.txn()).expect_new_lock();
        let how = LockingScan { locks, rules, backward: part.backward, max, peeks };
        let range = ScanRange { tree, from: &part.from, to: part.to.as_deref() };
        let (since, ahead) = (&mut run.scan_start, &mut run.progress.ahead);
        let read = txns.row_locks().lock_range(tx.txn(), range, how, since, ahead, &mut run.found);
        run.next = boundary(tx.roll_back_if_required(txns.versions.check_rules_not_expired(rules, read))?);
        run.fetch_size.note_fetched(run.found.len());
        run.locked = true;
        Ok(())
    }
}

impl RunStamp {
    #[inline]
    pub(super) fn of(tx: &Transaction) -> RunStamp {
        RunStamp {
            snapshot: tx.txn().snapshot.lsn().unwrap_or(NO_SNAPSHOT),
            txn: tx.txn().id(),
            writes: tx.writes,
        }
    }
}

fn boundary(next: Next) -> Option<Vec<u8>> {
    match next {
        Next::At(key) => Some(key),
        Next::End => None,
    }
}
