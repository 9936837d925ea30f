//! Measures how long other threads wait while memory goes back to the system after a peak.
//!
//! ```text
//! cargo run --release -p millpond --example trim_stall [-- LOCKS (1000000) [THREADS (2)]]
//! ```
//! THREADS threads change rows and commit without a sync. As many threads of the program do nothing
//! but allocate and free. A round has two phases: the threads alone, for ten seconds; then a
//! transaction has taken LOCKS locks and has released them, until the engine has given the memory
//! back (`heap_trims`), which takes five to ten seconds. For each phase the program prints the
//! longest change of a row and the longest allocation, and how often one took more than a
//! millisecond. Besides the resident memory, MiB, and how long the trim took. A busy machine shows
//! long ones in both phases: compare the two.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Isolation, Options, Table, TxnOptions};
use random::next;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const PHASES: [&str; 3] = ["the threads alone", "the peak", "after the peak, with the trim"];
const ALONE: Duration = Duration::from_secs(10);
const OWN_ROWS: u64 = 1000;
const ROUNDS: usize = 3;
/// Blocks that a thread of the program has at the same time.
const BLOCKS: usize = 4000;

/// By phase: the longest operation, and how many took more than a millisecond.
#[derive(Default)]
struct Longest {
    us: [AtomicU64; 3],
    slow: [AtomicU64; 3],
}

impl Longest {
    fn note(&self, phase: usize, took: Duration) {
        self.us[phase].fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        if took > Duration::from_millis(1) {
            self.slow[phase].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns what was noted in the phase, and begins it anew.
    fn take(&self, phase: usize) -> String {
        let (us, slow) =
            (self.us[phase].swap(0, Ordering::Relaxed), self.slow[phase].swap(0, Ordering::Relaxed));
        format!("{:.1} ms, {slow} above 1 ms", us as f64 / 1000.0)
    }
}

#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    stop: AtomicBool,
    changes: Longest,
    allocations: Longest,
}

/// Returns the resident memory, MiB, if a page of the system has 4 KiB.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 256
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

fn allocate(shared: &Shared, number: u64) {
    let mut state = number;
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); BLOCKS];
    while !shared.stop.load(Ordering::Relaxed) {
        let random = next(&mut state);
        let (from, phase) = (Instant::now(), shared.phase.load(Ordering::Relaxed));
        // More sizes than a thread's own cache of blocks serves.
        blocks[random as usize % BLOCKS] = vec![1; 100 + (random >> 32) as usize % 8000];
        shared.allocations.note(phase, from.elapsed());
    }
}

fn round(db: &Db, table: &Table, shared: &Shared, locks: u64) -> Outcome {
    let figure = |name: &str| db.metrics().get(name).unwrap_or(0.0) as u64;
    let say = |phase: usize| {
        let (changes, allocations) = (shared.changes.take(phase), shared.allocations.take(phase));
        println!("{:<30} {:>5} MiB, changes {changes}; allocations {allocations}", PHASES[phase], resident());
    };
    shared.phase.store(0, Ordering::Relaxed);
    std::thread::sleep(ALONE);
    say(0);
    shared.phase.store(1, Ordering::Relaxed);
    let (trims, us) = (figure("heap_trims"), figure("heap_trim_us_total"));
    let mut large = db.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
    for n in 0..locks {
        large.get_for_update(table, &[n.to_be_bytes(), [255; 8], [0; 8]].concat())?;
    }
    let peak = resident();
    drop(large);
    say(1);
    shared.phase.store(2, Ordering::Relaxed);
    while figure("heap_trims") == trims {
        std::thread::sleep(Duration::from_millis(10));
    }
    say(2);
    println!("peak {peak} MiB, the trim took {} ms\n", (figure("heap_trim_us_total") - us) as f64 / 1000.0);
    Ok(())
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let locks = args.next().transpose()?.unwrap_or(1_000_000);
    let threads = args.next().transpose()?.unwrap_or(2);
    let db = Options::new().buffer_pool_bytes(64 << 20).history_memory_bytes(1 << 30).open_in_memory()?;
    let table = db.create_table("t")?;
    let shared = Shared::default();
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (db, table, shared) = (&db, &table, &shared);
            scope.spawn(move || change(db, table, shared, number).expect("a change"));
            scope.spawn(move || allocate(shared, number));
        }
        let done = (0..ROUNDS).try_for_each(|_| round(&db, &table, &shared, locks));
        shared.stop.store(true, Ordering::Relaxed);
        done
    })?;
    db.close()?;
    Ok(())
}
