//! Tests of all rules together, against a simulated engine: writers, a log, dirty pages and a
//! device, in steps of a millisecond. Only here is it visible what a rule does to the throughput of
//! whole seconds.

use crate::admission::{AdmissionDecision, AdmissionView, admit, clean_rate, must_wait, price_ns};
use crate::age_limits::{AgeLimits, age_limits};
use crate::constants::{ADMISSION_DELAY_US_MAX, BUDGET_US_PER_S};
use crate::governor::{CleanerSample, DirtyBin, Governor};
use crate::smoothed_rate::SmoothedRate;
use base::prng::Prng;
use expect_test::{Expect, expect};
use std::collections::VecDeque;
use std::fmt::Write;

mod innodb;

const MIB: u64 = 1 << 20;
const STEP_US: u64 = 1000;
/// Redo of one row change.
const ROW_BYTES: u64 = 450;
/// Pages of a neighbourhood: 64 KiB of 8 KiB pages.
const NEIGHBOURS: usize = 8;
const BINS: u64 = 64;

struct World {
    now_us: u64,
    limits: AgeLimits,
    end_lsn: u64,
    checkpoint_lsn: u64,
    /// First-dirty LSN of each page; 0 while clean.
    first_dirty: Vec<u64>,
    /// (first-dirty LSN, page) in order. Entries of pages that were cleaned since are skipped.
    queue: VecDeque<(u64, usize)>,
    rng: Prng,
    governor: Governor,
    redo_rate: SmoothedRate,
    clean_rate: SmoothedRate,
    pages_per_io: f64,
    clean_bytes_per_s: f64,
    device_ios_per_s: f64,
    /// What the device did when it last worked: nothing is learnt of a device that has stopped.
    seen_ios_per_s: f64,
    next_governor_us: u64,
    /// Row changes a second that the writers would make without admission.
    demand_per_s: f64,
    demand_carry: f64,
    next_ns: u64,
    threads: u64,
    hard_waits: u64,
}

/// The figures of one second.
#[derive(Default)]
struct Second {
    rows: u64,
    least_in_100_ms: u64,
    age_max: u64,
    delay_us_max: u64,
    ios: u64,
    pages: u64,
}

impl World {
    fn new(capacity_mib: u64, pages: usize, device_ios_per_s: f64, threads: u64) -> Self {
        World {
            now_us: 0,
            limits: age_limits(capacity_mib * MIB, threads),
            end_lsn: MIB,
            checkpoint_lsn: MIB,
            first_dirty: vec![0; pages],
            queue: VecDeque::new(),
            rng: Prng::new(1),
            governor: Governor::new(),
            redo_rate: SmoothedRate::new(),
            clean_rate: SmoothedRate::new(),
            pages_per_io: 1.0,
            clean_bytes_per_s: 0.0,
            device_ios_per_s,
            seen_ios_per_s: device_ios_per_s,
            next_governor_us: 0,
            demand_per_s: 0.0,
            demand_carry: 0.0,
            next_ns: 0,
            threads,
            hard_waits: 0,
        }
    }

    fn age(&self) -> u64 {
        self.end_lsn - self.checkpoint_lsn
    }

    fn run_second(&mut self) -> Second {
        let mut second = Second { least_in_100_ms: u64::MAX, ..Second::default() };
        for _ in 0..10 {
            let before = second.rows;
            for _ in 0..100 {
                self.step(&mut second);
            }
            second.least_in_100_ms = second.least_in_100_ms.min(second.rows - before);
        }
        second
    }

    fn step(&mut self, second: &mut Second) {
        self.now_us += STEP_US;
        self.write_rows(second);
        self.redo_rate.update(self.now_us, self.end_lsn);
        self.clean_rate.update(self.now_us, self.checkpoint_lsn);
        if self.now_us >= self.next_governor_us {
            self.clean(second);
        }
        second.age_max = second.age_max.max(self.age());
    }

