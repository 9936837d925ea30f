//! Scheduling policies: how a world picks the next thread. The policy is drawn from the world's
//! seed.
//!
//! Each policy finds another kind of mistake. Switching threads at every step finds races in short
//! windows. Long runs of one thread let another fall far behind. Fixed priorities with few changes
//! starve a thread (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
//! Finding Bugs").

use crate::prng::Prng;

/// How a world picks the next thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// At one scheduling point in `one_in`, any thread; else the same thread.
    Random { one_in: u64 },
    /// The thread with the highest priority. At one point in `one_in` the running thread draws a
    /// new priority.
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

    /// Draws a thread's priority, when it begins and when it changes.
    pub(super) fn priority(rng: &mut Prng) -> u64 {
        // The lower half is for threads that spin.
        rng.below(1 << 32) + (1 << 32)
    }
}
