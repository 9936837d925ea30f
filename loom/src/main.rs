//! Loom models: every order of the steps of a few threads over the latch, the ring of the log,
//! locks, users of tables, the status of transactions, snapshots and the purge queue. The sources
//! are those of the engine; only the sizes are small (`cfg!(loom)` in each).
// The sources of the engine contain more than the models use.
#![allow(dead_code, unused_imports)]

// The sources of the engine name the crate `vfs` and some modules of their own crate. In this crate
// the following stand in for them.
extern crate self as vfs;

mod buffer;
mod decided;
#[path = "../../crates/millpond/src/lock/mod.rs"]
mod lock;
mod locks;
mod log;
mod mvcc;
#[path = "../../crates/millpond/src/planted.rs"]
mod planted;
mod users;
mod watched;

use clap::Parser;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What locks need of a clock.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Microseconds.
    fn now_us(&self) -> u64;
    /// A number that nobody foresees.
    fn random_u64(&self) -> u64;
}

/// What the purge queue needs of undo.
mod undo {
    #[derive(Debug)]
    pub(crate) struct Stream;

    impl Stream {
        pub(crate) fn needs_purge(&self) -> bool {
            false
        }

        pub(crate) fn prefetch(&self) {}
    }
}

/// Tries every order of the steps of a few threads
#[derive(Debug, Parser)]
#[command(name = "loom")]
struct Cli {
    /// Only the models whose names contain this [default: all]
    name: Option<String>,
}

/// A part of the names of the models to run; empty: all.
static ONLY: OnceLock<String> = OnceLock::new();
/// How many models have run.
static RAN: AtomicU64 = AtomicU64::new(0);

/// Runs `body` in every order with at most `preemptions` places where a running thread is
/// interrupted.
fn model(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    if ONLY.get().is_some_and(|only| !name.contains(only.as_str())) {
        return;
    }
    RAN.fetch_add(1, Ordering::Relaxed);
    let start = std::time::Instant::now();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{name}: {runs} orders, {:.1} s", start.elapsed().as_secs_f64());
}

fn main() -> ExitCode {
    let cli = match args::parse::<Cli>("loom") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let only = ONLY.get_or_init(|| cli.name.unwrap_or_default());
    buffer::models();
    log::models();
    decided::models();
    locks::models();
    users::models();
    mvcc::models();
    if RAN.load(Ordering::Relaxed) == 0 {
        eprintln!("loom: no model has {only:?} in its name");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
