//! InnoDB's background thread: it looks at the database once a second and says what to write until
//! the next look. It answers in the terms of [`crate::governor`].
//!
//! What it orders is a *round*. Nothing more is ordered, and the checkpoint does not move, before
//! all pages of a round are written and synced.
//!
//! Beyond the sync point nothing is counted in seconds any more (furious flushing): one round of
//! `io_capacity_max` pages follows the other, until the checkpoint has reached the end that the log
//! had. In MariaDB that begins at the async point, with writers still running.

use super::adaptive::{Adaptive, AdaptiveView};
use super::lru::{FreeView, Round, supply};
use super::points::{LogPoints, log_points};
use super::{Server, Settings};
use crate::constants::MTR_REDO_BYTES_MAX;
use crate::governor::{CleanerPlan, CleanerSample, CleaningReason};
use crate::law::Planner;

/// The time between two looks.
const LOOK_US: u64 = 1_000_000;
/// The time between two steps while a round is being written, and before the next one if there is
/// no pause.
const ROUND_STEP_US: u64 = 2_000;
/// The longest time between two steps. Between two looks a step only supplies frames.
const STEP_US_MAX: u64 = 100_000;

/// InnoDB's background thread. It remembers the last look.
#[derive(Clone, Debug)]
pub struct InnodbCleaner {
    settings: Settings,
    next_look_us: u64,
    adaptive: Adaptive,
    /// The LSNs that the checkpoint must reach before the pressure of each point is over; 0 if
    /// there is none.
    async_until: u64,
    sync_until: u64,
    last_pages: u64,
    last_lsn: u64,
}

/// Everything that one look uses.
struct Look<'a> {
    sample: &'a CleanerSample<'a>,
    points: LogPoints,
    dirty: u64,
    dirty_pct: f64,
    oldest_lsn: u64,
}

impl InnodbCleaner {
    /// Makes the thread before its first look.
    #[must_use]
    pub fn new(settings: Settings) -> InnodbCleaner {
        InnodbCleaner {
            settings,
            next_look_us: 0,
            adaptive: Adaptive::default(),
            async_until: 0,
            sync_until: 0,
            last_pages: 0,
            last_lsn: 0,
        }
    }

    /// Plans one step. `is_writing`: the last round is not finished.
    pub fn step(&mut self, s: &CleanerSample<'_>, is_writing: bool) -> CleanerPlan {
        let dirty: u64 = s.first_dirty.iter().map(|bin| bin.pages).sum();
        let look = Look {
            sample: s,
            points: log_points(self.settings.server, s.limits.capacity),
            dirty,
            dirty_pct: dirty as f64 * 100.0 / s.frames.max(1) as f64,
            oldest_lsn: if dirty == 0 { s.end_lsn } else { s.checkpoint_lsn },
        };
        self.note_age(&look);
        let (reason, pages, round) = if is_writing {
            (CleaningReason::CheckpointAge, 0, Round::None)
        } else {
            self.choose_pages(&look)
        };
        let free = FreeView { frames: s.frames, free: s.free_frames, waiting: s.waiting_threads };
        let frames = supply(&self.settings, &free, round);
        CleanerPlan {
            page_quota: pages,
            reason,
            free_frames: frames.frames,
            victims: u32::try_from(frames.writes).unwrap_or(u32::MAX),
            wanted_pages_per_s: pages as f64,
            gather_us: 0,
            next_step_us: self.next_step_us(s.now_us, is_writing || pages > 0),
        }
    }

    /// Notes whether the checkpoint age has passed a point, and whether the checkpoint has caught
    /// up.
    fn note_age(&mut self, look: &Look<'_>) {
        let end = look.sample.end_lsn;
        let age = end.saturating_sub(look.sample.checkpoint_lsn);
        let stop = look.points.sync_age.min(look.sample.limits.hard);
        // Writers stand already if the longest mini-transaction does not fit.
        if age.saturating_add(MTR_REDO_BYTES_MAX) > stop {
            self.sync_until = end;
        } else if age > look.points.async_age && self.settings.server == Server::MariaDb1011 {
            self.async_until = end;
        }
        for until in [&mut self.async_until, &mut self.sync_until] {
            if look.oldest_lsn >= *until {
                *until = 0;
            }
        }
    }

