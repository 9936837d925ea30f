//! Checks of the repository. `cargo xtask ci` runs all checks, with `--plugin` those of the plugin
//! for MariaDB; other commands run one of them.
//! `cargo xtask against` compares the speed with another commit's, `cargo xtask instructions`
//! counts the instructions of an operation. `cargo xtask package` packs the program `millpond`.
//! `cargo xtask mariadb` is the program of the crate `sqltests`, which builds, runs and tests the
//! storage engine plugin.

mod against;
mod api;
mod ci;
mod dependencies;
mod instructions;
mod mariadb;
mod package;
mod plugin_licences;
mod tidy;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Checks of the repository
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all checks: also format, clippy, documentation, tests, orders of steps, power cuts
    Ci(ci::Args),
    /// Check structure and style only: layers, lengths, columns, words, links
    Tidy,
    /// Check licences, sources, versions and bans of all dependencies only
    Dependencies,
    /// Check the header of the C interface only, against its sources
    Header {
        /// Update crates/ffi/include/millpond.h
        #[arg(long)]
        write: bool,
    },
    /// Check the public API of the crate only, against docs/api.txt
    Api {
        /// Update docs/api.txt; refused if that breaks programs and CHANGELOG.md does not say so
        #[arg(long)]
        write: bool,
    },
    /// Run the same loads on this checkout and on another commit, in turns, and print the ratios
    Against(against::Args),
    /// Count how many instructions an update and a read take, and where; needs valgrind
    Instructions,
    /// Build `millpond` as one static file, and pack it for pip, for npm and for Debian
    Package(package::Args),
    /// Build, run and test the storage engine plugin of MariaDB, on Debian
    #[command(disable_help_flag = true)]
    Mariadb {
        /// What to do; --help lists the commands
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("xtask") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let done = match cli.command {
        Command::Ci(args) => ci::run(args),
        Command::Tidy => tidy::run(),
        Command::Dependencies => ci::check_dependencies(),
        Command::Header { write } => ci::header(write),
        Command::Api { write: false } => api::check(),
        Command::Api { write: true } => api::write(),
        Command::Against(args) => against::run(&args),
        Command::Instructions => instructions::run(),
        Command::Package(args) => package::run(&args),
        Command::Mariadb { words } => Err(mariadb::become_program(&words)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}
