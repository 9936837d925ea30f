//! The differences between the engines that are permitted, each with its reason. All others are
//! findings.

use crate::answer::{Answer, Outcome, equal};
use crate::case::Step;
use crate::world::World;

/// A permitted difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permitted {
    /// What differs, and why that is right.
    pub(crate) reason: &'static str,
    /// The contents of the databases may differ from here on, so the case ends.
    pub(crate) ends_case: bool,
}

const LOCK_WAIT_TIMEOUT: u16 = 1205;
const WRONG_VALUE: u16 = 1292;
const RECORD_CHANGED: u16 = 1020;
const ERROR_DURING_COMMIT: u16 = 1180;
/// Numbers of warnings: a value out of range, and a wrong one.
const WARNINGS_OF_PLANS: [&[u8]; 2] = [b"1264", b"1292"];

/// Returns the permitted difference that two unequal outcomes of a statement show, if it is one.
/// `together` tells whether the case has several sessions.
pub(crate) fn find(
    step: &Step,
    outcomes: &[Outcome; 2],
    together: bool,
    world: &mut World,
) -> Option<Permitted> {
    let of_locks = if together { of_locks(step, outcomes, world) } else { None };
    of_locks
        .or_else(|| of_tables(step, outcomes, together))
        .or_else(|| of_skipped(step, outcomes))
        .or_else(|| of_plans(step, outcomes))
}

fn fails(outcome: &Outcome, code: u16) -> bool {
    outcome.answer.code() == Some(code)
}

fn ends(reason: &'static str) -> Option<Permitted> {
    Some(Permitted { reason, ends_case: true })
}

fn goes_on(reason: &'static str) -> Option<Permitted> {
    Some(Permitted { reason, ends_case: false })
}

/// Returns what other sessions' locks and changes explain.
fn of_locks(step: &Step, outcomes: &[Outcome; 2], world: &mut World) -> Option<Permitted> {
    let both = |code| outcomes.each_ref().map(|outcome| fails(outcome, code));
    match (both(LOCK_WAIT_TIMEOUT), both(RECORD_CHANGED)) {
        ([true, true], _) => ends(
            "Both fail with a lock wait timeout, but InnoDB at an earlier or later row: it also locks gaps",
        ),
        ([true, false], _) => ends(
            "InnoDB also locks gaps, rows that are deleted and not purged, and rows that it read and that do \
             not fit the condition; a statement that meets only such locks fails there alone",
        ),
        ([false, true], _) if finds_nothing(step, world) => ends(
            "A locking read or a change of a key that no row has locks that key in Millpond; InnoDB locks the \
             gap, so that only an insert waits",
        ),
        (_, [false, true]) if finds_nothing(step, world) => ends(
            "With snapshot isolation, a change of a row that the snapshot sees and that is deleted fails in \
             Millpond with error 1020; InnoDB finds no row",
        ),
        (_, [true, false]) if world.was_serializable(step.session) => ends(
            "At SERIALIZABLE Millpond has no snapshot: it locks and reads what is committed. InnoDB can have one \
             there too, and with snapshot isolation a row that changed since fails with error 1020",
        ),
        (_, [true, false]) if finds_nothing(step, world) => ends(
            "With snapshot isolation InnoDB fails at a row that changed since, even if it only reads it and it \
             does not fit the condition",
        ),
        (_, [false, true]) if inserts(step) => ends(
            "With snapshot isolation, an insert whose unique key a row has or had that was changed after the \
             snapshot fails in Millpond with error 1020, as a change of that row does",
        ),
        _ => None,
    }
}

