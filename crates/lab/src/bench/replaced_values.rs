//! `millpond bench replaced-values`: long values replaced while snapshots are held one after
//! another.

use super::random::next;
use super::{figure, joined, mib, scratch, soon_durable, wait_until_purged};
use crate::failure::{Failure, Outcome};
use crate::units::{parse_size, parse_time};
use millpond::{Db, Options, Table};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Keys of one thread.
const KEYS: u64 = 40;
/// The lengths of values lie between these, and their logarithms are uniform. Bytes.
const SHORTEST: f64 = 20.0;
const LONGEST: f64 = 1e6;
/// How often the length of the file is looked at.
const SAMPLES: u32 = 12;
const PAGE_BYTES: usize = 4096;

const NOTES: &str = "\
Each thread replaces the values of its own 40 keys; the lengths go from 20 bytes to 1 MB. First no
snapshot is held, then one after another. Shows the rate, the length of the pages file over time,
and how long purge needs at the end. What a snapshot of S seconds keeps is what was replaced in
about 2 S. So the file should grow for that long, and then no more.";

/// Long values replaced while snapshots come and go
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct ReplacedValues {
    /// How long each of the two parts is measured
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_time)]
    seconds: Duration,
    /// How long each snapshot is held
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_time)]
    snapshot: Duration,
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    writers: u64,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pool: u64,
}

#[derive(Default)]
struct Writers {
    stop: AtomicBool,
    values: AtomicU64,
    bytes: AtomicU64,
}

impl Writers {
    fn write(&self, db: &Db, table: &Table, thread: u64) -> millpond::Result<()> {
        let mut state = thread;
        let bytes: Vec<u8> = (0..LONGEST as usize / 8).flat_map(|_| next(&mut state).to_le_bytes()).collect();
        while !self.stop.load(Ordering::Relaxed) {
            let key = (thread * KEYS + next(&mut state) % KEYS).to_be_bytes();
            let part = next(&mut state) as f64 / u64::MAX as f64;
            let len = (SHORTEST * (LONGEST / SHORTEST).powf(part)) as usize;
            let mut tx = db.begin_with(soon_durable())?;
            tx.put(table, &key, &bytes[bytes.len() - len..])?;
            tx.commit()?;
            self.values.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl ReplacedValues {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let options = Options::new().buffer_pool_bytes(self.pool).page_bytes(PAGE_BYTES);
        let db = options.open(dir.dir().join("db"))?;
        let table = db.create_table("values")?;
        let writers = Writers::default();
        std::thread::scope(|scope| {
            let (db, table, shared) = (&db, &table, &writers);
            let threads: Vec<_> =
                (0..self.writers).map(|n| scope.spawn(move || shared.write(db, table, n))).collect();
            let snapshots = AtomicBool::new(false);
            let measured = std::thread::scope(|scope| {
                let holder = scope.spawn(|| self.hold_snapshots((db, table), &writers, &snapshots));
                self.part("without snapshots", db, &writers);
                snapshots.store(true, Ordering::Relaxed);
                self.part("with snapshots", db, &writers);
                writers.stop.store(true, Ordering::Relaxed);
                joined(holder)
            });
            threads.into_iter().try_for_each(joined)?;
            measured
        })?;
        let ended = Instant::now();
        wait_until_purged(&db);
        say!("history empty {:.1} s after the writers' end", ended.elapsed().as_secs_f64());
        let report = db.check()?;
        say!("{report}");
        db.close()?;
        if report.is_clean() { Ok(()) } else { Err(Failure::failed("the check is wrong")) }
    }

    /// Holds one snapshot after another, from when they are wanted until the writers stop.
    fn hold_snapshots(
        &self,
        (db, table): (&Db, &Table),
        writers: &Writers,
        wanted: &AtomicBool,
    ) -> millpond::Result<()> {
        const STEP: Duration = Duration::from_millis(10);
        while !writers.stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            std::thread::sleep(STEP);
            if !wanted.load(Ordering::Relaxed) {
                continue;
            }
            let reader = db.begin()?;
            // A transaction takes its snapshot when it first reads.
            reader.get(table, b"")?;
            while start.elapsed() < self.snapshot && !writers.stop.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
            }
        }
        Ok(())
    }

    fn part(&self, name: &str, db: &Db, writers: &Writers) {
        let done = || {
            [writers.values.load(Ordering::Relaxed), writers.bytes.load(Ordering::Relaxed)].map(|n| n as f64)
        };
        let (start, before) = (Instant::now(), done());
        let mut lengths = Vec::new();
        let mut history: f64 = 0.0;
        for _ in 0..SAMPLES {
            std::thread::sleep(self.seconds / SAMPLES);
            lengths.push(format!("{:.0}", mib(figure(db, "file_pages") * PAGE_BYTES as f64)));
            history = history.max(figure(db, "history_transactions"));
        }
        let (took, now) = (start.elapsed().as_secs_f64(), done());
        say!(
            "{name:<18} {:>7.0} values/s {:>5.0} MB/s   history at most {history:>7.0}   file, MiB: {}",
            (now[0] - before[0]) / took,
            (now[1] - before[1]) / 1e6 / took,
            lengths.join(" "),
        );
    }
}
