//! Cancelling a transaction's waits from another thread.

use super::Owner;
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether the waits of a transaction are cancelled. The flag is sticky: it may be set before the
/// wait begins, and stays until it is cleared.
#[derive(Debug, Default)]
pub(crate) struct CancelFlag {
    set: AtomicBool,
    /// The transaction that waits now.
    waiting: Mutex<Option<Arc<Owner>>>,
}

/// A transaction that a [`CancelFlag`] can reach until this is dropped.
pub(super) struct Reachable<'f>(&'f CancelFlag);

impl CancelFlag {
    /// Whether waits fail.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Sets the flag. Returns the transaction that it can reach.
    pub(super) fn set(&self) -> Option<Arc<Owner>> {
        self.set.store(true, Ordering::Release);
        self.waiting.lock().clone()
    }

    /// Lets waits succeed again.
    pub(crate) fn clear(&self) {
        self.set.store(false, Ordering::Release);
    }

    /// Returns whether the transaction waits for a lock now.
    pub(crate) fn is_waiting(&self) -> bool {
        let waiting = self.waiting.lock().clone();
        waiting.is_some_and(|owner| owner.waits_for().is_some())
    }

    /// Makes a transaction reachable. A thread that sets the flag afterwards finds its wait; a
    /// thread that has set it before is seen by [`CancelFlag::is_set`].
    pub(super) fn reach(&self, owner: &Arc<Owner>) -> Reachable<'_> {
        *self.waiting.lock() = Some(Arc::clone(owner));
        Reachable(self)
    }
}

impl Drop for Reachable<'_> {
    fn drop(&mut self) {
        *self.0.waiting.lock() = None;
    }
}
