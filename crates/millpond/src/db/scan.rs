//! [`Transaction::scan`]: the rows of a key range shown to a closure, borrowed.
//!
//! Rows are copied out of their leaves before they are shown, because the closure may do anything, also what takes latches.

use super::Transaction;
use super::range::successor;
use crate::btree::read_chain;
use crate::error::Result;
use crate::table::Table;
use crate::txn::scan::{Next, Progress, Rows, ScanRange, Shown};
use metrics::M;
use std::ops::{Bound, ControlFlow, RangeBounds};

impl Transaction {
    /// Shows the rows whose keys lie in `range` to `visit`, in key order, until it breaks.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use std::ops::ControlFlow;
    /// # let mut tx = db.begin()?;
    /// for n in 0..1000u32 {
    ///     tx.put(&table, &n.to_be_bytes(), b"four")?;
    /// }
    /// let mut bytes = 0;
    /// tx.scan(&table, &100u32.to_be_bytes()[..].., |_key, value| {
    ///     bytes += value.len();
    ///     if bytes < 400 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// })?;
    /// assert_eq!(bytes, 400);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan<'k>(
        &self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.locks_reads() {
            // What it shows must be kept, rows and gaps, and no more of it than a range keeps.
            for row in self.range(table, range)? {
                let (key, value) = row?;
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let (inside, tree) = self.enter_table(table)?;
        let (snapshot_lsn, _kept) = self.read_position();
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
        let (mut rows, mut progress) = (Rows::default(), Progress::default());
        let (mut key_room, mut long, mut shown) = (Vec::new(), Vec::new(), 0);
        loop {
            let next = {
                let _inside = self.enter_again()?;
                let view = txns.view(snapshot_lsn, self.txn().id());
                let range = ScanRange { tree, from: &from, to: to.as_deref() };
                let next = txns.scan_forward(self.txn(), view, range, &mut progress, &mut rows);
                let next = txns.check_not_expired(snapshot_lsn, next)?;
                self.shown()?;
                next
            };
            let mut broken = false;
            for row in rows.iter(&txns.store) {
                let (key, value) = row?;
                let key = key.whole_in(&mut key_room);
                shown += 1;
                let go_on = match value {
                    Shown::Inline(value) => visit(key, value),
                    Shown::Chain(chain) => {
                        let inside = self.enter_again()?;
                        let pool = &txns.store.pool;
                        progress.pass(&chain, pool);
                        let hint = progress.hint(pool);
                        long.clear();
                        txns.check_not_expired(
                            snapshot_lsn,
                            read_chain(&txns.store, &chain, hint, &mut long),
                        )?;
                        // The closure may do anything, also close the database, which waits for all calls.
                        drop(inside);
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
                    txns.store.metrics.add(M::RowReads, shown);
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Db;
    use crate::options::Options;
    use std::ops::{Bound, ControlFlow};
    use std::path::Path;
    use vfs::mem::MemDisk;

    /// Rows of many leaves, some deleted, some with long values, some changed after the snapshot.
    #[test]
    fn a_scan_shows_what_a_range_yields() {
        let disk = MemDisk::default();
        let options = Options::new().page_bytes(4096).redo_capacity_bytes(16 << 20);
        let db = Db::open_on(&disk.vfs(1), Path::new("/db"), &options).unwrap();
        let table = db.create_table("t").unwrap();
        let key = |n: u32| n.to_be_bytes();
        let mut tx = db.begin().unwrap();
        for n in 0..500u32 {
            let len = if n % 50 == 0 { 9000 } else { 60 };
            tx.put(&table, &key(n), &vec![n as u8; len]).unwrap();
        }
        tx.commit().unwrap();
        let mut tx = db.begin().unwrap();
        (0..500).step_by(3).for_each(|n| assert!(tx.delete(&table, &key(n)).unwrap()));
        tx.commit().unwrap();
        let reader = db.begin().unwrap();
        assert_eq!(reader.get(&table, &key(0)).unwrap(), None);
        let mut tx = db.begin().unwrap();
        (0..500).step_by(7).for_each(|n| tx.put(&table, &key(n), b"later").unwrap());
        tx.commit().unwrap();
        for (from, to) in [(0u32, 500u32), (13, 14), (14, 13), (100, 401), (499, 1000)] {
            let (from, to) = (key(from), key(to));
            for limit in [1, 20, usize::MAX] {
                let bounds = (Bound::Excluded(&from[..]), Bound::Included(&to[..]));
                let rows = reader.range(&table, bounds).unwrap().map(Result::unwrap);
                let expected: Vec<_> = rows.take(limit).collect();
                let mut shown = Vec::new();
                let visit = |key: &[u8], value: &[u8]| {
                    shown.push((key.to_vec(), value.to_vec()));
                    if shown.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                reader.scan(&table, bounds, visit).unwrap();
                assert!(shown == expected, "{from:?} {to:?} {limit}");
            }
        }
    }
}
