//! Commit: [`Transaction::commit`], [`Transaction::commit_async`], and [`Transaction::prepare`] for
//! two-phase commit.

#[cfg(doc)]
use super::Isolation;
use super::{CommitFuture, Db, Durability, Receipt, Transaction};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::{Lsn, TreeId};
use metrics::{Latency, M, SyncReason};
use smallvec::SmallVec;

impl Transaction {
    /// Appends the commit record to the log and makes the transaction visible. Returns the record's
    /// LSN (`None` if nothing changed), the receipt so far, and the time of the append in
    /// microseconds of the clock.
    fn commit_in_log(&self) -> Result<(Option<Lsn>, Receipt, u64)> {
        let core = &self.core;
        let _inside = self.enter()?;
        let engine = &core.engine;
        let clock = &engine.txns.vfs.clock;
        // A commit that waits for nothing takes about one microsecond. Reading the clock twice
        // would add a tenth of that.
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

    /// Returns the LSN that must be durable before the commit is acknowledged: its own record, or,
    /// if it changed nothing, the newest commit that it has read. `None` if there is neither.
    fn required_lsn(&self, lsn: Option<Lsn>) -> Option<Lsn> {
        lsn.or_else(|| Some(self.txn.seen.get()).filter(|&seen| seen > Lsn::ZERO))
    }

    /// Commits. When the call returns, the commit is as durable as the transaction's [`Durability`]
    /// asks for, and others see the changes. A transaction that changed nothing waits in the same
    /// way for the newest commit that it has read.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"100")?;
    /// let receipt = tx.commit()?;
    /// println!("{} µs, {} of them for the sync", receipt.total_us, receipt.sync_us);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync of the log: only the next open shows
    /// whether the commit survived. [`Error::Aborted`] if the transaction has been rolled back;
    /// [`Error::Closed`].
    pub fn commit(self) -> Result<Receipt> {
        let core = &self.core;
        let log = &core.engine.store.log;
        let durability = self.options.durability;
        // Counts this commit among those that a flush leader expects.
        let _committing = (durability != Durability::None).then(|| log.committing());
        let (lsn, receipt, logged_us) = self.commit_in_log()?;
        let Some(needed) = self.required_lsn(lsn) else { return Ok(receipt) };
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

    /// Commits with another [`Durability`] than the transaction began with.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"seen", b"1")?;
    /// tx.commit_with(millpond::Durability::None)?; // not worth a sync
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<Receipt> {
        self.options.durability = durability;
        self.commit()
    }

    /// Commits without waiting for the disk. Others see the changes, and the locks are free, when
    /// the call returns. The future is ready when the commit is as durable as the transaction's
    /// [`Durability`] asks for.
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
        match (self.required_lsn(lsn), self.options.durability) {
            (Some(needed), Durability::Sync) => Ok(CommitFuture::pending(core, needed, receipt, logged_us)),
            (Some(needed), Durability::Bounded { ms, bytes }) => {
                core.engine.store.log.flush_bounded(needed, ms, bytes)?;
                Ok(CommitFuture::ready(core, receipt))
            }
            (_, Durability::None) | (None, _) => Ok(CommitFuture::ready(core, receipt)),
        }
    }

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
            let shared = core.engine.txns.share_tree(&self.txn, tree, self.rules().wait);
            self.roll_back_if_required(shared)?;
        }
        core.engine.txns.prepare(&self.txn, xid)?;
        core.engine.store.metrics.add(M::Prepares, 1);
        self.ended.set(true);
        Ok(())
    }
}

impl Db {
    /// Waits until every commit so far is durable, whatever [`Durability`] it asked for.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"key", b"value")?;
    /// tx.commit_with(millpond::Durability::None)?;
    /// db.sync()?; // now it is on disk
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync of the log; [`Error::Closed`].
    pub fn sync(&self) -> Result<()> {
        let _inside = self.core.enter()?;
        let log = &self.core.engine.store.log;
        match log.reserved_lsn() {
            end if log.durable_lsn() >= end => Ok(()),
            end => log.flush_to(Lsn(end.0 - 1), SyncReason::Commit).map(drop),
        }
    }
}
