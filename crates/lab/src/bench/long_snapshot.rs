//! `millpond bench long-snapshot`: writers while a snapshot is held for a long time.

use super::random::next;
use super::{figure, joined, scratch, soon_durable, wait_until_purged};
use crate::own_process;
use millpond::{Db, Durability, Table, Transaction, TxnOptions};
use output::failure::{Failure, Outcome};
use output::units::parse_time;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
/// The snapshot reads the rows below this key.
const READ_BELOW: u64 = 5_000;
/// How long the writers work before they are measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// The longest measurement before and after the snapshot.
const AROUND_MAX: Duration = Duration::from_secs(60);

const NOTES: &str = "\
Each writer has its own table of 100,000 rows and updates one row in a transaction. It does not
wait for the disk (`Durability::Bounded`) unless `--durable` is given. One transaction in sixteen
deletes a row and inserts it again. The snapshot reads the first 5,000 rows of each table at its
beginning and at its end, and must see the same rows. Before and after it, a third of its time is
measured, at most a minute. Shows the rate before, during and after, the processor time of the
writers and of the engine's own threads, the memory that history takes, and how long purge needs
afterwards.";

/// Writers while a snapshot is held for a long time
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LongSnapshot {
    /// How long the snapshot is held
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_time)]
    seconds: Duration,
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    writers: u64,
    /// Every commit waits for the disk
    #[arg(long)]
    durable: bool,
}

fn value(n: u64) -> [u8; VALUE_BYTES] {
    let (mut value, mut state) = ([0; VALUE_BYTES], n);
    value
        .chunks_mut(8)
        .for_each(|chunk| chunk.copy_from_slice(&next(&mut state).to_be_bytes()[..chunk.len()]));
    value
}

/// What the writers share.
struct Writers {
    options: TxnOptions,
    stop: AtomicBool,
    done: AtomicU64,
}

