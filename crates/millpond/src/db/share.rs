//! Counted references to the core, with a count for each lane: transactions begin and end in every thread all the time, and
//! one count for all of them would be the cache line that every core waits for.

use super::Core;
use base::sync::thread_number;
use std::ops::Deref;
use std::sync::Arc;

const LANES: usize = 16;

#[derive(Debug)]
#[repr(align(64))]
struct Lane(Arc<Core>);

/// Gives out shares; whoever holds it holds the core.
#[derive(Debug)]
pub(super) struct Shares([Arc<Lane>; LANES]);

/// Keeps the core alive.
#[derive(Clone, Debug)]
pub(crate) struct Share(Arc<Lane>);

impl Shares {
    pub(super) fn of(core: Core) -> Shares {
        let core = Arc::new(core);
        Shares(std::array::from_fn(|_| Arc::new(Lane(Arc::clone(&core)))))
    }

    /// A share counted where the calling thread counts.
    #[inline]
    pub(super) fn share(&self) -> Share {
        Share(Arc::clone(&self.0[thread_number() % LANES]))
    }
}

impl Deref for Shares {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.0[0].0
    }
}

impl Deref for Share {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.0.0
    }
}
