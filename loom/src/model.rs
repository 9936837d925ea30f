//! Runs one model, and says how many orders it has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A part of the names of the models to run; empty: all.
pub(crate) static ONLY: OnceLock<String> = OnceLock::new();

/// How many models have run.
pub(crate) static RAN: AtomicU64 = AtomicU64::new(0);

/// Runs `body` in every order with at most `preemptions` places where a running thread is
/// interrupted.
pub(crate) fn model(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
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
