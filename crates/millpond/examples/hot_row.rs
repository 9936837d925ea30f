//! Measures commits a second when all threads change the same row, or two of a few rows, and how
//! long a commit takes.
//!
//! ```text
//! cargo run --release -p millpond --example hot_row \
//!     [-- SECONDS (3) [THREADS (16 128 512 2000)]...]
//! perf record -F 999 --call-graph dwarf -- target/release/examples/hot_row random 2 512
//! ```
//! *One row*: every transaction changes the same row, without a sync and with one. The columns are
//! commits a second; their share of the rate in the first line; the 99th percentile and the longest
//! time of a commit, milliseconds; the percentile divided by the time of one round in which each
//! thread commits once (threads / rate); the longest time without a commit; and the 99th percentile
//! of the commits of others during one commit, divided by the number of threads. The last is 1
//! where all threads are served in turn, whatever the machine does.
//!
//! *A bare queue* shows what the machine can do with as many threads that take turns: a thread
//! parks until it gets the turn, works for as long as a commit of a single thread takes, and passes
//! the turn on.
//!
//! *Two of 64 rows*: every transaction changes two rows, in the order of their keys or in random
//! order. Random order makes real deadlocks, and the victim begins again. The columns also show the
//! share of processor time that the deadlock search took, and the longest time that a deadlock
//! lasted. That share is measured by the clock, so it includes time without a processor. With
//! `random` only these transactions run, so a profiler can show the share of the search
//! (`find_cycle`).
//!
//! Commits that begin before each thread has had two turns are not counted.

#[path = "common/random.rs"]
mod random;

use millpond::{Db, Durability, Error, Options, Table, TxnOptions};
use random::next;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const HOT: u64 = 64;
const VALUE_BYTES: usize = 100;

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
fn run_threads(threads: u64, time: Duration, commit: impl Fn(u64, &mut u64) -> u64 + Sync) -> Measured {
    let (stop, all, done) = (AtomicBool::new(false), Barrier::new(threads as usize + 1), AtomicU64::new(0));
    let begun = Instant::now();
    let now = || begun.elapsed().as_secs_f64() * 1e3;
    let work = |n: u64| {
        let (mut state, mut samples) = (n + 1, Vec::new());
        all.wait();
        while !stop.load(Ordering::Relaxed) {
            let (from, before) = (now(), done.load(Ordering::Relaxed));
            let retries = commit(n, &mut state);
            let passed = done.fetch_add(1, Ordering::Relaxed) - before;
            samples.push(Sample { from, to: now(), passed, retries });
        }
        samples
    };
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        all.wait();
        while done.load(Ordering::Relaxed) < 2 * threads {
            std::thread::sleep(Duration::from_millis(1));
        }
        let first = now();
        std::thread::sleep(time);
        let last = now();
        stop.store(true, Ordering::Relaxed);
        let all = handles.into_iter().flat_map(|handle| handle.join().expect("a thread"));
        let samples: Vec<Sample> = all.filter(|sample| sample.to >= first && sample.from <= last).collect();
        measured(&samples, threads, (first, last))
    })
}

fn measured(samples: &[Sample], threads: u64, (first, last): (f64, f64)) -> Measured {
    let sorted = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures
    };
    let p99 = |sorted: &[f64]| sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::INFINITY);
    let within = samples.iter().map(|sample| sample.to).filter(|to| (first..last).contains(to));
    let ends = sorted(within.chain([first, last]).collect());
    let counted = || samples.iter().filter(|sample| sample.from >= first);
    let took = sorted(counted().map(|sample| sample.to - sample.from).collect());
    let passed = sorted(counted().map(|sample| sample.passed as f64 / threads as f64).collect());
    Measured {
        rate: (ends.len() - 2) as f64 / (last - first) * 1e3,
        p99: p99(&took),
        worst: took.last().copied().unwrap_or(f64::INFINITY),
        gap: ends.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max),
        passed: p99(&passed),
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

fn run(db: &Db, table: &Table, threads: u64, time: Duration, rows: Rows, durability: Durability) -> Measured {
    let options = TxnOptions::new()
        .isolation(millpond::Isolation::ReadCommitted)
        .durability(durability)
        .lock_wait(Duration::from_secs(600));
    run_threads(threads, time, |n, state| {
        let mut keys = match rows {
            Rows::One => vec![0],
            _ => vec![next(state) % HOT, next(state) % HOT],
        };
        if rows == Rows::Ordered {
            keys.sort_unstable();
        }
        one_commit(db, table, options, &keys, n).expect("a commit")
    })
}

/// A thread that waits for its turn.
struct QueuedThread {
    thread: Thread,
    has_turn: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    busy: bool,
    waiting: VecDeque<Arc<QueuedThread>>,
}

