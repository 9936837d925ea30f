//! The crash experiment: a process commits transactions and kills itself when its log is long.
//! After recovery, every acknowledged transaction must be there, and nothing else.
//!
//! Three processes take part. This one, the parent, loads the database and starts the *victim*,
//! which reports every acknowledged transaction through a pipe. When the victim is dead, the parent
//! starts the *reopener* and measures the recovery time. Then the parent opens the database and
//! compares every row. It stores no values: what a transaction writes follows from its thread and
//! number ([`recipe`]), so the acknowledged count of each thread determines every row.

pub(crate) mod recipe;
mod reopen;
mod result;
mod verify;
mod victim;
mod wire;

pub(crate) use reopen::reopen;
pub(crate) use verify::{Verdict, verify};
#[cfg(feature = "torture")]
pub(crate) use victim::COUNTS;
pub(crate) use victim::{Limits, Work, die, kill_when_long};
pub(crate) use wire::{Inbox, Message, Outbox, send_failure};

use crate::own_process;
use crate::progress::Progress;
use crate::report::{CrashReport, machine_facts};
use crate::result::to_json;
use crate::run_dir::RunDir;
use crate::whole::{check_database, wait_recovered};
use base::prng::Prng;
use millpond::{Db, Options};
use output::failure::{Failure, Outcome};
use output::report::page::Origin;
use output::report::{self, ReportDir};
use output::samples::{ColumnKind, Samples};
use output::stop;
use output::units::{parse_duration, show_count, show_size};
use output::{print, write_json};
use recipe::{ExpectedRows, Plan};
use result::{CrashResult, Kill};
#[cfg(feature = "torture")]
use rustix::process::Pid;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// The parameters of the experiment.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    /// The parameters of the transactions.
    pub(crate) plan: Plan,
    /// How the victim and the reopener open the database.
    pub(crate) engine: EngineSizes,
    /// Kill when there is so much redo after the checkpoint; `None`: at a random moment.
    pub(crate) redo_bytes: Option<u64>,
    /// Fail if that is not reached in this time; kill in this time.
    pub(crate) seconds: Duration,
    /// How often, one after the other.
    pub(crate) kills: u32,
    /// Where to write the result.
    pub(crate) json: Option<PathBuf>,
    /// All parameters, for people.
    pub(crate) parameters: Vec<(&'static str, String)>,
}

/// The sizes with which every process of the experiment opens the database.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct EngineSizes {
    #[arg(long)]
    pub(crate) pool: u64,
    #[arg(long)]
    pub(crate) capacity: Option<u64>,
    #[arg(long, value_parser = parse_duration)]
    pub(crate) recovery_target: Option<Duration>,
    #[arg(long)]
    pub(crate) page: u32,
}

impl EngineSizes {
    /// Returns the options, the same for all processes: otherwise the log might grow or shrink at
    /// the opening, which would be measured as recovery.
    pub(crate) fn options(self) -> Options {
        let mut options = own_process::options().buffer_pool_bytes(self.pool).page_bytes(self.page as usize);
        if let Some(target) = self.recovery_target {
            options = options.recovery_target(target);
        }
        if let Some(bytes) = self.capacity {
            options = options.redo_capacity_bytes(bytes);
        }
        options
    }

    /// Returns the flags for a child process.
    pub(crate) fn args(&self) -> Vec<String> {
        let mut args = vec![format!("--pool={}", self.pool), format!("--page={}", self.page)];
        args.extend(self.capacity.map(|bytes| format!("--capacity={bytes}")));
        let target = self.recovery_target;
        args.extend(target.map(|target| format!("--recovery-target={}ms", target.as_millis())));
        args
    }
}

