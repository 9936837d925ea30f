//! The benchmarks of `millpond bench`, one in each file, and what they share.
//!
//! A benchmark makes a new database below the current directory, prints what it measures, and
//! removes the database.

/// Prints a line to stdout.
macro_rules! say {
    ($($text:tt)*) => { output::print(&format!("{}\n", format_args!($($text)*))) };
}

pub(crate) mod after_kill;
pub(crate) mod big_transaction;
pub(crate) mod bulk_load;
pub(crate) mod burst;
pub(crate) mod cold_scan;
mod device;
pub(crate) mod doublewrite;
pub(crate) mod durable_updates;
mod filled_database;
pub(crate) mod hogs;
pub(crate) mod hot_rows;
pub(crate) mod io_bound;
pub(crate) mod laws;
pub(crate) mod log_sizes;
pub(crate) mod long_snapshot;
mod probe;
mod processor;
pub(crate) mod queue;
mod random;
#[cfg(feature = "watch")]
pub(crate) mod replay;
pub(crate) mod stalls;
mod steadiness;
pub(crate) mod tables;
mod turn_queue;
pub(crate) mod writing_threads;

use crate::run_dir::RunDir;
use millpond::{Db, Durability, Table, TxnOptions};
use output::failure::{Failure, Outcome};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Makes the directory of a benchmark, which its drop removes.
fn scratch() -> Outcome<RunDir> {
    RunDir::fresh(false)
}

/// Returns a metric; 0 if there is none of that name.
fn figure(db: &Db, name: &str) -> f64 {
    db.metrics().get(name).unwrap_or(0.0)
}

/// Converts bytes to MiB.
fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Options of a transaction whose commit does not wait for the disk, but is durable soon.
fn soon_durable() -> TxnOptions {
    TxnOptions::new().durability(Durability::Bounded { ms: 20, bytes: 16 << 20 })
}

/// Makes a table of `count` rows with keys of eight bytes, and takes a checkpoint.
fn rows(db: &Db, count: u64, value_bytes: usize) -> millpond::Result<Table> {
    let table = db.create_table("rows")?;
    for from in (0..count).step_by(1000) {
        let mut tx = db.begin()?;
        for key in from..count.min(from + 1000) {
            tx.put(&table, &key.to_be_bytes(), &vec![0; value_bytes])?;
        }
        tx.commit()?;
    }
    db.checkpoint()?;
    Ok(table)
}

/// Waits until purge has nothing left to do.
fn wait_until_purged(db: &Db) {
    while figure(db, "history_transactions") > 0.0 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a thread and returns its result.
fn joined<T>(thread: ScopedJoinHandle<'_, millpond::Result<T>>) -> Outcome<T> {
    let result = thread.join().map_err(|_| Failure::failed("a thread of the benchmark panicked"))?;
    Ok(result?)
}

/// Returns the values in ascending order.
fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the median; of an even number the mean of the middle two.
///
/// REQUIRES: there is a value.
fn median(values: Vec<f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Returns the 99th percentile of sorted values; `None` if there are none.
fn p99(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() * 99 / 100).copied()
}

/// Returns the memory of the process, KiB; 0 if the system does not report it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_few_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(p99(&[]), None);
        let values = sorted((0..200).rev().map(f64::from).collect());
        assert_eq!(p99(&values), Some(198.0));
        assert_eq!(p99(&values[..1]), Some(0.0));
    }

    #[test]
    fn the_system_reports_the_memory_of_the_process() {
        assert!(resident_kib() > 0);
    }
}
