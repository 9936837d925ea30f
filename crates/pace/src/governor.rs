//! Adaptive flushing: how many pages the cleaner cleans now (Fl3).
//!
//! # The rule
//! A page whose first-dirty LSN is L must be written before the end of the log is `target` bytes
//! beyond L. At redo rate r the time left is `(L + target - end) / r`. The rate at which to clean
//! is the maximum of
//!
//! ```text
//! pages with first-dirty LSN <= L  /  time left until L must be clean      over all L
//! ```
//! This is the lowest steady rate that meets every deadline. If many pages have nearly the same
//! deadline, cleaning begins early. Otherwise a page is left dirty as long as possible, so that it
//! absorbs more changes before it is written. The rate follows the growth of the log: there is no
//! fixed interval, and no mark at which the rule changes. Beyond the target the time left is bent,
//! so that it stays positive and shrinks smoothly.
//!
//! Two other rates count if they are larger; each grows smoothly from 0. One cleans if too many
//! frames are dirty. The other cleans when the log hardly grows: then all pages are cleaned within
//! a minute, so that an idle database recovers at once.
//!
//! The I/Os come from one budget, in which the supply of free frames has a floor of its own.

use crate::age_limits::AgeLimits;
use crate::budget::{TimeShares, WholeUnits, split};
use crate::constants::{
    BUDGET_US_PER_S, CLEANING_BATCH_PAGES, CLEANING_BEND_PART, CLEANING_DIRTY_EXCESS_S, CLEANING_DIRTY_SHARE,
    CLEANING_GATHER_PART, CLEANING_GATHER_US_MAX, CLEANING_GROWTH_PART, CLEANING_IDLE_PAGES_PER_S_MIN,
    CLEANING_IDLE_S, CLEANING_IDLE_SHARE, CLEANING_QUIET_FILL_S, CLEANING_STEP_US_MAX, CLEANING_STEP_US_MIN,
    CLEANING_VICTIMS_AT_ONCE_MAX,
};
use crate::free_frames::{frames_to_supply, free_frame_reserve};

/// One bin of a histogram of dirty pages by first-dirty LSN. It begins where the bin before
/// it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyBin {
    /// Where the bin ends.
    pub end_lsn: u64,
    /// Dirty pages whose first-dirty LSN is in the bin.
    pub pages: u64,
}

/// The state on which a plan is based.
#[derive(Clone, Debug)]
pub struct CleanerSample<'a> {
    /// Time of the sample.
    pub now_us: u64,
    /// End of the log.
    pub end_lsn: u64,
    /// The checkpoint LSN.
    pub checkpoint_lsn: u64,
    /// Redo bytes a second, smoothed ([`crate::smoothed_rate::SmoothedRate`]).
    pub redo_bytes_per_s: f64,
    /// Values of the checkpoint age.
    pub limits: AgeLimits,
    /// Dirty pages by first-dirty LSN, oldest first; a dozen to a few hundred bins.
    pub first_dirty: &'a [DirtyBin],
    /// Frames of the pool.
    pub frames: u64,
    /// Frames that are free.
    pub free_frames: u64,
    /// Threads inside the engine.
    pub threads: u64,
    /// Threads that wait for a free frame.
    pub waiting_threads: u64,
    /// The share of the next eviction victims that is dirty (0 to 1).
    pub dirty_victims: f64,
    /// What cleaning a page for the checkpoint costs a writer, microseconds
    /// ([`crate::budget::WriteCost`]).
    pub us_per_page: f64,
    /// What cleaning an eviction victim costs a writer, microseconds.
    pub us_per_victim: f64,
}

/// The main reason for cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningReason {
    /// The checkpoint must advance, so that log segments can be recycled.
    CheckpointAge,
    /// Threads need frames.
    FreeFrames,
    /// Too many frames are dirty.
    DirtyShare,
    /// The device has nothing else to do.
    Idle,
}

