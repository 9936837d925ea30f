//! `millpond bench log-sizes`: the same write-heavy load with logs of several sizes, each beside a
//! log that is never full.

use super::load::{self, Database};
use super::median;
use super::steadiness::{self, Measured, heads};
use crate::failure::{Failure, Outcome};
use crate::units::{parse_seconds, parse_size, show_size};
use crate::workload::{WorkloadKind, WorkloadParams};
use millpond::Options;
use std::time::Duration;

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

impl LogSizes {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds < Duration::from_secs(1) {
            return Err(Failure::misuse("--seconds: a run of less than a second has no steadiness"));
        }
        let params = load::uniform(self.tables, self.rows);
        let options = Options::new().buffer_pool_bytes(self.pool).redo_capacity_bytes(self.long);
        let database = Database::filled(options, WorkloadKind::WriteHeavy, params)?;
        say!("{}", heads("log"));
        for &size in &self.sizes {
            let mut ratios = Vec::new();
            for n in 0..self.pairs {
                let mut tps = [0.0; 2];
                for is_long in [n % 2 == 1, n % 2 == 0] {
                    let bytes = if is_long { self.long } else { size };
                    let measured = self.measure(&database, params, bytes)?;
                    say!("{}", measured.line(&show_size(bytes as f64)));
                    tps[usize::from(is_long)] = measured.tps;
                }
                ratios.push(tps[0] / tps[1]);
            }
            say!("{}", ratio_line(size, self.long, ratios));
        }
        database.check_and_close("the runs")
    }

    /// Runs the load with a log of so many bytes.
    fn measure(&self, database: &Database, params: WorkloadParams, bytes: u64) -> Outcome<Measured> {
        let db = &database.db;
        db.set_redo_capacity(bytes)?;
        // Each run begins without dirty pages.
        db.checkpoint()?;
        let pace = load::full_speed(self.threads, self.warmup, self.seconds);
        steadiness::measure(db, params, pace, &database.probe())
    }
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

    #[test]
    fn the_ratios_follow_the_runs() {
        let line = ratio_line(96 << 20, 4 << 30, vec![0.7, 0.6, 0.8]);
        assert_eq!(line, "96 MiB / 4 GiB: 0.70, 0.60, 0.80; median 0.70");
    }
}