impl Writers {
    fn write(&self, db: &Db, table: &Table, seed: u64) -> millpond::Result<()> {
        let mut state = seed;
        while !self.stop.load(Ordering::Relaxed) {
            let n = next(&mut state);
            let key = (n % ROWS).to_be_bytes();
            let mut tx = db.begin_with(self.options)?;
            if n >> 60 == 0 {
                tx.delete(table, &key)?;
                tx.insert(table, &key, &value(n))?;
            } else {
                tx.put(table, &key, &value(n))?;
            }
            tx.commit()?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Computes a checksum over rows.
fn sum(tx: &Transaction, tables: &[Table]) -> Outcome<u64> {
    let mut sum = 0u64;
    for table in tables {
        tx.scan(table, ..&READ_BELOW.to_be_bytes()[..], |key, value| {
            for byte in key.iter().chain(value) {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(sum)
}

/// The maximum of each metric in [`PARTS`].
#[derive(Default)]
struct Peaks([f64; 5]);

const PARTS: [&str; 5] =
    ["undo_bytes", "status_bytes", "lock_bytes", "undo_file_bytes", "history_transactions"];

struct Watch<'a> {
    db: &'a Db,
    done: &'a AtomicU64,
    peaks: Peaks,
    total_peak: f64,
}

/// What writers got done in some time, and the processor time that it took.
struct Period {
    /// Transactions a second.
    rate: f64,
    /// Processors that the writers and the engine's own threads had.
    writers: f64,
    engine: f64,
}

/// Processor time of the writers and of the engine's threads so far, seconds. Zero where the system
/// does not tell.
fn processors() -> [f64; 2] {
    let mut spent = [0.0; 2];
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        spent[usize::from(read("comm").starts_with("millpond-"))] += ns.unwrap_or(0.0) / 1e9;
    }
    spent
}

impl Watch<'_> {
    fn sample(&mut self) {
        let metrics = self.db.metrics();
        let figure = |name| metrics.get(name).unwrap_or(0.0);
        for (peak, name) in self.peaks.0.iter_mut().zip(PARTS) {
            *peak = peak.max(figure(name));
        }
        let total = PARTS[..3].iter().map(|name| figure(name)).sum::<f64>();
        self.total_peak = self.total_peak.max(total);
    }

    /// Measures the writers for some time.
    fn period(&mut self, time: Duration) -> Period {
        let (start, before) = (Instant::now(), self.done.load(Ordering::Relaxed));
        let spent = processors();
        while start.elapsed() < time {
            std::thread::sleep(Duration::from_millis(50).min(time));
            self.sample();
        }
        let (took, now) = (start.elapsed().as_secs_f64(), processors());
        let rate = (self.done.load(Ordering::Relaxed) - before) as f64 / took;
        Period { rate, writers: (now[0] - spent[0]) / took, engine: (now[1] - spent[1]) / took }
    }
}

/// What was measured around the snapshot and while it was held.
struct Measured {
    before: Period,
    during: Period,
    after: Period,
    /// Whether the snapshot has seen the same rows at its end.
    unchanged: bool,
    read_again: Duration,
    /// When the snapshot ended.
    dropped: Instant,
}

impl LongSnapshot {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = own_process::options().buffer_pool_bytes(512 << 20).open(dir.dir().join("db"))?;
        let load = |n| db.bulk_load(&format!("t{n}"), (0..ROWS).map(|n| (n.to_be_bytes(), value(n))));
        let tables = (0..self.writers).map(load).collect::<Result<Vec<Table>, _>>()?;
        let options =
            if self.durable { TxnOptions::new().durability(Durability::Sync) } else { soon_durable() };
        let writers = Writers { options, stop: AtomicBool::new(false), done: AtomicU64::new(0) };
        let mut watch = Watch { db: &db, done: &writers.done, peaks: Peaks::default(), total_peak: 0.0 };
        let measured = std::thread::scope(|scope| {
            let (db, shared) = (&db, &writers);
            let start = |(table, seed)| scope.spawn(move || shared.write(db, table, seed));
            let threads: Vec<_> = tables.iter().zip(1..).map(start).collect();
            let measured = self.measure(&mut watch, &tables);
            writers.stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(joined)?;
            measured
        })?;
        let writers_ended = Instant::now();
        wait_until_purged(&db);
        print(&measured, writers_ended, &watch);
        let report = db.check()?;
        say!("{report}");
        db.close()?;
        if !measured.unchanged || !report.is_clean() {
            return Err(Failure::failed("the snapshot or the check is wrong"));
        }
        Ok(())
    }

    fn measure(&self, watch: &mut Watch<'_>, tables: &[Table]) -> Outcome<Measured> {
        watch.period(WARM_UP.min(self.seconds));
        let around = (self.seconds / 3).min(AROUND_MAX);
        let before = watch.period(around);
        let reader = watch.db.begin()?;
        let first = sum(&reader, tables)?;
        let during = watch.period(self.seconds);
        let start = Instant::now();
        let last = sum(&reader, tables)?;
        let read_again = start.elapsed();
        drop(reader);
        watch.sample();
        let dropped = Instant::now();
        let after = watch.period(around);
        Ok(Measured { before, during, after, unchanged: first == last, read_again, dropped })
    }
}

fn print(measured: &Measured, writers_ended: Instant, watch: &Watch<'_>) {
    let Measured { before, during, after, .. } = measured;
    for (name, period) in [("before", before), ("during", during), ("after", after)] {
        let Period { rate, writers, engine } = period;
        say!(
            "{name:<7} {rate:>9.0} transactions a second, {:.2} of before   processors: writers {writers:.2}, {:.2} µs each, engine {engine:.2}",
            rate / before.rate,
            writers * 1e6 / rate,
        );
    }
    let seconds = |from: Instant| from.elapsed().as_secs_f64();
    say!("history empty       {:>12.1} s after the snapshot", seconds(measured.dropped));
    say!("                    {:>12.1} s after the writers' end", seconds(writers_ended));
    say!(
        "the snapshot again  {:>12.1} s to read, {}",
        measured.read_again.as_secs_f64(),
        if measured.unchanged { "unchanged" } else { "CHANGED" }
    );
    for (name, peak) in PARTS.iter().zip(watch.peaks.0) {
        say!("most {name:<20} {peak:>15.0}");
    }
    let budget = figure(watch.db, "history_budget_bytes");
    say!("most memory together {:>19.0} of a budget of {budget:.0}", watch.total_peak);
    say!("snapshots expired    {:>19}", figure(watch.db, "snapshots_too_old"));
}
