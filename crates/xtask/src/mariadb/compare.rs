//! Comparisons with InnoDB in the same private server, by the program `sqlcompare`.

use super::make_dir;
use super::server::{self, Server};
use super::steps::{definitions_fit, in_own_directory};
use super::topologies::group::with_replica;
use crate::checkout::root;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The server ends by itself this long after the comparison should have ended.
const GRACE: Duration = Duration::from_secs(1800);
/// Statements that are compared on a server with a replica, where that is one check of many.
const FEW: u32 = 2_000;
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
    let words = ["plans".to_owned(), format!("--scale={}", args.scale), format!("--dir={}", dir.display())];
    let outcome = run(&words, GRACE);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

/// Compares collations.
pub(super) fn collations(args: &CollationArgs) -> Result<(), String> {
    let words = [
        "collations".to_owned(),
        format!("--seed={}", args.seed),
        format!("--seconds={}", args.seconds),
        format!("--like={}", args.like),
        format!("--share={}", args.share),
    ];
    run(&words, Duration::from_secs(args.seconds) + GRACE)
}

/// Compares random statements, or replays a script.
pub(super) fn statements(args: &Args) -> Result<(), String> {
    let mut words: Vec<String> = match &args.replay {
        Some(file) => vec!["replay".to_owned(), file.display().to_string()],
        None => vec![
            "statements".to_owned(),
            format!("--seed={}", args.seed),
            format!("--statements={}", args.statements),
            format!("--seconds={}", args.seconds),
        ],
    };
    words.extend(args.case.map(|case| format!("--case={case}")));
    if args.replica {
        return in_own_directory(|dir| beside_a_replica(dir, &words));
    }
    run(&words, Duration::from_secs(args.seconds) + GRACE)
}

/// Runs the program against a server with a replica.
fn beside_a_replica(dir: &Path, words: &[String]) -> Result<(), String> {
    with_replica(dir, &OPTIONS, |server, replica| {
        let replica = format!("--replica={}", replica.socket.display());
        program(server, &[words, &[replica]].concat()).and_then(|()| definitions_fit(server))
    })
}

/// Compares a few random statements on a server with a replica.
pub(super) fn few_beside_a_replica(dir: &Path) -> Result<(), String> {
    let words = ["statements".to_owned(), format!("--statements={FEW}")];
    beside_a_replica(dir, &words)
}

/// Runs the program against a server of its own.
fn run(words: &[String], life: Duration) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("millpond-compare-{}", std::process::id()));
    make_dir(&dir)?;
    let server = server::start(&dir, life, &OPTIONS)?;
    let outcome = program(&server, words).and_then(|()| definitions_fit(&server));
    let stopped = server::stop(&dir);
    if outcome.is_ok() && stopped.is_ok() {
        let _ = std::fs::remove_dir_all(&dir);
    } else {
        println!("the server's files are left in {}", dir.display());
    }
    outcome.and(stopped)
}

fn program(server: &Server, words: &[String]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "sqlcompare", "--"]);
    command.arg(format!("--socket={}", server.socket.display())).args(words).current_dir(root());
    let status = command.status().map_err(|e| format!("cannot start cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("InnoDB and Millpond differ".to_owned()) }
}
