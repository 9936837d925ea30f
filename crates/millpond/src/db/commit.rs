//! Commit: [`Transaction::commit`], [`Transaction::commit_async`], and [`Transaction::prepare`] for
//! two-phase commit.

#[cfg(doc)]
use super::Isolation;
use super::{CommitFuture, Durability, Receipt, Transaction};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::{Lsn, TreeId};
use metrics::{Latency, M, SyncReason};
use smallvec::SmallVec;

impl Transaction {
    /// The commit up to its place in the log, and the time when it has that, microseconds of the clock.
    fn commit_in_log(&self) -> Result<(Option<Lsn>, Receipt, u64)> {
        let core = &self.core;
        let _inside = self.enter()?;
        let engine = &core.engine;
        let clock = &engine.txns.vfs.clock;
        // A commit that waits for nothing takes about a microsecond, and two looks at the clock would be a tenth of that.
        let timed = self.options.durability != Durability::None || !engine.store.log.has_room();
        let now_us = || if timed { clock.now_us() } else { 0 };
        let start_us = now_us();
        let lsn = engine.txns.commit(&self.txn)?;
        self.txn.drop_moment();
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
    fn required_lsn(&self, lsn: Option<Lsn>) -> Option<Lsn> {
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
        match (self.required_lsn(lsn), self.options.durability) {
            (Some(needed), Durability::Sync) => Ok(CommitFuture::pending(core, needed, receipt, logged_us)),
            (Some(needed), Durability::Bounded { ms, bytes }) => {
                core.engine.store.log.flush_bounded(needed, ms, bytes)?;
                Ok(CommitFuture::ready(core, receipt))
            }
            (_, Durability::None) | (None, _) => Ok(CommitFuture::ready(core, receipt)),
        }
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
        let _inside = self.enter()?;
        // Whoever decides it is another transaction handle or none: its tables must be locked by its owner.
        let used: SmallVec<[TreeId; 4]> = self.tables.borrow().iter().map(|(tree, _)| *tree).collect();
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
