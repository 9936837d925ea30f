//! Every order of steps of a few threads over the latch, the log's ring and the transaction status table. The sources are
//! those of the engine; only the sizes are small (`cfg!(loom)` in each).
#![allow(dead_code)]

mod buffer;
mod log;
mod mvcc;

/// Tries all orders with at most `preemptions` places where a running thread is interrupted.
fn model(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let start = std::time::Instant::now();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
    println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
}

fn main() {
    buffer::models();
    log::models();
    mvcc::models();
}
