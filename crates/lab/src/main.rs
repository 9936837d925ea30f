//! The program `millpond`: runs workloads on the engine, crashes it, checks it, shows what is
//! inside.
//!
//! `cli` holds the commands, `workload` the transactions of a run, and `driver` runs them on
//! threads. `recorder`, `figures` and `samples` measure; `result` and `report` show the result.
//! `watch` samples servers and databases that run, `collect` keeps the samples.
//! `top` shows them in a terminal, `serve` in a browser.
//! `law` are the flags of flow control. `crash` is the experiment that kills a process and checks
//! its commits, `torture` lives many lives of one database, `bench` has one benchmark in each file.

mod bench;
mod cli;
mod collect;
mod crash;
mod driver;
mod durability;
mod explain;
mod failure;
mod figures;
mod law;
mod output;
mod own_process;
mod plot;
mod progress;
mod recorder;
mod recording;
mod report;
mod result;
mod run_dir;
mod samples;
#[cfg(test)]
mod scratch;
mod serve;
mod stop;
mod top;
mod torture;
mod trace_fsync;
mod units;
mod watch;
mod whole;
mod workload;
mod wrap;

use std::process::ExitCode;

fn main() -> ExitCode {
    stop::survive_large_files();
    let cli = match args::parse::<cli::Cli>("millpond") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let Err(failure) = cli.run() else { return ExitCode::SUCCESS };
    failure.complain();
    failure.exit_code()
}