/// Returns what is due to the way in which tables are changed.
fn of_tables(step: &Step, [innodb, millpond]: &[Outcome; 2], together: bool) -> Option<Permitted> {
    let alters = step.sql.starts_with("ALTER ");
    if !together && fails(innodb, LOCK_WAIT_TIMEOUT) && !fails(millpond, LOCK_WAIT_TIMEOUT) {
        return ends("InnoDB's own threads, which purge and count, lock rows and tables for a moment");
    }
    if step.sql.starts_with("SHOW CREATE ") && counters_are_spent(innodb, millpond) {
        return goes_on("Behind the last number of a column's type the counter may stand anywhere");
    }
    if alters && same_warnings(innodb, millpond) {
        return goes_on(
            "ALTER copies the rows in Millpond and counts them; InnoDB changes the table in place",
        );
    }
    if alters && innodb.answer.code().is_some() && millpond.answer.code().is_some() {
        return goes_on("ALTER fails in both, at another row: rows are copied in another order");
    }
    if alters && innodb.answer.code().is_none() && fails(millpond, WRONG_VALUE) {
        return ends(
            "ALTER copies the rows in Millpond, and a strict sql_mode checks all their values again; InnoDB \
             changes the table in place",
        );
    }
    None
}

/// Returns what is due to the plan of a statement.
fn of_plans(step: &Step, [innodb, millpond]: &[Outcome; 2]) -> Option<Permitted> {
    let others = |outcome: &Outcome| {
        let mut outcome = outcome.clone();
        outcome.warnings.retain(|warning| {
            let number = warning.get(1).and_then(|number| number.as_deref());
            !number.is_some_and(|number| WARNINGS_OF_PLANS.contains(&number))
        });
        outcome
    };
    let reads = ["SELECT ", "UPDATE ", "DELETE "].iter().any(|word| step.sql.starts_with(word));
    if reads && equal(&others(innodb), &others(millpond), step.order) {
        return goes_on(
            "A condition that a plan need not evaluate warns of no wrong value, and rows in no temporary table \
             of none that sql_mode forbids",
        );
    }
    None
}

/// Returns what SKIP LOCKED explains.
fn of_skipped(step: &Step, [innodb, millpond]: &[Outcome; 2]) -> Option<Permitted> {
    if !step.sql.ends_with("SKIP LOCKED") {
        return None;
    }
    if fails(innodb, ERROR_DURING_COMMIT) {
        return ends("InnoDB's SKIP LOCKED can fail with `Operation not permitted`: its bug");
    }
    if has_all(innodb, millpond) {
        return goes_on("SKIP LOCKED skips fewer rows where InnoDB holds such locks");
    }
    None
}

fn inserts(step: &Step) -> bool {
    ["INSERT ", "REPLACE "].iter().any(|word| step.sql.starts_with(word))
}

/// Tells whether no row of InnoDB, committed or not, fits the condition of a statement.
fn finds_nothing(step: &Step, world: &mut World) -> bool {
    let Some((head, rest)) = step.sql.split_once(" WHERE ") else { return false };
    let words: Vec<&str> = head.split_whitespace().collect();
    let table = match words[..] {
        ["UPDATE", table, ..] | ["DELETE", "FROM", table] | ["SELECT", "*", "FROM", table] => table,
        _ => return false,
    };
    let locks = [" FOR UPDATE", " LOCK IN SHARE MODE"];
    let condition =
        locks.iter().find_map(|lock| rest.split_once(lock)).map_or(rest, |(condition, _)| condition);
    world.count_in_innodb(table, condition) == Some(0)
}

/// Tells whether two definitions of a table differ only in a counter that has no number left.
fn counters_are_spent(innodb: &Outcome, millpond: &Outcome) -> bool {
    let definition = |outcome: &Outcome| {
        let value = outcome.answer.rows().first()?.get(1)?.as_ref()?;
        without_spent_counter(std::str::from_utf8(value).ok()?)
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

/// Tells whether all rows of one outcome are in the other.
fn has_all(fewer: &Outcome, more: &Outcome) -> bool {
    match (&fewer.answer, &more.answer) {
        (Answer::Rows { rows: fewer, .. }, Answer::Rows { rows: more, .. }) => {
            fewer.len() < more.len() && fewer.iter().all(|row| more.contains(row))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
