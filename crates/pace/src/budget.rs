//! One budget for all background page writes (Fl2). Each use has a floor that the other use cannot
//! take. What one use does not need goes to the other. The unit is the time of a page writer: it
//! counts what a device, a copy and a sync really take, for one page as for a run of 1 MiB.
//!
//! The floors prevent a known kind of stall: checkpoint flushing takes the whole budget, and
//! threads that need a free frame get none.

use crate::constants::{
    BUDGET_FLOOR_CHECKPOINT_SHARE, BUDGET_FLOOR_FREE_FRAMES_SHARE, WRITE_COST_CHEAPER_SHARE,
    WRITE_COST_DEARER_SHARE, WRITE_COST_UNITS_MIN, WRITE_COST_US_GUESS, WRITE_COST_US_MAX, WRITE_COST_US_MIN,
};

/// Microseconds of writers for each use of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimeShares {
    /// Cleaning for the checkpoint.
    pub(crate) checkpoint: f64,
    /// Cleaning eviction victims for threads that need a frame.
    pub(crate) free_frames: f64,
}

/// The share of the budget that each use gets whenever it needs it.
const FLOORS: TimeShares =
    TimeShares { checkpoint: BUDGET_FLOOR_CHECKPOINT_SHARE, free_frames: BUDGET_FLOOR_FREE_FRAMES_SHARE };

impl TimeShares {
    fn zip(self, other: TimeShares, f: impl Fn(f64, f64) -> f64) -> TimeShares {
        TimeShares {
            checkpoint: f(self.checkpoint, other.checkpoint),
            free_frames: f(self.free_frames, other.free_frames),
        }
    }

    /// Returns the sum.
    #[must_use]
    pub(crate) fn total(self) -> f64 {
        self.checkpoint + self.free_frames
    }
}

/// Splits `us` among the uses. No use gets more than it wants. A use that wants its floor gets at
/// least its floor. Nothing is left over while a use wants more.
#[must_use]
pub(crate) fn split(us: f64, wanted: TimeShares) -> TimeShares {
    let base = wanted.zip(FLOORS, |want, floor| want.min(floor * us).max(0.0));
    let unmet = wanted.zip(base, |want, got| (want - got).max(0.0));
    let (rest, hunger) = ((us - base.total()).max(0.0), unmet.total());
    let part = if hunger > 0.0 { (rest / hunger).min(1.0) } else { 0.0 };
    base.zip(unmet, |got, missing| got + missing * part)
}

/// Turns fractional quotas into whole units without loss: half a page a step becomes one page every
/// second step.
#[derive(Clone, Debug, Default)]
pub(crate) struct WholeUnits {
    carry: f64,
}

impl WholeUnits {
    /// Adds a quota and returns the whole units. The rest, below one, is kept for the next call.
    pub(crate) fn take(&mut self, quota: f64) -> u32 {
        self.carry += quota.clamp(0.0, f64::from(u32::MAX / 2));
        let whole = self.carry.floor();
        self.carry -= whole;
        whole as u32
    }
}

/// What a unit of writing costs a writer, learnt from batches. The unit is a page, or an I/O.
///
/// Only batches of enough units count: the two syncs of a batch cost the same for one page and for
/// a thousand. A cheaper batch counts more than a dearer one, because a batch may be slow for
/// another reason (a burst of reads, a trim).
#[derive(Clone, Debug)]
pub struct WriteCost {
    us: f64,
    batches: u64,
}

impl WriteCost {
    /// Makes an estimate for an unknown device.
    #[must_use]
    pub fn new() -> Self {
        WriteCost { us: WRITE_COST_US_GUESS, batches: 0 }
    }

