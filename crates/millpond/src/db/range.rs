//! [`Range`]: an iterator over rows in key order, from both ends.

use super::Transaction;
use crate::btree::Tree;
use crate::error::Result;
use crate::lock::ScanStart;
use crate::mvcc::Snapshot;
use crate::table_handle::Table;
use crate::txn::read::{FoundRow, Value};
use crate::txn::scan::{Next, Progress, Rows, ScanRange};
use crate::txn::{LockingScan, Rules, ScanLocks};
use base::Lsn;
use base::sync::ProcessStamp;
use metrics::M;
use std::collections::VecDeque;
use std::mem::forget;
use std::ops::{Bound, RangeBounds};

/// The rows of a key range in key order, as the transaction sees them; `next` takes from the front,
/// `next_back` from the end. After an error it yields no more rows. The transaction cannot change
/// rows while the range is in use: the range borrows it.
#[derive(Debug)]
pub struct Range<'t> {
    transaction: &'t Transaction,
    tree: Tree,
    reads: ReadMode,
    /// How many rows the next fetch locks at most.
    fetch_size: usize,
    /// How many rows it has locked.
    locked: usize,
    /// The keys that are not fetched yet: `from` inclusive, `to` exclusive (`None`: the end of the
    /// tree).
    unread: Option<(Vec<u8>, Option<Vec<u8>>)>,
    front: VecDeque<FoundRow>,
    /// In descending key order.
    back: VecDeque<FoundRow>,
    /// The rows of one fetch from a snapshot.
    rows: Rows,
    /// The rows of one fetch, on their way to `front` or `back`.
    batch: Vec<FoundRow>,
    /// When the scan began, if it locks rows.
    scan_start: ScanStart,
    progress: Progress,
}

/// How a range reads its rows.
#[derive(Debug)]
pub(super) enum ReadMode {
    /// From a snapshot. The snapshot of a single statement is held as long as the range.
    Snapshot(Lsn, #[expect(dead_code, reason = "held, not read")] Option<HeldSnapshot>),
    /// The newest rows, locked.
    Locked(ScanLocks, Rules),
}

/// A snapshot that is not dropped in a child made by `fork`: another thread may have held the mutex
/// that this takes.
#[derive(Debug)]
pub(super) struct HeldSnapshot {
    snapshot: Option<Snapshot>,
    process: ProcessStamp,
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        if !self.process.is_here() {
            forget(self.snapshot.take());
        }
    }
}

/// The most rows that one fetch locks. Only range locks are taken before the rows are asked for;
/// row locks are not.
const FETCH_SIZE_MAX: usize = 64;
/// A range that was asked to lock its rows locks so many one by one.
const LOCK_ALONE: usize = 64;

impl ReadMode {
    pub(super) fn snapshot((snapshot_lsn, statement): (Lsn, Option<Snapshot>)) -> ReadMode {
        let held = |snapshot| HeldSnapshot { snapshot: Some(snapshot), process: ProcessStamp::here() };
        ReadMode::Snapshot(snapshot_lsn, statement.map(held))
    }

    /// The newest rows, under a range lock: a plain read of a serializable transaction.
    pub(super) fn serializable(rules: Rules) -> ReadMode {
        ReadMode::Locked(ScanLocks { rows: None, range: true }, rules)
    }
}

/// Copies a bound.
pub(super) fn owned_bound(bound: Bound<&&[u8]>) -> Bound<Vec<u8>> {
    bound.map(|key| key.to_vec())
}

/// Turns bounds into a first key and an exclusive end (none: the end of the tree). Returns `None`
/// if no key can lie between them.
pub(super) fn half_open(from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let from = match from {
        Bound::Included(key) => key,
        Bound::Excluded(key) => successor(key),
        Bound::Unbounded => Vec::new(),
    };
    let to = match to {
        Bound::Included(key) => Some(successor(key)),
        Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    let empty = to.as_ref().is_some_and(|to| *to <= from);
    (!empty).then_some((from, to))
}

/// Returns the least key that is greater than `key`.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

impl Transaction {
    /// Returns an iterator over the rows whose keys lie in `range`, in key order, from both ends.
    /// The bounds are copied.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// # let mut tx = db.begin()?;
    /// for key in [b"a1", b"a2", b"b1", b"b2"] {
    ///     tx.put(&table, key, b"")?;
    /// }
    /// let keys = |range: millpond::Range<'_>| -> millpond::Result<Vec<Vec<u8>>> {
    ///     range.map(|row| row.map(|(key, _)| key)).collect()
    /// };
    /// assert_eq!(keys(tx.range(&table, ..)?)?.len(), 4);
    /// assert_eq!(keys(tx.range(&table, &b"a2"[..]..&b"b2"[..])?)?, [b"a2", b"b1"]);
    /// // All keys that begin with b, or come later:
    /// assert_eq!(keys(tx.range(&table, &b"b"[..]..)?)?, [b"b1", b"b2"]);
    /// let last = tx.range(&table, ..)?.next_back().transpose()?;
    /// assert_eq!(last, Some((b"b2".to_vec(), Vec::new())));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; each item may fail by itself, and the range ends after an error.
    pub fn range<'k>(&self, table: &Table, range: impl RangeBounds<&'k [u8]>) -> Result<Range<'_>> {
        let reads = || match self.locks_reads() {
            true => ReadMode::serializable(self.rules()),
            false => ReadMode::snapshot(self.read_position()),
        };
        Range::new(self, table, (owned_bound(range.start_bound()), owned_bound(range.end_bound())), reads)
    }
}

