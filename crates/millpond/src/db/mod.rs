//! [`Db`]: the public API of an open database.

mod bulk_load;
mod call_gate;
mod cancel;
mod commit;
mod commit_future;
mod core_ref;
mod cursor;
mod database_check;
mod db_core;
mod ddl;
mod durability;
mod fetch_size;
mod index_cursor;
mod isolation;
mod locking;
mod locks;
mod observe;
mod prepare;
mod range;
mod receipt;
mod row_change;
mod scan;
mod settings;
mod statement;
mod statistics;
#[cfg(test)]
mod tests;
mod transaction;

pub use bulk_load::BulkLoad;
pub use cancel::Canceller;
pub use commit_future::CommitFuture;
pub use cursor::{Cursor, Seek};
pub use database_check::CheckReport;
pub use ddl::CounterLock;
pub use durability::Durability;
pub use index_cursor::{EntryView, IndexCursor};
pub use isolation::{Isolation, LockWait, RowLock, TxnOptions};
pub use locks::{Deadlock, DeadlockMember, LockInfo, LockPlace, TransactionInfo, WaitInfo};
pub use prepare::{PreparedTransaction, Xid};
pub use range::Range;
pub use receipt::Receipt;
pub use row_change::{EntryChange, EntryOp, RowOutcome};
pub use statistics::{RangeStats, TableStats};
pub use transaction::{Savepoint, Transaction};

use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::{Medium, Options};
use crate::planted::{Bug, planted};
use crate::table_handle::Table;
use crate::txn::{UndoAdmission, UndoWait};
use base::sync::atomic::{AtomicU64, Ordering};
use call_gate::CallGate;
use core_ref::{CoreRef, CoreRefs};
use db_core::DbCore;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;

/// The name of a database in memory, instead of a directory; messages show it.
const MEMORY: &str = "memory:";

/// Redo of creating or dropping one table, about, bytes.
const TABLE_REDO: u64 = 1 << 10;

/// An open database.
///
/// It is cheap to clone and may be used by any thread; all clones are the same database. Its
/// directory is locked while it is open. When the last clone and the last transaction are dropped,
/// the database is closed as by [`Db::close`], and errors are ignored.
///
/// ```
/// # let db = millpond::Db::open_in_memory()?;
/// let visits = db.create_table("visits")?;
/// let threads: Vec<_> = (0..4u8)
///     .map(|n| {
///         let (db, visits) = (db.clone(), visits.clone());
///         std::thread::spawn(move || {
///             let mut tx = db.begin()?;
///             tx.put(&visits, &[n], b"was here")?;
///             tx.commit()
///         })
///     })
///     .collect();
/// for thread in threads {
///     thread.join().expect("a thread")?;
/// }
/// assert_eq!(db.begin()?.range(&visits, ..)?.count(), 4);
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    core: Arc<CoreRefs>,
}

impl Options {
    /// Opens the database in `dir` with these options. Creates it if there is none; recovers it if
    /// it was not closed.
    ///
    /// # Errors
    /// [`Error::InUse`] while it is open elsewhere; [`Error::Misuse`] for options that do not fit
    /// together; [`Error::Foreign`] and [`Error::Corrupt`] for files that are not ours or are
    /// damaged: then nothing has been changed. [`Error::DiskFull`], [`Error::Io`].
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_on(&self.vfs(Medium::Os), dir.as_ref(), self)
    }

    /// Opens a new, empty database in memory with these options, for tests and caches. It is the
    /// same engine with the same transactions, locks and errors. Its files are in the memory of
    /// this process and end with it.
    ///
    /// Nothing in it is ever durable: [`Db::close`] discards the content. A commit with
    /// [`Durability::Sync`] is accepted, so programs need not change. [`Db::is_durable`] and
    /// [`Receipt::durable`] are false, and the metric `durable` of [`Db::metrics`] is 0. Prepared
    /// transactions can be committed or rolled back until the database is closed.
    ///
    /// It opens in milliseconds and takes about 8 MiB at first. It then grows with its pages, and
    /// also uses at most its buffer pool (64 MiB by default, [`Options::buffer_pool_bytes`]) and
    /// its redo log (64 MiB by default, [`Options::redo_capacity_bytes`]). If the system refuses
    /// more memory, a call returns [`Error::DiskFull`], or the database stops with
    /// [`Error::Poisoned`], as after a failed write. [`Options::recovery_target`] has no effect,
    /// because nothing is recovered.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// let db = millpond::Options::new().page_bytes(4096).open_in_memory()?;
    /// let cache = db.create_table("cache")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&cache, b"answer", b"42")?;
    /// assert!(!tx.commit()?.durable);
    /// assert!(!db.is_durable());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for options that do not fit together, and for [`Options::redo_dir`] and
    /// [`Options::doublewrite_dir`]; those of [`Db::open_in_memory`].
    pub fn open_in_memory(&self) -> Result<Db> {
        Db::open_on(&self.vfs(Medium::Memory), Path::new(MEMORY), &self.in_memory()?)
    }
}