    /// Returns how many pages to write now, and why.
    fn choose_pages(&mut self, look: &Look<'_>) -> (CleaningReason, u64, Round) {
        let (now_us, most) = (look.sample.now_us, self.settings.io_capacity_max);
        if self.sync_until > 0 || self.async_until > 0 {
            let (is_furious, pages) = (self.sync_until > 0, most.min(look.dirty));
            self.last_pages = if is_furious { 0 } else { pages };
            self.next_look_us = now_us + LOOK_US;
            let round = if is_furious { Round::Furious } else { Round::Wrote(pages) };
            return (CleaningReason::CheckpointAge, pages, round);
        }
        if now_us < self.next_look_us {
            return (CleaningReason::CheckpointAge, 0, Round::None);
        }
        self.next_look_us = now_us + LOOK_US;
        let is_active = look.sample.end_lsn != self.last_lsn;
        self.last_lsn = look.sample.end_lsn;
        let (reason, pages) = match self.reason(look, is_active) {
            None => return (CleaningReason::CheckpointAge, 0, Round::None),
            Some(CleaningReason::Idle) => (CleaningReason::Idle, self.settings.io_capacity),
            Some(reason) => (reason, self.recommended(look)),
        };
        let pages = pages.min(look.dirty);
        self.last_pages = pages;
        (reason, pages, Round::Wrote(pages))
    }

    /// Returns why pages should be written in this second; `None` if nothing asks for it.
    fn reason(&self, look: &Look<'_>, is_active: bool) -> Option<CleaningReason> {
        let settings = &self.settings;
        let age = look.sample.end_lsn.saturating_sub(look.oldest_lsn);
        let by_age = (age > look.points.low_water(settings)).then_some(CleaningReason::CheckpointAge);
        let (max, lwm) = (settings.max_dirty_pages_pct, settings.max_dirty_pages_pct_lwm);
        if look.dirty == 0 {
            return None;
        }
        match settings.server {
            // It looks for pages to write in every second.
            Server::MySql8 if !is_active => Some(CleaningReason::Idle),
            Server::MySql8 => Some(CleaningReason::CheckpointAge),
            Server::MariaDb1011 if lwm > 0.0 && !is_active => Some(CleaningReason::Idle),
            Server::MariaDb1011 => {
                let from = if lwm > 0.0 { lwm } else { max };
                if look.dirty_pct < from { by_age } else { Some(CleaningReason::DirtyShare) }
            }
        }
    }

    fn recommended(&mut self, look: &Look<'_>) -> u64 {
        if !self.settings.adaptive_flushing && self.settings.server == Server::MariaDb1011 {
            return self.settings.io_capacity;
        }
        let view = AdaptiveView {
            now_s: look.sample.now_us / 1_000_000,
            end_lsn: look.sample.end_lsn,
            oldest_lsn: look.oldest_lsn,
            first_dirty: look.sample.first_dirty,
            dirty: look.dirty,
            dirty_pct: look.dirty_pct,
            points: look.points,
        };
        self.adaptive.pages(&self.settings, &view, self.last_pages)
    }

    fn next_step_us(&self, now_us: u64, is_writing: bool) -> u64 {
        if is_writing || self.sync_until > 0 || self.async_until > 0 {
            return ROUND_STEP_US;
        }
        self.next_look_us.saturating_sub(now_us).clamp(ROUND_STEP_US, STEP_US_MAX)
    }
}

