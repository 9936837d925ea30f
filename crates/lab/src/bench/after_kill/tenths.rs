//! Commits in each tenth of a second, and the rates that follow from them.

use crate::bench::median;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tenths of a second in a second.
const SECOND: usize = 10;
/// The rate before the kill is the median of so many seconds at most.
const WARM_SECONDS: usize = 10;

/// Counts the commits of all threads by the time at which they returned.
pub(super) struct Counter {
    start: Instant,
    tenths: Vec<AtomicU64>,
    /// When the first commit returned, microseconds after the start; `u64::MAX` before it.
    first_us: AtomicU64,
}

impl Counter {
    /// Counts from now on. What comes later than `longest` does not count.
    pub(super) fn new(longest: Duration) -> Counter {
        let tenths = longest.as_millis().div_ceil(100) as usize;
        let tenths = (0..tenths).map(|_| AtomicU64::new(0)).collect();
        Counter { start: Instant::now(), tenths, first_us: AtomicU64::new(u64::MAX) }
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Counts a commit that has returned.
    pub(super) fn count(&self) {
        let elapsed = self.elapsed();
        self.first_us.fetch_min(elapsed.as_micros() as u64, Ordering::Relaxed);
        if let Some(tenth) = self.tenths.get((elapsed.as_millis() / 100) as usize) {
            tenth.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns when the first commit returned, microseconds after the start.
    pub(super) fn first_us(&self) -> Option<u64> {
        Some(self.first_us.load(Ordering::Relaxed)).filter(|us| *us < u64::MAX)
    }

    /// Returns the commits of each tenth that is over.
    pub(super) fn over(&self) -> Vec<u64> {
        let over = (self.elapsed().as_millis() / 100) as usize;
        self.tenths.iter().take(over).map(|tenth| tenth.load(Ordering::Relaxed)).collect()
    }
}

/// Returns the commits a second at the end: the median of the last whole seconds, or the mean of
/// less than a second.
pub(super) fn rate_at_end(tenths: &[u64]) -> f64 {
    let seconds: Vec<f64> = tenths.rchunks_exact(SECOND).take(WARM_SECONDS).map(commits).collect();
    match (seconds.is_empty(), tenths.is_empty()) {
        (false, _) => median(seconds),
        (true, false) => commits(tenths) * SECOND as f64 / tenths.len() as f64,
        (true, true) => 0.0,
    }
}

/// Returns after how many seconds a second ends that is the first with `wanted` commits. It may
/// begin at any tenth. A second without commits never counts.
pub(super) fn reached_after(tenths: &[u64], wanted: f64) -> Option<f64> {
    let first = tenths.windows(SECOND).position(|second| commits(second) >= wanted.max(1.0))?;
    Some((first + SECOND) as f64 / SECOND as f64)
}

/// Returns the commits of each whole second.
pub(super) fn each_second(tenths: &[u64]) -> Vec<f64> {
    tenths.chunks_exact(SECOND).map(commits).collect()
}

fn commits(tenths: &[u64]) -> f64 {
    tenths.iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_in_the_tenth_in_which_it_returned() {
        let mut counter = Counter::new(Duration::from_millis(1150));
        assert_eq!(counter.first_us(), None);
        // The start was long ago: now is beyond the last tenth.
        counter.start = Instant::now() - Duration::from_secs(5);
        counter.count();
        assert_eq!(counter.over(), vec![0; 12]);
        assert!(counter.first_us() >= Some(5_000_000));
        let mut counter = Counter::new(Duration::from_secs(3600));
        counter.start = Instant::now() - Duration::from_secs(7);
        counter.count();
        assert!(counter.over().len() >= 70);
        // This tenth is not over; but then it is.
        counter.start -= Duration::from_millis(100);
        assert_eq!(counter.over().iter().sum::<u64>(), 1);
        assert_eq!(counter.over().iter().take(70).sum::<u64>(), 0);
    }

    #[test]
    fn the_rate_at_the_end_is_the_median_of_the_last_seconds() {
        assert_eq!(rate_at_end(&[]), 0.0);
        assert_eq!(rate_at_end(&[3, 5]), 40.0);
        // 9 tenths of another time, then three seconds.
        let tenths = [vec![99; 9], vec![1; 10], vec![3; 10], vec![2; 10]].concat();
        assert_eq!(rate_at_end(&tenths), 20.0);
        // Of a long time only the last ten seconds.
        let tenths = [vec![99; 1000], vec![7; 100]].concat();
        assert_eq!(rate_at_end(&tenths), 70.0);
    }

    #[test]
    fn the_rate_is_reached_at_the_end_of_a_second_that_has_it() {
        let tenths = [vec![0; 12], vec![4; 4], vec![10; 20]].concat();
        assert_eq!(each_second(&tenths), [0.0, 56.0, 100.0]);
        // Ten tenths from the 15th on: 2 x 4 and 8 x 10.
        assert_eq!(reached_after(&tenths, 88.0), Some(2.4));
        assert_eq!(reached_after(&tenths, 100.0), Some(2.6));
        assert_eq!(reached_after(&tenths, 101.0), None);
        assert_eq!(reached_after(&tenths[..9], 0.0), None, "a second is not over");
        assert_eq!(reached_after(&tenths, 0.0), Some(1.3), "nothing is no rate");
    }
}