/// The plan for one step of the cleaner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerPlan {
    /// Clean so many pages, oldest first, neighbours included. No more than the budget allows.
    pub page_quota: u64,
    /// Why.
    pub reason: CleaningReason,
    /// Add so many frames to the free list. Clean victims come first; they cost nothing.
    pub free_frames: u64,
    /// Clean at most so many dirty victims.
    pub victims: u32,
    /// Pages a second that should be cleaned. If the device cannot do so many, admission will delay
    /// writers.
    pub wanted_pages_per_s: f64,
    /// A batch that is smaller than it could be may wait so long for more pages. Each batch costs
    /// two syncs, whatever its size.
    pub gather_us: u64,
    /// When to run the next step, unless the cleaner is woken before.
    pub next_step_us: u64,
}

/// The governor of the cleaner. It remembers the time of the last step, and fractions of
/// pages.
#[derive(Clone, Debug, Default)]
pub struct Governor {
    last_us: Option<u64>,
    pages: WholeUnits,
    victims: WholeUnits,
}

impl Governor {
    /// Makes a governor before its first step.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Plans one step.
    pub fn step(&mut self, s: &CleanerSample<'_>) -> CleanerPlan {
        let dt_us = s.now_us.saturating_sub(self.last_us.unwrap_or(s.now_us)).min(CLEANING_STEP_US_MAX);
        self.last_us = Some(s.now_us);
        let dt_s = dt_us as f64 / 1e6;
        let (reason, wanted_pages_per_s) = wanted_pages_per_s(s);

        let frames =
            frames_to_supply(free_frame_reserve(s.threads, s.frames), s.free_frames, s.waiting_threads);
        let wanted = TimeShares {
            checkpoint: wanted_pages_per_s * dt_s * s.us_per_page,
            free_frames: frames as f64 * s.dirty_victims.clamp(0.0, 1.0) * s.us_per_victim,
        };
        let got = split(BUDGET_US_PER_S * dt_s, wanted);
        let page_quota = u64::from(self.pages.take(got.checkpoint / s.us_per_page));
        let reason = if got.free_frames > got.checkpoint { CleaningReason::FreeFrames } else { reason };
        CleanerPlan {
            page_quota,
            reason,
            free_frames: frames,
            victims: self.victims.take(got.free_frames / s.us_per_victim).max(at_once(s)),
            wanted_pages_per_s,
            gather_us: (growth_us(s) / CLEANING_GATHER_PART).min(CLEANING_GATHER_US_MAX),
            next_step_us: next_step_us(wanted_pages_per_s, s),
        }
    }
}

/// Returns the rate at which pages should be cleaned, and the main reason.
fn wanted_pages_per_s(s: &CleanerSample<'_>) -> (CleaningReason, f64) {
    let dirty: u64 = s.first_dirty.iter().map(|bin| bin.pages).sum();
    let age = age_pages_per_s(s);

    let excess = dirty as f64 - s.frames as f64 * CLEANING_DIRTY_SHARE;
    let share = excess.max(0.0) / CLEANING_DIRTY_EXCESS_S;

    let target = s.limits.target as f64;
    let quiet = (1.0 - s.redo_bytes_per_s * CLEANING_QUIET_FILL_S / target).max(0.0);
    let idle_max = BUDGET_US_PER_S * CLEANING_IDLE_SHARE / s.us_per_page;
    // All pages, if there are fewer than the least rate.
    let least = dirty.min(CLEANING_IDLE_PAGES_PER_S_MIN) as f64;
    let idle = (dirty as f64 / CLEANING_IDLE_S).max(least).min(idle_max) * quiet;

    let mut most = (CleaningReason::CheckpointAge, age);
    for other in [(CleaningReason::DirtyShare, share), (CleaningReason::Idle, idle)] {
        if other.1 > most.1 {
            most = other;
        }
    }
    most
}

/// Returns the lowest steady rate that meets every deadline.
fn age_pages_per_s(s: &CleanerSample<'_>) -> f64 {
    let target = s.limits.target as f64;
    let bend = target / CLEANING_BEND_PART;
    let (mut pages, mut steepest) = (0, 0.0f64);
    let mut start = s.checkpoint_lsn;
    for bin in s.first_dirty {
        pages += bin.pages;
        // The pages are spread over the bin. Its middle stands for all of them.
        let middle = start + bin.end_lsn.saturating_sub(start) / 2;
        start = bin.end_lsn;
        let left = target - s.end_lsn.saturating_sub(middle) as f64;
        let bent = (left + (left * left + bend * bend).sqrt()) / 2.0;
        steepest = steepest.max(pages as f64 / bent);
    }
    steepest * s.redo_bytes_per_s
}

