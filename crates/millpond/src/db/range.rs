//! [`Range`]: rows in key order, from both ends.

use super::Transaction;
use crate::btree::Tree;
use crate::error::Result;
use crate::mvcc::Snapshot;
use crate::table::Table;
use crate::txn::read::{Found, Next, Value};
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
    moment: Lsn,
    /// The moment of a statement, kept for as long as the range is.
    _snapshot: Option<Snapshot>,
    /// What is not fetched yet: `from` inclusive, `to` exclusive (none: the tree's end).
    rest: Option<(Vec<u8>, Option<Vec<u8>>)>,
    front: VecDeque<Found>,
    /// In falling order.
    back: VecDeque<Found>,
    batch: Vec<Found>,
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
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Result<Range<'t>> {
        let (_inside, tree) = transaction.enter_table(table)?;
        let (moment, snapshot) = transaction.moment();
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
            moment,
            _snapshot: snapshot,
            rest: (!empty).then_some((from, to)),
            front: VecDeque::new(),
            back: VecDeque::new(),
            batch: Vec::new(),
        })
    }

    /// Fetches the rows of one more leaf, at the front or at the back.
    fn fetch(&mut self, backward: bool) -> Result {
        let Some((from, to)) = self.rest.take() else { return Ok(()) };
        let _inside = self.transaction.enter_again()?;
        let (txns, txn) = (&self.transaction.core().engine.txns, self.transaction.txn());
        let view = txns.view(self.moment, txn.id());
        self.batch.clear();
        if backward {
            let next = txns.scan_backward(txn, view, self.tree, &from, to.as_deref(), &mut self.batch)?;
            self.back.extend(self.batch.drain(..));
            self.rest = match next {
                Next::At(low) => Some((from, Some(low))),
                Next::End => None,
            };
        } else {
            let next = txns.scan_forward(txn, view, self.tree, &from, to.as_deref(), &mut self.batch)?;
            self.front.extend(self.batch.drain(..));
            self.rest = match next {
                Next::At(high) => Some((high, to)),
                Next::End => None,
            };
        }
        self.transaction.shown()
    }

    fn load(&self, found: Found) -> Result<(Vec<u8>, Vec<u8>)> {
        let store = &self.transaction.core().engine.store;
        store.metrics.add(M::RowReads, 1);
        if let Value::Inline(value) = found.value {
            return Ok((found.key, value));
        }
        let _inside = self.transaction.enter_again()?;
        Ok((found.key, found.value.load(store)?))
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
