//! `millpond bench hot-versions`: an old snapshot reads rows that are changed again and again.

use super::{figure, scratch, soon_durable};
use crate::failure::{Failure, Outcome};
use millpond::Options;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const ROWS: u64 = 100;

const NOTES: &str = "\
100 rows are updated while one snapshot is held; at the end of each second that snapshot reads them.
The columns are the updates so far, the time of the read, and the steps back through versions of a
row. The last two should not grow. No call waits for the disk.";

/// Reads of an old snapshot from rows that change all the time: do they stay cheap?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct HotVersions {
    /// Seconds of updates
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
}

impl HotVersions {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let dir = scratch()?;
        say!("hot: {:>8} {:>16} {:>12} {:>16}", "second", "updates so far", "read, ms", "versions a row");
        let db = Options::new().buffer_pool_bytes(512 << 20).open(dir.dir().join("db"))?;
        let table = db.create_table("hot")?;
        let mut tx = db.begin()?;
        (0..ROWS).try_for_each(|n| tx.insert(&table, &n.to_be_bytes(), &[7; 100]).map(drop))?;
        tx.commit()?;
        let held = db.begin()?;
        held.get(&table, &0u64.to_be_bytes())?;
        let mut updates = 0u64;
        for second in 1..=self.seconds {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(1) {
                let mut tx = db.begin_with(soon_durable())?;
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
                return Err(Failure::failed("the snapshot has changed"));
            }
            let ms = start.elapsed().as_secs_f64() * 1000.0;
            let steps = (figure(&db, "version_steps") - before) / ROWS as f64;
            say!("     {second:>8} {updates:>16} {ms:>12.1} {steps:>16.1}");
        }
        drop(held);
        Ok(db.close()?)
    }
}
