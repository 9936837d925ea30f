//! `millpond bench many-locks`: a transaction that locks a million rows.

use super::random::next;
use super::{figure, joined, median, mib, resident_kib, scratch};
use crate::failure::{Failure, Outcome};
use crate::units::parse_time;
use millpond::{
    Cursor, Db, Durability, Isolation, LockWait, Options, RowLock, Seek, Table, Transaction, TxnOptions,
};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const OWN_ROWS: u64 = 10_000;
const PHASES: [&str; 4] = ["alone", "it locks", "it holds", "it releases"];

const NOTES: &str = "\
How much does such a transaction slow down others, and how much memory does it take and free? Each
neighbour thread locks one of its own 10,000 rows, changes it and commits, without a sync and
without a pause. A round has four phases: the neighbours alone; while the large transaction locks
its rows for update; while it holds them; and while it releases them.

The columns are the time of the phase, transactions a second, their share of the rate alone in
the same round, the longest transaction, and, at the end of the phase, the resident memory,
`lock_bytes` and `locks_held`. One more transaction waits for the row that was locked last; the
benchmark shows how long after the start of the rollback it got the lock. The last line is the
median of the shares while the locks were held. Run it with two more processor cores than
neighbours.

With `--scan` the large transaction reads its rows in order with a cursor that locks them, gaps
included, as a statement of SQL without an index does. Then its locks are one range.";

/// A transaction that locks a million rows, and its neighbours
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct ManyLocks {
    /// Rows that are locked
    #[arg(long, value_name = "R", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    locks: u64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A cursor locks the rows, in order
    #[arg(long)]
    scan: bool,
    /// How long the phases without a change of the locks take
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = parse_time)]
    seconds: Duration,
    /// Neighbour threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    neighbours: u64,
}

#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    stop: AtomicBool,
    /// By phase: transactions, and the longest of them, microseconds.
    done: [AtomicU64; 4],
    longest_us: [AtomicU64; 4],
}

fn options() -> TxnOptions {
    TxnOptions::new()
        .isolation(Isolation::ReadCommitted)
        .durability(Durability::None)
        .lock_wait(Duration::from_secs(600))
}

fn neighbour(db: &Db, table: &Table, shared: &Shared, number: u64) -> millpond::Result<()> {
    let mut state = number;
    while !shared.stop.load(Ordering::Relaxed) {
        let (from, phase) = (Instant::now(), shared.phase.load(Ordering::Relaxed));
        let key = (number * OWN_ROWS + next(&mut state) % OWN_ROWS).to_be_bytes();
        let mut tx = db.begin_with(options())?;
        tx.get_for_update(table, &key)?;
        tx.put(table, &key, &state.to_be_bytes())?;
        tx.commit()?;
        shared.done[phase].fetch_add(1, Ordering::Relaxed);
        shared.longest_us[phase].fetch_max(from.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
    Ok(())
}

impl ManyLocks {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let (locks, dir) = (self.locks, scratch()?);
        let mut choices = Options::new();
        if locks > 1_000_000 && !self.scan {
            // Locks may take half of this.
            choices = choices.history_memory_bytes(locks * 500);
        }
        let db = choices.open(dir.dir().join("db"))?;
        let first = self.neighbours * OWN_ROWS;
        let table = db.bulk_load("rows", (0..first + locks).map(|n| (n.to_be_bytes(), [0; 8])))?;
        let shared = Shared::default();
        say!(
            "{:>14} {:>9} {:>10} {:>7} {:>12} {:>14} {:>16} {:>11}",
            "",
            "ms",
            "a second",
            "share",
            "longest, ms",
            "resident, MiB",
            "lock_bytes, MiB",
            "locks_held"
        );
        let (time, scan) = (self.seconds, self.scan);
        let bench = Bench { db: &db, table: &table, shared: &shared, time, first, locks, scan };
        let shares = std::thread::scope(|scope| {
            let (db, table, shared) = (&db, &table, &shared);
            let start = |n| scope.spawn(move || neighbour(db, table, shared, n));
            let threads: Vec<_> = (0..self.neighbours).map(start).collect();
            let shares = (0..self.rounds).map(|_| bench.round()).collect::<Outcome<Vec<f64>>>();
            shared.stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(joined)?;
            shares
        })?;
        say!("with {locks} locks held, the neighbours keep {:.2} of their rate", median(shares));
        Ok(())
    }
}

struct Bench<'b> {
    db: &'b Db,
    table: &'b Table,
    shared: &'b Shared,
    time: Duration,
    first: u64,
    locks: u64,
    scan: bool,
}

