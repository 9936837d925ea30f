//! `millpond bench hot-rows`: all threads change the same row, or two of a few rows.

use super::random::next;
use super::turn_queue::TurnQueue;
use super::{figure, joined, p99, scratch, sorted};
use millpond::{Db, Durability, Error, Isolation, Options, Table, TxnOptions};
use output::failure::{Failure, Outcome};
use output::units::parse_time;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HOT: u64 = 64;
const VALUE_BYTES: usize = 100;

const NOTES: &str = "\
One row: every transaction changes the same row, without a sync and with one. The columns are
commits a second; their share of the rate in the first line; the 99th percentile and the longest
time of a commit, milliseconds; the percentile divided by the time of one round in which each
thread commits once (threads / rate); the longest time without a commit; and the 99th percentile
of the commits of others during one commit, divided by the number of threads. The last is 1
where all threads are served in turn, whatever the machine does.

A bare queue shows what the machine can do with as many threads that take turns: a thread parks
until it gets the turn, works for as long as a commit of a single thread takes, and passes the
turn on.

Two of 64 rows: every transaction changes two rows, in the order of their keys or in random order.
Random order makes real deadlocks, and the victim begins again. The columns also show the share of
processor time that the deadlock search took, and the longest time that a deadlock lasted. That
share is measured by the clock, so it includes time without a processor.

Commits that begin before each thread has had two turns are not counted.";

/// Commits a second, and their latency, while all threads change one row or two of 64 rows
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct HotRows {
    /// Numbers of threads, one after the other
    #[arg(long, value_name = "LIST", default_value = "16,128,512,2000", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    threads: Vec<u64>,
    /// How long each measurement takes
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_time)]
    seconds: Duration,
    /// Only two rows in random order, so a profiler shows the deadlock search (`find_cycle`)
    #[arg(long)]
    random_only: bool,
}

/// Returns the processor time of the process, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

#[derive(Clone, Copy, PartialEq)]
enum Rows {
    One,
    Ordered,
    Random,
}

struct Measured {
    rate: f64,
    /// Milliseconds.
    p99: f64,
    worst: f64,
    /// The longest time without a commit, milliseconds.
    gap: f64,
    /// The 99th percentile of the commits of others during a commit, divided by the number of
    /// threads.
    passed: f64,
    retries: f64,
}

/// One commit: its begin and end, milliseconds since the start; how many others committed
/// meanwhile; how often it began again.
struct Sample {
    from: f64,
    to: f64,
    passed: u64,
    retries: u64,
}

/// Lets threads commit again and again. `commit` gets the thread's number and its generator, and
/// returns how often it began again.
fn run_threads(
    threads: u64,
    time: Duration,
    commit: impl Fn(u64, &mut u64) -> millpond::Result<u64> + Sync,
) -> Outcome<Measured> {
    let (stop, all, done) = (AtomicBool::new(false), Barrier::new(threads as usize + 1), AtomicU64::new(0));
    let begun = Instant::now();
    let now = || begun.elapsed().as_secs_f64() * 1e3;
    let work = |n: u64| {
        let (mut state, mut samples) = (n + 1, Vec::new());
        all.wait();
        while !stop.load(Ordering::Relaxed) {
            let (from, before) = (now(), done.load(Ordering::Relaxed));
            let retries = commit(n, &mut state).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let passed = done.fetch_add(1, Ordering::Relaxed) - before;
            samples.push(Sample { from, to: now(), passed, retries });
        }
        Ok(samples)
    };
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        all.wait();
        while done.load(Ordering::Relaxed) < 2 * threads && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let first = now();
        std::thread::sleep(time);
        let last = now();
        stop.store(true, Ordering::Relaxed);
        let mut samples = Vec::new();
        for handle in handles {
            let inside = |sample: &Sample| sample.to >= first && sample.from <= last;
            samples.extend(joined(handle)?.into_iter().filter(inside));
        }
        Ok(measured(&samples, threads, (first, last)))
    })
}

fn measured(samples: &[Sample], threads: u64, (first, last): (f64, f64)) -> Measured {
    let within = samples.iter().map(|sample| sample.to).filter(|to| (first..last).contains(to));
    let ends = sorted(within.chain([first, last]).collect());
    let counted = || samples.iter().filter(|sample| sample.from >= first);
    let took = sorted(counted().map(|sample| sample.to - sample.from).collect());
    let passed = sorted(counted().map(|sample| sample.passed as f64 / threads as f64).collect());
    Measured {
        rate: (ends.len() - 2) as f64 / (last - first) * 1e3,
        p99: p99(&took).unwrap_or(f64::INFINITY),
        worst: took.last().copied().unwrap_or(f64::INFINITY),
        gap: ends.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max),
        passed: p99(&passed).unwrap_or(f64::INFINITY),
        retries: counted().map(|sample| sample.retries).sum::<u64>() as f64 / took.len() as f64,
    }
}

