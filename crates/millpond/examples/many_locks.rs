//! A transaction that locks a million rows explicitly: what its neighbours notice, and what memory
//! it takes and gives back.
//!
//! ```text
//! cargo run --release -p millpond --example many_locks [-- LOCKS (1000000) [ROUNDS (5) [SECONDS (0.5) [NEIGHBOURS (1)]]]]
//! ```
//! Neighbours lock one of their own 10,000 rows, change it and commit, unsynced, without a pause. A
//! round measures them alone, while the rows of the large transaction are locked for update, while
//! it holds them, and while it gives them back: transactions a second, their share of the rate
//! alone in the same round, and the longest transaction of each phase. Beside it are the resident
//! memory, `lock_bytes` and `locks_held` at the end of the phase. Somebody waits for the row that
//! was locked last; shown is for how long after the rollback began, beside how long that took. The
//! median of the shares while it held its locks stands at the end. Run it with as many cores as
//! NEIGHBOURS and two more.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Options, Table, TxnOptions};
use random::next;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const OWN_ROWS: u64 = 10_000;
const PHASES: [&str; 4] = ["alone", "it locks", "it holds", "it gives back"];

#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    stop: AtomicBool,
    /// By phase: transactions, and the longest, microseconds.
    done: [AtomicU64; 4],
    longest_us: [AtomicU64; 4],
}

/// Resident memory, MiB.
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
    /// Does something in a phase; the rate of the neighbours meanwhile.
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

    /// The share of the neighbours' rate while the locks are held.
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
                "{:>14} {:>9.2} ms until who waited for the last row had it",
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
    println!(
        "while it holds {locks} locks its neighbours keep {:.2} of their rate",
        shares[shares.len() / 2]
    );
    drop((table, db));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
