//! [`Transaction`]: reads and changes rows, savepoints and rollback. `commit.rs` has its commit.

use super::core_ref::CoreRef;
use super::db_core::DbCore;
use super::isolation::{LockWait, PlainReads, TxnOptions};
use crate::btree::Tree;
use crate::buffer::FetchHint;
use crate::engine::ActiveCall;
use crate::error::{Error, Result};
use crate::lock::{Mode, Using, Wait};
use crate::mvcc::Snapshot;
use crate::table_handle::Table;
use crate::txn::counters::CounterHold;
use crate::txn::{New, Rules, Txn, Wrote};
use crate::undo::UndoPosition;
use base::{Lsn, TreeId};
use metrics::M;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::mem::{forget, take};

/// A point in a transaction to which [`Transaction::rollback_to`] can return.
#[derive(Clone, Debug)]
pub struct Savepoint {
    position: UndoPosition,
    /// The transaction's serial number.
    txn: u64,
}

/// A table that a transaction uses.
#[derive(Debug)]
pub(super) struct UsedTable {
    pub(super) tree: TreeId,
    /// The number of the last call that may have changed its rows, as [`Transaction::writes`]
    /// counts them, or a greater one.
    last_write: u64,
    /// With it the transaction is counted among the table's users; without, it holds a shared table
    /// lock.
    pub(super) using: Option<Using>,
}

/// The tables that a transaction uses. Two have their places in the transaction: each place is
/// copied when a transaction begins.
type Tables = SmallVec<[UsedTable; 2]>;

/// A transaction. [`Transaction::commit`] makes its changes permanent; dropping it rolls it back.
///
/// Reads take `&self`, changes take `&mut self`. A transaction may move between threads, but one
/// thread uses it at a time.
///
/// After most errors only that call has failed and the transaction goes on. It is rolled back as a
/// whole, and later calls give [`Error::Aborted`], after [`Error::Deadlock`], after
/// [`Error::WriteConflict`], after an error in the middle of [`Transaction::rollback_to`], and if
/// the pages that a failed call wrote for a long value cannot be freed.
#[derive(Debug)]
pub struct Transaction {
    pub(super) core: CoreRef,
    pub(super) options: TxnOptions,
    pub(super) txn: Txn,
    pub(super) tables: RefCell<Tables>,
    pub(super) ended: Cell<bool>,
    pub(super) aborted: Cell<bool>,
    pub(super) admission_us: u64,
    /// Counts calls that may have changed rows, so that a cursor knows when its copy of rows is
    /// old.
    pub(super) writes: u64,
    /// Rows that cursors have shown since the metric was last raised: a shared counter costs more
    /// than the rest of showing a row.
    rows_shown: Cell<u64>,
    /// Where the running statement began.
    pub(super) statement: Option<UndoPosition>,
    /// The counters that it has locked for the running statement. Few transactions lock any, and
    /// one that reads pays for each byte of this struct.
    pub(super) counters: RefCell<Vec<CounterHold>>,
    /// The serial number that savepoints name; 0 until the first savepoint.
    serial: u64,
}

impl Transaction {
    pub(super) fn begin(core: CoreRef, options: TxnOptions) -> Transaction {
        core.engine.store.metrics.add(M::ActiveTransactions, 1);
        Transaction {
            core,
            options,
            txn: Txn::named(options.tag, options.observed_as),
            tables: RefCell::default(),
            ended: Cell::new(false),
            aborted: Cell::new(false),
            admission_us: 0,
            writes: 0,
            rows_shown: Cell::new(0),
            statement: None,
            counters: RefCell::default(),
            serial: 0,
        }
    }

