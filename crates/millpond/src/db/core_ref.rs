//! References to the [`DbCore`], with a reference count for each stripe of threads.
//!
//! Transactions begin and end in every thread all the time. With one count for all of them, every
//! processor core would wait for the same cache line.

use super::db_core::DbCore;
use base::{CachePadded, StripedArc};
use std::ops::Deref;
use std::sync::Arc;

/// Hands out references. The database is open as long as one of them exists.
#[derive(Debug)]
pub(super) struct CoreRefs(StripedArc<Arc<DbCore>>);

/// A counted reference to the core.
#[derive(Clone, Debug)]
pub(crate) struct CoreRef(Arc<CachePadded<Arc<DbCore>>>);

impl CoreRefs {
    pub(super) fn of(core: DbCore) -> CoreRefs {
        let core = Arc::new(core);
        CoreRefs(StripedArc::new(|| Arc::clone(&core)))
    }

    /// Returns a reference that is counted in the calling thread's stripe.
    #[inline]
    pub(super) fn get(&self) -> CoreRef {
        CoreRef(Arc::clone(self.0.own()))
    }
}

impl Deref for CoreRefs {
    type Target = DbCore;
    #[inline]
    fn deref(&self) -> &DbCore {
        self.0.first()
    }
}

impl Deref for CoreRef {
    type Target = DbCore;
    #[inline]
    fn deref(&self) -> &DbCore {
        &self.0.0
    }
}
