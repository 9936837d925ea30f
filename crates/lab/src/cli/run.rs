//! `millpond run`: load, checkpoint, warm up, measure, check, show.

use super::redo_flags::RedoFlags;
use super::tpcc_flags::TpccFlags;
use crate::arrivals::Burst;
use crate::driver::{Measured, Pace, drive};
use crate::durability::DurabilityFlag;
use crate::figures::lsn;
use crate::law::LawFlags;
use crate::own_process;
use crate::progress::Progress;
use crate::ramp::{Ramp, Step, Taken, climb};
use crate::report::{RampReport, RunReport, machine_facts};
use crate::result::{Checked, Request, RunContext, RunResult, broken};
use crate::run_dir::{DirContents, LoadMark, RunDir};
use crate::turn::{Counted, Turn};
use crate::whole::check_database;
use crate::workload::distribution::Distribution;
use crate::workload::tpcc::Condition;
use crate::workload::{self, Loader, Shape, TxnSettings, Workload, WorkloadKind, WorkloadParams};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use millpond::{Db, Doublewrite, Isolation, Options};
use output::existing::check_writable;
use output::failure::{Failure, Outcome};
use output::report::page::Origin;
use output::report::{self, ReportDir};
use output::stop;
use output::units::{parse_page_size, parse_rate, parse_seconds, parse_size, show_count, show_size};
use output::{print, write_json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the tables hold, and how rows are chosen.
#[derive(Debug, clap::Args)]
pub(super) struct DataFlags {
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    pub(super) rows: u32,
    /// How rows are chosen
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(super) distribution: Distribution,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// How many threads run the workload, and when transactions start.
#[derive(Debug, clap::Args)]
pub(super) struct ClientFlags {
    /// Threads that run the workload
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) threads: u32,
    /// Steps with so many threads instead, as 1,2,4,8; a row for each, and where more bring no more
    #[arg(
        long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "threads",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(super) ramp: Vec<u32>,
    /// Rate at which transactions start, at random times; latency counts from the intended start
    /// [default: as fast as the threads can]
    #[arg(long, value_name = "TPS", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,
    /// Bursts, as 2x/10s: every 10 s, for a tenth of that time, twice the rate
    #[arg(long, value_name = "FACTORx/EVERY", value_parser = Burst::parse, requires = "rate")]
    pub(super) burst: Option<Burst>,
}

impl ClientFlags {
    /// Returns how many threads run at the same time at most.
    pub(super) fn most_threads(&self) -> u32 {
        self.ramp.iter().copied().max().unwrap_or(self.threads)
    }
}

/// Run a workload and show what happened
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// What to run
    #[arg(value_enum, default_value = "write-heavy", hide_possible_values = true, help = workload_help())]
    pub(super) workload: WorkloadKind,
    /// Database directory; kept, and used again by the same load [default: a new one, removed at
    /// the end]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Run in memory: no files, and nothing is durable
    #[arg(long, conflicts_with_all = ["db", "keep", "recovery_target"])]
    ephemeral: bool,
    #[command(flatten)]
    pub(super) clients: ClientFlags,
    /// Length of the measured phase
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    pub(super) seconds: Duration,
    /// Time that the workload runs before it is measured
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    pub(super) warmup: Duration,
    #[command(flatten)]
    pub(super) data: DataFlags,
    #[command(flatten)]
    pub(super) tpcc: TpccFlags,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    pool: u64,
    #[command(flatten)]
    redo: RedoFlags,
    /// Write pages without copies: a power cut may tear pages, and they are lost
    #[arg(long)]
    unsafe_no_doublewrite: bool,
    #[command(flatten)]
    law: LawFlags,
    /// When a commit returns: when synced; when it outlives the process, at most 1 s or 4 MiB
    /// before the sync; so long before the sync; at once
    #[arg(long, value_enum, default_value_t = DurabilityFlag::Sync)]
    durability: DurabilityFlag,
    /// Isolation level of the transactions [default: repeatable-read; with --target the server's]
    #[arg(long, value_parser = levels())]
    pub(super) isolation: Option<Isolation>,
    /// Page size: 4KiB, 8KiB or 16KiB
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_page_size)]
    page: u32,
    /// Write the result as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write plots of every second and a page that shows them, DIR/index.html
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,
    /// Keep the directory, or the schema, that the run made
    #[arg(long)]
    pub(super) keep: bool,
    #[cfg(feature = "watch")]
    #[command(flatten)]
    pub(super) server: super::server_flags::ServerFlags,
}

fn workload_help() -> String {
    let names: Vec<_> = WorkloadKind::value_variants().iter().map(|kind| kind.name()).collect();
    format!("What to run: {}", names.join(", "))
}

