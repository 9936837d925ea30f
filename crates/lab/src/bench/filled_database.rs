//! A load of `millpond run` within a benchmark: its settings, its database, and its phases.

use super::scratch;
use crate::driver::Pace;
use crate::run_dir::RunDir;
use crate::whole::check_database;
use crate::workload::distribution::Distribution;
use crate::workload::tpcc::TpccSetup;
use crate::workload::{self, Loader, TxnSettings, WorkloadKind, WorkloadParams};
use millpond::{Db, Durability, Isolation, Options};
use output::failure::{Failure, Outcome};
use std::path::PathBuf;
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
        tpcc: TpccSetup::default(),
    }
}

/// A database in a directory that its drop removes.
pub(super) struct Database {
    // Fields are dropped in this order: the database is closed before its files go.
    pub(super) db: Db,
    dir: RunDir,
}

impl Database {
    /// Makes a new database with the rows of a load and without dirty pages.
    pub(super) fn filled(options: Options, kind: WorkloadKind, params: WorkloadParams) -> Outcome<Database> {
        let dir = scratch()?;
        let db = options.open(files(&dir))?;
        fill(&db, kind, params)?;
        db.checkpoint()?;
        Ok(Database { db, dir })
    }

    /// Returns the directory of the database's files.
    pub(super) fn files(&self) -> PathBuf {
        files(&self.dir)
    }

    /// Returns the name of a file that does not exist, on the same device.
    pub(super) fn probe(&self) -> PathBuf {
        self.dir.dir().join("probe")
    }

    /// Checks the whole database, closes it and removes it. `after` names what ran on it. Fails
    /// with what the check found.
    pub(super) fn check_and_close(self, after: &str) -> Outcome {
        check_and_close(&self.db, after)
    }
}

fn files(dir: &RunDir) -> PathBuf {
    dir.dir().join("db")
}

/// As [`Database::check_and_close`].
pub(super) fn check_and_close(db: &Db, after: &str) -> Outcome {
    let check = check_database(db)?;
    db.close()?;
    judge(after, &check)
}

/// Fails unless the check found no damage. A benchmark of a damaged database measures nothing.
fn judge(after: &str, check: &str) -> Outcome {
    if check == "ok" {
        return Ok(());
    }
    Err(Failure::failed(format!("the check after {after} found damage: {check}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_fails_and_is_named() {
        judge("the runs", "ok").unwrap();
        let failure = judge("the runs", "page 7: the checksum does not fit").unwrap_err();
        let text = "the check after the runs found damage: page 7: the checksum does not fit";
        assert_eq!(failure.to_string(), text);
        assert!(matches!(failure, Failure::Failed(_)));
    }
}
