//! A crowd on few rows: how much of the rate of 16 threads is left with hundreds and thousands, and what deadlocks cost.
//!
//! ```text
//! cargo run --release -p millpond --example hot_row [-- SECONDS (3) [THREADS (16 128 512 2000)]...]
//! ```
//! *One row*: every transaction changes the same row, unsynced and synced. Shown are commits a second, their share of the first row's,
//! the 99th percentile and the longest of a commit in milliseconds, and the percentile over the time that it takes if all
//! threads take turns (threads / rate). *Two of 64 rows*: every transaction changes two, in the order of their keys or in random
//! order, which makes real deadlocks; whoever is chosen to give way begins anew. There the share of processor time that the search for
//! deadlocks took is shown, and the longest that a circle stood.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Error, Options, Table, TxnOptions};
use random::next;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const HOT: u64 = 64;
const VALUE_BYTES: usize = 100;

/// Processor time of this process, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

#[derive(Clone, Copy, PartialEq)]
enum Rows {
    One,
    Ordered,
    Random,
}

struct Measured {
    rate: f64,
    /// Milliseconds.
    p99: f64,
    worst: f64,
    retries: f64,
    cpu: f64,
}

/// Begins transactions until one commits; how often it was told to begin anew.
fn one_commit(db: &Db, table: &Table, options: TxnOptions, keys: &[u64], n: u64) -> millpond::Result<u64> {
    let mut retries = 0;
    loop {
        let mut tx = db.begin_with(options)?;
        let mut change =
            || keys.iter().try_for_each(|key| tx.put(table, &key.to_be_bytes(), &[n as u8; VALUE_BYTES]));
        match change() {
            Ok(()) => {
                tx.commit()?;
                return Ok(retries);
            }
            Err(Error::Deadlock) => retries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn run(db: &Db, table: &Table, threads: u64, time: Duration, rows: Rows, durability: Durability) -> Measured {
    let options = TxnOptions::new()
        .isolation(millpond::Isolation::ReadCommitted)
        .durability(durability)
        .lock_wait(Duration::from_secs(600));
    let (stop, all) = (AtomicBool::new(false), Barrier::new(threads as usize + 1));
    let work = |seed: u64| {
        let (mut state, mut took, mut retries) = (seed + 1, Vec::new(), 0);
        all.wait();
        while !stop.load(Ordering::Relaxed) {
            let mut keys = match rows {
                Rows::One => vec![0],
                _ => vec![next(&mut state) % HOT, next(&mut state) % HOT],
            };
            if rows == Rows::Ordered {
                keys.sort_unstable();
            }
            let from = Instant::now();
            retries += one_commit(db, table, options, &keys, seed).expect("a commit");
            took.push(from.elapsed().as_secs_f64() * 1e3);
        }
        (took, retries)
    };
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        all.wait();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let (mut took, mut retries) = (Vec::new(), 0);
        for handle in handles {
            let (more, again) = handle.join().expect("a thread");
            took.extend(more);
            retries += again;
        }
        let elapsed = start.elapsed().as_secs_f64();
        took.sort_by(f64::total_cmp);
        Measured {
            rate: took.len() as f64 / elapsed,
            p99: took[took.len() * 99 / 100],
            worst: took[took.len() - 1],
            retries: retries as f64 / took.len() as f64,
            cpu: cpu_seconds() - cpu,
        }
    })
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let time = Duration::from_secs_f64(args.next().map_or(Ok(3.0), |s| s.parse())?);
    let mut crowds = args.map(|n| n.parse()).collect::<Result<Vec<u64>, _>>()?;
    if crowds.is_empty() {
        crowds = vec![16, 128, 512, 2000];
    }
    let dir = std::env::current_dir()?.join(format!("hot-row-{}", std::process::id()));
    let db = Options::new().open(&dir)?;
    let result = measure(&db, time, &crowds);
    drop(db);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(db: &Db, time: Duration, crowds: &[u64]) -> Outcome {
    let table = db.create_table("rows")?;
    let mut tx = db.begin()?;
    for key in 0..HOT {
        tx.put(&table, &key.to_be_bytes(), &[0; VALUE_BYTES])?;
    }
    tx.commit()?;
    println!(
        "{:>28} {:>8} {:>11} {:>8} {:>10} {:>10} {:>12}",
        "", "threads", "commits/s", "share", "p99, ms", "worst, ms", "p99 / turn"
    );
    for (name, durability) in [("one row, unsynced", Durability::None), ("one row, synced", Durability::Sync)]
    {
        let mut first = None;
        for &threads in crowds {
            let m = run(db, &table, threads, time, Rows::One, durability);
            let share = m.rate / *first.get_or_insert(m.rate);
            let turn = threads as f64 / m.rate * 1e3;
            println!(
                "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.2}",
                m.rate,
                m.p99,
                m.worst,
                m.p99 / turn
            );
        }
    }
    println!(
        "\n{:>28} {:>8} {:>11} {:>8} {:>10} {:>10} {:>12} {:>10} {:>12}",
        "",
        "threads",
        "commits/s",
        "share",
        "p99, ms",
        "worst, ms",
        "again/commit",
        "search, %",
        "longest, ms"
    );
    let figure = |name| db.metrics().get(name).unwrap_or(0.0);
    for &threads in crowds {
        let mut first = None;
        for (name, rows) in
            [("two of 64, by key", Rows::Ordered), ("two of 64, in random order", Rows::Random)]
        {
            let before = figure("deadlock_search_us_total");
            let m = run(db, &table, threads, time, rows, Durability::None);
            let share = m.rate / *first.get_or_insert(m.rate);
            let searched = (figure("deadlock_search_us_total") - before) / 1e6 / m.cpu * 100.0;
            println!(
                "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.3} {searched:>10.2} {:>12.2}",
                m.rate,
                m.p99,
                m.worst,
                m.retries,
                figure("deadlock_stood_us_max") / 1e3,
            );
        }
    }
    Ok(())
}
