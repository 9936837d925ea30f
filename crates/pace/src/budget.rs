//! One I/O budget for all background work (Fl2). Each use has a floor that the other use cannot
//! take. I/Os that one use does not need go to the other. The unit is the I/O, because an I/O of 4
//! KiB costs the device as much as one of 64 KiB (Fl5).
//!
//! The floors prevent a known kind of stall: checkpoint flushing takes the whole budget, and
//! threads that need a free frame get none.

/// A number of I/Os for each use of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct IoShares {
    /// Cleaning for the checkpoint.
    pub(crate) checkpoint: f64,
    /// Cleaning eviction victims for threads that need a frame.
    pub(crate) free_frames: f64,
}

/// The part of the budget that each use gets whenever it needs it. The rest goes to the use that
/// needs more.
const FLOORS: IoShares = IoShares { checkpoint: 0.30, free_frames: 0.25 };

impl IoShares {
    fn zip(self, other: IoShares, f: impl Fn(f64, f64) -> f64) -> IoShares {
        IoShares {
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

/// Splits `ios` among the uses. No use gets more than it wants. A use that wants its floor gets at
/// least its floor. Nothing is left over while a use wants more.
#[must_use]
pub(crate) fn split(ios: f64, wanted: IoShares) -> IoShares {
    let base = wanted.zip(FLOORS, |want, floor| want.min(floor * ios).max(0.0));
    let unmet = wanted.zip(base, |want, got| (want - got).max(0.0));
    let (rest, hunger) = ((ios - base.total()).max(0.0), unmet.total());
    let part = if hunger > 0.0 { (rest / hunger).min(1.0) } else { 0.0 };
    base.zip(unmet, |got, missing| got + missing * part)
}

/// Turns fractional quotas into whole I/Os without loss: half an I/O a step becomes one I/O every
/// second step.
#[derive(Clone, Debug, Default)]
pub(crate) struct WholeIos {
    carry: f64,
}

impl WholeIos {
    /// Adds a quota and returns the whole I/Os. The rest, below one, is kept for the next call.
    pub(crate) fn take(&mut self, quota: f64) -> u32 {
        self.carry += quota.clamp(0.0, f64::from(u32::MAX / 2));
        let whole = self.carry.floor();
        self.carry -= whole;
        whole as u32
    }
}

/// How many I/Os a second the device can do, learnt from batches.
///
/// Only batches with enough I/Os in flight count: a single write measures latency. A faster batch
/// counts more than a slower one, because a batch may be slow for another reason (a burst of reads,
/// a trim).
#[derive(Clone, Debug)]
pub struct DeviceSpeed {
    ios_per_s: f64,
    batches: u64,
}

/// Batches with fewer I/Os are ignored.
const BATCH_IOS_MIN: u64 = 8;
/// The I/Os a second that are assumed before the first batch.
const IOS_PER_S_GUESS: f64 = 2_000.0;
/// The least estimate: what a spinning disk can do.
const IOS_PER_S_MIN: f64 = 100.0;
/// The part of the device that background work leaves to reads and commits.
const FOREGROUND_PART: f64 = 0.2;

impl DeviceSpeed {
    /// Makes an estimate for an unknown device.
    #[must_use]
    pub fn new() -> Self {
        DeviceSpeed { ios_per_s: IOS_PER_S_GUESS, batches: 0 }
    }

    /// Takes a measurement: a batch of `ios` I/Os took `took_us`, with everything that belongs to
    /// the batch.
    pub fn observe(&mut self, ios: u64, took_us: u64) {
        if ios < BATCH_IOS_MIN {
            return;
        }
        let seen = ios as f64 * 1e6 / took_us.max(1) as f64;
        self.batches += 1;
        // The first batches replace the initial guess.
        let first = 1.0 / self.batches as f64;
        let weight = first.max(if seen > self.ios_per_s { 0.25 } else { 0.05 });
        self.ios_per_s = (self.ios_per_s + (seen - self.ios_per_s) * weight).max(IOS_PER_S_MIN);
    }

    /// Returns the I/Os a second that background work may use.
    #[must_use]
    pub fn budget_ios_per_s(&self) -> f64 {
        self.ios_per_s * (1.0 - FOREGROUND_PART)
    }
}

impl Default for DeviceSpeed {
    fn default() -> Self {
        Self::new()
    }
}

/// How many pages one I/O cleans, because neighbours are written together. Smoothed over batches.
#[derive(Clone, Debug)]
pub struct PagesPerIo {
    pages: f64,
    batches: u64,
}

impl PagesPerIo {
    /// Starts with one page.
    #[must_use]
    pub fn new() -> Self {
        PagesPerIo { pages: 1.0, batches: 0 }
    }

    /// Takes a measurement: a batch wrote `pages` pages with `ios` I/Os.
    pub fn observe(&mut self, pages: u64, ios: u64) {
        if ios == 0 {
            return;
        }
        self.batches += 1;
        // If the estimate is too low, too few pages are asked for. So the first batches have a
        // large weight.
        let weight = (1.0 / self.batches as f64).max(0.1);
        self.pages += (pages as f64 / ios as f64 - self.pages) * weight;
    }

    /// Returns how many pages the next I/O will probably clean.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.pages
    }
}

impl Default for PagesPerIo {
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
            let wanted = IoShares { checkpoint: w[0], free_frames: w[1] };
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
            let wanted = IoShares { checkpoint: want(), free_frames: want() };
            let got = split(ios, wanted);
            assert!((got.total() - ios.min(wanted.total())).abs() < 1e-6);
            let uses = |s: IoShares| [s.checkpoint, s.free_frames];
            for ((got, want), floor) in uses(got).into_iter().zip(uses(wanted)).zip(uses(FLOORS)) {
                assert!(got <= want + 1e-6 && got >= want.min(floor * ios) - 1e-6);
            }
        }
    }

    #[test]
    fn small_shares_add_up_to_whole_ios() {
        let mut whole = WholeIos::default();
        let taken: Vec<u32> = (0..8).map(|_| whole.take(0.375)).collect();
        assert_eq!(taken, [0, 0, 1, 0, 0, 1, 0, 1]);
        assert_eq!(whole.take(f64::NAN.max(2.5)), 2);
    }

    #[test]
    fn pages_per_io_follow_the_first_batch_at_once_and_later_ones_slowly() {
        let mut p = PagesPerIo::new();
        p.observe(0, 0);
        assert_eq!(p.get(), 1.0);
        p.observe(64, 8);
        assert_eq!(p.get(), 8.0);
        for _ in 0..100 {
            p.observe(64, 16);
        }
        assert!((p.get() - 4.0).abs() < 0.1);
        p.observe(8, 8);
        assert!(p.get() > 3.5);
    }

    #[test]
    fn the_device_speed_is_learnt_from_full_batches() {
        let mut d = DeviceSpeed::new();
        d.observe(1, 100);
        assert_eq!(d.ios_per_s, IOS_PER_S_GUESS);
        d.observe(64, 3_200);
        assert_eq!(d.ios_per_s, 20_000.0, "the first batch replaces the guess");
        for _ in 0..40 {
            d.observe(64, 1_600);
        }
        assert!((39_000.0..=40_000.0).contains(&d.ios_per_s), "{}", d.ios_per_s);
        d.observe(64, 64_000);
        assert!(d.ios_per_s > 37_000.0, "one slow batch has little weight");
        for _ in 0..200 {
            d.observe(64, 64_000);
        }
        assert!((1_000.0..1_100.0).contains(&d.ios_per_s), "{}", d.ios_per_s);
    }
}
