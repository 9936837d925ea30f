//! Locks on whole tables (Lk4). Every transaction has a shared one from its first use of a table to
//! its end. Drop, rename and truncate take the exclusive lock; it waits for all shared locks, and
//! later users wait for it.
//!
//! As long as no transaction wants the exclusive lock, a shared lock is only a count, see
//! [`super::users`]. All other table locks stand in queues of the same kind as row locks, so a
//! deadlock cycle over both is found.

use super::key::LockKey;
use super::{Denied, Enqueued, LockTable, Mode, Owner, Wait};
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
}
