//! Runs the same SQL on InnoDB and on Millpond in one server, and compares the answers.
//!
//! [`generate`] makes cases from seeds, [`world`] runs each statement in two databases at the same
//! moment, [`answer`] compares, [`permitted`], [`locks`] and [`by_plan`] list the differences that
//! are right, by what a [`statement`] says, [`replica`] compares a replica of the server with it,
//! [`minimise`] shortens a case that shows another one. [`collations`] compares the order of
//! strings, [`tpch`] the plans of TPC-H's queries. `cargo xtask mariadb compare` starts the
//! server.

mod answer;
mod by_plan;
mod case;
mod client;
mod collations;
mod generate;
mod locks;
mod minimise;
mod permit;
mod permitted;
mod plan;
mod replica;
mod run;
mod session;
mod statement;
mod strings;
mod tpch;
mod world;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Compare InnoDB and Millpond in a running server
#[derive(Debug, Parser)]
#[command(name = "sqlcompare", arg_required_else_help = true)]
struct Cli {
    /// The server's socket; its databases cmp_innodb and cmp_millpond are dropped
    #[arg(long)]
    socket: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run random statements
    Statements {
        /// Where the cases come from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many statements at least
        #[arg(long, default_value_t = 100_000)]
        statements: u64,
        /// The longest time
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// Only this case
        #[arg(long)]
        case: Option<u64>,
        /// How many findings end the run
        #[arg(long, default_value_t = 5)]
        findings: u64,
        /// The socket of a replica of the server, whose tables are compared after each case
        #[arg(long)]
        replica: Option<PathBuf>,
    },
    /// Compare all collations, by generated strings in indexes of all kinds
    Collations {
        /// Where the strings come from, and the share of the collations
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The longest time
        #[arg(long, default_value_t = 7200)]
        seconds: u64,
        /// Only collations with this in their names
        #[arg(long, default_value = "")]
        like: String,
        /// One of so many collations
        #[arg(long, default_value_t = 1)]
        share: u64,
    },
    /// Compare plans and rows of TPC-H's queries
    Plans {
        /// TPC-H's scale factor: 1 is about 1 GB
        #[arg(long, default_value_t = 0.1)]
        scale: f64,
        /// An empty directory that the server can read
        #[arg(long)]
        dir: PathBuf,
    },
    /// Run a script that a finding printed
    Replay {
        /// The script
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("sqlcompare") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let socket = cli.socket;
    let done = match cli.command {
        Command::Statements { seed, statements, seconds, case, findings, replica } => {
            let limit = Duration::from_secs(seconds);
            run::run(&run::Plan { socket, seed, statements, limit, only: case, findings, replica })
        }
        Command::Collations { seed, seconds, like, share } => {
            let limit = Duration::from_secs(seconds);
            collations::run(&collations::Plan { socket, seed, limit, like, share: share.max(1) })
        }
        Command::Plans { scale, dir } => tpch::run(&tpch::Plan { socket, scale, dir }),
        Command::Replay { file } => std::fs::read_to_string(&file)
            .map_err(|e| format!("{}: {e}", file.display()))
            .and_then(|text| run::replay(&socket, &case::read_script(&text))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("sqlcompare: {what}");
            ExitCode::FAILURE
        }
    }
}
