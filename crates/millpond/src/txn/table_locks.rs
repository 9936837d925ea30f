//! Locks of tables and of their counters.

use super::counters::{Counter, CounterHold};
use super::lock_wait::LockWaits;
use super::rules::Rules;
use super::transaction::Txn;
use super::versions::Versions;
use crate::error::Result;
use crate::lock::{LockTable, TableLock, Wait};
use base::TreeId;
use std::sync::Arc;

/// Locks tables and counters, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct TableLocks<'a> {
    /// Where a transaction gets its id.
    pub(super) versions: &'a Versions,
    pub(super) locks: &'a LockTable,
    pub(super) waits: &'a LockWaits,
}

impl TableLocks<'_> {
    /// Takes the shared table lock, which keeps the tree until the transaction ends.
    pub(crate) fn share(&self, txn: &Txn, tree: TreeId, wait: Wait) -> Result {
        let owner = txn.owner_or_begin(self.versions, self.locks);
        self.waits.await_lock_for(txn, self.locks.lock_table(owner, tree, TableLock::Shared, wait))
    }

    /// Locks a counter for the transaction, until the caller drops the hold after
    /// [`TableLocks::unlock_counter`], or after the transaction's end. REQUIRES: no latch held.
    pub(crate) fn lock_counter(
        &self,
        txn: &Txn,
        counter: &Arc<Counter>,
        rules: Rules,
    ) -> Result<CounterHold> {
        let hold = CounterHold::new(counter);
        let owner = txn.owner_or_begin(self.versions, self.locks);
        let locked = self.locks.lock_table(owner, hold.tree(), TableLock::Counter, rules.wait);
        self.waits.await_lock_for(txn, locked)?;
        Ok(hold)
    }

    /// Releases the lock of a counter.
    pub(crate) fn unlock_counter(&self, txn: &Txn, hold: CounterHold) {
        if let Some(owner) = txn.owner() {
            self.locks.release_counter(owner, hold.tree());
        }
    }
}