    /// Admits the writers of this step, one after the other, as long as their delay ends within the
    /// step. An operation with a longer delay belongs to a thread that would still sleep.
    fn write_rows(&mut self, second: &mut Second) {
        self.demand_carry += self.demand_per_s * STEP_US as f64 / 1e6;
        // Closed loop: each thread has at most one operation outstanding. So operations that were
        // not admitted are not saved up.
        self.demand_carry =
            self.demand_carry.min(self.demand_per_s * STEP_US as f64 / 1e6 + self.threads as f64);
        while self.demand_carry >= 1.0 {
            let view = AdmissionView {
                age: self.age(),
                soft: self.limits.soft,
                hard: self.limits.hard,
                clean_bytes_per_s: self.clean_bytes_per_s,
            };
            if must_wait(&view, ROW_BYTES) {
                self.hard_waits += 1;
                return;
            }
            let price = price_ns(&view, ROW_BYTES);
            let (delay_us, next_ns) = match admit(self.next_ns, self.now_us, price) {
                AdmissionDecision::Admitted { delay_us, next_ns } => (delay_us, next_ns),
                AdmissionDecision::Retry { delay_us } => {
                    second.delay_us_max = second.delay_us_max.max(delay_us);
                    return;
                }
            };
            // The delay that a thread sees: the operations of the other threads queue behind this
            // one.
            let seen = (price / 1000 * self.threads).min(ADMISSION_DELAY_US_MAX);
            second.delay_us_max = second.delay_us_max.max(seen);
            if delay_us >= STEP_US {
                return;
            }
            self.next_ns = next_ns;
            self.demand_carry -= 1.0;
            self.change_row();
            second.rows += 1;
        }
    }

    fn change_row(&mut self) {
        let page = self.rng.below(self.first_dirty.len() as u64) as usize;
        if self.first_dirty[page] == 0 {
            self.first_dirty[page] = self.end_lsn;
            self.queue.push_back((self.end_lsn, page));
        }
        self.end_lsn += ROW_BYTES;
    }

    fn bins(&self) -> Vec<DirtyBin> {
        let width = (self.age() / BINS).max(1);
        let mut bins: Vec<DirtyBin> = (0..=BINS)
            .map(|i| DirtyBin { end_lsn: self.checkpoint_lsn + (i + 1) * width, pages: 0 })
            .collect();
        for (lsn, page) in &self.queue {
            if self.first_dirty[*page] == *lsn {
                bins[((lsn - self.checkpoint_lsn) / width).min(BINS) as usize].pages += 1;
            }
        }
        bins
    }

    fn clean(&mut self, second: &mut Second) {
        let bins = self.bins();
        if self.device_ios_per_s > 0.0 {
            self.seen_ios_per_s = self.device_ios_per_s;
        }
        self.clean_bytes_per_s = clean_rate(
            self.clean_rate.typical_per_second(),
            self.seen_ios_per_s * self.pages_per_io,
            self.age(),
            bins.iter().map(|bin| bin.pages).sum(),
        );
        let plan = self.governor.step(&CleanerSample {
            now_us: self.now_us,
            end_lsn: self.end_lsn,
            checkpoint_lsn: self.checkpoint_lsn,
            redo_bytes_per_s: self.redo_rate.per_second(),
            limits: self.limits,
            first_dirty: &bins,
            frames: self.first_dirty.len() as u64 * 2,
            free_frames: 1000,
            threads: self.threads,
            waiting_threads: 0,
            dirty_victims: 0.0,
            us_per_page: BUDGET_US_PER_S / (self.seen_ios_per_s * self.pages_per_io),
            us_per_victim: BUDGET_US_PER_S / self.seen_ios_per_s,
        });
        self.next_governor_us = self.now_us + plan.next_step_us;
        let (mut ios, mut pages) = (0, 0u64);
        while pages < plan.page_quota && self.device_ios_per_s > 0.0 {
            let Some(cleaned) = self.clean_oldest(NEIGHBOURS) else { break };
            (ios, pages) = (ios + 1, pages + cleaned);
        }
        self.move_checkpoint();
        if ios > 0 {
            self.pages_per_io += (pages as f64 / ios as f64 - self.pages_per_io) * 0.1;
        }
        second.ios += ios;
        second.pages += pages;
    }

    /// Cleans the oldest dirty page and those in its block of `neighbours` pages with one I/O.
    /// Returns how many pages; `None` if no page is dirty.
    fn clean_oldest(&mut self, neighbours: usize) -> Option<u64> {
        self.forget_clean();
        let (_, page) = self.queue.pop_front()?;
        let block = page / neighbours * neighbours;
        let end = (block + neighbours).min(self.first_dirty.len());
        let neighbours = &mut self.first_dirty[block..end];
        let dirty = neighbours.iter().filter(|first| **first != 0).count();
        neighbours.fill(0);
        Some(dirty as u64)
    }

    fn move_checkpoint(&mut self) {
        self.forget_clean();
        self.checkpoint_lsn = self.queue.front().map_or(self.end_lsn, |(lsn, _)| *lsn);
    }

    fn forget_clean(&mut self) {
        while self.queue.front().is_some_and(|(lsn, page)| self.first_dirty[*page] != *lsn) {
            self.queue.pop_front();
        }
    }

