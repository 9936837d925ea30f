//! [`BulkLoad`]: fills a new table with rows in key order, each page written once.

use super::{CoreRef, Db};
use crate::btree::{BulkSink, PageBatch};
use crate::catalog::TableLoad;
use crate::error::{Error, Result};
use crate::table::Table;
use base::sync::{JoinHandle, Mutex, spawn};
use metrics::M;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;

/// A table in the making: rows are pushed in key order, and nobody sees the table until [`BulkLoad::commit`].
///
/// All or nothing: after an error, when it is dropped, or after a crash before the commit, nothing of it remains. Rows stream
/// through: memory holds two batches of pages, some megabytes, and some twenty bytes for each value that is longer than a fifth of a page.
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
    core: CoreRef,
    /// None once it has ended.
    loading: Option<TableLoad>,
    writer: BatchWriter,
}

/// Writes a batch of pages in a thread of its own while the caller makes the next.
///
/// That thread is a call inside the gate, so closing waits for it and none begins after it: the pages belong to extents that
/// the next open gives back.
#[derive(Debug)]
struct BatchWriter {
    core: CoreRef,
    /// A batch was full. The first one is written by the caller: a load that has no other needs no thread.
    first_written: Cell<bool>,
    in_flight: RefCell<Option<JoinHandle<Result<PageBatch>>>>,
}

impl BatchWriter {
    /// Waits for the batch under way, if there is one, and gives it back empty.
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
            // No thread is to be had: the caller writes it.
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
        // Nobody is left who could hear of a failure; one that poisons others hear of.
        if let Some(thread) = self.in_flight.take() {
            drop(thread.join());
        }
    }
}

impl Db {
    /// Begins to load a new table.
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::LockTimeout`] while another load or transaction is about to create a table of that
    /// name; [`Error::Misuse`] for a name that is empty or longer than 255 bytes; [`Error::DiskFull`].
    pub fn begin_bulk_load(&self, name: &str) -> Result<BulkLoad> {
        let _inside = self.core.enter()?;
        let loading = self.core.or_poisoned(self.core.catalog.begin_load(name))?;
        self.core.engine.store.metrics.add(M::ActiveTransactions, 1);
        let core = self.core.get();
        let writer = BatchWriter {
            core: core.clone(),
            first_written: Cell::new(false),
            in_flight: RefCell::new(None),
        };
        Ok(BulkLoad { core, loading: Some(loading), writer })
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
        let pushed = core.catalog.load_row(loading, key, value, &self.writer);
        if pushed.is_err()
            && let Some(loading) = self.loading.take()
        {
            core.catalog.abandon_load(&loading, &self.writer);
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
        let (entry, rows, lsn) = core.catalog.finish_load(loading, &self.writer)?;
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
            self.core.catalog.abandon_load(&loading, &self.writer);
        }
    }
}
