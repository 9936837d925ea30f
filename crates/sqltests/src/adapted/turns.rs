//! Tests whose results depend on which of two connections comes first.
//!
//! Such a test sends a statement on one connection and goes on with another one. Some of MariaDB's
//! tests leave open which of the two statements wins, so with either engine a test has a set of
//! results, and one turn shows one of them. If the first turn differs, the test runs again with
//! both engines. It is as with InnoDB if the two sets have a result in common.

use super::choose::suite_dir;
use super::results::{Comparison, Relation, compare};
use crate::tree::installed_tests;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How often a test may run with each engine.
pub(super) const TURNS: usize = 3;

/// How a test ended with one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// What it printed, masked.
    Printed(String),
    /// The driver does not run it here, for instance because it needs a server with debug code.
    Skipped,
    /// It did not come to its end: a crash, a time limit, or a command that cannot go on.
    Failed,
}

/// How a test ended in each turn, with InnoDB and with Millpond.
#[derive(Debug, Default)]
pub(super) struct Turns(pub(super) [Vec<Outcome>; 2]);

/// What the turns of a test say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The driver does not run it here.
    Skipped,
    /// It has come to its end with InnoDB in no turn.
    FailsWithInnodb,
    /// It has come to its end with InnoDB, but not with Millpond in some turn.
    Fails,
    /// The comparison of the two results that are closest, and the turns that they are from.
    Compared { found: Comparison, of_turns: [usize; 2] },
}

impl Turns {
    /// Returns how the results differ that are closest, if the list does not permit that.
    pub(super) fn difference(&self, permitted: impl Fn(&str) -> bool) -> Option<String> {
        match self.verdict(&permitted) {
            Verdict::Compared { found, .. }
                if found.relation == Relation::Different && !permitted(&found.text) =>
            {
                Some(found.text)
            }
            _ => None,
        }
    }

    /// Compares all results of one engine with all of the other one. `permitted` tells whether a
    /// difference is one that the list permits.
    pub(super) fn verdict(&self, permitted: impl Fn(&str) -> bool) -> Verdict {
        let [innodb, millpond] = &self.0;
        if [innodb, millpond].iter().any(|outcomes| outcomes.first() == Some(&Outcome::Skipped)) {
            return Verdict::Skipped;
        }
        let (ours, theirs) = (printed(millpond), printed(innodb));
        if !theirs.is_empty() && ours.len() < millpond.len() {
            return Verdict::Fails;
        }
        let pairs = theirs.iter().flat_map(|one| ours.iter().map(move |other| (one, other)));
        let compared = pairs.map(|((m, one), (n, other))| (compare(one, other), [*m, *n]));
        // The first pair counts among those that are equally close.
        let closest = compared.min_by_key(|(found, _)| {
            (found.relation == Relation::Different && !permitted(&found.text), found.relation)
        });
        closest.map_or(Verdict::FailsWithInnodb, |(found, of_turns)| Verdict::Compared { found, of_turns })
    }
}

/// Returns what was printed in the turns that came to their end, with the number of the turn.
fn printed(outcomes: &[Outcome]) -> Vec<(usize, &str)> {
    let numbered = outcomes.iter().enumerate();
    let texts = numbered.filter_map(|(turn, outcome)| match outcome {
        Outcome::Printed(text) => Some((turn, text.as_str())),
        Outcome::Skipped | Outcome::Failed => None,
    });
    texts.collect()
}

/// Tells whether a test sends a statement on one connection and goes on with another one, itself or
/// in a file that it includes.
pub(super) fn has_statements_at_once(test: &str) -> bool {
    let Some((suite, name)) = test.split_once('.') else { return false };
    let dir = installed_tests().join(suite_dir(suite));
    let name = format!("{name}.test");
    let mut left: Vec<PathBuf> = vec![dir.join("t").join(&name), dir.join(&name)];
    let mut seen = BTreeSet::new();
    while let Some(file) = left.pop() {
        let Ok(text) = std::fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&text);
        if sends(&text) {
            return true;
        }
        let beside = file.parent().unwrap_or(Path::new(""));
        for included in included(&text) {
            let places = [installed_tests().join(included), dir.join(included), beside.join(included)];
            left.extend(places.into_iter().filter(|place| seen.insert(place.clone())));
        }
    }
    false
}

