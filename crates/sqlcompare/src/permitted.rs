//! The differences between the engines that are permitted, each with its reason. All others are
//! findings.

use crate::answer::{Answer, Outcome};
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

/// Returns the permitted difference that two unequal outcomes of a statement show, if it is one.
/// `together` tells whether the case has several sessions.
pub(crate) fn find(
    step: &Step,
    [innodb, millpond]: &[Outcome; 2],
    together: bool,
    world: &mut World,
) -> Option<Permitted> {
    let fails = |outcome: &Outcome, code| outcome.answer.code() == Some(code);
    let ends = |reason| Some(Permitted { reason, ends_case: true });
    let waits = [innodb, millpond].map(|outcome| fails(outcome, LOCK_WAIT_TIMEOUT));
    if together && waits == [true, true] {
        return ends(
            "Both fail with a lock wait timeout, but InnoDB at an earlier or later row: it also locks gaps",
        );
    }
    if together && waits == [true, false] {
        return ends(
            "InnoDB also locks gaps, rows that are deleted and not purged, and rows that it read and that do \
             not fit the condition; a statement that meets only such locks fails there alone",
        );
    }
    if together && waits == [false, true] && finds_nothing(step, world) {
        return ends(
            "A locking read or a change of a key that no row has locks that key in Millpond; InnoDB locks the \
             gap, so that only an insert waits",
        );
    }
    let changed = [innodb, millpond].map(|outcome| fails(outcome, RECORD_CHANGED));
    if together && changed == [false, true] && finds_nothing(step, world) {
        return ends(
            "With snapshot isolation, a change of a row that the snapshot sees and that is deleted fails in \
             Millpond with error 1020; InnoDB finds no row",
        );
    }
    if step.sql.ends_with("SKIP LOCKED") && fails(innodb, ERROR_DURING_COMMIT) {
        return ends("InnoDB's SKIP LOCKED can fail with `Operation not permitted`: its bug");
    }
    if step.sql.starts_with("ALTER ") && same_warnings(innodb, millpond) {
        return Some(Permitted {
            reason: "ALTER copies the rows in Millpond and counts them; InnoDB changes the table in place",
            ends_case: false,
        });
    }
    if step.sql.starts_with("ALTER ") && innodb.answer.code().is_none() && fails(millpond, WRONG_VALUE) {
        return ends(
            "ALTER copies the rows in Millpond, and a strict sql_mode checks all their values again; InnoDB \
             changes the table in place",
        );
    }
    if step.sql.ends_with("SKIP LOCKED") && has_all(innodb, millpond) {
        return Some(Permitted {
            reason: "SKIP LOCKED skips fewer rows where InnoDB holds such locks",
            ends_case: false,
        });
    }
    None
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
