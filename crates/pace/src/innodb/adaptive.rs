//! Adaptive flushing: how many pages InnoDB writes in the next second.
//!
//! ```text
//! pages = (io_capacity * percent + pages written a second + pages due for the redo) / 3
//! ```
//! The percent is the greater one of two: for the share of dirty pages, and for the checkpoint age.
//! The other two terms are averages over half a minute. So the number follows a sudden load a third
//! at once, and the rest half a minute later. No number is above `io_capacity_max`.

use super::points::LogPoints;
use super::{Server, Settings};
use crate::governor::DirtyBin;

/// The redo of so many seconds is looked ahead.
const SCAN_FACTOR: u64 = 3;

/// The state on which the number is based.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveView<'a> {
    /// Time, in whole seconds.
    pub now_s: u64,
    /// End of the log.
    pub end_lsn: u64,
    /// The first-dirty LSN of the oldest dirty page.
    pub oldest_lsn: u64,
    /// Dirty pages by first-dirty LSN, oldest first.
    pub first_dirty: &'a [DirtyBin],
    /// All dirty pages.
    pub dirty: u64,
    /// Their percentage of the pool.
    pub dirty_pct: f64,
    /// Values of the checkpoint age.
    pub points: LogPoints,
}

/// Returns the percentage of `io_capacity` that the checkpoint age asks for. With f the age in
/// percent of the async point it is `max/io * f^1.5 / 7.5`, and the first quotient is a whole
/// number: 1,999 over 1,000 is 1.
#[must_use]
pub fn pct_for_age(settings: &Settings, points: &LogPoints, age: u64) -> u64 {
    if age < points.low_water(settings) {
        return 0;
    }
    let times = (settings.io_capacity_max / settings.io_capacity.max(1)) as f64;
    let percent = age as f64 * 100.0 / points.async_age.max(1) as f64;
    match settings.server {
        Server::MySql8 if age < points.async_age && !settings.adaptive_flushing => 0,
        Server::MySql8 => (times * percent * percent.sqrt() / 7.5) as u64,
        Server::MariaDb1011 => (times * percent.floor() * percent.floor().sqrt() / 7.5) as u64,
    }
}

/// Returns the percentage of `io_capacity` that the share of dirty pages asks for, in MySQL.
/// Without a low-water mark there is nothing up to the maximum, and everything from there on.
#[must_use]
pub fn pct_for_dirty(settings: &Settings, dirty_pct: f64) -> u64 {
    let (max, lwm) = (settings.max_dirty_pages_pct, settings.max_dirty_pages_pct_lwm);
    if dirty_pct == 0.0 {
        0
    } else if lwm == 0.0 {
        if dirty_pct >= max { 100 } else { 0 }
    } else if dirty_pct >= lwm {
        (dirty_pct * 100.0 / (max + 1.0)) as u64
    } else {
        0
    }
}

/// What adaptive flushing remembers.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    /// Where and when the averages were last renewed.
    prev: Option<(u64, u64)>,
    loops: u64,
    sum_pages: u64,
    /// Pages written a second.
    avg_page_rate: u64,
    /// Redo bytes a second.
    avg_lsn_rate: u64,
}

impl Adaptive {
    /// Returns how many pages to write in this second. `last_pages` were written in the last one.
    pub fn pages(&mut self, settings: &Settings, v: &AdaptiveView<'_>, last_pages: u64) -> u64 {
        let age = v.end_lsn.saturating_sub(v.oldest_lsn);
        let for_age = pct_for_age(settings, &v.points, age);
        let Some(prev) = self.prev else {
            self.prev = Some((v.end_lsn, v.now_s));
            return match settings.server {
                Server::MariaDb1011 => without_age(settings, v),
                Server::MySql8 => 0,
            };
        };
        if settings.server == Server::MariaDb1011 && for_age == 0 {
            self.prev = Some((v.end_lsn, v.now_s));
            return without_age(settings, v);
        }
        self.average(settings, prev, v, last_pages);
        if settings.server == Server::MySql8 && prev.0 == v.end_lsn {
            return 0;
        }
        let wanted = match settings.server {
            Server::MariaDb1011 => settings.io_capacity as f64 * mariadb_ratio(settings, v, for_age),
            Server::MySql8 => {
                let pct = for_age.max(pct_for_dirty(settings, v.dirty_pct));
                settings.io_capacity as f64 * pct as f64 / 100.0
            }
        };
        let pages = (wanted as u64 + self.avg_page_rate + self.due(settings, v)) / 3;
        pages.min(settings.io_capacity_max)
    }

