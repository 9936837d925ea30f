//! `millpond bench trim-stall`: what other threads notice when memory goes back to the system.

use super::random::next;
use super::{figure, joined, resident_kib};
use crate::failure::Outcome;
use crate::own_process;
use crate::units::parse_time;
use millpond::{Db, Durability, Isolation, Table, TxnOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const OWN_ROWS: u64 = 1000;
/// Blocks of memory that an allocating thread has at the same time.
const BLOCKS: usize = 4000;
const PHASES: [&str; 3] = ["alone", "beside the peak", "after the peak"];
const SLOW: Duration = Duration::from_millis(1);

const NOTES: &str = "\
Half of the threads change rows and commit, without a sync and without a pause. The others do
nothing but allocate and free memory. A round has three phases: the threads alone; while a
transaction takes very many locks and releases them; and until the engine has given the memory back
(the figure `heap_trims`), which takes five to fifteen seconds. The database is in memory.

The columns are the resident memory at the end of the phase, and for the changes of rows and for the
allocations the longest one and how many took more than a millisecond. On a busy machine both phases
have long ones: compare the two.";

/// What other threads notice when memory goes back to the system after a peak
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct TrimStall {
    /// Locks of the large transaction
    #[arg(long, value_name = "R", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    locks: u64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Threads of each kind
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    threads: u64,
    /// How long the threads are alone, and how long the benchmark waits at most for the memory
    #[arg(long, value_name = "S", default_value = "15", value_parser = parse_time)]
    seconds: Duration,
}

/// By phase: the longest operation, and how many were slow.
#[derive(Default)]
struct Longest {
    us: [AtomicU64; 3],
    slow: [AtomicU64; 3],
}

impl Longest {
    fn note(&self, phase: usize, took: Duration) {
        self.us[phase].fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        self.slow[phase].fetch_add(u64::from(took > SLOW), Ordering::Relaxed);
    }

    /// Returns the longest, ms, and the number of slow ones, and begins the phase anew.
    fn take(&self, phase: usize) -> (f64, u64) {
        let us = self.us[phase].swap(0, Ordering::Relaxed);
        (us as f64 / 1e3, self.slow[phase].swap(0, Ordering::Relaxed))
    }
}

#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    stop: AtomicBool,
    changes: Longest,
    allocations: Longest,
}

impl Shared {
    fn begin(&self, phase: usize) {
        self.phase.store(phase, Ordering::Relaxed);
    }

    fn end(&self, phase: usize) {
        let (change, slow_changes) = self.changes.take(phase);
        let (allocation, slow_allocations) = self.allocations.take(phase);
        say!(
            "{:>16} {:>14} {change:>12.1} {slow_changes:>9} {allocation:>12.1} {slow_allocations:>9}",
            PHASES[phase],
            resident_kib() / 1024
        );
    }
}

fn change(db: &Db, table: &Table, shared: &Shared, number: u64) -> millpond::Result<()> {
    let mut state = number;
    while !shared.stop.load(Ordering::Relaxed) {
        let (from, phase) = (Instant::now(), shared.phase.load(Ordering::Relaxed));
        let key = (number * OWN_ROWS + next(&mut state) % OWN_ROWS).to_be_bytes();
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None))?;
        tx.put(table, &key, &[state as u8; 200])?;
        tx.commit()?;
        shared.changes.note(phase, from.elapsed());
    }
    Ok(())
}

fn allocate(shared: &Shared, number: u64) -> millpond::Result<()> {
    let mut state = number;
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); BLOCKS];
    while !shared.stop.load(Ordering::Relaxed) {
        let random = next(&mut state);
        let (from, phase) = (Instant::now(), shared.phase.load(Ordering::Relaxed));
        // More sizes than the blocks that an allocator keeps for a thread have.
        blocks[random as usize % BLOCKS] = vec![1; 100 + (random >> 32) as usize % 8000];
        shared.allocations.note(phase, from.elapsed());
    }
    Ok(())
}

impl TrimStall {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let options = own_process::options().buffer_pool_bytes(64 << 20).history_memory_bytes(1 << 30);
        let db = options.open_in_memory()?;
        let table = db.create_table("t")?;
        let shared = Shared::default();
        say!(
            "{:>16} {:>14} {:>12} {:>9} {:>12} {:>9}",
            "",
            "resident, MiB",
            "changes, ms",
            "> 1 ms",
            "alloc., ms",
            "> 1 ms"
        );
        std::thread::scope(|scope| {
            let (db, table, shared) = (&db, &table, &shared);
            let changing = |number| scope.spawn(move || change(db, table, shared, number));
            let allocating = |number| scope.spawn(move || allocate(shared, number));
            let threads: Vec<_> =
                (0..self.threads).flat_map(|number| [changing(number), allocating(number)]).collect();
            let done = (0..self.rounds).try_for_each(|_| self.round(db, table, shared));
            shared.stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(joined)?;
            done
        })?;
        Ok(db.close()?)
    }

    fn round(&self, db: &Db, table: &Table, shared: &Shared) -> Outcome {
        shared.begin(0);
        std::thread::sleep(self.seconds);
        shared.end(0);
        shared.begin(1);
        let (trims, us) = (figure(db, "heap_trims"), figure(db, "heap_trim_us_total"));
        let mut large = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
        for n in 0..self.locks {
            // The row is missing, so its absence is locked.
            large.get_for_update(table, &[n.to_be_bytes(), [255; 8], [0; 8]].concat())?;
        }
        let peak = resident_kib() / 1024;
        drop(large);
        shared.end(1);
        shared.begin(2);
        let from = Instant::now();
        while figure(db, "heap_trims") == trims && from.elapsed() < self.seconds {
            std::thread::sleep(Duration::from_millis(10));
        }
        shared.end(2);
        if figure(db, "heap_trims") == trims {
            say!("{:>16} {peak} MiB at the peak; no trim: too few locks, or too little time", "");
        } else {
            let ms = (figure(db, "heap_trim_us_total") - us) / 1e3;
            say!("{:>16} {peak} MiB at the peak; the trim took {ms:.1} ms", "");
        }
        Ok(())
    }
}
