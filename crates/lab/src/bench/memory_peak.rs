//! `millpond bench memory-peak`: how much memory stays resident after a peak.

use super::{figure, mib, resident_kib, scratch, wait_until_purged};
use crate::failure::{Failure, Outcome};
use millpond::{Db, Durability, Options, Table, TxnOptions};
use std::time::Duration;

const NOTES: &str = "\
Shows the resident memory before a peak, at it and after it. There are four peaks, one after the
other: one transaction that changes all rows; as many transactions that delete one row each while a
snapshot is held; all rows locked; a long scan. After each the database rests until nothing waits
for purge. The buffer pool is filled first, so its pages count everywhere.";

/// How much memory stays resident after a peak
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct MemoryPeak {
    /// Rows
    #[arg(long, value_name = "R", default_value_t = 300_000)]
    rows: u32,
}

impl MemoryPeak {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let (rows, dir) = (self.rows, scratch()?);
        let options = Options::new().buffer_pool_bytes(64 << 20).history_memory_bytes(256 << 20);
        let db = options.open(dir.dir().join("db"))?;
        let table = db.create_table("t")?;
        fill(&db, &table, rows, 1)?;
        rest(&db);
        say!("base {} MiB", resident());
        report("one transaction", &db, || {
            let mut tx = db.begin()?;
            (0..rows).try_for_each(|n| tx.put(&table, &n.to_be_bytes(), &[2; 200]))?;
            let peak = resident();
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
            Ok(resident())
        })?;
        fill(&db, &table, rows, 3)?;
        rest(&db);
        report("all rows locked", &db, || {
            let mut tx = db.begin()?;
            for n in 0..rows {
                tx.get_for_update(&table, &n.to_be_bytes())?;
            }
            Ok(resident())
        })?;
        report("a long scan", &db, || {
            let count = db.begin()?.range(&table, ..)?.count();
            if count == rows as usize {
                Ok(resident())
            } else {
                Err(Failure::failed(format!("{count} rows instead of {rows}")))
            }
        })?;
        Ok(db.close()?)
    }
}

fn fill(db: &Db, table: &Table, rows: u32, byte: u8) -> Outcome {
    for part in (0..rows).collect::<Vec<_>>().chunks(1000) {
        let mut tx = db.begin()?;
        part.iter().try_for_each(|n| tx.put(table, &n.to_be_bytes(), &[byte; 200]))?;
        tx.commit()?;
    }
    Ok(())
}

fn report(what: &str, db: &Db, peak: impl FnOnce() -> Outcome<u64>) -> Outcome {
    let peak = peak()?;
    rest(db);
    let figure = |name: &str| mib(figure(db, name));
    say!(
        "{what}: peak {peak} MiB, after {} MiB (undo {:.1}, status {:.1}, locks {:.1})",
        resident(),
        figure("undo_bytes"),
        figure("status_bytes"),
        figure("lock_bytes")
    );
    Ok(())
}

/// Waits until nothing is left to purge, and a little longer.
fn rest(db: &Db) {
    wait_until_purged(db);
    std::thread::sleep(Duration::from_millis(300));
}

/// Returns the resident memory, MiB.
fn resident() -> u64 {
    resident_kib() / 1024
}
