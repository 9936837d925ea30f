//! Which threads write pages, asked of the kernel and not of the engine.
//!
//! ```text
//! cargo run --release -p millpond --example who_writes [-- SECONDS (5) [checkpoint]]
//! ```
//! Callers read and change rows at random in a pool a tenth as large as the data. The log lies on a memory file system, whose writes
//! the kernel does not count as the device's; so what `/proc/self/task/*/io` says of a thread are its writes of pages and of the
//! doublewrite, however they were given to the device: io_uring's workers count for the thread that they are named by. With
//! `checkpoint` one caller asks for a checkpoint all the time, and shows in the table: the kernel does see what a caller writes.
//!
//! It fails if a caller that asks for no page write has written one, or if the cleaner has not: then nothing was shown.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Options, Table, TxnOptions};
use random::next;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROWS: u64 = 400_000;
const VALUE_BYTES: usize = 200;
const POOL_BYTES: u64 = 8 << 20;
const REDO_BYTES: u64 = 64 << 20;
const CALLERS: u64 = 8;
/// `millpond-cleaner`, as far as the kernel remembers a thread's name.
const CLEANER: &str = "millpond-cleane";
/// A memory file system.
const MEMORY: &str = "/dev/shm";

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Bytes that each thread has given to the device, by its name.
fn written() -> Outcome<BTreeMap<String, u64>> {
    let (mut names, mut bytes) = (BTreeMap::new(), BTreeMap::new());
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let (path, id) = (task.path(), task.file_name().to_string_lossy().into_owned());
        // A thread that ends while it is asked has no figures.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        let Ok(io) = std::fs::read_to_string(path.join("io")) else { continue };
        let of = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        bytes.insert(id.clone(), of.ok_or("the kernel does not count I/O by thread")?.parse::<u64>()?);
        names.insert(id, name.trim().to_owned());
    }
    let mut all = BTreeMap::new();
    for (id, n) in bytes {
        let name = &names[&id];
        let owner = name.strip_prefix("iou-wrk-").and_then(|id| names.get(id)).unwrap_or(name);
        *all.entry(owner.clone()).or_insert(0) += n;
    }
    Ok(all)
}

fn work(db: &Db, table: &Table, seed: u64, stop: &AtomicBool) -> millpond::Result<()> {
    let (mut rng, mut value) = (seed, vec![0; VALUE_BYTES]);
    while !stop.load(Ordering::Relaxed) {
        if let Err(error) = step(db, table, &mut rng, &mut value)
            && !error.is_retryable()
        {
            return Err(error);
        }
    }
    Ok(())
}

fn step(db: &Db, table: &Table, rng: &mut u64, value: &mut [u8]) -> millpond::Result<()> {
    let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None))?;
    let (read, change) = (next(rng) % ROWS, next(rng) % ROWS);
    tx.get(table, &read.to_be_bytes())?;
    value[..8].copy_from_slice(&next(rng).to_be_bytes());
    tx.put(table, &change.to_be_bytes(), value)?;
    tx.commit().map(drop)
}

fn measure(dir: &Path, log: &Path, time: Duration, ask: bool) -> Outcome {
    let options = Options::new().buffer_pool_bytes(POOL_BYTES).redo_capacity_bytes(REDO_BYTES).redo_dir(log);
    let db = options.open(dir)?;
    let table = db.bulk_load("rows", (0..ROWS).map(|n| (n.to_be_bytes(), [0; VALUE_BYTES])))?;
    db.checkpoint()?;
    let stop = AtomicBool::new(false);
    let figures = db.metrics();
    let (before, after) = std::thread::scope(|scope| -> Outcome<_> {
        let mut callers = Vec::new();
        for n in 0..CALLERS {
            let (db, table, stop) = (&db, &table, &stop);
            let caller = std::thread::Builder::new().name("caller".into());
            callers.push(caller.spawn_scoped(scope, move || work(db, table, n + 1, stop))?);
        }
        if ask {
            let (db, stop) = (&db, &stop);
            let asker = std::thread::Builder::new().name("asks".into());
            callers.push(asker.spawn_scoped(scope, move || {
                while !stop.load(Ordering::Relaxed) {
                    db.checkpoint()?;
                }
                Ok(())
            })?);
        }
        let before = written()?;
        std::thread::sleep(time);
        let after = written()?;
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.join().map_err(|_| "a caller panicked")??;
        }
        Ok((before, after))
    })?;
    let figures = db.metrics().minus(&figures);
    let figure = |name: &str| figures.get(name).unwrap_or(0.0);
    println!("{:<18} {:>12}", "thread", "MiB written");
    for (name, bytes) in &after {
        let bytes = bytes - before.get(name).unwrap_or(&0);
        println!("{name:<18} {:>12.1}", bytes as f64 / 1048576.0);
    }
    println!(
        "the engine says: {} pages written, {} of them in a caller's time; {} commits, {} pages evicted, {} growths awaited",
        figure("pages_written"),
        figure("pages_written_foreground"),
        figure("commits"),
        figure("frame_evictions"),
        figure("file_growths_awaited"),
    );
    db.close()?;
    let of = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    match (of("caller"), of(CLEANER)) {
        (0, 1..) if !ask || of("asks") > 0 => Ok(()),
        (0, _) => Err("who should write was not seen to write: is DIR on a device?".into()),
        (bytes, _) => Err(format!("callers wrote {bytes} bytes").into()),
    }
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(Ok(5.0), |s| s.parse())?;
    let ask = args.next().is_some_and(|word| word == "checkpoint");
    let name = format!("millpond-who-writes-{}", std::process::id());
    let (dir, log) = (std::env::current_dir()?.join("target").join(&name), Path::new(MEMORY).join(&name));
    std::fs::create_dir_all(&dir)?;
    let outcome = measure(&dir, &log, Duration::from_secs_f64(seconds), ask);
    std::fs::remove_dir_all(&dir)?;
    std::fs::remove_dir_all(&log)?;
    outcome
}
