//! `millpond bench durable-updates`: durable updates of one row, compared with the bare device.

use super::device::Device;
use super::random::next;
use super::{joined, median, rows, scratch};
use millpond::{Db, Table};
use output::failure::Outcome;
use output::units::parse_time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 100_000;
const VALUE_BYTES: usize = 200;

const NOTES: &str = "\
The bare device is a loop that overwrites 4 KiB blocks of a zero-written file, and makes each
durable by fdatasync before the next. This is the upper limit for an engine that flushes its log
once for each commit, one flush at a time. The loop and the engine take turns. Shows medians over
the rounds, and the medians of the ratios within a round, so a disturbance of the machine affects
both.";

/// Durable updates of one row, against synced writes of the bare device
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct DurableUpdates {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// How long the loop and the engine work in each turn
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_time)]
    seconds: Duration,
    /// Numbers of threads, one after the other
    #[arg(long, value_name = "LIST", default_value = "1,4,16,64", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    threads: Vec<u64>,
}

/// The rates of one number of threads, one for each round, and the ratios to the device.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    ratios: Vec<f64>,
}

/// Measures durable writes of one block a second.
fn device(device: &mut Device, time: Duration) -> Outcome<f64> {
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
fn engine(db: &Db, table: &Table, threads: u64, time: Duration, seed: u64) -> Outcome<f64> {
    let (stop, done, start) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let worker = |n: u64| {
            scope.spawn(move || {
                let mut state = seed.wrapping_mul(1000) + n;
                while !stop.load(Ordering::Relaxed) {
                    update(db, table, &mut state)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(joined)
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

impl DurableUpdates {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let mut file = Device::new(&dir.dir().join("device"))?;
        let db = Db::open(dir.dir().join("db"))?;
        let table = rows(&db, ROWS, VALUE_BYTES)?;
        let mut bare = Vec::new();
        let mut measured: Vec<Measured> = self.threads.iter().map(|_| Measured::default()).collect();
        for round in 0..self.rounds {
            for ((&threads, measured), i) in self.threads.iter().zip(&mut measured).zip(1..) {
                // Before each, so the two measurements of a pair are close in time.
                let loop_rate = device(&mut file, self.seconds)?;
                let rate = engine(&db, &table, threads, self.seconds, round * 10 + i)?;
                bare.push(loop_rate);
                measured.rates.push(rate);
                measured.ratios.push(rate / loop_rate);
            }
        }
        say!("{:>24} {:>12} {:>8}", "", "a second", "ratio");
        say!("{:>24} {:>12.0} {:>8}", "bare device, 1 in flight", median(bare), "1");
        for (threads, Measured { rates, ratios }) in self.threads.iter().zip(measured) {
            say!("{threads:>16} threads {:>12.0} {:>8.2}", median(rates), median(ratios));
        }
        Ok(())
    }
}
