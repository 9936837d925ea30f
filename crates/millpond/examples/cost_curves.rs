//! Measures how the cost of an operation grows with what was written before it. There are four
//! experiments; each curve should be flat.
//!
//! ```text
//! cargo run --release -p millpond --example cost_curves \
//!     [-- queue|hot|rolled-back|tables|all [SECONDS or COUNT]]
//! ```
//! - `queue`: a table is used as a queue while one snapshot is held: rows are inserted at its end
//!   and deleted at its head. Shows deletes a second for each second, with a plain range and with
//!   one that locks and skips locked rows.
//! - `hot`: 100 rows are updated while one snapshot is held; at the end of each second that
//!   snapshot reads them.
//! - `rolled-back`: COUNT rows (1,000,000) are inserted, or all updated, and rolled back; a scan
//!   begins at once.
//! - `tables`: COUNT tables (2,000) of one row each are created and dropped, half of them one by
//!   one and half in one call. Shows the disk space of `pages` for each table, and the time of a
//!   drop.
//!
//! No call waits for the disk (`Durability::Bounded`).

use millpond::{Db, Durability, LockWait, Options, Table, Transaction, TxnOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
/// An experiment: its directory, and its seconds or count.
type Experiment = fn(&Path, u64) -> Outcome<()>;

fn options() -> TxnOptions {
    TxnOptions::new().durability(Durability::Bounded { ms: 20, bytes: 16 << 20 })
}

fn figure(db: &Db, name: &str) -> f64 {
    db.metrics().get(name).unwrap_or(0.0)
}

/// Returns the key at the head of the queue, read with a plain range or with a locking one.
fn head(tx: &mut Transaction, table: &Table, locks: bool) -> Outcome<Vec<u8>> {
    let first = match locks {
        true => tx.range_for_update(table, .., LockWait::SkipLocked)?.next(),
        false => tx.range(table, ..)?.next(),
    };
    Ok(first.ok_or("the queue is empty")??.0)
}

fn queue(dir: &Path, seconds: u64) -> Outcome<()> {
    for locks in [false, true] {
        println!("queue, {}", if locks { "range_for_update, skip locked" } else { "range" });
        println!("{:>8} {:>12} {:>20}", "second", "pops/s", "marks passed a pop");
        let db = Options::new().buffer_pool_bytes(512 << 20).open(dir)?;
        let table = db.create_table("queue")?;
        let mut last = 0u64;
        let mut tx = db.begin_with(options())?;
        for _ in 0..100 {
            tx.insert(&table, &last.to_be_bytes(), &[7; 100])?;
            last += 1;
        }
        tx.commit()?;
        let held = db.begin()?;
        held.get(&table, &0u64.to_be_bytes())?;
        for second in 1..=seconds {
            let (start, mut pops, before) = (Instant::now(), 0, figure(&db, "scan_marks"));
            while start.elapsed() < Duration::from_secs(1) {
                let mut tx = db.begin_with(options())?;
                let key = head(&mut tx, &table, locks)?;
                tx.delete(&table, &key)?;
                tx.insert(&table, &last.to_be_bytes(), &[7; 100])?;
                tx.commit()?;
                (last, pops) = (last + 1, pops + 1);
            }
            let marks = (figure(&db, "scan_marks") - before) / f64::from(pops);
            println!("{second:>8} {pops:>12} {marks:>20.1}");
        }
        drop(held);
        db.close()?;
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}

fn hot(dir: &Path, seconds: u64) -> Outcome<()> {
    const ROWS: u64 = 100;
    println!("hot: {:>8} {:>16} {:>12} {:>16}", "second", "updates so far", "read, ms", "versions a row");
    let db = Options::new().buffer_pool_bytes(512 << 20).open(dir)?;
    let table = db.create_table("hot")?;
    let mut tx = db.begin()?;
    (0..ROWS).try_for_each(|n| tx.insert(&table, &n.to_be_bytes(), &[7; 100]).map(drop))?;
    tx.commit()?;
    let held = db.begin()?;
    held.get(&table, &0u64.to_be_bytes())?;
    let mut updates = 0u64;
    for second in 1..=seconds {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            let mut tx = db.begin_with(options())?;
            let mut value = [7; 100];
            value[(updates % 90) as usize..][..8].copy_from_slice(&updates.to_be_bytes());
            tx.put(&table, &(updates % ROWS).to_be_bytes(), &value)?;
            tx.commit()?;
            updates += 1;
        }
        let (start, before) = (Instant::now(), figure(&db, "version_steps"));
        let mut rows = 0;
        held.scan(&table, .., |_, value| {
            rows += u64::from(value == [7; 100]);
            ControlFlow::Continue(())
        })?;
        if rows != ROWS {
            return Err("the snapshot has changed".into());
        }
        let ms = start.elapsed().as_secs_f64() * 1000.0;
        let steps = (figure(&db, "version_steps") - before) / ROWS as f64;
        println!("     {second:>8} {updates:>16} {ms:>12.1} {steps:>16.1}");
    }
    drop(held);
    db.close()?;
    Ok(())
}

fn rolled_back(dir: &Path, rows: u64) -> Outcome<()> {
    println!("rolled back: {:<28} {:>10} {:>10} {:>10}", "", "rows", "scan, s", "again, s");
    for (what, locks) in [("inserted", false), ("inserted, scan for update", true), ("updated", false)] {
        let db = Options::new().buffer_pool_bytes(1 << 30).open(dir)?;
        let key = |n: u64| n.to_be_bytes();
        let update = what == "updated";
        let old = if update { rows } else { 0 };
        db.bulk_load("t", (0..old).map(|n| (key(n), [7; 60])))?;
        let table = db.open_table("t")?;
        let mut tx = db.begin()?;
        (0..rows).try_for_each(|n| tx.put(&table, &key(n), &[8; 60]).map(drop))?;
        tx.rollback();
        let mut took = [0.0; 2];
        for took in &mut took {
            let (start, mut tx, mut seen) = (Instant::now(), db.begin()?, 0);
            if locks {
                for row in tx.range_for_update(&table, .., LockWait::Wait)? {
                    row?;
                    seen += 1;
                }
            } else {
                tx.scan(&table, .., |_, value| {
                    seen += u64::from(value == [7; 60]);
                    ControlFlow::Continue(())
                })?;
            }
            if seen != old {
                return Err(format!("{seen} rows instead of {old}").into());
            }
            *took = start.elapsed().as_secs_f64();
        }
        println!("             {what:<28} {rows:>10} {:>10.2} {:>10.2}", took[0], took[1]);
        db.close()?;
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}

/// Returns the bytes that `pages` takes on disk.
fn pages_bytes(dir: &Path) -> Outcome<f64> {
    use std::os::unix::fs::MetadataExt;
    Ok((std::fs::metadata(dir.join("pages"))?.blocks() * 512) as f64)
}

fn tables(dir: &Path, count: u64) -> Outcome<()> {
    let db = Options::new().open(dir)?;
    let empty = pages_bytes(dir)?;
    for n in 0..count {
        let table = db.create_table(&format!("table {n}"))?;
        let mut tx = db.begin_with(options())?;
        tx.insert(&table, b"key", b"value")?;
        tx.commit()?;
    }
    db.checkpoint()?;
    let full = pages_bytes(dir)?;
    let names: Vec<String> = (0..count).map(|n| format!("table {n}")).collect();
    let (one_by_one, together) = names.split_at(names.len() / 2);
    let start = Instant::now();
    one_by_one.iter().try_for_each(|name| db.drop_table(name))?;
    let (one, start) = (start.elapsed(), Instant::now());
    db.drop_tables(&together.iter().map(String::as_str).collect::<Vec<_>>())?;
    let rest = start.elapsed();
    db.checkpoint()?;
    let dropped = pages_bytes(dir)?;
    db.close()?;
    let closed = pages_bytes(dir)?;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    println!("tables: {count}; `pages` of the empty database {:.1} MiB", mib(empty));
    println!(
        "        with tables        {:>8.1} MiB, {:>8.0} bytes each",
        mib(full),
        (full - empty) / count as f64
    );
    println!("        dropped            {:>8.1} MiB", mib(dropped));
    let each = |took: Duration, names: &[String]| took.as_secs_f64() * 1e6 / names.len().max(1) as f64;
    println!("        dropped one by one {:>8.0} us each, synced", each(one, one_by_one));
    println!("        dropped in a call  {:>8.0} us each", each(rest, together));
    println!("        closed             {:>8.1} MiB", mib(closed));
    Ok(())
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "all".to_owned());
    let number: Option<u64> = args.next().map(|n| n.parse()).transpose()?;
    let dir = std::env::current_dir()?.join(format!("cost-curves-{}", std::process::id()));
    let all: [(&str, Experiment, u64); 4] = [
        ("queue", queue, 10),
        ("hot", hot, 5),
        ("rolled-back", rolled_back, 1_000_000),
        ("tables", tables, 2000),
    ];
    if what != "all" && all.iter().all(|(name, ..)| *name != what) {
        return Err(format!("{what}: queue, hot, rolled-back, tables or all").into());
    }
    for (name, experiment, usual) in all {
        if what == "all" || what == name {
            let result = experiment(&dir, number.unwrap_or(usual));
            if dir.exists() {
                std::fs::remove_dir_all(&dir)?;
            }
            result?;
        }
    }
    Ok(())
}
