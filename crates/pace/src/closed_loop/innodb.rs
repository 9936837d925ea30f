//! InnoDB's law on the same machine: the same writers, log and device. The stalls that articles
//! about InnoDB show appear with its law, and not with Millpond's.

use super::{MIB, NEIGHBOURS, ROW_BYTES, STEP_US, Second, World};
use crate::admission::{AdmissionView, must_wait};
use crate::age_limits::age_limits;
use crate::governor::CleanerSample;
use crate::innodb::cleaner::InnodbCleaner;
use crate::innodb::points::limits;
use crate::innodb::{Neighbours, Settings};
use expect_test::{Expect, expect};
use std::fmt::Write;

/// A world whose pages InnoDB's law cleans. The governor of `world` has nothing to say.
struct InnodbWorld {
    world: World,
    cleaner: InnodbCleaner,
    neighbours: usize,
    /// Pages of the round that are not written yet, and I/Os that the device could have done in the
    /// steps so far.
    round: u64,
    ios: f64,
    next_look_us: u64,
}

/// The figures of one second, with the longest time in it in which no row was written.
struct Stopped {
    second: Second,
    longest_ms: u64,
}

impl InnodbWorld {
    fn new(settings: Settings, capacity_mib: u64, pages: usize) -> InnodbWorld {
        let mut world = World::new(capacity_mib, pages, 10_000.0, 16);
        let capacity = capacity_mib * MIB;
        world.limits = limits(settings.server, age_limits(capacity, 16), capacity);
        InnodbWorld {
            world,
            cleaner: InnodbCleaner::new(settings),
            neighbours: if settings.flush_neighbors == Neighbours::Off { 1 } else { NEIGHBOURS },
            round: 0,
            ios: 0.0,
            next_look_us: 0,
        }
    }

    fn run_second(&mut self) -> Stopped {
        let mut second = Second { least_in_100_ms: u64::MAX, ..Second::default() };
        let (mut longest_ms, mut stopped_ms) = (0, 0);
        for _ in 0..10 {
            let before = second.rows;
            for _ in 0..100 {
                let rows = second.rows;
                self.step(&mut second);
                stopped_ms = if second.rows == rows { stopped_ms + 1 } else { 0 };
                longest_ms = longest_ms.max(stopped_ms);
            }
            second.least_in_100_ms = second.least_in_100_ms.min(second.rows - before);
        }
        Stopped { second, longest_ms }
    }

    fn step(&mut self, second: &mut Second) {
        self.world.now_us += STEP_US;
        self.write_rows(second);
        self.write_pages(second);
        if self.world.now_us >= self.next_look_us {
            self.look();
        }
        second.age_max = second.age_max.max(self.world.age());
    }

    /// Writers are not delayed, and they stop at the sync point.
    fn write_rows(&mut self, second: &mut Second) {
        let w = &mut self.world;
        let demand = w.demand_per_s * STEP_US as f64 / 1e6;
        w.demand_carry = (w.demand_carry + demand).min(demand + w.threads as f64);
        while w.demand_carry >= 1.0 {
            let (age, hard) = (w.age(), w.limits.hard);
            let view = AdmissionView { age, soft: w.limits.soft, hard, clean_bytes_per_s: 0.0 };
            if must_wait(&view, ROW_BYTES) {
                w.hard_waits += 1;
                return;
            }
            w.demand_carry -= 1.0;
            w.change_row();
            second.rows += 1;
        }
    }

    /// The device writes pages of the round, with their neighbours. The checkpoint moves when the
    /// round is done.
    fn write_pages(&mut self, second: &mut Second) {
        let w = &mut self.world;
        self.ios = (self.ios + w.device_ios_per_s * STEP_US as f64 / 1e6).min(64.0);
        if self.round == 0 {
            return;
        }
        while self.round > 0 && self.ios >= 1.0 {
            let Some(pages) = w.clean_oldest(self.neighbours) else {
                self.round = 0;
                break;
            };
            self.ios -= 1.0;
            self.round = self.round.saturating_sub(pages);
            (second.ios, second.pages) = (second.ios + 1, second.pages + pages);
        }
        if self.round == 0 {
            w.move_checkpoint();
        }
    }

    fn look(&mut self) {
        let w = &mut self.world;
        let plan = self.cleaner.step(
            &CleanerSample {
                now_us: w.now_us,
                end_lsn: w.end_lsn,
                checkpoint_lsn: w.checkpoint_lsn,
                redo_bytes_per_s: 0.0,
                limits: w.limits,
                first_dirty: &w.bins(),
                frames: w.first_dirty.len() as u64 * 2,
                free_frames: 4000,
                threads: w.threads,
                waiting_threads: 0,
                dirty_victims: 0.0,
                us_per_page: 0.0,
                us_per_victim: 0.0,
            },
            self.round > 0,
        );
        self.round += plan.page_quota;
        self.next_look_us = w.now_us + plan.next_step_us;
    }
}

