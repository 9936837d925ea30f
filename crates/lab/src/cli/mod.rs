//! The command line: one file for each command, and what the commands share.

mod bench;
mod check;
mod compare;
#[cfg(feature = "watch")]
mod compare_on_servers;
pub(crate) mod crash;
mod disk;
#[cfg(feature = "watch")]
mod dry_run;
mod existing;
mod inspect;
mod napkin;
mod recover;
mod redo_flags;
#[cfg(feature = "watch")]
mod reproduce;
mod rescue;
pub(crate) mod run;
#[cfg(feature = "watch")]
mod run_on_server;
#[cfg(feature = "watch")]
mod server_flags;
#[cfg(feature = "watch")]
mod server_place;
#[cfg(feature = "watch")]
mod server_run;
#[cfg(feature = "watch")]
mod sweep;
#[cfg(feature = "torture")]
mod torture;
mod tpcc_flags;

use crate::bench::after_kill::{AfterKillSuccessor, AfterKillVictim};
use clap::{ArgAction, Parser, Subcommand};
use output::failure::Outcome;
use std::process::ExitCode;

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
    Run(Box<run::Run>),
    /// Run, kill -9 itself, reopen, verify every acknowledged commit
    Crash(crash::Crash),
    /// Kill the process and cut the power again and again under load; certify what survives
    #[cfg(feature = "torture")]
    Torture(torture::Torture),
    /// Check every page and every tree of a database
    Check(check::Check),
    /// The same load with each combination of some settings: which is fast, and which is steady
    #[cfg(feature = "watch")]
    Sweep(sweep::SweepSettings),
    /// Record a server, a sample a second, and keep the last days
    #[cfg(feature = "watch")]
    Record(watch::Record),
    /// Watch a server or a database, and keep the minutes around each stall
    #[cfg(feature = "watch")]
    Stalk(watch::Stalk),
    /// Repeat experiments of published articles, on InnoDB and on Millpond
    #[cfg(feature = "watch")]
    Reproduce(reproduce::Reproduce),
    /// Show what a database's files hold
    Inspect(inspect::Inspect),
    /// Say what a setting or figure of InnoDB, MariaDB, MySQL or Millpond means
    #[cfg(feature = "watch")]
    Explain(watch::Explain),
    /// Open a database, wait until it is fully recovered, close it
    Recover(recover::Recover),
    /// Copy every row that can be read of a database that does not recover into a new one
    Rescue(rescue::Rescue),
    /// Watch a server or a database live in the terminal
    #[cfg(feature = "watch")]
    Top(watch::Top),
    /// Watch a server or a database live in a browser, and by Prometheus
    #[cfg(feature = "watch")]
    Serve(watch::Serve),
    /// Show which files are synced, why, how often and how long it takes
    #[cfg(feature = "watch")]
    TraceFsync(watch::TraceFsync),
    /// Say which table and which index writes the redo log, to the byte
    #[cfg(feature = "watch")]
    Redo(watch::Redo),
    /// Do the same work on Millpond and on other embedded engines
    Compare(compare::Compare),
    /// Write samples of a server or a database to a directory, one a second
    #[cfg(feature = "watch")]
    Collect(watch::Collect),
    /// Draw collections and flight recorders: SVG files and one page; several are compared
    #[cfg(feature = "watch")]
    Plot(watch::Plot),
    /// Say what to change at a server or a database, with the figures that show it
    #[cfg(feature = "watch")]
    Advise(watch::Advise),
    /// Judge the forecast of the redo log's limit by recordings: what it foresaw, false alarms
    #[cfg(feature = "watch")]
    Forecast(watch::Forecast),
    /// One line: checkpoint age, its limit, share of dirty pages; of a server or a database
    #[cfg(feature = "watch")]
    Age(watch::Age),
    /// Measure what the disk under a directory does: reads, writes, syncs, and what follows
    Disk(disk::Disk),
    /// Show this machine's basic speeds beside the published ones of the napkin-math project
    Napkin(napkin::Napkin),
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
    /// Runs the command. Returns the exit status if it did what it was asked for.
    pub(crate) fn run(self) -> Outcome<ExitCode> {
        match self.command {
            #[cfg(feature = "watch")]
            Command::Advise(command) => command.run(),
            other => other.run().map(|()| ExitCode::SUCCESS),
        }
    }
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            #[cfg(feature = "watch")]
            Command::Run(command) => match command.server.target()? {
                Some(url) => run_on_server::run(&command, url),
                None => command.run(),
            },
            #[cfg(not(feature = "watch"))]
            Command::Run(command) => command.run(),
            Command::Crash(command) => command.run(),
            #[cfg(feature = "torture")]
            Command::Torture(command) => command.run(),
            Command::Check(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Sweep(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Reproduce(command) => command.run(),
            Command::Inspect(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Explain(command) => command.run(),
            Command::Recover(command) => command.run(),
            Command::Rescue(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Top(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Serve(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::TraceFsync(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Redo(command) => command.run(),
            Command::Compare(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Collect(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Record(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Stalk(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Plot(command) => command.run(),
            // It has an exit status of its own: see above.
            #[cfg(feature = "watch")]
            Command::Advise(command) => command.run().map(|_| ()),
            #[cfg(feature = "watch")]
            Command::Forecast(command) => command.run(),
            #[cfg(feature = "watch")]
            Command::Age(command) => command.run(),
            Command::Disk(command) => command.run(),
            Command::Napkin(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::CrashVictim(command) => command.run(),
            Command::CrashReopen(command) => command.run(),
            Command::AfterKillVictim(command) => command.run(),
            Command::AfterKillSuccessor(command) => command.run(),
        }
    }
}