/// Returns the parser of an isolation level's name.
fn levels() -> impl TypedValueParser<Value = Isolation> {
    PossibleValuesParser::new(Isolation::ALL.iter().map(|level| level.name()))
        .map(|name| Isolation::named(&name).expect("the name of a level"))
}

pub(super) fn flag_name(flag: &impl ValueEnum) -> String {
    flag.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
}

/// What a run says about a doublewrite that is off.
const DOUBLEWRITE_OFF: &str = "OFF: a power cut may tear pages, and they are lost";

/// Returns how many threads load tables.
pub(super) fn load_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(2)
}

/// Runs a load, and shows once a second how many rows are loaded.
pub(super) fn show_load(
    progress: &mut Progress,
    rows_loaded: &AtomicU64,
    load: impl FnOnce() -> Outcome,
) -> Outcome {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut shown = Instant::now();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                if shown.elapsed() >= Duration::from_secs(1) {
                    shown = Instant::now();
                    let rows = rows_loaded.load(Ordering::Relaxed);
                    progress.show(&format!("load {} rows", show_count(rows as f64)));
                }
            }
        });
        let loaded = load();
        over.store(true, Ordering::Relaxed);
        loaded
    })?;
    stop::check()
}

/// Writes a report, and prints where its page is.
pub(super) fn show_report(dir: ReportDir, files: &[(String, String)]) -> Outcome {
    print(&format!("{:<15} {}\n", "report", report::write(dir, files)?));
    Ok(())
}

/// A database with the tables of the run.
struct Loaded {
    db: Db,
    run_dir: Option<RunDir>,
    /// Goes with the database, if it is removed.
    _redo_dir: Option<RunDir>,
    params: WorkloadParams,
    /// How long the load took; 0 if a finished load was reused.
    load_seconds: f64,
}

/// Checks a database, and closes it. Returns what is wrong.
fn close(db: &Db, workload: &dyn Workload, progress: &mut Progress) -> Outcome<Checked> {
    progress.show("check");
    let checked = Checked { check: check_database(db)?, consistency: workload.conditions(db)? };
    progress.finish();
    db.close()?;
    Ok(checked)
}

pub(super) fn undamaged(checked: &Checked) -> Outcome {
    checked.fault().map_or(Ok(()), |fault| {
        Err(Failure::failed(format!("the check after the run found damage: {fault}")))
    })
}

/// Refuses a load whose tables do not meet the workload's conditions.
pub(super) fn sound(conditions: Option<&[Condition]>) -> Outcome {
    broken(conditions.unwrap_or_default())
        .map_or(Ok(()), |why| Err(Failure::failed(format!("the load is not what it must be: {why}"))))
}

impl Run {
    pub(crate) fn run(self) -> Outcome {
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let options = self.options().law(self.law.law()?);
        self.tpcc.check(self.workload, false)?;
        self.check_length(workload::build(self.workload, self.params()).has_an_end())?;
        let report_dir = match &self.report {
            Some(dir) => Some(report::claim(dir, self.db.as_deref())?),
            None => None,
        };
        stop::install();
        let mut progress = Progress::on_stderr();
        let loaded = self.loaded(&options, &mut progress)?;
        if self.clients.ramp.is_empty() {
            self.measure(&loaded, report_dir, &mut progress)
        } else {
            self.climb(&loaded, report_dir, &mut progress)
        }
    }

    /// Refuses a run that would measure nothing, and steps of a workload that ends by itself.
    pub(super) fn check_length(&self, has_an_end: bool) -> Outcome {
        if self.seconds.is_zero() && !has_an_end {
            return Err(Failure::misuse("--seconds 0 would measure nothing"));
        }
        if has_an_end && !self.clients.ramp.is_empty() {
            let name = self.workload.name();
            return Err(Failure::misuse(format!(
                "--ramp needs a workload without an end, and {name} has one"
            )));
        }
        Ok(())
    }