/// Runs lines `seconds demand=ROWS_PER_S device=IOS_PER_S` and prints each second. Returns the
/// seconds without a row, and the longest time in a second in which writers stood, milliseconds.
fn check(settings: Settings, script: &str, expected: &Expect) -> (u64, u64) {
    let mut world = InnodbWorld::new(settings, 96, 65_536);
    let mut out = String::from("  s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages\n");
    let (mut n, mut empty, mut longest) = (0, 0, 0);
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let seconds = world.world.set(line);
        let _ = writeln!(out, "{line}");
        for _ in 0..seconds {
            let Stopped { second: s, longest_ms } = world.run_second();
            n += 1;
            empty += u64::from(s.rows == 0);
            longest = longest.max(longest_ms);
            let _ = writeln!(
                out,
                "{n:>3} {:>7} {:>16} {:>10.1} {longest_ms:>11} {:>6} {:>6}",
                s.rows,
                s.least_in_100_ms * 10,
                s.age_max as f64 * 100.0 / world.world.limits.hard as f64,
                s.ios,
                s.pages,
            );
        }
    }
    expected.assert_eq(&out);
    assert!(world.world.hard_waits > 0, "writers stop at the sync point");
    (empty, longest)
}

/// As in `a_burst_that_the_device_cannot_follow_is_slowed_smoothly`, where the worst 100
/// milliseconds of each second are a third of its rate at first, four fifths later, and no writer
/// is ever stopped.
const BURST: &str = "
    4 demand=20000 device=10000
    10 demand=444000
    6 demand=20000
    ";

