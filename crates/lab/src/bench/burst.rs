//! `millpond bench burst`: large rows right after a rest.

use super::device::Device;
use super::{figure, joined, scratch};
use millpond::{Db, Durability, Options, Table, TxnOptions};
use output::failure::Outcome;
use output::units::{parse_size, parse_time};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REST: Duration = Duration::from_millis(1_500);
/// Rows of each writer.
const ROWS: u64 = 2_000;

const NOTES: &str = "\
For which share of their time does admission delay the writers, and how much must the device do
first? Each round rests. Then every writer puts rows, one in each transaction, and waits for no
sync. Given back: a checkpoint before the rest has left the log two segment files, so the burst
needs new ones. Kept: no checkpoint was taken, and the segment files of the burst before are still
there. Beside both stands how fast the device makes such files: written with zeros and synced, then
named, as the log makes them.";

/// A burst of large rows after a rest: how long are the writers delayed?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Burst {
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    writers: u64,
    /// Length of a burst
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = parse_time)]
    seconds: Duration,
    /// Size of a value
    #[arg(long, value_name = "SIZE", default_value = "6000", value_parser = parse_size)]
    value: u64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u64,
}

/// A burst's MB of redo a second, and the share of the writers' time for which admission delayed
/// them.
struct Measured {
    redo_rate: f64,
    delayed: f64,
}

impl Burst {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let log = dir.dir().join("db/redo");
        let db = Options::new().buffer_pool_bytes(256 << 20).open(dir.dir().join("db"))?;
        let table = db.create_table("rows")?;
        self.burst(&db, &table)?;
        for round in 0..self.rounds {
            for given_back in [true, false] {
                if given_back {
                    db.checkpoint()?;
                }
                std::thread::sleep(REST);
                let made = Device::makes_files(dir.dir())?;
                let files = file_count(&log);
                let Measured { redo_rate, delayed } = self.burst(&db, &table)?;
                say!(
                    "{round} {}  redo {redo_rate:5.0} MB/s   held {:3.0} %   files {files:3} to {:3}   the device makes {made:5.0} MB/s of files: {:.2}",
                    if given_back { "given back" } else { "kept      " },
                    delayed * 100.0,
                    file_count(&log),
                    redo_rate / made,
                );
            }
        }
        Ok(db.close()?)
    }

    fn burst(&self, db: &Db, table: &Table) -> Outcome<Measured> {
        let figures = || ["redo_bytes_written", "throttled_us_total"].map(|name| figure(db, name));
        let value = vec![7; self.value as usize];
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        let before = figures();
        std::thread::scope(|scope| {
            let (stop, value) = (&stop, &value);
            let writer = |id| scope.spawn(move || write(db, table, id, value, stop));
            let writers: Vec<_> = (0..self.writers).map(writer).collect();
            std::thread::sleep(self.seconds);
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().try_for_each(joined)
        })?;
        let (took, after) = (start.elapsed().as_secs_f64(), figures());
        Ok(Measured {
            redo_rate: (after[0] - before[0]) / 1e6 / took,
            delayed: (after[1] - before[1]) / 1e6 / (took * self.writers as f64),
        })
    }
}

fn write(db: &Db, table: &Table, id: u64, value: &[u8], stop: &AtomicBool) -> millpond::Result<()> {
    let options = TxnOptions::new().durability(Durability::None);
    for n in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut tx = db.begin_with(options)?;
        tx.put(table, &(id * ROWS + n % ROWS).to_be_bytes(), value)?;
        tx.commit()?;
    }
    Ok(())
}

fn file_count(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}
