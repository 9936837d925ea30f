//! The ends of prepared transactions: decided by name, or by the session that holds them. And
//! commits with bookmarks.

use crate::driver::{Driver, How, Txn, expect_ok};
use crate::history::{BOOKMARK, Effect, Promise, promise_of};
use millpond::{Durability, PreparedTransaction, Result};

impl Driver {
    /// As [`Driver::retry`], but commits with a bookmark.
    pub fn retry_at(&self, how: How, bookmark: &[u8], work: impl FnMut(&mut Txn) -> Result) {
        self.retry_until(how, work, |tx| tx.try_commit_at(bookmark));
    }

    /// As [`Driver::retry`], but ends the transaction by [`Txn::commit_repeatable`].
    pub fn retry_repeatable(
        &self,
        how: How,
        (xid, bookmark): (&[u8], &[u8]),
        wait: impl Fn(&Driver),
        work: impl FnMut(&mut Txn) -> Result,
    ) {
        self.retry_until(how, work, |tx| {
            tx.commit_repeatable(xid, bookmark, &wait);
            Ok(())
        });
    }

    /// As [`Driver::retry`], but prepares the transaction and holds it.
    pub fn retry_hold(&self, how: How, xid: &[u8], work: impl FnMut(&mut Txn) -> Result) -> HeldTxn {
        self.retry_until(how, work, |tx| Ok(tx.hold(xid)))
    }

    /// Commits a prepared transaction.
    pub fn commit_prepared(&self, xid: &[u8]) {
        let called_at = self.at();
        expect_ok("commit a prepared transaction", self.db().commit_prepared(xid));
        self.record(Effect::CommitPrepared(xid.to_vec()), called_at, Promise::Durable, None);
    }

    /// Rolls a prepared transaction back.
    pub fn rollback_prepared(&self, xid: &[u8]) {
        let called_at = self.at();
        expect_ok("roll a prepared transaction back", self.db().rollback_prepared(xid));
        self.record(Effect::RollbackPrepared(xid.to_vec()), called_at, Promise::Durable, None);
    }
}

impl Txn {
    /// Commits with a bookmark.
    pub fn try_commit_at(mut self, bookmark: &[u8]) -> Result {
        self.writes.push((BOOKMARK, Vec::new(), Some(bookmark.to_vec())));
        let durability = self.how.durability;
        self.end(|inner| inner.commit_with_bookmark(bookmark, durability))
    }

    /// Prepares the transaction for a coordinator that can make its changes again, waits for the
    /// coordinator, and commits with a bookmark. Nothing promises that it is durable here, but what
    /// it may have seen is. Panics on any error.
    pub fn commit_repeatable(mut self, xid: &[u8], bookmark: &[u8], wait: impl FnOnce(&Driver)) {
        self.writes.push((BOOKMARK, Vec::new(), Some(bookmark.to_vec())));
        let called_at = self.driver.at();
        let mut held = expect_ok("prepare", self.inner.prepare_repeatable(xid, Durability::None));
        self.driver.alone_are_durable(called_at);
        wait(&self.driver);
        expect_ok("commit in order", held.commit_ordered_at(bookmark));
        let lsn = expect_ok("commit a repeatable transaction", held.commit(Durability::None)).lsn;
        self.driver.record(Effect::Commit(self.writes), called_at, Promise::Nothing, Some(lsn));
    }

    /// Prepares the transaction durably and holds it. Panics on any error.
    pub fn hold(self, xid: &[u8]) -> HeldTxn {
        let called_at = self.driver.at();
        let inner = expect_ok("prepare", self.inner.prepare_held(xid, Durability::Sync));
        self.driver.record(Effect::Prepare(xid.to_vec(), self.writes), called_at, Promise::Durable, None);
        HeldTxn { driver: self.driver, inner, xid: xid.to_vec(), ordered_at: None }
    }
}

/// How names of transactions begin whose coordinator can make their changes again.
pub const REPEATABLE: &[u8] = b"repeatable ";

/// A prepared transaction that its session holds. After it is dropped, any thread that
/// knows its name can decide it.
pub struct HeldTxn {
    driver: Driver,
    inner: PreparedTransaction,
    xid: Vec<u8>,
    /// When it was committed without waiting.
    ordered_at: Option<u64>,
}

impl HeldTxn {
    /// Commits without waiting. Panics on any error.
    ///
    /// REQUIRES: [`HeldTxn::commit`] follows, which is when its place in the order is known.
    pub fn commit_ordered(&mut self) {
        self.ordered_at = Some(self.driver.at());
        expect_ok("commit in order", self.inner.commit_ordered());
    }

    /// Commits, if that is not done. Panics on any error.
    pub fn commit(self, durability: Durability) {
        let called_at = self.ordered_at.unwrap_or_else(|| self.driver.at());
        let lsn = expect_ok("commit a held transaction", self.inner.commit(durability)).lsn;
        let effect = Effect::CommitPrepared(self.xid);
        self.driver.record(effect, called_at, promise_of(durability), Some(lsn));
    }

    /// Rolls back. Panics on any error.
    pub fn rollback(self) {
        let called_at = self.driver.at();
        expect_ok("roll a held transaction back", self.inner.rollback(Durability::Sync));
        self.driver.record(Effect::RollbackPrepared(self.xid), called_at, Promise::Durable, None);
    }
}
