//! Counted references to the core, with a count for each lane: transactions begin and end in every thread all the time, and
//! one count for all of them would be the cache line that every core waits for.

use super::Core;
use base::sync::thread_number;
use std::ops::Deref;
use std::sync::Arc;

const STRIPES: usize = 16;

#[derive(Debug)]
#[repr(align(64))]
struct Stripe(Arc<Core>);

/// Gives out shares; whoever holds it holds the core.
#[derive(Debug)]
pub(super) struct CoreRefs([Arc<Stripe>; STRIPES]);

/// Keeps the core alive.
#[derive(Clone, Debug)]
pub(crate) struct CoreRef(Arc<Stripe>);

impl CoreRefs {
    pub(super) fn of(core: Core) -> CoreRefs {
        let core = Arc::new(core);
        CoreRefs(std::array::from_fn(|_| Arc::new(Stripe(Arc::clone(&core)))))
    }

    /// A share counted where the calling thread counts.
    #[inline]
    pub(super) fn get(&self) -> CoreRef {
        CoreRef(Arc::clone(&self.0[thread_number() % STRIPES]))
    }
}

impl Deref for CoreRefs {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.0[0].0
    }
}

impl Deref for CoreRef {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.0.0
    }
}
