//! Finds the differences that are permitted because the engines lock other rows: errors 1205 (a
//! lock that another session has) and 1020 (snapshot isolation: the row has changed since).
//!
//! A difference may come from the statement that shows it, or from one of another session whose
//! transaction is open: that one has locked other rows.

use crate::compare::answer::{Answer, LOCK_WAIT_TIMEOUT, Outcome, Row, fails, has_all, sorted};
use crate::compare::case::Step;
use crate::compare::plan::Access;
use crate::compare::session::{End, Level, Past, Session};
use crate::compare::statement::{
    all_locked_by, changes, has_condition, has_word, inserted_into, table_and_condition,
};
use crate::compare::world::World;
use crate::differences::{
    BOTH_CHANGED, BOTH_WAIT, CHANGED_KEY, DELETED_ROW, FAILED_AT_LOCK, INDEX_ALONE, KEY_WITHOUT_ROW,
    MORE_LOCKS, NO_SNAPSHOT, OTHER_PLAN, Permitted, ROWS_ONLY_READ, TEXTS_OF_INDEX, UNDONE, UPGRADED,
    USED_NUMBERS,
};

const RECORD_CHANGED: u16 = 1020;

/// Returns the permitted difference that two unequal outcomes of a statement show, if locks and
/// changes of other sessions explain them.
pub(crate) fn find(step: &Step, outcomes: &[Outcome; 2], world: &mut World) -> Option<Permitted> {
    let both = |code| outcomes.each_ref().map(|outcome| fails(outcome, code));
    match (both(LOCK_WAIT_TIMEOUT), both(RECORD_CHANGED)) {
        ([true, true], _) => Some(BOTH_WAIT),
        ([true, false], _) => in_innodb(step, world),
        (_, [true, true]) => Some(BOTH_CHANGED),
        (_, [true, false]) => changed_in_innodb(step, &outcomes[1], world),
        ([false, true], _) => in_millpond(step, world),
        (_, [false, true]) => changed_in_millpond(step, world),
        _ if has_all(&outcomes[1], &outcomes[0]) && step.sql.ends_with(" SKIP LOCKED") => {
            in_millpond(step, world)
        }
        _ => None,
    }
}

/// Returns why only InnoDB fails at a lock. Another session must have used a table of the
/// statement, and Millpond must not have missed a lock that both sides have.
fn in_innodb(step: &Step, world: &World) -> Option<Permitted> {
    let tables = world.tables();
    let uses = |sql: &str| tables.iter().any(|table| has_word(sql, table) && has_word(&step.sql, table));
    let others = || world.others(step.session);
    if !others().any(|session| session.past().iter().any(|past| uses(&past.sql))) {
        return None;
    }
    if others().any(|session| locks_row_of(step, session, world)) {
        return None;
    }
    Some(MORE_LOCKS)
}

/// Returns why only Millpond fails at a lock.
fn in_millpond(step: &Step, world: &mut World) -> Option<Permitted> {
    if finds_nothing(step, world) {
        return Some(KEY_WITHOUT_ROW);
    }
    let others: Vec<(Level, Past)> = world
        .others(step.session)
        .flat_map(|session| session.past().iter().map(|past| (session.level(), past.clone())))
        .collect();
    if others.is_empty() {
        return None;
    }
    // An insert locks the row that it finds shared.
    let locks_shared =
        |past: &Past| past.sql.ends_with(" LOCK IN SHARE MODE") || inserted_into(&past.sql).is_some();
    let shared = others.iter().any(|(_, past)| locks_shared(past));
    let of_other = |(level, past): &(Level, Past)| match past.end {
        End::Nothing if shared && has_condition(&past.sql) => Some(UPGRADED),
        End::Uneven => Some(FAILED_AT_LOCK),
        End::Failed if *level == Level::Serializable => Some(UNDONE),
        End::Done if *level == Level::Serializable && past.sql.starts_with("ROLLBACK TO ") => Some(UNDONE),
        End::Nothing if has_condition(&past.sql) && *level != Level::ReadCommitted => Some(KEY_WITHOUT_ROW),
        _ if past.sql.contains(" IN (") && *level != Level::ReadCommitted => Some(KEY_WITHOUT_ROW),
        _ => of_plans(&past.sql, world),
    };
    of_plans(&step.sql, world).or_else(|| others.iter().find_map(of_other))
}

