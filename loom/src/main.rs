//! Loom models: every order of the steps of a few threads over the latch, the ring of the log,
//! locks, users of tables, the status of transactions, snapshots and the purge queue. The sources
//! are those of the engine; only the sizes are small (`cfg!(loom)` in each).
// The sources of the engine contain more than the models use.
#![allow(dead_code, unused_imports)]

// The sources of the engine name the crate `vfs` and some modules of their own crate. In this crate
// the following stand in for them.
extern crate self as vfs;

mod buffer;
#[path = "../../crates/millpond/src/lock/mod.rs"]
mod lock;
mod locks;
mod log;
mod mvcc;
#[path = "../../crates/millpond/src/planted.rs"]
mod planted;
mod users;
mod watched;

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

/// Runs `body` in every order with at most `preemptions` places where a running thread is
/// interrupted.
fn model(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let only = std::env::args().nth(1);
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let start = std::time::Instant::now();
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    println!("{name}: {runs} orders, {:.1} s", start.elapsed().as_secs_f64());
}

fn main() {
    buffer::models();
    log::models();
    locks::models();
    users::models();
    mvcc::models();
}
