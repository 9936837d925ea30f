//! `millpond bench bulk-load`: a sorted bulk load, compared with inserts.

use super::random::next;
use super::{figure, scratch};
use crate::own_process;
use millpond::Db;
use output::failure::Outcome;
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 8192;
/// All values are cut from so many random bytes, so their generation is not measured.
const SOURCE_BYTES: usize = 1 << 20;

const NOTES: &str = "\
A bulk load, durable at its end, against inserts of the same rows in transactions of a thousand:
rows a second, and bytes on disk for each byte of data. Keys are eight bytes, big-endian and
ascending; values are random. Bytes on disk are those of the table's pages. The file `pages` itself
grows in steps of an eighth of 64 MiB.";

/// A sorted bulk load against inserts: rows a second, and bytes on disk a byte of data
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct BulkLoad {
    /// Rows
    #[arg(long, value_name = "R", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    value_bytes: u64,
}

fn random(bytes: usize) -> Vec<u8> {
    let mut state = 1;
    (0..bytes / 8 + 1).flat_map(|_| next(&mut state).to_be_bytes()).collect()
}

/// Bytes of the pages that are not free.
fn used(db: &Db) -> f64 {
    (figure(db, "file_pages") - figure(db, "free_pages")) * PAGE_BYTES as f64
}

impl BulkLoad {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let db = own_process::options().page_bytes(PAGE_BYTES).open(dir.dir().join("db"))?;
        let (rows, value_bytes) = (self.rows, self.value_bytes as usize);
        let source = random(SOURCE_BYTES);
        let value = |n: u64| &source[n as usize * 37 % (SOURCE_BYTES - value_bytes)..][..value_bytes];
        let empty = used(&db);

        let start = Instant::now();
        db.bulk_load("loaded", (0..rows).map(|n| (n.to_be_bytes(), value(n))))?;
        self.report("bulk load", start.elapsed(), used(&db) - empty);

        let (start, before) = (Instant::now(), used(&db));
        let table = db.create_table("inserted")?;
        for from in (0..rows).step_by(1000) {
            let mut tx = db.begin()?;
            for n in from..rows.min(from + 1000) {
                tx.insert(&table, &n.to_be_bytes(), value(n))?;
            }
            tx.commit()?;
        }
        self.report("inserts, 1000 a commit", start.elapsed(), used(&db) - before);
        let report = db.check()?;
        say!("{report}");
        Ok(db.close()?)
    }

    fn report(&self, what: &str, took: Duration, bytes: f64) {
        let data = (self.rows * (8 + self.value_bytes)) as f64;
        let (a_second, ratio) = (self.rows as f64 / took.as_secs_f64(), bytes / data);
        say!("{what:>24} {a_second:>12.0} rows a second, {ratio:.3} bytes on disk a byte of data");
    }
}