/// A child process. Its drop kills it.
pub(crate) struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ChildProcess {
    /// Starts the hidden command `command` of this program on a database.
    pub(crate) fn start(
        command: &str,
        dir: &Path,
        args: &[String],
    ) -> Outcome<(ChildProcess, Inbox<ChildStdout>)> {
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot start the {command} process: {e}"));
        let exe = std::env::current_exe().map_err(cannot)?;
        let mut child = Command::new(exe)
            .arg(command)
            .args(args)
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let inbox = child.stdout.take().map(Inbox::new);
        let running = ChildProcess(child);
        inbox.map(|inbox| (running, inbox)).ok_or_else(|| Failure::failed("the child has no pipe"))
    }

    /// Returns its number.
    #[cfg(feature = "torture")]
    pub(crate) fn number(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Outcome<ExitStatus> {
        self.0.wait().map_err(|e| Failure::failed(format!("cannot wait for a child process: {e}")))
    }
}

/// What the parent knows after the victim's death.
struct KillResult {
    redo_bytes: u64,
    acknowledged: Vec<u32>,
    seconds: f64,
    /// What the victim reported each second.
    samples: Samples,
}

/// The times that the reopener needed.
struct RecoveryTimes {
    opened_ms: f64,
    first_transaction_ms: f64,
    full_recovery_ms: f64,
}

impl Experiment {
    /// Runs the experiment in `run_dir`, with a report in `report_dir` if there is one.
    pub(crate) fn run(&self, mut run_dir: RunDir, report_dir: Option<ReportDir>) -> Outcome {
        let durable_device = run_dir.is_durable();
        let mut progress = Progress::on_stderr();
        progress.show("load");
        self.load(run_dir.dir())?;
        let mut all = self.result(durable_device);
        let mut expected_rows = ExpectedRows::loaded(&self.plan);
        let mut rng = Prng::new(self.plan.seed ^ 0xc4a5);
        loop {
            let death = self.kill_a_victim(run_dir.dir(), &expected_rows, &mut rng, &mut progress)?;
            progress.show("recover");
            let before: u64 = expected_rows.done().iter().map(|&n| u64::from(n)).sum();
            let acknowledged = death.acknowledged.iter().map(|&n| u64::from(n)).sum::<u64>() - before;
            expected_rows.acknowledge(&self.plan, &death.acknowledged);
            let probed = expected_rows.row_to_probe(&self.plan, &mut rng);
            let recovery = self.time_recovery(run_dir.dir(), probed, &mut expected_rows)?;
            progress.show("verify");
            let (verdict, check) = self.verify(run_dir.dir(), &expected_rows)?;
            let kill = Kill {
                seconds: death.seconds,
                redo_bytes: death.redo_bytes,
                first_transaction_ms: recovery.first_transaction_ms,
                full_recovery_ms: recovery.full_recovery_ms,
                acknowledged,
            };
            all.add(kill, &verdict, check, self.engine.recovery_target);
            expected_rows.found_in_flight(&self.plan, &verdict.in_flight_committed);
            if all.kills.len() < self.kills as usize && all.is_right() {
                continue;
            }
            progress.finish();
            run_dir.keep_if_asked();
            return self.show(&all, &verdict, (&death, &recovery), (&run_dir, report_dir));
        }
    }

    /// Returns a result without kills.
    fn result(&self, durable_device: bool) -> CrashResult {
        let Plan { threads, tables, rows, .. } = self.plan;
        CrashResult {
            redo_bytes: 0,
            first_transaction_ms: 0.0,
            full_recovery_ms: 0.0,
            acknowledged: 0,
            lost: 0,
            extra: 0,
            in_flight_committed: 0,
            threads,
            tables,
            rows,
            seconds: 0.0,
            durable_device,
            check: "ok".into(),
            beyond_target: None,
            kills: Vec::new(),
        }
    }

    /// Prints and writes the result, with a report of the last kill.
    fn show(
        &self,
        result: &CrashResult,
        verdict: &Verdict,
        (death, recovery): (&KillResult, &RecoveryTimes),
        (run_dir, report_dir): (&RunDir, Option<ReportDir>),
    ) -> Outcome {
        let lines = result.lines(&verdict.examples);
        print(&lines.text());
        if let Some(file) = &self.json {
            write_json(file, &to_json(result))?;
        }
        if let Some(dir) = report_dir {
            let report = CrashReport {
                samples: &death.samples,
                redo_bytes: death.redo_bytes,
                opened_ms: recovery.opened_ms,
                first_transaction_ms: recovery.first_transaction_ms,
                full_recovery_ms: recovery.full_recovery_ms,
                acknowledged: result.acknowledged,
                lost: result.lost,
                extra: result.extra,
                durable_device: result.durable_device,
                check: &result.check,
                lines: lines.0,
                origin: Origin {
                    command: report::command(),
                    parameters: self.parameters.clone(),
                    machine: machine_facts(Some(run_dir.dir()), result.durable_device),
                },
            };
            print(&format!("{:<15} {}\n", "report", report::write(dir, &report.files())?));
        }
        result.judge()
    }

    fn load(&self, dir: &Path) -> Outcome {
        let db = self.engine.options().open(dir)?;
        self.plan.load(&db)?;
        db.checkpoint()?;
        db.close()?;
        Ok(())
    }

    fn kill_a_victim(
        &self,
        dir: &Path,
        expected_rows: &ExpectedRows,
        rng: &mut Prng,
        progress: &mut Progress,
    ) -> Outcome<KillResult> {
        let args = self.victim_args(expected_rows, rng);
        let (victim, mut inbox) = ChildProcess::start("crash-victim", dir, &args)?;
        let start = Instant::now();
        let mut acknowledged = expected_rows.done().to_vec();
        let mut reached = None;
        let mut samples = Samples::new();
        let sample = |samples: &mut Samples, acknowledged: &[u32], redo: Option<u64>| {
            let total: u64 = acknowledged.iter().map(|&n| u64::from(n)).sum();
            let mut values = vec![("acknowledged".to_owned(), "count", ColumnKind::Counter, total as f64)];
            values.extend(
                redo.map(|n| ("checkpoint_age_bytes".to_owned(), "bytes", ColumnKind::Gauge, n as f64)),
            );
            samples.push((start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0, values);
            total
        };
        sample(&mut samples, &acknowledged, None);
        while let Some(message) = inbox.next()? {
            match message {
                Message::Opened => {}
                Message::Acknowledged { thread, number, .. } => {
                    acknowledge(&mut acknowledged, thread, number)?;
                }
                Message::RedoLength(bytes) => {
                    stop::check()?;
                    let total = sample(&mut samples, &acknowledged, Some(bytes));
                    let wanted = self.redo_bytes.map(|wanted| format!(" of {}", show_size(wanted as f64)));
                    progress.show(&format!(
                        "run {:>4.0} s   {} transactions acknowledged   redo {}{}",
                        start.elapsed().as_secs_f64(),
                        show_count(total as f64),
                        show_size(bytes as f64),
                        wanted.unwrap_or_default()
                    ));
                }
                Message::Dying(bytes) => {
                    reached = Some(bytes);
                    sample(&mut samples, &acknowledged, Some(bytes));
                }
                Message::NotReached(bytes) => {
                    return Err(Failure::failed(format!(
                        "the redo log reached {} of {} in {} s",
                        show_size(bytes as f64),
                        show_size(self.redo_bytes.unwrap_or(0) as f64),
                        self.seconds.as_secs_f64()
                    )));
                }
                Message::Failed(text) => return Err(Failure::failed(text)),
                _ => return Err(Failure::failed("the victim sent an unexpected message")),
            }
        }
        let seconds = (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let status = victim.end()?;
        stop::check()?;
        match reached {
            Some(redo_bytes) if status.signal() == Some(SIGKILL) => {
                Ok(KillResult { redo_bytes, acknowledged, seconds, samples })
            }
            _ => Err(Failure::failed(format!("the victim ended before the kill: {status}"))),
        }
    }

    /// Starts a new process that opens the database and changes row `probed` in its first
    /// transaction. Measures how long that takes.
    fn time_recovery(
        &self,
        dir: &Path,
        probed: (u32, u32),
        expected_rows: &mut ExpectedRows,
    ) -> Outcome<RecoveryTimes> {
        let mut args = self.common_args();
        args.push(format!("--table={}", probed.0));
        args.push(format!("--id={}", probed.1));
        let start = Instant::now();
        let (reopener, mut inbox) = ChildProcess::start("crash-reopen", dir, &args)?;
        let ms = || (start.elapsed().as_secs_f64() * 1e5).round() / 100.0;
        let (mut opened, mut first, mut full) = (None, None, None);
        while let Some(message) = inbox.next()? {
            match message {
                Message::Opened => opened = Some(ms()),
                Message::Committed(before) => {
                    first = Some(ms());
                    expected_rows.probe(&self.plan, probed, before);
                }
                Message::Recovered => full = Some(ms()),
                Message::Failed(text) => {
                    return Err(Failure::failed(format!(
                        "the database did not reopen after the kill: {text}"
                    )));
                }
                _ => return Err(Failure::failed("the reopening process sent an unexpected message")),
            }
        }
        let status = reopener.end()?;
        stop::check()?;
        match (opened, first, full) {
            (Some(opened_ms), Some(first_transaction_ms), Some(full_recovery_ms)) if status.success() => {
                Ok(RecoveryTimes { opened_ms, first_transaction_ms, full_recovery_ms })
            }
            _ => Err(Failure::failed(format!("the database did not reopen after the kill: {status}"))),
        }
    }

    fn verify(&self, dir: &Path, expected_rows: &ExpectedRows) -> Outcome<(Verdict, String)> {
        let db: Db = self.engine.options().open(dir)?;
        wait_recovered(&db)?;
        let verdict = verify(&db, &self.plan, expected_rows)?;
        let check = check_database(&db)?;
        db.close()?;
        Ok((verdict, check))
    }

    fn victim_args(&self, expected_rows: &ExpectedRows, rng: &mut Prng) -> Vec<String> {
        let mut args = self.common_args();
        let seconds = match self.redo_bytes {
            Some(bytes) => {
                args.push(format!("--redo-bytes={bytes}"));
                self.seconds.as_secs_f64()
            }
            None => rng.between(1, self.seconds.as_millis().max(1) as u64) as f64 / 1000.0,
        };
        args.push(format!("--seconds={seconds}"));
        let done: Vec<String> = expected_rows.done().iter().map(u32::to_string).collect();
        args.push(format!("--done={}", done.join(",")));
        args
    }

    fn common_args(&self) -> Vec<String> {
        let mut args = self.plan.args();
        args.extend(self.engine.args());
        args
    }
}

/// Counts an acknowledged transaction. Fails unless it is the next one of its thread.
pub(crate) fn acknowledge(acknowledged: &mut [u32], thread: u32, number: u32) -> Outcome {
    match acknowledged.get_mut(thread as usize) {
        Some(last) if number == *last + 1 => {
            *last = number;
            Ok(())
        }
        _ => Err(Failure::failed(format!(
            "the victim acknowledged transaction {number} of thread {thread} out of order"
        ))),
    }
}
