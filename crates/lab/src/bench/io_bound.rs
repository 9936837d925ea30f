//! `millpond bench io-bound`: a load whose buffer pool holds a part of its pages, beside what the
//! bare device reads.

use super::device::Device;
use super::filled_database::{self, Database};
use super::steadiness::{self, Measured, heads};
use crate::own_process;
use crate::workload::{WorkloadKind, WorkloadParams};
use output::failure::{Failure, Outcome};
use output::units::{parse_seconds, parse_size};
use std::path::Path;
use std::time::Duration;

const NOTES: &str = "\
How much of the device does a load get that waits for it? The load reads and writes uniform keys
(read-write of `millpond run`); each commit waits for the disk. Before and after each run the bare device
reads blocks of the same file at random places, as many at a time as the load has threads (--depth at
most), past the page cache.

by callers: pages that the threads of the load wrote themselves. reads/s, writes/s: pages that the engine
read and wrote, copies not counted. device: what the bare device read a second, the mean of both times,
without any writes. part: reads/s of that. The other columns are those of `bench log-sizes`.";

/// Commits a second while the pool holds a part of the pages, and how much of the device that takes
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct IoBound {
    /// Threads of each run, separated by commas
    #[arg(long, value_name = "N", default_value = "64,512", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// Runs of each number of threads, in turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of the measured phase of each run
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that each run goes before it is measured
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    warmup: Duration,
    /// The bare device reads for so long before and after each run
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    device_seconds: Duration,
    /// At most so many reads of the bare device at a time
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1000))]
    depth: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "350MiB", value_parser = parse_size)]
    pool: u64,
}

const PAGE_BYTES: usize = 8192;

/// What one run took from the device.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceUse {
    by_callers: u64,
    reads_a_s: f64,
    writes_a_s: f64,
    bare_reads_a_s: f64,
}

impl IoBound {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds < Duration::from_secs(1) {
            return Err(Failure::misuse("--seconds: a run of less than a second has no steadiness"));
        }
        let params = filled_database::uniform(self.tables, self.rows);
        let options = own_process::options().buffer_pool_bytes(self.pool).page_bytes(PAGE_BYTES);
        let database = Database::filled(options, WorkloadKind::ReadWrite, params)?;
        say!("{} {}", heads("threads"), device_heads());
        for _ in 0..self.rounds {
            for &threads in &self.threads {
                let (measured, device) = self.measure(&database, params, threads)?;
                say!("{} {}", measured.line(&threads.to_string()), device.line());
            }
        }
        database.check_and_close("the runs")
    }

    fn measure(
        &self,
        database: &Database,
        params: WorkloadParams,
        threads: u32,
    ) -> Outcome<(Measured, DeviceUse)> {
        let pages = database.files().join("pages");
        let bare = |file: &Path| {
            Device::random_reads(file, PAGE_BYTES, threads.min(self.depth), self.device_seconds)
        };
        let before = bare(&pages)?;
        let pace = filled_database::full_speed(threads, self.warmup, self.seconds);
        let kind = WorkloadKind::ReadWrite;
        let measured = steadiness::measure(&database.db, kind, params, pace, &database.probe())?;
        let after = bare(&pages)?;
        let a_second = |pages: u64| pages as f64 / measured.measured_s;
        let device = DeviceUse {
            by_callers: measured.pages_written_foreground,
            reads_a_s: a_second(measured.pages_read),
            writes_a_s: a_second(measured.pages_written),
            bare_reads_a_s: f64::midpoint(before, after),
        };
        Ok((measured, device))
    }
}

/// Returns the heads of the columns that tell what the device did.
fn device_heads() -> String {
    format!("{:>10} {:>8} {:>8} {:>8} {:>5}", "by callers", "reads/s", "writes/s", "device", "part")
}

impl DeviceUse {
    /// Returns the part of the run's line that tells what the device did.
    fn line(&self) -> String {
        let part = if self.bare_reads_a_s > 0.0 { self.reads_a_s / self.bare_reads_a_s } else { 0.0 };
        format!(
            "{:>10} {:>8.0} {:>8.0} {:>8.0} {part:>5.2}",
            self.by_callers, self.reads_a_s, self.writes_a_s, self.bare_reads_a_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_table_shows_the_part_of_the_device() {
        let run =
            DeviceUse { by_callers: 3, reads_a_s: 45_000.0, writes_a_s: 9_000.0, bare_reads_a_s: 60_000.0 };
        let table = [device_heads(), run.line(), DeviceUse::default().line()];
        expect![[r#"
            by callers  reads/s writes/s   device  part
                     3    45000     9000    60000  0.75
                     0        0        0        0  0.00
        "#]]
        .assert_eq(&(table.join("\n") + "\n"));
    }
}
