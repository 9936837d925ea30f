//! `millpond bench writing-threads`: which threads write pages, as the kernel counts it, not the
//! engine.

use super::random::next;
use super::{joined, mib, scratch};
use crate::run_dir::RunDir;
use millpond::{Db, Durability, Options, Snapshot, Table, TxnOptions};
use output::failure::{Failure, Outcome};
use output::units::parse_time;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROWS: u64 = 400_000;
const VALUE_BYTES: usize = 200;
const POOL_BYTES: u64 = 8 << 20;
const REDO_BYTES: u64 = 64 << 20;
const CALLERS: u64 = 8;
const PAGE_WRITERS: [&str; 2] = ["millpond-page-1", "millpond-page-2"];
/// A memory file system.
const MEMORY: &str = "/dev/shm";

const NOTES: &str = "\
Callers read and change random rows in a pool that is a tenth as large as the data. The log is on
a memory file system, where the kernel does not count writes as device writes. So
`/proc/self/task/*/io` shows the writes of pages and of the doublewrite by each thread. Writes
by a worker of io_uring count for the thread whose id is in the worker's name.

The benchmark fails if a caller that takes no checkpoint has written a page. It also fails if the
page writers have written none, because then nothing is shown.";

/// Which threads write pages, as the kernel counts it
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct WritingThreads {
    /// Length of the measured phase
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_time)]
    seconds: Duration,
    /// One more caller takes checkpoints all the time, which shows that the kernel does count a
    /// caller's writes
    #[arg(long)]
    checkpoints: bool,
}

/// Bytes that each thread has written to the device, by its name.
type Written = BTreeMap<String, u64>;

fn written() -> Outcome<Written> {
    let (mut names, mut bytes) = (BTreeMap::new(), BTreeMap::new());
    let tasks = std::fs::read_dir("/proc/self/task");
    let tasks = tasks.map_err(|e| Failure::failed(format!("cannot read /proc/self/task: {e}")))?;
    for task in tasks.flatten() {
        let (path, id) = (task.path(), task.file_name().to_string_lossy().into_owned());
        // A thread that ends meanwhile has no counters.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        let Ok(io) = std::fs::read_to_string(path.join("io")) else { continue };
        let count = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok());
        let count = count.ok_or_else(|| Failure::failed("the kernel does not count I/O by thread"))?;
        bytes.insert(id.clone(), count);
        names.insert(id, name.trim().to_owned());
    }
    let mut all = Written::new();
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

impl WritingThreads {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let (dir, log) = (scratch()?, RunDir::fresh_below(Path::new(MEMORY))?);
        let options = Options::new().buffer_pool_bytes(POOL_BYTES).redo_capacity_bytes(REDO_BYTES);
        let db = options.redo_dir(log.dir().join("redo")).open(dir.dir().join("db"))?;
        let table = db.bulk_load("rows", (0..ROWS).map(|n| (n.to_be_bytes(), [0; VALUE_BYTES])))?;
        db.checkpoint()?;
        let figures = db.metrics();
        let written = self.measure(&db, &table)?;
        print(&written, &db.metrics().minus(&figures));
        db.close()?;
        self.judge(&written)
    }

    /// Returns what each thread wrote while the callers worked.
    fn measure(&self, db: &Db, table: &Table) -> Outcome<Written> {
        let stop = &AtomicBool::new(false);
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let not_started = |e| Failure::failed(format!("cannot start a thread: {e}"));
        let (before, mut after) = std::thread::scope(|scope| {
            let mut callers = Vec::new();
            for n in 0..CALLERS {
                callers.push(thread("caller").spawn_scoped(scope, move || work(db, table, n + 1, stop)));
            }
            if self.checkpoints {
                callers.push(thread("checkpointer").spawn_scoped(scope, move || {
                    while !stop.load(Ordering::Relaxed) {
                        db.checkpoint()?;
                    }
                    Ok(())
                }));
            }
            let before = written();
            std::thread::sleep(self.seconds);
            let after = written();
            stop.store(true, Ordering::Relaxed);
            for caller in callers {
                joined(caller.map_err(not_started)?)?;
            }
            Ok::<_, Failure>((before?, after?))
        })?;
        after
            .iter_mut()
            .for_each(|(name, bytes)| *bytes = bytes.saturating_sub(before.get(name).copied().unwrap_or(0)));
        Ok(after)
    }

    fn judge(&self, written: &Written) -> Outcome {
        let of = |name: &str| written.get(name).copied().unwrap_or(0);
        match (of("caller"), PAGE_WRITERS.map(of).iter().sum::<u64>()) {
            (0, 1..) if !self.checkpoints || of("checkpointer") > 0 => Ok(()),
            (0, _) => Err(Failure::failed(
                "the page writers or the checkpoint wrote nothing: is the directory on a device?",
            )),
            (bytes, _) => Err(Failure::failed(format!("callers wrote {bytes} bytes"))),
        }
    }
}

fn print(written: &Written, figures: &Snapshot) {
    say!("{:<18} {:>12}", "thread", "MiB written");
    for (name, bytes) in written {
        say!("{name:<18} {:>12.1}", mib(*bytes as f64));
    }
    let figure = |name: &str| figures.get(name).unwrap_or(0.0);
    say!(
        "the engine says: {} pages written, {} of them by callers' threads; {} commits, {} pages evicted, {} waits for file growth",
        figure("pages_written"),
        figure("pages_written_foreground"),
        figure("commits"),
        figure("frame_evictions"),
        figure("file_growths_awaited"),
    );
}