/// MariaDB's defaults on a device that writes a round of 2,000 pages in 30 ms.
#[test]
fn a_burst_stops_writers_for_a_round_at_a_time() {
    let stopped = check(
        Settings::mariadb(),
        BURST,
        &expect![[r#"
          s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages
        4 demand=20000 device=10000
          1   20000            20000       11.1           0      0      0
          2   20000            20000       22.3           0      0      0
          3   20000            20000       33.4           0     50    203
          4   20000            20000       44.5           0     14     72
        10 demand=444000
          5  125752            12560      100.0          26   8036  60588
          6  250364            32940      100.0          25  10000  70424
          7  255452            57230      100.0          24  10000  75013
          8  221953            66400      100.0          23  10000  75125
          9  199989            71390      100.0          22  10000  75215
         10  209162            88920      100.0          22  10000  75286
         11  219667            98120      100.0          21  10000  75159
         12  244378           121460      100.0          20  10000  75035
         13  242554           120680      100.0          20  10000  75056
         14  210518           124110      100.0          20  10000  75168
        6 demand=20000
         15   19696            16960      100.0          16   8997  49265
         16   20000            20000       18.5           0     20     67
         17   20000            20000       29.6           0     13     69
         18   20000            20000       40.7           0     12     70
         19   20000            20000       51.8           0     12     73
         20   20000            20000       62.9           0     11     70
    "#]],
    );
    assert_eq!(stopped, (0, 26));
}

/// MySQL's defaults: one I/O a page, so a round takes 200 ms.
#[test]
fn a_burst_without_neighbours_stops_writers_for_longer() {
    let stopped = check(
        Settings::mysql(),
        BURST,
        &expect![[r#"
          s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages
        4 demand=20000 device=10000
          1   20000            20000       10.8           0      0      0
          2   20000            20000       21.5           0     35     35
          3   20000            20000       32.2           0     98     98
          4   20000            20000       42.9           0    180    180
        10 demand=444000
          5  112669                0      100.0         280   7083   7083
          6   12177                0      100.0         194  10000  10000
          7   14950                0      100.0         193  10000  10000
          8   19360                0      100.0         192  10000  10000
          9   27430                0      100.0         189  10000  10000
         10   47238                0      100.0         183  10000  10000
         11   80156                0      100.0         175  10000  10000
         12   28426                0      100.0         188  10000  10000
         13   25422                0      100.0         188  10000  10000
         14   27116                0      100.0         188  10000  10000
        6 demand=20000
         15   17616                0      100.0         120  10000  10000
         16   20000            20000       93.2           0  10000  10000
         17   20000            20000       80.1           0  10000  10000
         18   20000            20000       62.4           0  10000  10000
         19   20000            20000       53.3           0   5196   5196
         20   20000            20000       62.4           0    410    410
    "#]],
    );
    assert_eq!(stopped, (0, 280));
}

/// Both settings raised, as the advice goes: now a round takes seconds, and in whole seconds no row
/// is written. Nothing says how much would have been right.
#[test]
fn with_an_io_capacity_beyond_the_device_there_are_seconds_without_a_row() {
    let settings = Settings::mysql().with_io_capacity(20_000);
    let stopped = check(
        settings,
        BURST,
        &expect![[r#"
          s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages
        4 demand=20000 device=10000
          1   20000            20000       10.8           0      0      0
          2   20000            20000       21.0           0    933    933
          3   20000            20000       30.8           0   1867   1867
          4   20000            20000       39.6           0   3333   3333
        10 demand=444000
          5  117824                0      100.0         498  10044  10044
          6       0                0      100.0        1000  10000  10000
          7       0                0      100.0        1000  10000  10000
          8       0                0      100.0        1000  10000  10000
          9   76219                0      100.0         489  10000  10000
         10       0                0      100.0        1000  10000  10000
         11  109549                0      100.0         424  10000  10000
         12       0                0      100.0        1000  10000  10000
         13       0                0      100.0        1000  10000  10000
         14   76219                0      100.0         650  10000  10000
        6 demand=20000
         15       0                0      100.0        1000  10000  10000
         16       0                0      100.0        1000  10000  10000
         17   11416                0      100.0         430  10000  10000
         18   20000            20000       57.7           0  10000  10000
         19   20000            20000       68.5           0  10000  10000
         20   20000            20000       69.4           0   3915   3915
    "#]],
    );
    assert_eq!(stopped, (8, 1000));
}

/// A steady load that Millpond's law carries without a delay (the first line of
/// `a_device_that_slows_and_stops`). With an io_capacity below it nothing happens for three
/// seconds, and then writers stand at the sync point.
#[test]
fn a_steady_load_above_io_capacity() {
    let stopped = check(
        Settings::mysql(),
        "12 demand=60000 device=10000",
        &expect![[r#"
          s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages
        12 demand=60000 device=10000
          1   60000            60000       32.3           0      0      0
          2   60000            60000       64.5           0    181    181
          3   60000            60000       96.5           0    511    511
          4   14681                0      100.0         262   9079   9079
          5   12384             8560      100.0         161  10000  10000
          6   15379             8560      100.0         153  10000  10000
          7   19993             8560      100.0         142  10000  10000
          8   28994             8560      100.0         117  10000  10000
          9   50421            18910      100.0          68  10000  10000
         10   60000            60000       96.2           0  10000  10000
         11   43753             8560      100.0         115  10000  10000
         12   25348             8560      100.0         118  10000  10000
    "#]],
    );
    assert_eq!(stopped, (0, 262));
}

/// As in `a_device_that_slows_and_stops`. While the device stands, so do writers, at once.
#[test]
fn a_device_that_slows_and_stops_under_innodbs_law() {
    let script = "
        8 demand=60000 device=10000
        5 device=1000
        3 device=0
        4 device=10000
        ";
    let stopped = check(
        Settings::mariadb(),
        script,
        &expect![[r#"
          s  rows/s  worst 100 ms*10  age max %  stopped ms   I/Os  pages
        8 demand=60000 device=10000
          1   60000            60000       33.4           0      0      0
          2   60000            60000       66.8           0     38    200
          3   60000            60000       98.2           0   3034  22662
          4   50049            22120      100.0          19  10000  57105
          5   60000            60000       48.6           0   2048   8421
          6   60000            60000       82.0           0     10     68
          7   60000            60000       92.2           0   7473  55523
          8   60000            60000       91.6           0   7576  34671
        5 device=1000
          9   60000            60000       64.3           0     11     71
         10   60000            60000       96.8           0    352   2595
         11   11540                0      100.0         239   1000   7532
         12    5229                0      100.0         241   1000   7517
         13    6488                0      100.0         241   1000   7520
        3 device=0
         14       0                0      100.0        1000      0      0
         15       0                0      100.0        1000      0      0
         16       0                0      100.0        1000      0      0
        4 device=10000
         17   59296            52960      100.0          12  10000  58735
         18   60000            60000       49.8           0   1935   8227
         19   60000            60000       83.1           0     10     70
         20   60000            60000       88.9           0   8578  62091
    "#]],
    );
    assert_eq!(stopped, (3, 1000));
}