/// Returns the command of a line: its words without dashes before them and semicolons after them.
fn command(line: &str) -> impl Iterator<Item = &str> {
    line.trim().trim_start_matches('-').split([' ', '\t', ';']).filter(|word| !word.is_empty())
}

/// Tells whether a test sends a statement whose end it does not await.
fn sends(text: &str) -> bool {
    text.lines().any(|line| matches!(command(line).next(), Some("send" | "send_eval")))
}

/// Returns the files that a test includes.
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words = command(line);
        words.next().filter(|word| word.eq_ignore_ascii_case("source"))?;
        words.next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "DROP TRIGGER a;\nERROR HY000: Trigger does not exist\nconnection b;\n";
    const SECOND: &str = "DROP TRIGGER a;\nconnection b;\nERROR HY000: Trigger does not exist\n";
    const NEITHER: &str = "DROP TRIGGER a;\nconnection b;\n";

    fn turns(innodb: &[&str], millpond: &[&str]) -> Turns {
        let printed = |text: &&str| Outcome::Printed((*text).to_owned());
        Turns([innodb, millpond].map(|texts| texts.iter().map(printed).collect()))
    }

    fn relation(turns: &Turns) -> Option<(Relation, [usize; 2])> {
        match turns.verdict(|_| false) {
            Verdict::Compared { found, of_turns } => Some((found.relation, of_turns)),
            _ => None,
        }
    }

    #[test]
    fn results_in_common_are_enough() {
        assert_eq!(relation(&turns(&[FIRST], &[SECOND])), Some((Relation::Different, [0, 0])));
        let twice = turns(&[FIRST, FIRST], &[SECOND, FIRST]);
        assert_eq!(relation(&twice), Some((Relation::Same, [0, 1])));
        let crossed = turns(&[FIRST, SECOND], &[SECOND, FIRST]);
        assert_eq!(relation(&crossed), Some((Relation::Same, [0, 1])));
    }

    #[test]
    fn a_result_that_the_other_engine_never_has_differs() {
        let turns = turns(&[FIRST, SECOND, FIRST], &[NEITHER, NEITHER, NEITHER]);
        assert_eq!(relation(&turns), Some((Relation::Different, [0, 0])));
    }

    #[test]
    fn a_permitted_difference_is_as_good_as_none() {
        let turns = turns(&[FIRST, SECOND], &[NEITHER]);
        let text = compare(SECOND, NEITHER).text;
        let verdict = turns.verdict(|difference| difference == text);
        assert!(matches!(verdict, Verdict::Compared { of_turns: [1, 0], .. }), "{verdict:?}");
    }

    #[test]
    fn one_turn_without_an_end_is_enough_to_fail() {
        let mut turns = turns(&[FIRST, FIRST], &[SECOND, FIRST]);
        turns.0[1][0] = Outcome::Failed;
        assert_eq!(turns.verdict(|_| true), Verdict::Fails);
        turns.0[0] = vec![Outcome::Failed, Outcome::Failed];
        assert_eq!(turns.verdict(|_| true), Verdict::FailsWithInnodb);
    }

    #[test]
    fn an_end_that_innodb_misses_in_a_later_turn_explains_nothing() {
        let mut turns = turns(&[FIRST, FIRST], &[SECOND, SECOND]);
        turns.0[0][1] = Outcome::Failed;
        assert_eq!(relation(&turns), Some((Relation::Different, [0, 0])));
    }

    #[test]
    fn a_sent_statement_runs_beside_the_others() {
        assert!(sends("SELECT 1;\n--send\n  DROP TRIGGER a;\n"));
        assert!(sends("send SELECT 1;\n") && sends("send_eval $query;\n"));
        assert!(!sends("# --send\n--echo send\nSELECT 'send';\nsending;\n"));
        let text = "--source include/a.inc\nsource suite/b.inc;\n-- Source c.inc\n# --source d.inc\n";
        assert_eq!(included(text).collect::<Vec<_>>(), ["include/a.inc", "suite/b.inc", "c.inc"]);
    }
}
