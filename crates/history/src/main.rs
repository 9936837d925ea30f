//! The command line of the isolation checker, the stress test and the soak test.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use history::anomalies::check;
use history::elle;
use history::workload::Workload;
use history::workload_run::{Plan, run};
use history::{soak, stress};
use millpond::Isolation;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs many transactions at once on the real engine and checks their results against their
/// isolation level.
///
/// Exit status 0 if everything is allowed, 1 if not, 2 for wrong arguments.
#[derive(Debug, Parser)]
#[command(name = "history", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    check: Check,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All kinds of transactions at all levels on the real disk, with a buffer pool far smaller
    /// than the data
    Stress(Stress),
    /// Everything at once for hours, killed and opened again, on a disk that fills; then everything
    /// is added up
    Soak(soak::Plan),
    /// Hundreds of kills in a row of a process that works at once, in several databases
    Kills(soak::kills::Plan),
    /// The process that `soak` and `kills` kill
    #[command(hide = true)]
    SoakLife(soak::LifeOptions),
}

#[derive(Debug, Args)]
struct Check {
    /// append, register, bank, fork, range, or all
    #[arg(long, default_value = "all", value_parser = workloads)]
    workload: Workloads,
    /// The isolation level of all transactions
    #[arg(long, value_parser = levels(), default_value = Isolation::Serializable.name())]
    isolation: Isolation,
    /// Transactions of each workload
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Client threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    threads: u64,
    /// Decides what the transactions do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cut the power every few thousand transactions; only for the workload append
    #[arg(long)]
    cuts: bool,
}

#[derive(Debug, Args)]
struct Stress {
    /// How long to run, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Client threads
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    threads: u64,
    /// Groups of rows, each about 20 KB
    #[arg(long, default_value_t = 6_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    groups: u32,
    /// Size of the buffer pool in KiB
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pool_kib: u64,
    /// Directory of the database; must not exist. Removed if nothing is found [default: stress-PID]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Decides what the clients do
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Returns the parser of an isolation level's name.
fn levels() -> impl TypedValueParser<Value = Isolation> {
    PossibleValuesParser::new(Isolation::ALL.iter().map(|level| level.name()))
        .map(|name| Isolation::named(&name).expect("the name of a level"))
}

#[derive(Clone, Debug)]
struct Workloads(Vec<Workload>);

fn workloads(name: &str) -> Result<Workloads, String> {
    let named: Vec<Workload> =
        Workload::ALL.iter().copied().filter(|w| name == "all" || w.name() == name).collect();
    if named.is_empty() { Err(format!("there is no workload {name}")) } else { Ok(Workloads(named)) }
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("history") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match cli.command {
        Some(Command::Stress(stress)) => done(stress.run()),
        Some(Command::Soak(plan)) => done(soak::run(&plan)),
        Some(Command::Kills(plan)) => done(soak::kills::run(&plan)),
        Some(Command::SoakLife(options)) => done(soak::run_life(&options).map(|()| "")),
        None => cli.check.run(),
    }
}

/// Prints the report, or the error, and returns the exit status.
fn done(outcome: Result<impl Display, String>) -> ExitCode {
    match outcome {
        Ok(report) => {
            if !report.to_string().is_empty() {
                println!("{report}");
            }
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("history: {what}");
            ExitCode::FAILURE
        }
    }
}

impl Stress {
    fn run(self) -> Result<stress::Report, String> {
        let plan = stress::Plan {
            dir: self.dir.unwrap_or_else(|| format!("stress-{}", std::process::id()).into()),
            threads: self.threads,
            time: Duration::from_secs(self.seconds),
            groups: self.groups,
            pool_bytes: self.pool_kib << 10,
            redo_bytes: 64 << 20,
            seed: self.seed,
        };
        if plan.dir.exists() {
            return Err(format!("{} is there already", plan.dir.display()));
        }
        stress::run(&plan).map_err(|what| format!("{what} (left in {})", plan.dir.display()))
    }
}

impl Check {
    fn run(self) -> ExitCode {
        let mut workloads = self.workload.0;
        if self.cuts {
            workloads.retain(|w| *w == Workload::Append);
            if workloads.is_empty() {
                eprintln!("history: --cuts needs the workload append");
                return ExitCode::from(2);
            }
        }
        let mut clean = true;
        for workload in workloads {
            let (isolation, threads, transactions) = (self.isolation, self.threads, self.transactions);
            let (seed, cuts) = (self.seed, self.cuts);
            clean &= examine(&Plan { workload, isolation, threads, transactions, seed, cuts });
        }
        if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs one workload and prints the anomalies of its history. Returns whether all of them are
/// allowed.
fn examine(plan: &Plan) -> bool {
    let (mut clean, workload) = (true, plan.workload);
    let start = Instant::now();
    let history = run(plan);
    let ran = start.elapsed().as_secs_f64();
    let verdict = check(&history);
    let took = start.elapsed().as_secs_f64() - ran;
    println!(
        "{} at {:?}: {} of {} transactions committed, {} dependencies, {} power cuts; ran {ran:.1} s, checked {took:.1} s",
        workload.name(),
        plan.isolation,
        verdict.txns,
        history.txns.len(),
        verdict.edges,
        history.cuts,
    );
    println!("  shows {:?}", verdict.found.keys().collect::<Vec<_>>());
    for (anomaly, example) in verdict.forbidden(plan.isolation) {
        clean = false;
        println!("  {anomaly:?} is not allowed:\n{example}");
    }
    // Where updates may be lost, a list may lose elements, which the other checker does not accept.
    let weak = !plan.isolation.repeats_reads() && workload == Workload::Append;
    match elle::ask(&history, plan.isolation) {
        Ok(against) if against.is_empty() => println!("  adya: valid"),
        Ok(against) => {
            println!("  adya: {against:?}");
            clean &= weak;
        }
        Err(why) => println!("  adya: {why}"),
    }
    clean
}
