//! [`Transaction`]: reads and changes rows, and ends by commit, rollback or drop.

use super::isolation::{Isolation, LockWait, TxnOptions};
use super::range::{Reads, own};
use super::share::Share;
use super::{CommitFuture, Core, Durability, Range, Receipt};
use crate::btree::Tree;
use crate::buffer::FetchHint;
use crate::engine::ActiveCall;
use crate::error::{Error, Result};
use crate::lock::{Mode, Using, Wait};
use crate::mvcc::Snapshot;
use crate::planted::{Bug, planted};
use crate::table::Table;
use crate::txn::{New, Rules, Txn, Wrote};
use crate::undo::UndoPosition;
use base::{Lsn, TreeId};
use metrics::{Latency, M, SyncReason};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::RangeBounds;

/// A point in a transaction that it can be rolled back to.
#[derive(Clone, Debug)]
pub struct Savepoint {
    mark: UndoPosition,
    /// Which transaction it is of.
    txn: u64,
}

/// The tables that a transaction uses: counted among their users, or else with a shared lock that its owner has.
type Tables = SmallVec<[(TreeId, Option<Using>); 4]>;

/// A transaction. It rolls back when it is dropped.
///
/// Reads take `&self`, changes `&mut self`; it may move between threads but is used by one at a time. After
/// [`Error::Deadlock`] or [`Error::WriteConflict`] it has been rolled back, and later calls give [`Error::Aborted`]; so it has after
/// an error half way through [`Transaction::rollback_to`], or where what a failed call had written of a long value cannot be taken back.
/// After any other error only that call failed.
#[derive(Debug)]
pub struct Transaction {
    core: Share,
    options: TxnOptions,
    txn: Txn,
    tables: RefCell<Tables>,
    ended: Cell<bool>,
    aborted: Cell<bool>,
    admission_us: u64,
    /// Tells savepoints of other transactions apart; 0 until the first one is made.
    serial: u64,
}

impl Transaction {
    pub(super) fn begin(core: Share, options: TxnOptions) -> Transaction {
        core.engine.store.metrics.add(M::ActiveTransactions, 1);
        Transaction {
            core,
            options,
            txn: Txn::default(),
            tables: RefCell::default(),
            ended: Cell::new(false),
            aborted: Cell::new(false),
            admission_us: 0,
            serial: 0,
        }
    }

