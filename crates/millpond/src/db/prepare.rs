//! Two-phase commit: [`Transaction::prepare`], [`PreparedTransaction`], and decisions by xid.

#[cfg(doc)]
use super::Isolation;
use super::db_core::DbCore;
use super::{Db, Durability, Receipt, Transaction};
use crate::error::{Error, Result};
use crate::log::{KEPT_BOOKMARK_BYTES, KeptRoom};
use crate::planted::{Bug, planted};
use crate::txn::OnRecord;
use base::{Lsn, TreeId};
use metrics::{M, SyncReason};
use smallvec::SmallVec;
use std::mem::take;

/// The name that a coordinator gives a prepared transaction: 1 to 256 bytes.
pub type Xid = Vec<u8>;

impl DbCore {
    /// Makes the record at `lsn` as durable as `durability` says.
    pub(super) fn make_durable(&self, lsn: Lsn, durability: Durability, reason: SyncReason) -> Result {
        let log = &self.engine.store.log;
        match durability {
            Durability::Sync => log.flush_to(lsn, reason).map(drop),
            Durability::Written { ms, bytes } => {
                log.flush_bounded(lsn, ms, bytes)?;
                log.outlive(lsn, reason)
            }
            Durability::Bounded { ms, bytes } => log.flush_bounded(lsn, ms, bytes),
            Durability::None => Ok(()),
        }
    }

    /// Makes the prepare record at `lsn` durable.
    fn prepare_durable(&self, lsn: Lsn, durability: Durability) -> Result {
        if planted(Bug::PrepareNotAwaited) {
            return Ok(());
        }
        self.make_durable(lsn, durability, SyncReason::Prepare)
    }
}

impl Transaction {
    /// Prepares the transaction for two-phase commit.
    /// [`Db::commit_prepared`](crate::Db::commit_prepared) or
    /// [`Db::rollback_prepared`](crate::Db::rollback_prepared) with `xid` ends it later, also after
    /// a crash. The prepared state is durable when the call returns.
    ///
    /// Until it ends, it keeps its locks. After a crash it keeps only the locks of the rows that it
    /// changed; rows that a [serializable](Isolation::Serializable) one has only read can then be
    /// changed by others.
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
    /// [`Error::Misuse`] for an xid that is empty, longer than 256 bytes or in use: then the
    /// transaction is rolled back. [`Error::LockTimeout`] or [`Error::Deadlock`] if a table cannot
    /// be locked; [`Error::Aborted`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn prepare(mut self, xid: &[u8]) -> Result<()> {
        self.end_statement();
        let core = &self.core;
        let _inside = self.enter()?;
        // No handle is left that counts as a user of the tables, so the transaction locks them
        // instead.
        let used: SmallVec<[TreeId; 4]> = self.tables.borrow().iter().map(|used| used.tree).collect();
        for tree in used {
            let shared = core.engine.txns.table_locks().share(&self.txn, tree, self.rules().wait);
            self.roll_back_if_required(shared)?;
        }
        let _committing = core.engine.store.log.committing();
        let lsn = core.engine.txns.two_phase().prepare(&self.txn, xid, false)?;
        self.ended.set(true);
        core.engine.store.metrics.add(M::Prepares, 1);
        core.prepare_durable(lsn, Durability::Sync)
    }

    /// Prepares the transaction as [`Transaction::prepare`] does, and keeps it for this session,
    /// which will hear the coordinator's decision: until the returned handle is dropped, no other
    /// session ends it. The prepared state is as durable as `durability` says when the call
    /// returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// let mut prepared = tx.prepare_held(b"transfer 7", millpond::Durability::Sync)?;
    /// // The coordinator writes its decision down, durably. Then:
    /// prepared.commit_ordered()?;
    /// assert_eq!(db.begin()?.get(&table, b"ada")?.as_deref(), Some(&b"100"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::prepare`]; [`Error::Limit`] if sessions hold tens of thousands of prepared
    /// transactions. After an error the transaction is rolled back, unless the log has failed.
    pub fn prepare_held(self, xid: &[u8], durability: Durability) -> Result<PreparedTransaction> {
        self.hold(xid, durability, false)
    }

    /// Prepares the transaction as [`Transaction::prepare_held`] does, for a coordinator whose
    /// record of a commit holds all changes of the transaction. So nothing of it need be durable
    /// here: `durability` says how soon it is, not what the coordinator relies on. The call only
    /// waits until all commits are durable that the transaction may have seen and that no
    /// coordinator has on record.
    ///
    /// The coordinator commits with [`PreparedTransaction::commit_ordered_at`], in the order of its
    /// records. After a crash it decides first what [`Db::prepared`] shows. Then it repeats, in
    /// their order, the records after the [bookmark](Db::bookmark) but for those that it has just
    /// decided, each with [`Transaction::commit_with_bookmark`].
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::Durability::{Bounded, Sync};
    /// let soon = Bounded { ms: 100, bytes: 1 << 20 };
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// let mut prepared = tx.prepare_repeatable(b"transfer 7", soon)?;
    /// // The coordinator writes "transfer 7: ada = 100" down, durably, as its record 12. Then:
    /// prepared.commit_ordered_at(b"record 12")?;
    /// assert_eq!(db.bookmark()?.as_deref(), Some(&b"record 12"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::prepare_held`].
    pub fn prepare_repeatable(self, xid: &[u8], durability: Durability) -> Result<PreparedTransaction> {
        self.hold(xid, durability, true)
    }

    fn hold(mut self, xid: &[u8], durability: Durability, repeatable: bool) -> Result<PreparedTransaction> {
        self.end_statement();
        let room = self.prepare_in_log(xid, durability, repeatable)?;
        Ok(PreparedTransaction { tx: self, xid: xid.to_vec(), room: Some(room), decided: None })
    }

    fn prepare_in_log(&self, xid: &[u8], durability: Durability, repeatable: bool) -> Result<KeptRoom> {
        let core = &self.core;
        let _inside = self.enter()?;
        let txns = &core.engine.txns;
        let _committing = (durability != Durability::None).then(|| core.engine.store.log.committing());
        let room = txns.two_phase().keep_commit_room()?;
        let lsn = txns.two_phase().prepare(&self.txn, xid, true)?;
        self.ended.set(true);
        // It reads no more, and purge need not wait for it.
        self.txn.snapshot.clear();
        core.engine.store.metrics.add(M::Prepares, 1);
        if repeatable
            && !planted(Bug::SeenNotAwaited)
            && let Some(needed) = txns.two_phase().needed_by_repeatable()
        {
            core.engine.store.log.flush_to(needed, SyncReason::Prepare)?;
        }
        // After a failure the database is poisoned, and the next open shows what is prepared.
        core.prepare_durable(lsn, durability).map(|()| room)
    }
}

