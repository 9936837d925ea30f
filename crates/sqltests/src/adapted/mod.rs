//! MariaDB's own tests, run with InnoDB and with Millpond.
//!
//! Each test is adapted: the engine that it names for its tables is replaced, and it goes on after
//! an error. It runs in the same tree with InnoDB as the default engine, then with Millpond, and
//! the results are compared with the engine's name masked. So the oracle is this very server, not
//! an expected result that was written for another engine.
//!
//! `mariadb/adapted` has the lists: `tests` is what runs, `left-out` what does not, `slow` what no
//! share has; `mariadb/differs` has the tests whose results may differ, each with a checksum of the
//! difference and its reason. [`absent`] knows differences that the guide explains wherever they
//! come. A test whose connections run statements at once may run in several [`turns`].

mod absent;
mod block;
mod choose;
mod options;
mod results;
mod text;
mod turns;

use super::listed::Listed;
use super::packages::install;
use super::tree::{Tree, installed_tests};
use super::{make_dir, write};
use choose::{reasons, suite_dir};
pub(crate) use options::Options;
use results::Relation;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use turns::{Outcome, TURNS, Turns, Verdict, has_statements_at_once};

const ENGINES: [&str; 2] = ["InnoDB", "Millpond"];
/// Suites that run with a binary log of rows. In other formats it has rows of Millpond where it has
/// statements of InnoDB, or Millpond refuses the statement. A test that needs a format has its own
/// option, which counts more.
const ROWS: [&str; 3] = ["main", "binlog", "rpl"];
/// How long one test may take, minutes.
const TEST_MINUTES: u32 = 4;
/// How many drivers run beside each other. Many tests wait for most of their time.
const DRIVERS: usize = 4;

/// Runs the tests and compares.
pub(super) fn run(options: &Options) -> Result<(), String> {
    install(&["mariadb-test"])?;
    let tests = choose::tests(options, &reasons("left-out")?)?;
    if tests.is_empty() {
        return Err("no test has such a name".into());
    }
    let mut listed = Listed::read()?;
    if options.again {
        let turns = tests.iter().map(|test| (test.clone(), printed_before(test))).collect();
        return judge(options, &tests, &turns, &mut listed)?;
    }
    let suites = choose::suites()?;
    let mut copied: Vec<&str> = vec!["include", "main"];
    copied.extend(suites.iter().map(String::as_str));
    let tree = Tree::new("adapted", &copied)?;
    println!("{} tests, in {}", tests.len(), tree.tests().display());
    let mut turns: BTreeMap<String, Turns> = BTreeMap::new();
    let mut running = tests.clone();
    for _ in 0..TURNS {
        take_a_turn(&tree, &suites, &running, &mut turns)?;
        running.retain(|test| may_be_a_race(test, &turns[test], &listed));
        if running.is_empty() {
            break;
        }
    }
    let verdict = judge(options, &tests, &turns, &mut listed)?;
    if verdict.is_ok() {
        tree.remove()?;
    }
    verdict
}

/// Tells whether a test may be as with InnoDB in another turn, and prints how it differs so far.
fn may_be_a_race(test: &str, turns: &Turns, listed: &Listed) -> bool {
    let difference = turns.difference(|text| listed.permits(&named(test), text));
    let Some(difference) = difference.filter(|_| has_statements_at_once(test)) else { return false };
    println!("{test} has statements at once, and differs in each turn so far:\n{difference}");
    true
}

/// Runs tests with InnoDB, then with Millpond, and adds how each ended.
fn take_a_turn(
    tree: &Tree,
    suites: &[String],
    tests: &[String],
    turns: &mut BTreeMap<String, Turns>,
) -> Result<(), String> {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        adapt_all(tree, suites, engine)?;
        for (test, outcome) in run_all(tree, suites, tests, engine)? {
            turns.entry(test).or_default().0[n].push(outcome);
        }
    }
    Ok(())
}

/// Returns where the last result of a test with an engine is kept.
fn kept(test: &str, engine: &str) -> PathBuf {
    super::target().join("adapted").join(engine).join(test)
}

/// Keeps what a test printed.
fn keep(test: &str, engine: &str, outcome: &Outcome) -> Result<(), String> {
    let file = kept(test, engine);
    make_dir(file.parent().unwrap_or(&file))?;
    match outcome {
        Outcome::Printed(text) => write(&file, text),
        Outcome::Skipped | Outcome::Failed => {
            let _ = std::fs::remove_file(file);
            Ok(())
        }
    }
}

