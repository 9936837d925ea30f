//! [`Transaction::scan`]: shows the rows of a key range to a closure, by reference.
//!
//! Rows are copied out of their leaf first, so no latch is held while the closure runs. The closure
//! may call the database itself.

use super::Transaction;
use super::range::{half_open, owned_bound};
use crate::btree::read_chain;
use crate::error::Result;
use crate::table_handle::Table;
use crate::txn::scan::{Next, Progress, Rows, ScanRange, Shown};
use base::Lsn;
use metrics::M;
use std::ops::{ControlFlow, RangeBounds};

impl Transaction {
    /// Calls `visit` with the key and the value of each row in `range`, in key order, until it
    /// returns [`ControlFlow::Break`]. Unlike [`Transaction::range`], it copies no row for the
    /// caller.
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
            return self.scan_locked(table, range, visit);
        }
        let (inside, tree) = self.enter_to_read(table)?;
        let (snapshot_lsn, _kept) = self.read_position();
        drop(inside);
        let Some((mut from, to)) =
            half_open(owned_bound(range.start_bound()), owned_bound(range.end_bound()))
        else {
            return Ok(());
        };
        let txns = &self.core().engine.txns;
        let mut buffers = ScanBuffers::default();
        loop {
            let next = {
                let _inside = self.enter()?;
                let view = txns.versions.view(snapshot_lsn, self.txn().id());
                let range = ScanRange { tree, from: &from, to: to.as_deref() };
                let (progress, rows) = (&mut buffers.progress, &mut buffers.rows);
                let next = txns.reader(self.txn(), view).scan_forward(range, progress, rows);
                let next = txns.versions.check_not_expired(snapshot_lsn, next)?;
                self.wait_reads_durable()?;
                next
            };
            let shown = self.show_rows(snapshot_lsn, &mut buffers, &mut visit)?;
            match next {
                Next::At(key) if shown.is_continue() => from = key,
                _ => {
                    txns.store.metrics.add(M::RowReads, buffers.shown);
                    return Ok(());
                }
            }
        }
    }

    /// Scans in a serializable transaction. The rows and the gaps between them are locked as by
    /// [`Transaction::range`].
    fn scan_locked<'k>(
        &self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result {
        for row in self.range(table, range)? {
            let (key, value) = row?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `visit` for each row of the batch. Returns whether `visit` broke the scan off.
    #[inline]
    fn show_rows(
        &self,
        snapshot_lsn: Lsn,
        buffers: &mut ScanBuffers,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let txns = &self.core().engine.txns;
        let ScanBuffers { rows, progress, key_bytes, value_bytes, shown } = buffers;
        for row in rows.iter(&txns.store) {
            let (key, value) = row?;
            let key = key.whole_in(key_bytes);
            *shown += 1;
            let flow = match value {
                Shown::Inline(value) => visit(key, value),
                Shown::Chain(chain) => {
                    let inside = self.enter()?;
                    let pool = &txns.store.pool;
                    progress.pass(&chain, pool);
                    let hint = progress.hint(pool);
                    value_bytes.clear();
                    txns.versions.check_not_expired(
                        snapshot_lsn,
                        read_chain(&txns.store, &chain, hint, value_bytes),
                    )?;
                    // The closure may close the database, and closing waits for all calls.
                    drop(inside);
                    visit(key, value_bytes)
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// What a scan keeps from one batch of rows to the next.
#[derive(Default)]
struct ScanBuffers {
    rows: Rows,
    progress: Progress,
    /// Room for a key that is put together from parts.
    key_bytes: Vec<u8>,
    /// Room for a value from overflow pages.
    value_bytes: Vec<u8>,
    /// Rows shown so far.
    shown: u64,
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