/// Begins transactions until one commits. Returns how often it had to begin again.
fn one_commit(db: &Db, table: &Table, options: TxnOptions, keys: &[u64], n: u64) -> millpond::Result<u64> {
    let mut retries = 0;
    loop {
        let mut tx = db.begin_with(options)?;
        let mut change =
            || keys.iter().try_for_each(|key| tx.put(table, &key.to_be_bytes(), &[n as u8; VALUE_BYTES]));
        match change() {
            Ok(()) => {
                tx.commit()?;
                return Ok(retries);
            }
            Err(Error::Deadlock) => retries += 1,
            Err(error) => return Err(error),
        }
    }
}

impl HotRows {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = Options::new().open(dir.dir().join("db"))?;
        let table = db.create_table("rows")?;
        let mut tx = db.begin()?;
        for key in 0..HOT {
            tx.put(&table, &key.to_be_bytes(), &[0; VALUE_BYTES])?;
        }
        tx.commit()?;
        let bench = Bench { db: &db, table: &table, time: self.seconds, thread_counts: &self.threads };
        if self.random_only {
            return bench.random_order();
        }
        bench.one_row()?;
        bench.two_rows()
    }
}

struct Bench<'b> {
    db: &'b Db,
    table: &'b Table,
    time: Duration,
    thread_counts: &'b [u64],
}

impl Bench<'_> {
    fn commits(&self, threads: u64, rows: Rows, durability: Durability) -> Outcome<Measured> {
        let options = TxnOptions::new()
            .isolation(Isolation::ReadCommitted)
            .durability(durability)
            .lock_wait(Duration::from_secs(600));
        run_threads(threads, self.time, |n, state| {
            let mut keys = match rows {
                Rows::One => vec![0],
                _ => vec![next(state) % HOT, next(state) % HOT],
            };
            if rows == Rows::Ordered {
                keys.sort_unstable();
            }
            one_commit(self.db, self.table, options, &keys, n)
        })
    }

    fn random_order(&self) -> Outcome {
        for &threads in self.thread_counts {
            let m = self.commits(threads, Rows::Random, Durability::None)?;
            say!(
                "two of 64, in random order: {threads} threads, {:.0} commits/s, {:.3} again/commit",
                m.rate,
                m.retries
            );
        }
        Ok(())
    }

    fn one_row(&self) -> Outcome {
        say!(
            "{:>28} {:>8} {:>11} {:>8} {:>10} {:>10} {:>12} {:>10} {:>10}",
            "",
            "threads",
            "commits/s",
            "share",
            "p99, ms",
            "worst, ms",
            "p99 / turn",
            "gap, ms",
            "p99 turns"
        );
        let show = |name: &str, run: &dyn Fn(u64) -> Outcome<Measured>| {
            let mut first = None;
            for &threads in self.thread_counts {
                let m = run(threads)?;
                let share = m.rate / *first.get_or_insert(m.rate);
                let turn = threads as f64 / m.rate * 1e3;
                say!(
                    "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.2} {:>10.2} {:>10.2}",
                    m.rate,
                    m.p99,
                    m.worst,
                    m.p99 / turn,
                    m.gap,
                    m.passed
                );
            }
            Ok::<_, Failure>(())
        };
        let commits = |threads, durability| self.commits(threads, Rows::One, durability);
        show("one row, unsynced", &|threads| commits(threads, Durability::None))?;
        let alone = Duration::try_from_secs_f64(1.0 / commits(1, Durability::None)?.rate)
            .map_err(|_| Failure::failed("no commit ended within --seconds"))?;
        let queue = TurnQueue::default();
        show("a bare queue", &|threads| {
            run_threads(threads, self.time, |_, _| {
                queue.take_turn(alone);
                Ok(0)
            })
        })?;
        show("one row, synced", &|threads| commits(threads, Durability::Sync))
    }

    fn two_rows(&self) -> Outcome {
        say!(
            "\n{:>28} {:>8} {:>11} {:>8} {:>10} {:>10} {:>12} {:>10} {:>12}",
            "",
            "threads",
            "commits/s",
            "share",
            "p99, ms",
            "worst, ms",
            "again/commit",
            "search, %",
            "longest, ms"
        );
        let searched = || figure(self.db, "deadlock_search_us_total");
        for &threads in self.thread_counts {
            let mut first = None;
            for (name, rows) in
                [("two of 64, by key", Rows::Ordered), ("two of 64, in random order", Rows::Random)]
            {
                let before = (searched(), cpu_seconds());
                let m = self.commits(threads, rows, Durability::None)?;
                let (us, cpu) = (searched() - before.0, cpu_seconds() - before.1);
                let share = m.rate / *first.get_or_insert(m.rate);
                say!(
                    "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.3} {:>10.2} {:>12.2}",
                    m.rate,
                    m.p99,
                    m.worst,
                    m.retries,
                    us / 1e4 / cpu,
                    figure(self.db, "deadlock_stood_us_max") / 1e3,
                );
            }
        }
        Ok(())
    }
}