/// Locks `rows` rows from `first` on, in order, and returns how many there were.
fn scan(tx: &mut Transaction, table: &Table, first: u64, rows: u64) -> millpond::Result<u64> {
    let mut cursor = Cursor::new(table);
    cursor.set_bounds(&first.to_be_bytes()[..]..&(first + rows).to_be_bytes()[..]);
    cursor.set_lock(Some(RowLock::Exclusive), LockWait::Wait);
    let mut read = 0;
    let mut found = cursor.seek(tx, Seek::First)?.is_some();
    while found {
        read += 1;
        found = cursor.next(tx)?.is_some();
    }
    Ok(read)
}

impl Bench<'_> {
    /// Runs `work` as a phase. Returns the neighbours' rate meanwhile.
    fn phase<T>(&self, number: usize, alone: Option<f64>, work: impl FnOnce() -> T) -> (f64, T) {
        self.shared.done[number].store(0, Ordering::Relaxed);
        self.shared.longest_us[number].store(0, Ordering::Relaxed);
        self.shared.phase.store(number, Ordering::Relaxed);
        let start = Instant::now();
        let result = work();
        let seconds = start.elapsed().as_secs_f64();
        let rate = self.shared.done[number].load(Ordering::Relaxed) as f64 / seconds;
        let longest = self.shared.longest_us[number].load(Ordering::Relaxed) as f64 / 1e3;
        say!(
            "{:>14} {:>9.0} {:>10.0} {:>7.2} {longest:>12.2} {:>14} {:>16.1} {:>11.0}",
            PHASES[number],
            seconds * 1e3,
            rate,
            rate / alone.unwrap_or(rate),
            resident_kib() / 1024,
            mib(figure(self.db, "lock_bytes")),
            figure(self.db, "locks_held")
        );
        (rate, result)
    }

    /// Runs a round. Returns the share of the neighbours' rate while the locks are held.
    fn round(&self) -> Outcome<f64> {
        let (alone, ()) = self.phase(0, None, || std::thread::sleep(self.time));
        let gaps = options().isolation(Isolation::RepeatableRead).current_reads(true);
        let mut tx = self.db.begin_with(if self.scan { gaps } else { options() })?;
        let keys = || (self.first..self.first + self.locks).map(u64::to_be_bytes);
        let lock_all = || match self.scan {
            true => scan(&mut tx, self.table, self.first, self.locks).map(|rows| {
                assert_eq!(rows, self.locks);
            }),
            false => keys().try_for_each(|key| tx.get_for_update(self.table, &key).map(drop)),
        };
        self.phase(1, Some(alone), lock_all).1?;
        let (beside, ()) = self.phase(2, Some(alone), || std::thread::sleep(self.time));
        std::thread::scope(|scope| {
            let last = scope.spawn(|| {
                let mut tx = self.db.begin_with(options())?;
                tx.get_for_update(self.table, &(self.first + self.locks - 1).to_be_bytes())?;
                Ok(Instant::now())
            });
            std::thread::sleep(Duration::from_millis(50));
            let from = Instant::now();
            self.phase(3, Some(alone), || tx.rollback());
            let waited = joined(last)?.saturating_duration_since(from);
            say!(
                "{:>14} {:>9.2} ms until the waiter for the last row had its lock",
                "",
                waited.as_secs_f64() * 1e3
            );
            Ok::<_, Failure>(())
        })?;
        Ok(beside / alone)
    }
}