/// Returns what a test printed when it ran last. If it printed nothing, it counts as skipped.
fn printed_before(test: &str) -> Turns {
    let outcome = |engine| match std::fs::read_to_string(kept(test, engine)) {
        Ok(text) => Outcome::Printed(text),
        Err(_) => Outcome::Skipped,
    };
    Turns(ENGINES.map(|engine| vec![outcome(engine)]))
}

/// Copies the tests and what they include, adapted for an engine.
fn adapt_all(tree: &Tree, suites: &[String], engine: &str) -> Result<(), String> {
    let mut dirs = vec![Path::new("include").to_owned()];
    dirs.extend(suites.iter().map(|suite| suite_dir(suite)));
    for dir in dirs {
        let to = tree.tests().join(&dir);
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        adapt_dir(&installed_tests().join(&dir), &to, engine)?;
        if ROWS.iter().any(|suite| dir == suite_dir(suite)) {
            write(&to.join("suite.opt"), "--binlog-format=row\n")?;
        }
    }
    Ok(())
}

fn adapt_dir(from: &Path, to: &Path, engine: &str) -> Result<(), String> {
    make_dir(to)?;
    let entries = std::fs::read_dir(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            adapt_dir(&path, &copy, engine)?;
            continue;
        }
        let kind = kind_of(&path);
        // Results are recorded anew, once for each test.
        if matches!(kind, "result" | "rdiff" | "combinations" | "reject") {
            continue;
        }
        let read = std::fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let text = match kind {
            "test" => [b"--disable_abort_on_error\n", &*text::adapt(&read, engine)].concat(),
            "inc" | "opt" => text::adapt(&read, engine),
            _ => read,
        };
        std::fs::write(&copy, text).map_err(|e| format!("cannot write {}: {e}", copy.display()))?;
    }
    Ok(())
}

/// Returns the kind of a file: what stands behind the last dot, or the whole name if it has none,
/// as that of the list of all combinations of settings in which a suite runs.
fn kind_of(path: &Path) -> &str {
    path.extension().or(path.file_name()).and_then(|kind| kind.to_str()).unwrap_or("")
}

/// Starts the driver for some tests. It records one test at a time, so there are several drivers.
fn start(
    tree: &Tree,
    suites: &[String],
    tests: &[String],
    engine: &str,
    number: usize,
) -> Result<(Child, PathBuf), String> {
    let mut driver = tree.driver(&format!("var{number}"))?;
    let server = [
        format!("--plugin-dir={}", tree.plugins().display()),
        "--plugin-load-add=ha_millpond.so".to_owned(),
        "--innodb".to_owned(),
        format!("--default-storage-engine={engine}"),
        // Nothing here cuts the power, but some tests kill the server.
        "--loose-millpond-flush-log-at-trx-commit=2".to_owned(),
        "--innodb-flush-log-at-trx-commit=2".to_owned(),
    ];
    driver.args(server.iter().map(|option| format!("--mysqld={option}")));
    driver.args(["--record", "--retry=0", "--nocheck-testcases", "--suite-timeout=600"]);
    driver.arg(format!("--testcase-timeout={TEST_MINUTES}"));
    driver.arg(format!("--suite={}", suites.join(","))).args(tests);
    let log = tree.root().join(format!("{engine}{number}.log"));
    let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    driver.stdin(Stdio::null()).stdout(file).stderr(errors);
    let driver = driver.spawn().map_err(|e| format!("cannot start the test driver: {e}"))?;
    Ok((driver, log))
}

/// Runs all tests with an engine, and returns how each ended.
fn run_all(
    tree: &Tree,
    suites: &[String],
    tests: &[String],
    engine: &str,
) -> Result<BTreeMap<String, Outcome>, String> {
    println!("with {engine}");
    let mut running = Vec::new();
    for number in 0..DRIVERS.min(tests.len()) {
        // Neighbours in the list take about as long as each other.
        let some: Vec<String> = tests.iter().skip(number).step_by(DRIVERS).cloned().collect();
        running.push(start(tree, suites, &some, engine, number)?);
    }
    let mut said = String::new();
    for (mut driver, log) in running {
        driver.wait().map_err(|e| format!("the test driver: {e}"))?;
        let bytes = std::fs::read(&log).map_err(|e| format!("cannot read {}: {e}", log.display()))?;
        said.push_str(&String::from_utf8_lossy(&bytes));
    }
    let mut outcomes = BTreeMap::new();
    for test in tests {
        let outcome = match state_of(&said, test) {
            Some("pass") => Outcome::Printed(recorded(tree, test)?),
            Some("skipped" | "disabled") => Outcome::Skipped,
            Some(_) => Outcome::Failed,
            None => {
                let log = tree.root().join(format!("{engine}*.log"));
                return Err(format!("the driver says nothing of {test}; see {}", log.display()));
            }
        };
        outcomes.insert(test.clone(), outcome);
    }
    Ok(outcomes)
}

