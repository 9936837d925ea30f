//! Finds the permitted difference that the outcomes of a statement show.

use crate::compare::answer::{Answer, LOCK_WAIT_TIMEOUT, Outcome, Row, WRONG_VALUE, fails, has_all, without};
use crate::compare::by_plan;
use crate::compare::case::Step;
use crate::compare::locks;
use crate::compare::world::World;
use crate::differences::{
    CHECKS_AGAIN, COUNTS_OF_COPIES, DELETED_ENTRIES, FAILED_COPIES, FAILED_SKIPS, FEWER_SKIPPED, OWN_THREADS,
    Permitted, SPENT_COUNTERS, WARNS_AGAIN,
};

const ERROR_DURING_COMMIT: u16 = 1180;
/// Numbers of warnings: a value out of range, a wrong one, and one that is cut.
const WARNINGS_OF_VALUES: [&[u8]; 3] = [b"1264", b"1292", b"1265"];

/// Returns the permitted difference that two unequal outcomes of a statement show, if it is one.
/// `together` tells whether the case has several sessions.
pub(crate) fn find(
    step: &Step,
    outcomes: &[Outcome; 2],
    together: bool,
    world: &mut World,
) -> Option<Permitted> {
    let of_locks = if together { locks::find(step, outcomes, world) } else { None };
    of_locks
        .or_else(|| of_tables(step, outcomes, together))
        .or_else(|| of_skipped(step, outcomes))
        .or_else(|| by_plan::find(step, outcomes, world))
}

/// Returns what is due to the way in which tables are changed.
fn of_tables(step: &Step, [innodb, millpond]: &[Outcome; 2], together: bool) -> Option<Permitted> {
    let alters = step.sql.starts_with("ALTER ");
    if !together && fails(innodb, LOCK_WAIT_TIMEOUT) && !fails(millpond, LOCK_WAIT_TIMEOUT) {
        return Some(OWN_THREADS);
    }
    if step.sql.starts_with("CHECK TABLE ") && misses_only_deleted(innodb, millpond) {
        return Some(DELETED_ENTRIES);
    }
    if step.sql.starts_with("SHOW CREATE ") && counters_are_spent(innodb, millpond) {
        return Some(SPENT_COUNTERS);
    }
    if alters && same_warnings(innodb, millpond) {
        return Some(COUNTS_OF_COPIES);
    }
    if alters && innodb.answer.code().is_some() && millpond.answer.code().is_some() {
        return Some(FAILED_COPIES);
    }
    if alters && innodb.answer.code().is_none() && fails(millpond, WRONG_VALUE) {
        return Some(CHECKS_AGAIN);
    }
    if step.sql.starts_with("ALTER IGNORE ")
        && same_warnings(&without(innodb, &WARNINGS_OF_VALUES), &without(millpond, &WARNINGS_OF_VALUES))
    {
        return Some(WARNS_AGAIN);
    }
    None
}

/// Returns what SKIP LOCKED explains.
fn of_skipped(step: &Step, [innodb, millpond]: &[Outcome; 2]) -> Option<Permitted> {
    if !step.sql.ends_with("SKIP LOCKED") {
        return None;
    }
    if fails(innodb, ERROR_DURING_COMMIT) {
        return Some(FAILED_SKIPS);
    }
    if has_all(innodb, millpond) {
        return Some(FEWER_SKIPPED);
    }
    None
}

/// Tells whether a CHECK TABLE of InnoDB reports nothing but entries that are deleted.
fn misses_only_deleted(innodb: &Outcome, millpond: &Outcome) -> bool {
    let (Answer::Rows { rows, .. }, Answer::Rows { rows: clean, .. }) = (&innodb.answer, &millpond.answer)
    else {
        return false;
    };
    let deleted = |row: &&Row| {
        let text = String::from_utf8_lossy(row.last().and_then(Option::as_deref).unwrap_or_default());
        text.contains("Clustered index record not found") && text.contains("info_bits=32,")
    };
    rows.iter().filter(|row| !deleted(row)).eq(clean)
}

/// Tells whether two definitions of a table differ only in a counter that has no number left.
fn counters_are_spent(innodb: &Outcome, millpond: &Outcome) -> bool {
    let definition = |outcome: &Outcome| {
        let value = outcome.answer.rows().first()?.get(1)?.as_ref()?;
        // A default may have bytes that are no text.
        without_spent_counter(&String::from_utf8_lossy(value))
    };
    definition(innodb).is_some_and(|text| Some(text) == definition(millpond))
}

/// Returns a definition without its counter if that is beyond the column's last number.
fn without_spent_counter(definition: &str) -> Option<String> {
    const OPTION: &str = " AUTO_INCREMENT=";
    let column = definition.lines().find(|line| line.ends_with(" AUTO_INCREMENT,"))?;
    let bits = [("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("bigint", 64), ("int", 32)];
    let &(_, bits) = bits.iter().find(|(name, _)| column.contains(&format!("` {name}(")))?;
    let last = (1u128 << if column.contains(" unsigned ") { bits } else { bits - 1 }) - 1;
    let (head, rest) = definition.split_once(OPTION)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let counter: u128 = rest[..digits].parse().ok()?;
    (counter > last).then(|| format!("{head}{}", &rest[digits..]))
}

fn same_warnings(innodb: &Outcome, millpond: &Outcome) -> bool {
    let done = |outcome: &Outcome| matches!(outcome.answer, Answer::Done { .. });
    done(innodb) && done(millpond) && innodb.warnings == millpond.warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str]) -> Outcome {
        let rows = texts.iter().map(|text| vec![Some(text.as_bytes().to_vec())]).collect();
        let answer = Answer::Rows { columns: Vec::new(), rows, warnings: 0 };
        Outcome { answer, warnings: Vec::new() }
    }

    #[test]
    fn a_check_may_miss_rows_of_deleted_entries_only() {
        let missing = |bits| {
            format!(
                "Clustered index record not found for index `k`: COMPACT RECORD(info_bits={bits}, 2 fields)"
            )
        };
        let (deleted, present, clean) = (missing(32), missing(0), check(&["OK"]));
        assert!(misses_only_deleted(&check(&[&deleted, "OK"]), &clean));
        assert!(!misses_only_deleted(&check(&[&present, "OK"]), &clean));
        assert!(!misses_only_deleted(&check(&[&deleted, "error"]), &clean));
    }

    #[test]
    fn a_counter_may_differ_only_behind_the_last_number() {
        let table = |kind: &str, counter: u64| {
            format!(
                "CREATE TABLE `t` (\n  `id` {kind} NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`)\n) AUTO_INCREMENT={counter} X"
            )
        };
        let spent = |kind: &str, counter| without_spent_counter(&table(kind, counter));
        assert_eq!(spent("tinyint(4)", 128), spent("tinyint(4)", 130));
        assert!(spent("tinyint(4)", 130).is_some_and(|text| text.ends_with(") X")));
        assert_eq!(spent("tinyint(4)", 127), None);
        assert_eq!(spent("tinyint(3) unsigned", 130), None);
        assert_eq!(spent("int(11)", 130), None);
    }
}