    /// Sets what a line of a script says. Returns its seconds.
    fn set(&mut self, line: &str) -> u64 {
        let mut words = line.split_whitespace();
        let seconds = words.next().unwrap().parse().unwrap();
        for word in words {
            let (key, value) = word.split_once('=').unwrap();
            match key {
                "demand" => self.demand_per_s = value.parse().unwrap(),
                "device" => self.device_ios_per_s = value.parse().unwrap(),
                _ => panic!("unknown word {word}"),
            }
        }
        seconds
    }
}

/// Runs a script of lines `seconds demand=ROWS_PER_S device=IOS_PER_S` and prints each second. In
/// each script no writer may reach the hard limit. Returns the row changes of each second.
fn check(world: &mut World, script: &str, expected: &Expect) -> Vec<u64> {
    let mut rows = Vec::new();
    let mut out = String::from("  s  rows/s  worst 100 ms*10  age max %  delay max µs   I/Os  pages\n");
    let mut n = 0;
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let seconds = world.set(line);
        let _ = writeln!(out, "{line}");
        for _ in 0..seconds {
            let s = world.run_second();
            n += 1;
            rows.push(s.rows);
            let _ = writeln!(
                out,
                "{n:>3} {:>7} {:>16} {:>10.1} {:>13} {:>6} {:>6}",
                s.rows,
                s.least_in_100_ms * 10,
                s.age_max as f64 * 100.0 / world.limits.hard as f64,
                s.delay_us_max,
                s.ios,
                s.pages,
            );
        }
    }
    assert_eq!(world.hard_waits, 0, "{out}");
    expected.assert_eq(&out);
    rows
}

