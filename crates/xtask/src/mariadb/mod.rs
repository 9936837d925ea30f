//! `cargo xtask mariadb`: builds the storage engine plugin for the machine's MariaDB, runs private
//! servers with it, and tests it.
//!
//! A plugin is compiled against private headers of the server, and those come only with the
//! server's source package. [`packages`] installs what is missing, [`headers`] fetches the headers,
//! [`layout`] proves that they fit the installed server, [`compile`] builds the plugin, [`server`]
//! starts and stops private servers, [`smoke`] runs the tests, [`reports`] those of what the plugin
//! says of itself, [`lab`] those of the program
//! `millpond` that need a server, also against another [`release`], [`serve`] those of its
//! dashboard; [`steps`] is what these share; [`own_load`] measures what the program costs a server.
//! [`kills`], [`binlog_kills`] and [`mod@cuts`] end servers under load, the last by power cuts.
//! [`restart`] measures how soon a killed one commits again.
//! [`mod@topologies`] sets up replication in many ways, and measures how fast a replica applies.
//! [`suites`] runs MariaDB's suites for storage engines, [`adapted`] runs its other tests with
//! InnoDB and with Millpond, [`programs`] does so with the tests of programs that use a database,
//! [`proof`] says how much of these runs by itself, and [`mod@bench`]
//! measures. Everything that is made lies under `target/mariadb`.

mod adapted;
mod bench;
mod binlog_kills;
mod calls;
mod compare;
mod compile;
mod cuts;
mod dumped;
mod elf;
mod hardships;
mod headers;
mod kills;
mod lab;
mod layout;
mod listed;
mod load;
mod monitor;
mod own_load;
mod packages;
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
mod smoke;
mod snapshots;
mod steps;
mod suites;
mod topologies;
mod trace;
mod tree;
mod variants;
mod xa;

use crate::root;
use clap::Subcommand;
use proof::Amount;
use smoke::Part;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
    /// Run the plugin's tests, and a share of the commands that compare it with others
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
        /// All that compares with InnoDB whole: hours
        #[arg(long)]
        all: bool,
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
    /// Measure what `serve` and `collect` cost a server
    OwnLoad(own_load::Args),
    /// Measure the plugin beside InnoDB in the same server
    Bench(bench::Args),
    #[command(flatten)]
    Proof(proof::Proof),
}

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Build => build().map(|plugin| println!("{}", plugin.display())),
        Command::Start { dir } => start(&dir),
        Command::Stop { dir } => server::stop(&dir),
        Command::Test { hardship: Some(part), .. } => {
            build_for_tests().and_then(|()| smoke::run_hardships(&part))
        }
        Command::Test { script: Some(name), .. } => build_for_tests().and_then(|()| smoke::run_script(&name)),
        Command::Test { only, all, script: None, hardship: None } => {
            build_for_tests().and_then(|()| test(only, if all { Amount::All } else { Amount::Share }))
        }
        Command::Pictures => build_for_tests().and_then(|()| smoke::pictures()),
        Command::Lab(args) => lab::run_alone(&args),
        Command::Kills(args) => kills::run(&args),
        Command::Cuts(args) => cuts::run(&args),
        Command::Replicas(args) => replicas::run(&args),
        Command::ApplyRate(args) => topologies::rate::run(&args),
        Command::RestartTime(args) => restart::run(&args),
        Command::OwnLoad(args) => own_load::run(&args),
        Command::Bench(args) => build_for_tests().and_then(|()| bench::run(&args)),
        Command::Proof(proof) => build_for_tests().and_then(|()| proof.run()),
    }
}

/// The part of `cargo xtask ci`: builds the plugin and runs its tests. Elsewhere than on Debian,
/// and where packages are missing and the user is not root, this is an error that names the
/// packages.
pub(crate) fn check() -> Result<(), String> {
    run(Command::Test { only: None, script: None, hardship: None, all: false })
}

/// Runs the tests of the plugin that is built, or only a part of them.
fn test(only: Option<Part>, amount: Amount) -> Result<(), String> {
    if only != Some(Part::Proofs) {
        smoke::run(only)?;
    }
    match only {
        None | Some(Part::Proofs) => proof::run(amount),
        Some(Part::Scripts | Part::Sysbench | Part::Hardships | Part::Lab | Part::Serve | Part::Trace) => {
            Ok(())
        }
    }
}

/// Runs statements, and returns what they print.
fn sql(server: &server::Server, text: &str) -> Result<String, String> {
    let said = output(server.client().args(["--batch", "--skip-column-names", "--execute", text]))?;
    Ok(said.trim().to_owned())
}

/// Builds the plugin for tests and measurements, with the programs that these use.
fn build_for_tests() -> Result<(), String> {
    packages::install(&packages::FOR_TESTS)?;
    build().map(drop)
}

/// Builds the plugin, and returns its path.
fn build() -> Result<PathBuf, String> {
    packages::install(&packages::FOR_BUILDING)?;
    let headers = headers::fetch()?;
    compile::plugin(&headers)
}

fn start(dir: &Path) -> Result<(), String> {
    if !plugin_path().exists() {
        build()?;
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

/// Returns the directory of everything that is built here.
fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("mariadb")
}

fn plugin_path() -> PathBuf {
    target().join("ha_millpond.so")
}

fn make_dir(dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
}

/// Runs a program to its end, and returns what it wrote to its standard output. A failure quotes
/// its standard error stream.
fn output(command: &mut Process) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot start {name}: {e}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let lines: Vec<&str> = said.trim().lines().collect();
    Err(format!("{name} failed: {}", lines[lines.len().saturating_sub(20)..].join("\n")))
}

fn is_root() -> bool {
    output(Process::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
