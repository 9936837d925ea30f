//! Measures a committing thread that shares cores with spinning threads (hogs), compared with the
//! bare device under the same hogs.
//!
//! ```text
//! cargo run --release -p millpond --example hogs [-- ROUNDS [SECONDS [CORES [HOGS]]]]
//! ```
//! The defaults are 20 rounds, 0.5 seconds, 1 core and 2 hogs. All threads are pinned to CORES
//! cores, so HOGS spinning threads, the committer and the database's own threads share them. The
//! committer puts or deletes one random row in each durable transaction. Pool and log are so small
//! that the cleaner and purge work all the time. The bare loop overwrites a 4 KiB block and syncs
//! it. It also waits for a core after every sync, so the rate that it keeps under the hogs is the
//! limit for a committer. The four measurements of a round are short and follow each other, because
//! other load on a device changes with time. The program shows medians over the rounds, and medians
//! of the ratios within a round.

#[path = "common/bench.rs"]
mod bench;
#[path = "common/random.rs"]
mod random;

use bench::{Device, median, rows};
use millpond::{Db, Options, Table};
use random::next;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 200_000;
const VALUE_BYTES: usize = 200;
const POOL_BYTES: u64 = 16 << 20;
const REDO_BYTES: u64 = 32 << 20;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Pins this thread, and all that it starts, to the first `cores` of its cores.
fn pin(cores: usize) -> Outcome {
    let may = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&cpu| may.is_set(cpu)).take(cores).for_each(|cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs `step` again and again. Returns steps a second and their 99th percentile in microseconds.
fn rate(time: Duration, mut step: impl FnMut(u64) -> Outcome) -> Outcome<[f64; 2]> {
    let (start, mut took) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let from = Instant::now();
        step(took.len() as u64)?;
        took.push(from.elapsed().as_secs_f64() * 1e6);
    }
    let a_second = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    Ok([a_second, took[took.len() * 99 / 100]])
}

struct Bench {
    device: Device,
    db: Db,
    table: Table,
    time: Duration,
}

impl Bench {
    fn new(dir: &std::path::Path, time: Duration) -> Outcome<Bench> {
        let device = Device::new(&dir.join("device"))?;
        let options = Options::new().buffer_pool_bytes(POOL_BYTES).redo_capacity_bytes(REDO_BYTES);
        let db = options.open(dir.join("db"))?;
        let table = rows(&db, ROWS, VALUE_BYTES)?;
        Ok(Bench { device, db, table, time })
    }

    /// Measures durable writes of one block.
    fn device(&mut self) -> Outcome<[f64; 2]> {
        rate(self.time, |n| Ok(self.device.write(n)?))
    }

    /// Measures durable changes of one row.
    fn commits(&self, mut state: u64) -> Outcome<[f64; 2]> {
        rate(self.time, |n| {
            let key = (next(&mut state) % ROWS).to_be_bytes();
            let mut tx = self.db.begin()?;
            // Deletes give purge work.
            if n % 4 == 0 {
                tx.delete(&self.table, &key)?;
            } else {
                tx.put(&self.table, &key, &[n as u8; VALUE_BYTES])?;
            }
            tx.commit()?;
            Ok(())
        })
    }
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(20), |n| n.parse())?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(0.5), |s| s.parse())?);
    let cores: usize = args.next().map_or(Ok(1), |n| n.parse())?;
    let hogs: usize = args.next().map_or(Ok(2), |n| n.parse())?;
    pin(cores)?;
    let dir = std::env::current_dir()?.join(format!("hogs-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let result = measure(&dir, rounds.max(1), time, hogs);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &std::path::Path, rounds: usize, time: Duration, hogs: usize) -> Outcome {
    let mut bench = Bench::new(dir, time)?;
    // Device alone, committer alone, device with hogs, committer with hogs: rates and 99th
    // percentiles.
    let mut found: [Vec<[f64; 2]>; 4] = Default::default();
    for round in 0..rounds as u64 {
        for (with_hogs, hogs) in [0, hogs].into_iter().enumerate() {
            let stop = AtomicBool::new(false);
            let measured = std::thread::scope(|scope| {
                for _ in 0..hogs {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                let measured = bench.device().and_then(|device| Ok([device, bench.commits(round + 1)?]));
                stop.store(true, Ordering::Relaxed);
                measured
            })?;
            found[with_hogs * 2].push(measured[0]);
            found[with_hogs * 2 + 1].push(measured[1]);
        }
    }
    println!("{:>30} {:>10} {:>10} {:>16}", "", "a second", "p99, us", "of the device's");
    for (at, name) in ["device", "committer", "device with hogs", "committer with hogs"].iter().enumerate() {
        let of = |which: usize| median(found[at].iter().map(|figures| figures[which]).collect());
        let device = &found[at / 2 * 2];
        let ratio = median(found[at].iter().zip(device).map(|(a, b)| a[0] / b[0]).collect());
        println!("{name:>30} {:>10.0} {:>10.0} {ratio:>16.2}", of(0), of(1));
    }
    let kept = |at: usize| median(found[at + 2].iter().zip(&found[at]).map(|(a, b)| a[0] / b[0]).collect());
    println!(
        "with {hogs} hogs the device's loop keeps {:.2} of its rate, the committer {:.2}",
        kept(0),
        kept(1)
    );
    let figure = |name| bench.db.metrics().get(name).unwrap_or(0.0);
    println!("pages written {:.0}, rows purged {:.0}", figure("pages_written"), figure("purge_rows"));
    Ok(())
}
