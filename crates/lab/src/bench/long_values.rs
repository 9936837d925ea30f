//! `millpond bench long-values`: how fast long values are written and read, compared with the bare
//! device.

use super::device::Device;
use super::{figure, scratch, wait_until_purged};
use crate::failure::{Failure, Outcome};
use crate::own_process;
use crate::units::parse_size;
use millpond::{Db, Table};
use std::path::Path;
use std::time::{Duration, Instant};

const NOTES: &str = "\
The values are written to a new file, and to an aged one: there, shorter long values were written
and every second one was deleted, so the free pages are scattered. Cold reads follow another
opening; the engine reads its files without the system's cache. Warm is the second read of a value
of at most 1 MiB, which fits into the pool.";

/// Long values: written, read from memory, and read from the device
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct LongValues {
    /// Size of a value, at least 1MiB
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_value_size)]
    value: u64,
    /// How many values
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    values: u32,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pool: u64,
}

/// The device writes and reads whole MiB.
fn parse_value_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => Ok(bytes),
        _ => Err("a value of this benchmark has 1MiB, or a multiple of that".into()),
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

/// MB a second.
fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Writes shorter long values and deletes every second one, so the free pages are scattered.
fn age(db: &Db, table: &Table, bytes: usize) -> Outcome {
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
    wait_until_purged(db);
    Ok(db.checkpoint()?)
}

/// Returns MB/s of the second read of a value that fits into the pool.
fn warm_read(db: &Db, table: &Table, bytes: usize) -> Outcome<f64> {
    let mut tx = db.begin()?;
    tx.put(table, b"warm", &value(0, bytes))?;
    tx.commit()?;
    drop(db.begin()?.get(table, b"warm")?);
    let start = Instant::now();
    drop(db.begin()?.get(table, b"warm")?);
    Ok(rate(bytes, start.elapsed()))
}

impl LongValues {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let (written, read) = Device::sequential(&dir.dir().join("device"), self.bytes() as u64)?;
        say!("device   written {written:6.0} MB/s   read {read:6.0} MB/s");
        for aged in [false, true] {
            self.measure(&dir.dir().join(if aged { "aged" } else { "new" }), aged, read)?;
        }
        Ok(())
    }

    /// Bytes of all values.
    fn bytes(&self) -> usize {
        self.value as usize * self.values as usize
    }

    fn open(&self, dir: &Path) -> millpond::Result<Db> {
        own_process::options().buffer_pool_bytes(self.pool).open(dir)
    }

    /// `device` is the rate of the device's reads, MB/s.
    fn measure(&self, dir: &Path, aged: bool, device: f64) -> Outcome {
        let db = self.open(dir)?;
        let table = db.create_table("values")?;
        if aged {
            age(&db, &table, self.bytes())?;
        }
        let put = rate(self.bytes(), self.put(&db, &table)?);
        let warm = warm_read(&db, &table, (self.value as usize).min(1 << 20))?;
        db.close()?;
        let db = self.open(dir)?;
        let table = db.open_table("values")?;
        let cold = rate(self.bytes(), self.get(&db, &table)?);
        let (pages, ios) = (figure(&db, "pages_read"), figure(&db, "page_reads_io"));
        say!(
            "{}  put {put:6.0} MB/s   warm {warm:6.0} MB/s   cold {cold:6.0} MB/s ({:.2} of the device, {:.1} pages a read)",
            if aged { "aged file " } else { "new file  " },
            cold / device,
            pages / ios.max(1.0),
        );
        if aged {
            let check = db.check()?;
            if !check.is_clean() {
                return Err(Failure::failed(check.to_string()));
            }
        }
        Ok(db.close()?)
    }

    fn put(&self, db: &Db, table: &Table) -> Outcome<Duration> {
        let values: Vec<_> = (0..self.values as usize).map(|n| value(n, self.value as usize)).collect();
        let start = Instant::now();
        for (n, value) in values.iter().enumerate() {
            let mut tx = db.begin()?;
            tx.put(table, &key(n), value)?;
            tx.commit()?;
        }
        Ok(start.elapsed())
    }

    fn get(&self, db: &Db, table: &Table) -> Outcome<Duration> {
        let mut took = Duration::ZERO;
        for n in 0..self.values as usize {
            let start = Instant::now();
            let found = db.begin()?.get(table, &key(n))?;
            took += start.elapsed();
            if found.is_none_or(|found| found != value(n, self.value as usize)) {
                return Err(Failure::failed(format!("value {n} is not what was written")));
            }
        }
        Ok(took)
    }
}