/// A transaction that its session has prepared with [`Transaction::prepare_held`]. Its changes are
/// locked and invisible until it is decided. Dropping it leaves the decision to
/// [`Db::commit_prepared`] and [`Db::rollback_prepared`].
#[derive(Debug)]
pub struct PreparedTransaction {
    tx: Transaction,
    xid: Xid,
    /// For the commit record.
    room: Option<KeptRoom>,
    /// Where the log says how it ended.
    decided: Option<Lsn>,
}

impl PreparedTransaction {
    /// Commits a transaction whose commit the coordinator has written down durably. Others see the
    /// changes when the call returns, and the locks are free. It waits for nothing, and what the
    /// transaction has changed survives a crash although nothing is synced: it is prepared durably,
    /// and [`Db::prepared`] shows the coordinator after the crash which commits to repeat. It may
    /// forget those that are older than a [`Db::sync`].
    ///
    /// Commits of several transactions are ordered as these calls are. Further calls do nothing.
    ///
    /// See [`Transaction::prepare_held`] for an example.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`]: the transaction stays prepared, and the next open
    /// shows it.
    pub fn commit_ordered(&mut self) -> Result<()> {
        self.commit_in_log(OnRecord::Coordinator, None)
    }

    /// Commits as [`PreparedTransaction::commit_ordered`] does, and makes `bookmark` the database's
    /// [bookmark](Db::bookmark). Further calls do nothing.
    ///
    /// See [`Transaction::prepare_repeatable`] for an example.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bookmark of more than 32 bytes; as
    /// [`PreparedTransaction::commit_ordered`].
    pub fn commit_ordered_at(&mut self, bookmark: &[u8]) -> Result<()> {
        if bookmark.len() > KEPT_BOOKMARK_BYTES {
            let len = bookmark.len();
            return Err(Error::Misuse(format!(
                "a bookmark of {len} bytes for a prepared transaction: up to {KEPT_BOOKMARK_BYTES} are allowed"
            )));
        }
        self.commit_in_log(OnRecord::Coordinator, Some(bookmark))
    }

