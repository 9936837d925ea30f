//! A smoothed rate, from samples of a growing total.
//!
//! It has two exponential averages, one quick and one slow. The larger one counts. So it follows
//! the start of a burst within a quarter of a second, and the end of a burst only after some
//! seconds. Cleaning too early costs a few writes; cleaning too late makes a writer wait.

use crate::constants::{RATE_QUICK_US, RATE_SLOW_US};

/// A smoothed rate.
#[derive(Clone, Debug, Default)]
pub struct SmoothedRate {
    last: Option<(u64, u64)>,
    quick: f64,
    slow: f64,
}

impl SmoothedRate {
    /// Starts with a rate of 0, until there are two samples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a sample: at `now_us` the total was `total`. A total that is smaller than before
    /// counts as no growth.
    pub fn update(&mut self, now_us: u64, total: u64) {
        let Some((then_us, before)) = self.last else {
            self.last = Some((now_us, total));
            return;
        };
        if now_us <= then_us {
            return;
        }
        let dt_us = (now_us - then_us) as f64;
        let per_second = total.saturating_sub(before) as f64 * 1e6 / dt_us;
        // dt / (tau + dt) approximates 1 - exp(-dt / tau) for small dt, needs no library function,
        // and is never above 1.
        self.quick += (per_second - self.quick) * dt_us / (RATE_QUICK_US + dt_us);
        self.slow += (per_second - self.slow) * dt_us / (RATE_SLOW_US + dt_us);
        self.last = Some((now_us, total));
    }

    /// Returns the rate to plan for: the larger of the two averages.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.quick.max(self.slow)
    }

    /// Returns the slow average alone: the typical rate.
    #[must_use]
    pub fn typical_per_second(&self) -> f64 {
        self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    /// Feeds phases of (milliseconds, MB/s) with 100 samples a second. Prints the rate at the end
    /// of each phase.
    fn run(phases: &[(u64, u64)]) -> String {
        let (mut rate, mut now, mut total, mut out) = (SmoothedRate::new(), 0, 0, String::new());
        rate.update(now, total);
        for &(ms, mb_per_s) in phases {
            for _ in 0..ms / 10 {
                now += 10_000;
                total += mb_per_s * 10_000;
                rate.update(now, total);
            }
            let _ =
                writeln!(out, "{:>5} ms at {mb_per_s:>3} MB/s: {:.1}", now / 1000, rate.per_second() / 1e6);
        }
        out
    }

    #[test]
    fn rises_quickly_and_falls_slowly() {
        expect![[r#"
             5000 ms at  10 MB/s: 10.0
             5100 ms at 200 MB/s: 71.6
             5300 ms at 200 MB/s: 141.4
             6000 ms at 200 MB/s: 196.2
             7000 ms at   0 MB/s: 38.8
            11000 ms at   0 MB/s: 14.3
            31000 ms at   0 MB/s: 0.1
        "#]]
        .assert_eq(&run(&[
            (5000, 10),
            (100, 200),
            (200, 200),
            (700, 200),
            (1000, 0),
            (4000, 0),
            (20_000, 0),
        ]));
    }

    #[test]
    fn odd_samples_do_no_harm() {
        let mut rate = SmoothedRate::new();
        rate.update(1000, 500);
        rate.update(1000, 900);
        rate.update(500, 900);
        assert_eq!(rate.per_second(), 0.0);
        rate.update(1_001_000, 400);
        assert_eq!(rate.per_second(), 0.0);
        rate.update(2_001_000, 1_000_400);
        assert!(rate.per_second() > 0.0 && rate.per_second() <= 1e6);
    }
}
