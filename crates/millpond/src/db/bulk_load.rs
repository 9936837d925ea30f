//! [`BulkLoad`]: fills a new table with rows in key order and writes each page once.

use super::{CoreRef, Db};
use crate::btree::{BulkSink, PageBatch};
use crate::catalog::TableLoad;
use crate::error::{Error, Result};
use crate::table_handle::Table;
use base::sync::{JoinHandle, Mutex, spawn};
use metrics::M;
use std::cell::{Cell, RefCell};
use std::mem::forget;
use std::panic::resume_unwind;
use std::sync::Arc;

/// A load of a new table. Rows are pushed in key order; others see the table after
/// [`BulkLoad::commit`].
///
/// The load is all or nothing: after an error, a drop, or a crash before the commit, nothing of it
/// remains. It holds little memory: two batches of pages (some megabytes), and about 20 bytes for
/// each value that is longer than a fifth of a page. Creating another table of that name meanwhile
/// fails with [`Error::LockTimeout`].
///
/// Each page is filled up to 15/16, which leaves room for the first changes. It is written once,
/// past the buffer pool and the log, so a load costs a fraction of what inserts cost. The first
/// reads of the table then come from the device.
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
    core: CoreRef,
    /// `None` after the load has ended.
    loading: Option<TableLoad>,
    writer: BatchWriter,
}

/// Writes a batch of pages in a thread of its own, while the caller fills the next batch.
///
/// That thread counts as a call inside the gate: closing waits for it, and it cannot begin after
/// closing. So pages are never written into extents that the next open frees.
#[derive(Debug)]
struct BatchWriter {
    core: CoreRef,
    /// Whether a batch has been written. The caller writes the first one itself: a load of one
    /// batch needs no thread.
    first_written: Cell<bool>,
    in_flight: RefCell<Option<JoinHandle<Result<PageBatch>>>>,
}

impl BatchWriter {
    /// Waits for the batch in flight, if there is one, and returns it, empty.
    fn join(&self) -> Result<Option<PageBatch>> {
        let Some(thread) = self.in_flight.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic)).map(Some)
    }
}

impl BulkSink for BatchWriter {
    fn admit(&self, redo_bytes: usize) -> Result {
        self.core.engine.admit(redo_bytes)
    }

    fn batch_pages(&self) -> usize {
        self.core.engine.batch_pages()
    }

    fn write(&self, batch: PageBatch) -> Result<PageBatch> {
        if !self.first_written.replace(true) {
            return self.core.engine.write(batch);
        }
        let empty = self.join()?.unwrap_or_else(|| batch.another());
        let handed = Arc::new(Mutex::new(Some(batch)));
        let (core, taken) = (self.core.clone(), Arc::clone(&handed));
        let started = spawn("millpond-load", move || {
            let _inside = core.enter()?;
            let batch = taken.lock().take();
            core.engine.write(batch.expect("it is taken once"))
        });
        match started {
            Ok(thread) => drop(self.in_flight.replace(Some(thread))),
            // No thread can be started: the caller writes the batch.
            Err(_) => {
                let batch = handed.lock().take();
                batch.map_or(Ok(()), |batch| self.core.engine.write(batch).map(drop))?;
            }
        }
        Ok(empty)
    }

    fn wait_for_writes(&self) -> Result {
        self.join().map(drop)
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        if self.core.gate.is_in_child() {
            // The thread is one of the parent.
            return forget(self.in_flight.take());
        }
        // No caller is left to get an error. If it poisoned the database, later calls report it.
        if let Some(thread) = self.in_flight.take() {
            drop(thread.join());
        }
    }
}

impl Db {
    /// Begins to load a new table. [`BulkLoad`] has an example.
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::LockTimeout`] while another load or call is creating a
    /// table of that name; [`Error::Misuse`] for a name that is empty or longer than 800 bytes;
    /// [`Error::DiskFull`]; [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin_bulk_load(&self, name: &str) -> Result<BulkLoad> {
        self.begin_bulk_load_with(name, &[])
    }

    /// As [`Db::begin_bulk_load`], for a table with metadata, see [`Table::metadata`].
    ///
    /// # Errors
    /// As [`Db::begin_bulk_load`].
    pub fn begin_bulk_load_with(&self, name: &str, metadata: &[u8]) -> Result<BulkLoad> {
        let _inside = self.core.enter()?;
        let loading = self.core.or_poisoned(self.core.catalog.begin_load(name, metadata))?;
        self.core.engine.store.metrics.add(M::ActiveTransactions, 1);
        let core = self.core.get();
        let writer = BatchWriter {
            core: core.clone(),
            first_written: Cell::new(false),
            in_flight: RefCell::new(None),
        };
        Ok(BulkLoad { core, loading: Some(loading), writer })
    }

    /// Creates a table with `rows`, which must be in key order, each key once. The table is durable
    /// when the call returns. If the call fails, there is no such table. [`Db::begin_bulk_load`]
    /// does the same for rows that do not come from an iterator.
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
    /// As [`Db::begin_bulk_load`], [`BulkLoad::push`] and [`BulkLoad::commit`].
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
    /// Adds a row. Its key must be greater than that of the row before.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a key that is out of order or repeated, [`Error::KeyTooLong`],
    /// [`Error::DiskFull`], [`Error::Closed`]. After any of them the load is over and nothing of it
    /// remains; later calls give [`Error::Aborted`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let core = &self.core;
        let _inside = core.enter()?;
        let Some(loading) = &mut self.loading else { return Err(Error::Aborted) };
        let pushed = core.catalog.load_row(loading, key, value, &self.writer);
        if pushed.is_err()
            && let Some(loading) = self.loading.take()
        {
            core.catalog.abandon_load(&loading, &self.writer);
        }
        pushed
    }

    /// Commits the table with its rows and makes it visible to others. It is durable when the call
    /// returns.
    ///
    /// # Errors
    /// As [`BulkLoad::push`]: then there is no such table. A failed write or sync of the log
    /// poisons the database: only the next open shows whether the table survived.
    pub fn commit(mut self) -> Result<Table> {
        let core = self.core.clone();
        let _inside = core.enter()?;
        let loading = self.loading.take().ok_or(Error::Aborted)?;
        let (entry, rows, lsn) = core.catalog.finish_load(loading, &self.writer)?;
        core.engine.store.metrics.add(M::RowInserts, rows);
        core.flush(lsn)?;
        Ok(Table { entry, db: core.id })
    }
}

impl Drop for BulkLoad {
    fn drop(&mut self) {
        if self.core.gate.is_in_child() {
            return forget(self.loading.take());
        }
        self.core.engine.store.metrics.sub(M::ActiveTransactions, 1);
        // If the database is closed, the next open removes the rest of the load.
        if let (Some(loading), Ok(_inside)) = (self.loading.take(), self.core.enter()) {
            self.core.catalog.abandon_load(&loading, &self.writer);
        }
    }
}
