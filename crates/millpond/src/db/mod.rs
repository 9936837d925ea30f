//! [`Db`]: an open database, as programs see it.

mod bulk_load;
mod call_gate;
mod check;
mod commit;
mod commit_future;
mod core_ref;
mod durability;
mod isolation;
mod locking;
mod range;
mod receipt;
mod scan;
#[cfg(test)]
mod tests;
mod transaction;

pub use bulk_load::BulkLoad;
pub use check::CheckReport;
pub use commit_future::CommitFuture;
pub use durability::Durability;
pub use isolation::{Isolation, LockWait, TxnOptions};
pub use range::Range;
pub use receipt::Receipt;
pub use transaction::{Savepoint, Transaction};

use crate::catalog::Catalog;
use crate::engine::{Engine, Inside};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::planted::{Bug, planted};
use crate::table::Table;
use crate::txn::{Patience, Room};
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use call_gate::CallGate;
use core_ref::{CoreRef, CoreRefs};
use metrics::{M, SyncReason};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vfs::Vfs;

/// What stands for the directory of a database in memory, in messages too.
const MEMORY: &str = "memory:";

/// Redo of the making or dropping of one table, about, bytes.
const TABLE_REDO: u64 = 1 << 10;

/// The outside name of a prepared transaction.
pub type Xid = Vec<u8>;

/// An open database.
///
/// Cheap to clone and usable from any thread; all clones are the same database. The directory is locked while it is open.
/// When the last clone goes, and every transaction begun from one, it is closed as [`Db::close`] would, silently.
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

/// What all handles on an open database share.
#[derive(Debug)]
pub(crate) struct Core {
    /// Tells databases of one process apart.
    pub(crate) id: u64,
    pub(crate) engine: Engine,
    pub(crate) catalog: Catalog,
    pub(crate) lock_wait: Duration,
    gate: CallGate,
}

impl Core {
    /// Lets a call in, unless the database is closed or poisoned.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        let inside = self.gate.enter()?;
        self.engine.check_poison()?;
        Ok(inside)
    }

    /// The answer of a call that may have waited for locks: those waits end alike when the database closes and when it is poisoned.
    pub(crate) fn or_poisoned<R>(&self, result: Result<R>) -> Result<R> {
        if let Err(Error::Closed) = &result {
            self.engine.check_poison()?;
        }
        result
    }

    fn flush(&self, lsn: Lsn) -> Result {
        self.engine.store.log.flush_to(lsn, SyncReason::Ddl).map(drop)
    }

    fn close(&self) -> Result {
        if !self.gate.close() {
            return Err(Error::Closed);
        }
        let txns = &self.engine.txns;
        txns.locks.stop();
        self.catalog.stop();
        self.engine.stop_admission();
        self.gate.drain();
        txns.abort_active(&|| self.engine.checkpoint().map(drop));
        self.engine.close()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nobody is left who could hear of a failure; the next open recovers from it.
        let _ = self.close();
    }
}

impl Options {
    /// Opens the database in `dir` with these choices, creating it if there is none, and recovers it if it was not closed.
    ///
    /// # Errors
    /// [`Error::InUse`] while it is open elsewhere; [`Error::Misuse`] for choices that cannot be; [`Error::Foreign`] and
    /// [`Error::Corrupt`] for files that are not ours or damaged: then nothing has been changed.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_on(&Vfs::os(), dir.as_ref(), self)
    }

    /// Opens a new, empty database in memory with these choices, for tests and caches. It is the same engine, with the same
    /// transactions, locks and errors, over files that are in this process's memory and go with it.
    ///
    /// Nothing of it is ever durable: not after [`Db::close`], which makes all of it unreachable, and not after a commit with
    /// [`Durability::Sync`], which is accepted so that programs need not change. So [`Db::is_durable`] is false,
    /// [`Receipt::durable`] is false for every commit, and the figure `durable` of [`Db::metrics`] is 0. Prepared transactions
    /// can be decided until it is closed.
    ///
    /// It is opened in milliseconds and takes some 8 MiB, then as much memory as its pages, and besides at most its buffer pool
    /// (64 MiB unless [asked for](Options::buffer_pool_bytes)) and its redo log ([64 MiB](Options::redo_capacity_bytes)); neither
    /// is touched before it is needed. Where the system refuses more memory a call gives [`Error::DiskFull`], or the database
    /// stops as after a failed write, with [`Error::Poisoned`]. Nothing is recovered, so [`Options::recovery_target`] means nothing.
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
    /// [`Error::Misuse`] for choices that cannot be, among them [`Options::redo_dir`] and [`Options::doublewrite_dir`].
    pub fn open_in_memory(&self) -> Result<Db> {
        Db::open_on(&Vfs::in_memory(), Path::new(MEMORY), &self.in_memory()?)
    }
}

