//! Measures a burst of large rows right after a rest: for which share of their time admission
//! delays the writers, and how much the device must do first.
//!
//! ```text
//! cargo run --release -p millpond --example burst \
//!     [-- WRITERS [MILLISECONDS [VALUE_BYTES [ROUNDS]]]]
//! ```
//! Each round rests. Then every writer puts rows of VALUE_BYTES, one in each transaction, and waits
//! for no sync. *Given back*: a checkpoint before the rest has left the log two segment files, so
//! the burst needs new ones. *Kept*: no checkpoint was taken, and the segment files of the burst
//! before are still there. Beside both stands how fast the device makes such files: written with
//! zeros and synced, then named, as the log makes them.

#[allow(dead_code)] // The device is asked for files here.
#[path = "common/bench.rs"]
mod bench;

use millpond::{Db, Durability, Options, Table, TxnOptions};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A segment file of the log, bytes.
const SEGMENT: usize = 4 << 20;
const REST: Duration = Duration::from_millis(1_500);
/// Rows of each writer.
const ROWS: u64 = 2_000;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let writers = args.next().unwrap_or(Ok(4))?.max(1);
    let millis = args.next().unwrap_or(Ok(300))?.max(1);
    let bytes = args.next().unwrap_or(Ok(6_000))?;
    let rounds = args.next().unwrap_or(Ok(5))?;
    let dir = std::env::current_dir()?.join(format!("burst-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let burst = Burst { writers, time: Duration::from_millis(millis), value: vec![7; bytes as usize] };
    let result = burst.measure(&dir, rounds);
    std::fs::remove_dir_all(&dir)?;
    result
}

struct Burst {
    writers: u64,
    time: Duration,
    value: Vec<u8>,
}

/// Makes segment files and returns the rate, MB/s.
fn files_made(dir: &Path) -> std::io::Result<f64> {
    const COUNT: usize = 8;
    let zeros = vec![0; SEGMENT];
    let start = Instant::now();
    for n in 0..COUNT {
        let (draft, name) = (dir.join(format!("{n}.new")), dir.join(n.to_string()));
        let mut file = File::create(&draft)?;
        file.write_all(&zeros)?;
        file.sync_data()?;
        std::fs::rename(&draft, &name)?;
        File::open(dir)?.sync_all()?;
    }
    let rate = (COUNT * SEGMENT) as f64 / 1e6 / start.elapsed().as_secs_f64();
    (0..COUNT).try_for_each(|n| std::fs::remove_file(dir.join(n.to_string())))?;
    Ok(rate)
}

impl Burst {
    fn write(&self, db: &Db, table: &Table, id: u64, stop: &AtomicBool) -> millpond::Result<()> {
        let options = TxnOptions::new().durability(Durability::None);
        for n in 0u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut tx = db.begin_with(options)?;
            tx.put(table, &(id * ROWS + n % ROWS).to_be_bytes(), &self.value)?;
            tx.commit()?;
        }
        Ok(())
    }

    /// Runs one burst. Returns MB of redo a second, and the share of the writers' time for which
    /// admission delayed them.
    fn run(&self, db: &Db, table: &Table) -> millpond::Result<(f64, f64)> {
        let figures = || {
            let metrics = db.metrics();
            ["redo_bytes_written", "throttled_us_total"].map(|name| metrics.get(name).unwrap_or(0.0))
        };
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        let before = figures();
        std::thread::scope(|scope| {
            let stop = &stop;
            let threads: Vec<_> =
                (0..self.writers).map(|id| scope.spawn(move || self.write(db, table, id, stop))).collect();
            std::thread::sleep(self.time);
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| thread.join().expect("a writer"))
        })?;
        let (took, after) = (start.elapsed().as_secs_f64(), figures());
        let held = (after[1] - before[1]) / 1e6 / (took * self.writers as f64);
        Ok(((after[0] - before[0]) / 1e6 / took, held))
    }

    fn measure(&self, dir: &Path, rounds: u64) -> Outcome {
        let log = dir.join("db/redo");
        let db = Options::new().buffer_pool_bytes(256 << 20).open(dir.join("db"))?;
        let table = db.create_table("rows")?;
        self.run(&db, &table)?;
        for round in 0..rounds {
            for given_back in [true, false] {
                if given_back {
                    db.checkpoint()?;
                }
                std::thread::sleep(REST);
                let made = files_made(dir)?;
                let count = || std::fs::read_dir(&log).map_or(0, Iterator::count);
                let files = count();
                let (rate, held) = self.run(&db, &table)?;
                println!(
                    "{round} {}  redo {rate:5.0} MB/s   held {:3.0} %   files {files:3} to {:3}   the device makes {made:5.0} MB/s of files: {:.2}",
                    if given_back { "given back" } else { "kept      " },
                    held * 100.0,
                    count(),
                    rate / made,
                );
            }
        }
        db.close()?;
        Ok(())
    }
}