impl<'t> Range<'t> {
    /// Begins a range. `reads` is called when the table is in use.
    pub(super) fn new(
        transaction: &'t Transaction,
        table: &Table,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reads: impl FnOnce() -> ReadMode,
    ) -> Result<Range<'t>> {
        let (_inside, tree) = transaction.enter_to_read(table)?;
        let reads = reads();
        Ok(Range {
            transaction,
            tree,
            reads,
            fetch_size: 1,
            locked: 0,
            unread: half_open(from, to),
            front: VecDeque::new(),
            back: VecDeque::new(),
            rows: Rows::default(),
            batch: Vec::new(),
            scan_start: ScanStart::default(),
            progress: Progress::default(),
        })
    }

    /// Fetches the rows of the next leaf, from the front or from the back.
    fn fetch(&mut self, backward: bool) -> Result {
        let Some((from, to)) = self.unread.take() else { return Ok(()) };
        let _inside = self.transaction.enter()?;
        let (txns, txn) = (&self.transaction.core().engine.txns, self.transaction.txn());
        let range = ScanRange { tree: self.tree, from: &from, to: to.as_deref() };
        let out = &mut self.batch;
        out.clear();
        let next = match self.reads {
            ReadMode::Snapshot(snapshot_lsn, _) => {
                let reader = txns.reader(txn, txns.versions.view(snapshot_lsn, txn.id()));
                let rows = &mut self.rows;
                let read = match backward {
                    true => reader.scan_backward(range, &mut self.progress, rows),
                    false => reader.scan_forward(range, &mut self.progress, rows),
                };
                let next = txns.versions.check_not_expired(snapshot_lsn, read)?;
                for row in rows.iter(&txns.store) {
                    let (key, value) = row?;
                    let (key, value) = (key.to_vec(), value.to_owned());
                    out.push(FoundRow { key, value, peeked: false });
                }
                next
            }
            ReadMode::Locked(locks, rules) => {
                let max = self.fetch_size;
                let how = LockingScan { locks, rules, backward, max, peeks: false };
                let (since, ahead) = (&mut self.scan_start, &mut self.progress.ahead);
                let read = txns.row_locks().lock_range(txn, range, how, since, ahead, out);
                let next = self
                    .transaction
                    .roll_back_if_required(txns.versions.check_rules_not_expired(rules, read))?;
                self.locked += out.len();
                if locks.range && out.len() >= max && (locks.rows.is_none() || self.locked >= LOCK_ALONE) {
                    self.fetch_size = (max * 2).min(FETCH_SIZE_MAX);
                }
                next
            }
        };
        let Next::At(key) = next else {
            self.unread = None;
            return self.take_batch(backward);
        };
        self.unread = Some(if backward { (from, Some(key)) } else { (key, to) });
        self.take_batch(backward)
    }

    /// Moves the fetched rows to `front` or `back`.
    fn take_batch(&mut self, backward: bool) -> Result {
        if backward { &mut self.back } else { &mut self.front }.extend(self.batch.drain(..));
        self.transaction.wait_reads_durable()
    }

    /// Returns a row with its value, which may have to be read from overflow pages.
    fn load(&mut self, found: FoundRow) -> Result<(Vec<u8>, Vec<u8>)> {
        let txns = &self.transaction.core().engine.txns;
        let store = &txns.store;
        store.metrics.add(M::RowReads, 1);
        if let Value::Inline(value) = found.value {
            return Ok((found.key, value));
        }
        let _inside = self.transaction.enter()?;
        if let Value::Chain(chain) = &found.value {
            self.progress.pass(chain, &store.pool);
        }
        let value = found.value.load(store, self.progress.hint(&store.pool));
        let value = match self.reads {
            ReadMode::Snapshot(snapshot_lsn, _) => txns.versions.check_not_expired(snapshot_lsn, value)?,
            ReadMode::Locked(..) => value?,
        };
        Ok((found.key, value))
    }

    /// Ends the range with an error.
    fn fail<R>(&mut self, error: crate::Error) -> Option<Result<R>> {
        self.unread = None;
        self.front.clear();
        self.back.clear();
        Some(Err(error))
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.front.pop_front() {
                return Some(self.load(found));
            }
            if self.unread.is_none() {
                return self.back.pop_back().map(|found| self.load(found));
            }
            if let Err(error) = self.fetch(false) {
                return self.fail(error);
            }
        }
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.back.pop_front() {
                return Some(self.load(found));
            }
            if self.unread.is_none() {
                return self.front.pop_back().map(|found| self.load(found));
            }
            if let Err(error) = self.fetch(true) {
                return self.fail(error);
            }
        }
    }
}
