//! `millpond bench laws`: the same write-heavy load under Millpond's law of flow control and under
//! InnoDB's.

use super::filled_database::{self, Database};
use super::scratch;
use crate::driver::drive;
use crate::law::Capacities;
use crate::progress::Progress;
use crate::report::{LawsReport, machine_facts};
use crate::result::{Checked, Request, RunContext, RunResult};
use crate::workload::tpcc::TpccSetup;
use crate::workload::{self, WorkloadKind};
use clap::ValueEnum;
use millpond::{InnodbLaw, Law, Options};
use output::failure::{Failure, Outcome};
use output::report;
use output::report::page::Origin;
use output::units::{parse_seconds, parse_size, show_count, show_size};
use std::path::PathBuf;
use std::time::Duration;

const NOTES: &str = "\
The engine, the load, the log and the durability are the same: each commit returns when it is
synced. Only the law differs, which says how many pages are written when, and what happens to
writers. Each law gets a new database. Shows how steady the commits are: the worst second against
the median one, how often an operation was stopped, and how long operations were delayed or stopped
in all. InnoDB's law counts in pages of 8 KiB here.";

/// Commits a second under Millpond's law of flow control and under InnoDB's, with a short log
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Laws {
    /// Length of the measured phase of each law
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    seconds: Duration,
    /// Time that the workload runs before it is measured
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    warmup: Duration,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Tables
    #[arg(long, value_name = "T", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "R", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000_000))]
    rows: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pool: u64,
    /// Redo capacity
    #[arg(long, value_name = "SIZE", default_value = "96MiB", value_parser = parse_size)]
    redo_capacity: u64,
    /// Whose formulas InnoDB's law has: mariadb (10.11) or mysql (8)
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Server::Mariadb, hide_possible_values = true)]
    server: Server,
    #[command(flatten)]
    capacities: Capacities,
    /// Write a plot of both and a page that shows it, DIR/index.html [default: none]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    Mariadb,
    Mysql,
}

impl Laws {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.seconds.is_zero() {
            return Err(Failure::misuse("--seconds 0 would measure nothing"));
        }
        let innodb = self.capacities.of(match self.server {
            Server::Mariadb => InnodbLaw::mariadb(),
            Server::Mysql => InnodbLaw::mysql(),
        })?;
        let report_dir = self.report.as_ref().map(|dir| report::claim(dir, None)).transpose()?;
        let server = self.server.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let name = format!("InnoDB's, {server}, {}", self.capacities.show());
        let sides =
            [self.measure("Millpond's".to_owned(), Law::Millpond)?, self.measure(name, Law::Innodb(innodb))?];
        let machine = machine_facts(Some(scratch()?.dir()), sides.iter().all(|side| side.durable_device));
        let report = LawsReport {
            sides: &sides,
            origin: Origin { command: report::command(), parameters: self.parameters(), machine },
        };
        output::print(&report.text());
        if let Some(dir) = report_dir {
            say!("report: {}", report::write(dir, &report.files())?);
        }
        Ok(())
    }

    /// Runs the load on a new database under a law.
    fn measure(&self, name: String, law: Law) -> Outcome<RunResult> {
        let params = filled_database::uniform(self.tables, self.rows);
        let options = Options::new().buffer_pool_bytes(self.pool).redo_capacity_bytes(self.redo_capacity);
        let workload = workload::build(WorkloadKind::WriteHeavy, params);
        let database = Database::filled(options.law(law), WorkloadKind::WriteHeavy, params)?;
        let db = &database.db;
        let pace = filled_database::full_speed(self.threads, self.warmup, self.seconds);
        let measured = drive(db, workload.as_ref(), pace, &mut Progress::on_stderr())?;
        let durable_device = db.is_durable();
        database.check_and_close(&format!("the run under {name} law"))?;
        let around = RunContext {
            load_seconds: 0.0,
            durable_device,
            checked: Checked { check: "ok".to_owned(), consistency: None },
        };
        Ok(RunResult::new(self.request(name), &measured, around))
    }

    fn request(&self, law: String) -> Request {
        let shape = WorkloadKind::WriteHeavy.shape(
            self.threads,
            (self.tables, self.rows, "uniform"),
            TpccSetup::default(),
        );
        Request {
            workload: WorkloadKind::WriteHeavy.name(),
            threads: self.threads,
            shape,
            distribution: "uniform".to_owned(),
            durability: "sync".to_owned(),
            ephemeral: false,
            isolation: "repeatable-read".to_owned(),
            page_bytes: 8192,
            pool_bytes: self.pool,
            law,
            rate: None,
        }
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("workload", WorkloadKind::WriteHeavy.name()),
            ("tables", format!("{} of {} rows", self.tables, show_count(f64::from(self.rows)))),
            ("threads", self.threads.to_string()),
            (
                "length",
                format!(
                    "{} s after a warm-up of {} s",
                    self.seconds.as_secs_f64(),
                    self.warmup.as_secs_f64()
                ),
            ),
            ("buffer pool", show_size(self.pool as f64)),
            ("redo log", format!("capacity {}", show_size(self.redo_capacity as f64))),
            ("InnoDB's law", self.capacities.show()),
        ]
    }
}
