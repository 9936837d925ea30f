//! `millpond bench after-kill`: how fast the rate of commits comes back after a kill -9.

mod children;
mod kill_lines;
mod replay_cost;
mod tenths;

pub(crate) use children::{AfterKillSuccessor, AfterKillVictim};
pub(crate) use replay_cost::ReplayCost;

use super::device::Device;
use super::{filled_database, scratch};
use crate::crash::{ChildProcess, EngineSizes, Message};
use crate::progress::Progress;
use crate::workload::WorkloadParams;
use kill_lines::{Round, heads};
use output::failure::{Failure, Outcome};
use output::units::{parse_seconds, parse_size, parse_time, show_size};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tenths::{each_second, rate_at_end, reached_after};

const NOTES: &str = "\
A process loads a new database and runs a write-heavy load: uniform keys, and each commit waits for the
disk. After the warm-up it takes a checkpoint. When the log has so much redo since the checkpoint, the
process is killed with SIGKILL. Then another process opens the database and runs the same load at once,
while recovery goes on. Its buffer pool is empty. At the end the database is checked. Each amount of
redo gets a new database, and a log so long that no page is written for it before the kill.

warm: commits a second before the kill, the median of the last ten seconds. device: how long the bare
device takes to read so much of the log, four pieces of 4 MiB at a time, past the page cache, between
the kill and the open; in seconds. All other times are seconds from the start of the open, not of the
process. open: when the open returned. first: when the first commit returned. 1 s to 5 s: the commits of
each of the first seconds, as parts of the warm rate. back: when a second ends that is the first with
the part --back of the warm rate; it begins at any tenth of a second. recovered: when all redo was
applied and what the kill had cut off was reverted. -: the load ended before that.

The benchmark fails if the rate is not back --within its time, or if the check finds damage.";

/// How fast does the rate of commits come back after a kill -9?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct AfterKill {
    /// Redo since the checkpoint at which the process is killed, sizes separated by commas
    #[arg(long, value_name = "SIZE", default_value = "100MiB,500MiB,2000MiB", value_delimiter = ',', value_parser = parse_size)]
    redo: Vec<u64>,
    /// The part of the warm rate that counts as back
    #[arg(long, value_name = "PART", default_value_t = 0.8, value_parser = parse_part)]
    back: f64,
    /// The rate must be back so long after the start of the open
    #[arg(long, value_name = "S", default_value = "30", value_parser = parse_time)]
    within: Duration,
    /// The load goes on so long after the start of the open, also if the rate is back before
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that the load goes before the checkpoint
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    warmup: Duration,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pool: u64,
    #[command(flatten)]
    load: LoadSizes,
}

/// The load's sizes, the same in all processes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LoadSizes {
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
}

/// No log is shorter, bytes.
const CAPACITY_MIN: u64 = 4 << 30;
const PAGE_BYTES: u32 = 8192;
/// The commits of this time are kept in memory, by the tenth of a second.
const LONGEST: Duration = Duration::from_secs(3600);
const SIGKILL: i32 = 9;

/// Parses `--back 0.8`.
fn parse_part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.001..=1.0).contains(&part) { Ok(part) } else { Err("from 0.001 to 1".to_owned()) }
}

/// What a child process has told until its end.
#[derive(Debug, Default)]
struct Told {
    /// The commits of each tenth of a second.
    tenths: Vec<u64>,
    dying_redo_bytes: Option<u64>,
    opened_us: Option<u64>,
    first_us: Option<u64>,
    recovered_us: Option<u64>,
}

