//! The tests of programs that use a database, run on InnoDB and on Millpond.
//!
//! [`fetch`] gets SQLAlchemy's and Django's source packages, [`units`] chooses what of their tests
//! runs, [`run_units`] runs them with two private servers that differ in nothing but
//! `default_storage_engine`, and [`outcomes`] compares how each test ended and what its error says.
//! `mariadb/differs` lists the differences that are right. A difference that is not listed
//! is an error, and so is a listed one that does not come. `left-out` names the tests that are not
//! compared, because a clock or the length of a path decides how they end.

mod fetch;
mod lists;
mod options;
mod outcomes;
mod run_units;
mod units;

use super::listed::{Listed, Standing};
use super::{make_dir, target};
use fetch::Answer;
pub(crate) use options::Options;
use outcomes::Outcomes;
use run_units::{ENGINES, kept};
use std::collections::{BTreeMap, BTreeSet};
use units::{Program, Unit};

/// How the tests of each program ended, by its name, with one engine.
type OfEngine = BTreeMap<&'static str, Outcomes>;

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
        run_units::run(&fetched, &chosen)?;
    }
    judge(options, &chosen)
}

/// Reads how the tests of the chosen units ended with an engine.
fn read(chosen: &[Unit], engine: &str) -> Result<OfEngine, String> {
    let list = lists::read("left-out")?;
    let left_out = left_out(&list)?;
    let mut all = OfEngine::new();
    for program in Program::of(chosen) {
        let file = kept(program, engine);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let mut outcomes = outcomes::read(&text)?;
        let of_program: BTreeSet<&str> =
            chosen.iter().filter(|unit| unit.program == program).map(|unit| unit.name.as_str()).collect();
        outcomes.retain(|test, _| {
            let named = format!("{} {test}", program.name());
            of_program.contains(program.unit(test)) && !left_out.contains(named.as_str())
        });
        println!("{} with {engine}: {}", program.name(), outcomes::sums(&outcomes));
        all.insert(program.name(), outcomes);
    }
    Ok(all)
}

/// Returns the tests of the list `left-out`, of lines `PROGRAM TEST : REASON`.
fn left_out(list: &str) -> Result<BTreeSet<&str>, String> {
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let test = |line| str::rsplit_once(line, " : ").map(|(test, _)| test);
    lines.map(|line| test(line).ok_or_else(|| format!("left-out: no reason in: {line}"))).collect()
}

/// The differences, by the names of the tests in the list: `PROGRAM TEST`.
type Found = BTreeMap<String, String>;

/// Compares all outcomes with each other and with the list.
fn judge(options: &Options, chosen: &[Unit]) -> Result<(), String> {
    let [innodb, millpond] = ENGINES.map(|engine| read(chosen, engine));
    let (innodb, millpond) = (innodb?, millpond?);
    let mut found = Found::new();
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
        for (test, difference) in &found {
            listed.pin(test, difference);
        }
        listed.save()?;
    }
    let bad = against(&listed, &found, |test| chosen.iter().any(|unit| unit.has(test)));
    bad.iter().for_each(|what| println!("{what}"));
    println!("{} tests differ, {} of them not as listed", found.len(), bad.len());
    if bad.is_empty() { Ok(()) } else { Err("not as mariadb/differs says".to_owned()) }
}

/// Compares the differences of the tests that ran with the list. Returns a sentence for each that
/// is not in it as it is, and for each listed one that did not come. `ran` tells of a listed test
/// whether it ran.
fn against(listed: &Listed, found: &Found, ran: impl Fn(&str) -> bool) -> Vec<String> {
    let mut bad = Vec::new();
    for (test, difference) in found {
        match listed.standing(test, difference) {
            Standing::Permitted => {}
            Standing::Unlisted => bad.push(format!("{test} is not listed:\n{difference}")),
            Standing::Otherwise => {
                bad.push(format!("{test} differs in another way than was pinned:\n{difference}"));
            }
        }
    }
    let gone = listed.names().filter(|test| !found.contains_key(*test) && ran(test));
    bad.extend(gone.map(|test| format!("{test} is listed, and does not differ")));
    bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed::tests::list;

    #[test]
    fn each_line_of_a_list_names_a_program_and_a_test() {
        let listed = Listed::read().unwrap();
        let text = lists::read("left-out").unwrap();
        let left_out = left_out(&text).unwrap();
        assert!(listed.names().all(|name| !left_out.contains(name)));
        let of_programs = listed.names().filter(|name| !name.starts_with("mariadb "));
        for name in of_programs.chain(left_out) {
            let test = Program::ALL.iter().find_map(|of| name.strip_prefix(of.name())?.strip_prefix(' '));
            assert!(test.is_some_and(|test| !test.is_empty()), "{name}");
        }
    }

    #[test]
    fn a_test_is_left_out_with_a_reason() {
        let list = "# Comment.\n\ndjango a.b : a clock decides\n";
        assert_eq!(left_out(list).unwrap(), BTreeSet::from(["django a.b"]));
        assert!(left_out("django a.b\n").is_err());
    }

    #[test]
    fn what_differs_is_exactly_what_is_listed() {
        let found = |text: &str| Found::from([("django a.b".to_owned(), text.to_owned())]);
        let mut listed = list("# Comment.\n\ndjango a.b - : \"why\"\n").unwrap();
        listed.pin("django a.b", "one");
        assert!(against(&listed, &found("one"), |_| true).is_empty());
        assert!(against(&listed, &found("two"), |_| true)[0].contains("in another way"));
        assert!(against(&listed, &Found::new(), |_| true)[0].contains("does not differ"));
        assert!(against(&listed, &Found::new(), |_| false).is_empty());
        assert!(against(&list("").unwrap(), &found("one"), |_| true)[0].contains("is not listed"));
    }
}
