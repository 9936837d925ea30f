//! Locks on whole tables (Lk4). Every transaction has a shared one from the first use of a table to its own end; drop,
//! rename and truncate take the exclusive one, which waits for all of them and holds up who comes later.
//!
//! As long as nobody wants the exclusive one, a shared one is only a count, see [`super::users`]. The others stand in
//! queues of the same kind as row locks, so a circle that runs over both is found.

use super::key::LockKey;
use super::{Denied, Enqueued, LockTable, Mode, Owner, Wait};
use base::TreeId;
use std::sync::Arc;

impl LockTable {
    /// Keeps the table as it is until `owner` ends. Callers remember that they have it. REQUIRES: no latch is held.
    pub(crate) fn share_table(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        self.request(owner, LockKey::table(tree), Mode::Shared, wait)
    }

    /// Waits until nobody else uses the table, and keeps it so until `owner` ends. REQUIRES: no latch is held; the
    /// table's users are closed, and stay so until `owner` ends.
    pub(crate) fn own_table(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        self.request(owner, LockKey::table(tree), Mode::Exclusive, wait)
    }
}
