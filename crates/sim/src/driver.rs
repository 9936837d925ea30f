//! The interface of a workload's script: a database on a simulated disk inside a world, and a
//! history that records every effect.

use crate::engine::{self, DIR, LOCK_WAIT, RowList, all_rows, block_on};
use crate::history::{Contents, DbState, Effect, Event, History, Promise, RowWrite, difference, promise_of};
use crate::shape::Shape;
use base::prng::Prng;
use base::sync::{Mutex, spawn, thread_number};
use millpond::{
    Db, Durability, EntryChange, EntryOp, Error, Isolation, Receipt, Result, RowLock, RowOutcome, Savepoint,
    Table, TableChange, Transaction, TxnOptions,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vfs::fault::FaultDisk;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode, Vfs};

/// Tables of this name, and of names that begin with it, have keys that are values of their
/// counter.
pub const NUMBERED: &str = "numbered";
/// A transaction is tried so many times.
const TRIES: u32 = 200;

/// A run in progress.
#[derive(Clone)]
pub struct Driver {
    shared: Arc<Shared>,
}

struct Shared {
    disk: MemDisk,
    /// The same disk with injected faults; used if [`Shape::faults`] is set.
    faults: FaultDisk,
    shape: Shape,
    seed: u64,
    db: Mutex<Option<Db>>,
    history: Mutex<History>,
    /// The number of each table by its name, and the last number that was given to one.
    tables: Mutex<(BTreeMap<String, u64>, u64)>,
    life: Life,
}

/// What a process finds that works on a database: how many processes were killed before it, and
/// what they left.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Counted from 0.
    pub number: u64,
    /// The state that recovery shows.
    pub begin: DbState,
}

/// The settings of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// What it sees of others.
    pub isolation: Isolation,
    /// When its commit is acknowledged.
    pub durability: Durability,
}

/// A transaction. The history records its effects when it commits.
pub struct Txn {
    pub(crate) driver: Driver,
    db: Db,
    pub(crate) inner: Transaction,
    pub(crate) writes: Vec<RowWrite>,
    pub(crate) how: How,
}

/// A point in a transaction to which it can return.
#[derive(Debug)]
pub struct TxnSavepoint {
    savepoint: Savepoint,
    /// Writes before it.
    writes: usize,
}

pub(crate) fn expect_ok<T>(what: &str, result: Result<T>) -> T {
    result.unwrap_or_else(|e| panic!("{what}: {e}"))
}

impl Driver {
    /// Opens the database that the last life left; creates it if there was none.
    ///
    /// REQUIRES: called inside a world.
    #[must_use]
    pub fn open(disk: MemDisk, shape: Shape, seed: u64, life: Life) -> Driver {
        let tables = (life.begin.tables.clone(), life.begin.rows.len() as u64 + 1000 * life.number);
        let shared = Shared {
            faults: FaultDisk::new(Arc::new(disk.clone())),
            disk,
            shape,
            seed,
            db: Mutex::new(None),
            history: Mutex::new(History::from_state(life.begin.clone())),
            tables: Mutex::new(tables),
            life,
        };
        let driver = Driver { shared: Arc::new(shared) };
        driver.open_again();
        driver
    }

    fn open_again(&self) {
        let s = &self.shared;
        let mut vfs = s.disk.vfs(s.seed);
        if s.shape.faults {
            vfs = Vfs { disk: Arc::new(s.faults.clone()), ..vfs };
        }
        let db = expect_ok("open", engine::open(&vfs, &s.shape));
        *s.db.lock() = Some(db);
    }

    pub(crate) fn db(&self) -> Db {
        self.shared.db.lock().as_ref().expect("open").clone()
    }

    /// Returns the disk's injected faults. It has some only if [`Shape::faults`] is set.
    #[must_use]
    pub fn faults(&self) -> &FaultDisk {
        &self.shared.faults
    }

