//! `millpond bench tables`: many small tables are created and dropped.

use super::{mib, scratch, soon_durable};
use millpond::Options;
use output::failure::{Failure, Outcome};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const NOTES: &str = "\
Tables of one row each are created and dropped, half of them one by one and half in one call. Shows
the disk space of the file `pages` for each table, and the time of a drop.";

/// Disk space of many small tables, and the time of their drop
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Tables {
    /// How many tables
    #[arg(long, value_name = "T", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    tables: u64,
}

/// Returns the bytes that `pages` takes on disk.
fn pages_bytes(dir: &Path) -> Outcome<f64> {
    let file = std::fs::metadata(dir.join("pages"))
        .map_err(|e| Failure::failed(format!("cannot read the size of `pages`: {e}")))?;
    Ok((file.blocks() * 512) as f64)
}

impl Tables {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        let (count, dir) = (self.tables, scratch()?);
        let dir = dir.dir().join("db");
        let db = Options::new().open(&dir)?;
        let empty = pages_bytes(&dir)?;
        for n in 0..count {
            let table = db.create_table(&format!("table {n}"))?;
            let mut tx = db.begin_with(soon_durable())?;
            tx.insert(&table, b"key", b"value")?;
            tx.commit()?;
        }
        db.checkpoint()?;
        let full = pages_bytes(&dir)?;
        let names: Vec<String> = (0..count).map(|n| format!("table {n}")).collect();
        let (one_by_one, together) = names.split_at(names.len() / 2);
        let start = Instant::now();
        one_by_one.iter().try_for_each(|name| db.drop_table(name))?;
        let (one, start) = (start.elapsed(), Instant::now());
        db.drop_tables(&together.iter().map(String::as_str).collect::<Vec<_>>())?;
        let rest = start.elapsed();
        db.checkpoint()?;
        let dropped = pages_bytes(&dir)?;
        db.close()?;
        let closed = pages_bytes(&dir)?;
        say!("tables: {count}; `pages` of the empty database {:.1} MiB", mib(empty));
        let each = (full - empty) / count as f64;
        say!("        with tables        {:>8.1} MiB, {each:>8.0} bytes each", mib(full));
        say!("        dropped            {:>8.1} MiB", mib(dropped));
        let each = |took: Duration, names: &[String]| took.as_secs_f64() * 1e6 / names.len().max(1) as f64;
        say!("        dropped one by one {:>8.0} us each, synced", each(one, one_by_one));
        say!("        dropped in a call  {:>8.0} us each", each(rest, together));
        say!("        closed             {:>8.1} MiB", mib(closed));
        Ok(())
    }
}
