//! The command line: one file for each command, and what the commands share.

mod age;
mod bench;
mod check;
mod collect;
mod compare;
pub(crate) mod crash;
mod explain;
mod inspect;
mod plot;
mod recover;
mod rescue;
pub(crate) mod run;
mod serve;
mod top;
mod torture;
mod trace_fsync;

use crate::bench::after_kill::{AfterKillSuccessor, AfterKillVictim};
use crate::failure::{Failure, Outcome};
use crate::figures::{being_reverted, recovery_left_bytes, recovery_ms};
use crate::run_dir::existing_database;
use crate::stop;
use crate::units::show_size;
use clap::{ArgAction, Parser, Subcommand};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

/// A transactional storage engine with a calm write path: run it, crash it, look inside
#[derive(Debug, Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
// One line for each flag, however wide the terminal is, so grep finds whole sentences in the help.
#[command(term_width = 0, disable_help_flag = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::HelpShort, display_order = 1000)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload and show what happened
    Run(run::Run),
    /// Run, kill -9 itself, reopen, verify every acknowledged commit
    Crash(crash::Crash),
    /// Kill the process and cut the power again and again under load; certify what survives
    Torture(torture::Torture),
    /// Check every page and every tree of a database
    Check(check::Check),
    /// Show what a database's files hold
    Inspect(inspect::Inspect),
    /// Say what a setting or figure of InnoDB, MariaDB, MySQL or Millpond means
    Explain(explain::Explain),
    /// Open a database, wait until it is fully recovered, close it
    Recover(recover::Recover),
    /// Copy every row that can be read of a database that does not recover into a new one
    Rescue(rescue::Rescue),
    /// Watch a server or a database live in the terminal
    Top(top::Top),
    /// Watch a server or a database live in a browser, and by Prometheus
    Serve(serve::Serve),
    /// Show which files are synced, why, how often and how long it takes
    TraceFsync(trace_fsync::TraceFsync),
    /// Do the same work on Millpond and on other embedded engines
    Compare(compare::Compare),
    /// Write samples of a server or a database to a directory, one a second
    Collect(collect::Collect),
    /// Draw collections and flight recorders: SVG files and one page; several are compared
    Plot(plot::Plot),
    /// One line: checkpoint age, its limit, share of dirty pages; of a server or a database
    Age(age::Age),
    /// Run one benchmark; without a name, list them
    Bench(bench::Bench),
    /// The process that `crash` kills
    #[command(hide = true)]
    CrashVictim(crash::CrashVictim),
    /// The process that opens the database after the kill
    #[command(hide = true)]
    CrashReopen(crash::CrashReopen),
    /// The process that `bench after-kill` kills
    #[command(hide = true)]
    AfterKillVictim(AfterKillVictim),
    /// The process that opens the database after `bench after-kill` has killed another
    #[command(hide = true)]
    AfterKillSuccessor(AfterKillSuccessor),
}

impl Cli {
    /// Runs the command.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Run(command) => command.run(),
            Command::Crash(command) => command.run(),
            Command::Torture(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Inspect(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Recover(command) => command.run(),
            Command::Rescue(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::TraceFsync(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Collect(command) => command.run(),
            Command::Plot(command) => command.run(),
            Command::Age(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::CrashVictim(command) => command.run(),
            Command::CrashReopen(command) => command.run(),
            Command::AfterKillVictim(command) => command.run(),
            Command::AfterKillSuccessor(command) => command.run(),
        }
    }
}

/// Prints to stdout. If the reader has ended (`| head`), this is no failure. If the text cannot be
/// written for another reason, such as a full disk, the program ends with status 1.
pub(crate) fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// The same for bytes.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        crate::complain(&Failure::failed(format!("cannot write the output: {error}")));
        stop::leave();
    }
}

/// Opens an existing database.
fn open_existing(dir: &Path, options: millpond::Options) -> Outcome<millpond::Db> {
    existing_database(dir)?;
    Ok(options.open(dir)?)
}

/// Says which size the buffer pool has. Where nobody gave one, it follows from the memory that this
/// process may use.
fn pool_sentence(db: &millpond::Db) -> String {
    let bytes = db.metrics().get("buffer_pool_bytes").unwrap_or(0.0);
    format!("buffer pool: {}, by the memory that this process may use", show_size(bytes))
}

/// Checks the whole database. Returns "ok", or what is wrong.
pub(crate) fn check_database(db: &millpond::Db) -> Outcome<String> {
    let report = db.check()?;
    Ok(if report.is_clean() { "ok".into() } else { report.to_string() })
}

/// Waits until all losers are reverted. Returns the milliseconds from the opening until all redo
/// was applied.
pub(crate) fn wait_recovered(db: &millpond::Db) -> Outcome<u64> {
    wait_recovered_with(db, || ())
}

/// The same. Calls `meanwhile` again and again.
pub(crate) fn wait_recovered_with(db: &millpond::Db, mut meanwhile: impl FnMut()) -> Outcome<u64> {
    loop {
        let snapshot = db.metrics();
        if being_reverted(&snapshot) == 0 && recovery_left_bytes(&snapshot) == 0 {
            return Ok(recovery_ms(&snapshot));
        }
        stop::check()?;
        meanwhile();
        std::thread::sleep(Duration::from_millis(1));
    }
}
