//! How many threads are in the engine: in a call, or in a commit that waits. Open transactions
//! alone do not count.

use super::calls::ActiveCalls;
use crate::tree_store::Store;
use base::sync::atomic::{AtomicU64, Ordering};
use pace::constants::THREADS_MIN;
use std::sync::Arc;

/// The threads in the engine.
pub(super) struct CallThreads {
    /// The calls that are in progress.
    calls: ActiveCalls,
    /// The number of active threads as the cleaner estimates it.
    active: AtomicU64,
    store: Arc<Store>,
}

impl CallThreads {
    pub(super) fn new(calls: &ActiveCalls, store: &Arc<Store>) -> CallThreads {
        CallThreads { calls: calls.clone(), active: AtomicU64::new(0), store: Arc::clone(store) }
    }

    /// Returns the number of threads in the engine now.
    pub(super) fn now(&self) -> u64 {
        let waiting = self.store.pool.frame_waiters() as u64;
        (self.calls.count() + self.store.log.committers()).max(waiting)
    }

    /// Sets the smoothed number of active threads.
    pub(super) fn set_active(&self, active: u64) {
        self.active.store(active, Ordering::Relaxed);
    }

    /// Returns the smoothed number of active threads, at least [`THREADS_MIN`].
    pub(super) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed).max(THREADS_MIN)
    }
}
