//! The program `millpond`: runs workloads on the engine, crashes it, checks it, shows what is
//! inside.
//!
//! `cli` holds the commands, `workload` the transactions of a run, and `driver` runs them on
//! threads. `recorder`, `figures` and `samples` measure; `result` and `report` show the result.
//! `crash` is the experiment that kills a process and checks its commits.

mod cli;
mod crash;
mod driver;
mod failure;
mod figures;
mod progress;
mod recorder;
mod report;
mod result;
mod run_dir;
mod samples;
mod stop;
mod units;
mod workload;

use clap::Parser;
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    stop::survive_large_files();
    let failure = match cli::Cli::try_parse() {
        Ok(cli) => match cli.run() {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        // --help and --version go to stdout and are no failure.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        // `millpond` alone: the help is the answer, and status 2 says that nothing was done.
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::from(2);
        }
        Err(error) => cli::usage_failure(&error),
    };
    complain(&failure);
    failure.exit_code()
}

fn complain(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "millpond: {failure}");
}