    /// Takes a measurement: a batch of so many units took a writer `took_us`, with everything that
    /// belongs to the batch.
    pub fn observe(&mut self, units: u64, took_us: u64) {
        if units < WRITE_COST_UNITS_MIN {
            return;
        }
        let seen = took_us as f64 / units as f64;
        self.batches += 1;
        // The first batches replace the initial guess.
        let first = 1.0 / self.batches as f64;
        let weight =
            first.max(if seen < self.us { WRITE_COST_CHEAPER_SHARE } else { WRITE_COST_DEARER_SHARE });
        self.us = (self.us + (seen - self.us) * weight).clamp(WRITE_COST_US_MIN, WRITE_COST_US_MAX);
    }

    /// Returns the cost of a unit, microseconds.
    #[must_use]
    pub fn us(&self) -> f64 {
        self.us
    }
}

impl Default for WriteCost {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use expect_test::expect;

    /// Each line of the script is `budget: checkpoint free_frames` as wanted. Prints what each
    /// gets.
    fn check(script: &str, expected: &expect_test::Expect) {
        let mut out = String::new();
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (ios, wants) = line.split_once(':').unwrap();
            let w: Vec<f64> = wants.split_whitespace().map(|n| n.parse().unwrap()).collect();
            let wanted = TimeShares { checkpoint: w[0], free_frames: w[1] };
            let got = split(ios.parse().unwrap(), wanted);
            out += &format!("{line} -> {:.0} {:.0}\n", got.checkpoint, got.free_frames);
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn scripts() {
        check(
            "
            1000: 100 100
            1000: 900 0
            1000: 5000 0
            1000: 5000 100
            1000: 5000 300
            1000: 5000 5000
            1000: 0 5000
            1000: 1000000 20
            ",
            &expect![[r#"
                1000: 100 100 -> 100 100
                1000: 900 0 -> 900 0
                1000: 5000 0 -> 1000 0
                1000: 5000 100 -> 900 100
                1000: 5000 300 -> 745 255
                1000: 5000 5000 -> 524 476
                1000: 0 5000 -> 0 1000
                1000: 1000000 20 -> 980 20
            "#]],
        );
    }

    #[test]
    fn nothing_is_lost_and_no_use_starves() {
        let mut rng = Prng::new(7);
        for _ in 0..10_000 {
            let ios = rng.below(10_000) as f64;
            let mut want = || if rng.one_in(3) { 0.0 } else { rng.below(20_000) as f64 };
            let wanted = TimeShares { checkpoint: want(), free_frames: want() };
            let got = split(ios, wanted);
            assert!((got.total() - ios.min(wanted.total())).abs() < 1e-6);
            let uses = |s: TimeShares| [s.checkpoint, s.free_frames];
            for ((got, want), floor) in uses(got).into_iter().zip(uses(wanted)).zip(uses(FLOORS)) {
                assert!(got <= want + 1e-6 && got >= want.min(floor * ios) - 1e-6);
            }
        }
    }

    #[test]
    fn small_shares_add_up_to_whole_units() {
        let mut whole = WholeUnits::default();
        let taken: Vec<u32> = (0..8).map(|_| whole.take(0.375)).collect();
        assert_eq!(taken, [0, 0, 1, 0, 0, 1, 0, 1]);
        assert_eq!(whole.take(f64::NAN.max(2.5)), 2);
    }

    #[test]
    fn the_cost_is_learnt_from_full_batches() {
        let mut cost = WriteCost::new();
        cost.observe(1, 100);
        assert_eq!(cost.us(), WRITE_COST_US_GUESS);
        cost.observe(64, 3_200);
        assert_eq!(cost.us(), 50.0, "the first batch replaces the guess");
        for _ in 0..40 {
            cost.observe(64, 1_600);
        }
        assert!((25.0..25.5).contains(&cost.us()), "{}", cost.us());
        cost.observe(64, 64_000);
        assert!(cost.us() < 75.0, "one slow batch has little weight: {}", cost.us());
        for _ in 0..200 {
            cost.observe(64, 64_000);
        }
        assert!((950.0..=1_000.0).contains(&cost.us()), "{}", cost.us());
    }
}
