//! The tests of programs that use a database, run on InnoDB and on Millpond.
//!
//! [`fetch`] gets SQLAlchemy's and Django's source packages, [`units`] chooses what of their tests
//! runs, [`mod@run`] runs them with two private servers that differ in nothing but
//! `default_storage_engine`, and [`outcomes`] compares how each test ended and what its error says.
//! [`listed`] has the differences that are right: `mariadb/programs/differs`. A difference that is
//! not listed is an error, and so is a listed one that does not come.

mod fetch;
mod listed;
mod outcomes;
mod run;
mod units;

use super::adapted::share;
use super::{make_dir, target};
use crate::root;
use fetch::Answer;
use listed::Listed;
use outcomes::Outcomes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use units::{Program, Unit};

/// The engines, the oracle first.
const ENGINES: [&str; 2] = ["InnoDB", "Millpond"];

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these: sqlalchemy, django, a test file of SQLAlchemy or an app of Django's tests
    only: Vec<String>,
    /// Only a share of the files and apps, N/M, without slow ones
    #[arg(long, value_parser = share)]
    share: Option<(u64, u64)>,
    /// Which share
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Without a package index, run nothing and succeed
    #[arg(long)]
    if_reached: bool,
    /// Pin the differences of the tests that are listed in `differs`
    #[arg(long)]
    pin: bool,
    /// Run nothing: compare once more how the tests ended when they ran last
    #[arg(long)]
    again: bool,
}

/// How the tests of each program ended, by its name, with one engine.
type OfEngine = BTreeMap<&'static str, Outcomes>;

/// Returns the directory of the lists.
fn list_dir() -> PathBuf {
    root().join("mariadb/programs")
}

/// Returns the file that keeps how a program's tests ended with an engine.
fn kept(program: Program, engine: &str) -> PathBuf {
    target().join("programs-kept").join(format!("{}-{engine}", program.name()))
}

/// Runs the tests and compares.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let fetched = match fetch::fetch()? {
        Answer::Fetched(fetched) => fetched,
        Answer::NotReached(said) if options.if_reached => {
            println!("no package index is reached, so no test is run: {said}");
            return Ok(());
        }
        Answer::NotReached(said) => return Err(format!("no package index is reached: {said}")),
    };
    let chosen = units::choose(&units::all(&fetched)?, options)?;
    make_dir(&target().join("programs-kept"))?;
    if !options.again {
        run::run(&fetched, &chosen)?;
    }
    judge(options, &chosen)
}

/// Reads how the tests of the chosen units ended with an engine.
fn read(chosen: &[Unit], engine: &str) -> Result<OfEngine, String> {
    let mut all = OfEngine::new();
    for program in Program::of(chosen) {
        let file = kept(program, engine);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let mut outcomes = outcomes::read(&text)?;
        let of_program: BTreeSet<&str> =
            chosen.iter().filter(|unit| unit.program == program).map(|unit| unit.name.as_str()).collect();
        outcomes.retain(|test, _| of_program.contains(program.unit(test)));
        println!("{} with {engine}: {}", program.name(), outcomes::sums(&outcomes));
        all.insert(program.name(), outcomes);
    }
    Ok(all)
}

/// Compares all outcomes with each other and with the list.
fn judge(options: &Options, chosen: &[Unit]) -> Result<(), String> {
    let [innodb, millpond] = ENGINES.map(|engine| read(chosen, engine));
    let (innodb, millpond) = (innodb?, millpond?);
    let mut found = BTreeMap::new();
    for program in Program::of(chosen).map(Program::name) {
        let (one, other) = (&innodb[program], &millpond[program]);
        let tests: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for test in tests {
            if let Some(difference) = outcomes::difference(one.get(test), other.get(test)) {
                found.insert(format!("{program} {test}"), difference);
            }
        }
    }
    let mut listed = Listed::read()?;
    if options.pin {
        listed.pin(&found)?;
    }
    let bad = listed.judge(&found, |test| chosen.iter().any(|unit| unit.has(test)));
    bad.iter().for_each(|what| println!("{what}"));
    println!("{} tests differ, {} of them not as listed", found.len(), bad.len());
    if bad.is_empty() { Ok(()) } else { Err("not as mariadb/programs/differs says".to_owned()) }
}
