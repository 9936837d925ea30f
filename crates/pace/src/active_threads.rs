//! How many threads use the engine, estimated from samples of how many are inside it.
//!
//! A sample may find a busy thread inside a call, or between two calls. So the estimate is the
//! greatest recent sample, which decays within some seconds.

use crate::constants::THREADS_FORGET_US;

/// An estimate of how many threads use the engine.
#[derive(Clone, Debug, Default)]
pub struct ActiveThreads {
    level: f64,
    then_us: u64,
}

impl ActiveThreads {
    /// Starts with no threads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a sample. Returns the estimate.
    pub fn update(&mut self, now_us: u64, inside: u64) -> u64 {
        let dt_us = now_us.saturating_sub(self.then_us) as f64;
        self.then_us = now_us;
        self.level -= self.level * dt_us / (THREADS_FORGET_US + dt_us);
        self.level = self.level.max(inside as f64);
        self.level.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_between_two_calls_still_counts() {
        let mut active = ActiveThreads::new();
        let seen: Vec<_> =
            [3, 16, 0, 5, 0, 0].iter().zip(1..).map(|(&n, ms)| active.update(ms * 1000, n)).collect();
        assert_eq!(seen, [3, 16, 16, 16, 16, 16]);
    }

    #[test]
    fn threads_that_have_gone_are_forgotten() {
        let mut active = ActiveThreads::new();
        active.update(0, 1000);
        let after = (1..=200).map(|n| active.update(n * 100_000, 2)).collect::<Vec<_>>();
        assert!(after.is_sorted_by(|a, b| a >= b));
        assert_eq!((after[9] / 100, after[199]), (6, 2), "{after:?}");
    }
}