/// A queue of threads, served in the order of their arrival.
#[derive(Default)]
struct TurnQueue(Mutex<QueueState>);

impl TurnQueue {
    fn take_turn(&self, work: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.busy, true) {
            let waiter =
                Arc::new(QueuedThread { thread: std::thread::current(), has_turn: AtomicBool::new(false) });
            state.waiting.push_back(Arc::clone(&waiter));
            drop(state);
            while !waiter.has_turn.load(Ordering::Acquire) {
                std::thread::park();
            }
        } else {
            drop(state);
        }
        let from = Instant::now();
        while from.elapsed() < work {
            std::hint::spin_loop();
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.waiting.pop_front();
        state.busy = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.has_turn.store(true, Ordering::Release);
            next.thread.unpark();
        }
    }
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1).peekable();
    let random = args.next_if(|arg| arg == "random").is_some();
    let time = Duration::from_secs_f64(args.next().map_or(Ok(3.0), |s| s.parse())?);
    let mut thread_counts = args.map(|n| n.parse()).collect::<Result<Vec<u64>, _>>()?;
    if thread_counts.is_empty() {
        thread_counts = vec![16, 128, 512, 2000];
    }
    let dir = std::env::current_dir()?.join(format!("hot-row-{}", std::process::id()));
    let db = Options::new().open(&dir)?;
    let result = measure(&db, time, &thread_counts, random);
    drop(db);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(db: &Db, time: Duration, thread_counts: &[u64], random: bool) -> Outcome {
    let table = db.create_table("rows")?;
    let mut tx = db.begin()?;
    for key in 0..HOT {
        tx.put(&table, &key.to_be_bytes(), &[0; VALUE_BYTES])?;
    }
    tx.commit()?;
    if random {
        for &threads in thread_counts {
            let m = run(db, &table, threads, time, Rows::Random, Durability::None);
            println!(
                "two of 64, in random order: {threads} threads, {:.0} commits/s, {:.3} again/commit",
                m.rate, m.retries
            );
        }
        return Ok(());
    }
    one_row(db, &table, time, thread_counts);
    two_rows(db, &table, time, thread_counts);
    Ok(())
}

fn one_row(db: &Db, table: &Table, time: Duration, thread_counts: &[u64]) {
    println!(
        "{:>28} {:>8} {:>11} {:>8} {:>10} {:>10} {:>12} {:>10} {:>10}",
        "", "threads", "commits/s", "share", "p99, ms", "worst, ms", "p99 / turn", "gap, ms", "p99 turns"
    );
    let show = |name: &str, run: &dyn Fn(u64) -> Measured| {
        let mut first = None;
        for &threads in thread_counts {
            let m = run(threads);
            let share = m.rate / *first.get_or_insert(m.rate);
            let turn = threads as f64 / m.rate * 1e3;
            println!(
                "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.2} {:>10.2} {:>10.2}",
                m.rate,
                m.p99,
                m.worst,
                m.p99 / turn,
                m.gap,
                m.passed
            );
        }
    };
    let commits = |threads, durability| run(db, table, threads, time, Rows::One, durability);
    show("one row, unsynced", &|threads| commits(threads, Durability::None));
    let alone = Duration::from_secs_f64(1.0 / commits(1, Durability::None).rate);
    let queue = TurnQueue::default();
    show("a bare queue", &|threads| {
        run_threads(threads, time, |_, _| {
            queue.take_turn(alone);
            0
        })
    });
    show("one row, synced", &|threads| commits(threads, Durability::Sync));
}

fn two_rows(db: &Db, table: &Table, time: Duration, thread_counts: &[u64]) {
    println!(
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
    let figure = |name| db.metrics().get(name).unwrap_or(0.0);
    for &threads in thread_counts {
        let mut first = None;
        for (name, rows) in
            [("two of 64, by key", Rows::Ordered), ("two of 64, in random order", Rows::Random)]
        {
            let before = (figure("deadlock_search_us_total"), cpu_seconds());
            let m = run(db, table, threads, time, rows, Durability::None);
            let (us, cpu) = (figure("deadlock_search_us_total") - before.0, cpu_seconds() - before.1);
            let share = m.rate / *first.get_or_insert(m.rate);
            println!(
                "{name:>28} {threads:>8} {:>11.0} {share:>8.2} {:>10.2} {:>10.2} {:>12.3} {:>10.2} {:>12.2}",
                m.rate,
                m.p99,
                m.worst,
                m.retries,
                us / 1e4 / cpu,
                figure("deadlock_stood_us_max") / 1e3,
            );
        }
    }
}