impl Db {
    /// Opens the database in `dir` with the defaults, see [`Options::open`].
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(dir)
    }

    /// Opens a new, empty database in memory with the defaults: nothing of it is durable, see [`Options::open_in_memory`].
    ///
    /// # Errors
    /// [`Error::Io`] if its threads cannot be started; [`Error::DiskFull`] if the system refuses memory.
    pub fn open_in_memory() -> Result<Db> {
        Options::new().open_in_memory()
    }

    pub(crate) fn open_on(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Db> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let engine = Engine::open(vfs, dir, options)?;
        let catalog = Catalog::open(&engine.txns)?;
        if options.eager_recovery {
            engine.txns.revert_losers()?;
        }
        engine.start_background()?;
        // What was to be taken back may have met it, and an open does not fail for the rest of that.
        engine.check_poison()?;
        engine.is_open();
        let gate = CallGate::new(engine.crowd());
        let core = CoreRefs::of(Core {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            engine,
            catalog,
            lock_wait: options.lock_wait,
            gate,
        });
        Ok(Db { core: Arc::new(core) })
    }

    /// Whether what is synced here outlives a power cut: not in a database [in memory](Db::open_in_memory), and not on a
    /// memory file system such as tmpfs, wherever one of the database's directories is on one.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.core.engine.durable
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
    /// [`Error::TableExists`]; [`Error::Misuse`] for a name that is empty or longer than 255 bytes.
    pub fn create_table(&self, name: &str) -> Result<Table> {
        Ok(self.create_tables(&[name])?.remove(0))
    }

    /// Creates several tables in one transaction: all or none, for the price of one.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let tables = db.create_tables(&["orders", "lines"])?;
    /// assert_eq!(tables[1].name(), "lines");
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_table`], naming the first table in the way.
    pub fn create_tables(&self, names: &[&str]) -> Result<Vec<Table>> {
        let _inside = self.core.enter()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let admission = self.core.engine.admission();
        // One by one: all of them together may be more than the log holds.
        let room = || admission.admit(TABLE_REDO);
        let (made, lsn) = self.core.or_poisoned(self.core.catalog.create(names, room))?;
        self.core.flush(lsn)?;
        Ok(made.into_iter().map(|entry| self.table(entry)).collect())
    }

    /// Opens a table.
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
    /// [`Error::NoSuchTable`].
    pub fn open_table(&self, name: &str) -> Result<Table> {
        let _inside = self.core.enter()?;
        Ok(self.table(self.core.catalog.find(name)?))
    }

    /// Drops a table, once no transaction uses it any more. Durable when the call returns.
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
    /// [`Error::NoSuchTable`]; [`Error::LockTimeout`] if transactions use it for too long.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_tables(&[name])
    }

    /// Drops several tables in one transaction: all or none, for the price of one.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.create_tables(&["orders", "lines"])?;
    /// assert!(db.drop_tables(&["orders", "lines", "bills"]).is_err()); // and so none is dropped
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
        // What gives space back finds room where nothing else does any more.
        let room = || match planted(Bug::ReleaseUnasked) {
            true => Ok(()),
            false => self.core.engine.admission().for_undoing(TABLE_REDO, Patience::Call).map(drop),
        };
        let dropped = self.core.catalog.drop_tables(names, self.core.lock_wait, room);
        let (dropped, lsn) = self.core.or_poisoned(dropped)?;
        self.core.flush(lsn)?;
        self.core.catalog.reclaim(&dropped);
        Ok(())
    }

    /// Renames a table, once no transaction uses it any more. Durable when the call returns.
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
    /// [`Error::NoSuchTable`] for `from`, [`Error::TableExists`] for `to`; [`Error::LockTimeout`].
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let _inside = self.core.enter()?;
        let _admitted = self.core.engine.admission().admit(TABLE_REDO)?;
        let lsn = self.core.or_poisoned(self.core.catalog.rename(from, to, self.core.lock_wait))?;
        self.core.flush(lsn)
    }

    /// The names of all tables, sorted.
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

    /// Begins a transaction: repeatable reads, durable commit.
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
        // A beginning asks nothing of the engine that closing could take away.
        self.core.gate.check_open()?;
        self.core.engine.check_poison()?;
        Ok(Transaction::begin(self.core.get(), options))
    }

    /// The outside names of all prepared transactions, sorted.
    ///
    /// See [`Transaction::prepare`].
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn prepared(&self) -> Result<Vec<Xid>> {
        let _inside = self.core.enter()?;
        Ok(self.core.engine.txns.prepared_xids())
    }

    /// Commits a prepared transaction. Durable when the call returns.
    ///
    /// See [`Transaction::prepare`] for an example.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none of that name.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<()> {
        let _inside = self.core.enter()?;
        let lsn = self.core.engine.txns.commit_prepared(xid)?;
        self.core.engine.store.metrics.add(M::Commits, 1);
        self.core.engine.store.log.flush_to(lsn, SyncReason::Commit).map(drop)
    }

    /// Rolls a prepared transaction back. Durable when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"key", b"value")?;
    /// tx.prepare(b"transfer 7")?;
    /// db.rollback_prepared(b"transfer 7")?;
    /// assert_eq!(db.begin()?.get(&table, b"key")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none of that name.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<()> {
        let _inside = self.core.enter()?;
        let lsn = self.core.engine.txns.rollback_prepared(xid)?;
        self.core.engine.store.metrics.add(M::Rollbacks, 1);
        self.core.engine.store.log.flush_to(lsn, SyncReason::Commit).map(drop)
    }

    /// Every figure of the database, as of now. Also after closing.
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
        self.core.engine.metrics()
    }

    /// Writes every changed page, so that the log is short: a crash right after needs next to no recovery. Disk that was kept ready
    /// for more is given back: spare segments of the log, but for what others who write meanwhile will need; and, if hardly anybody
    /// writes, what the pages file has grown ahead of need since the database was opened. Who then writes very much at once waits for
    /// segments to be made again.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.checkpoint()?;
    /// assert!(db.metrics().get("checkpoint_age_bytes") < Some(65536.0));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], and then the database is poisoned; [`Error::Closed`].
    pub fn checkpoint(&self) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.checkpoint().map(drop)
    }

    /// Changes how many bytes the redo log may hold. Where it cannot grow the old size stays.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_redo_capacity(96 << 20)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Misuse`] for a size that is too small.
    pub fn set_redo_capacity(&self, bytes: u64) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.set_redo_capacity(bytes)
    }

    /// Looks at every page and every tree, and names what is wrong. Writers may go on meanwhile.
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
    /// What kept the check from being made; damage is no error but stands in the report.
    pub fn check(&self) -> Result<CheckReport> {
        let _inside = self.core.enter()?;
        check::check(&self.core)
    }

    /// Closes the database: open transactions are rolled back, the log is synced, the next open has nothing to recover.
    /// Later calls on any handle give [`Error::Closed`].
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
    /// [`Error::Closed`] the second time; a failed write or sync, which the next open recovers from.
    pub fn close(&self) -> Result<()> {
        self.core.close()
    }
}