impl AfterKill {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.redo.contains(&0) {
            return Err(Failure::misuse("--redo 0 would kill before the first commit"));
        }
        if self.warmup > LONGEST || self.within > LONGEST {
            return Err(Failure::misuse("--warmup, --within: an hour at most"));
        }
        say!("{}", heads());
        let mut late = Vec::new();
        for &redo_bytes in &self.redo {
            let round = self.round(redo_bytes)?;
            say!("{}", round.line());
            if round.back_s.is_none() {
                late.push(show_size(redo_bytes as f64));
            }
        }
        if late.is_empty() {
            return Ok(());
        }
        let (back, within) = (self.back, self.within.as_secs_f64());
        Err(Failure::failed(format!(
            "the rate was not back at {back} of the warm one within {within} s after: {}",
            late.join(", ")
        )))
    }

    /// Kills a process when its log has so much redo, and lets another one open the database.
    fn round(&self, redo_bytes: u64) -> Outcome<Round> {
        let dir = scratch()?;
        let files = dir.dir().join("db");
        let capacity = Some(redo_bytes.saturating_mul(2).max(CAPACITY_MIN));
        let engine = EngineSizes { pool: self.pool, capacity, recovery_target: None, page: PAGE_BYTES };
        let common = [engine.args(), self.load.args()].concat();
        let (killed, redo_bytes) = killed(engine, self.load, redo_bytes, self.warmup, &files)?;
        let warm = rate_at_end(&killed.tenths);
        let wanted = warm * self.back;
        let device = Device::reads_files(&log_files(&files)?, redo_bytes)?;

        let own =
            [format!("--wanted={wanted}"), seconds("seconds", self.seconds), seconds("within", self.within)];
        let (told, status) =
            listen("after-kill-successor", "run after the kill", &files, &[&common[..], &own].concat())?;
        if !status.success() {
            return Err(Failure::failed(format!("the process after the kill failed: {status}")));
        }
        filled_database::check_and_close(&engine.options().open(&files)?, "the kill")?;
        let in_seconds = |us: u64| us as f64 / 1e6;
        Ok(Round {
            redo_bytes,
            warm,
            device_s: Some(device.as_secs_f64()),
            opened_s: told.opened_us.map(in_seconds),
            first_s: told.first_us.map(in_seconds),
            seconds: each_second(&told.tenths),
            back_s: reached_after(&told.tenths, wanted),
            recovered_s: told.recovered_us.map(in_seconds),
        })
    }
}

/// Returns a flag for a child process.
fn seconds(name: &str, time: Duration) -> String {
    format!("--{name}={}", time.as_secs_f64())
}

/// Runs the load on a new database in `files` until its log has so much redo since the checkpoint,
/// and kills it. Also returns how much redo that was.
fn killed(
    engine: EngineSizes,
    load: LoadSizes,
    redo_bytes: u64,
    warmup: Duration,
    files: &Path,
) -> Outcome<(Told, u64)> {
    let own = [format!("--redo-bytes={redo_bytes}"), seconds("warmup", warmup)];
    let args = [engine.args(), load.args(), own.to_vec()].concat();
    let (told, status) = listen("after-kill-victim", "run until the kill", files, &args)?;
    match told.dying_redo_bytes {
        Some(redo_bytes) if status.signal() == Some(SIGKILL) => Ok((told, redo_bytes)),
        _ => Err(Failure::failed(format!("the process ended before the kill: {status}"))),
    }
}

/// Returns the files of the log of the database in `dir`, the newest first.
fn log_files(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let log = dir.join("redo");
    let failed = |e| Failure::failed(format!("{}: {e}", log.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(&log).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    files.reverse();
    Ok(files)
}

impl LoadSizes {
    fn params(self) -> WorkloadParams {
        filled_database::uniform(self.tables, self.rows)
    }

    /// Returns the flags for a child process.
    fn args(self) -> Vec<String> {
        let LoadSizes { threads, tables, rows } = self;
        vec![format!("--threads={threads}"), format!("--tables={tables}"), format!("--rows={rows}")]
    }
}

/// Starts a child process and returns what it told until its end. `phase` is shown meanwhile.
fn listen(command: &str, phase: &str, dir: &Path, args: &[String]) -> Outcome<(Told, ExitStatus)> {
    let (child, mut inbox) = ChildProcess::start(command, dir, args)?;
    let (mut told, mut progress) = (Told::default(), Progress::on_stderr());
    while let Some(message) = inbox.next()? {
        match message {
            Message::Commits { tenth, commits } if tenth as usize == told.tenths.len() => {
                told.tenths.push(commits);
            }
            Message::Started => progress.show(phase),
            Message::RedoLength(bytes) => {
                progress.show(&format!("{phase}   redo {}", show_size(bytes as f64)));
            }
            Message::Dying(bytes) => told.dying_redo_bytes = Some(bytes),
            Message::OpenedAfter(us) => told.opened_us = Some(us),
            Message::FirstCommit(us) => told.first_us = Some(us),
            Message::RecoveredAfter(us) => told.recovered_us = Some(us),
            Message::NotReached(bytes) => {
                let reached = show_size(bytes as f64);
                return Err(Failure::failed(format!("the load made only {reached} of redo in an hour")));
            }
            Message::Failed(text) => return Err(Failure::failed(format!("{command}: {text}"))),
            _ => return Err(Failure::failed(format!("{command} sent an unexpected message"))),
        }
    }
    progress.finish();
    Ok((told, child.end()?))
}