    /// Returns how many operations the disk has done so far.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.shared.disk.op_count()
    }

    /// Returns how many processes were killed before this one.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.shared.life.number
    }

    /// Returns the keys of a table when this process began; `None` if it was not there.
    #[must_use]
    pub fn keys_at_begin(&self, table: &str) -> Option<Vec<Vec<u8>>> {
        let DbState { tables, rows, .. } = &self.shared.life.begin;
        let rows = |number| rows.get(number).map_or(Vec::new(), |rows| rows.keys().cloned().collect());
        tables.get(table).map(rows)
    }

    /// Fills the disk, or removes its limit.
    pub fn fill_disk(&self, full: bool) {
        let disk = &self.shared.disk;
        disk.limit(full.then(|| disk.used()));
    }

    /// Returns a random generator; each `salt` gives a different one.
    #[must_use]
    pub fn rng(&self, salt: u64) -> Prng {
        Prng::new(self.shared.seed.wrapping_mul(0x9e37_79b9) ^ salt)
    }

    pub(crate) fn record(&self, effect: Effect, called_at: u64, promise: Promise, lsn: Option<u64>) {
        let returned_at = self.at();
        self.shared.history.lock().add(Event { effect, called_at, returned_at, promise, lsn });
    }

    pub(crate) fn alone_are_durable(&self, called_at: u64) {
        let at = self.at();
        self.shared.history.lock().alone_are_durable(called_at, at);
    }

    fn number(&self, table: &str) -> u64 {
        *self.shared.tables.lock().0.get(table).unwrap_or_else(|| panic!("the script knows no table {table}"))
    }

    /// Creates a table.
    pub fn create(&self, name: &str) {
        let called_at = self.at();
        expect_ok("create a table", self.db().create_table(name));
        let number = self.new_number(name);
        self.record(Effect::Create(name.to_owned(), number), called_at, Promise::Durable, None);
    }

    fn new_number(&self, name: &str) -> u64 {
        let mut tables = self.shared.tables.lock();
        tables.1 += 1;
        let number = tables.1;
        tables.0.insert(name.to_owned(), number);
        number
    }

    /// Creates a table with these rows, which are in key order, by a bulk load.
    pub fn load(&self, name: &str, rows: RowList) {
        let called_at = self.at();
        let loaded = self.db().bulk_load(name, rows.iter().map(|(key, value)| (key, value)));
        expect_ok("load a table", loaded);
        let number = self.new_number(name);
        self.record(Effect::Load(name.to_owned(), number, rows), called_at, Promise::Durable, None);
    }

    /// Bulk loads these rows and abandons the load before its commit.
    pub fn abandon_load(&self, name: &str, rows: &RowList) {
        let mut load = expect_ok("begin a load", self.db().begin_bulk_load(name));
        let pushed = rows.iter().try_for_each(|(key, value)| load.push(key, value));
        expect_ok("abandon a load", pushed);
    }

    /// Drops a table.
    pub fn drop_table(&self, name: &str) {
        let called_at = self.at();
        expect_ok("drop a table", self.db().drop_table(name));
        self.shared.tables.lock().0.remove(name);
        self.record(Effect::Drop(name.to_owned()), called_at, Promise::Durable, None);
    }

    /// Renames a table.
    pub fn rename(&self, from: &str, to: &str) {
        let called_at = self.at();
        expect_ok("rename a table", self.db().rename_table(from, to));
        let renamed = self.renamed(from, to);
        self.record(renamed, called_at, Promise::Durable, None);
    }

    fn renamed(&self, from: &str, to: &str) -> Effect {
        let mut tables = self.shared.tables.lock();
        let number = tables.0.remove(from).expect("the script knows the table");
        tables.0.insert(to.to_owned(), number);
        Effect::Rename(from.to_owned(), to.to_owned())
    }

    /// Makes changes of the set of tables, all or none.
    pub fn change_tables(&self, changes: &[TableChange<'_>]) {
        let called_at = self.at();
        expect_ok("change the tables", self.db().change_tables(changes, LOCK_WAIT));
        let effects = changes.iter().flat_map(|change| self.effects_of(*change)).collect();
        self.record(Effect::ChangeTables(effects), called_at, Promise::Durable, None);
    }

    /// Returns what a change of the set of tables does. Gives a new table its number.
    fn effects_of(&self, change: TableChange<'_>) -> Vec<Effect> {
        let made = |name: &str, metadata: &[u8]| {
            let number = self.new_number(name);
            [Effect::Create(name.to_owned(), number), Effect::SetMetadata(name.to_owned(), metadata.to_vec())]
        };
        match change {
            TableChange::Create { name, metadata } => made(name, metadata).into(),
            TableChange::Drop { name } => {
                self.shared.tables.lock().0.remove(name);
                vec![Effect::Drop(name.to_owned())]
            }
            TableChange::Rename { from, to } => vec![self.renamed(from, to)],
            TableChange::Replace { name, metadata } => {
                let [create, set] = made(name, metadata);
                vec![Effect::Drop(name.to_owned()), create, set]
            }
            TableChange::SetMetadata { name, metadata } => {
                vec![Effect::SetMetadata(name.to_owned(), metadata.to_vec())]
            }
        }
    }

    /// Begins a transaction with the default settings.
    #[must_use]
    pub fn tx(&self) -> Txn {
        self.tx_with(How::default())
    }

    /// Begins a transaction.
    #[must_use]
    pub fn tx_with(&self, how: How) -> Txn {
        let db = self.db();
        let options = TxnOptions::new().isolation(how.isolation).durability(how.durability);
        let inner = expect_ok("begin", db.begin_with(options));
        Txn { driver: self.clone(), db, inner, writes: Vec::new(), how }
    }

    /// Runs `work` in a transaction and commits it. After a conflict it tries again in a new
    /// transaction.
    pub fn retry(&self, how: How, work: impl FnMut(&mut Txn) -> Result) {
        self.retry_until(how, work, Txn::try_commit);
    }

    /// As [`Driver::retry`], but prepares the transaction instead of committing it.
    pub fn retry_prepare(&self, how: How, xid: &[u8], work: impl FnMut(&mut Txn) -> Result) {
        self.retry_until(how, work, |tx| {
            tx.prepare(xid);
            Ok(())
        });
    }

    pub(crate) fn retry_until<R>(
        &self,
        how: How,
        mut work: impl FnMut(&mut Txn) -> Result,
        end: impl Fn(Txn) -> Result<R>,
    ) -> R {
        for try_number in 0..TRIES {
            let mut tx = self.tx_with(how);
            match work(&mut tx).and_then(|()| end(tx)) {
                Ok(ended) => return ended,
                Err(e) if e.is_retryable() => base::sync::sim::pause(u64::from(try_number) * 50),
                Err(e) => panic!("a transaction failed: {e}"),
            }
        }
        panic!("a transaction failed {TRIES} times")
    }

    /// Writes all dirty pages and moves the checkpoint.
    pub fn checkpoint(&self) {
        expect_ok("checkpoint", self.db().checkpoint());
    }

    /// Makes an empty directory, durably.
    pub fn make_dir(&self, dir: &str) {
        let disk = &self.shared.disk;
        let made = disk.create_dir(Path::new(dir)).and_then(|()| disk.sync_dir(Path::new("/")));
        made.expect("a disk that does not fail");
    }

    /// Closes the database and opens it again.
    ///
    /// REQUIRES: no other thread uses it.
    pub fn reopen(&self) {
        let db = self.shared.db.lock().take().expect("open");
        expect_ok("close", engine::close(&db));
        drop(db);
        self.open_and_compare();
    }

    /// Drops the last handle of the database, which closes it too, and opens it again.
    ///
    /// REQUIRES: no other thread uses it.
    pub fn drop_and_reopen(&self) {
        let db = self.shared.db.lock().take().expect("open");
        // If another thread had a handle, the database would stay open and the opening would fail.
        drop(db);
        self.open_and_compare();
    }

    fn open_and_compare(&self) {
        let at = self.at();
        self.shared.history.lock().closed(at);
        self.open_again();
        self.compare();
    }

    /// Runs `work` in `count` threads, each with its number, and waits until all have ended.
    pub fn threads(&self, count: u64, work: impl Fn(&Driver, u64) + Send + Sync + 'static) {
        let work = Arc::new(work);
        let threads: Vec<_> = (0..count)
            .map(|n| {
                let (driver, work) = (self.clone(), Arc::clone(&work));
                spawn(&format!("client {n}"), move || work(&driver, n)).expect("a thread")
            })
            .collect();
        for thread in threads {
            thread.join().expect("a panic ends the world");
        }
    }

    /// Makes reads of pages that hold `marker` fail from now on.
    pub fn refuse_reads_of(&self, marker: &[u8]) {
        let (path, page) = (Path::new(DIR).join("pages"), self.shared.shape.page_bytes);
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let file = self.shared.disk.open(&path, mode).expect("the pages");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_at(&mut bytes, 0).expect("the pages");
        for (n, bytes) in bytes.chunks(page).enumerate() {
            if bytes.windows(marker.len()).any(|part| part == marker) {
                let at = (n * page) as u64;
                self.shared.faults.refuse_reads(&path, at..at + page as u64);
            }
        }
    }

    /// Returns the value of a metric.
    #[must_use]
    pub fn figure(&self, name: &str) -> u64 {
        self.db().metrics().get(name).map_or(0, |value| value as u64)
    }

    /// Lets so much simulated time pass, in which background work can run.
    pub fn idle(&self, us: u64) {
        base::sync::sim::pause(us);
    }

    /// Compares what the database shows with everything that was committed. Panics if they differ.
    ///
    /// REQUIRES: no other thread changes the database.
    pub fn compare(&self) {
        let expected = self.shared.history.lock().final_state().contents();
        let found = expect_ok("read everything", read_contents(&self.db()));
        assert!(found == expected, "the run itself went wrong:\n{}", difference(&found, &expected));
    }

    /// Ends the run: compares, checks the database, and drops or closes it. Returns the history.
    #[must_use]
    pub fn finish(self, close: bool) -> History {
        self.compare();
        let db = self.shared.db.lock().take().expect("open");
        let problems = expect_ok("check", db.check()).problems;
        assert!(problems.is_empty(), "the check found: {problems:?}");
        if close {
            expect_ok("close", engine::close(&db));
        }
        drop(db);
        std::mem::take(&mut *self.shared.history.lock())
    }
}

