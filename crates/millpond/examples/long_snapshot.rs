//! Measures writers while a snapshot is held for a long time: their rate before, during and after,
//! the memory that history takes, and how long purge needs afterwards.
//!
//! ```text
//! cargo run --release -p millpond --example long_snapshot [-- SECONDS [WRITERS [durable]]]
//! ```
//! Each writer has its own table of 100,000 rows and updates one row in a transaction. It does not
//! wait for the disk (`Durability::Bounded`) unless `durable` is given. One transaction in sixteen
//! deletes a row and inserts it again. The snapshot reads the first 5,000 rows of each table at its
//! beginning and at its end, and must see the same rows. SECONDS is the time for which it is held.
//! Before and after it, a third of that is measured, at most a minute.

use millpond::{Db, Durability, Options, Table, TxnOptions};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROWS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
/// The snapshot reads the rows below this key.
const READ_BELOW: u64 = 5_000;

/// A small random number generator (Steele, Lea and Flood, "SplitMix", OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn value(n: u64) -> [u8; VALUE_BYTES] {
    let (mut value, mut state) = ([0; VALUE_BYTES], n);
    value
        .chunks_mut(8)
        .for_each(|chunk| chunk.copy_from_slice(&next(&mut state).to_be_bytes()[..chunk.len()]));
    value
}

fn write(
    db: &Db,
    table: &Table,
    seed: u64,
    durability: Durability,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Outcome<()> {
    let mut state = seed;
    let options = TxnOptions::new().durability(durability);
    while !stop.load(Ordering::Relaxed) {
        let n = next(&mut state);
        let key = (n % ROWS).to_be_bytes();
        let mut tx = db.begin_with(options)?;
        if n >> 60 == 0 {
            tx.delete(table, &key)?;
            tx.insert(table, &key, &value(n))?;
        } else {
            tx.put(table, &key, &value(n))?;
        }
        tx.commit()?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Computes a checksum over rows.
fn sum(tx: &millpond::Transaction, tables: &[Table]) -> Outcome<u64> {
    let mut sum = 0u64;
    for table in tables {
        tx.scan(table, ..&READ_BELOW.to_be_bytes()[..], |key, value| {
            for byte in key.iter().chain(value) {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(sum)
}

/// The maximum of each metric in [`PARTS`].
#[derive(Default)]
struct Peaks([f64; 5]);

const PARTS: [&str; 5] =
    ["undo_bytes", "status_bytes", "lock_bytes", "undo_file_bytes", "history_transactions"];

struct Watch<'a> {
    db: &'a Db,
    done: &'a AtomicU64,
    peaks: Peaks,
    total_peak: f64,
}

/// What writers got done in some time, and the processor time that it took.
struct Period {
    /// Transactions a second.
    rate: f64,
    /// Processors that the writers and the engine's own threads had.
    writers: f64,
    engine: f64,
}

/// Processor time of the writers and of the engine's threads so far, seconds. Zero where the system does not tell.
fn processors() -> [f64; 2] {
    let mut spent = [0.0; 2];
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        spent[usize::from(read("comm").starts_with("millpond-"))] += ns.unwrap_or(0.0) / 1e9;
    }
    spent
}

impl Watch<'_> {
    fn sample(&mut self) {
        let metrics = self.db.metrics();
        let figure = |name| metrics.get(name).unwrap_or(0.0);
        for (peak, name) in self.peaks.0.iter_mut().zip(PARTS) {
            *peak = peak.max(figure(name));
        }
        let total = PARTS[..3].iter().map(|name| figure(name)).sum::<f64>();
        self.total_peak = self.total_peak.max(total);
    }

    /// Measures the writers for some time.
    fn period(&mut self, time: Duration) -> Period {
        let (start, before) = (Instant::now(), self.done.load(Ordering::Relaxed));
        let spent = processors();
        while start.elapsed() < time {
            std::thread::sleep(Duration::from_millis(50).min(time));
            self.sample();
        }
        let (took, now) = (start.elapsed().as_secs_f64(), processors());
        let rate = (self.done.load(Ordering::Relaxed) - before) as f64 / took;
        Period { rate, writers: (now[0] - spent[0]) / took, engine: (now[1] - spent[1]) / took }
    }
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(60), |n| n.parse())?;
    let writers: u64 = args.next().map_or(Ok(4), |n| n.parse())?;
    let durability = match args.next().as_deref() {
        None => Durability::Bounded { ms: 20, bytes: 16 << 20 },
        Some("durable") => Durability::Sync,
        Some(other) => return Err(format!("{other}: the third argument can only be durable").into()),
    };
    let dir = std::env::current_dir()?.join(format!("long-snapshot-{}", std::process::id()));
    let result = measure(&dir, Duration::from_secs(seconds.max(1)), writers.max(1), durability);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &std::path::Path, held: Duration, writers: u64, durability: Durability) -> Outcome<()> {
    let db = Options::new().buffer_pool_bytes(512 << 20).open(dir)?;
    let names: Vec<String> = (0..writers).map(|n| format!("t{n}")).collect();
    let tables: Vec<Table> = names
        .iter()
        .map(|name| {
            db.bulk_load(name, (0..ROWS).map(|n| (n.to_be_bytes(), value(n))))?;
            db.open_table(name)
        })
        .collect::<Result<_, _>>()?;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = tables
        .iter()
        .zip(1..)
        .map(|(table, seed)| {
            let (db, table) = (db.clone(), table.clone());
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || write(&db, &table, seed, durability, &stop, &done))
        })
        .collect();
    let mut watch = Watch { db: &db, done: &done, peaks: Peaks::default(), total_peak: 0.0 };
    watch.period(Duration::from_secs(2));
    let around = (held / 3).min(Duration::from_secs(60));
    let before = watch.period(around);
    let reader = db.begin()?;
    let first = sum(&reader, &tables)?;
    let during = watch.period(held);
    let start = Instant::now();
    let last = sum(&reader, &tables)?;
    let read_s = start.elapsed().as_secs_f64();
    drop(reader);
    watch.sample();
    let start = Instant::now();
    let after = watch.period(around);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a writer panicked")??;
    }
    let drained = Instant::now();
    while db.metrics().get("history_transactions").unwrap_or(0.0) > 0.0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    for (name, period) in [("before", &before), ("during", &during), ("after", &after)] {
        let Period { rate, writers, engine } = period;
        println!(
            "{name:<7} {rate:>9.0} transactions a second, {:.2} of before   processors: writers {writers:.2}, {:.2} µs each, engine {engine:.2}",
            rate / before.rate,
            writers * 1e6 / rate,
        );
    }
    println!("history empty       {:>12.1} s after the snapshot", start.elapsed().as_secs_f64());
    println!("                    {:>12.1} s after the writers' end", drained.elapsed().as_secs_f64());
    println!(
        "the snapshot again  {read_s:>12.1} s to read, {}",
        if first == last { "unchanged" } else { "CHANGED" }
    );
    let budget = db.metrics().get("history_budget_bytes").unwrap_or(0.0);
    for (name, peak) in PARTS.iter().zip(watch.peaks.0) {
        println!("most {name:<20} {peak:>15.0}");
    }
    println!("most memory together {:>19.0} of a budget of {budget:.0}", watch.total_peak);
    println!("snapshots expired    {:>19}", db.metrics().get("snapshots_too_old").unwrap_or(0.0));
    let report = db.check()?;
    println!("{report}");
    db.close()?;
    if first != last || !report.is_clean() {
        return Err("the snapshot or the check is wrong".into());
    }
    Ok(())
}
