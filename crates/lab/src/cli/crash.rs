//! `millpond crash`: run, kill -9, reopen, verify. Two hidden commands are its child processes.

use crate::crash::recipe::Plan;
use crate::crash::{EngineSizes, Experiment, Limits, Work, die, reopen, send_failure};
use crate::durability::DurabilityFlag;
use crate::run_dir::RunDir;
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report;
use output::stop;
use output::units::{parse_duration, parse_page_size, parse_seconds, parse_size, show_count, show_size};
use std::path::PathBuf;
use std::time::Duration;

/// Unless another length is asked for.
const REDO_BYTES: u64 = 500 << 20;

/// Run, kill -9 itself, reopen, verify every acknowledged commit
#[derive(Debug, clap::Args)]
pub(crate) struct Crash {
    /// Database directory, new or empty, kept [default: a new one, removed at the end]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Threads that commit
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Fail if the log is not that long by then; with a recovery target, kill by then
    #[arg(long, value_name = "S", default_value = "120", value_parser = parse_seconds)]
    seconds: Duration,
    /// Kill when there is this much redo since the checkpoint [default: 500MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    redo_bytes: Option<u64>,
    /// Let the log follow this target, and kill at random moments
    #[arg(long, value_name = "DUR", value_parser = parse_duration, conflicts_with = "redo_bytes")]
    recovery_target: Option<Duration>,
    /// Kills, one after the other; every row is verified after each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
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
        if self.seconds.is_zero() {
            return Err(Failure::misuse("--seconds 0 would kill before the first commit"));
        }
        if self.redo_bytes == Some(0) {
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
        let redo_bytes = match self.recovery_target {
            Some(_) => None,
            None => Some(self.redo_bytes.unwrap_or(REDO_BYTES)),
        };
        // Twice the length, so admission delays no writer before the kill.
        let capacity = redo_bytes.map(|bytes| bytes.saturating_mul(2).max(64 << 20));
        let plan = Plan { seed: self.seed, threads: self.threads, tables: self.tables, rows: self.rows };
        let recovery_target = self.recovery_target;
        let engine = EngineSizes { pool: self.pool, capacity, recovery_target, page: self.page };
        let moment = match redo_bytes {
            Some(bytes) => format!("at {} of redo since the checkpoint", show_size(bytes as f64)),
            None => format!("within {} s", self.seconds.as_secs_f64()),
        };
        let log = match recovery_target {
            Some(target) => format!("recovery target {} s", target.as_secs_f64()),
            None => format!("capacity {}", show_size(capacity.unwrap_or(0) as f64)),
        };
        let parameters = vec![
            ("kills", format!("{}, {moment}", self.kills)),
            ("threads", self.threads.to_string()),
            ("tables", format!("{} of {} rows", self.tables, show_count(f64::from(self.rows)))),
            ("buffer pool", show_size(self.pool as f64)),
            ("page", show_size(f64::from(self.page))),
            ("redo log", log),
            ("seed", self.seed.to_string()),
        ];
        let (seconds, kills, json) = (self.seconds, self.kills, self.json);
        Experiment { plan, engine, redo_bytes, seconds, kills, json, parameters }.run(run_dir, report_dir)
    }
}

/// The process that `crash` kills
#[derive(Debug, clap::Args)]
pub(crate) struct CrashVictim {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    engine: EngineSizes,
    #[arg(long)]
    redo_bytes: Option<u64>,
    #[arg(long, value_parser = parse_seconds)]
    seconds: Duration,
    /// The last transaction of each thread that is there
    #[arg(long, value_delimiter = ',')]
    done: Vec<u32>,
    /// So many threads run [default: all]
    #[arg(long)]
    active: Option<u32>,
    #[arg(long, value_enum, default_value_t = DurabilityFlag::Sync)]
    durability: DurabilityFlag,
    /// Each transaction writes its number too
    #[arg(long)]
    counted: bool,
    dir: PathBuf,
}

impl CrashVictim {
    pub(crate) fn run(self) -> Outcome {
        let poll = Duration::from_millis(1);
        let limits = Limits { redo_bytes: self.redo_bytes, seconds: self.seconds, poll };
        let work = Work {
            plan: self.plan,
            active: self.active.unwrap_or(self.plan.threads),
            durability: self.durability.durability(),
            counted: self.counted,
        };
        send_failure(|outbox| die(outbox, &self.dir, &work, self.engine, limits, &self.done))
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
