//! [`BulkLoad`]: fills a new table with rows in key order, each page written once.

use super::{Db, Share};
use crate::catalog::Loading;
use crate::error::{Error, Result};
use crate::table::Table;
use metrics::M;

/// A table in the making: rows are pushed in key order, and nobody sees the table until [`BulkLoad::commit`].
///
/// All or nothing: after an error, when it is dropped, or after a crash before the commit, nothing of it remains. Rows stream
/// through: memory holds one batch of pages, some megabytes, and some twenty bytes for each value that is longer than a fifth of a page.
/// Nobody else can create a table of that name meanwhile: who tries gets [`Error::LockTimeout`].
///
/// Pages are filled but for a sixteenth, which leaves room for the first changes, and written once, past the buffer pool and
/// the log: a load costs a fraction of what inserts cost. The first reads of the table then come from the device.
///
/// ```
/// # fn main() -> millpond::Result<()> {
/// # let db = millpond::Db::open_in_memory()?;
/// let mut load = db.begin_bulk_load("squares")?;
/// for n in 0..1000u64 {
///     load.push(&n.to_be_bytes(), (n * n).to_string().as_bytes())?;
/// }
/// let squares = load.commit()?; // on disk when it returns
/// assert_eq!(db.begin()?.get(&squares, &12u64.to_be_bytes())?.as_deref(), Some(&b"144"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BulkLoad {
    core: Share,
    /// None once it has ended.
    loading: Option<Loading>,
}

impl Db {
    /// Begins to load a new table.
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::LockTimeout`] while another load or transaction is about to create a table of that
    /// name; [`Error::Misuse`] for a name that is empty or longer than 255 bytes; [`Error::DiskFull`].
    pub fn begin_bulk_load(&self, name: &str) -> Result<BulkLoad> {
        let _inside = self.core.enter()?;
        let loading = self.core.catalog.begin_load(name)?;
        self.core.engine.store.metrics.add(M::ActiveTransactions, 1);
        Ok(BulkLoad { core: self.core.share(), loading: Some(loading) })
    }

    /// Makes a table of `rows`, which come in key order, each key once. Durable when the call returns; if it fails, there is
    /// no such table. [`Db::begin_bulk_load`] is the same for rows that are not at hand as an iterator.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let rows = (0..1000u32).map(|n| (n.to_be_bytes(), n.to_string()));
    /// let numbers = db.bulk_load("numbers", rows)?;
    /// assert_eq!(db.begin()?.get(&numbers, &7u32.to_be_bytes())?.as_deref(), Some(&b"7"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::begin_bulk_load`] and [`BulkLoad::push`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Table> {
        let mut load = self.begin_bulk_load(name)?;
        for (key, value) in rows {
            load.push(key.as_ref(), value.as_ref())?;
        }
        load.commit()
    }
}

impl BulkLoad {
    /// Adds a row. Its key must be above that of the row before.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a row out of order or a key that came before, [`Error::KeyTooLong`], [`Error::DiskFull`],
    /// [`Error::Closed`]. After any of them the load is over and nothing of it remains; later calls give
    /// [`Error::Aborted`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let core = &self.core;
        let _inside = core.enter()?;
        let Some(loading) = &mut self.loading else { return Err(Error::Aborted) };
        let pushed = core.catalog.load_row(loading, key, value, &core.engine);
        if pushed.is_err()
            && let Some(loading) = self.loading.take()
        {
            core.catalog.abandon_load(&loading);
        }
        pushed
    }

    /// Makes the table known to all, with its rows. Durable when it returns.
    ///
    /// # Errors
    /// As [`BulkLoad::push`]: then there is no such table. A failed write or sync of the log poisons the database: whether the
    /// table survives is known after the next open.
    pub fn commit(mut self) -> Result<Table> {
        let core = self.core.clone();
        let _inside = core.enter()?;
        let loading = self.loading.take().ok_or(Error::Aborted)?;
        let (entry, rows, lsn) = core.catalog.finish_load(loading, &core.engine)?;
        core.engine.store.metrics.add(M::RowInserts, rows);
        core.flush(lsn)?;
        Ok(Table { entry, db: core.id })
    }
}

impl Drop for BulkLoad {
    fn drop(&mut self) {
        self.core.engine.store.metrics.sub(M::ActiveTransactions, 1);
        // What a closed database has open is taken back when it is opened again.
        if let (Some(loading), Ok(_inside)) = (self.loading.take(), self.core.enter()) {
            self.core.catalog.abandon_load(&loading);
        }
    }
}
