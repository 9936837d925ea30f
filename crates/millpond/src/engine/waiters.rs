//! All threads that wait in the engine, and waking them when the database is poisoned.

use super::admission::Admission;
use crate::error::Poison;
use crate::tree_store::Store;
use crate::txn::Txns;
use std::sync::Arc;

/// Where threads wait.
pub(super) struct Waiters {
    pub(super) store: Arc<Store>,
    pub(super) txns: Arc<Txns>,
    pub(super) admission: Arc<Admission>,
    pub(super) poison: Arc<Poison>,
}

impl Waiters {
    /// Wakes all threads that wait in the engine if the database is poisoned. Each background
    /// thread calls this when it ends, whichever thread failed: others may be inside a call to the
    /// device, and one call of this is enough. The log thread wakes tasks.
    pub(super) fn wake_if_poisoned(&self) {
        if self.poison.is_set() {
            self.store.log.wake_all_waiters();
            self.store.pool.wake_frame_waiters();
            self.admission.wake();
            self.txns.locks.stop();
        }
    }
}