    /// Begins a call. Errors: `Closed`, `Poisoned`; `Aborted` if the transaction was rolled back.
    #[inline]
    pub(super) fn enter(&self) -> Result<ActiveCall<'_>> {
        let inside = self.core.enter()?;
        if self.aborted.get() {
            return Err(Error::Aborted);
        }
        Ok(inside)
    }

    /// Returns the rules for conflicts and waits of a call that waits as the transaction does.
    pub(super) fn rules(&self) -> Rules {
        let conflicts_after = if self.options.first_updater_wins() { self.txn.snapshot.lsn() } else { None };
        let serializable = self.options.isolation.locks_reads();
        let wait = self.options.wait(self.core.lock_wait);
        Rules { conflicts_after, younger: false, overtakes: Lsn::MAX, wait, serializable }
    }

    /// Returns the rules of a call that changes rows.
    pub(super) fn rules_of_change(&self) -> Rules {
        let rules = self.rules();
        if self.options.first_updater_wins() {
            return rules;
        }
        // A transaction whose reads lock has no snapshot that a change could overtake.
        Rules { overtakes: self.txn.snapshot.lsn().unwrap_or(Lsn::MAX), ..rules }
    }

    /// Returns the rules of a call that chooses how it waits.
    pub(super) fn rules_with(&self, wait: LockWait) -> Rules {
        let rules = self.rules();
        match wait {
            LockWait::Wait => rules,
            LockWait::NoWait => Rules { wait: Wait::NoWait, ..rules },
            LockWait::SkipLocked => Rules { wait: Wait::Skip, ..rules },
        }
    }

    /// Returns the table's tree. From here on the transaction uses the table: it cannot be dropped
    /// or renamed until the transaction ends.
    pub(super) fn tree(&self, table: &Table) -> Result<Tree> {
        if table.db != self.core.id {
            return Err(Error::Misuse("the table belongs to another database".into()));
        }
        let tree = table.entry.tree;
        if self.tables.borrow().iter().any(|used| used.tree == tree.id) {
            return Ok(tree);
        }
        let using = table.entry.users.enter();
        if using.is_none() {
            let shared = self.core.engine.txns.table_locks().share(&self.txn, tree.id, self.rules().wait);
            self.roll_back_if_required(shared)?;
        }
        table.entry.check()?;
        self.tables.borrow_mut().push(UsedTable { tree: tree.id, last_write: self.writes, using });
        Ok(tree)
    }

    /// Notes a call that may have changed rows of these tables.
    pub(super) fn note_writes(&mut self, trees: impl Iterator<Item = TreeId>) {
        self.writes += 1;
        let tables = self.tables.get_mut();
        for tree in trees {
            if let Some(used) = tables.iter_mut().find(|used| used.tree == tree) {
                used.last_write = self.writes;
            }
        }
    }

    /// Notes a call that may have changed rows of all tables.
    pub(super) fn note_undone(&mut self) {
        self.writes += 1;
        self.tables.get_mut().iter_mut().for_each(|used| used.last_write = self.writes);
    }

    /// Returns the number of the last call that may have changed rows of a table, or a greater one.
    pub(super) fn last_write(&self, tree: TreeId) -> u64 {
        let tables = self.tables.borrow();
        tables.iter().find(|used| used.tree == tree).map_or(u64::MAX, |used| used.last_write)
    }

    /// Ends the use of all tables and their counters. REQUIRES: the transaction has ended, so its
    /// locks are free; or it has none.
    pub(super) fn leave_tables(&self) {
        self.tables.borrow_mut().clear();
        self.counters.borrow_mut().clear();
    }

    /// Sets how long the calls from here on wait for a lock, see [`TxnOptions::lock_wait`].
    pub fn set_lock_wait(&mut self, wait: std::time::Duration) {
        self.options = self.options.lock_wait(wait);
    }

    pub(super) fn writable(&self) -> Result {
        if self.options.read_only {
            return Err(Error::Misuse("the transaction was begun to read only".into()));
        }
        Ok(())
    }

    /// Rolls the transaction back if `result` is an error that requires it; counts conflicts and
    /// timeouts. Returns the result.
    pub(super) fn roll_back_if_required<R>(&self, result: Result<R>) -> Result<R> {
        let result = self.core.or_poisoned(result);
        if let Err(error) = &result {
            let metrics = &self.core.engine.store.metrics;
            match error {
                Error::WriteConflict => metrics.add(M::WriteConflicts, 1),
                Error::LockTimeout => metrics.add(M::LockTimeouts, 1),
                _ => {}
            }
            if matches!(error, Error::Deadlock | Error::WriteConflict) || self.txn.is_doomed() {
                self.core.engine.txns.rollbacks().rollback(&self.txn);
                self.txn.snapshot.clear();
                self.leave_tables();
                metrics.add(M::Rollbacks, 1);
                self.aborted.set(true);
            }
        }
        result
    }

    /// Returns the snapshot LSN of a plain read that does not lock. If the read has a snapshot of
    /// its own, it also returns the snapshot, to be held until the read ends.
    pub(super) fn read_position(&self) -> (Lsn, Option<Snapshot>) {
        let txns = &self.core.engine.txns;
        if self.options.plain_reads() == PlainReads::StatementSnapshot && self.statement.is_none() {
            let snapshot = txns.versions.draw_snapshot();
            return (snapshot.lsn(), Some(snapshot));
        }
        (self.txn.snapshot_lsn(&txns.versions), None)
    }

    /// Waits, in a read-only transaction, until the rows it has read are durable, and may be shown
    /// (Co10).
    pub(super) fn wait_reads_durable(&self) -> Result {
        if self.options.read_only {
            self.core.engine.txns.commits().wait_seen_durable(&self.txn)
        } else {
            Ok(())
        }
    }

    /// Whether plain reads take locks.
    pub(super) fn locks_reads(&self) -> bool {
        self.options.plain_reads() == PlainReads::Locked
    }

    pub(super) fn core(&self) -> &DbCore {
        &self.core
    }

    pub(super) fn txn(&self) -> &Txn {
        &self.txn
    }

    /// Begins a call that reads the table.
    #[inline]
    pub(super) fn enter_to_read(&self, table: &Table) -> Result<(ActiveCall<'_>, Tree)> {
        let entered = self.enter_table(table)?;
        if let Some(snapshot) = self.txn.snapshot.lsn() {
            table.entry.check_known_to(snapshot)?;
        }
        Ok(entered)
    }

    /// Begins a call on the table.
    #[inline]
    pub(super) fn enter_table(&self, table: &Table) -> Result<(ActiveCall<'_>, Tree)> {
        let inside = self.enter()?;
        self.check_cancelled()?;
        let tree = self.tree(table)?;
        Ok((inside, tree))
    }

    /// Returns the value of `key`, or `None` if there is no such row.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// assert_eq!(tx.get(&table, b"ada")?, None);
    /// tx.put(&table, b"ada", b"100")?;
    /// assert_eq!(tx.get(&table, b"ada")?.as_deref(), Some(&b"100"[..])); // its own changes too
    /// assert_eq!(db.begin()?.get(&table, b"ada")?, None); // others see them after the commit
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] for a dropped table; [`Error::TableChanged`] for one that was made
    /// after the transaction's snapshot; [`Error::Misuse`] for a table of another database;
    /// [`Error::Aborted`], [`Error::Closed`], [`Error::Poisoned`]; [`Error::SnapshotTooOld`];
    /// [`Error::Corrupt`] and [`Error::Io`] for a page that cannot be read. In a serializable
    /// transaction also [`Error::LockTimeout`], [`Error::Deadlock`] and [`Error::Limit`].
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.locks_reads() {
            return self.get_locked(table, key, Mode::Shared, self.rules());
        }
        let (_inside, tree) = self.enter_to_read(table)?;
        let txns = &self.core.engine.txns;
        let (snapshot_lsn, _kept) = self.read_position();
        let view = txns.versions.view(snapshot_lsn, self.txn.id());
        let found = txns.reader(&self.txn, view).read_row(tree, key);
        let value =
            found.and_then(|found| found.map(|value| value.load(&txns.store, FetchHint::Normal)).transpose());
        let value = txns.versions.check_not_expired(snapshot_lsn, value)?;
        self.wait_reads_durable()?;
        if value.is_some() {
            txns.store.metrics.add(M::RowReads, 1);
        }
        Ok(value)
    }

    /// Makes one change of a row, after admission.
    fn change(&mut self, table: &Table, key: &[u8], new: New<'_>) -> Result<Wrote> {
        self.note_writes([table.entry.tree.id].into_iter());
        let (inside, tree) = self.enter_table(table)?;
        self.writable()?;
        let engine = &self.core.engine;
        let value_bytes = match new {
            New::Insert(value) | New::Put(value) | New::Update(value) => value.len(),
            New::Delete => 0,
        };
        // Enough for the redo of one leaf. The pages of a long value are admitted one by one.
        let redo = key.len() + value_bytes.min(engine.store.pool.page_bytes()) + 128;
        let mut admitted = engine.admission().admit(redo as u64)?;
        let mut rules = self.rules_of_change();
        rules.younger = rules.conflicts_after.is_some_and(|snapshot| table.entry.is_younger_than(snapshot));
        let wrote = engine.txns.writer().write_row(&self.txn, tree, key, new, rules, &mut admitted);
        let held_us = admitted.held_us;
        drop(admitted);
        let wrote = self.roll_back_if_required(wrote);
        drop(inside);
        self.admission_us += held_us;
        wrote
    }

    /// Counts a row that a cursor shows. [`Transaction::publish_rows_shown`] tells the metrics.
    #[inline]
    pub(super) fn count_row_shown(&self) {
        self.rows_shown.set(self.rows_shown.get() + 1);
    }

    /// Puts the rows that cursors have shown in the metrics.
    pub(super) fn publish_rows_shown(&self) {
        let shown = self.rows_shown.replace(0);
        if shown > 0 {
            self.core.engine.store.metrics.add(M::RowReads, shown);
        }
    }

    pub(super) fn count(&self, metric: M) {
        self.core.engine.store.metrics.add(metric, 1);
    }

    /// Inserts a row with a new key.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&table, b"ada", b"100")?;
    /// let again = tx.insert(&table, b"ada", b"200");
    /// assert!(matches!(again, Err(millpond::Error::KeyExists)));
    /// tx.commit()?; // only the second insert failed; the first one is committed
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyExists`]: then nothing has changed. [`Error::KeyTooLong`];
    /// [`Error::LockTimeout`], [`Error::Deadlock`], [`Error::WriteConflict`]; [`Error::DiskFull`],
    /// also if the undo files find no space; [`Error::Limit`]; [`Error::Misuse`] in a read-only
    /// transaction; and those of [`Transaction::get`].
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        match self.change(table, key, New::Insert(value))? {
            Wrote::Nothing => Err(Error::KeyExists),
            Wrote::Done { .. } => {
                self.count(M::RowInserts);
                Ok(())
            }
        }
    }

    /// Inserts a row, or replaces the value of the row with this key.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// tx.put(&table, b"ada", b"200")?;
    /// tx.commit()?;
    /// assert_eq!(db.begin()?.get(&table, b"ada")?.as_deref(), Some(&b"200"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`], without `KeyExists`.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        let wrote = self.change(table, key, New::Put(value))?;
        self.count(if wrote == (Wrote::Done { replaced: true }) { M::RowUpdates } else { M::RowInserts });
        Ok(())
    }

    /// Deletes a row. Returns whether there was one.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// assert!(tx.delete(&table, b"ada")?);
    /// assert!(!tx.delete(&table, b"ada")?); // there was none any more
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`], without `KeyExists`.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        let deleted = self.change(table, key, New::Delete)? != Wrote::Nothing;
        if deleted {
            self.count(M::RowDeletes);
        }
        Ok(deleted)
    }

    /// Marks this point of the transaction for [`Transaction::rollback_to`].
    ///
    /// See [`Transaction::rollback_to`] for an example.
    pub fn savepoint(&mut self) -> Savepoint {
        use base::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.serial == 0 {
            self.serial = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        Savepoint { position: self.txn.undo_position(), txn: self.serial }
    }

    /// Undoes the changes since the savepoint. The savepoint can be used again; later savepoints
    /// cannot. Locks of locking reads stay. Rows whose changes were undone are unlocked, unless the
    /// transaction is [serializable](crate::Isolation::Serializable).
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// let before = tx.savepoint();
    /// tx.put(&table, b"ada", b"0")?;
    /// tx.put(&table, b"bob", b"100")?;
    /// tx.rollback_to(&before)?;
    /// tx.commit()?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.get(&table, b"ada")?.as_deref(), Some(&b"100"[..]));
    /// assert_eq!(tx.get(&table, b"bob")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// Without any change: [`Error::Misuse`] for a savepoint of another transaction, or one after a
    /// savepoint that was rolled back to; [`Error::Limit`] after a million rollbacks to savepoints.
    ///
    /// In the middle of the work: [`Error::DiskFull`], [`Error::Corrupt`] or [`Error::Io`] for a
    /// page that cannot be read, and [`Error::Limit`] if the locks that a serializable transaction
    /// keeps find no memory. Then the whole transaction has been rolled back, because a transaction
    /// that is half undone must not commit. Later calls give [`Error::Aborted`].
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.note_undone();
        let _inside = self.enter()?;
        let txns = &self.core.engine.txns;
        if savepoint.txn != self.serial {
            return Err(Error::Misuse("the savepoint belongs to another transaction".into()));
        }
        if !self.txn.reaches(savepoint.position) {
            return Err(Error::Misuse("the savepoint lies in what was rolled back".into()));
        }
        self.txn.can_rewind(savepoint.position)?;
        self.roll_back_if_required(txns.rollbacks().rollback_to(
            &self.txn,
            savepoint.position,
            self.rules(),
        ))?;
        if !self.has_locks() {
            self.leave_tables();
        }
        Ok(())
    }

    /// Ends the transaction's use of tables, so that they can be dropped and renamed, if it has
    /// locked and changed nothing. Returns whether it did. Later reads use tables again.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    /// assert!(tx.release_tables());
    /// db.rename_table("t", "u")?; // it does not wait for `tx`
    /// assert_eq!(tx.get(&table, b"key")?, None);
    /// tx.put(&table, b"key", b"value")?;
    /// assert!(!tx.release_tables());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    pub fn release_tables(&mut self) -> bool {
        if self.has_locks() || self.core.gate.is_in_child() {
            return false;
        }
        self.leave_tables();
        true
    }

    /// Returns whether the transaction has locked or changed anything so far. If it has not, a
    /// rollback to a savepoint also ends its use of tables: they can be dropped then.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// let start = tx.savepoint();
    /// tx.get(&table, b"key")?;
    /// assert!(!tx.has_locks());
    /// tx.rollback_to(&start)?;
    /// db.drop_table("t")?; // it does not wait for `tx`
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.txn.owner().is_some()
    }

    /// Undoes all changes of the transaction and releases its locks. Dropping it does the same.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// tx.rollback(); // as dropping it does
    /// assert_eq!(db.begin()?.get(&table, b"ada")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.core.gate.is_in_child() {
            // Another thread may have held the mutexes that these would take.
            forget((take(&mut self.txn), self.tables.take(), self.counters.take()));
            return;
        }
        self.core.engine.store.metrics.sub(M::ActiveTransactions, 1);
        self.publish_rows_shown();
        if self.ended.get() || self.aborted.get() {
            return;
        }
        if self.txn.owner().is_none() {
            // It has neither changed nor locked anything: there is nothing to roll back.
            return self.count(M::CommitsReadOnly);
        }
        // Closing the database has already rolled it back.
        if let Ok(_inside) = self.core.enter() {
            self.core.engine.txns.rollbacks().rollback(&self.txn);
            self.count(M::Rollbacks);
        }
    }
}
