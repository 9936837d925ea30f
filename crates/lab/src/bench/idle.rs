//! `millpond bench idle`: how much idle open transactions slow down others.

use super::random::next;
use super::{joined, median, rows, scratch};
use crate::failure::Outcome;
use crate::own_process;
use crate::units::parse_time;
use millpond::{Db, Durability, Isolation, Table, Transaction, TxnOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 100_000;
/// Each thread has as many rows of its own.
const OWN_ROWS: u64 = ROWS / 64;

const NOTES: &str = "\
Each kind of work runs alone and with the idle transactions. Each of these has read a row and so
holds a snapshot, or has also locked its own row, or is read-only, or serializable. Shows the rate
with them divided by the rate without them, the median of three such ratios.";

/// How much idle open transactions slow down others
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Idle {
    /// How many idle transactions
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    idle: u64,
    /// Threads that work
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// How long each measurement takes
    #[arg(long, value_name = "S", default_value = "0.7", value_parser = parse_time)]
    seconds: Duration,
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
            let own = (seed * OWN_ROWS + next(&mut state) % OWN_ROWS).to_be_bytes();
            tx.put(table, &own, &[7; 60])?;
        }
        tx.commit()?;
        done += 1;
    }
    Ok(done)
}

impl Idle {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = own_process::options().buffer_pool_bytes(256 << 20).open(dir.dir().join("db"))?;
        let table = rows(&db, ROWS, 60)?;
        say!("{} threads, {} idle transactions", self.threads, self.idle);
        for (write, name) in [(false, "reads"), (true, "updates")] {
            for (kind, what) in KINDS.iter().enumerate() {
                let (mut ratios, mut last) = (Vec::new(), (0.0, 0.0));
                for _ in 0..3 {
                    let alone = self.rate(&db, &table, write)?;
                    let held = open(&db, &table, kind, self.idle)?;
                    let with_idle = self.rate(&db, &table, write)?;
                    drop(held);
                    ratios.push(with_idle / alone);
                    last = (alone, with_idle);
                }
                say!(
                    "{name:>8} with {what:<15} {:.2}   ({:.0}/s alone, {:.0}/s with them)",
                    median(ratios),
                    last.0,
                    last.1
                );
            }
        }
        Ok(db.close()?)
    }

    /// Returns the transactions a second of all threads together.
    fn rate(&self, db: &Db, table: &Table, write: bool) -> Outcome<f64> {
        let (stop, begun) = (AtomicBool::new(false), Instant::now());
        let done = std::thread::scope(|scope| {
            let stop = &stop;
            let start = |seed| scope.spawn(move || work(db, table, write, seed, stop));
            let workers: Vec<_> = (0..self.threads).map(start).collect();
            std::thread::sleep(self.seconds);
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().map(joined).sum::<Outcome<u64>>()
        })?;
        Ok(done as f64 / begun.elapsed().as_secs_f64())
    }
}