/// 65,536 pages, 96 MiB of redo, 10,000 I/Os a second; a burst of 200 MB/s asks for several times
/// what the device cleans.
#[test]
fn a_burst_that_the_device_cannot_follow_is_slowed_smoothly() {
    let rows = check(
        &mut World::new(96, 65_536, 10_000.0, 16),
        "
        4 demand=20000 device=10000
        10 demand=444000
        6 demand=20000
        ",
        &expect![[r#"
              s  rows/s  worst 100 ms*10  age max %  delay max µs   I/Os  pages
            4 demand=20000 device=10000
              1   20000            20000        9.3             0    449    956
              2   20000            20000       18.4             0    893   3137
              3   20000            20000       27.4             0    912   4226
              4   20000            20000       36.2             0    914   4981
            10 demand=444000
              5  264601            70470       95.9           224   9552  71686
              6  266231           102650       94.6           160  10107  76898
              7  230995           126870       94.0           128  10102  77060
              8  230633           140080       93.6           112  10105  77118
              9  237895           157880       93.2            96  10108  77143
             10  262426           164500       93.0            96  10106  77087
             11  261674           168200       93.2            96  10113  77152
             12  243634           171580       93.4            96  10110  77157
             13  238485           175310       93.5            96  10114  77191
             14  238904           176000       93.6            96  10103  77215
            6 demand=20000
             15   20016            20000       92.4            64   5594  37038
             16   20000            20000       28.8             0   4329  17209
             17   20000            20000       15.0             0   3912  14012
             18   20000            20000       17.2             0   3343  12638
             19   20000            20000       20.2             0   2796  11589
             20   20000            20000       23.5             0   2459  11043
        "#]],
    );
    let burst = &rows[4..14];
    let (least, most) = (burst.iter().min().unwrap(), burst.iter().max().unwrap());
    assert!(least * 10 >= most * 7, "no second of the burst falls far behind another: {burst:?}");
}

/// The device falls to a tenth of its speed and then stops for three seconds. Writers slow down,
/// but none reaches the hard limit.
#[test]
fn a_device_that_slows_and_stops() {
    check(
        &mut World::new(96, 65_536, 10_000.0, 16),
        "
        8 demand=60000 device=10000
        5 device=1000
        3 device=0
        4 device=10000
        ",
        &expect![[r#"
              s  rows/s  worst 100 ms*10  age max %  delay max µs   I/Os  pages
            8 demand=60000 device=10000
              1   60000            60000       27.5             0   2000   7623
              2   60000            60000       54.0             0   2650  16052
              3   60000            60000       76.8             0   2891  20715
              4   60000            60000       78.4             0   3053  22629
              5   60000            60000       77.8             0   2658  19690
              6   60000            60000       77.9             0   3070  22805
              7   60000            60000       78.0             0   2891  21430
              8   60000            60000       78.0             0   2627  19484
            5 device=1000
              9   55134            32940       93.5           528    988   7461
             10   21169            17150       95.2           976   1032   7855
             11   16407            15760       95.2          1072    998   7692
             12   18490            17190       94.8           976   1002   7659
             13   20551            19450       94.1           864   1036   7888
            3 device=0
             14    9079             4130       97.7          4096      0      0
             15    2399             1530       98.8         10752      0      0
             16    1107              830       99.3         19888      0      0
            4 device=10000
             17   59189            51890       99.3         20048   3990  30030
             18   60000            60000       75.0             0   2439  17787
             19   60000            60000       78.1             0   3169  23434
             20   60000            60000       78.5             0   2993  22208
        "#]],
    );
}

/// All pages became dirty within one short part of the log, so all have nearly the same deadline.
/// Cleaning begins long before.
#[test]
fn the_cleaning_of_many_pages_with_one_deadline_is_spread_over_the_log() {
    check(
        &mut World::new(96, 20_000, 3_000.0, 16),
        "
        1 demand=100000 device=3000
        12 demand=20000
        ",
        &expect![[r#"
              s  rows/s  worst 100 ms*10  age max %  delay max µs   I/Os  pages
            1 demand=100000 device=3000
              1  100000           100000       46.9             0   1180   8544
            12 demand=20000
              2   20000            20000       55.9             0    543   4322
              3   20000            20000       64.8             0    320   2554
              4   20000            20000       72.9             0    320   2560
              5   20000            20000       75.4             0    320   2559
              6   20000            20000       70.5             0    319   2550
              7   20000            20000       68.6             0    312   2496
              8   20000            20000       67.9             0    310   2479
              9   20000            20000       72.6             0    310   2480
             10   20000            20000       74.9             0    310   2478
             11   20000            20000       75.5             0    310   2478
             12   20000            20000       75.4             0    314   2512
             13   20000            20000       75.7             0    317   2534
        "#]],
    );
}

/// A log that is large compared with the tables: pages absorb many changes before they are written,
/// and a steady load is never delayed by the checkpoint.
#[test]
fn a_large_log_absorbs_rewrites() {
    check(
        &mut World::new(256, 16_384, 10_000.0, 16),
        "
        10 demand=100000
        ",
        &expect![[r#"
              s  rows/s  worst 100 ms*10  age max %  delay max µs   I/Os  pages
            10 demand=100000
              1  100000           100000       17.8             0    396   2944
              2  100000           100000       35.5             0    528   4221
              3  100000           100000       53.2             0    490   3920
              4  100000           100000       70.5             0    522   4176
              5  100000           100000       73.5             0    521   4168
              6  100000           100000       71.3             0    522   4176
              7  100000           100000       71.0             0    521   4168
              8  100000           100000       70.9             0    521   4168
              9  100000           100000       70.9             0    490   3920
             10  100000           100000       70.9             0    522   4176
        "#]],
    );
}

/// The checkpoint is always overdue and wants more time than the writers have. Readers take frames,
/// and most victims are dirty. The floor of the budget keeps the supply of frames going.
#[test]
fn free_frames_do_not_starve_while_the_checkpoint_takes_all() {
    let mut governor = Governor::new();
    let (mut free, mut victims_owed, mut waited_steps, mut cleaned) = (64.0f64, 0.0f64, 0, 0u64);
    let first_dirty = [DirtyBin { end_lsn: 1000 * MIB, pages: 50_000 }];
    for ms in 0..10_000u64 {
        // 2,500 frames a second are taken, in bursts of 5 every 2 ms, by 16 threads.
        if ms % 2 == 0 {
            free -= 5.0;
        }
        let waiting = (-free).clamp(0.0, 16.0) as u64;
        waited_steps += u64::from(waiting > 0);
        if ms % 2 == 1 {
            let plan = governor.step(&CleanerSample {
                now_us: ms * 1000,
                end_lsn: 1090 * MIB,
                checkpoint_lsn: 1000 * MIB,
                redo_bytes_per_s: 2e8,
                limits: age_limits(96 * MIB, 16),
                first_dirty: &first_dirty,
                frames: 65_536,
                free_frames: free.max(0.0) as u64,
                threads: 16,
                waiting_threads: waiting,
                dirty_victims: 0.8,
                us_per_page: 180.0,
                us_per_victim: 180.0,
            });
            cleaned += plan.page_quota;
            // Four dirty victims to each clean one.
            victims_owed += f64::from(plan.victims) / 0.8;
            let supplied = victims_owed.floor().min(plan.free_frames as f64);
            victims_owed -= supplied;
            free += supplied;
        }
    }
    assert_eq!(waited_steps, 0, "free {free}");
    assert!(cleaned >= 30_000, "and the checkpoint has its floor: {cleaned}");
}
