//! References to the [`DbCore`], with a reference count for each stripe of threads.
//!
//! Transactions begin and end in every thread all the time. With one count for all of them, every
//! processor core would wait for the same cache line.

use super::DbCore;
use base::sync::thread_number;
use std::ops::Deref;
use std::sync::Arc;

const STRIPES: usize = 16;

#[derive(Debug)]
#[repr(align(64))]
struct Stripe(Arc<DbCore>);

/// Hands out references. The database is open as long as one of them exists.
#[derive(Debug)]
pub(super) struct CoreRefs([Arc<Stripe>; STRIPES]);

/// A counted reference to the core.
#[derive(Clone, Debug)]
pub(crate) struct CoreRef(Arc<Stripe>);

impl CoreRefs {
    pub(super) fn of(core: DbCore) -> CoreRefs {
        let core = Arc::new(core);
        CoreRefs(std::array::from_fn(|_| Arc::new(Stripe(Arc::clone(&core)))))
    }

    /// Returns a reference that is counted in the calling thread's stripe.
    #[inline]
    pub(super) fn get(&self) -> CoreRef {
        CoreRef(Arc::clone(&self.0[thread_number() % STRIPES]))
    }
}

impl Deref for CoreRefs {
    type Target = DbCore;
    #[inline]
    fn deref(&self) -> &DbCore {
        &self.0[0].0
    }
}

impl Deref for CoreRef {
    type Target = DbCore;
    #[inline]
    fn deref(&self) -> &DbCore {
        &self.0.0
    }
}
