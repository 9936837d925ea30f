//! Measures how much idle open transactions slow down others: the rate with them divided by the
//! rate without them.
//!
//! ```text
//! cargo run --release -p millpond --example idle [-- IDLE [THREADS [MILLISECONDS]]]
//! ```
//! Each kind of work runs alone and with IDLE open transactions. Each of these has read a row and
//! so holds a snapshot, or has also locked its own row, or is read-only, or serializable. The
//! program shows the median of three ratios.

#[allow(dead_code)] // This example does not measure the device.
#[path = "common/bench.rs"]
mod bench;
#[path = "common/random.rs"]
mod random;

use bench::{median, rows};
use millpond::{Db, Durability, Isolation, Options, Table, Transaction, TxnOptions};
use random::next;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const ROWS: u64 = 100_000;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let idle = args.next().unwrap_or(Ok(5000))?;
    let threads = args.next().unwrap_or(Ok(16))?;
    let millis = args.next().unwrap_or(Ok(700))?;
    let dir = std::env::current_dir()?.join(format!("idle-{}", std::process::id()));
    let result = measure(&dir, idle, threads, Duration::from_millis(millis));
    std::fs::remove_dir_all(&dir)?;
    result
}

/// What the open transactions have done.
const KINDS: [&str; 4] = ["snapshot drawn", "row locked", "read-only", "serializable"];

fn open(db: &Db, table: &Table, kind: usize, idle: u64) -> millpond::Result<Vec<Transaction>> {
    let options = TxnOptions::new();
    let options = match kind {
        2 => options.read_only(true),
        3 => options.isolation(Isolation::Serializable),
        _ => options,
    };
    let mut held = Vec::new();
    for n in 0..idle {
        let mut tx = db.begin_with(options)?;
        // No other transaction uses these keys.
        tx.get(table, &(ROWS + n).to_be_bytes())?;
        if kind == 1 {
            tx.get_for_update(table, &(ROWS + n).to_be_bytes())?;
        }
        held.push(tx);
    }
    Ok(held)
}

fn work(db: &Db, table: &Table, write: bool, seed: u64, stop: &AtomicBool) -> millpond::Result<u64> {
    let (mut state, mut done) = (seed + 1, 0);
    while !stop.load(Ordering::Relaxed) {
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None))?;
        let key = (next(&mut state) % ROWS).to_be_bytes();
        tx.get(table, &key)?;
        if write {
            // Each thread has its own rows, so there are no lock waits.
            let own = (seed * (ROWS / 64) + next(&mut state) % (ROWS / 64)).to_be_bytes();
            tx.put(table, &own, &[7; 60])?;
        }
        tx.commit()?;
        done += 1;
    }
    Ok(done)
}

fn rate(db: &Db, table: &Table, write: bool, threads: u64, time: Duration) -> f64 {
    let (stop, sum) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let (stop, sum) = (&stop, &sum);
            scope.spawn(move || match work(db, table, write, seed, stop) {
                Ok(done) => drop(sum.fetch_add(done, Ordering::Relaxed)),
                Err(e) => println!("a worker failed: {e}"),
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    sum.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

fn measure(dir: &std::path::Path, idle: u64, threads: u64, time: Duration) -> Outcome {
    let db = Options::new().buffer_pool_bytes(256 << 20).open(dir)?;
    let table = rows(&db, ROWS, 60)?;
    println!("{threads} threads, {idle} idle transactions");
    for (write, name) in [(false, "reads"), (true, "updates")] {
        for (kind, what) in KINDS.iter().enumerate() {
            let (mut ratios, mut last) = (Vec::new(), (0.0, 0.0));
            for _ in 0..3 {
                let alone = rate(&db, &table, write, threads, time);
                let held = open(&db, &table, kind, idle)?;
                let with_idle = rate(&db, &table, write, threads, time);
                drop(held);
                ratios.push(with_idle / alone);
                last = (alone, with_idle);
            }
            println!(
                "{name:>8} with {what:<15} {:.2}   ({:.0}/s alone, {:.0}/s with them)",
                median(ratios),
                last.0,
                last.1
            );
        }
    }
    db.close()?;
    Ok(())
}
