//! The command line: one file for each command, and what the commands share.

mod age;
mod bench;
mod check;
mod collect;
mod compare;
pub(crate) mod crash;
mod existing;
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
use crate::failure::Outcome;
use clap::{ArgAction, Parser, Subcommand};

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
