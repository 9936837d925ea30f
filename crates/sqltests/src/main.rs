//! `cargo xtask mariadb` runs this program: it builds the storage engine plugin for the machine's
//! MariaDB, runs private servers with it, and tests it.
//!
//! A plugin is compiled against private headers of the server, and those come only with the
//! server's source package. [`packages`] installs what is missing, [`headers`] fetches the headers,
//! [`layout`] proves that they fit the installed server, [`compile`] builds the plugin, [`server`]
//! starts and stops private servers, [`smoke`] runs the tests, [`reports`] those of what the plugin
//! says of itself, [`lab`] those of the program `millpond` that need a server, also against another
//! [`release`], [`serve`] those of its dashboard; [`steps`] is what these share; [`own_load`]
//! measures what the program costs a server, [`driver_rate`] how fast its loads are beside
//! sysbench. [`kills`], [`binlog_kills`] and [`mod@cuts`] end servers under load, the last by power
//! cuts. [`restart`] measures how soon a killed one commits again. [`mod@topologies`] sets up
//! replication in many ways, and measures how fast a replica applies.
//!
//! Four compare Millpond with InnoDB: [`mod@compare`] by random statements, by strings of all
//! collations and by TPC-H's queries, [`adapted`] by MariaDB's own tests, [`programs`] by those of
//! programs that use a database, [`mod@bench`] by figures. [`differences`] lists those that are
//! right. [`suites`] runs MariaDB's suites for storage engines. [`proof`] says how much of these
//! runs by itself. Everything that is made lies under `target/mariadb`.

mod adapted;
mod bench;
mod binlog_kills;
mod build;
mod calls;
mod clients;
mod compare;
mod compile;
mod compiler;
mod cuts;
mod differences;
mod driver_rate;
mod dumped;
mod elf;
mod hardships;
mod headers;
mod kills;
mod lab;
mod layout;
mod listed;
mod monitor;
mod other_debian;
mod own_load;
mod packages;
mod places;
mod programs;
mod proof;
mod release;
mod repeated;
mod replicas;
mod reports;
mod restart;
mod serve;
mod server;
mod sessions;
mod share;
mod shell;
mod smoke;
mod snapshots;
mod steps;
mod suites;
mod sysbench;
mod together;
mod topologies;
mod torn;
mod trace;
mod tree;
mod turn_durability;
mod variants;
mod watchdog;
mod xa;

use build::{build, build_and_load, build_for_figures, build_for_tests};
use clap::{Parser, Subcommand};
use places::{Profile, plugin_path, target};
use proof::Amount;
use server::sql;
use shell::{is_root, make_dir, output, write};
use smoke::Part;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build, run and test the storage engine plugin of MariaDB, on Debian
#[derive(Debug, Parser)]
#[command(name = "sqltests", bin_name = "cargo xtask mariadb", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build target/mariadb/ha_millpond.so; as root, install what is missing
    Build,
    /// Start a private server with the plugin on a socket in a directory; print how to connect
    Start {
        /// Its directory; data that is there stays
        dir: PathBuf,
    },
    /// Stop the server of a directory
    Stop {
        /// Its directory
        dir: PathBuf,
    },
    /// Run the plugin's tests: of what takes long, and of the commands that compare, a share
    Test {
        /// Only this part
        #[arg(long)]
        only: Option<Part>,
        /// Of the scripts only this one, and nothing else
        #[arg(long, conflicts_with_all = ["only", "all"])]
        script: Option<String>,
        /// Of what can happen to a server only that whose name has this text, and nothing else
        #[arg(long, conflicts_with_all = ["only", "all", "script"])]
        hardship: Option<String>,
        /// No share, but all: hours, with `--only hardships` minutes
        #[arg(long)]
        all: bool,
        /// Which plugin; if not given, that with all assertions for three commits of four
        #[arg(long)]
        profile: Option<Profile>,
    },
    /// Run `test --only serve`, and write the pictures of docs/serve.md
    Pictures,
    /// Try the program's commands against a live server, and measure what a collection costs
    Lab(lab::Args),
    /// Kill a server under load again and again, and look for all that it has acknowledged
    Kills(kills::Args),
    /// Cut the power of a server under load again and again, and look for what it has acknowledged
    Cuts(cuts::Args),
    /// Kill a primary and its replica under load again and again, and compare them
    Replicas(replicas::Args),
    /// Measure how fast a replica applies writes, with Millpond and with InnoDB
    ApplyRate(topologies::rate::Args),
    /// Measure how soon a killed server commits again, with Millpond and with InnoDB
    RestartTime(restart::Args),
    /// Measure how fast `run --target` drives a server, beside sysbench
    DriverRate(driver_rate::Args),
    /// Measure what `serve` and `collect` cost a server
    OwnLoad(own_load::Args),
    /// Measure the plugin beside InnoDB in the same server
    Bench(bench::Args),
    #[command(flatten)]
    Proof(proof::Proof),
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("sqltests") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("sqltests: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command.
fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Build => build(Profile::Release).map(|plugin| println!("{}", plugin.display())),
        Command::Start { dir } => start(&dir),
        Command::Stop { dir } => server::stop(&dir),
        Command::Test { only, script, hardship, all, profile } => {
            let profile = profile.unwrap_or_else(profile_of_commit);
            checkout::step(&format!("build of the plugin ({profile:?})"), || build_and_load(profile))?;
            match (hardship, script) {
                (Some(part), _) => smoke::run_hardships(&part),
                (None, Some(name)) => smoke::run_script(&name),
                (None, None) => test(only, if all { Amount::All } else { Amount::Share }),
            }
        }
        Command::Pictures => build_for_figures().and_then(|()| smoke::pictures()),
        Command::Lab(args) => lab::run_alone(&args),
        Command::Kills(args) => kills::run(&args),
        Command::Cuts(args) => cuts::run(&args),
        Command::Replicas(args) => replicas::run(&args),
        Command::ApplyRate(args) => topologies::rate::run(&args),
        Command::RestartTime(args) => restart::run(&args),
        Command::DriverRate(args) => driver_rate::run(&args),
        Command::OwnLoad(args) => own_load::run(&args),
        Command::Bench(args) => build_for_figures().and_then(|()| bench::run(&args)),
        Command::Proof(proof) => build_for_tests().and_then(|()| proof.run()),
    }
}

/// Returns which plugin is tested: for most commits that with all assertions, which is nearly built
/// after the tests of the workspace, for the others that for use.
fn profile_of_commit() -> Profile {
    if checkout::seed() % 4 == 1 { Profile::Release } else { Profile::Debug }
}

/// Runs the tests of the plugin that is built, or only a part of them.
fn test(only: Option<Part>, amount: Amount) -> Result<(), String> {
    if only != Some(Part::Proofs) {
        smoke::run(only, amount)?;
    }
    match only {
        None | Some(Part::Proofs) => proof::run(amount),
        Some(Part::Scripts | Part::Sysbench | Part::Hardships | Part::Lab | Part::Serve | Part::Trace) => {
            Ok(())
        }
    }
}

fn start(dir: &Path) -> Result<(), String> {
    if !plugin_path().exists() {
        build(Profile::Release)?;
    }
    let server = server::start(dir, server::LIFE, &[])?;
    println!("connect with: mariadb --no-defaults --user=root --socket={}", server.socket.display());
    println!(
        "end it with: cargo xtask mariadb stop {}; it ends by itself after {} minutes",
        dir.display(),
        server::LIFE.as_secs() / 60
    );
    Ok(())
}
