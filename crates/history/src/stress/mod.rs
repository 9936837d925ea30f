//! The stress test: very many threads on the real disk, with a buffer pool far smaller than the
//! data. They run transactions of every kind at every level, create and drop tables, while the
//! database is checked. What each transaction reads must be consistent. At the end exactly the
//! committed changes must be there, also after another opening.

mod client;
mod failure;
mod row;
mod shared;

use base::prng::Prng;
use client::{Client, read_group};
use failure::TxnFailure;
use millpond::{Db, Isolation, Options, Table, TxnOptions};
use row::{Row, SLOTS, key};
use shared::{Counts, Shared};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// If no transaction ends for so long, something hangs.
const HANGS: Duration = Duration::from_secs(180);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Directory of the database; must not exist. Removed if nothing was found.
    pub dir: PathBuf,
    /// Client threads.
    pub threads: u64,
    /// How long to run, without the load and the final comparison.
    pub time: Duration,
    /// Groups of rows, each about 20 KB.
    pub groups: u32,
    /// Size of the buffer pool, bytes.
    pub pool_bytes: u64,
    /// Redo capacity, bytes.
    pub redo_bytes: u64,
    /// Decides what the clients do; not how they are scheduled.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    counts: Counts,
    checks: u64,
    rows: u64,
    data_to_pool: f64,
    pages_written: f64,
    seconds: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let c = &self.counts;
        writeln!(
            f,
            "{} transactions ended in {:.0} s: {} committed with changes, {} rolled back, {} prepared, {} audits, {} changes of tables",
            of(&c.ended),
            self.seconds,
            of(&c.committed),
            of(&c.rolled_back),
            of(&c.prepared),
            of(&c.audits),
            of(&c.tables),
        )?;
        writeln!(
            f,
            "retryable errors: {} deadlocks, {} lock timeouts, {} write conflicts",
            of(&c.deadlocks),
            of(&c.timeouts),
            of(&c.conflicts),
        )?;
        write!(
            f,
            "{} checks meanwhile; {} rows at the end in {:.0} times the pool; {:.0} pages written",
            self.checks, self.rows, self.data_to_pool, self.pages_written,
        )
    }
}

fn problem(error: impl fmt::Display) -> String {
    error.to_string()
}

impl Plan {
    fn open(&self) -> Result<Db, String> {
        let options = Options::new().page_bytes(4096).buffer_pool_bytes(self.pool_bytes);
        let options = options.redo_capacity_bytes(self.redo_bytes).lock_wait(Duration::from_millis(500));
        options.open(&self.dir).map_err(problem)
    }

    /// Loads the table. Every second slot has a row.
    fn load(&self, db: &Db) -> Result<(Table, Row), String> {
        let mut rng = Prng::new(self.seed);
        let mut all = Row::default();
        let mut load = db.begin_bulk_load("rows").map_err(problem)?;
        for group in 0..self.groups {
            let rows: Vec<_> = (2..SLOTS).step_by(2).map(|slot| (slot, rng.below(1000) as i64)).collect();
            let header =
                Row { balance: rows.iter().map(|(_, balance)| balance).sum(), count: rows.len() as u64 };
            let rows = rows.into_iter().map(|(slot, balance)| (slot, Row { balance, count: 0 }));
            for (slot, row) in std::iter::once((0, header)).chain(rows) {
                let key = key(group, slot);
                load.push(&key, &row.encode(&key, &mut rng)).map_err(problem)?;
            }
            all.balance += header.balance;
            all.count += header.count;
        }
        Ok((load.commit().map_err(problem)?, all))
    }
}