/// Finds what the driver says of a test, in a line such as `main.join w1 [ pass ]  120`.
fn state_of<'a>(said: &'a str, test: &str) -> Option<&'a str> {
    let of_test = |line: &&str| line.split_whitespace().next() == Some(test) && line.contains("[ ");
    let line = said.lines().rfind(of_test)?;
    Some(line.split_once("[ ")?.1.split_once(" ]")?.0)
}

/// Reads the recorded result of a test.
fn recorded(tree: &Tree, test: &str) -> Result<String, String> {
    let (suite, name) = test.split_once('.').ok_or("a test is SUITE.TEST")?;
    let dir = tree.tests().join(suite_dir(suite));
    let name = format!("{name}.result");
    for file in [dir.join("r").join(&name), dir.join(&name)] {
        if let Ok(result) = std::fs::read(&file) {
            return Ok(text::mask(&result));
        }
    }
    Err(format!("{test} has recorded nothing"))
}

/// Returns the name of a test in the list of those that may differ.
fn named(test: &str) -> String {
    format!("mariadb {test}")
}

/// Compares all results, and prints what came of it. The outer error is one of the lists.
fn judge(
    options: &Options,
    tests: &[String],
    turns: &BTreeMap<String, Turns>,
    listed: &mut Listed,
) -> Result<Result<(), String>, String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut bad = Vec::new();
    for test in tests {
        let turns = &turns[test];
        let verdict = turns.verdict(|text| listed.permits(&named(test), text));
        let (word, of_turns) = match &verdict {
            Verdict::Skipped => ("skipped", [0, 0]),
            Verdict::FailsWithInnodb => ("fails with InnoDB too", [0, 0]),
            Verdict::Fails => ("FAILED", [0, 0]),
            Verdict::Compared { found, of_turns } => (word_of(options, test, found, listed)?, *of_turns),
        };
        for (n, engine) in ENGINES.into_iter().enumerate() {
            keep(test, engine, &turns.0[n][of_turns[n]])?;
        }
        *counts.entry(word).or_default() += 1;
        if word != "same" && word != "skipped" || of_turns != [0, 0] {
            let later = if of_turns == [0, 0] { "" } else { ", in a later turn" };
            println!("{word:22} {test}{later}");
        }
        if word == "FAILED" || word == "DIFFERS" {
            bad.push(test.as_str());
        }
    }
    listed.save()?;
    let sums: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    println!("{}", sums.join(", "));
    Ok(if bad.is_empty() { Ok(()) } else { Err(format!("not as with InnoDB: {}", bad.join(" "))) })
}

/// Returns a word for how the results of a test relate. Differences that the list does not permit
/// are printed, and all are written beside the test's log.
fn word_of(
    options: &Options,
    test: &str,
    found: &results::Comparison,
    listed: &mut Listed,
) -> Result<&'static str, String> {
    let out = super::target().join("adapted");
    make_dir(&out)?;
    write(&out.join(test), &found.text)?;
    let name = named(test);
    Ok(match found.relation {
        Relation::Same => "same",
        Relation::Order => "order of rows",
        Relation::Plan => "plans",
        Relation::Explained => "explained",
        Relation::Different if options.pin && listed.pin(&name, &found.text) => "listed",
        Relation::Different if listed.permits(&name, &found.text) => "listed",
        Relation::Different => {
            println!("{test}:\n{}", found.text);
            "DIFFERS"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_loses_its_combinations_and_results() {
        let dir = std::env::temp_dir().join(format!("millpond-adapted-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        std::fs::create_dir_all(from.join("t")).unwrap();
        let names = ["combinations", "t/a.combinations", "t/a.test", "t/a.result", "t/README", "t/a.inc"];
        for name in names {
            std::fs::write(from.join(name), "text").unwrap();
        }
        adapt_dir(&from, &to, "Millpond").unwrap();
        let kept = names.iter().filter(|name| to.join(name).exists());
        let kept: Vec<&str> = kept.copied().collect();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(kept, ["t/a.test", "t/README", "t/a.inc"]);
    }

    #[test]
    fn the_last_line_of_a_test_tells_how_it_ended() {
        let said = "main.join w1 [ fail ]\nmain.join_outer [ pass ] 5\nmain.join w2 [ pass ]  120\n";
        assert_eq!(state_of(said, "main.join"), Some("pass"));
        assert_eq!(state_of(said, "main.join_outer"), Some("pass"));
        assert_eq!(state_of(said, "main.key"), None);
    }
}