/// Reads all rows of all tables and the names of the prepared transactions.
pub fn read_contents(db: &Db) -> Result<Contents> {
    let (prepared, bookmark) = (db.prepared()?, db.bookmark()?.unwrap_or_default());
    let mut contents = Contents { prepared, bookmark, ..Contents::default() };
    contents.prepared.sort();
    let tx = db.begin()?;
    for name in db.table_names()? {
        let table = db.open_table(&name)?;
        let rows = all_rows(&tx, &table, Isolation::RepeatableRead)?;
        let in_order = rows.is_sorted_by(|a, b| a.0 < b.0);
        assert!(in_order, "the rows of {name} come out of order");
        if name.starts_with(NUMBERED) {
            // Other keys come from the work that follows a recovery.
            let number = |key: &Vec<u8>| Some(u64::from_be_bytes(key[..].try_into().ok()?));
            let last = rows.iter().filter_map(|(key, _)| number(key)).filter(|n| *n < 1 << 32).max();
            let next = table.next_value();
            assert!(
                last.is_none_or(|last| next > last),
                "{name}: number {last:?} is given again from {next} on"
            );
        }
        let metadata = table.metadata();
        if !metadata.is_empty() {
            contents.metadata.insert(name.clone(), metadata);
        }
        contents.tables.insert(name, rows.into_iter().collect());
    }
    tx.rollback();
    Ok(contents)
}

