//! [`Transaction::scan`]: the rows of a key range shown to a closure, borrowed.
//!
//! Rows are copied out of their leaves before they are shown, because the closure may do anything, also what takes latches.

use super::Transaction;
use super::range::successor;
use crate::btree::read_chain;
use crate::error::Result;
use crate::table::Table;
use crate::txn::read::Next;
use crate::txn::scan::{Rows, Shown};
use metrics::M;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// The most rows that are fetched at once, so that a scan that is broken off has not read much in vain.
const AT_ONCE_MAX: usize = 1000;

impl Transaction {
    /// Shows the rows whose keys lie in `range` to `visit`, in key order, until it breaks.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan<'k>(
        &self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let (inside, tree) = self.enter_table(table)?;
        let (moment, _kept) = self.moment();
        drop(inside);
        let mut from = match range.start_bound() {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key.to_vec()),
            Bound::Unbounded => Vec::new(),
        };
        let to = match range.end_bound() {
            Bound::Included(key) => Some(successor(key.to_vec())),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        if to.as_ref().is_some_and(|to| *to <= from) {
            return Ok(());
        }
        let txns = &self.core().engine.txns;
        let (mut rows, mut long, mut shown) = (Rows::default(), Vec::new(), 0usize);
        loop {
            let next = {
                let _inside = self.enter_again()?;
                let view = txns.view(moment, self.txn().id());
                // As many again as were wanted so far: then few are fetched in vain, and few descents are made.
                let enough = shown.clamp(1, AT_ONCE_MAX);
                let next = txns.scan_rows(self.txn(), view, tree, &from, to.as_deref(), enough, &mut rows)?;
                self.shown()?;
                next
            };
            let mut broken = false;
            for row in rows.iter(txns) {
                let (key, value) = row?;
                shown += 1;
                let go_on = match value {
                    Shown::Inline(value) => visit(key, value),
                    Shown::Chain(chain) => {
                        let _inside = self.enter_again()?;
                        long.clear();
                        read_chain(&txns.store, &chain, &mut long)?;
                        visit(key, &long)
                    }
                };
                broken = go_on.is_break();
                if broken {
                    break;
                }
            }
            match next {
                Next::At(key) if !broken => from = key,
                _ => {
                    txns.store.metrics.add(M::RowReads, shown as u64);
                    return Ok(());
                }
            }
        }
    }
}
