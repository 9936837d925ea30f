//! Runs the same SQL on InnoDB and on Millpond in one server, and compares the answers.
//!
//! [`generate`] makes cases from seeds, [`world`] runs each statement in two databases at the same
//! moment, [`answer`] compares, [`permitted`], [`locks`] and [`by_plan`] find the differences that
//! are right, by what a [`statement`] says, [`replica`] compares a replica of the server with it,
//! [`minimise`] shortens a case that shows another one. [`mod@collations`] compares the order of
//! strings, [`tpch`] the plans of TPC-H's queries.

mod answer;
mod by_plan;
mod case;
mod client;
mod collations;
mod generate;
mod locks;
mod minimise;
mod permitted;
mod plan;
mod replica;
mod run_cases;
mod session;
mod statement;
mod strings;
mod tpch;
mod world;

use super::make_dir;
use super::server::{self, Server};
use super::steps::{definitions_fit, in_own_directory};
use super::topologies::group::with_replica;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The server ends by itself this long after the comparison should have ended.
const GRACE: Duration = Duration::from_secs(1800);
/// Statements that are compared on a server with a replica, where that is one check of many.
const FEW: u64 = 2_000;
/// The longest time for these, seconds.
const LONGEST: u64 = 3_600;
/// Nothing here has to survive the machine.
const OPTIONS: [&str; 5] = [
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--millpond-flush-log-at-trx-commit=0",
    "--millpond-buffer-pool-size=64M",
];

/// How random statements are compared.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Where the statements come from
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// How many statements at least
    #[arg(long, default_value_t = 100_000)]
    pub(super) statements: u64,
    /// The longest time
    #[arg(long, default_value_t = 7200)]
    pub(super) seconds: u64,
    /// Only this case of the seed
    #[arg(long)]
    pub(super) case: Option<u64>,
    /// With a binary log and a replica, whose tables are compared after each case
    #[arg(long, conflicts_with = "replay")]
    pub(super) replica: bool,
    /// Instead, a script that a finding printed
    #[arg(long)]
    pub(super) replay: Option<PathBuf>,
}

/// Which collations are compared.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CollationArgs {
    /// Where the strings and the share come from
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The longest time
    #[arg(long, default_value_t = 14_400)]
    pub(super) seconds: u64,
    /// Only collations with this in their names
    #[arg(long, default_value = "")]
    pub(super) like: String,
    /// One of so many collations
    #[arg(long, default_value_t = 1)]
    pub(super) share: u64,
}

/// How the plans of TPC-H's queries are compared.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// TPC-H's scale factor: 1 is about 1 GB
    #[arg(long, default_value_t = 0.1)]
    pub(super) scale: f64,
}

/// Compares the plans of TPC-H's queries.
pub(super) fn plans(args: &PlanArgs) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("millpond-tpch-{}", std::process::id()));
    make_dir(&dir)?;
    let outcome = on_a_server(GRACE, |server| {
        tpch::run(&tpch::Plan { socket: server.socket.clone(), scale: args.scale, dir: dir.clone() })
    });
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

/// Compares collations.
pub(super) fn collations(args: &CollationArgs) -> Result<(), String> {
    let limit = Duration::from_secs(args.seconds);
    on_a_server(limit + GRACE, |server| {
        let (socket, like) = (server.socket.clone(), args.like.clone());
        collations::run(&collations::Plan { socket, seed: args.seed, limit, like, share: args.share.max(1) })
    })
}

/// Compares random statements, or replays a script.
pub(super) fn statements(args: &Args) -> Result<(), String> {
    let life = Duration::from_secs(args.seconds) + GRACE;
    match &args.replay {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            on_a_server(life, |server| run_cases::replay(&server.socket, &case::read_script(&text)))
        }
        None if args.replica => in_own_directory(|dir| beside_a_replica(dir, args)),
        None => on_a_server(life, |server| run_cases::run(&plan(args, server, None))),
    }
}

fn plan(args: &Args, server: &Server, replica: Option<&Server>) -> run_cases::Plan {
    run_cases::Plan {
        socket: server.socket.clone(),
        seed: args.seed,
        statements: args.statements,
        limit: Duration::from_secs(args.seconds),
        only: args.case,
        replica: replica.map(|replica| replica.socket.clone()),
    }
}

/// Compares random statements on a server with a replica.
fn beside_a_replica(dir: &Path, args: &Args) -> Result<(), String> {
    with_replica(dir, &OPTIONS, |server, replica| {
        run_cases::run(&plan(args, server, Some(replica))).and_then(|()| definitions_fit(server))
    })
}

/// Compares a few random statements on a server with a replica.
pub(super) fn few_beside_a_replica(dir: &Path) -> Result<(), String> {
    let args = Args { seed: 1, statements: FEW, seconds: LONGEST, case: None, replica: true, replay: None };
    beside_a_replica(dir, &args)
}

/// Compares on a server of its own.
fn on_a_server(life: Duration, compare: impl FnOnce(&Server) -> Result<(), String>) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("millpond-compare-{}", std::process::id()));
    make_dir(&dir)?;
    let server = server::start(&dir, life, &OPTIONS)?;
    let outcome = compare(&server).and_then(|()| definitions_fit(&server));
    let stopped = server::stop(&dir);
    if outcome.is_ok() && stopped.is_ok() {
        let _ = std::fs::remove_dir_all(&dir);
    } else {
        println!("the server's files are left in {}", dir.display());
    }
    outcome.and(stopped)
}