/// Tells whether a statement has locked a row exclusively in Millpond that another session has
/// locked exclusively: a committed row that fits the conditions of both, where nothing has been
/// committed since the first of them.
fn locks_row_of(step: &Step, other: &Session, world: &World) -> bool {
    let Some((table, condition)) = all_locked_by(&step.sql) else { return false };
    // A rollback to a savepoint gives locks back.
    let undone = other.past().iter().any(|past| past.sql.starts_with("ROLLBACK TO "));
    let present = other.past().iter().filter(|past| past.end == End::Done && past.ended == world.ended());
    let of_table = present.filter_map(|past| all_locked_by(&past.sql)).filter(|(other, _)| *other == table);
    let shared = |theirs| world.count_in_millpond(table, &format!("({condition}) AND ({theirs})"));
    !undone && of_table.map(|(_, theirs)| shared(theirs)).any(|rows| rows.is_some_and(|rows| rows > 0))
}

/// Returns why the sides lock other rows by the plans of a statement.
fn of_plans(sql: &str, world: &World) -> Option<Permitted> {
    let [innodb, millpond] = world.plans(sql)?;
    if world.reads_texts_of_index(&innodb) {
        return Some(TEXTS_OF_INDEX);
    }
    (innodb != millpond).then_some(OTHER_PLAN)
}

/// Returns why only InnoDB finds that a row has changed.
fn changed_in_innodb(step: &Step, millpond: &Outcome, world: &mut World) -> Option<Permitted> {
    let level = world.session(step.session)?.level();
    if level == Level::Serializable {
        return Some(NO_SNAPSHOT);
    }
    finds_the_same(step, millpond, world).then_some(ROWS_ONLY_READ)
}

/// Returns why only Millpond finds that a row has changed. Its transaction has ended.
fn changed_in_millpond(step: &Step, world: &mut World) -> Option<Permitted> {
    if !world.session(step.session)?.has_snapshot_isolation() {
        return None;
    }
    if writes_unique_key(step, world) {
        return Some(CHANGED_KEY);
    }
    if lost_rows(step, world) {
        return Some(DELETED_ROW);
    }
    let [innodb, millpond] = world.plans(&step.sql)?;
    let alone = innodb.iter().any(|access| Access::index_alone(access).is_some());
    if alone && step.sql.contains(" LOCK IN SHARE MODE") {
        return Some(INDEX_ALONE);
    }
    (innodb != millpond).then_some(OTHER_PLAN)
}

/// Tells whether a statement gives a row a unique key.
fn writes_unique_key(step: &Step, world: &World) -> bool {
    if let Some(table) = inserted_into(&step.sql) {
        return !world.unique_columns(table).is_empty();
    }
    let Some(rest) = step.sql.strip_prefix("UPDATE ") else { return false };
    let Some((table, assignments)) = rest.split_once(" SET ") else { return false };
    world.unique_columns(table).iter().any(|column| {
        let start = format!("{column} = ");
        assignments.starts_with(&start) || assignments.contains(&format!(", {start}"))
    })
}

/// Returns the permitted difference that an equal outcome hides: the insert of several rows that
/// has failed at a lock on both sides.
pub(crate) fn hidden(step: &Step, innodb: &Outcome, world: &mut World) -> Option<Permitted> {
    if !fails(innodb, LOCK_WAIT_TIMEOUT) {
        return None;
    }
    world.session(step.session)?.mark_uneven();
    let table = inserted_into(&step.sql)?;
    if world.defines_alike(table) {
        return None;
    }
    Some(USED_NUMBERS)
}

