//! What locks need of a clock, and a clock that stands still.

/// What locks need of a clock.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Microseconds.
    fn now_us(&self) -> u64;
    /// A number that nobody foresees.
    fn random_u64(&self) -> u64;
}

#[derive(Debug)]
pub(crate) struct StandingClock;

impl Clock for StandingClock {
    fn now_us(&self) -> u64 {
        1
    }
    fn random_u64(&self) -> u64 {
        0
    }
}