    /// Begins a call: the database is open, the transaction lives.
    fn enter(&self) -> Result<ActiveCall<'_>> {
        let inside = self.core.enter()?;
        if self.aborted.get() {
            return Err(Error::Aborted);
        }
        Ok(inside)
    }

    /// How it judges what others do in a call that waits as the transaction does.
    fn rules(&self) -> Rules {
        let conflicts_after = match self.options.isolation {
            Isolation::ReadCommitted | Isolation::Serializable => None,
            Isolation::RepeatableRead => self.txn.snapshot_lsn(),
        };
        let serializable = self.options.isolation == Isolation::Serializable;
        Rules { conflicts_after, wait: self.options.wait(self.core.lock_wait), serializable }
    }

    /// The same in a call that says how it waits.
    pub(super) fn rules_with(&self, wait: LockWait) -> Rules {
        let rules = self.rules();
        match wait {
            LockWait::Wait => rules,
            LockWait::NoWait => Rules { wait: Wait::NoWait, ..rules },
            LockWait::SkipLocked => Rules { wait: Wait::Skip, ..rules },
        }
    }

    /// The table's tree, shared by this transaction until its end.
    fn tree(&self, table: &Table) -> Result<Tree> {
        if table.db != self.core.id {
            return Err(Error::Misuse("the table belongs to another database".into()));
        }
        let tree = table.entry.tree;
        if self.tables.borrow().iter().any(|(used, _)| *used == tree.id) {
            return Ok(tree);
        }
        let using = table.entry.users.enter();
        if using.is_none() {
            let shared = self.core.engine.txns.share_tree(&self.txn, tree.id, self.rules().wait);
            self.judge(shared)?;
        }
        table.entry.check()?;
        self.tables.borrow_mut().push((tree.id, using));
        Ok(tree)
    }

    /// Uses no table any more. REQUIRES: the transaction has ended, so that its locks are free.
    fn leave_tables(&self) {
        self.tables.borrow_mut().clear();
    }

    pub(super) fn writable(&self) -> Result {
        if self.options.read_only {
            return Err(Error::Misuse("the transaction was begun to read only".into()));
        }
        Ok(())
    }

    /// Rolls back after an error that says so.
    pub(super) fn judge<R>(&self, result: Result<R>) -> Result<R> {
        let result = self.core.told(result);
        if let Err(error) = &result {
            let metrics = &self.core.engine.store.metrics;
            match error {
                Error::WriteConflict => metrics.add(M::WriteConflicts, 1),
                Error::LockTimeout => metrics.add(M::LockTimeouts, 1),
                _ => {}
            }
            if matches!(error, Error::Deadlock | Error::WriteConflict) || self.txn.is_doomed() {
                self.core.engine.txns.rollback(&self.txn);
                self.txn.drop_snapshot();
                self.leave_tables();
                metrics.add(M::Rollbacks, 1);
                self.aborted.set(true);
            }
        }
        result
    }

    /// Returns the snapshot LSN of a plain read. Also returns the snapshot of a statement, which the
    /// caller keeps until the statement ends.
    pub(super) fn read_position(&self) -> (Lsn, Option<Snapshot>) {
        let txns = &self.core.engine.txns;
        if self.options.isolation == Isolation::ReadCommitted {
            let snapshot = txns.draw_snapshot();
            return (snapshot.lsn(), Some(snapshot));
        }
        (txns.snapshot_lsn_of(&self.txn), None)
    }

    /// What a read must still wait for before its rows may be shown (Co10).
    pub(super) fn shown(&self) -> Result {
        if self.options.read_only { self.core.engine.txns.wait_seen_durable(&self.txn) } else { Ok(()) }
    }

    /// Whether its plain reads take locks.
    pub(super) fn locks_reads(&self) -> bool {
        self.options.locks_reads()
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn txn(&self) -> &Txn {
        &self.txn
    }

    /// For a scan: begins a call on the table.
    pub(super) fn enter_table(&self, table: &Table) -> Result<(ActiveCall<'_>, Tree)> {
        let inside = self.enter()?;
        let tree = self.tree(table)?;
        Ok((inside, tree))
    }

    /// For a scan that goes on.
    pub(super) fn enter_again(&self) -> Result<ActiveCall<'_>> {
        self.enter()
    }

    /// The value of `key`, if there is a row.
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
    /// [`Error::NoSuchTable`], [`Error::Misuse`] for a table of another database, [`Error::Aborted`], [`Error::Closed`];
    /// [`Error::SnapshotTooOld`]; [`Error::LockTimeout`] and [`Error::Deadlock`] if the transaction is serializable.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.locks_reads() {
            return self.get_locked(table, key, Mode::Shared, self.rules());
        }
        let (_inside, tree) = self.enter_table(table)?;
        let txns = &self.core.engine.txns;
        let (snapshot_lsn, _kept) = self.read_position();
        let found = txns.read_row(&self.txn, txns.view(snapshot_lsn, self.txn.id()), tree, key);
        let value =
            found.and_then(|found| found.map(|value| value.load(&txns.store, FetchHint::Normal)).transpose());
        let value = txns.check_not_expired(snapshot_lsn, value)?;
        self.shown()?;
        if value.is_some() {
            txns.store.metrics.add(M::RowReads, 1);
        }
        Ok(value)
    }

    fn change(&mut self, table: &Table, key: &[u8], new: New<'_>) -> Result<Wrote> {
        let inside = self.core.enter()?;
        if self.aborted.get() {
            return Err(Error::Aborted);
        }
        let tree = self.tree(table)?;
        self.writable()?;
        let engine = &self.core.engine;
        let value_bytes = match new {
            New::Insert(value) | New::Put(value) => value.len(),
            New::Delete => 0,
        };
        // Enough for the record of one leaf; the pages of a long value are let in one by one.
        let redo = key.len() + value_bytes.min(engine.store.pool.page_bytes()) + 128;
        let mut admitted = engine.admission().admit(redo as u64)?;
        let wrote = engine.txns.write_row(&self.txn, tree, key, new, self.rules(), &mut admitted);
        let held_us = admitted.held_us;
        drop(admitted);
        let wrote = self.judge(wrote);
        drop(inside);
        self.admission_us += held_us;
        wrote
    }

    fn count(&self, metric: M) {
        self.core.engine.store.metrics.add(metric, 1);
    }

    /// Inserts a row.
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
    /// [`Error::KeyExists`] and then nothing has changed; [`Error::KeyTooLong`]; [`Error::LockTimeout`],
    /// [`Error::Deadlock`], [`Error::WriteConflict`]; [`Error::DiskFull`], of the undo files too; those of [`Transaction::get`].
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        match self.change(table, key, New::Insert(value))? {
            Wrote::Nothing => Err(Error::KeyExists),
            Wrote::Done { .. } => {
                self.count(M::RowInserts);
                Ok(())
            }
        }
    }

    /// Inserts a row or replaces its value.
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

    /// Deletes a row; tells whether there was one.
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

    /// The rows whose keys lie in `range`, in key order, from both ends. The bounds are copied.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// # let mut tx = db.begin()?;
    /// for key in [b"a1", b"a2", b"b1", b"b2"] {
    ///     tx.put(&table, key, b"")?;
    /// }
    /// let keys = |range: millpond::Range<'_>| -> millpond::Result<Vec<Vec<u8>>> {
    ///     range.map(|row| row.map(|(key, _)| key)).collect()
    /// };
    /// assert_eq!(keys(tx.range(&table, ..)?)?.len(), 4);
    /// assert_eq!(keys(tx.range(&table, &b"a2"[..]..&b"b2"[..])?)?, [b"a2", b"b1"]);
    /// assert_eq!(keys(tx.range(&table, &b"b"[..]..)?)?, [b"b1", b"b2"]); // all that begin with b, or come later
    /// let last = tx.range(&table, ..)?.next_back().transpose()?;
    /// assert_eq!(last, Some((b"b2".to_vec(), Vec::new())));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; each item may fail by itself.
    pub fn range<'k>(&self, table: &Table, range: impl RangeBounds<&'k [u8]>) -> Result<Range<'_>> {
        let reads = || match self.locks_reads() {
            true => Reads::kept(self.rules()),
            false => Reads::at(self.read_position()),
        };
        Range::new(self, table, (own(range.start_bound()), own(range.end_bound())), reads)
    }

    /// Marks this point for [`Transaction::rollback_to`].
    ///
    /// See [`Transaction::rollback_to`] for an example.
    pub fn savepoint(&mut self) -> Savepoint {
        use base::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.serial == 0 {
            self.serial = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        Savepoint { mark: self.core.engine.txns.undo_position(&self.txn), txn: self.serial }
    }

    /// Undoes what was changed since the savepoint, which can be used again; later savepoints cannot. Locks that reads asked
    /// for stay. The rows that are as before again are free for others to change, unless the transaction is
    /// [serializable](crate::Isolation::Serializable).
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
    /// [`Error::Misuse`] for a savepoint of another transaction, or one that lies in what was already undone: then nothing was
    /// changed, nor by [`Error::Limit`] after a million rollbacks to savepoints. [`Error::DiskFull`], a page that cannot be read, or no memory for
    /// the locks that a serializable transaction keeps ([`Error::Limit`] too): then all of the transaction has been rolled back, for half undone it
    /// could only do harm, and later calls give [`Error::Aborted`].
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let _inside = self.enter()?;
        let txns = &self.core.engine.txns;
        if savepoint.txn != self.serial {
            return Err(Error::Misuse("the savepoint belongs to another transaction".into()));
        }
        if !txns.reaches(&self.txn, savepoint.mark) {
            return Err(Error::Misuse("the savepoint lies in what was rolled back".into()));
        }
        txns.can_rewind(&self.txn, savepoint.mark)?;
        self.judge(txns.rollback_to(&self.txn, savepoint.mark, self.rules()))
    }

    /// The commit up to its place in the log, and the time when it has that, microseconds of the clock.
    fn commit_in_log(&self) -> Result<(Option<Lsn>, Receipt, u64)> {
        let core = &self.core;
        let _inside = core.enter()?;
        if self.aborted.get() {
            return Err(Error::Aborted);
        }
        let engine = &core.engine;
        let clock = &engine.txns.vfs.clock;
        // A commit that waits for nothing takes about a microsecond, and two looks at the clock would be a tenth of that.
        let timed = self.options.durability != Durability::None || !engine.store.log.has_room();
        let now_us = || if timed { clock.now_us() } else { 0 };
        let start_us = now_us();
        let lsn = engine.txns.commit(&self.txn)?;
        self.txn.drop_snapshot();
        self.leave_tables();
        self.ended.set(true);
        let logged_us = now_us();
        let log_us = logged_us.saturating_sub(start_us);
        let locks_us = self.txn.lock_us.get();
        let metric = if lsn.is_some() { M::Commits } else { M::CommitsReadOnly };
        engine.store.metrics.add(metric, 1);
        let receipt = Receipt {
            lsn: lsn.map_or(0, |lsn| lsn.0),
            durable: lsn.is_none() && !engine.ephemeral,
            locks_us,
            admission_us: self.admission_us,
            log_us,
            total_us: locks_us + self.admission_us + log_us,
            ..Receipt::default()
        };
        Ok((lsn, receipt, logged_us))
    }

    /// Where the log must be durable before the commit may be acknowledged: its own record, or, if it changed nothing, the
    /// newest commit that it was shown.
    fn needed(&self, lsn: Option<Lsn>) -> Option<Lsn> {
        lsn.or_else(|| Some(self.txn.seen.get()).filter(|&seen| seen > Lsn::ZERO))
    }

    /// Commits; durable as the transaction's [`Durability`] says when it returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// let receipt = tx.commit()?;
    /// println!("commit {}: {} µs, {} of them for the sync", receipt.lsn, receipt.total_us, receipt.sync_us);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// A failed write or sync of the log: whether the commit survives is known after the next open. [`Error::Aborted`] if
    /// the transaction was rolled back before.
    pub fn commit(self) -> Result<Receipt> {
        let core = &self.core;
        let log = &core.engine.store.log;
        let durability = self.options.durability;
        // Who leads a flush looks how many are about to want one.
        let _committing = (durability != Durability::None).then(|| log.committing());
        let (lsn, receipt, logged_us) = self.commit_in_log()?;
        let Some(needed) = self.needed(lsn) else { return Ok(receipt) };
        let info = match durability {
            Durability::Sync if planted(Bug::CommitNotAwaited) => None,
            Durability::Sync => Some(log.flush_to(needed, SyncReason::Commit)?),
            Durability::Bounded { ms, bytes } => {
                log.flush_bounded(needed, ms, bytes)?;
                None
            }
            Durability::None => None,
        };
        let sync_us = match durability {
            Durability::None => 0,
            _ => core.engine.txns.vfs.clock.now_us().saturating_sub(logged_us),
        };
        let receipt = match info {
            Some(info) => receipt.flushed(info, sync_us, core.engine.ephemeral),
            None => Receipt {
                durable: log.durable_lsn() > needed && !core.engine.ephemeral,
                sync_us,
                total_us: receipt.total_us + sync_us,
                ..receipt
            },
        };
        if durability != Durability::None {
            core.engine.store.metrics.time(Latency::Commit, receipt.log_us + receipt.sync_us);
        }
        Ok(receipt)
    }

    /// Commits and returns at once; the future is done when the commit is as durable as the transaction's [`Durability`]
    /// says.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut under_way = Vec::new();
    /// for n in 0..100u32 {
    ///     let mut tx = db.begin()?;
    ///     tx.put(&table, &n.to_be_bytes(), b"")?;
    ///     under_way.push(tx.commit_async()?); // others see it, and its locks are free
    /// }
    /// for commit in under_way {
    ///     commit.wait()?; // or `.await`
    /// }
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Aborted`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn commit_async(self) -> Result<CommitFuture> {
        let core = &self.core;
        let (lsn, receipt, logged_us) = self.commit_in_log()?;
        core.engine.store.metrics.add(M::CommitsAsync, u64::from(lsn.is_some()));
        match (self.needed(lsn), self.options.durability) {
            (Some(needed), Durability::Sync) => Ok(CommitFuture::pending(core, needed, receipt, logged_us)),
            (Some(needed), Durability::Bounded { ms, bytes }) => {
                core.engine.store.log.flush_bounded(needed, ms, bytes)?;
                Ok(CommitFuture::ready(core, receipt))
            }
            (_, Durability::None) | (None, _) => Ok(CommitFuture::ready(core, receipt)),
        }
    }

    /// Undoes all that it changed and frees its locks.
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

    /// Leaves the end of the transaction to [`Db::commit_prepared`](crate::Db::commit_prepared) or
    /// [`Db::rollback_prepared`](crate::Db::rollback_prepared) with `xid`, which works after a crash as well. Durable when
    /// it returns. Until it is decided it keeps its locks; after a crash those of the rows that it changed, but what a
    /// [serializable](Isolation::Serializable) one has read may be changed by others then.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// tx.prepare(b"transfer 7")?;
    /// // From here on the coordinator decides, perhaps after a crash and by another process:
    /// for xid in db.prepared()? {
    ///     db.commit_prepared(&xid)?;
    /// }
    /// assert_eq!(db.begin()?.get(&table, b"ada")?.as_deref(), Some(&b"100"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for an xid that is empty, longer than 256 bytes or in use: then the transaction is rolled back.
    pub fn prepare(self, xid: &[u8]) -> Result<()> {
        let core = &self.core;
        let _inside = core.enter()?;
        if self.aborted.get() {
            return Err(Error::Aborted);
        }
        // Whoever decides it is another transaction handle or none: its tables must be locked by its owner.
        let used: SmallVec<[TreeId; 4]> = self.tables.borrow().iter().map(|(tree, _)| *tree).collect();
        for tree in used {
            let shared = core.engine.txns.share_tree(&self.txn, tree, self.rules().wait);
            self.judge(shared)?;
        }
        core.engine.txns.prepare(&self.txn, xid)?;
        core.engine.store.metrics.add(M::Prepares, 1);
        self.ended.set(true);
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.core.engine.store.metrics.sub(M::ActiveTransactions, 1);
        if self.ended.get() || self.aborted.get() {
            return;
        }
        if self.txn.owner().is_none() {
            // It has neither changed nor locked anything: nothing is left of it to end.
            return self.count(M::CommitsReadOnly);
        }
        // A closed database has rolled it back already.
        if let Ok(_inside) = self.core.enter() {
            self.core.engine.txns.rollback(&self.txn);
            self.count(M::Rollbacks);
        }
    }
}
