//! `millpond bench log-sizes`: the same write-heavy load with logs of several sizes, or as long as
//! recovery targets allow, each beside a log that is never full.

use super::filled_database::{self, Database};
use super::steadiness::{self, Measured, heads};
use super::{figure, median};
use crate::workload::{WorkloadKind, WorkloadParams};
use millpond::{Db, Options};
use output::failure::{Failure, Outcome};
use output::units::{parse_duration, parse_seconds, parse_size, show_size};
use std::time::Duration;

const NOTES: &str = "\
What does a short log cost, and is it calm? One database is loaded, and the same load runs on it with
a log of each size, and each time with the long log as well; every other pair begins with that one.
The size changes while the database is open. The speed of a machine changes from minute to minute, so
the ratios within the pairs count.

With --recovery-target the log is as long as the target allows, and no longer than helps: it grows with
the dirty pages, so --warmup should be long enough for that. After such a run a line says which redo
capacity it had at its end. It follows from the target and from the speed of replay. What the dirty
pages call for may be less; then the log is that long.

worst: the commits of the worst second, of the median one. 99 %: as many or more in 99 % of the
seconds. delayed: the part of the threads' time for which admission held them. stops: operations that
waited for the checkpoint. dips: seconds in which a synced write of 4 KiB, one each 100 ms beside the
load, took four times as long as usual and 20 ms at least: there the device itself was slow. cpu: the
speed of the processor in 99 % of the seconds, of the median one, by the core's time that a fixed
computation took, 100 times a second beside the load. by cpu: the figure of 99 % if the commits of each
second are divided by that speed. A machine that shares its cores with others is slower for minutes;
then cpu is low, and by cpu says what the database itself does.";

/// Commits a second, and how steady, with logs of several sizes beside a long one
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LogSizes {
    /// Sizes of the log, separated by commas [default: 96MiB, none with --recovery-target]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Recovery targets that the log follows, such as 5s, separated by commas [default: none]
    #[arg(long, value_name = "DUR", value_delimiter = ',', value_parser = parse_duration)]
    recovery_target: Vec<Duration>,
    /// The long log
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    long: u64,
    /// Pairs of runs for each size and each target
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

/// What says how long the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Target(Duration),
}

impl Length {
    fn set(self, db: &Db) -> millpond::Result<()> {
        match self {
            Length::Bytes(bytes) => db.set_redo_capacity(bytes),
            Length::Target(target) => db.set_recovery_target(target),
        }
    }

    fn name(self) -> String {
        match self {
            Length::Bytes(bytes) => show_size(bytes as f64),
            Length::Target(target) => format!("target {} s", target.as_secs_f64()),
        }
    }
}

/// The size that is measured if nothing is asked for.
const SIZE: u64 = 96 << 20;

impl LogSizes {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds < Duration::from_secs(1) {
            return Err(Failure::misuse("--seconds: a run of less than a second has no steadiness"));
        }
        if self.recovery_target.contains(&Duration::ZERO) {
            return Err(Failure::misuse("--recovery-target: no recovery takes no time"));
        }
        let params = filled_database::uniform(self.tables, self.rows);
        let options = Options::new().buffer_pool_bytes(self.pool).redo_capacity_bytes(self.long);
        let database = Database::filled(options, WorkloadKind::WriteHeavy, params)?;
        say!("{}", heads("log"));
        let long = Length::Bytes(self.long);
        for length in self.lengths() {
            let mut ratios = Vec::new();
            for n in 0..self.pairs {
                let mut tps = [0.0; 2];
                for is_long in [n % 2 == 1, n % 2 == 0] {
                    let length = if is_long { long } else { length };
                    let measured = self.measure(&database, params, length)?;
                    say!("{}", measured.line(&length.name()));
                    if let Length::Target(_) = length {
                        let of = |name| figure(&database.db, name);
                        say!("{}", capacity_line(of("redo_capacity_bytes"), of("redo_helpful_bytes")));
                    }
                    tps[usize::from(is_long)] = measured.tps;
                }
                ratios.push(tps[0] / tps[1]);
            }
            say!("{}", ratio_line(length, long, ratios));
        }
        database.check_and_close("the runs")
    }

    /// Returns what shall be measured beside the long log.
    fn lengths(&self) -> Vec<Length> {
        let sizes = self.sizes.iter().map(|&bytes| Length::Bytes(bytes));
        let targets = self.recovery_target.iter().map(|&target| Length::Target(target));
        let lengths: Vec<Length> = sizes.chain(targets).collect();
        if lengths.is_empty() { vec![Length::Bytes(SIZE)] } else { lengths }
    }

    /// Runs the load with a log of this length.
    fn measure(&self, database: &Database, params: WorkloadParams, length: Length) -> Outcome<Measured> {
        let db = &database.db;
        length.set(db)?;
        // Each run begins without dirty pages.
        db.checkpoint()?;
        let pace = filled_database::full_speed(self.threads, self.warmup, self.seconds);
        steadiness::measure(db, WorkloadKind::WriteHeavy, params, pace, &database.probe())
    }
}

/// Returns the line below a run with a recovery target: the redo capacity at its end, and the
/// greatest useful length of a log for so many dirty pages.
fn capacity_line(capacity_bytes: f64, helpful_bytes: f64) -> String {
    let (capacity, helpful) = (show_size(capacity_bytes), show_size(helpful_bytes));
    format!("{:>18} redo capacity {capacity}, the dirty pages call for {helpful}", "at the end:")
}

/// Returns the line below the runs of a length.
fn ratio_line(length: Length, long: Length, ratios: Vec<f64>) -> String {
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (name, long) = (length.name(), long.name());
    format!("{name} / {long}: {}; median {:.2}", each.join(", "), median(ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratios_follow_the_runs() {
        let long = Length::Bytes(4 << 30);
        let line = ratio_line(Length::Bytes(96 << 20), long, vec![0.7, 0.6, 0.8]);
        assert_eq!(line, "96 MiB / 4 GiB: 0.70, 0.60, 0.80; median 0.70");
        let line = ratio_line(Length::Target(Duration::from_secs(5)), long, vec![0.9]);
        assert_eq!(line, "target 5 s / 4 GiB: 0.90; median 0.90");
        assert_eq!(Length::Target(Duration::from_millis(500)).name(), "target 0.5 s");
    }

    #[test]
    fn a_run_with_a_target_says_which_capacity_it_had() {
        let line = capacity_line(f64::from(3 << 29), f64::from(1 << 28));
        assert_eq!(line, "       at the end: redo capacity 1.5 GiB, the dirty pages call for 256 MiB");
    }

    #[test]
    fn without_flags_one_short_log_is_measured() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            flags: LogSizes,
        }
        let lengths = |args: &[&str]| {
            let line = <Line as clap::Parser>::try_parse_from(args).unwrap_or_else(|e| panic!("{e}"));
            let names: Vec<String> = line.flags.lengths().iter().map(|length| length.name()).collect();
            names.join(", ")
        };
        assert_eq!(lengths(&["x"]), "96 MiB");
        assert_eq!(lengths(&["x", "--sizes", "16MiB,1GiB"]), "16 MiB, 1 GiB");
        assert_eq!(lengths(&["x", "--recovery-target", "5s,500ms"]), "target 5 s, target 0.5 s");
        let both = lengths(&["x", "--recovery-target", "1m", "--sizes", "1GiB", "--recovery-target", "2s"]);
        assert_eq!(both, "1 GiB, target 60 s, target 2 s");
    }
}