impl Db {
    /// Opens the database in `dir` with the default options, see [`Options::open`].
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(dir)
    }

    /// Opens a new, empty database in memory with the default options, see
    /// [`Options::open_in_memory`]. Nothing in it is durable.
    ///
    /// # Errors
    /// [`Error::Io`] if its threads cannot be started; [`Error::DiskFull`] if the system refuses
    /// memory.
    pub fn open_in_memory() -> Result<Db> {
        Options::new().open_in_memory()
    }

    /// Opens a database in `dir` of these files, see [`Options::vfs`].
    pub(crate) fn open_on(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Db> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let engine = Engine::open(vfs, dir, options)?;
        let catalog = Catalog::open(&engine.txns)?;
        engine.txns.two_phase().lock_tables_of_prepared()?;
        if options.eager_recovery {
            engine.txns.background().revert_losers()?;
        }
        engine.start_background()?;
        // Reverting may have poisoned the database. Other errors of it do not fail an open.
        engine.check_poison()?;
        engine.note_open();
        if let Some(on_deadlock) = &options.on_deadlock {
            engine.txns.locks.tell_deadlocks(Arc::clone(&on_deadlock.0));
        }
        let gate = CallGate::new(engine.calls());
        let core = CoreRefs::of(DbCore {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            engine,
            catalog,
            lock_wait: options.lock_wait,
            gate,
        });
        Ok(Db { core: Arc::new(core) })
    }

    /// Whether synced commits survive a power cut. False for a database [in
    /// memory](Db::open_in_memory), and if any of the database's directories is on a memory file
    /// system such as tmpfs.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.core.engine.switches().is_durable()
    }

    fn table(&self, entry: Arc<crate::catalog::CatalogEntry>) -> Table {
        Table { entry, db: self.core.id }
    }

    /// Creates a table. It is durable when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let accounts = db.create_table("accounts")?;
    /// assert_eq!(accounts.name(), "accounts");
    /// assert!(matches!(db.create_table("accounts"), Err(millpond::Error::TableExists { .. })));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::Misuse`] for a name that is empty or longer than 800 bytes;
    /// [`Error::LockTimeout`] while a bulk load has the name; [`Error::DiskFull`],
    /// [`Error::Limit`]; [`Error::Closed`], [`Error::Poisoned`].
    pub fn create_table(&self, name: &str) -> Result<Table> {
        Ok(self.create_tables(&[name])?.remove(0))
    }

    /// Creates several tables, all or none, with one sync. They are durable when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let tables = db.create_tables(&["orders", "lines"])?;
    /// assert_eq!(tables[1].name(), "lines");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_table`]; the error names the first table that exists.
    pub fn create_tables(&self, names: &[&str]) -> Result<Vec<Table>> {
        let _inside = self.core.enter()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let admission = self.core.engine.admission();
        // One by one, because the log may not hold all of them together.
        let room = || admission.admit(TABLE_REDO);
        let (made, lsn) = self.core.or_poisoned(self.core.catalog.create(names, room))?;
        self.core.flush(lsn)?;
        Ok(made.into_iter().map(|entry| self.table(entry)).collect())
    }

    /// Returns a handle of an existing table.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let table = match db.open_table("accounts") {
    ///     Err(millpond::Error::NoSuchTable { .. }) => db.create_table("accounts")?,
    ///     other => other?,
    /// };
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Closed`], [`Error::Poisoned`].
    pub fn open_table(&self, name: &str) -> Result<Table> {
        let _inside = self.core.enter()?;
        Ok(self.table(self.core.catalog.find(name)?))
    }

    /// Drops a table and frees its pages. Waits until no transaction uses the table. The drop is
    /// durable when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let table = db.create_table("old")?;
    /// db.drop_table("old")?;
    /// let gone = db.begin()?.get(&table, b"key");
    /// assert!(matches!(gone, Err(millpond::Error::NoSuchTable { .. })));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::LockTimeout`] if transactions use it for longer than
    /// [`Options::lock_wait`]; [`Error::DiskFull`]; [`Error::Closed`], [`Error::Poisoned`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_tables(&[name])
    }

    /// Drops several tables in one transaction: all or none, with one sync. The drops are durable
    /// when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.create_tables(&["orders", "lines"])?;
    /// assert!(db.drop_tables(&["orders", "lines", "bills"]).is_err()); // none is dropped
    /// db.drop_tables(&["orders", "lines"])?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::drop_table`].
    pub fn drop_tables(&self, names: &[&str]) -> Result<()> {
        let _inside = self.core.enter()?;
        if names.is_empty() {
            return Ok(());
        }
        // Freeing space is admitted even where other work finds no room.
        let room = || match planted(Bug::ReleaseUnasked) {
            true => Ok(()),
            false => self.core.engine.admission().admit_undo(TABLE_REDO, UndoWait::AsCaller).map(drop),
        };
        let dropped = self.core.catalog.drop_tables(names, self.core.lock_wait, room);
        let (dropped, lsn) = self.core.or_poisoned(dropped)?;
        self.core.flush(lsn)?;
        self.core.catalog.reclaim(&dropped);
        Ok(())
    }

    /// Renames a table. Waits until no transaction uses the table. The new name is durable when the
    /// call returns; open handles follow.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let table = db.create_table("new")?;
    /// db.rename_table("new", "accounts")?;
    /// assert_eq!(table.name(), "accounts"); // handles follow
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] for `from`, [`Error::TableExists`] for `to`, [`Error::Misuse`] for a
    /// name that is empty or longer than 800 bytes; [`Error::LockTimeout`]; [`Error::Closed`],
    /// [`Error::Poisoned`].
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let _inside = self.core.enter()?;
        let _admitted = self.core.engine.admission().admit(TABLE_REDO)?;
        let lsn = self.core.or_poisoned(self.core.catalog.rename(from, to, self.core.lock_wait))?;
        self.core.flush(lsn)
    }

    /// Returns the names of all tables, sorted.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.create_tables(&["b", "a"])?;
    /// assert_eq!(db.table_names()?, ["a", "b"]);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn table_names(&self) -> Result<Vec<String>> {
        let _inside = self.core.enter()?;
        Ok(self.core.catalog.names())
    }

    /// Returns the names of the tables that begin with `prefix`, sorted. It looks at no others.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.create_tables(&["orders", "orders/by day", "parts"])?;
    /// assert_eq!(db.table_names_with_prefix("orders/")?, ["orders/by day"]);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn table_names_with_prefix(&self, prefix: &str) -> Result<Vec<String>> {
        let _inside = self.core.enter()?;
        Ok(self.core.catalog.names_with_prefix(prefix))
    }

    /// Begins a transaction with the default [`TxnOptions`]: repeatable reads, durable commit.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"key", b"value")?;
    /// tx.commit()?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(TxnOptions::new())
    }

    /// Begins a transaction with the given options.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::{Durability, Isolation, TxnOptions};
    /// use std::time::Duration;
    ///
    /// let options = TxnOptions::new()
    ///     .isolation(Isolation::ReadCommitted)
    ///     .durability(Durability::Bounded { ms: 200, bytes: 4 << 20 })
    ///     .lock_wait(Duration::from_secs(1));
    /// let tx = db.begin_with(options)?;
    /// # drop(tx);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin_with(&self, options: TxnOptions) -> Result<Transaction> {
        // Beginning uses nothing of the engine that closing takes away, so the call does not enter
        // the gate.
        self.core.gate.check_open()?;
        self.core.engine.check_poison()?;
        Ok(Transaction::begin(self.core.get(), options))
    }

    /// Returns a copy of all metrics of the database. Works after closing too. `docs/metrics.md`
    /// lists their names and units.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let before = db.metrics();
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"key", b"value")?;
    /// tx.commit()?;
    /// let since = db.metrics().minus(&before);
    /// assert_eq!(since.get("commits"), Some(1.0));
    /// assert!(since.get("redo_bytes_written") > Some(0.0));
    /// println!("{}", since.to_json());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> metrics::Snapshot {
        if self.core.gate.is_in_child() {
            // A thread of the parent may have held one of the mutexes that the levels need.
            return self.core.engine.store.metrics.snapshot();
        }
        self.core.engine.metrics()
    }

    /// Returns the failed write or sync after which the database has stopped, or `None` if it goes
    /// on. Works after closing too.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// match db.failure() {
    ///     None => println!("healthy"),
    ///     Some(error) => println!("stopped: {error}; open it again to recover"),
    /// }
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.core.engine.failure()
    }

    /// Writes every dirty page and moves the checkpoint, so a crash right after it needs almost no
    /// recovery. It also frees disk space that was kept ready: spare log segments, except those
    /// that current writers will need, and, if there are few writes, the pages by which the pages
    /// file has grown ahead of need since the database was opened. A burst of writes after it may
    /// have to wait for new segments.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.checkpoint()?;
    /// assert!(db.metrics().get("checkpoint_age_bytes") < Some(65536.0));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`] if the undo of unfinished transactions finds no space: the database goes
    /// on. [`Error::Io`] after a failed write or sync: then the database is poisoned.
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn checkpoint(&self) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.checkpoint().map(drop)
    }

    /// Checks every page and every tree and reports all damage. Other threads may read and write
    /// meanwhile. It first waits until all redo of the last run is applied, so a database that
    /// cannot be recovered is an error.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let report = db.check()?;
    /// assert!(report.is_clean(), "{report}");
    /// assert_eq!(report.tables, 1);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corrupt`] if the check itself cannot continue, for example because
    /// a page of the space map cannot be read; [`Error::Closed`], [`Error::Poisoned`]. Other damage
    /// is not an error: the report lists it.
    pub fn check(&self) -> Result<CheckReport> {
        let _inside = self.core.enter()?;
        database_check::check(&self.core)
    }

    /// Closes the database: rolls open transactions back, writes all pages and syncs the log, so
    /// the next open has nothing to recover. Waits for calls in other threads. Later calls on any
    /// handle return [`Error::Closed`].
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.begin(), Err(millpond::Error::Closed)));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] if it is closed already; [`Error::DiskFull`], or [`Error::Poisoned`] after
    /// a failed write or sync: the database is closed, and the next open recovers it.
    pub fn close(&self) -> Result<()> {
        self.core.close()
    }
}
