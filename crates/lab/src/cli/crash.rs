//! `millpond crash`: run, kill -9, reopen, verify. Two hidden commands are its child processes.

use crate::crash::recipe::Plan;
use crate::crash::{EngineSizes, Experiment, Limits, Message, Outbox, die_at_redo_bytes, reopen};
use crate::failure::{Failure, Outcome};
use crate::report;
use crate::run_dir::{RunDir, check_writable};
use crate::stop;
use crate::units::{parse_page_size, parse_seconds, parse_size, show_count, show_size};
use std::path::PathBuf;
use std::time::Duration;

/// Run, kill -9 itself, reopen, verify every acknowledged commit
#[derive(Debug, clap::Args)]
pub(crate) struct Crash {
    /// Database directory, new or empty, kept [default: a new one, removed at the end]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Fail if the log is not that long by then
    #[arg(long, value_name = "S", default_value = "120", value_parser = parse_seconds)]
    seconds: Duration,
    /// Kill when there is this much redo since the checkpoint
    #[arg(long, value_name = "SIZE", default_value = "500MiB", value_parser = parse_size)]
    redo_bytes: u64,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    rows: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    pool: u64,
    /// Page size: 4KiB, 8KiB or 16KiB
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_page_size)]
    page: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the result as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write plots of the run, the kill and the recovery, and a page that shows them,
    /// DIR/index.html
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Keep the directory that the run made
    #[arg(long)]
    keep: bool,
}

impl Crash {
    pub(crate) fn run(self) -> Outcome {
        if self.rows < self.threads {
            return Err(Failure::misuse(format!(
                "--rows {} leaves some of the {} threads without a row of their own",
                self.rows, self.threads
            )));
        }
        if self.redo_bytes == 0 {
            return Err(Failure::misuse("--redo-bytes 0 would kill before the first commit"));
        }
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let report_dir = match &self.report {
            Some(dir) => Some(report::claim(dir, self.db.as_deref())?),
            None => None,
        };
        stop::install();
        let run_dir = match &self.db {
            Some(dir) => RunDir::named_empty(dir)?,
            None => RunDir::fresh(self.keep)?,
        };
        // Twice the length, so admission delays no writer before the kill.
        let capacity = self.redo_bytes.saturating_mul(2).max(64 << 20);
        let plan = Plan { seed: self.seed, threads: self.threads, tables: self.tables, rows: self.rows };
        let engine = EngineSizes { pool: self.pool, capacity, page: self.page };
        let parameters = vec![
            ("kill", format!("at {} of redo since the checkpoint", show_size(self.redo_bytes as f64))),
            ("threads", self.threads.to_string()),
            ("tables", format!("{} of {} rows", self.tables, show_count(f64::from(self.rows)))),
            ("buffer pool", show_size(self.pool as f64)),
            ("page", show_size(f64::from(self.page))),
            ("redo log", format!("capacity {}", show_size(capacity as f64))),
            ("seed", self.seed.to_string()),
        ];
        let (redo_bytes, seconds, json) = (self.redo_bytes, self.seconds, self.json);
        Experiment { plan, engine, redo_bytes, seconds, json, parameters }.run(run_dir, report_dir)
    }
}

/// Runs a child's work and sends a failure to the parent. Only the parent prints messages for the
/// user.
fn send_failure(work: impl FnOnce(&Outbox) -> Outcome) -> Outcome {
    let outbox = Outbox::stdout()?;
    work(&outbox).or_else(|failure| outbox.send(&Message::Failed(failure.to_string())))
}

/// The process that `crash` kills
#[derive(Debug, clap::Args)]
pub(crate) struct CrashVictim {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    engine: EngineSizes,
    #[arg(long)]
    redo_bytes: u64,
    #[arg(long, value_parser = parse_seconds)]
    seconds: Duration,
    dir: PathBuf,
}

impl CrashVictim {
    pub(crate) fn run(self) -> Outcome {
        let limits = Limits { redo_bytes: self.redo_bytes, seconds: self.seconds };
        send_failure(|outbox| die_at_redo_bytes(outbox, &self.dir, &self.plan, self.engine, limits))
    }
}

/// The process that opens the database after the kill
#[derive(Debug, clap::Args)]
pub(crate) struct CrashReopen {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    engine: EngineSizes,
    #[arg(long)]
    table: u32,
    #[arg(long)]
    id: u32,
    dir: PathBuf,
}

impl CrashReopen {
    pub(crate) fn run(self) -> Outcome {
        send_failure(|outbox| reopen(outbox, &self.dir, &self.plan, self.engine, self.table, self.id))
    }
}
