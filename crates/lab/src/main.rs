//! The program `millpond`: runs workloads on the engine, crashes it, checks it, shows what is
//! inside.
//!
//! `cli` holds the commands, `workload` the transactions of a run, and `driver` runs them on
//! threads; `server` has the same workloads over SQL. `measurements`, `figures` and `observer`
//! measure; `result`, `by_transaction`, `steadiness`, `turn`, `ramp`, `rounds` and `report` show
//! the result. `sweep` runs a load with many settings, `reproduce` repeats experiments of articles.
//! `arrivals` says when transactions start at a rate. `law` are the flags of flow control. `crash`
//! is the experiment that kills a process and checks its commits, `torture` lives many lives of one
//! database, `bench` has one benchmark in each file. `disk` measures a disk and `napkin` the
//! machine; `mount`, `block_device`, `others`, `raw_io` and `test_file` lie below them. The
//! commands that watch servers and databases are in the crate `watch`, what both share in `output`.

mod arrivals;
mod bench;
mod block_device;
mod by_transaction;
mod cli;
mod crash;
mod disk;
mod driver;
mod durability;
mod figures;
mod law;
mod measurements;
mod mount;
mod napkin;
mod observer;
mod others;
#[cfg(feature = "watch")]
mod own_command;
mod own_process;
mod progress;
mod ramp;
mod raw_io;
mod report;
#[cfg(feature = "watch")]
mod reproduce;
mod result;
#[cfg(feature = "watch")]
mod rounds;
mod run_dir;
#[cfg(test)]
#[path = "../../output/src/scratch.rs"]
mod scratch;
#[cfg(feature = "watch")]
mod server;
mod steadiness;
#[cfg(feature = "watch")]
mod sweep;
mod test_file;
#[cfg(feature = "torture")]
mod torture;
mod turn;
mod whole;
mod workload;

use output::stop;
use std::process::ExitCode;

fn main() -> ExitCode {
    stop::survive_large_files();
    let cli = match args::parse::<cli::Cli>("millpond") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    cli.run().unwrap_or_else(|failure| {
        failure.complain();
        failure.exit_code()
    })
}
