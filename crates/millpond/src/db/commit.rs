//! Commit: [`Transaction::commit`] and [`Transaction::commit_async`]; [`Db::sync`].

use super::{CommitFuture, Db, Durability, Receipt, Transaction};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::txn::bookmark;
use base::Lsn;
use metrics::{Latency, M, SyncReason};

impl Transaction {
    /// Appends the commit record to the log and makes the transaction visible. Returns the record's
    /// LSN (`None` if nothing changed), the receipt so far, and the time of the append in
    /// microseconds of the clock.
    fn commit_in_log(&self, bookmark: Option<&[u8]>) -> Result<(Option<Lsn>, Receipt, u64)> {
        let core = &self.core;
        let _inside = self.enter()?;
        let engine = &core.engine;
        let clock = &engine.txns.clock;
        // A commit that waits for nothing takes about one microsecond. Reading the clock twice
        // would add a tenth of that.
        let timed = self.options.durability != Durability::None || !engine.store.log.has_room();
        let now_us = || if timed { clock.now_us() } else { 0 };
        let start_us = now_us();
        let lsn = engine.txns.commits().commit(&self.txn, bookmark)?;
        self.txn.snapshot.clear();
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
    /// if it changed nothing, the newest commit that it has read and that no coordinator has on
    /// record. `None` if there is neither.
    fn required_lsn(&self, lsn: Option<Lsn>) -> Option<Lsn> {
        lsn.or_else(|| self.core.engine.txns.commits().seen_needed(&self.txn))
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
        self.commit_and_bookmark(None)
    }

    fn commit_and_bookmark(self, bookmark: Option<&[u8]>) -> Result<Receipt> {
        let core = &self.core;
        let log = &core.engine.store.log;
        let durability = self.options.durability;
        // Counts this commit among those that a flush leader expects.
        let _committing = (durability != Durability::None).then(|| log.committing());
        let (lsn, receipt, logged_us) = self.commit_in_log(bookmark)?;
        let Some(needed) = self.required_lsn(lsn) else { return Ok(receipt) };
        let info = match durability {
            Durability::Sync if planted(Bug::CommitNotAwaited) => None,
            Durability::Sync => Some(log.flush_to(needed, SyncReason::Commit)?),
            Durability::Written { ms, bytes } => {
                log.flush_bounded(needed, ms, bytes)?;
                log.outlive(needed, SyncReason::Commit)?;
                None
            }
            Durability::Bounded { ms, bytes } => {
                log.flush_bounded(needed, ms, bytes)?;
                None
            }
            Durability::None => None,
        };
        let sync_us = match durability {
            Durability::None => 0,
            _ => core.engine.txns.clock.now_us().saturating_sub(logged_us),
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

    /// Commits as durably as `durability` says, and makes `bookmark` the database's
    /// [bookmark](Db::bookmark): after a crash the bookmark
    /// is there if the commit is. So a program that applies a log of its own knows where to go on,
    /// and applies each of its entries once.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// for (n, entry) in ["ada", "bob"].iter().enumerate() {
    ///     let mut tx = db.begin()?;
    ///     tx.put(&table, entry.as_bytes(), b"")?;
    ///     let bookmark = format!("entry {n}");
    ///     tx.commit_with_bookmark(bookmark.as_bytes(), millpond::Durability::None)?;
    /// }
    /// assert_eq!(db.bookmark()?.as_deref(), Some(&b"entry 1"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bookmark of more than 64 KiB; as [`Transaction::commit`].
    pub fn commit_with_bookmark(mut self, bookmark: &[u8], durability: Durability) -> Result<Receipt> {
        bookmark::check(bookmark)?;
        self.options.durability = durability;
        self.commit_and_bookmark(Some(bookmark))
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
        let (lsn, receipt, logged_us) = self.commit_in_log(None)?;
        core.engine.store.metrics.add(M::CommitsAsync, u64::from(lsn.is_some()));
        match (self.required_lsn(lsn), self.options.durability) {
            (Some(needed), Durability::Sync) => Ok(CommitFuture::pending(core, needed, receipt, logged_us)),
            (Some(needed), Durability::Written { ms, bytes }) => {
                core.engine.store.log.flush_bounded(needed, ms, bytes)?;
                core.engine.store.log.outlive(needed, SyncReason::Commit)?;
                Ok(CommitFuture::ready(core, receipt))
            }
            (Some(needed), Durability::Bounded { ms, bytes }) => {
                core.engine.store.log.flush_bounded(needed, ms, bytes)?;
                Ok(CommitFuture::ready(core, receipt))
            }
            (_, Durability::None) | (None, _) => Ok(CommitFuture::ready(core, receipt)),
        }
    }
}

impl Db {
    /// Returns the bookmark: what the program has kept with its last commit of those that have one.
    /// `None`: nothing.
    ///
    /// See [`Transaction::commit_with_bookmark`] for an example.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn bookmark(&self) -> Result<Option<Vec<u8>>> {
        let _inside = self.core.enter()?;
        let bookmark = self.core.engine.txns.bookmark.get();
        Ok((!bookmark.is_empty()).then_some(bookmark))
    }

    /// Sets the bookmark, apart from any commit; an empty one removes it. It is as durable as
    /// `durability` says when the call returns.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_bookmark(b"entry 0", millpond::Durability::Sync)?;
    /// assert_eq!(db.bookmark()?.as_deref(), Some(&b"entry 0"[..]));
    /// db.set_bookmark(b"", millpond::Durability::None)?;
    /// assert_eq!(db.bookmark()?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bookmark of more than 64 KiB; [`Error::Closed`],
    /// [`Error::Poisoned`].
    pub fn set_bookmark(&self, bookmark: &[u8], durability: Durability) -> Result<()> {
        bookmark::check(bookmark)?;
        let _inside = self.core.enter()?;
        let engine = &self.core.engine;
        let lsn = engine.txns.bookmark.log(&engine.store.log, bookmark)?;
        self.core.make_durable(lsn, durability, SyncReason::Commit)
    }

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
    /// As [`Db::sync`], without waiting: the future is ready when every commit so far is durable.
    /// Its receipt tells nothing else.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"key", b"value")?;
    /// tx.commit_with(millpond::Durability::None)?;
    /// db.sync_async()?.wait()?; // or `.await`
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn sync_async(&self) -> Result<CommitFuture> {
        let _inside = self.core.enter()?;
        let (core, log) = (self.core.get(), &self.core.engine.store.log);
        match log.reserved_lsn() {
            end if log.durable_lsn() >= end => Ok(CommitFuture::ready(&core, Receipt::default())),
            end => {
                let now_us = self.core.engine.txns.clock.now_us();
                Ok(CommitFuture::pending(&core, Lsn(end.0 - 1), Receipt::default(), now_us))
            }
        }
    }
}