    /// Opens the database, and loads the tables if they are not there.
    fn loaded(&self, options: &Options, progress: &mut Progress) -> Outcome<Loaded> {
        let mark = self.mark();
        let (mut run_dir, found) = match &self.db {
            _ if self.ephemeral => (None, DirContents::Empty),
            Some(dir) => {
                let (run_dir, found) = RunDir::named(dir, &mark)?;
                (Some(run_dir), found)
            }
            None => (Some(RunDir::fresh(self.keep)?), DirContents::Empty),
        };
        let own_redo = self.redo.dir.as_ref().filter(|_| found == DirContents::Empty);
        let mut redo_dir = own_redo.map(|dir| RunDir::named_empty(dir)).transpose()?;
        let db = match &run_dir {
            Some(run_dir) => options.open(run_dir.dir())?,
            None => options.open_in_memory()?,
        };
        let (mut params, mut load_seconds) = (self.params(), 0.0);
        if found == DirContents::Empty {
            let start = Instant::now();
            self.load(&db, workload::build(self.workload, params).as_ref(), progress)?;
            run_dir.as_mut().map_or(Ok(()), |run_dir| run_dir.load_finished(&mark))?;
            load_seconds = start.elapsed().as_secs_f64();
            if self.keep || self.db.is_some() {
                redo_dir.iter_mut().for_each(RunDir::keep_if_asked);
            }
        } else {
            params = params.after(lsn(&db.metrics()));
        }
        Ok(Loaded { db, run_dir, _redo_dir: redo_dir, params, load_seconds })
    }

    /// Returns what the directory says of the load of this run.
    fn mark(&self) -> LoadMark {
        let contents = self.contents();
        let (tables, rows) = match contents {
            Some(_) => (self.shape().tables, self.shape().rows),
            None => (self.data.tables, self.data.rows),
        };
        LoadMark { workload: self.workload.name(), tables, rows, page_bytes: self.page, contents }
    }

    /// Returns what the tables hold, where that is not so many rows in each.
    pub(super) fn contents(&self) -> Option<String> {
        (self.workload == WorkloadKind::Tpcc).then(|| self.tpcc.setup().load())
    }

    /// Measures once, and shows the result.
    fn measure(&self, loaded: &Loaded, report_dir: Option<ReportDir>, progress: &mut Progress) -> Outcome {
        let Loaded { db, params, load_seconds, .. } = loaded;
        let durable_device = db.is_durable();
        let workload = workload::build(self.workload, *params);
        let measured = drive(db, workload.as_ref(), self.pace(workload.has_an_end()), progress)?;
        let checked = close(db, workload.as_ref(), progress)?;
        let around = RunContext { load_seconds: *load_seconds, durable_device, checked: checked.clone() };
        let result = RunResult::new(self.request(), &measured, around);
        print(&result.table());
        if let Some(file) = &self.json {
            write_json(file, &result.json())?;
        }
        if let Some(dir) = report_dir {
            let origin = self.origin(loaded);
            let report = RunReport { measured: &measured, result: &result, origin };
            show_report(dir, &report.files())?;
        }
        undamaged(&checked)
    }

    /// Measures with more and more threads, and shows a row for each.
    fn climb(&self, loaded: &Loaded, report_dir: Option<ReportDir>, progress: &mut Progress) -> Outcome {
        let db = &loaded.db;
        let climb = climb(&self.clients.ramp, |threads| {
            let workload = workload::build(self.workload, self.params().after(lsn(&db.metrics())));
            let pace = Pace { threads, ..self.pace(false) };
            let Measured { totals, figures, age, samples, began } =
                drive(db, workload.as_ref(), pace, progress)?;
            let counted = Counted {
                fsyncs: Some(figures.fsyncs),
                checkpoint_age_limit: Some(figures.checkpoint_age_limit),
            };
            Ok(Taken { step: Step::new(threads, Turn::new(&totals, &age, counted)), began, samples })
        })?;
        let workload = workload::build(self.workload, loaded.params);
        let checked = close(db, workload.as_ref(), progress)?;
        let ramp = Ramp::new(self.request(), climb.steps.clone(), loaded.load_seconds, checked.clone());
        print(&ramp.end());
        if let Some(file) = &self.json {
            write_json(file, &ramp.json())?;
        }
        if let Some(dir) = report_dir {
            let request = self.request();
            let report = RampReport {
                climb: &climb,
                lead: format!("{} on {}, {}.", request.workload, request.shape.text, request.commits()),
                knee: ramp.knee().unwrap_or_default(),
                fault: checked.fault(),
                origin: self.origin(loaded),
            };
            show_report(dir, &report.files())?;
        }
        undamaged(&checked)
    }

    /// Returns how a report of a run on a database was made.
    fn origin(&self, loaded: &Loaded) -> Origin {
        Origin {
            command: report::command(),
            parameters: self.parameters(),
            machine: machine_facts(loaded.run_dir.as_ref().map(RunDir::dir), loaded.db.is_durable()),
        }
    }

    /// Loads the tables and takes a checkpoint, which makes the load durable.
    fn load(&self, db: &Db, workload: &dyn Workload, progress: &mut Progress) -> Outcome {
        let rows_loaded = AtomicU64::new(0);
        let loader = Loader { db, threads: load_threads(), rows_loaded: &rows_loaded };
        show_load(progress, &rows_loaded, || workload.load(&loader))?;
        db.checkpoint()?;
        sound(workload.conditions(db)?.as_deref())
    }