    fn average(&mut self, settings: &Settings, prev: (u64, u64), v: &AdaptiveView<'_>, last_pages: u64) {
        self.sum_pages += last_pages;
        self.loops += 1;
        let elapsed_s = v.now_s.saturating_sub(prev.1).max(1);
        if self.loops < settings.flushing_avg_loops && elapsed_s < settings.flushing_avg_loops {
            return;
        }
        self.avg_page_rate = u64::midpoint(self.sum_pages / elapsed_s, self.avg_page_rate);
        self.avg_lsn_rate = u64::midpoint((v.end_lsn - prev.0) / elapsed_s, self.avg_lsn_rate);
        self.prev = Some((v.end_lsn, v.now_s));
        (self.loops, self.sum_pages) = (0, 0);
    }

    /// Returns the pages that must be written in a second so that the checkpoint advances as fast
    /// as the log has grown on average.
    fn due(&self, settings: &Settings, v: &AdaptiveView<'_>) -> u64 {
        let target = v.oldest_lsn + self.avg_lsn_rate * SCAN_FACTOR;
        let (mut pages, mut start) = (0.0, v.oldest_lsn);
        for bin in v.first_dirty {
            let width = bin.end_lsn.saturating_sub(start).max(1) as f64;
            let below = target.saturating_sub(start).min(bin.end_lsn.saturating_sub(start)) as f64;
            pages += bin.pages as f64 * below / width;
            start = start.max(bin.end_lsn);
        }
        let most = settings.io_capacity_max;
        let due = match settings.server {
            Server::MariaDb1011 => (pages as u64).min(most) / SCAN_FACTOR,
            Server::MySql8 => (pages as u64 / SCAN_FACTOR).min(most * 2),
        };
        due.max(1)
    }
}

/// MariaDB, where the age asks for nothing: all dirty pages if that is little, else `io_capacity`.
fn without_age(settings: &Settings, v: &AdaptiveView<'_>) -> u64 {
    let io = settings.io_capacity;
    if io >= v.dirty {
        return v.dirty;
    }
    let max = settings.max_dirty_pages_pct;
    let share = if max > 1.0 { v.dirty_pct / max } else { v.dirty_pct };
    if ((share * io as f64) as u64) < v.dirty { io } else { settings.io_capacity_max.min(v.dirty) }
}

