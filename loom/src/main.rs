//! Loom models: every order of the steps of a few threads over the latch, the ring of the log,
//! locks, users of tables, the status of transactions, snapshots and the purge queue. The sources
//! are those of the engine; only the sizes are small (`cfg!(loom)` in each).
// The sources of the engine contain more than the models use.
#![allow(dead_code, unused_imports)]

// The sources of the engine name the crate `vfs` and some modules of their own crate. In this crate
// `clock` and `undo` stand in for them.
extern crate self as vfs;

mod buffer;
mod clock;
mod lock;
mod locks;
mod log;
mod model;
mod mvcc;
mod on_record;
#[path = "../../crates/millpond/src/planted.rs"]
mod planted;
mod undo;
mod users;
mod watched;

pub use clock::Clock;

use clap::Parser;
use model::{ONLY, RAN};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Tries every order of the steps of a few threads
#[derive(Debug, Parser)]
#[command(name = "loom")]
struct Cli {
    /// Only the models whose names contain this [default: all]
    name: Option<String>,
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("loom") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let only = ONLY.get_or_init(|| cli.name.unwrap_or_default());
    buffer::models();
    log::models();
    on_record::models();
    locks::models();
    users::models();
    mvcc::models();
    if RAN.load(Ordering::Relaxed) == 0 {
        eprintln!("loom: no model has {only:?} in its name");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
