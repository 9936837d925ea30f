//! A load of `millpond run` within a benchmark: its settings, its data, and its phases.

use crate::driver::Pace;
use crate::failure::Outcome;
use crate::workload::distribution::Distribution;
use crate::workload::{self, Loader, TxnSettings, WorkloadKind, WorkloadParams};
use millpond::{Db, Durability, Isolation};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Returns the settings of a load with uniform keys whose commits wait for the disk.
pub(super) fn uniform(tables: u32, rows: u32) -> WorkloadParams {
    WorkloadParams {
        tables,
        rows,
        distribution: Distribution::Uniform,
        seed: 1,
        begin: TxnSettings { durability: Durability::Sync, isolation: Isolation::RepeatableRead },
    }
}

/// Makes the tables and their rows, with a thread for each core and two at least.
pub(super) fn fill(db: &Db, kind: WorkloadKind, params: WorkloadParams) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let rows_loaded = AtomicU64::new(0);
    workload::build(kind, params).load(&Loader { db, threads: cores.max(2), rows_loaded: &rows_loaded })?;
    Ok(())
}

/// Returns the phases of a run: all threads as fast as they can, `seconds` of it measured.
pub(super) fn full_speed(threads: u32, warmup: Duration, seconds: Duration) -> Pace {
    Pace { threads, warmup, seconds: Some(seconds), rate: None, sampled: false }
}
