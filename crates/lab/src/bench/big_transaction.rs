//! `millpond bench big-transaction`: one transaction that changes very many rows.

use super::{mib, resident_kib, scratch};
use crate::own_process;
use millpond::{Db, Table, Transaction};
use output::failure::{Failure, Outcome};
use output::units::parse_size;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 60;

const NOTES: &str = "\
A table is loaded. One transaction replaces all values and commits; another one does the same and
rolls back. After each the benchmark waits until the background has purged or reverted it. Shows
the time of each step, and the memory and files that history takes.";

/// One transaction that changes very many rows and commits, and one that rolls back
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct BigTransaction {
    /// Rows that the transaction changes
    #[arg(long, value_name = "R", default_value_t = 1_000_000)]
    rows: u64,
    /// Memory that history may use
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    history: u64,
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

impl BigTransaction {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        let options = own_process::options().buffer_pool_bytes(512 << 20).history_memory_bytes(self.history);
        let db = options.open(dir.dir().join("db"))?;
        let start = Instant::now();
        let table = db.bulk_load("t", (0..self.rows).map(|n| (n.to_be_bytes(), [1; VALUE_BYTES])))?;
        say!("loaded     {:>10} rows in {:.1} s", self.rows, start.elapsed().as_secs_f64());

        let mut peaks = Peaks::default();
        let tx = self.change(&db, &table, 2, &mut peaks)?;
        let start = Instant::now();
        tx.commit()?;
        say!("committed in {:.3} s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        wait_for_background(&db, &mut peaks);
        say!("purged in {:.1} s", start.elapsed().as_secs_f64());
        self.report(&peaks);
        self.expect(&db, &table, 2)?;

        let mut peaks = Peaks::default();
        let tx = self.change(&db, &table, 3, &mut peaks)?;
        let start = Instant::now();
        tx.rollback();
        say!("rollback returned in {:.3} s", start.elapsed().as_secs_f64());
        wait_for_background(&db, &mut peaks);
        say!("reverted in {:.1} s", start.elapsed().as_secs_f64());
        self.report(&peaks);
        self.expect(&db, &table, 2)?;
        let check = db.check()?;
        say!("{check}");
        db.close()?;
        if check.is_clean() { Ok(()) } else { Err(Failure::failed("the check is not clean")) }
    }

    /// Changes all rows in a transaction, which it returns.
    fn change(&self, db: &Db, table: &Table, byte: u8, peaks: &mut Peaks) -> Outcome<Transaction> {
        let start = Instant::now();
        let mut tx = db.begin()?;
        for n in 0..self.rows {
            tx.put(table, &n.to_be_bytes(), &[byte; VALUE_BYTES])?;
            if n % 65_536 == 0 {
                peaks.sample(db);
            }
        }
        peaks.sample(db);
        say!("changed    {:>10} rows in {:.1} s", self.rows, start.elapsed().as_secs_f64());
        Ok(tx)
    }

    fn report(&self, peaks: &Peaks) {
        say!(
            "  most memory of history {:.1} MiB of {:.0}, files {:.0} MiB, process {} MiB",
            mib(peaks.memory),
            mib(self.history as f64),
            mib(peaks.files),
            peaks.resident / 1024
        );
    }

    /// Fails unless all rows have the value.
    fn expect(&self, db: &Db, table: &Table, byte: u8) -> Outcome {
        let (mut found, mut wrong) = (0u64, 0u64);
        db.begin()?.scan(table, .., |_, value| {
            found += 1;
            wrong += u64::from(value != [byte; VALUE_BYTES]);
            ControlFlow::Continue(())
        })?;
        say!("{found} rows, {wrong} wrong");
        if found != self.rows || wrong > 0 { Err(Failure::failed("the rows are wrong")) } else { Ok(()) }
    }
}