/// MariaDB: what part of `io_capacity` is used. Where no share of dirty pages counts, it is all of
/// it, and the age only decides whether anything is written.
fn mariadb_ratio(settings: &Settings, v: &AdaptiveView<'_>, for_age: u64) -> f64 {
    let (max, lwm) = (settings.max_dirty_pages_pct, settings.max_dirty_pages_pct_lwm);
    if lwm == 0.0 || max == 0.0 || v.dirty_pct < lwm {
        1.0
    } else {
        (for_age as f64 / 100.0).max(v.dirty_pct / max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::innodb::points::log_points;
    use expect_test::{Expect, expect};

    /// The law of the age as a table: percent of `io_capacity` by the age in percent of the async
    /// point, for pairs of settings. Percona's variant for high ages, f^2.5 / 700.5, is beside it.
    #[test]
    fn percent_for_the_age() {
        let mut out =
            String::from("age %  200/2000  1000/1999  1000/2000  5000/7500  20000/40000  Percona\n");
        let pairs = [(200, 2000), (1000, 1999), (1000, 2000), (5000, 7500), (20_000, 40_000)];
        for percent in [5, 11, 12, 13, 20, 40, 60, 80, 90, 100, 114] {
            out += &format!("{percent:>5}");
            for (io_capacity, io_capacity_max) in pairs {
                let settings = Settings { io_capacity, io_capacity_max, ..Settings::mariadb() };
                let points = log_points(settings.server, 96 << 20);
                let age = (points.async_age * percent).div_ceil(100);
                out += &format!("  {:>8}", pct_for_age(&settings, &points, age));
            }
            let f = percent as f64;
            out += &format!("  {:>8}\n", (10.0 * f * f * f.sqrt() / 700.5) as u64);
        }
        expect![[r#"
            age %  200/2000  1000/1999  1000/2000  5000/7500  20000/40000  Percona
                5         0         0         0         0         0         0
               11         0         0         0         0         0         5
               12         0         0         0         0         0         7
               13        62         6        12         6        12         8
               20       119        11        23        11        23        25
               40       337        33        67        33        67       144
               60       619        61       123        61       123       398
               80       954        95       190        95       190       817
               90      1138       113       227       113       227      1096
              100      1333       133       266       133       266      1427
              114      1622       162       324       162       324      1980
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn percent_for_dirty_pages() {
        let mut out = String::from("dirty %  lwm 0  lwm 10\n");
        for dirty in [0.0, 5.0, 10.0, 45.0, 75.0, 89.9, 90.0, 95.0] {
            let pct =
                |lwm| pct_for_dirty(&Settings { max_dirty_pages_pct_lwm: lwm, ..Settings::mysql() }, dirty);
            out += &format!("{dirty:>7}  {:>5}  {:>6}\n", pct(0.0), pct(10.0));
        }
        expect![[r#"
            dirty %  lwm 0  lwm 10
                  0      0       0
                  5      0       0
                 10      0      10
                 45      0      49
                 75      0      82
               89.9      0      98
                 90    100      98
                 95    100     104
        "#]]
        .assert_eq(&out);
    }

    /// Each line changes numbers and is one second: `redo` MB of redo, `age` of the oldest page in
    /// percent of the async point, `dirty` pages spread evenly over that age, of 65,536; `wrote`
    /// is what the last second wrote, or all that was asked for.
    fn check(settings: &Settings, script: &str, expected: &Expect) {
        let points = log_points(settings.server, 96 << 20);
        let mut adaptive = Adaptive::default();
        let (mut end, mut redo, mut age, mut dirty, mut last) = (1 << 30, 0, 0, 0, 0);
        let (mut out, mut now_s) = (String::new(), 0);
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let mut seconds = 1;
            let mut wrote = None;
            for word in line.split_whitespace() {
                let (key, value) = word.split_once('=').unwrap();
                let value: u64 = value.parse().unwrap();
                match key {
                    "redo" => redo = value * 1_000_000,
                    "age" => age = points.async_age * value / 100,
                    "dirty" => dirty = value,
                    "wrote" => wrote = Some(value),
                    "seconds" => seconds = value,
                    _ => panic!("unknown word {word}"),
                }
            }
            let mut pages = Vec::new();
            for _ in 0..seconds {
                now_s += 1;
                end += redo;
                let bins = [DirtyBin { end_lsn: end, pages: dirty }];
                let view = AdaptiveView {
                    now_s,
                    end_lsn: end,
                    oldest_lsn: end - age,
                    first_dirty: &bins,
                    dirty,
                    dirty_pct: dirty as f64 * 100.0 / 65_536.0,
                    points,
                };
                last = adaptive.pages(settings, &view, wrote.unwrap_or(last));
                pages.push(last);
            }
            out += &format!("{line}: {} .. {}\n", pages[0], pages[pages.len() - 1]);
        }
        expected.assert_eq(&out);
    }

    /// A burst: the averages know it after half a minute, and until then a third of what the age
    /// asks for is written.
    #[test]
    fn mysql_follows_a_burst_late() {
        check(
            &Settings::mysql(),
            "
            redo=1 age=5 dirty=2000
            seconds=29
            redo=40 age=40 dirty=20000
            seconds=10
            age=80 dirty=40000 seconds=10
            age=100 seconds=10
            seconds=60
            ",
            &expect![[r#"
                redo=1 age=5 dirty=2000: 0 .. 0
                seconds=29: 0 .. 0
                redo=40 age=40 dirty=20000: 470 .. 470
                seconds=10: 470 .. 470
                age=80 dirty=40000 seconds=10: 881 .. 881
                age=100 seconds=10: 1085 .. 2000
                seconds=60: 2000 .. 2000
            "#]],
        );
    }

    /// With the default of 0 for the low-water mark of dirty pages, the age only switches writing
    /// on: at the async point no more is asked for than at a fifth of it.
    #[test]
    fn mariadb_without_a_low_water_mark_of_dirty_pages() {
        let script = "
            redo=1 age=5 dirty=100
            dirty=2000
            redo=40 age=20 dirty=20000
            age=60 seconds=10
            age=100 seconds=10
            seconds=60
            ";
        check(
            &Settings::mariadb(),
            script,
            &expect![[r#"
            redo=1 age=5 dirty=100: 100 .. 100
            dirty=2000: 200 .. 200
            redo=40 age=20 dirty=20000: 67 .. 67
            age=60 seconds=10: 67 .. 67
            age=100 seconds=10: 67 .. 67
            seconds=60: 67 .. 344
        "#]],
        );
        check(
            &Settings { max_dirty_pages_pct_lwm: 10.0, ..Settings::mariadb() },
            script,
            &expect![[r#"
                redo=1 age=5 dirty=100: 100 .. 100
                dirty=2000: 200 .. 200
                redo=40 age=20 dirty=20000: 73 .. 73
                age=60 seconds=10: 403 .. 403
                age=100 seconds=10: 889 .. 889
                seconds=60: 889 .. 1370
            "#]],
        );
    }
}
