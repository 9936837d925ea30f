//! Loads, reads, scans and updates, each for a few seconds. It prints one line for each: its name,
//! operations a second, and nanoseconds of a processor for an operation, of all threads together.
//! `cargo xtask against COMMIT` builds this file with another commit of the engine too, so it uses
//! only calls that have been there for long.
//!
//! `against DIR ROWS SECONDS [ONLY]`: the database is made in DIR, which must not exist. With ONLY,
//! the table is loaded, and of the rest those loads run whose names contain it.

use millpond::{Db, Durability, Error, Options, Table, TxnOptions};
use rustix::time::{ClockId, clock_gettime};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const POOL_BYTES: u64 = 1 << 30;
const ROWS_A_TRANSACTION: u64 = 10_000;
const VALUE_BYTES: usize = 200;
const SCANNED: u64 = 100;
/// Reads and changes of a transaction of the write-heavy load.
const HEAVY: (u64, u64) = (14, 40);
const THREADS: [u64; 2] = [1, 16];

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let done = match &args[1..] {
        [dir, rows, seconds] => run(Path::new(dir), rows, seconds, ""),
        [dir, rows, seconds, only] => run(Path::new(dir), rows, seconds, only),
        _ => Err("usage: against DIR ROWS SECONDS [ONLY]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("against: {what}");
            ExitCode::FAILURE
        }
    }
}

/// What all loads share.
struct Loads {
    db: Db,
    table: Table,
    rows: u64,
    time: Duration,
    only: String,
}

fn run(dir: &Path, rows: &str, seconds: &str, only: &str) -> Outcome {
    let (rows, time) = (rows.parse()?, Duration::from_secs_f64(seconds.parse()?));
    if dir.exists() {
        return Err(format!("{} is there already", dir.display()).into());
    }
    let db = Options::new().buffer_pool_bytes(POOL_BYTES).open(dir)?;
    let table = db.create_table("rows")?;
    let loads = Loads { db, table, rows, time, only: only.to_owned() };
    loads.load()?;
    loads.db.checkpoint()?;
    loads.each("point reads", Loads::read)?;
    loads.each("scans of 100 rows", Loads::scan)?;
    loads.each("unsynced updates", |loads, rng| loads.update(rng, Durability::None))?;
    loads.each("scans after updates", Loads::scan)?;
    loads.each("durable updates", |loads, rng| loads.update(rng, Durability::Sync))?;
    loads.timed("write-heavy transactions", 16, &Loads::heavy)?;
    loads.db.close()?;
    Ok(())
}

/// When a load began, by the clock and by the processor time of this process.
struct Begun {
    at: Instant,
    processor: Duration,
}

impl Begun {
    fn now() -> Begun {
        Begun { at: Instant::now(), processor: processor_time() }
    }

    fn print(&self, name: &str, operations: u64) {
        let rate = operations as f64 / self.at.elapsed().as_secs_f64();
        let each = (processor_time() - self.processor).as_secs_f64() * 1e9 / operations as f64;
        println!("{name}: {rate:.0} {each:.1}");
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Loads {
    /// Loads all rows in the order of their keys.
    fn load(&self) -> Outcome {
        let begun = Begun::now();
        let mut rng = Random(7);
        for first in (0..self.rows).step_by(ROWS_A_TRANSACTION as usize) {
            let mut tx = self.db.begin()?;
            for n in first..(first + ROWS_A_TRANSACTION).min(self.rows) {
                tx.insert(&self.table, &key(n), &value(&mut rng))?;
            }
            tx.commit()?;
        }
        begun.print("rows loaded", self.rows);
        Ok(())
    }

    fn each(&self, name: &str, work: impl Fn(&Loads, &mut Random) -> Outcome + Sync) -> Outcome {
        THREADS.iter().try_for_each(|threads| self.timed(name, *threads, &work))
    }

    /// Does `work` in so many threads for the time of a load, and prints how often in a second.
    fn timed(
        &self,
        name: &str,
        threads: u64,
        work: &(impl Fn(&Loads, &mut Random) -> Outcome + Sync),
    ) -> Outcome {
        if !name.contains(&self.only) {
            return Ok(());
        }
        let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let begun = Begun::now();
        let one = |n: u64| {
            let mut rng = Random(n + 1);
            let mut done = 0;
            let mut outcome = Ok(());
            while outcome.is_ok() && !over.load(Ordering::Relaxed) {
                outcome = work(self, &mut rng);
                done += 1;
            }
            count.fetch_add(done, Ordering::Relaxed);
            outcome
        };
        let one = &one;
        let failed: Outcome = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n))).collect();
            std::thread::sleep(self.time);
            over.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        });
        failed?;
        begun.print(&format!("{name}, {threads} threads"), count.into_inner());
        Ok(())
    }

    fn any(&self, rng: &mut Random) -> u64 {
        rng.below(self.rows)
    }

    fn read(&self, rng: &mut Random) -> Outcome {
        let tx = self.db.begin()?;
        tx.get(&self.table, &key(self.any(rng)))?.ok_or("a row is missing")?;
        Ok(())
    }

    fn scan(&self, rng: &mut Random) -> Outcome {
        let (tx, first) = (self.db.begin()?, key(rng.below(self.rows - SCANNED)));
        let mut left = SCANNED;
        tx.scan(&self.table, &first[..].., |_, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if left == 0 { Ok(()) } else { Err("rows are missing".into()) }
    }

    fn update(&self, rng: &mut Random, durability: Durability) -> Outcome {
        self.again(|| {
            let mut tx = self.db.begin_with(TxnOptions::new().durability(durability))?;
            tx.put(&self.table, &key(self.any(rng)), &value(rng))?;
            tx.commit().map(drop)
        })
    }

    fn heavy(&self, rng: &mut Random) -> Outcome {
        self.again(|| {
            let mut tx = self.db.begin()?;
            for _ in 0..HEAVY.0 {
                tx.get(&self.table, &key(self.any(rng)))?;
            }
            // Ascending keys lock each other out less.
            let mut keys: Vec<u64> = (0..HEAVY.1).map(|_| self.any(rng)).collect();
            keys.sort_unstable();
            keys.into_iter().try_for_each(|n| tx.put(&self.table, &key(n), &value(rng)))?;
            tx.commit().map(drop)
        })
    }

    /// Tries a transaction until it has no conflict.
    fn again(&self, mut transaction: impl FnMut() -> Result<(), Error>) -> Outcome {
        loop {
            match transaction() {
                Err(error) if error.is_retryable() => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn value(rng: &mut Random) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&rng.next().to_le_bytes()));
    value
}

/// Marsaglia's xorshift: the load needs numbers that cost nothing.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
