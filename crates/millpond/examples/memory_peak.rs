//! Measures how much memory stays resident after a peak: before it, at it and after it.
//!
//! ```text
//! cargo run --release -p millpond --example memory_peak [-- ROWS]
//! ```
//! There are four peaks, one after the other: one transaction that changes ROWS rows; as many
//! transactions that delete one row each while a snapshot is held; all rows locked; a long scan.
//! After each the database rests until nothing waits for purge. The buffer pool is filled first, so
//! its pages count everywhere.

use millpond::{Db, Durability, Options, Table, TxnOptions};
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let rows: u32 = std::env::args().nth(1).map_or(Ok(300_000), |rows| rows.parse())?;
    let dir = std::env::current_dir()?.join(format!("memory-peak-{}", std::process::id()));
    let result = run(&dir, rows);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn run(dir: &std::path::Path, rows: u32) -> Outcome {
    let db = Options::new().buffer_pool_bytes(64 << 20).history_memory_bytes(256 << 20).open(dir)?;
    let table = db.create_table("t")?;
    fill(&db, &table, rows, 1)?;
    at_rest(&db);
    let base = resident()?;
    println!("base {base} MiB");
    report("one transaction", &db, || {
        let mut tx = db.begin()?;
        (0..rows).try_for_each(|n| tx.put(&table, &n.to_be_bytes(), &[2; 200]))?;
        let peak = resident()?;
        tx.commit()?;
        Ok(peak)
    })?;
    report("very many transactions beside a snapshot", &db, || {
        let old = db.begin()?;
        old.get(&table, &0u32.to_be_bytes())?;
        for n in 0..rows {
            let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None))?;
            tx.delete(&table, &n.to_be_bytes())?;
            tx.commit()?;
        }
        resident()
    })?;
    fill(&db, &table, rows, 3)?;
    at_rest(&db);
    report("all rows locked", &db, || {
        let mut tx = db.begin()?;
        for n in 0..rows {
            tx.get_for_update(&table, &n.to_be_bytes())?;
        }
        resident()
    })?;
    report("a long scan", &db, || {
        let count = db.begin()?.range(&table, ..)?.count();
        assert_eq!(count, rows as usize);
        resident()
    })?;
    db.close()?;
    Ok(())
}

fn fill(db: &Db, table: &Table, rows: u32, byte: u8) -> Outcome {
    for part in (0..rows).collect::<Vec<_>>().chunks(1000) {
        let mut tx = db.begin()?;
        part.iter().try_for_each(|n| tx.put(table, &n.to_be_bytes(), &[byte; 200]))?;
        tx.commit()?;
    }
    Ok(())
}

fn report(what: &str, db: &Db, peak: impl FnOnce() -> Result<u64, Box<dyn std::error::Error>>) -> Outcome {
    let peak = peak()?;
    at_rest(db);
    let metrics = db.metrics();
    let figure = |name: &str| metrics.get(name).unwrap_or(0.0) / f64::from(1 << 20);
    println!(
        "{what}: peak {peak} MiB, after {} MiB (undo {:.1}, status {:.1}, locks {:.1})",
        resident()?,
        figure("undo_bytes"),
        figure("status_bytes"),
        figure("lock_bytes")
    );
    Ok(())
}

/// Waits until nothing is left to purge.
fn at_rest(db: &Db) {
    while db.metrics().get("history_transactions").is_some_and(|left| left > 0.0) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
}

/// Returns the resident memory, MiB.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}