    fn commit_in_log(&mut self, on_record: OnRecord, bookmark: Option<&[u8]>) -> Result {
        if self.decided.is_some() {
            return Ok(());
        }
        let core = &self.tx.core;
        let _inside = core.enter()?;
        let room = self.room.take().expect("kept until the decision");
        self.decided = Some(core.engine.txns.two_phase().commit_held(
            &self.tx.txn,
            &self.xid,
            on_record,
            bookmark,
            &room,
        ));
        drop(room);
        self.tx.leave_tables();
        core.engine.store.metrics.add(M::Commits, 1);
        Ok(())
    }

    /// Commits, unless [`PreparedTransaction::commit_ordered`] has done it. When the call returns,
    /// the commit record is as durable as `durability` says.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::Durability::Sync;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// tx.prepare_held(b"transfer 7", Sync)?.commit(Sync)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn commit(mut self, durability: Durability) -> Result<Receipt> {
        let core = self.tx.core.clone();
        let log = &core.engine.store.log;
        let _committing = (durability != Durability::None).then(|| log.committing());
        self.commit_in_log(OnRecord::Nowhere, None)?;
        let lsn = self.decided.unwrap_or(Lsn::ZERO);
        core.make_durable(lsn, durability, SyncReason::Commit)?;
        let durable = log.durable_lsn() > lsn && !core.engine.ephemeral;
        Ok(Receipt { lsn: lsn.0, durable, ..Receipt::default() })
    }

    /// Undoes all changes of the transaction and releases its locks. That is as durable as
    /// `durability` says when the call returns; until it is durable, a crash leaves the transaction
    /// prepared.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::Durability::Sync;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// tx.prepare_held(b"transfer 7", Sync)?.rollback(Sync)?;
    /// assert_eq!(db.begin()?.get(&table, b"ada")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] after [`PreparedTransaction::commit_ordered`]; [`Error::Closed`],
    /// [`Error::Poisoned`]: the transaction stays prepared.
    pub fn rollback(mut self, durability: Durability) -> Result<()> {
        if self.decided.is_some() {
            return Err(Error::Misuse("the transaction has committed".into()));
        }
        let core = self.tx.core.clone();
        let _inside = core.enter()?;
        let lsn = core.engine.txns.two_phase().rollback_held(&self.tx.txn, &self.xid)?;
        self.decided = Some(lsn);
        self.tx.leave_tables();
        core.engine.store.metrics.add(M::Rollbacks, 1);
        core.make_durable(lsn, durability, SyncReason::Commit)
    }
}

impl Drop for PreparedTransaction {
    fn drop(&mut self) {
        if self.decided.is_some() || self.tx.core.gate.is_in_child() {
            return;
        }
        let tables = take(self.tx.tables.get_mut()).into_iter().filter_map(|used| used.using).collect();
        self.tx.core.engine.txns.two_phase().leave_prepared(&self.xid, tables);
    }
}

impl Db {
    /// Returns the xids of all prepared transactions, sorted.
    ///
    /// See [`Transaction::prepare`].
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn prepared(&self) -> Result<Vec<Xid>> {
        let _inside = self.core.enter()?;
        Ok(self.core.engine.txns.two_phase().prepared_xids())
    }

    /// Commits the prepared transaction of this xid. The commit is durable when the call returns.
    ///
    /// See [`Transaction::prepare`] for an example.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no prepared transaction has this xid; [`Error::Closed`],
    /// [`Error::Poisoned`].
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<()> {
        let _inside = self.core.enter()?;
        let lsn = self.core.engine.txns.two_phase().commit_prepared(xid)?;
        self.core.engine.store.metrics.add(M::Commits, 1);
        self.core.engine.store.log.flush_to(lsn, SyncReason::Commit).map(drop)
    }

    /// Rolls back the prepared transaction of this xid. That is durable when the call returns.
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
    /// [`Error::Misuse`] if no prepared transaction has this xid; [`Error::Closed`],
    /// [`Error::Poisoned`].
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<()> {
        let _inside = self.core.enter()?;
        let lsn = self.core.engine.txns.two_phase().rollback_prepared(xid)?;
        self.core.engine.store.metrics.add(M::Rollbacks, 1);
        self.core.engine.store.log.flush_to(lsn, SyncReason::Commit).map(drop)
    }
}
