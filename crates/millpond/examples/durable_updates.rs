//! Measures durable single-row updates a second, compared with the bare device in the same run.
//!
//! ```text
//! cargo run --release -p millpond --example durable_updates [-- ROUNDS [SECONDS]]
//! ```
//! The bare device is a loop that overwrites 4 KiB blocks of a zero-written file, and makes each
//! durable by fdatasync before the next. This is the upper limit for an engine that flushes its log
//! once for each commit, one flush at a time. The loop and the engine, with 1, 4, 16 and 64
//! threads, take turns. The program shows medians over the rounds, and the medians of the ratios
//! within a round, so a disturbance of the machine affects both.

#[path = "common/bench.rs"]
mod bench;
#[path = "common/random.rs"]
mod random;

use bench::{Device, median, rows};
use millpond::{Db, Table};
use random::next;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 100_000;
const VALUE_BYTES: usize = 200;
const THREADS: [usize; 4] = [1, 4, 16, 64];

/// Measures durable writes of one block a second.
fn device(device: &mut Device, time: Duration) -> std::io::Result<f64> {
    let (start, mut done) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        device.write(done)?;
        done += 1;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

fn update(db: &Db, table: &Table, state: &mut u64) -> millpond::Result<()> {
    let key = (next(state) % ROWS).to_be_bytes();
    let mut value = [0u8; VALUE_BYTES];
    value.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&next(state).to_be_bytes()));
    loop {
        let mut tx = db.begin()?;
        match tx.put(table, &key, &value).and_then(|()| tx.commit()) {
            Ok(_) => return Ok(()),
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Measures durable updates a second.
fn engine(db: &Db, table: &Table, threads: usize, time: Duration, seed: u64) -> millpond::Result<f64> {
    let (stop, done, start) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|n| {
                let (stop, done) = (&stop, &done);
                scope.spawn(move || {
                    let mut state = seed.wrapping_mul(1000) + n;
                    while !stop.load(Ordering::Relaxed) {
                        update(db, table, &mut state)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker"))
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(2.0), |s| s.parse())?);
    let dir = std::env::current_dir()?.join(format!("durable-updates-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let result = measure(&dir, rounds.max(1), time);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &std::path::Path, rounds: usize, time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let mut file = Device::new(&dir.join("device"))?;
    let db = Db::open(dir.join("db"))?;
    let table = rows(&db, ROWS, VALUE_BYTES)?;
    let mut bare = Vec::new();
    let (mut rates, mut ratios) = (vec![Vec::new(); THREADS.len()], vec![Vec::new(); THREADS.len()]);
    for round in 0..rounds {
        for (i, threads) in THREADS.into_iter().enumerate() {
            // Before each, so the two measurements of a pair are close in time.
            let loop_rate = device(&mut file, time)?;
            let rate = engine(&db, &table, threads, time, (round * 10 + i) as u64 + 1)?;
            bare.push(loop_rate);
            rates[i].push(rate);
            ratios[i].push(rate / loop_rate);
        }
    }
    println!("{:>24} {:>12} {:>8}", "", "a second", "ratio");
    println!("{:>24} {:>12.0} {:>8}", "bare device, 1 in flight", median(bare), "1");
    for (i, threads) in THREADS.into_iter().enumerate() {
        let (rate, ratio) = (median(rates[i].clone()), median(ratios[i].clone()));
        println!("{:>16} threads {rate:>12.0} {ratio:>8.2}", threads);
    }
    Ok(())
}
