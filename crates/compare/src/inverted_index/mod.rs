//! The command `inverted-index`: AND and OR of two lists of document ids. It runs the experiment of
//! the engine's example `inverted_index`, with two libraries for such lists beside Millpond.

#[cfg(feature = "search")]
mod experiment;
#[cfg(feature = "search")]
mod roaring;
#[cfg(feature = "search")]
mod tantivy;

use std::path::PathBuf;

/// Why the command ended early: its exit status, and a sentence.
pub type Failure = (u8, String);

fn misuse(text: String) -> Failure {
    (2, text)
}

/// What is compared. Without a flag it is what the example does.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Ids are below it [default: 10000000]
    #[arg(long, value_name = "N")]
    universe: Option<u64>,
    /// Ids of the two lists [default: 2000000,1000000]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    sizes: Option<Vec<usize>>,
    /// What the lists and the dates follow from [default: 1,2,3]
    #[arg(long, value_name = "A,B,D", value_delimiter = ',', num_args = 1)]
    seeds: Option<Vec<u64>>,
    /// How often each query is asked, at least 15 [default: 21]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// A chunk of ids is a bitmap if that costs at most so many times the bytes of packed ids
    /// [default: 2]
    #[arg(long, value_name = "F")]
    bitmap_factor: Option<f64>,
    /// Where to make the database: a new or empty directory [default: a new one here, removed at
    /// the end]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Write all figures to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[cfg(not(feature = "search"))]
pub fn run(_flags: &Flags) -> Result<(), Failure> {
    Err(misuse("inverted-index is not built in; build with --features search to have it".into()))
}

/// Runs the experiment and prints its table.
#[cfg(feature = "search")]
pub fn run(flags: &Flags) -> Result<(), Failure> {
    use crate::work_dir::WorkDir;
    use std::io::Write;

    let setup = setup(flags)?;
    let cannot_write = |path: &PathBuf, e| misuse(format!("cannot write {}: {e}", path.display()));
    // Fails before the work, not after it.
    if let Some(path) = &flags.json {
        std::fs::write(path, "").map_err(|e| cannot_write(path, e))?;
    }
    crate::stop::listen().map_err(|e| (1, e.to_string()))?;
    let work_dir = WorkDir::make(flags.db.as_deref()).map_err(misuse)?;
    let report = experiment::run(&setup, &work_dir.dir().join("millpond"), others).map_err(failure)?;
    // If the reader has ended (`| head`), this is no failure.
    let _ = write!(std::io::stdout(), "{}", experiment::table(&report));
    if let Some(path) = &flags.json {
        std::fs::write(path, experiment::json(&report)).map_err(|e| cannot_write(path, e))?;
    }
    Ok(())
}

#[cfg(feature = "search")]
fn failure(failure: experiment::Failure) -> Failure {
    (failure.status(), failure.to_string())
}

#[cfg(feature = "search")]
fn setup(flags: &Flags) -> Result<experiment::Setup, Failure> {
    let default = experiment::Setup::default();
    let many = |flag: &str, n: usize| misuse(format!("--{flag} needs {n} numbers, with commas"));
    Ok(experiment::Setup {
        universe: flags.universe.unwrap_or(default.universe),
        sizes: match flags.sizes.clone() {
            Some(sizes) => sizes.try_into().map_err(|_| many("sizes", 2))?,
            None => default.sizes,
        },
        seeds: match flags.seeds.clone() {
            Some(seeds) => seeds.try_into().map_err(|_| many("seeds", 3))?,
            None => default.seeds,
        },
        runs: flags.runs.unwrap_or(default.runs),
        bitmap_factor: flags.bitmap_factor.unwrap_or(default.bitmap_factor),
    })
}

/// Those who answer beside Millpond.
#[cfg(feature = "search")]
fn others(data: &experiment::Data) -> Result<Vec<Box<dyn experiment::Contestant>>, experiment::Failure> {
    let mut others: Vec<Box<dyn experiment::Contestant>> = vec![Box::new(roaring::Roaring::of(data)?)];
    if let Some(tantivy) = tantivy::Tantivy::of(data)? {
        others.push(Box::new(tantivy));
    }
    Ok(others)
}

#[cfg(all(test, feature = "search"))]
mod tests {
    use super::experiment::{Setup, json, run, table};

    #[test]
    fn all_give_the_same_answers() {
        let dir = std::env::temp_dir().join(format!("compare-inverted-index-{}", std::process::id()));
        for (universe, sizes) in [(100_000, [20_000, 10_000]), (1 << 40, [3000, 2000])] {
            let setup = Setup { universe, sizes, runs: 15, ..Setup::default() };
            let report = run(&setup, &dir, super::others).unwrap();
            let parsed: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
            assert_eq!(parsed["universe"], universe);
            assert!(table(&report).contains("roaring"));
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}
