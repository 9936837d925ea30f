//! `millpond bench writers-and-scans`: serializable writers together with serializable scanners of
//! the same rows.

use super::random::next;
use super::{joined, p99, scratch, sorted};
use crate::failure::{Failure, Outcome};
use crate::own_process;
use crate::units::parse_time;
use millpond::{Db, Durability, Isolation, Table, TxnOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 2;
const VALUE_BYTES: usize = 100;

const NOTES: &str = "\
Does either of them starve? Two writers, or none, change one random row in each transaction.
Scanners read the whole table in each transaction, again and again. The columns are writes and
scans a second; the 99th percentile and the longest time of a write, milliseconds; the percentile
divided by the time of one round in which every scanner scans once (scanners / scans a second); the
fewest scans of a scanner divided by the mean; and the calls that failed with a timeout or a
deadlock.";

/// Serializable writers and serializable scans of the same rows
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct WritersAndScans {
    /// How long each measurement takes
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_time)]
    seconds: Duration,
}

fn options() -> TxnOptions {
    TxnOptions::new().isolation(Isolation::Serializable).durability(Durability::None)
}

fn write(db: &Db, table: &Table, key: u64) -> millpond::Result<()> {
    let mut tx = db.begin_with(options())?;
    tx.put(table, &key.to_be_bytes(), &[key as u8; VALUE_BYTES])?;
    tx.commit().map(drop)
}

fn scan(db: &Db, table: &Table) -> millpond::Result<()> {
    let tx = db.begin_with(options())?;
    for row in tx.range(table, ..)? {
        row?;
    }
    tx.commit().map(drop)
}

impl WritersAndScans {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = own_process::options().open(dir.dir().join("db"))?;
        say!(
            "{:>8} {:>6} {:>7} {:>10} {:>10} {:>9} {:>10} {:>12} {:>13} {:>7}",
            "scanners",
            "rows",
            "writers",
            "writes/s",
            "scans/s",
            "p99, ms",
            "worst, ms",
            "p99 / round",
            "fewest/mean",
            "failed"
        );
        let kinds = [(8, 100), (200, 100), (4, 2_000)].into_iter();
        let kinds = kinds.flat_map(|(scanners, rows)| [(scanners, rows, 0), (scanners, rows, WRITERS)]);
        for (scanners, rows, writers) in std::iter::once((0, 100, WRITERS)).chain(kinds) {
            let table = db.create_table(&format!("{scanners} {rows} {writers}"))?;
            let mut tx = db.begin()?;
            for key in 0..rows {
                tx.put(&table, &u64::to_be_bytes(key), &[0; VALUE_BYTES])?;
            }
            tx.commit()?;
            let mix = Mix { scanners, rows, writers };
            mix.print(&mix.run(&db, &table, self.seconds)?);
        }
        Ok(())
    }
}

/// How many threads scan and write, and how many rows there are.
struct Mix {
    scanners: u32,
    rows: u64,
    writers: u64,
}

/// What the threads of one run did.
struct Measured {
    /// The time of each write, milliseconds, sorted.
    write_ms: Vec<f64>,
    /// Scans of each scanner.
    scans: Vec<f64>,
    failed: u64,
    seconds: f64,
}

impl Mix {
    fn run(&self, db: &Db, table: &Table, time: Duration) -> Outcome<Measured> {
        let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
        // Repeats `work`; returns the time of each call that succeeded, milliseconds.
        let repeat = |work: &dyn Fn() -> millpond::Result<()>| {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let from = Instant::now();
                if work().is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                took.push(from.elapsed().as_secs_f64() * 1e3);
            }
            Ok(took)
        };
        std::thread::scope(|scope| {
            let (repeat, rows) = (&repeat, self.rows);
            let scanner = |_| scope.spawn(move || repeat(&|| scan(db, table)));
            let scans: Vec<_> = (0..self.scanners).map(scanner).collect();
            let writes: Vec<_> = (0..self.writers)
                .map(|n| {
                    scope.spawn(move || {
                        let state = std::cell::Cell::new(n + 1);
                        repeat(&|| {
                            let mut s = state.get();
                            let key = next(&mut s) % rows;
                            state.set(s);
                            write(db, table, key)
                        })
                    })
                })
                .collect();
            let start = Instant::now();
            std::thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            let write_ms: Vec<Vec<f64>> = writes.into_iter().map(joined).collect::<Outcome<_>>()?;
            let scans = scans.into_iter().map(|thread| Ok::<_, Failure>(joined(thread)?.len() as f64));
            let scans = scans.collect::<Outcome<_>>()?;
            let seconds = start.elapsed().as_secs_f64();
            let failed = failed.load(Ordering::Relaxed);
            Ok(Measured { write_ms: sorted(write_ms.concat()), scans, failed, seconds })
        })
    }

    fn print(&self, measured: &Measured) {
        let Mix { scanners, rows, writers } = *self;
        let Measured { write_ms, scans, failed, seconds } = measured;
        let total = scans.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let round = f64::from(scanners.max(1)) / total * seconds * 1e3;
        let p99 = p99(write_ms).unwrap_or(0.0);
        let fewest = scans.iter().copied().reduce(f64::min).unwrap_or(0.0) / total * f64::from(scanners);
        say!(
            "{scanners:>8} {rows:>6} {writers:>7} {:>10.0} {:>10.0} {p99:>9.2} {:>10.2} {:>12.2} {fewest:>13.2} {failed:>7}",
            write_ms.len() as f64 / seconds,
            total / seconds,
            write_ms.last().copied().unwrap_or(0.0),
            p99 / round,
        );
    }
}
