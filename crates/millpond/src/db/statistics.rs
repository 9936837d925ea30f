//! Estimates of rows and sizes, for programs that choose between ways to read.

use super::Db;
use super::range::{half_open, owned_bound};
use crate::btree::Estimates;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::table_handle::Table;
use std::ops::RangeBounds;

/// The estimated size of a table, see [`Db::table_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Rows.
    pub rows: u64,
    /// Pages of the tree, without those of long values.
    pub pages: u64,
    /// Pages of long values.
    pub value_pages: u64,
    /// Free pages that only this table will use, counted.
    pub free_pages: u64,
    /// The bytes of a page.
    pub page_bytes: u64,
}

/// The estimated content of a key range, see [`Db::range_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeStats {
    /// Rows, with deleted ones that are not purged yet.
    pub rows: u64,
    /// Leaf pages that the range touches.
    pub leaves: u64,
    /// All these pages were counted, so `rows` is no estimate.
    pub exact: bool,
}

impl Db {
    /// Estimates how many rows have keys in `range`: [`RangeStats::rows`] of [`Db::range_stats`].
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let rows = (0..10_000u32).map(|n| (n.to_be_bytes(), n.to_string()));
    /// let numbers = db.bulk_load("numbers", rows)?;
    /// let (from, to) = (1000u32.to_be_bytes(), 6000u32.to_be_bytes());
    /// let rows = db.estimate(&numbers, &from[..]..&to[..])?;
    /// assert!((2500..10_000).contains(&rows), "{rows}");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`](crate::Transaction::get).
    pub fn estimate<'k>(&self, table: &Table, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        Ok(self.range_stats(table, range)?.rows)
    }

    /// Estimates what lies in a key range. If it covers at most eight leaf pages and a part of one
    /// more, the rows of these pages are counted, and the figures are exact. Else the pages between
    /// its ends are estimated from two descents. Takes no lock and no snapshot, but waits like a
    /// transaction that uses the table.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let rows = (0..10_000u32).map(|n| (n.to_be_bytes(), n.to_string()));
    /// let numbers = db.bulk_load("numbers", rows)?;
    /// let (from, to) = (1000u32.to_be_bytes(), 1600u32.to_be_bytes());
    /// let stats = db.range_stats(&numbers, &from[..]..&to[..])?;
    /// assert!(stats.exact && stats.rows == 600 && stats.leaves > 1, "{stats:?}");
    /// assert!(!db.range_stats(&numbers, ..)?.exact);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`](crate::Transaction::get).
    pub fn range_stats<'k>(&self, table: &Table, range: impl RangeBounds<&'k [u8]>) -> Result<RangeStats> {
        let Some((from, to)) = half_open(owned_bound(range.start_bound()), owned_bound(range.end_bound()))
        else {
            return Ok(RangeStats { exact: true, ..RangeStats::default() });
        };
        // A transaction keeps the table as long as its pages are read.
        let tx = self.begin()?;
        let (_inside, tree) = tx.enter_table(table)?;
        let estimates = Estimates::of(tree, &self.core.engine.store);
        let size = estimates.range_size(&from, to.as_deref())?;
        let (rows, leaves) = (size.rows.round() as u64, size.leaves.round() as u64);
        Ok(RangeStats { rows, leaves, exact: size.exact })
    }

    /// Estimates the size of a table from a dozen descents that are spread over it.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let rows = (0..10_000u32).map(|n| (n.to_be_bytes(), n.to_string()));
    /// let numbers = db.bulk_load("numbers", rows)?;
    /// let stats = db.table_stats(&numbers)?;
    /// assert!((5000..20_000).contains(&stats.rows) && stats.pages > 10, "{stats:?}");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`](crate::Transaction::get).
    pub fn table_stats(&self, table: &Table) -> Result<TableStats> {
        let tx = self.begin()?;
        let (_inside, tree) = tx.enter_table(table)?;
        let store = &self.core.engine.store;
        let size = Estimates::of(tree, store).size()?;
        let page_bytes = store.pool.page_bytes() as u64;
        Ok(TableStats {
            rows: size.rows.round() as u64,
            pages: size.pages.round() as u64,
            value_pages: size.value_pages.round() as u64,
            free_pages: store.space.free_pages_of(tree.id)?,
            page_bytes,
        })
    }

    /// Shows keys of a table in order: those of at most `leaves` leaf pages, which are spread
    /// evenly, each with the first key of the next page. `visit` gets a key, and whether it follows
    /// the key before without a gap. So the share of neighbours that differ in a prefix tells how
    /// many different prefixes the table has. A table that has no more leaves is shown whole. Takes
    /// no lock and no snapshot.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let key = |n: u32| [&(n / 10).to_be_bytes()[..], &n.to_be_bytes()].concat();
    /// let rows = (0..10_000).map(|n| (key(n), ""));
    /// let index = db.bulk_load("index", rows)?;
    /// let (mut pairs, mut steps, mut last) = (0, 0, Vec::new());
    /// db.sample_keys(&index, 20, |key, follows| {
    ///     pairs += u32::from(follows);
    ///     steps += u32::from(follows && key[..4] != last[..4]);
    ///     last = key.to_vec();
    /// })?;
    /// assert!((9..=11).contains(&(pairs / steps)), "ten rows have the same first four bytes");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`](crate::Transaction::get).
    pub fn sample_keys(&self, table: &Table, leaves: u16, mut visit: impl FnMut(&[u8], bool)) -> Result<()> {
        let tx = self.begin()?;
        let (_inside, tree) = tx.enter_table(table)?;
        Estimates::of(tree, &self.core.engine.store).sample(leaves.max(1), &mut visit)
    }
}