/// Returns the victims that are allowed beyond the budget. A thread that waits for a frame is not
/// background work, and the budget is only an estimate.
fn at_once(s: &CleanerSample<'_>) -> u32 {
    s.waiting_threads.saturating_sub(s.free_frames).min(CLEANING_VICTIMS_AT_ONCE_MAX) as u32
}

/// Returns the time until the next step: when there will be enough pages for a batch, soon if free
/// frames are short, and before the log has grown by much.
fn next_step_us(pages_per_s: f64, s: &CleanerSample<'_>) -> u64 {
    let pages_per_s = pages_per_s.min(BUDGET_US_PER_S / s.us_per_page).max(1.0);
    let batch_us = (CLEANING_BATCH_PAGES * 1e6 / pages_per_s) as u64;
    let urgent = s.waiting_threads > 0 || s.free_frames < free_frame_reserve(s.threads, s.frames).low;
    if urgent {
        CLEANING_STEP_US_MIN
    } else {
        batch_us.min(growth_us(s)).clamp(CLEANING_STEP_US_MIN, CLEANING_STEP_US_MAX)
    }
}

/// Returns the time in which the log grows by the part of its target that is allowed between two
/// steps.
fn growth_us(s: &CleanerSample<'_>) -> u64 {
    (s.limits.target as f64 / CLEANING_GROWTH_PART * 1e6 / s.redo_bytes_per_s.max(1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_limits::age_limits;
    use expect_test::{Expect, expect};

    const MIB: u64 = 1 << 20;

    /// The numbers that a script changes.
    struct Script {
        sample: CleanerSample<'static>,
        capacity_mib: u64,
        /// Dirty pages: how many MiB before the end of the log they became dirty, and how many.
        dirty: Vec<(u64, u64)>,
    }

    impl Script {
        fn new() -> Script {
            let sample = CleanerSample {
                now_us: 0,
                end_lsn: 10_000 * MIB,
                checkpoint_lsn: 0,
                redo_bytes_per_s: 0.0,
                limits: age_limits(96 * MIB, 16),
                first_dirty: &[],
                frames: 65_536,
                free_frames: 1000,
                threads: 16,
                waiting_threads: 0,
                dirty_victims: 0.5,
                us_per_page: 45.0,
                us_per_victim: 180.0,
            };
            Script { sample, capacity_mib: 96, dirty: Vec::new() }
        }

        /// Changes one number, as a word `key=value` says.
        fn set(&mut self, word: &str) {
            let (key, value) = word.split_once('=').unwrap();
            let int = || value.parse::<u64>().unwrap();
            let float = || value.parse::<f64>().unwrap();
            let s = &mut self.sample;
            match key {
                "end" => s.end_lsn = int() * MIB,
                "redo" => s.redo_bytes_per_s = float() * MIB as f64,
                "capacity" => self.capacity_mib = int(),
                "frames" => s.frames = int(),
                "free" => s.free_frames = int(),
                "threads" => s.threads = int(),
                "waiting" => s.waiting_threads = int(),
                "victims" => s.dirty_victims = float(),
                "page" => s.us_per_page = float(),
                "victim" => s.us_per_victim = float(),
                "dirty" => {
                    self.dirty = value
                        .split(',')
                        .filter(|pair| !pair.is_empty())
                        .map(|pair| pair.split_once('/').unwrap())
                        .map(|(age, pages)| (age.parse().unwrap(), pages.parse().unwrap()))
                        .collect();
                }
                _ => panic!("unknown word {word}"),
            }
        }

        fn step(&self, governor: &mut Governor, now_us: u64) -> CleanerPlan {
            let end = self.sample.end_lsn;
            let bin = |(age, pages): &(u64, u64)| DirtyBin { end_lsn: end - age * MIB, pages: *pages };
            let first_dirty: Vec<DirtyBin> = self.dirty.iter().map(bin).collect();
            governor.step(&CleanerSample {
                now_us,
                checkpoint_lsn: first_dirty.first().map_or(end, |bin| bin.end_lsn),
                limits: age_limits(self.capacity_mib * MIB, self.sample.threads),
                first_dirty: &first_dirty,
                ..self.sample.clone()
            })
        }
    }

    /// Each line of the script changes numbers of the sample before it (sizes in MiB), and runs a
    /// step 10 ms later. The output is the plan. `dirty=a/p,b/q`: p pages became dirty up to a MiB
    /// before the end of the log, and so on.
    fn check(script: &str, expected: &Expect) {
        let (mut governor, mut numbers) = (Governor::new(), Script::new());
        let mut out = String::new();
        for (n, line) in script.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
            line.split_whitespace().for_each(|word| numbers.set(word));
            if n == 0 {
                let _ = numbers.step(&mut governor, 0);
            }
            let p = numbers.step(&mut governor, (n as u64 + 1) * 10_000);
            out += &format!(
                "{line}\n    {:?}: {:.0} pages/s, {} now; free {} with {} victims; next {} ms\n",
                p.reason,
                p.wanted_pages_per_s,
                p.page_quota,
                p.free_frames,
                p.victims,
                p.next_step_us / 1000,
            );
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn follows_the_log() {
        check(
            "
            dirty= redo=0
            dirty=40/1000,20/1000,0/1000 redo=0
            redo=0.01
            redo=1
            redo=10
            redo=40
            dirty=48/1000,28/1000,8/1000
            dirty=56/1000,36/1000,16/1000
            dirty=64/1000,44/1000,24/1000
            dirty=72/1000,52/1000,32/1000
            dirty=80/1000,60/1000,40/1000
            ",
            &expect![[r#"
                dirty= redo=0
                    CheckpointAge: 0 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                dirty=40/1000,20/1000,0/1000 redo=0
                    Idle: 50 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                redo=0.01
                    Idle: 45 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                redo=1
                    CheckpointAge: 60 pages/s, 1 now; free 0 with 0 victims; next 100 ms
                redo=10
                    CheckpointAge: 604 pages/s, 6 now; free 0 with 0 victims; next 100 ms
                redo=40
                    CheckpointAge: 2416 pages/s, 24 now; free 0 with 0 victims; next 100 ms
                dirty=48/1000,28/1000,8/1000
                    CheckpointAge: 3180 pages/s, 32 now; free 0 with 0 victims; next 80 ms
                dirty=56/1000,36/1000,16/1000
                    CheckpointAge: 5322 pages/s, 53 now; free 0 with 0 victims; next 48 ms
                dirty=64/1000,44/1000,24/1000
                    CheckpointAge: 26122 pages/s, 262 now; free 0 with 0 victims; next 9 ms
                dirty=72/1000,52/1000,32/1000
                    CheckpointAge: 97130 pages/s, 400 now; free 0 with 0 victims; next 6 ms
                dirty=80/1000,60/1000,40/1000
                    CheckpointAge: 177762 pages/s, 400 now; free 0 with 0 victims; next 6 ms
            "#]],
        );
    }

    #[test]
    fn many_pages_with_one_deadline_are_begun_early() {
        check(
            "
            redo=20 dirty=40/100,30/100,10/100
            redo=20 dirty=40/100,30/20000,10/100
            redo=20 dirty=30/100,20/20000,0/100
            ",
            &expect![[r#"
                redo=20 dirty=40/100,30/100,10/100
                    CheckpointAge: 142 pages/s, 1 now; free 0 with 0 victims; next 100 ms
                redo=20 dirty=40/100,30/20000,10/100
                    CheckpointAge: 14287 pages/s, 143 now; free 0 with 0 victims; next 17 ms
                redo=20 dirty=30/100,20/20000,0/100
                    CheckpointAge: 10551 pages/s, 105 now; free 0 with 0 victims; next 24 ms
            "#]],
        );
    }

    #[test]
    fn too_many_dirty_frames() {
        check(
            "
            capacity=4000 redo=20 frames=10000 dirty=200/3000,0/3000
            dirty=200/3500,0/3500
            dirty=200/4000,0/4000
            dirty=200/4900,0/4900
            ",
            &expect![[r#"
                capacity=4000 redo=20 frames=10000 dirty=200/3000,0/3000
                    CheckpointAge: 47 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                dirty=200/3500,0/3500
                    CheckpointAge: 55 pages/s, 1 now; free 0 with 0 victims; next 100 ms
                dirty=200/4000,0/4000
                    DirtyShare: 1000 pages/s, 10 now; free 0 with 0 victims; next 100 ms
                dirty=200/4900,0/4900
                    DirtyShare: 2800 pages/s, 28 now; free 0 with 0 victims; next 91 ms
            "#]],
        );
    }

    /// MDEV-36226: asynchronous flushing took the whole budget, and threads that needed a free
    /// frame got none. MDEV-34265: the furious flush for a checkpoint starved them until the server
    /// hung. MDEV-33053: eviction ran only once the pool was empty.
    #[test]
    fn free_frames_are_supplied_however_much_the_checkpoint_needs() {
        check(
            "
            redo=200 dirty=80/20000,40/20000,0/20000 free=64
            free=40
            free=0 waiting=16
            free=0 waiting=16 victims=1
            free=0 waiting=60 threads=64 victims=1
            ",
            &expect![[r#"
                redo=200 dirty=80/20000,40/20000,0/20000 free=64
                    CheckpointAge: 17776186 pages/s, 400 now; free 0 with 0 victims; next 6 ms
                free=40
                    CheckpointAge: 17776186 pages/s, 352 now; free 24 with 12 victims; next 6 ms
                free=0 waiting=16
                    CheckpointAge: 17776186 pages/s, 299 now; free 80 with 25 victims; next 2 ms
                free=0 waiting=16 victims=1
                    CheckpointAge: 17776186 pages/s, 300 now; free 80 with 25 victims; next 2 ms
                free=0 waiting=60 threads=64 victims=1
                    CheckpointAge: 31512729 pages/s, 300 now; free 316 with 60 victims; next 2 ms
            "#]],
        );
    }

    /// MDEV-24949: idle flushing was lost, and a quiet server kept its dirty pages for ever.
    #[test]
    fn an_idle_database_cleans_all_its_pages() {
        check(
            "
            redo=0 dirty=10/60000
            dirty=10/600
            dirty=10/6
            redo=0.01
            redo=0.05
            redo=0.1
            ",
            &expect![[r#"
                redo=0 dirty=10/60000
                    DirtyShare: 14125 pages/s, 141 now; free 0 with 0 victims; next 18 ms
                dirty=10/600
                    Idle: 16 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                dirty=10/6
                    Idle: 6 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                redo=0.01
                    Idle: 5 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                redo=0.05
                    Idle: 3 pages/s, 0 now; free 0 with 0 victims; next 100 ms
                redo=0.1
                    Idle: 0 pages/s, 0 now; free 0 with 0 victims; next 100 ms
            "#]],
        );
    }

    #[test]
    fn the_wanted_rate_has_no_jump() {
        let limits = age_limits(96 * MIB, 16);
        let mut last: Option<f64> = None;
        for age_kib in 1024..92 * 1024 {
            let age = age_kib * 1024;
            let bins = [
                DirtyBin { end_lsn: 1000 * MIB - age, pages: 100 },
                DirtyBin { end_lsn: 1000 * MIB, pages: 1000 },
            ];
            let rate = age_pages_per_s(&CleanerSample {
                now_us: 0,
                end_lsn: 1000 * MIB,
                checkpoint_lsn: 1000 * MIB - age,
                redo_bytes_per_s: 2e7,
                limits,
                first_dirty: &bins,
                frames: 65_536,
                free_frames: 1000,
                threads: 16,
                waiting_threads: 0,
                dirty_victims: 0.5,
                us_per_page: 45.0,
                us_per_victim: 180.0,
            });
            if let Some(last) = last {
                assert!(rate >= last && rate <= last * 1.001, "age {age_kib} KiB: {last} -> {rate}");
            }
            last = Some(rate);
        }
    }
}
