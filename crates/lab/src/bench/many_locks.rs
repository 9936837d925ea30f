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
const PHASES: [&str; 5] = ["alone", "it locks", "it holds", "it releases", "it only reads"];

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
included, as a statement of SQL without an index does. Then its locks are one range. A fifth phase
reads the same rows with a cursor that locks nothing: what the neighbours lose there is the
processor's time and caches, and no lock's work. One more line compares both.";

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
    done: [AtomicU64; PHASES.len()],
    longest_us: [AtomicU64; PHASES.len()],
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
        if scan {
            // The first scan of a table reads its pages from the file.
            bench.scan(&mut db.begin_with(options().isolation(Isolation::RepeatableRead))?, None)?;
        }
        let shares = std::thread::scope(|scope| {
            let (db, table, shared) = (&db, &table, &shared);
            let start = |n| scope.spawn(move || neighbour(db, table, shared, n));
            let threads: Vec<_> = (0..self.neighbours).map(start).collect();
            let shares = (0..self.rounds).map(|_| bench.round()).collect::<Outcome<Vec<Shares>>>();
            shared.stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(joined)?;
            shares
        })?;
        let middle = |share: fn(&Shares) -> f64| median(shares.iter().map(share).collect());
        say!("with {locks} locks held, the neighbours keep {:.2} of their rate", middle(|all| all.holds));
        if scan {
            let beside = middle(|all| all.locks / all.reads.unwrap_or(f64::NAN));
            say!("beside the scan that locks they keep {beside:.2} of their rate beside one that only reads");
        }
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

/// What the neighbours keep of their rate in a round, while the large transaction is in a phase.
struct Shares {
    locks: f64,
    holds: f64,
    /// While it reads the same rows without locks.
    reads: Option<f64>,
}

impl Bench<'_> {
    /// Reads all rows in order, and locks them if `lock` says so.
    fn scan(&self, tx: &mut Transaction, lock: Option<RowLock>) -> millpond::Result<()> {
        let mut cursor = Cursor::new(self.table);
        let end = self.first + self.locks;
        cursor.set_bounds(&self.first.to_be_bytes()[..]..&end.to_be_bytes()[..]);
        cursor.set_lock(lock, LockWait::Wait);
        let mut read = 0;
        let mut found = cursor.seek(tx, Seek::First)?.is_some();
        while found {
            read += 1;
            found = cursor.next(tx)?.is_some();
        }
        assert_eq!(read, self.locks, "the scan has not read all rows");
        Ok(())
    }

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

    fn round(&self) -> Outcome<Shares> {
        let (alone, ()) = self.phase(0, None, || std::thread::sleep(self.time));
        let gaps = options().isolation(Isolation::RepeatableRead).current_reads(true);
        let mut tx = self.db.begin_with(if self.scan { gaps } else { options() })?;
        let keys = || (self.first..self.first + self.locks).map(u64::to_be_bytes);
        let lock_all = || match self.scan {
            true => self.scan(&mut tx, Some(RowLock::Exclusive)),
            false => keys().try_for_each(|key| tx.get_for_update(self.table, &key).map(drop)),
        };
        let (locking, locked) = self.phase(1, Some(alone), lock_all);
        locked?;
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
        let reading = self.scan.then(|| self.read(alone)).transpose()?;
        Ok(Shares { locks: locking / alone, holds: beside / alone, reads: reading.map(|rate| rate / alone) })
    }

    /// Reads the rows without locks. Returns the neighbours' rate meanwhile.
    fn read(&self, alone: f64) -> Outcome<f64> {
        let mut tx = self.db.begin_with(options().isolation(Isolation::RepeatableRead))?;
        let (rate, read) = self.phase(4, Some(alone), || self.scan(&mut tx, None));
        read?;
        Ok(rate)
    }
}
