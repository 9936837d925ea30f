//! `millpond bench doublewrite`: the same load with and without the doublewrite, in turns.

use super::filled_database::{self, Database};
use super::mib;
use crate::driver::drive;
use crate::figures::lsn;
use crate::own_process;
use crate::progress::Progress;
use crate::workload::{self, WorkloadKind, WorkloadParams};
use millpond::{Db, Doublewrite as Switch};
use output::failure::{Failure, Outcome};
use output::units::{parse_seconds, parse_size};
use std::path::Path;
use std::time::Duration;

const NOTES: &str = "\
What does the doublewrite cost? One database is loaded, and the same load runs on it with and
without the doublewrite, which is switched while the database is open. Each pair is two runs, one
after the other; every other pair begins without it. The speed of a machine changes from minute to
minute, so the ratios within the pairs count. A pool as large as the data shows a load in memory; a
smaller one a load that waits for the device.";

/// Commits a second with and without the doublewrite, in pairs
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Doublewrite {
    /// What to run; one of `millpond run` that does not end by itself
    #[arg(long, value_enum, value_name = "NAME", default_value = "write-heavy", hide_possible_values = true)]
    workload: WorkloadKind,
    /// Pairs of runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Length of the measured phase of each run
    #[arg(long, value_name = "S", default_value = "15", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that each run goes before it is measured
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    warmup: Duration,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pool: u64,
}

/// What one run measured.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Commits a second.
    tps: f64,
    /// Commits of the worst second, of the median one.
    worst: f64,
    /// Pages written in place, a second.
    pages: f64,
    /// Pages written to the doublewrite, a second.
    copies: f64,
}

/// Two runs, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    on: Measured,
    off: Measured,
}

impl Doublewrite {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let params = filled_database::uniform(self.tables, self.rows);
        let workload = workload::build(self.workload, params);
        if self.seconds.is_zero() || workload.has_an_end() {
            return Err(Failure::misuse("only a run of some seconds can be measured: --workload, --seconds"));
        }
        let options = own_process::options().buffer_pool_bytes(self.pool);
        let database = Database::filled(options, self.workload, params)?;
        let data = pages_bytes(&database.files())?;
        say!("pages {:.0} MiB, pool {:.2} of that", mib(data), self.pool as f64 / data);
        say!("{}", heads());
        let mut pairs = Vec::new();
        for n in 0..self.pairs {
            let mut pair = Pair::default();
            for off in [n % 2 == 1, n % 2 == 0] {
                let measured = self.measure(&database.db, params, off)?;
                *(if off { &mut pair.off } else { &mut pair.on }) = measured;
            }
            say!("{}", line(&(n + 1).to_string(), &pair, ratio(&pair)));
            pairs.push(pair);
        }
        database.check_and_close("the runs")?;
        say!("{}", medians(&pairs));
        Ok(())
    }

    /// Runs the load with or without the doublewrite.
    fn measure(&self, db: &Db, params: WorkloadParams, off: bool) -> Outcome<Measured> {
        db.set_doublewrite(if off { Switch::UnsafeOff } else { Switch::On })?;
        let workload = workload::build(self.workload, params.after(lsn(&db.metrics())));
        let pace = filled_database::full_speed(self.threads, self.warmup, self.seconds);
        let measured = drive(db, workload.as_ref(), pace, &mut Progress::on_stderr())?;
        let (totals, figures) = (&measured.totals, &measured.figures);
        let each_second: Vec<f64> = totals.per_second.iter().map(|commits| *commits as f64).collect();
        let worst = each_second.iter().copied().fold(f64::INFINITY, f64::min);
        let median = if each_second.is_empty() { 0.0 } else { super::median(each_second) };
        Ok(Measured {
            tps: totals.transactions as f64 / totals.seconds,
            worst: if median > 0.0 { worst / median } else { 0.0 },
            pages: figures.pages_written as f64 / totals.seconds,
            copies: figures.doublewrite_pages as f64 / totals.seconds,
        })
    }
}

fn pages_bytes(dir: &Path) -> Outcome<f64> {
    let file = dir.join("pages");
    let found =
        std::fs::metadata(&file).map_err(|e| Failure::failed(format!("cannot measure the pages: {e}")))?;
    Ok(found.len() as f64)
}

/// Returns the heads of the columns.
fn heads() -> String {
    format!(
        "{:>6} {:>16} {:>16} {:>7} {:>15} {:>15} {:>18}",
        "", "on, commits/s", "off, commits/s", "on/off", "on, worst s", "off, worst s", "pages/s, copies/s"
    )
}

/// Returns a line of the table: of a pair, or of medians.
fn line(name: &str, pair: &Pair, ratio: f64) -> String {
    let Pair { on, off } = pair;
    let pages = format!("{:.0}, {:.0}", on.pages, on.copies);
    format!(
        "{name:>6} {:>16.0} {:>16.0} {ratio:>7.3} {:>15.2} {:>15.2} {pages:>18}",
        on.tps, off.tps, on.worst, off.worst
    )
}

fn ratio(pair: &Pair) -> f64 {
    pair.on.tps / pair.off.tps
}

/// Returns the last line: the median of each column.
fn medians(pairs: &[Pair]) -> String {
    let of = |part: &dyn Fn(&Pair) -> f64| super::median(pairs.iter().map(part).collect());
    let side = |of_side: fn(&Pair) -> Measured| Measured {
        tps: of(&|pair| of_side(pair).tps),
        worst: of(&|pair| of_side(pair).worst),
        pages: of(&|pair| of_side(pair).pages),
        copies: of(&|pair| of_side(pair).copies),
    };
    line("median", &Pair { on: side(|pair| pair.on), off: side(|pair| pair.off) }, of(&ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_table_has_medians_of_each_column() {
        let run = |tps, worst| Measured { tps, worst, pages: tps * 10.0, copies: tps * 10.0 };
        let pairs = [
            Pair { on: run(900.0, 0.9), off: run(1000.0, 0.8) },
            Pair { on: run(950.0, 0.7), off: run(950.0, 0.9) },
            Pair { on: run(800.0, 0.8), off: run(1000.0, 0.7) },
        ];
        let lines = pairs.iter().zip(1..).map(|(pair, n)| line(&n.to_string(), pair, ratio(pair)));
        let table = std::iter::once(heads()).chain(lines).chain([medians(&pairs)]);
        let table: String = table.map(|line| line + "\n").collect();
        expect![[r#"
                      on, commits/s   off, commits/s  on/off     on, worst s    off, worst s  pages/s, copies/s
                 1              900             1000   0.900            0.90            0.80         9000, 9000
                 2              950              950   1.000            0.70            0.90         9500, 9500
                 3              800             1000   0.800            0.80            0.70         8000, 8000
            median              900             1000   0.900            0.80            0.80         9000, 9000
        "#]].assert_eq(&table);
    }
}
