//! Measures a sorted bulk load that is durable at its end: rows a second, and bytes on disk for
//! each byte of data. Compares it with inserts of the same rows in transactions of a thousand.
//!
//! ```text
//! cargo run --release -p millpond --example bulk_load [-- ROWS [VALUE_BYTES]]
//! ```
//! Keys are eight bytes, big-endian and ascending; values are random. Bytes on disk are those of
//! the table's pages. The file `pages` itself grows in steps of an eighth of 64 MiB.

#[path = "common/random.rs"]
mod random;

use millpond::Db;
use random::next;
use std::time::{Duration, Instant};

/// Makes random bytes from which all values are cut, so their generation is not measured.
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 1;
    (0..bytes / 8 + 1).flat_map(|_| next(&mut state).to_be_bytes()).collect()
}

fn used(db: &Db, page_bytes: f64) -> f64 {
    let metrics = db.metrics();
    let figure = |name| metrics.get(name).unwrap_or(0.0);
    (figure("file_pages") - figure("free_pages")) * page_bytes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rows: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let value_bytes: usize = args.next().map_or(Ok(200), |n| n.parse())?;
    let dir = std::env::current_dir()?.join(format!("bulk-load-{}", std::process::id()));
    let result = measure(&dir, rows, value_bytes);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &std::path::Path, rows: u64, value_bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    const PAGE_BYTES: usize = 8192;
    let db = millpond::Options::new().page_bytes(PAGE_BYTES).open(dir)?;
    let pool = random(1 << 20);
    let value = |n: u64| &pool[n as usize * 37 % ((1 << 20) - value_bytes)..][..value_bytes];
    let data = (rows * (8 + value_bytes as u64)) as f64;
    let report = |what: &str, took: Duration, bytes: f64| {
        let (a_second, ratio) = (rows as f64 / took.as_secs_f64(), bytes / data);
        println!("{what:>24} {a_second:>12.0} rows a second, {ratio:.3} bytes on disk a byte of data");
    };
    let empty = used(&db, PAGE_BYTES as f64);

    let start = Instant::now();
    db.bulk_load("loaded", (0..rows).map(|n| (n.to_be_bytes(), value(n))))?;
    report("bulk load", start.elapsed(), used(&db, PAGE_BYTES as f64) - empty);

    let (start, before) = (Instant::now(), used(&db, PAGE_BYTES as f64));
    let table = db.create_table("inserted")?;
    for from in (0..rows).step_by(1000) {
        let mut tx = db.begin()?;
        for n in from..rows.min(from + 1000) {
            tx.insert(&table, &n.to_be_bytes(), value(n))?;
        }
        tx.commit()?;
    }
    report("inserts, 1000 a commit", start.elapsed(), used(&db, PAGE_BYTES as f64) - before);
    let report = db.check()?;
    println!("{report}");
    db.close()?;
    Ok(())
}
