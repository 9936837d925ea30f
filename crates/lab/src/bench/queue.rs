//! `millpond bench queue`: a table used as a queue while a snapshot is held.

use super::{figure, scratch, soon_durable};
use crate::own_process;
use millpond::{LockWait, Table, Transaction};
use output::failure::{Failure, Outcome};
use std::path::Path;
use std::time::{Duration, Instant};

const NOTES: &str = "\
Rows are inserted at the end of a table and deleted at its head, with a plain range and with one
that locks and skips locked rows. One snapshot is held all the time. The columns are deletes in each
second, and the delete marks that each of them passed. Both should stay the same from the first
second to the last. No call waits for the disk.";

/// A table used as a queue while a snapshot is held: does the head stay cheap?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Queue {
    /// Seconds of each kind of range
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
}

/// Returns the key at the head of the queue, read with a plain range or with a locking one.
fn head(tx: &mut Transaction, table: &Table, locks: bool) -> Outcome<Vec<u8>> {
    let first = match locks {
        true => tx.range_for_update(table, .., LockWait::SkipLocked)?.next(),
        false => tx.range(table, ..)?.next(),
    };
    Ok(first.ok_or_else(|| Failure::failed("the queue is empty"))??.0)
}

impl Queue {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        for (name, locks) in [("range", false), ("range_for_update, skip locked", true)] {
            say!("queue, {name}");
            say!("{:>8} {:>12} {:>20}", "second", "pops/s", "marks passed a pop");
            self.measure(&dir.dir().join(if locks { "locking" } else { "plain" }), locks)?;
        }
        Ok(())
    }

    fn measure(&self, dir: &Path, locks: bool) -> Outcome {
        let db = own_process::options().buffer_pool_bytes(512 << 20).open(dir)?;
        let table = db.create_table("queue")?;
        let mut last = 0u64;
        let mut tx = db.begin_with(soon_durable())?;
        for _ in 0..100 {
            tx.insert(&table, &last.to_be_bytes(), &[7; 100])?;
            last += 1;
        }
        tx.commit()?;
        let held = db.begin()?;
        held.get(&table, &0u64.to_be_bytes())?;
        for second in 1..=self.seconds {
            let (start, mut pops, before) = (Instant::now(), 0, figure(&db, "scan_marks"));
            while start.elapsed() < Duration::from_secs(1) {
                let mut tx = db.begin_with(soon_durable())?;
                let key = head(&mut tx, &table, locks)?;
                tx.delete(&table, &key)?;
                tx.insert(&table, &last.to_be_bytes(), &[7; 100])?;
                tx.commit()?;
                (last, pops) = (last + 1, pops + 1);
            }
            let marks = (figure(&db, "scan_marks") - before) / f64::from(pops);
            say!("{second:>8} {pops:>12} {marks:>20.1}");
        }
        drop(held);
        Ok(db.close()?)
    }
}
