//! `millpond bench rollback-scan`: a scan right after the rollback of a large transaction.

use super::scratch;
use crate::failure::{Failure, Outcome};
use crate::own_process;
use millpond::{LockWait, Table, Transaction};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

const NOTES: &str = "\
Rows are inserted, or all updated, in one transaction, and rolled back. A scan begins at once, while
the background reverts the rows; another one follows. The columns are the seconds of both.";

/// Scans of rows right after the transaction that wrote them was rolled back
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct RollbackScan {
    /// Rows that are rolled back
    #[arg(long, value_name = "R", default_value_t = 1_000_000)]
    rows: u64,
}

/// Returns how many rows with the committed value a scan finds. A scan that locks counts all rows.
fn scan(tx: &mut Transaction, table: &Table, locks: bool) -> Outcome<u64> {
    let mut seen = 0;
    if locks {
        for row in tx.range_for_update(table, .., LockWait::Wait)? {
            row?;
            seen += 1;
        }
    } else {
        tx.scan(table, .., |_, value| {
            seen += u64::from(value == [7; 60]);
            ControlFlow::Continue(())
        })?;
    }
    Ok(seen)
}

impl RollbackScan {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        say!("rolled back: {:<28} {:>10} {:>10} {:>10}", "", "rows", "scan, s", "again, s");
        for (what, locks) in [("inserted", false), ("inserted, scan for update", true), ("updated", false)] {
            let dir = scratch()?;
            let took = self.measure(dir.dir(), what == "updated", locks)?;
            say!("             {what:<28} {:>10} {:>10.2} {:>10.2}", self.rows, took[0], took[1]);
        }
        Ok(())
    }

    /// Returns the seconds of two scans.
    fn measure(&self, dir: &Path, update: bool, locks: bool) -> Outcome<[f64; 2]> {
        let db = own_process::options().buffer_pool_bytes(1 << 30).open(dir.join("db"))?;
        let key = |n: u64| n.to_be_bytes();
        let old = if update { self.rows } else { 0 };
        db.bulk_load("t", (0..old).map(|n| (key(n), [7; 60])))?;
        let table = db.open_table("t")?;
        let mut tx = db.begin()?;
        (0..self.rows).try_for_each(|n| tx.put(&table, &key(n), &[8; 60]).map(drop))?;
        tx.rollback();
        let mut took = [0.0; 2];
        for took in &mut took {
            let (start, mut tx) = (Instant::now(), db.begin()?);
            let seen = scan(&mut tx, &table, locks)?;
            if seen != old {
                return Err(Failure::failed(format!("{seen} rows instead of {old}")));
            }
            *took = start.elapsed().as_secs_f64();
        }
        db.close()?;
        Ok(took)
    }
}