    /// Returns the isolation level of a database in this process.
    fn level(&self) -> Isolation {
        self.isolation.unwrap_or_default()
    }

    pub(super) fn params(&self) -> WorkloadParams {
        WorkloadParams {
            tables: self.data.tables,
            rows: self.data.rows,
            distribution: self.data.distribution,
            seed: self.data.seed,
            begin: TxnSettings { durability: self.durability.durability(), isolation: self.level() },
            tpcc: self.tpcc.setup(),
        }
    }

    pub(super) fn pace(&self, has_an_end: bool) -> Pace {
        Pace {
            threads: self.clients.threads,
            warmup: if has_an_end { Duration::ZERO } else { self.warmup },
            seconds: (!has_an_end).then_some(self.seconds),
            rate: self.clients.rate.map(|rate| (rate, self.clients.burst)),
            sampled: self.report.is_some(),
        }
    }

    fn show_rate(&self) -> String {
        let Some(rate) = self.clients.rate else { return "as fast as the threads can".to_owned() };
        let burst = self.clients.burst.map_or(String::new(), |burst| {
            format!(", {} times as many in a tenth of each {} s", burst.factor, burst.every.as_secs_f64())
        });
        format!("{rate} starts a second at random{burst}")
    }

    /// Returns all parameters, including defaults, for people.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let redo = match (self.redo.recovery_target, self.redo.redo_capacity) {
            (_, Some(bytes)) => format!("capacity {}", show_size(bytes as f64)),
            _ if self.ephemeral => "as small as serves a database in memory".to_owned(),
            (Some(target), None) => format!("recovery target {} s", target.as_secs_f64()),
            (None, None) => "recovery target 10 s".to_owned(),
        };
        let redo_dir =
            self.redo.dir.as_ref().map_or("the database's".to_owned(), |dir| dir.display().to_string());
        let mut parameters = self.work_parameters(workload::build(self.workload, self.params()).has_an_end());
        parameters.extend([
            ("buffer pool", show_size(self.pool as f64)),
            ("page", show_size(f64::from(self.page))),
            ("redo log", redo),
            ("directory of the redo log", redo_dir),
            ("doublewrite", if self.unsafe_no_doublewrite { DOUBLEWRITE_OFF } else { "on" }.to_owned()),
            ("law", self.law.show()),
            (
                "durability",
                if self.ephemeral { "none: in memory".into() } else { flag_name(&self.durability) },
            ),
            ("isolation", self.level().name().to_owned()),
        ]);
        parameters
    }

    /// Returns the parameters of the work, whatever it is done on; `ends` says that it ends by
    /// itself.
    pub(super) fn work_parameters(&self, ends: bool) -> Vec<(&'static str, String)> {
        let times = (self.seconds.as_secs_f64(), self.warmup.as_secs_f64());
        let length = if ends {
            "until the work was done".to_owned()
        } else {
            format!("{} s after a warm-up of {} s", times.0, times.1)
        };
        let threads = match self.clients.ramp.as_slice() {
            [] => self.clients.threads.to_string(),
            steps => {
                steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ") + ", one after the other"
            }
        };
        vec![
            ("workload", self.workload.name()),
            ("tables", self.shape().text),
            ("threads", threads),
            ("rate", self.show_rate()),
            ("length", length),
            ("seed", self.data.seed.to_string()),
        ]
    }

    fn options(&self) -> Options {
        let mut options = own_process::options().buffer_pool_bytes(self.pool).page_bytes(self.page as usize);
        if self.unsafe_no_doublewrite {
            options = options.doublewrite(Doublewrite::UnsafeOff);
        }
        self.redo.apply(options)
    }

    /// Returns what the run works on.
    pub(super) fn shape(&self) -> Shape {
        self.workload.shape(
            self.clients.threads,
            (self.data.tables, self.data.rows, &flag_name(&self.data.distribution)),
            self.tpcc.setup(),
        )
    }

    fn request(&self) -> Request {
        Request {
            workload: self.workload.name(),
            threads: self.clients.most_threads(),
            shape: self.shape(),
            distribution: flag_name(&self.data.distribution),
            durability: flag_name(&self.durability),
            ephemeral: self.ephemeral,
            isolation: self.level().name().to_owned(),
            page_bytes: self.page,
            pool_bytes: self.pool,
            law: self.law.show(),
            rate: self.clients.rate,
        }
    }
}
