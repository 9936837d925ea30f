//! One I/O budget for all background work (Fl2): each use has a floor that the others cannot take, and what one does
//! not need flows to those that do. Units are I/Os, because an I/O costs the device the same at 4 and at 64 KiB (Fl5).
//!
//! Every stall of this family (checkpoint flushing took the whole budget, threads that needed a free frame got none)
//! was a missing floor.

/// Numbers for each use of the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoShares {
    /// Cleaning for the checkpoint.
    pub checkpoint: f64,
    /// Cleaning victims for threads that need a frame.
    pub free_frames: f64,
}

/// The part of the whole that each use gets whenever it needs it. What is missing to 1 goes to the needy.
pub const FLOORS: IoShares = IoShares { checkpoint: 0.30, free_frames: 0.25 };

impl IoShares {
    fn zip(self, other: IoShares, f: impl Fn(f64, f64) -> f64) -> IoShares {
        IoShares {
            checkpoint: f(self.checkpoint, other.checkpoint),
            free_frames: f(self.free_frames, other.free_frames),
        }
    }

    /// The sum of all.
    #[must_use]
    pub fn total(self) -> f64 {
        self.checkpoint + self.free_frames
    }
}

/// Splits `ios` among what the uses want. Nobody gets more than it wants, nobody that wants its floor gets less, and
/// nothing is left over while someone wants more.
#[must_use]
pub fn split(ios: f64, wanted: IoShares) -> IoShares {
    let base = wanted.zip(FLOORS, |want, floor| want.min(floor * ios).max(0.0));
    let unmet = wanted.zip(base, |want, got| (want - got).max(0.0));
    let (rest, hunger) = ((ios - base.total()).max(0.0), unmet.total());
    let part = if hunger > 0.0 { (rest / hunger).min(1.0) } else { 0.0 };
    base.zip(unmet, |got, missing| got + missing * part)
}

/// Turns a stream of fractional quotas into whole I/Os without losing any: a share of half an I/O a step is one I/O
/// every second step, never none.
#[derive(Clone, Debug, Default)]
pub struct WholeIos {
    carry: f64,
}

impl WholeIos {
    /// Adds a quota and takes out the whole I/Os. The rest, below one, stays for the next time.
    pub fn take(&mut self, quota: f64) -> u32 {
        self.carry += quota.clamp(0.0, f64::from(u32::MAX / 2));
        let whole = self.carry.floor();
        self.carry -= whole;
        whole as u32
    }
}

/// How many I/Os a second the device gives, learnt from batches.
///
/// Only batches with enough I/Os in flight say something: a single write measures latency. Good news is believed
/// quickly, bad news slowly, because a batch that was slow for another reason (a burst of reads, a trim) says
/// little about the device.
#[derive(Clone, Debug)]
pub struct DeviceSpeed {
    ios_per_s: f64,
    batches: u64,
}

/// Batches below this many I/Os are ignored.
const BATCH_IOS_MIN: u64 = 8;
/// Assumed before the first batch.
const IOS_PER_S_GUESS: f64 = 2_000.0;
/// A spinning disk gives this much.
const IOS_PER_S_MIN: f64 = 100.0;
/// The part of the device that background work leaves to reads and commits.
const FOREGROUND_PART: f64 = 0.2;

impl DeviceSpeed {
    /// A device of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        DeviceSpeed { ios_per_s: IOS_PER_S_GUESS, batches: 0 }
    }

    /// A batch of `ios` I/Os took `took_us`, all that belongs to it counted: what its I/Os cost in the end.
    pub fn observe(&mut self, ios: u64, took_us: u64) {
        if ios < BATCH_IOS_MIN {
            return;
        }
        let seen = ios as f64 * 1e6 / took_us.max(1) as f64;
        self.batches += 1;
        // The first batches are all that is known; a guess must not outlive them.
        let first = 1.0 / self.batches as f64;
        let weight = first.max(if seen > self.ios_per_s { 0.25 } else { 0.05 });
        self.ios_per_s = (self.ios_per_s + (seen - self.ios_per_s) * weight).max(IOS_PER_S_MIN);
    }

    /// I/Os a second that the device gives.
    #[must_use]
    pub fn ios_per_s(&self) -> f64 {
        self.ios_per_s
    }

    /// I/Os a second that background work may use.
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

/// How many pages one I/O cleans, thanks to neighbours: smoothed over batches.
#[derive(Clone, Debug)]
pub struct PagesPerIo {
    pages: f64,
    batches: u64,
}

impl PagesPerIo {
    /// One, until a batch says otherwise.
    #[must_use]
    pub fn new() -> Self {
        PagesPerIo { pages: 1.0, batches: 0 }
    }

    /// A batch wrote `pages` with `ios`.
    pub fn observe(&mut self, pages: u64, ios: u64) {
        if ios == 0 {
            return;
        }
        self.batches += 1;
        // While it is too low, each I/O is expected to clean less than it does and too few pages are asked for; so the
        // first batches count in full.
        let weight = (1.0 / self.batches as f64).max(0.1);
        self.pages += (pages as f64 / ios as f64 - self.pages) * weight;
    }

    /// Pages that the next I/O will clean.
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

    /// Lines `budget: checkpoint free_frames` wanted; prints what each gets.
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
    fn nothing_is_lost_and_nobody_starves() {
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
    fn the_device_is_learnt_from_full_batches() {
        let mut d = DeviceSpeed::new();
        d.observe(1, 100);
        assert_eq!(d.ios_per_s(), IOS_PER_S_GUESS);
        d.observe(64, 3_200);
        assert_eq!(d.ios_per_s(), 20_000.0, "the first batch takes the guess's place");
        for _ in 0..40 {
            d.observe(64, 1_600);
        }
        assert!((39_000.0..=40_000.0).contains(&d.ios_per_s()), "{}", d.ios_per_s());
        d.observe(64, 64_000);
        assert!(d.ios_per_s() > 37_000.0, "one slow batch says little");
        for _ in 0..200 {
            d.observe(64, 64_000);
        }
        assert!((1_000.0..1_100.0).contains(&d.ios_per_s()), "{}", d.ios_per_s());
    }
}
