//! The crash experiment: a process commits transactions and kills itself with a long log; what it had acknowledged must
//! be there afterwards, and nothing that it had not.
//!
//! Three processes take part. This one, the parent, loads the database, starts the *victim* and hears over a pipe which
//! transactions it acknowledged. When the victim is dead it starts the *reopener*, which times recovery. Then the
//! parent opens the database and compares every row. It stores no values: what a transaction writes follows from its
//! thread and number ([`recipe`]), so the acknowledged count of each thread says what every row must be.

pub(crate) mod recipe;
mod reopen;
mod verify;
mod victim;
mod wire;

pub(crate) use reopen::reopen;
pub(crate) use victim::{Limits, die_at_redo_bytes};
pub(crate) use wire::{Message, Outbox};

use crate::cli::{check_database, print, wait_recovered};
use crate::failure::{Failure, Outcome};
use crate::place::Place;
use crate::progress::Progress;
use crate::report::{self, CrashReport, ReportDir};
use crate::result::{Lines, to_json, write_json};
use crate::samples::{Moves, Samples};
use crate::stop;
use crate::units::{show_count, show_size};
use crate::workload::{Begin, Loader, Shape};
use base::prng::Prng;
use millpond::{Db, Durability, Isolation, Options};
use recipe::{Book, Plan};
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use verify::Verdict;
use wire::Inbox;

const SIGKILL: i32 = 9;

/// What the experiment is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    /// Which transactions.
    pub(crate) plan: Plan,
    /// How the victim and the reopener open the database.
    pub(crate) engine: Engine,
    /// Kill at this redo length.
    pub(crate) redo_bytes: u64,
    /// Give up if it is not reached by then.
    pub(crate) seconds: Duration,
    /// Where to write the result.
    pub(crate) json: Option<PathBuf>,
    /// What was asked for, for people.
    pub(crate) parameters: Vec<(&'static str, String)>,
}

/// How every process of the experiment opens the database.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Engine {
    #[arg(long)]
    pub(crate) pool: u64,
    #[arg(long)]
    pub(crate) capacity: u64,
    #[arg(long)]
    pub(crate) page: u32,
}

impl Engine {
    /// The same for all of them: a log that grows or shrinks at open would be measured as recovery.
    pub(crate) fn options(self) -> Options {
        Options::new()
            .buffer_pool_bytes(self.pool)
            .redo_capacity_bytes(self.capacity)
            .page_bytes(self.page as usize)
    }
}

/// The result, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
struct CrashResult {
    redo_bytes: u64,
    first_transaction_ms: f64,
    full_recovery_ms: f64,
    acknowledged: u64,
    lost: u64,
    extra: u64,
    in_flight_committed: u64,
    threads: u32,
    tables: u32,
    rows: u32,
    seconds: f64,
    durable_device: bool,
    check: String,
}

/// A child process that does not outlive its use.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &str, dir: &Path, args: &[String]) -> Outcome<(Running, Inbox<ChildStdout>)> {
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
        let running = Running(child);
        inbox.map(|inbox| (running, inbox)).ok_or_else(|| Failure::failed("the child has no pipe"))
    }

    fn end(mut self) -> Outcome<ExitStatus> {
        self.0.wait().map_err(|e| Failure::failed(format!("cannot wait for a child process: {e}")))
    }
}

/// What the parent knows when the victim is dead.
struct Death {
    redo_bytes: u64,
    acknowledged: Vec<u32>,
    seconds: f64,
    /// What was heard each second.
    samples: Samples,
}

/// What the reopener told.
struct Recovery {
    opened_ms: f64,
    first_transaction_ms: f64,
    full_recovery_ms: f64,
}