impl Planner for InnodbCleaner {
    fn plan(&mut self, mut sample: CleanerSample<'_>, hard_now: u64, is_writing: bool) -> CleanerPlan {
        sample.limits.hard = sample.limits.hard.min(hard_now);
        self.step(&sample, is_writing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_limits::age_limits;
    use crate::governor::DirtyBin;
    use expect_test::{Expect, expect};

    const MIB: u64 = 1 << 20;

    /// Each line is a step, `ms` milliseconds after the one before (1,000 at first): the log of 96
    /// MiB has grown by `redo` MiB, `dirty` pages of 65,536 lie evenly over `age` MiB.
    fn check(settings: &Settings, script: &str, expected: &Expect) {
        let mut cleaner = InnodbCleaner::new(*settings);
        let (mut now_ms, mut ms, mut end, mut redo, mut age, mut dirty) = (0, 1000, 1000, 0, 0, 0);
        let (mut free, mut waiting, mut writing) = (2000, 0, 0);
        let mut out = String::new();
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            for word in line.split_whitespace() {
                let (key, value) = word.split_once('=').unwrap();
                let value: u64 = value.parse().unwrap();
                match key {
                    "ms" => ms = value,
                    "redo" => redo = value,
                    "age" => age = value,
                    "dirty" => dirty = value,
                    "free" => free = value,
                    "waiting" => waiting = value,
                    "writing" => writing = value,
                    _ => panic!("unknown word {word}"),
                }
            }
            now_ms += ms;
            end += redo;
            let sample = CleanerSample {
                now_us: now_ms * 1000,
                end_lsn: end * MIB,
                checkpoint_lsn: (end - age) * MIB,
                redo_bytes_per_s: 0.0,
                limits: age_limits(96 * MIB, 16),
                first_dirty: &[DirtyBin { end_lsn: end * MIB, pages: dirty }],
                frames: 65_536,
                free_frames: free,
                threads: 16,
                waiting_threads: waiting,
                dirty_victims: 0.5,
                us_per_page: 45.0,
                us_per_victim: 180.0,
            };
            let p = cleaner.step(&sample, writing == 1);
            out += &format!(
                "{line}\n    {:?}: {} pages; free {} with {} victims; next {} ms\n",
                p.reason,
                p.page_quota,
                p.free_frames,
                p.victims,
                p.next_step_us / 1000
            );
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn between_two_looks_nothing_is_decided() {
        check(
            &Settings::mysql(),
            "
            redo=1 age=20 dirty=10000
            redo=1
            ms=300 redo=20 age=40
            ms=300 redo=20 age=60
            ms=399
            ms=1
            ms=1000 writing=1
            ms=1500
            ms=2 writing=0
            ",
            &expect![[r#"
                redo=1 age=20 dirty=10000
                    CheckpointAge: 0 pages; free 0 with 2000 victims; next 100 ms
                redo=1
                    CheckpointAge: 123 pages; free 0 with 1877 victims; next 2 ms
                ms=300 redo=20 age=40
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
                ms=300 redo=20 age=60
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
                ms=399
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 2 ms
                ms=1
                    CheckpointAge: 643 pages; free 0 with 1357 victims; next 2 ms
                ms=1000 writing=1
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 2 ms
                ms=1500
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 2 ms
                ms=2 writing=0
                    CheckpointAge: 643 pages; free 0 with 1357 victims; next 2 ms
            "#]],
        );
    }

    /// MDEV-36226: writing for the async point took everything, and frames got nothing.
    #[test]
    fn mariadb_writes_without_a_pause_from_the_async_point_until_the_checkpoint_is_there() {
        check(
            &Settings::mariadb(),
            "
            redo=10 age=60 dirty=20000
            redo=10 age=70 dirty=22000
            ms=2 redo=0 writing=1
            ms=2 age=69 dirty=21000 free=100 writing=0
            redo=10 age=20 dirty=8000
            redo=0 age=11 dirty=4000
            redo=0 age=10 dirty=3990 free=2000
            redo=0 age=10 dirty=3990
            ",
            &expect![[r#"
                redo=10 age=60 dirty=20000
                    CheckpointAge: 200 pages; free 0 with 1800 victims; next 2 ms
                redo=10 age=70 dirty=22000
                    CheckpointAge: 2000 pages; free 0 with 1536 victims; next 2 ms
                ms=2 redo=0 writing=1
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 2 ms
                ms=2 age=69 dirty=21000 free=100 writing=0
                    CheckpointAge: 2000 pages; free 1436 with 1536 victims; next 2 ms
                redo=10 age=20 dirty=8000
                    CheckpointAge: 2000 pages; free 1436 with 1536 victims; next 2 ms
                redo=0 age=11 dirty=4000
                    CheckpointAge: 2000 pages; free 1436 with 1536 victims; next 2 ms
                redo=0 age=10 dirty=3990 free=2000
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
                redo=0 age=10 dirty=3990
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
            "#]],
        );
    }

    /// MDEV-34265: the furious flush starved threads that needed a frame.
    #[test]
    fn beyond_the_sync_point_frames_get_io_capacity() {
        check(
            &Settings::mysql(),
            "
            redo=10 age=90 dirty=20000
            ms=50 redo=0 age=90 free=100
            free=0 waiting=16
            age=50 waiting=0
            age=0 dirty=0
            ",
            &expect![[r#"
                redo=10 age=90 dirty=20000
                    CheckpointAge: 2000 pages; free 0 with 0 victims; next 2 ms
                ms=50 redo=0 age=90 free=100
                    CheckpointAge: 2000 pages; free 924 with 200 victims; next 2 ms
                free=0 waiting=16
                    CheckpointAge: 2000 pages; free 1040 with 200 victims; next 2 ms
                age=50 waiting=0
                    CheckpointAge: 2000 pages; free 1024 with 200 victims; next 2 ms
                age=0 dirty=0
                    CheckpointAge: 0 pages; free 1024 with 2000 victims; next 100 ms
            "#]],
        );
    }

    /// MDEV-24949: an idle server kept its dirty pages. MariaDB does so with its defaults.
    #[test]
    fn an_idle_server() {
        let script = "
            redo=1 age=3 dirty=1000
            redo=0
            redo=0
            ";
        check(
            &Settings::mysql(),
            script,
            &expect![[r#"
            redo=1 age=3 dirty=1000
                CheckpointAge: 0 pages; free 0 with 2000 victims; next 100 ms
            redo=0
                Idle: 200 pages; free 0 with 1800 victims; next 2 ms
            redo=0
                Idle: 200 pages; free 0 with 1800 victims; next 2 ms
        "#]],
        );
        check(
            &Settings::mariadb(),
            script,
            &expect![[r#"
            redo=1 age=3 dirty=1000
                CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
            redo=0
                CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
            redo=0
                CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
        "#]],
        );
        check(
            &Settings { max_dirty_pages_pct_lwm: 10.0, ..Settings::mariadb() },
            script,
            &expect![[r#"
                redo=1 age=3 dirty=1000
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
                redo=0
                    Idle: 200 pages; free 0 with 1800 victims; next 2 ms
                redo=0
                    Idle: 200 pages; free 0 with 1800 victims; next 2 ms
            "#]],
        );
    }

    #[test]
    fn too_many_dirty_pages() {
        let settings = Settings { max_dirty_pages_pct: 50.0, ..Settings::mariadb() };
        check(
            &settings,
            "
            redo=1 age=5 dirty=32000
            dirty=33000
            ",
            &expect![[r#"
                redo=1 age=5 dirty=32000
                    CheckpointAge: 0 pages; free 0 with 0 victims; next 100 ms
                dirty=33000
                    DirtyShare: 200 pages; free 0 with 1800 victims; next 2 ms
            "#]],
        );
        check(
            &Settings { adaptive_flushing: false, ..settings },
            "redo=1 age=5 dirty=33000",
            &expect![[r#"
                redo=1 age=5 dirty=33000
                    DirtyShare: 200 pages; free 0 with 1800 victims; next 2 ms
            "#]],
        );
    }
}
