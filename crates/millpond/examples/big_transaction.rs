//! Measures one transaction that changes very many rows and commits, and one that rolls back: the
//! time, and the memory that history takes.
//!
//! ```text
//! cargo run --release -p millpond --example big_transaction [-- ROWS [BUDGET_MIB]]
//! ```
//! A table of ROWS rows is loaded. One transaction replaces all values and commits; another one
//! does the same and rolls back. The program waits until the background has reverted it.

use millpond::{Db, Options, Table};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const VALUE_BYTES: usize = 60;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let rows: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let budget: u64 = args.next().map_or(Ok(64), |n| n.parse())?;
    let dir = std::env::current_dir()?.join(format!("big-transaction-{}", std::process::id()));
    let result = measure(&dir, rows, budget << 20);
    std::fs::remove_dir_all(&dir)?;
    result
}

/// The maximum of each value.
#[derive(Default)]
struct Peaks {
    memory: f64,
    files: f64,
    resident: u64,
}

impl Peaks {
    fn sample(&mut self, db: &Db) {
        let metrics = db.metrics();
        let figure = |name| metrics.get(name).unwrap_or(0.0);
        let memory = figure("undo_bytes") + figure("status_bytes") + figure("lock_bytes");
        self.memory = self.memory.max(memory);
        self.files = self.files.max(figure("undo_file_bytes"));
        self.resident = self.resident.max(resident_kib());
    }
}

/// Returns the memory of the process, KiB; 0 if the system does not report it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn change(
    db: &Db,
    table: &Table,
    rows: u64,
    byte: u8,
    peaks: &mut Peaks,
) -> millpond::Result<millpond::Transaction> {
    let mut tx = db.begin()?;
    for n in 0..rows {
        tx.put(table, &n.to_be_bytes(), &[byte; VALUE_BYTES])?;
        if n % 65_536 == 0 {
            peaks.sample(db);
        }
    }
    peaks.sample(db);
    Ok(tx)
}

/// Waits until everything is reverted and purged.
fn wait_for_background(db: &Db, peaks: &mut Peaks) {
    let left = || {
        let metrics = db.metrics();
        let figure = |name| metrics.get(name).unwrap_or(0.0);
        figure("aborted_transactions") + figure("history_transactions")
    };
    while left() > 0.0 {
        std::thread::sleep(Duration::from_millis(20));
        peaks.sample(db);
    }
}

fn expect(db: &Db, table: &Table, rows: u64, byte: u8) -> Outcome {
    let (mut found, mut wrong) = (0u64, 0u64);
    db.begin()?.scan(table, .., |_, value| {
        found += 1;
        wrong += u64::from(value != [byte; VALUE_BYTES]);
        ControlFlow::Continue(())
    })?;
    println!("{found} rows, {wrong} wrong");
    if found != rows || wrong > 0 { Err("the rows are wrong".into()) } else { Ok(()) }
}

fn measure(dir: &Path, rows: u64, budget: u64) -> Outcome {
    let db = Options::new().buffer_pool_bytes(512 << 20).history_memory_bytes(budget).open(dir)?;
    let start = Instant::now();
    db.bulk_load("t", (0..rows).map(|n| (n.to_be_bytes(), [1; VALUE_BYTES])))?;
    println!("loaded     {rows:>10} rows in {:.1} s", start.elapsed().as_secs_f64());
    let table = db.open_table("t")?;
    let report = |peaks: &Peaks| {
        let mib = |bytes: f64| bytes / 1024.0 / 1024.0;
        println!(
            "  most memory of history {:.1} MiB of {:.0}, files {:.0} MiB, process {} MiB",
            mib(peaks.memory),
            mib(budget as f64),
            mib(peaks.files),
            peaks.resident / 1024
        );
    };

    let (start, mut peaks) = (Instant::now(), Peaks::default());
    let tx = change(&db, &table, rows, 2, &mut peaks)?;
    println!("changed    {rows:>10} rows in {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    tx.commit()?;
    println!("committed in {:.3} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    wait_for_background(&db, &mut peaks);
    println!("purged in {:.1} s", start.elapsed().as_secs_f64());
    report(&peaks);
    expect(&db, &table, rows, 2)?;

    let (start, mut peaks) = (Instant::now(), Peaks::default());
    let tx = change(&db, &table, rows, 3, &mut peaks)?;
    println!("changed    {rows:>10} rows in {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    tx.rollback();
    println!("rollback returned in {:.3} s", start.elapsed().as_secs_f64());
    wait_for_background(&db, &mut peaks);
    println!("reverted in {:.1} s", start.elapsed().as_secs_f64());
    report(&peaks);
    expect(&db, &table, rows, 2)?;
    let check = db.check()?;
    println!("{check}");
    db.close()?;
    if check.is_clean() { Ok(()) } else { Err("the check is not clean".into()) }
}
