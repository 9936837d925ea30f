//! Shows which threads write pages, as the kernel counts it, not the engine.
//!
//! ```text
//! cargo run --release -p millpond --example who_writes [-- SECONDS (5) [checkpoint]]
//! ```
//! Callers read and change random rows in a pool that is a tenth as large as the data. The log is
//! on a memory file system, where the kernel does not count writes as device writes. So
//! `/proc/self/task/*/io` shows the writes of pages and of the doublewrite by each thread. Writes
//! by a worker of io_uring count for the thread whose id is in the worker's name. With
//! `checkpoint`, one caller takes checkpoints all the time and appears in the table, which shows
//! that the kernel does count a caller's writes.
//!
//! It fails if a caller that takes no checkpoint has written a page. It also fails if the cleaner
//! has written none, because then nothing is shown.

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
/// `millpond-cleaner`, cut to the length of a thread's name in the kernel.
const CLEANER: &str = "millpond-cleane";
/// A memory file system.
const MEMORY: &str = "/dev/shm";

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Returns the bytes that each thread has written to the device, by its name.
fn written() -> Outcome<BTreeMap<String, u64>> {
    let (mut names, mut bytes) = (BTreeMap::new(), BTreeMap::new());
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let (path, id) = (task.path(), task.file_name().to_string_lossy().into_owned());
        // A thread that ends meanwhile has no counters.
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
            let checkpointer = std::thread::Builder::new().name("checkpointer".into());
            callers.push(checkpointer.spawn_scoped(scope, move || {
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
        "the engine says: {} pages written, {} of them by callers' threads; {} commits, {} pages evicted, {} waits for file growth",
        figure("pages_written"),
        figure("pages_written_foreground"),
        figure("commits"),
        figure("frame_evictions"),
        figure("file_growths_awaited"),
    );
    db.close()?;
    let of = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    match (of("caller"), of(CLEANER)) {
        (0, 1..) if !ask || of("checkpointer") > 0 => Ok(()),
        (0, _) => Err("the cleaner or the checkpoint wrote nothing: is the directory on a device?".into()),
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
