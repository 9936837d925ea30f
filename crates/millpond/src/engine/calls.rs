//! How many callers' threads are at work: inside a call, or waiting for their commit to be durable. A transaction that is open while its
//! program does something else is no thread at work, however many of them there are.

use base::sync::atomic::{AtomicU32, Ordering};
use base::sync::thread_number;
use std::sync::Arc;

/// Counters, so that threads do not share a cache line for this alone.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU32);

/// Calls that are inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveCalls(Arc<[Stripe; STRIPES]>);

/// One call inside.
#[derive(Debug)]
pub(crate) struct ActiveCall<'c>(&'c AtomicU32);

impl ActiveCalls {
    /// Counts a call until what is returned is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> ActiveCall<'_> {
        let stripe = &self.0[thread_number() % STRIPES].0;
        stripe.fetch_add(1, Ordering::SeqCst);
        ActiveCall(stripe)
    }

    /// Waits until each counter was empty once. REQUIRES: whoever comes now goes at once.
    pub(crate) fn drain(&self, mut wait: impl FnMut()) {
        for stripe in self.0.iter() {
            while stripe.0.load(Ordering::SeqCst) > 0 {
                wait();
            }
        }
    }

    /// How many calls are inside. Those that come and go meanwhile are counted or not.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|stripe| u64::from(stripe.0.load(Ordering::SeqCst))).sum()
    }
}

impl Drop for ActiveCall<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
