//! Who goes on: the temper of a world, drawn from its seed.
//!
//! One way of choosing finds one kind of mistake. Threads that change places at every step meet in short windows; long
//! runs of one thread let another fall far behind; fixed priorities with few changes starve somebody (Burckhardt et
//! al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs").

use crate::prng::Prng;

/// How a world chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// At one scheduling point in so many, anybody; else the same thread.
    Random { one_in: u64 },
    /// The highest priority; at one point in so many the running thread draws a new one.
    Priority { one_in: u64 },
}

impl Policy {
    pub(super) fn draw(rng: &mut Prng) -> Policy {
        match rng.below(6) {
            0 => Policy::Random { one_in: 1 },
            1 => Policy::Random { one_in: 3 },
            2 => Policy::Random { one_in: 10 },
            3 => Policy::Random { one_in: 40 },
            4 => Policy::Priority { one_in: 20 },
            _ => Policy::Priority { one_in: 200 },
        }
    }

    /// A thread's priority, when it begins and when it changes.
    pub(super) fn priority(rng: &mut Prng) -> u64 {
        // The lower half is for those who spin.
        rng.below(1 << 32) + (1 << 32)
    }
}