impl Txn {
    fn wrote(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) {
        self.writes.push((self.driver.number(table), key.to_vec(), value.map(<[u8]>::to_vec)));
    }

    /// Opens a table.
    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        self.db.open_table(name)
    }

    /// Reads a row's value.
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.get(&self.table(table)?, key)
    }

    /// Locks a row and reads its newest value.
    pub fn get_for_update(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.get_for_update(&self.table(table)?, key)
    }

    /// Inserts a row. Returns false if the key exists already.
    pub fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<bool> {
        match self.inner.insert(&self.table(table)?, key, value) {
            Ok(()) => {
                self.wrote(table, key, Some(value));
                Ok(true)
            }
            Err(Error::KeyExists) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Inserts or replaces a row.
    pub fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result {
        self.inner.put(&self.table(table)?, key, value)?;
        self.wrote(table, key, Some(value));
        Ok(())
    }

    /// Deletes a row. Returns whether there was one.
    pub fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool> {
        let was_there = self.inner.delete(&self.table(table)?, key)?;
        if was_there {
            self.wrote(table, key, None);
        }
        Ok(was_there)
    }

    /// Changes entries of tables as one row: all or none. Returns false if an insert found its key.
    pub fn change_row(&mut self, changes: &[(&str, &[u8], EntryOp<'_>)]) -> Result<bool> {
        let tables: Vec<_> = changes.iter().map(|(name, ..)| self.table(name)).collect::<Result<_>>()?;
        let of = |(&(_, key, op), table)| EntryChange { table, key, op };
        let entries: Vec<_> = changes.iter().zip(&tables).map(of).collect();
        if self.inner.change_row(&entries, Some(RowLock::Shared))? != RowOutcome::Changed {
            return Ok(false);
        }
        for (table, key, op) in changes {
            let value = match op {
                EntryOp::Insert(value) | EntryOp::Put(value) => Some(*value),
                EntryOp::Delete => None,
                EntryOp::Update(_) => unreachable!("it may change nothing, so its write is not known"),
            };
            self.wrote(table, key, value);
        }
        Ok(true)
    }

    /// Runs `work` as a statement. If it returns false, undoes what it did.
    pub fn statement(&mut self, work: impl FnOnce(&mut Txn) -> Result<bool>) -> Result {
        self.inner.begin_statement()?;
        let before = self.writes.len();
        if !work(self)? {
            self.inner.rollback_statement()?;
            self.writes.truncate(before);
        }
        Ok(())
    }

    /// Reads all rows of a table.
    pub fn scan(&self, table: &str) -> Result<RowList> {
        all_rows(&self.inner, &self.table(table)?, self.how.isolation)
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) -> TxnSavepoint {
        TxnSavepoint { savepoint: self.inner.savepoint(), writes: self.writes.len() }
    }

    /// Undoes all changes since a savepoint.
    pub fn rollback_to(&mut self, to: &TxnSavepoint) -> Result {
        self.inner.rollback_to(&to.savepoint)?;
        self.writes.truncate(to.writes);
        Ok(())
    }

    /// Commits. A conflict with another transaction is an error.
    pub fn try_commit(self) -> Result {
        self.end(Transaction::commit)
    }

    /// Commits. Panics on any error.
    pub fn commit(self) {
        expect_ok("commit", self.try_commit());
    }

    /// Commits and waits on a future. Panics on any error.
    pub fn commit_async(self) {
        let ended = self.end(|inner| {
            let future = inner.commit_async()?;
            // A thread that waits may lead a flush. A thread that polls leaves this to the log
            // thread. Both are tried.
            if thread_number().is_multiple_of(2) { future.wait() } else { block_on(future) }
        });
        expect_ok("commit", ended);
    }

    pub(crate) fn end(self, commit: impl FnOnce(Transaction) -> Result<Receipt>) -> Result {
        let called_at = self.driver.at();
        let lsn = commit(self.inner)?.lsn;
        if !self.writes.is_empty() {
            let effect = Effect::Commit(self.writes);
            self.driver.record(effect, called_at, promise_of(self.how.durability), Some(lsn));
        }
        Ok(())
    }

    /// Rolls back.
    pub fn rollback(self) {
        self.inner.rollback();
    }

    /// Prepares the transaction (two-phase commit). Panics on any error.
    pub fn prepare(self, xid: &[u8]) {
        let called_at = self.driver.at();
        expect_ok("prepare", self.inner.prepare(xid));
        self.driver.record(Effect::Prepare(xid.to_vec(), self.writes), called_at, Promise::Durable, None);
    }
}
