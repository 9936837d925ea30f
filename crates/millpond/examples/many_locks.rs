//! Measures a transaction that locks a million rows: how much it slows down other transactions, and
//! how much memory it takes and frees.
//!
//! ```text
//! cargo run --release -p millpond --example many_locks \
//!     [-- LOCKS (1000000) [ROUNDS (5) [SECONDS (0.5) [NEIGHBOURS (1)]]]]
//! ```
//! Each neighbour thread locks one of its own 10,000 rows, changes it and commits, without a sync
//! and without a pause. A round has four phases: the neighbours alone; while the large transaction
//! locks its rows for update; while it holds them; and while it releases them.
//!
//! The columns are the time of the phase, transactions a second, their share of the rate alone in
//! the same round, the longest transaction, and, at the end of the phase, the resident memory,
//! `lock_bytes` and `locks_held`. One more transaction waits for the row that was locked last; the
//! program shows how long after the start of the rollback it got the lock. The last line is the
//! median of the shares while the locks were held. Run it with two more processor cores than
//! NEIGHBOURS.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Options, Table, TxnOptions};
use random::next;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const OWN_ROWS: u64 = 10_000;
const PHASES: [&str; 4] = ["alone", "it locks", "it holds", "it releases"];

#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    stop: AtomicBool,
    /// By phase: transactions, and the longest of them, microseconds.
    done: [AtomicU64; 4],
    longest_us: [AtomicU64; 4],
}

/// Returns the resident memory, MiB.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    pages * 4096.0 / f64::from(1 << 20)
}

fn options() -> TxnOptions {
    TxnOptions::new()
        .isolation(millpond::Isolation::ReadCommitted)
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

struct Bench<'b> {
    db: &'b Db,
    table: &'b Table,
    shared: &'b Shared,
    time: Duration,
    first: u64,
    locks: u64,
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
        let figure = |name| self.db.metrics().get(name).unwrap_or(0.0);
        println!(
            "{:>14} {:>9.0} {:>10.0} {:>7.2} {longest:>12.2} {:>14.0} {:>16.1} {:>11.0}",
            PHASES[number],
            seconds * 1e3,
            rate,
            rate / alone.unwrap_or(rate),
            resident(),
            figure("lock_bytes") / f64::from(1 << 20),
            figure("locks_held")
        );
        (rate, result)
    }

    /// Runs a round. Returns the share of the neighbours' rate while the locks are held.
    fn round(&self) -> Outcome<f64> {
        let (alone, ()) = self.phase(0, None, || std::thread::sleep(self.time));
        let mut tx = self.db.begin_with(options())?;
        self.phase(1, Some(alone), || {
            (0..self.locks)
                .try_for_each(|n| tx.get_for_update(self.table, &(self.first + n).to_be_bytes()).map(drop))
        })
        .1?;
        let (beside, ()) = self.phase(2, Some(alone), || std::thread::sleep(self.time));
        std::thread::scope(|scope| {
            let last = scope.spawn(|| {
                let mut tx = self.db.begin_with(options())?;
                tx.get_for_update(self.table, &(self.first + self.locks - 1).to_be_bytes())?;
                Ok::<_, millpond::Error>(Instant::now())
            });
            std::thread::sleep(Duration::from_millis(50));
            let from = Instant::now();
            self.phase(3, Some(alone), || tx.rollback());
            let waited = last.join().expect("a thread")?.saturating_duration_since(from);
            println!(
                "{:>14} {:>9.2} ms until the waiter for the last row had its lock",
                "",
                waited.as_secs_f64() * 1e3
            );
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        Ok(beside / alone)
    }
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let locks = args.next().map_or(Ok(1_000_000), |s| s.parse())?;
    let rounds = args.next().map_or(Ok(5), |s| s.parse())?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(0.5), |s| s.parse())?);
    let neighbours = args.next().map_or(Ok(1), |s| s.parse())?;
    let dir = std::env::current_dir()?.join(format!("many-locks-{}", std::process::id()));
    let mut choices = Options::new();
    if locks > 1_000_000 {
        // Locks may take half of this.
        choices = choices.history_memory_bytes(locks * 500);
    }
    let db = choices.open(&dir)?;
    let first = neighbours * OWN_ROWS;
    db.bulk_load("rows", (0..first + locks).map(|n| (n.to_be_bytes(), [0; 8])))?;
    let table = db.open_table("rows")?;
    let shared = Shared::default();
    println!(
        "{:>14} {:>9} {:>10} {:>7} {:>12} {:>14} {:>16} {:>11}",
        "", "ms", "a second", "share", "longest, ms", "resident, MiB", "lock_bytes, MiB", "locks_held"
    );
    let bench = Bench { db: &db, table: &table, shared: &shared, time, first, locks };
    let shares = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..neighbours)
            .map(|n| {
                let (db, table, shared) = (&db, &table, &shared);
                scope.spawn(move || neighbour(db, table, shared, n))
            })
            .collect();
        let shares = (0..rounds).map(|_| bench.round()).collect::<Outcome<Vec<f64>>>();
        shared.stop.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread"))?;
        shares
    });
    let mut shares = shares?;
    shares.sort_by(f64::total_cmp);
    println!("with {locks} locks held, the neighbours keep {:.2} of their rate", shares[shares.len() / 2]);
    drop((table, db));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
