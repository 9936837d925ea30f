//! An inverted index: for each term the ids of the documents that contain it, as a sorted list. AND
//! and OR of two lists, and the newest documents of an AND.
//!
//! ```text
//! cargo run --release -p millpond --example inverted_index [-- --help]
//! ```
//! The program repeats an experiment of the napkin-math series (Simon Eskildsen, "Inverted index
//! performance", problem 9, 2020): lists of 2,000,000 and of 1,000,000 ids of 64 bits. The article
//! computes 2.4 ms for AND and for OR: 24 MB of ids, read in order. How it works here:
//!
//! - **A list is many rows.** A list of ids is cut into blocks, and each block is a row. Its key is
//!   the number of the term and the first id, so the blocks of a list are a range of keys. A new
//!   document changes one small row of each of its terms, in the transaction that stores the
//!   document. So index and documents cannot contradict each other.
//! - **A block has the form that suits it.** Where ids are dense, a block is a bitmap. Where they
//!   are sparse, it has the gaps between them, packed in as few bits as the largest gap needs.
//! - **AND and OR are one pass.** Bitmaps are combined 64 ids at a time. Ids of a packed block are
//!   looked up in the bitmap of the other list, or merged with its packed ids.
//! - **A read copies little.** A cursor shows each row where it is in a copy of its leaf. Two
//!   cursors read both lists side by side, through one transaction and so in one snapshot.
//! - **Dates are a column.** The dates of 512 documents are one row, so the date of a document is
//!   found by arithmetic. A bounded list keeps the newest candidates.
//!
//! Every answer is compared with that of the article's own way, two loops over sorted arrays. The
//! table also has the time of one bare pass over the same bytes, which is the least that any
//! program needs to answer from these blocks.

mod experiment;

use experiment::{Failure, Setup, json, run, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
AND and OR of two lists of document ids, which are stored in Millpond

  --universe N        ids are below N [default: 10000000]
  --sizes A,B         ids of the two lists [default: 2000000,1000000]
  --seeds A,B,D       what the lists and the dates follow from [default: 1,2,3]
  --runs N            how often each query is asked, at least 15 [default: 21]
  --bitmap-factor F   a chunk of ids is a bitmap if that costs at most F times
                      the bytes of packed ids [default: 2]
  --db DIR            where to make the database: a directory that does not
                      exist, removed at the end [default: below the system's
                      directory for temporary files]
  --json FILE         write all figures to FILE
";

/// What the program was asked to do.
struct Cli {
    setup: Setup,
    db: PathBuf,
    json: Option<PathBuf>,
}

/// Returns what the flags ask for; `None` if they ask for help.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Cli>, Failure> {
    let db = std::env::temp_dir().join(format!("millpond-inverted-index-{}", std::process::id()));
    let mut cli = Cli { setup: Setup::default(), db, json: None };
    while let Some(flag) = args.next() {
        if matches!(flag.as_str(), "--help" | "-h") {
            return Ok(None);
        }
        let mut value = || args.next().ok_or_else(|| Failure::Misuse(format!("{flag} needs a value")));
        match flag.as_str() {
            "--universe" => cli.setup.universe = number(&flag, &value()?)?,
            "--sizes" => cli.setup.sizes = numbers(&flag, &value()?)?,
            "--seeds" => cli.setup.seeds = numbers(&flag, &value()?)?,
            "--runs" => cli.setup.runs = number(&flag, &value()?)?,
            "--bitmap-factor" => cli.setup.bitmap_factor = number(&flag, &value()?)?,
            "--db" => cli.db = value()?.into(),
            "--json" => cli.json = Some(value()?.into()),
            _ => return Err(Failure::Misuse(format!("there is no flag {flag}; --help lists them"))),
        }
    }
    Ok(Some(cli))
}

fn number<N: std::str::FromStr>(flag: &str, text: &str) -> Result<N, Failure> {
    text.parse().map_err(|_| Failure::Misuse(format!("{flag}: {text:?} is no number that fits")))
}

fn numbers<N: std::str::FromStr, const LEN: usize>(flag: &str, text: &str) -> Result<[N; LEN], Failure> {
    let numbers = text.split(',').map(|text| number(flag, text)).collect::<Result<Vec<N>, _>>()?;
    numbers.try_into().map_err(|_| Failure::Misuse(format!("{flag} needs {LEN} numbers, with commas")))
}

/// A directory that is removed when this is dropped.
struct Scratch<'d>(&'d Path);

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// Runs the experiment. Returns the text to print.
fn report(cli: &Cli) -> Result<String, Failure> {
    let cannot = |what: &str, path: &Path, error: std::io::Error| {
        Failure::Misuse(format!("cannot {what} {}: {error}", path.display()))
    };
    // Fails before the work, not after it.
    if let Some(path) = &cli.json {
        std::fs::write(path, "").map_err(|e| cannot("write", path, e))?;
    }
    std::fs::create_dir(&cli.db).map_err(|e| cannot("make the directory", &cli.db, e))?;
    let scratch = Scratch(&cli.db);
    let report = run(&cli.setup, scratch.0, |_| Ok(Vec::new()))?;
    if let Some(path) = &cli.json {
        std::fs::write(path, json(&report)).map_err(|e| cannot("write", path, e))?;
    }
    Ok(table(&report))
}

fn main() -> ExitCode {
    let text = match parse(std::env::args().skip(1)) {
        Ok(Some(cli)) => report(&cli),
        Ok(None) => Ok(HELP.into()),
        Err(failure) => Err(failure),
    };
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("inverted_index: {failure}");
            ExitCode::from(failure.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Option<Cli>, Failure> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn it_runs() {
        let args = ["--universe", "100000", "--sizes", "20000,1000", "--runs", "15"];
        let Ok(Some(mut cli)) = parsed(&args) else { panic!("these flags are right") };
        cli.db = std::env::temp_dir().join(format!("millpond-inverted-index-test-{}", std::process::id()));
        let text = report(&cli).unwrap();
        assert!(text.contains("AND, newest 100"), "{text}");
        assert!(!cli.db.exists());
    }

    #[test]
    fn wrong_flags_are_misuse() {
        for args in [
            &["--universe"][..],
            &["--universe", "many"],
            &["--universe", "-1"],
            &["--sizes", "1"],
            &["--sizes", "1,2,3"],
            &["--seeds", "1,2"],
            &["--frobnicate"],
            &["1000"],
        ] {
            assert!(matches!(parsed(args), Err(Failure::Misuse(_))), "{args:?}");
        }
        assert!(matches!(parsed(&["--help"]), Ok(None)));
        let path = Path::new("/no/such/directory/db");
        let cli = Cli { setup: Setup::default(), db: path.into(), json: None };
        assert!(matches!(report(&cli), Err(Failure::Misuse(_))));
    }
}
