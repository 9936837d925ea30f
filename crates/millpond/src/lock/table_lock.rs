//! Locks on whole tables (Lk4), and on their counters (Lk6).
//!
//! **Tables.** Every transaction has a shared one from its first use of a table to
//! its end. Drop, rename and truncate take the exclusive lock; it waits for all shared locks, and
//! later users wait for it.
//!
//! As long as no transaction wants the exclusive lock, a shared lock is only a count, see
//! [`super::users`]. All other table locks stand in queues of the same kind as row locks, so a
//! deadlock cycle over both is found.
//!
//! **Counters.** A transaction that wants consecutive values of a table's counter locks it
//! exclusively for the time of a statement. The counter itself says whether a transaction has or
//! wants the lock, so those that need no lock look at that alone.

use super::key::LockKey;
use super::ticket::Enqueued;
use super::{Denied, LockTable, Mode, Owner, Wait};
use base::TreeId;
use std::sync::Arc;

impl LockTable {
    /// Takes the shared lock on a table until `owner` ends. The caller remembers that it has the
    /// lock. REQUIRES: no latch is held.
    pub(crate) fn share_table(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        self.request(owner, LockKey::table(tree), Mode::Shared, wait)
    }

    /// Takes the exclusive lock on a table until `owner` ends. REQUIRES: no latch is held; the
    /// table's users are closed, and stay closed until `owner` ends.
    pub(crate) fn own_table(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        self.request(owner, LockKey::table(tree), Mode::Exclusive, wait)
    }

    /// Takes the lock on a table's counter until [`LockTable::release_counter`], or until `owner`
    /// ends. REQUIRES: no latch is held.
    pub(crate) fn lock_counter(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        self.request(owner, LockKey::counter(tree), Mode::Exclusive, wait)
    }

    /// Releases the lock on a table's counter, if `owner` has it.
    pub(crate) fn release_counter(&self, owner: &Owner, tree: TreeId) {
        let key = LockKey::counter(tree);
        if owner.forget_counter(&key) {
            self.release(owner, &key);
        }
    }
}
