//! Counts callers' threads that are active: in a call, or waiting for their commit to be durable.
//! An open transaction whose program does something else does not count.

use base::Striped;
use base::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The counts of calls in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveCalls(Arc<Striped<AtomicU32>>);

/// One call in progress; dropping it ends the call.
#[derive(Debug)]
pub(crate) struct ActiveCall<'c>(&'c AtomicU32);

impl ActiveCalls {
    /// Counts a call until the returned guard is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> ActiveCall<'_> {
        let stripe = self.0.own();
        stripe.fetch_add(1, Ordering::SeqCst);
        ActiveCall(stripe)
    }

    /// Waits until each counter was zero once. REQUIRES: calls that begin now end at once.
    pub(crate) fn drain(&self, mut wait: impl FnMut()) {
        for stripe in self.0.iter() {
            while stripe.load(Ordering::SeqCst) > 0 {
                wait();
            }
        }
    }

    /// Returns the number of calls in progress. Calls that begin or end meanwhile may or may not be
    /// counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|stripe| u64::from(stripe.load(Ordering::SeqCst))).sum()
    }
}

impl Drop for ActiveCall<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