/// Notes a permitted difference after which the case goes on.
pub(crate) fn note(step: &Step, world: &mut World) {
    if !step.sql.ends_with(" SKIP LOCKED") {
        return;
    }
    if let Some(session) = world.session(step.session) {
        session.mark_uneven();
    }
}

/// Tells whether fewer rows of InnoDB fit the condition of a statement than its transaction sees,
/// or fewer fit a part of it: an index may lead to rows that do not fit the rest.
fn lost_rows(step: &Step, world: &mut World) -> bool {
    let Some((table, condition)) = table_and_condition(&step.sql) else { return false };
    std::iter::once(condition).chain(condition.split(" AND ")).any(|part| {
        let seen = world.count_in_snapshot(0, step.session, table, part);
        let present = world.count_in_innodb(table, part);
        seen.zip(present).is_some_and(|(seen, present)| present < seen)
    })
}

/// Tells whether a statement has found in Millpond exactly the rows that its snapshot saw before,
/// and whether these are still what is committed. Rows that its own transaction has changed are
/// not committed, so then only their number counts.
fn finds_the_same(step: &Step, millpond: &Outcome, world: &mut World) -> bool {
    let Some((table, condition)) = table_and_condition(&step.sql) else { return false };
    let Some(session) = world.session(step.session) else { return false };
    let own = session.past().iter().any(|past| past.end == End::Done && changes(&past.sql, table));
    let Some(before) = session.before().map(<[Row]>::to_vec) else { return false };
    let committed = if own { Some(before.clone()) } else { world.rows_in_millpond(table, condition) };
    committed.is_some_and(|committed| loses_nothing(found(millpond), &before, &committed))
}

/// Tells whether a statement has found all rows that its snapshot saw before, and these are
/// committed as they were seen. If one of them has changed since, the change of the other
/// transaction is lost.
fn loses_nothing(found: Option<u64>, before: &[Row], committed: &[Row]) -> bool {
    found == Some(before.len() as u64) && sorted(committed) == sorted(before)
}

/// Returns how many rows a statement has found.
fn found(outcome: &Outcome) -> Option<u64> {
    match &outcome.answer {
        Answer::Rows { rows, .. } => Some(rows.len() as u64),
        Answer::Done { affected, info, .. } => match info.split_once("matched: ") {
            Some((_, rest)) => rest.split_whitespace().next()?.parse().ok(),
            None => Some(*affected),
        },
        Answer::Failed { .. } => None,
    }
}

/// Tells whether no row of InnoDB, committed or not, fits the condition of a statement.
fn finds_nothing(step: &Step, world: &World) -> bool {
    let parts = table_and_condition(&step.sql);
    parts.is_some_and(|(table, condition)| world.count_in_innodb(table, condition) == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_has_lost_another_one_is_a_finding() {
        let row = |text: &str| vec![Some(b"1".to_vec()), Some(text.as_bytes().to_vec())];
        let (seen, other) = ([row("a"), row("b")], [row("b"), row("a")]);
        assert!(loses_nothing(Some(2), &seen, &other));
        assert!(!loses_nothing(Some(2), &seen, &[row("a"), row("c")]));
        assert!(!loses_nothing(Some(2), &seen, &[row("a")]));
        assert!(!loses_nothing(Some(1), &seen, &other));
        assert!(!loses_nothing(None, &seen, &other));
    }

    #[test]
    fn a_change_says_how_many_rows_it_has_found() {
        let done = |affected, info: &str| {
            let answer = Answer::Done { affected, insert_id: 0, info: info.to_owned(), warnings: 0 };
            found(&Outcome { answer, warnings: Vec::new() })
        };
        assert_eq!(done(1, "(Rows matched: 3  Changed: 1  Warnings: 0"), Some(3));
        assert_eq!(done(2, ""), Some(2));
    }
}