impl Experiment {
    /// Runs it in `place`, with a report in `report_dir` if there is one.
    pub(crate) fn run(&self, mut place: Place, report_dir: Option<ReportDir>) -> Outcome {
        let durable_device = place.is_durable();
        let mut progress = Progress::on_stderr();
        progress.show("load");
        self.load(place.dir())?;
        let death = self.kill_a_victim(place.dir(), &mut progress)?;
        progress.show("recover");
        let mut book = Book::replay(&self.plan, &death.acknowledged);
        let probed = book.row_to_probe(&self.plan, &mut Prng::new(self.plan.seed ^ 0xc4a5));
        let recovery = self.time_recovery(place.dir(), probed, &mut book)?;
        progress.show("verify");
        let (verdict, check) = self.verify(place.dir(), &book)?;
        progress.finish();
        place.keep_if_asked();
        let result = CrashResult {
            redo_bytes: death.redo_bytes,
            first_transaction_ms: recovery.first_transaction_ms,
            full_recovery_ms: recovery.full_recovery_ms,
            acknowledged: book.acknowledged(),
            lost: verdict.lost,
            extra: verdict.extra,
            in_flight_committed: verdict.in_flight_committed,
            threads: self.plan.threads,
            tables: self.plan.tables,
            rows: self.plan.rows,
            seconds: death.seconds,
            durable_device,
            check,
        };
        let lines = result.lines(&verdict);
        print(&lines.text());
        if let Some(file) = &self.json {
            write_json(file, &to_json(&result))?;
        }
        if let Some(dir) = report_dir {
            let report = CrashReport {
                samples: &death.samples,
                redo_bytes: result.redo_bytes,
                opened_ms: recovery.opened_ms,
                first_transaction_ms: result.first_transaction_ms,
                full_recovery_ms: result.full_recovery_ms,
                acknowledged: result.acknowledged,
                lost: result.lost,
                extra: result.extra,
                durable_device,
                check: &result.check,
                lines: lines.0,
                origin: report::Origin {
                    command: report::command(),
                    parameters: self.parameters.clone(),
                    machine: report::machine_facts(Some(place.dir()), durable_device),
                },
            };
            print(&format!("{:<15} {}\n", "report", report::write(dir, &report.files())?));
        }
        result.judge()
    }

    fn load(&self, dir: &Path) -> Outcome {
        let db = self.engine.options().open(dir)?;
        let plan = self.plan;
        let shape = Shape {
            tables: plan.tables,
            rows: plan.rows,
            distribution: crate::workload::distribution::Distribution::Uniform,
            seed: plan.seed,
            begin: Begin { durability: Durability::Sync, isolation: Isolation::RepeatableRead },
        };
        let loader = Loader { db: &db, threads: 2, rows_loaded: &AtomicU64::new(0) };
        loader.fill(&shape, |table| move |id| plan.loaded(table, id))?;
        db.checkpoint()?;
        db.close()?;
        Ok(())
    }

