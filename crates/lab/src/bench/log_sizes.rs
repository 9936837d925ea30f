//! `millpond bench log-sizes`: the same write-heavy load with logs of several sizes, each beside a
//! log that is never full.

use super::probe::Probe;
use super::{load, median, scratch, sorted};
use crate::cli::check_database;
use crate::driver::drive;
use crate::failure::{Failure, Outcome};
use crate::figures::lsn;
use crate::progress::Progress;
use crate::units::{parse_seconds, parse_size, show_size};
use crate::workload::{self, WorkloadKind, WorkloadParams};
use millpond::{Db, Options};
use std::path::Path;
use std::time::{Duration, Instant};

const NOTES: &str = "\
What does a short log cost, and is it calm? One database is loaded, and the same load runs on it with
a log of each size, and each time with the long log as well; every other pair begins with that one.
The size changes while the database is open. The speed of a machine changes from minute to minute, so
the ratios within the pairs count.

worst: the commits of the worst second, of the median one. 99 %: as many or more in 99 % of the
seconds. delayed: the part of the threads' time for which admission held them. stops: operations that
waited for the checkpoint. dips: seconds in which a synced write of 4 KiB, one each 100 ms beside the
load, took four times as long as usual and 20 ms at least: there the device itself was slow.";

/// Commits a second, and how steady, with logs of several sizes beside a long one
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LogSizes {
    /// Sizes of the log, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "96MiB", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<u64>,
    /// The long log
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    long: u64,
    /// Pairs of runs for each size
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Length of the measured phase of each run
    #[arg(long, value_name = "S", default_value = "15", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that each run goes before it is measured
    #[arg(long, value_name = "S", default_value = "4", value_parser = parse_seconds)]
    warmup: Duration,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "3GiB", value_parser = parse_size)]
    pool: u64,
}

/// What one run measured.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Commits a second.
    tps: f64,
    /// Commits of each second.
    seconds: Vec<f64>,
    /// The slowest hundredth of the transactions took so long or longer, milliseconds.
    p99_ms: f64,
    /// The part of the threads' time for which admission held them.
    delayed: f64,
    stops: u64,
    /// Seconds in which the device was slow.
    dips: usize,
}

impl LogSizes {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds < Duration::from_secs(1) {
            return Err(Failure::misuse("--seconds: a run of less than a second has no steadiness"));
        }
        let params = load::uniform(self.tables, self.rows);
        let dir = scratch()?;
        let options = Options::new().buffer_pool_bytes(self.pool).redo_capacity_bytes(self.long);
        let db = options.open(dir.dir().join("db"))?;
        load::fill(&db, WorkloadKind::WriteHeavy, params)?;
        say!("{}", heads());
        for &size in &self.sizes {
            let mut ratios = Vec::new();
            for n in 0..self.pairs {
                let mut tps = [0.0; 2];
                for is_long in [n % 2 == 1, n % 2 == 0] {
                    let bytes = if is_long { self.long } else { size };
                    let measured = self.measure(&db, params, bytes, &dir.dir().join("probe"))?;
                    say!("{}", line(bytes, &measured));
                    tps[usize::from(is_long)] = measured.tps;
                }
                ratios.push(tps[0] / tps[1]);
            }
            say!("{}", ratio_line(size, self.long, ratios));
        }
        let check = check_database(&db)?;
        db.close()?;
        if check != "ok" {
            return Err(Failure::failed(format!("the check found damage: {check}")));
        }
        Ok(())
    }

    /// Runs the load with a log of so many bytes.
    fn measure(&self, db: &Db, params: WorkloadParams, bytes: u64, probe: &Path) -> Outcome<Measured> {
        db.set_redo_capacity(bytes)?;
        // Each run begins without dirty pages.
        db.checkpoint()?;
        let workload = workload::build(WorkloadKind::WriteHeavy, params.after(lsn(&db.metrics())));
        let pace = load::full_speed(self.threads, self.warmup, self.seconds);
        let probe = Probe::start(probe)?;
        let measured = drive(db, workload.as_ref(), pace, &mut Progress::on_stderr())?;
        let end = Instant::now();
        let (totals, figures) = (&measured.totals, &measured.figures);
        let begun = end.checked_sub(Duration::from_secs_f64(totals.seconds)).unwrap_or(end);
        let held_s = figures.throttled_us_total as f64 / 1e6;
        Ok(Measured {
            tps: totals.transactions as f64 / totals.seconds,
            seconds: totals.per_second.iter().map(|commits| *commits as f64).collect(),
            p99_ms: totals.latency_us(99.0) / 1000.0,
            delayed: held_s / (totals.seconds * f64::from(self.threads)),
            stops: figures.hard_waits,
            dips: probe.stop()?.slow_seconds(begun, totals.per_second.len()),
        })
    }
}

/// Returns the heads of the columns.
fn heads() -> String {
    format!(
        "{:>9} {:>10} {:>6} {:>6} {:>8} {:>8} {:>6} {:>5}",
        "log", "commits/s", "worst", "99 %", "p99 ms", "delayed", "stops", "dips"
    )
}

/// Returns the line of a run.
fn line(bytes: u64, run: &Measured) -> String {
    let (worst, most) = steadiness(&run.seconds);
    format!(
        "{:>9} {:>10.0} {worst:>6.2} {most:>6.2} {:>8.1} {:>8.3} {:>6} {:>5}",
        show_size(bytes as f64),
        run.tps,
        run.p99_ms,
        run.delayed,
        run.stops,
        run.dips
    )
}

/// Returns the commits of the worst second, and what 99 % of the seconds reach, as parts of the
/// median second.
fn steadiness(seconds: &[f64]) -> (f64, f64) {
    let ascending = sorted(seconds.to_vec());
    let Some(&worst) = ascending.first() else { return (0.0, 0.0) };
    let middle = median(ascending.clone());
    if middle == 0.0 {
        return (0.0, 0.0);
    }
    (worst / middle, ascending[ascending.len() / 100] / middle)
}

/// Returns the line below the runs of a size.
fn ratio_line(size: u64, long: u64, ratios: Vec<f64>) -> String {
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (size, long) = (show_size(size as f64), show_size(long as f64));
    format!("{size} / {long}: {}; median {:.2}", each.join(", "), median(ratios))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_table_shows_the_worst_seconds() {
        let mut seconds = vec![1000.0; 300];
        (seconds[7], seconds[8], seconds[9], seconds[10]) = (500.0, 600.0, 700.0, 800.0);
        let run = Measured { tps: 995.0, seconds, p99_ms: 12.34, delayed: 0.051, stops: 0, dips: 1 };
        let short = Measured { seconds: vec![0.0, 10.0, 8.0], ..Measured::default() };
        let none = Measured::default();
        let table = [
            heads(),
            line(96 << 20, &run),
            line(4 << 30, &short),
            line(1 << 30, &none),
            ratio_line(96 << 20, 4 << 30, vec![0.7, 0.6, 0.8]),
        ];
        expect![[r#"
                  log  commits/s  worst   99 %   p99 ms  delayed  stops  dips
               96 MiB        995   0.50   0.80     12.3    0.051      0     1
                4 GiB          0   0.00   0.00      0.0    0.000      0     0
                1 GiB          0   0.00   0.00      0.0    0.000      0     0
            96 MiB / 4 GiB: 0.70, 0.60, 0.80; median 0.70
        "#]]
        .assert_eq(&(table.join("\n") + "\n"));
    }
}