/// Runs the stress test. An error is a finding; then the directory stays.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let db = plan.open()?;
    let (table, loaded) = plan.load(&db)?;
    let shared = Arc::new(Shared {
        db,
        table,
        groups: plan.groups,
        stop: AtomicBool::new(false),
        counts: Counts::default(),
        balance: AtomicI64::new(loaded.balance),
        count: AtomicI64::new(loaded.count as i64),
        prepared: Mutex::default(),
    });
    let start = Instant::now();
    let clients: Vec<_> = (0..plan.threads)
        .map(|number| {
            let (shared, seed) = (Arc::clone(&shared), plan.seed);
            std::thread::spawn(move || {
                let rng = Prng::new(seed.wrapping_mul(1_000_003) ^ number);
                let mut client = Client { shared: &shared, number, rng, made: 0 };
                let mut outcome = Ok(());
                while outcome.is_ok() && !shared.stop.load(Ordering::Relaxed) {
                    outcome = client.step();
                }
                shared.stop.store(true, Ordering::Relaxed);
                outcome
            })
        })
        .collect();
    let checks = watch(&shared, start, plan.time, || clients.iter().all(|client| client.is_finished()))?;
    for client in clients {
        client.join().map_err(|_| "a client panicked".to_owned())??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let shared = Arc::into_inner(shared).expect("all clients have ended");
    let metrics = shared.db.metrics();
    let figure = |name: &str| metrics.get(name).unwrap_or(0.0);
    let data_to_pool = (figure("file_pages") - figure("free_pages")) * 4096.0 / plan.pool_bytes as f64;
    let (pages_written, foreground) = (figure("pages_written"), figure("pages_written_foreground"));
    if foreground > 0.0 {
        return Err(format!("threads that serve callers wrote {foreground} pages"));
    }
    let Shared { db, table, counts, balance, count, prepared, .. } = shared;
    let undecided = prepared.into_inner().expect("no client panicked");
    if db.prepared().map_err(problem)?.len() != undecided.len() {
        return Err(format!("{} transactions should be prepared", undecided.len()));
    }
    for (xid, _) in &undecided {
        db.rollback_prepared(xid).map_err(problem)?;
    }
    let expected = Row { balance: balance.into_inner(), count: count.into_inner() as u64 };
    wait_until_at_rest(&db)?;
    compare_all(&db, &table, plan.groups, expected)?;
    db.close().map_err(problem)?;
    drop((db, table));
    let db = plan.open()?;
    let table = db.open_table("rows").map_err(problem)?;
    compare_all(&db, &table, plan.groups, expected)?;
    wait_until_at_rest(&db)?;
    db.close().map_err(problem)?;
    std::fs::remove_dir_all(&plan.dir).map_err(problem)?;
    Ok(Report { counts, checks, rows: expected.count, data_to_pool, pages_written, seconds })
}

/// Stops the clients in time, checks the database meanwhile, and fails if nothing makes progress.
/// Returns the number of checks.
fn watch(
    shared: &Shared,
    start: Instant,
    time: Duration,
    finished: impl Fn() -> bool,
) -> Result<u64, String> {
    let (mut checks, mut moved) = (0, (0, start));
    while !finished() {
        std::thread::sleep(Duration::from_millis(50));
        let ended = shared.counts.ended.load(Ordering::Relaxed);
        if ended != moved.0 {
            moved = (ended, Instant::now());
        } else if moved.1.elapsed() > HANGS {
            return Err(format!("no transaction has ended for {} s", HANGS.as_secs()));
        }
        if start.elapsed() > time {
            shared.stop.store(true, Ordering::Relaxed);
        } else if start.elapsed() > time * (checks as u32 * 2 + 1) / 8 {
            let report = shared.db.check().map_err(problem)?;
            if !report.is_clean() {
                return Err(format!("a check during the run: {report}"));
            }
            shared.db.checkpoint().map_err(problem)?;
            checks += 1;
        }
    }
    Ok(checks)
}

/// Waits until nothing is left to revert or purge. Then the check must be clean and every page
/// reachable or free.
fn wait_until_at_rest(db: &Db) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let report = db.check().map_err(problem)?;
        let history = db.metrics().get("history_transactions");
        if !report.is_clean() {
            return Err(format!("the check at rest: {report}"));
        }
        if report.unreachable_pages == Some(0) && history == Some(0.0) {
            return Ok(());
        }
        if start.elapsed() > HANGS {
            return Err(format!(
                "not at rest: history {history:?}, unreachable pages {:?}",
                report.unreachable_pages
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads all rows and compares their sums with `expected`.
fn compare_all(db: &Db, table: &Table, groups: u32, expected: Row) -> Result<(), String> {
    let tx = db
        .begin_with(TxnOptions::new().isolation(Isolation::RepeatableRead).read_only(true))
        .map_err(problem)?;
    let mut found = Row::default();
    for group in 0..groups {
        match read_group(&tx, table, group, true) {
            Ok(header) => {
                found.balance += header.balance;
                found.count += header.count;
            }
            Err(TxnFailure::Engine(error)) => return Err(error.to_string()),
            Err(TxnFailure::Wrong(what)) => return Err(what),
        }
    }
    let rows = tx.range(table, ..).map_err(problem)?.count() as u64 - u64::from(groups);
    if (found, rows) == (expected, expected.count) {
        Ok(())
    } else {
        Err(format!("all groups add up to {found:?} in {rows} rows, but {expected:?} was committed"))
    }
}
