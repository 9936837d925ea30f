//! [`Range`]: rows in key order, from both ends.

use super::Transaction;
use crate::btree::Tree;
use crate::error::Result;
use crate::lock::ScanStart;
use crate::mvcc::Snapshot;
use crate::table::Table;
use crate::txn::read::{FoundRow, Value};
use crate::txn::scan::{Next, Progress, Rows, ScanRange};
use crate::txn::{LockingScan, Rules, ScanLocks};
use base::Lsn;
use metrics::M;
use std::collections::VecDeque;
use std::ops::Bound;

/// The rows of a key range, as the transaction sees them. Rows that the transaction itself changes while the range is
/// being read are not possible: the range borrows it.
#[derive(Debug)]
pub struct Range<'t> {
    transaction: &'t Transaction,
    tree: Tree,
    reads: Reads,
    /// How many rows the next fetch is to lock.
    ahead: usize,
    /// What is not fetched yet: `from` inclusive, `to` exclusive (none: the tree's end).
    rest: Option<(Vec<u8>, Option<Vec<u8>>)>,
    front: VecDeque<FoundRow>,
    /// In falling order.
    back: VecDeque<FoundRow>,
    /// The rows that one fetch by a snapshot returns.
    rows: Rows,
    /// What a fetch that locks brings.
    batch: Vec<FoundRow>,
    /// When it began, if it locks what it reads.
    since: ScanStart,
    progress: Progress,
}

/// How a range reads its rows.
#[derive(Debug)]
pub(super) enum Reads {
    /// As the snapshot with this LSN shows them. A range keeps the snapshot of its statement.
    At(Lsn, #[expect(dead_code, reason = "held, not read")] Option<Snapshot>),
    /// As they are, locked.
    Locked(ScanLocks, Rules),
}

/// The most rows that are locked before they are asked for, and only where they are locked by their range.
const AHEAD: usize = 64;

impl Reads {
    pub(super) fn at((snapshot_lsn, statement): (Lsn, Option<Snapshot>)) -> Reads {
        Reads::At(snapshot_lsn, statement)
    }

    /// As they are; the range keeps them so.
    pub(super) fn kept(rules: Rules) -> Reads {
        Reads::Locked(ScanLocks { rows: None, range: true }, rules)
    }
}

/// A bound that borrows nothing.
pub(super) fn own(bound: Bound<&&[u8]>) -> Bound<Vec<u8>> {
    bound.map(|key| key.to_vec())
}

/// The least key that is greater than `key`.
pub(super) fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

impl<'t> Range<'t> {
    pub(super) fn new(
        transaction: &'t Transaction,
        table: &Table,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reads: impl FnOnce() -> Reads,
    ) -> Result<Range<'t>> {
        let (_inside, tree) = transaction.enter_table(table)?;
        let reads = reads();
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
        Ok(Range {
            transaction,
            tree,
            reads,
            ahead: 1,
            rest: (!empty).then_some((from, to)),
            front: VecDeque::new(),
            back: VecDeque::new(),
            rows: Rows::default(),
            batch: Vec::new(),
            since: ScanStart::default(),
            progress: Progress::default(),
        })
    }

    /// Fetches the rows of one more leaf, at the front or at the back.
    fn fetch(&mut self, backward: bool) -> Result {
        let Some((from, to)) = self.rest.take() else { return Ok(()) };
        let _inside = self.transaction.enter_again()?;
        let (txns, txn) = (&self.transaction.core().engine.txns, self.transaction.txn());
        let range = ScanRange { tree: self.tree, from: &from, to: to.as_deref() };
        let out = &mut self.batch;
        out.clear();
        let next = match self.reads {
            Reads::At(snapshot_lsn, _) => {
                let (view, rows) = (txns.view(snapshot_lsn, txn.id()), &mut self.rows);
                let read = match backward {
                    true => txns.scan_backward(txn, view, range, &mut self.progress, rows),
                    false => txns.scan_forward(txn, view, range, &mut self.progress, rows),
                };
                let next = txns.check_not_expired(snapshot_lsn, read)?;
                for row in rows.iter(&txns.store) {
                    let (key, value) = row?;
                    out.push(FoundRow { key: key.to_vec(), value: value.to_owned() });
                }
                next
            }
            Reads::Locked(locks, rules) => {
                let max = self.ahead;
                let how = LockingScan { locks, rules, backward, max };
                let read = txns.lock_range(txn, range, how, &mut self.since, out);
                let next = self.transaction.judge(txns.check_rules_not_expired(rules, read))?;
                if locks.rows.is_none() && out.len() >= max {
                    self.ahead = (max * 2).min(AHEAD);
                }
                next
            }
        };
        let Next::At(key) = next else {
            self.rest = None;
            return self.take(backward);
        };
        self.rest = Some(if backward { (from, Some(key)) } else { (key, to) });
        self.take(backward)
    }

    fn take(&mut self, backward: bool) -> Result {
        if backward { &mut self.back } else { &mut self.front }.extend(self.batch.drain(..));
        self.transaction.shown()
    }

    fn load(&mut self, found: FoundRow) -> Result<(Vec<u8>, Vec<u8>)> {
        let txns = &self.transaction.core().engine.txns;
        let store = &txns.store;
        store.metrics.add(M::RowReads, 1);
        if let Value::Inline(value) = found.value {
            return Ok((found.key, value));
        }
        let _inside = self.transaction.enter_again()?;
        if let Value::Chain(chain) = &found.value {
            self.progress.pass(chain, &store.pool);
        }
        let value = found.value.load(store, self.progress.hint(&store.pool));
        let value = match self.reads {
            Reads::At(snapshot_lsn, _) => txns.check_not_expired(snapshot_lsn, value)?,
            Reads::Locked(..) => value?,
        };
        Ok((found.key, value))
    }

    fn fail<R>(&mut self, error: crate::Error) -> Option<Result<R>> {
        self.rest = None;
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
            if self.rest.is_none() {
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
            if self.rest.is_none() {
                return self.front.pop_back().map(|found| self.load(found));
            }
            if let Err(error) = self.fetch(true) {
                return self.fail(error);
            }
        }
    }
}
