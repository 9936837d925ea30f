//! What the clients share: the table, what all transactions have added to it, and the prepared
//! ones.

use super::failure::TxnFailure;
use millpond::{Db, Table};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// What a transaction adds to all groups, if it commits.
#[derive(Clone, Copy, Default)]
pub(super) struct Delta {
    pub(super) balance: i64,
    pub(super) count: i64,
}

/// Counts of what the clients did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) ended: AtomicU64,
    pub(super) committed: AtomicU64,
    pub(super) rolled_back: AtomicU64,
    pub(super) prepared: AtomicU64,
    pub(super) audits: AtomicU64,
    pub(super) tables: AtomicU64,
    pub(super) deadlocks: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) conflicts: AtomicU64,
}

/// What the clients share.
pub(super) struct Shared {
    pub(super) db: Db,
    pub(super) table: Table,
    pub(super) groups: u32,
    pub(super) stop: AtomicBool,
    pub(super) counts: Counts,
    /// The sums of the balances and numbers of rows that all committed transactions have added.
    pub(super) balance: AtomicI64,
    pub(super) count: AtomicI64,
    /// Prepared transactions that are not yet decided.
    pub(super) prepared: Mutex<Vec<(Vec<u8>, Delta)>>,
}

impl Shared {
    pub(super) fn add(&self, delta: Delta) {
        self.balance.fetch_add(delta.balance, Ordering::Relaxed);
        self.count.fetch_add(delta.count, Ordering::Relaxed);
        self.counts.committed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn decide(&self, xid: &[u8], delta: Delta, against: bool) -> Result<(), TxnFailure> {
        if against {
            return Ok(self.db.rollback_prepared(xid)?);
        }
        self.db.commit_prepared(xid)?;
        self.add(delta);
        Ok(())
    }
}