    fn kill_a_victim(&self, dir: &Path, progress: &mut Progress) -> Outcome<Death> {
        let mut args = self.common_args();
        args.push(format!("--redo-bytes={}", self.redo_bytes));
        args.push(format!("--seconds={}", self.seconds.as_secs_f64()));
        let (victim, mut inbox) = Running::start("crash-victim", dir, &args)?;
        let start = Instant::now();
        let mut acknowledged = vec![0u32; self.plan.threads as usize];
        let mut reached = None;
        let mut samples = Samples::new();
        let sample = |samples: &mut Samples, acknowledged: &[u32], redo: Option<u64>| {
            let total: u64 = acknowledged.iter().map(|&n| u64::from(n)).sum();
            let mut values = vec![("acknowledged".to_owned(), "count", Moves::Counter, total as f64)];
            values.extend(redo.map(|n| ("checkpoint_age_bytes".to_owned(), "bytes", Moves::Gauge, n as f64)));
            samples.push((start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0, values);
            total
        };
        sample(&mut samples, &acknowledged, None);
        while let Some(message) = inbox.next()? {
            match message {
                Message::Acknowledged { thread, number } => {
                    let last = acknowledged.get_mut(thread as usize);
                    match last {
                        Some(last) if number == *last + 1 => *last = number,
                        _ => {
                            return Err(Failure::failed(format!(
                                "the victim acknowledged transaction {number} of thread {thread} out of turn"
                            )));
                        }
                    }
                }
                Message::RedoLength(bytes) => {
                    stop::check()?;
                    let total = sample(&mut samples, &acknowledged, Some(bytes));
                    progress.show(&format!(
                        "run {:>4.0} s   {} transactions acknowledged   redo {} of {}",
                        start.elapsed().as_secs_f64(),
                        show_count(total as f64),
                        show_size(bytes as f64),
                        show_size(self.redo_bytes as f64)
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
                        show_size(self.redo_bytes as f64),
                        self.seconds.as_secs_f64()
                    )));
                }
                Message::Failed(text) => return Err(Failure::failed(text)),
                Message::Opened | Message::Committed(_) | Message::Recovered => {
                    return Err(Failure::failed("the victim spoke out of turn"));
                }
            }
        }
        let seconds = (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let status = victim.end()?;
        stop::check()?;
        match reached {
            Some(redo_bytes) if status.signal() == Some(SIGKILL) => {
                Ok(Death { redo_bytes, acknowledged, seconds, samples })
            }
            _ => Err(Failure::failed(format!("the victim ended before its time: {status}"))),
        }
    }

    /// Starts a new process on what the dead one left, which changes row `probed` as its first transaction.
    fn time_recovery(&self, dir: &Path, probed: (u32, u32), book: &mut Book) -> Outcome<Recovery> {
        let mut args = self.common_args();
        args.push(format!("--table={}", probed.0));
        args.push(format!("--id={}", probed.1));
        let start = Instant::now();
        let (reopener, mut inbox) = Running::start("crash-reopen", dir, &args)?;
        let ms = || (start.elapsed().as_secs_f64() * 1e5).round() / 100.0;
        let (mut opened, mut first, mut full) = (None, None, None);
        while let Some(message) = inbox.next()? {
            match message {
                Message::Opened => opened = Some(ms()),
                Message::Committed(before) => {
                    first = Some(ms());
                    book.probe(&self.plan, probed, before);
                }
                Message::Recovered => full = Some(ms()),
                Message::Failed(text) => {
                    return Err(Failure::failed(format!(
                        "the database did not reopen after the kill: {text}"
                    )));
                }
                _ => return Err(Failure::failed("the reopening process spoke out of turn")),
            }
        }
        let status = reopener.end()?;
        stop::check()?;
        match (opened, first, full) {
            (Some(opened_ms), Some(first_transaction_ms), Some(full_recovery_ms)) if status.success() => {
                Ok(Recovery { opened_ms, first_transaction_ms, full_recovery_ms })
            }
            _ => Err(Failure::failed(format!("the database did not reopen after the kill: {status}"))),
        }
    }

    fn verify(&self, dir: &Path, book: &Book) -> Outcome<(Verdict, String)> {
        let db: Db = self.engine.options().open(dir)?;
        wait_recovered(&db)?;
        let verdict = verify::verify(&db, &self.plan, book)?;
        let check = check_database(&db)?;
        db.close()?;
        Ok((verdict, check))
    }

    fn common_args(&self) -> Vec<String> {
        let (plan, engine) = (&self.plan, &self.engine);
        vec![
            format!("--seed={}", plan.seed),
            format!("--threads={}", plan.threads),
            format!("--tables={}", plan.tables),
            format!("--rows={}", plan.rows),
            format!("--pool={}", engine.pool),
            format!("--capacity={}", engine.capacity),
            format!("--page={}", engine.page),
        ]
    }
}

impl CrashResult {
    /// The final table.
    fn lines(&self, verdict: &Verdict) -> Lines {
        let mut out = Lines::default();
        out.line(
            "killed",
            format!("after {:.1} s with {} of redo", self.seconds, show_size(self.redo_bytes as f64)),
        );
        if !self.durable_device {
            out.line("device", "a memory file system: nothing here survives a power cut".into());
        }
        out.line(
            "first commit",
            format!("{:.0} ms after the new process started", self.first_transaction_ms),
        );
        out.line("recovered", format!("{:.0} ms after the new process started", self.full_recovery_ms));
        out.line("acknowledged", format!("{} transactions", show_count(self.acknowledged as f64)));
        out.line("lost", format!("{}", self.lost));
        out.line("extra", format!("{}", self.extra));
        out.line("check", self.check.clone());
        for example in &verdict.examples {
            out.line("", example.clone());
        }
        out
    }

    /// Fails if the promise was broken.
    fn judge(&self) -> Outcome {
        if self.lost > 0 || self.extra > 0 {
            return Err(Failure::failed(format!(
                "after the kill {} acknowledged transactions were lost and {} values were extra",
                self.lost, self.extra
            )));
        }
        if self.check != "ok" {
            return Err(Failure::failed(format!("the check after the kill found damage: {}", self.check)));
        }
        Ok(())
    }
}
