//! Measures long values: how fast they are written, read from memory, and read from the device,
//! compared with the bare device.
//!
//! ```text
//! cargo run --release -p millpond --example long_values [-- MIB_OF_A_VALUE [VALUES [POOL_MIB]]]
//! ```
//! VALUES values are written to a new file, and to an aged one: there, shorter long values were
//! written and every second one was deleted, so the free pages are scattered. *Cold* reads follow
//! another opening; the engine reads its files without the system's cache. *Warm* is the second
//! read of a value of at most 1 MiB, which fits into the pool.

#[allow(dead_code)] // This example does not use all helpers.
#[path = "common/bench.rs"]
mod bench;

use bench::Device;
use millpond::{Db, Options, Table};
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let mib = args.next().unwrap_or(Ok(8))?.max(1);
    let count = args.next().unwrap_or(Ok(16))?.max(1);
    let pool = args.next().unwrap_or(Ok(64))?;
    let dir = std::env::current_dir()?.join(format!("long-values-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let sizes = Sizes { value: mib << 20, count, pool: (pool as u64) << 20 };
    let result = measure(&dir, &sizes);
    std::fs::remove_dir_all(&dir)?;
    result
}

struct Sizes {
    /// Bytes of a value.
    value: usize,
    count: usize,
    /// Bytes of the pool.
    pool: u64,
}

impl Sizes {
    fn open(&self, dir: &Path) -> millpond::Result<Db> {
        Options::new().buffer_pool_bytes(self.pool).open(dir)
    }

    fn rate(&self, took: Duration) -> f64 {
        (self.value * self.count) as f64 / 1e6 / took.as_secs_f64()
    }
}

fn value(n: usize, bytes: usize) -> Vec<u8> {
    let mut state = n as u64 + 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

fn key(n: usize) -> [u8; 8] {
    (n as u64).to_be_bytes()
}

fn put(db: &Db, table: &Table, sizes: &Sizes) -> Result<Duration, millpond::Error> {
    let values: Vec<_> = (0..sizes.count).map(|n| value(n, sizes.value)).collect();
    let start = Instant::now();
    for (n, value) in values.iter().enumerate() {
        let mut tx = db.begin()?;
        tx.put(table, &key(n), value)?;
        tx.commit()?;
    }
    Ok(start.elapsed())
}

fn get(db: &Db, table: &Table, sizes: &Sizes) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut took = Duration::ZERO;
    for n in 0..sizes.count {
        let start = Instant::now();
        let found = db.begin()?.get(table, &key(n))?;
        took += start.elapsed();
        if found.is_none_or(|found| found != value(n, sizes.value)) {
            return Err(format!("value {n} is not what was written").into());
        }
    }
    Ok(took)
}

/// Writes shorter long values and deletes every second one, so the free pages are scattered.
fn age(db: &Db, table: &Table, bytes: usize) -> millpond::Result<()> {
    const SHORT: usize = 20_000;
    let first = 1 << 40;
    let count = 2 * bytes / SHORT;
    for from in (0..count).step_by(100) {
        let mut tx = db.begin()?;
        for n in from..from + 100 {
            tx.put(table, &key(first + n), &value(n, SHORT))?;
        }
        tx.commit()?;
    }
    for from in (0..count).step_by(100) {
        let mut tx = db.begin()?;
        for n in (from..from + 100).step_by(2) {
            tx.delete(table, &key(first + n))?;
        }
        tx.commit()?;
    }
    while db.metrics().get("history_transactions").unwrap_or(0.0) > 0.0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    db.checkpoint()?;
    Ok(())
}

fn measure(dir: &Path, sizes: &Sizes) -> Outcome {
    let bytes = (sizes.value * sizes.count) as u64;
    let (written, read) = Device::sequential(&dir.join("device"), bytes)?;
    println!("device   written {written:6.0} MB/s   read {read:6.0} MB/s");
    for aged in [false, true] {
        let dir = dir.join(if aged { "aged" } else { "new" });
        let db = sizes.open(&dir)?;
        let table = db.create_table("values")?;
        if aged {
            age(&db, &table, bytes as usize)?;
        }
        let put = sizes.rate(put(&db, &table, sizes)?);
        let small = Sizes { value: sizes.value.min(1 << 20), count: 1, pool: sizes.pool };
        let mut tx = db.begin()?;
        tx.put(&table, b"warm", &value(0, small.value))?;
        tx.commit()?;
        drop(db.begin()?.get(&table, b"warm")?);
        let start = Instant::now();
        drop(db.begin()?.get(&table, b"warm")?);
        let warm = small.rate(start.elapsed());
        db.close()?;
        let db = sizes.open(&dir)?;
        let table = db.open_table("values")?;
        let cold = sizes.rate(get(&db, &table, sizes)?);
        let metrics = db.metrics();
        let figure = |name| metrics.get(name).unwrap_or(0.0);
        let (pages, ios) = (figure("pages_read"), figure("page_reads_io"));
        println!(
            "{}  put {put:6.0} MB/s   warm {warm:6.0} MB/s   cold {cold:6.0} MB/s ({:.2} of the device, {:.1} pages a read)",
            if aged { "aged file " } else { "new file  " },
            cold / read,
            pages / ios.max(1.0),
        );
        if aged {
            let check = db.check()?;
            if !check.is_clean() {
                return Err(format!("{check}").into());
            }
        }
        db.close()?;
    }
    Ok(())
}
