//! Finds the differences that are permitted because the plans of a statement differ: it evaluates
//! its condition for other rows, or one of the plans gives a wrong answer with any engine.

use crate::compare::answer::{Answer, Order, Outcome, WRONG_VALUE, equal, sorted, without};
use crate::compare::case::Step;
use crate::compare::plan::Access;
use crate::compare::statement::table_and_condition;
use crate::compare::world::World;
use crate::differences::{
    EVALUATED, LOOSE_SCAN, OTHER_FAILURE, Permitted, RANGE_FOR_LIKE, RANGE_OF_PREFIX, UNEVALUATED,
};

/// Numbers of warnings: a value out of range, and a wrong one.
const WARNINGS_OF_CONDITIONS: [&[u8]; 2] = [b"1264", b"1292"];
/// How the error begins that a strict `sql_mode` makes of a condition's warning.
const NO_NUMBER: &str = "Truncated incorrect ";

/// Errors of a row: a duplicate, NULL where there must be none, values that do not fit the column
/// or the type of an expression, a string that is no number.
const ERRORS_OF_ROWS: [u16; 7] = [1062, 1048, 1264, 1366, 1406, 1690, WRONG_VALUE];

/// Returns the permitted difference that two unequal outcomes of a statement show, if its plans
/// explain them.
pub(crate) fn find(step: &Step, outcomes: &[Outcome; 2], world: &mut World) -> Option<Permitted> {
    if differ_in_warnings(step, outcomes) {
        return Some(UNEVALUATED);
    }
    if one_evaluates(&step.sql, outcomes) && plans_differ(&step.sql, world) {
        return Some(EVALUATED);
    }
    let fail = step.loose && both_fail_at_rows(outcomes) || both_fail_alike(outcomes);
    if fail && plans_differ(&step.sql, world) {
        return Some(OTHER_FAILURE);
    }
    if index_misses_rows(&step.sql, world) {
        return Some(RANGE_FOR_LIKE);
    }
    if prefix_misses_rows(step, world) {
        return Some(RANGE_OF_PREFIX);
    }
    if scan_is_too_loose(step, outcomes, world) {
        return Some(LOOSE_SCAN);
    }
    None
}

fn differ_in_warnings(step: &Step, outcomes: &[Outcome; 2]) -> bool {
    let reads = ["SELECT ", "WITH ", "UPDATE ", "DELETE "].iter().any(|word| step.sql.starts_with(word));
    let [innodb, millpond] = outcomes.each_ref().map(|outcome| without(outcome, &WARNINGS_OF_CONDITIONS));
    reads && equal(&innodb, &millpond, step.order)
}

/// Tells whether one side alone fails because a string of a condition is no number.
fn one_evaluates(sql: &str, outcomes: &[Outcome; 2]) -> bool {
    let changes = ["UPDATE ", "DELETE "].iter().any(|word| sql.starts_with(word));
    let [innodb, millpond] = outcomes;
    let fails = |outcome: &Outcome| match &outcome.answer {
        Answer::Failed { code: WRONG_VALUE, text } => text.starts_with(NO_NUMBER),
        _ => false,
    };
    let done = |outcome: &Outcome| matches!(outcome.answer, Answer::Done { .. });
    changes && (fails(innodb) && done(millpond) || done(innodb) && fails(millpond))
}

/// Tells whether both sides fail for what a row has.
fn both_fail_at_rows(outcomes: &[Outcome; 2]) -> bool {
    let of_row = |outcome: &Outcome| outcome.answer.code().is_some_and(|code| ERRORS_OF_ROWS.contains(&code));
    outcomes.iter().all(of_row)
}

/// Tells whether the errors of both sides differ only in how many rows the plan has looked at.
fn both_fail_alike(outcomes: &[Outcome; 2]) -> bool {
    let [innodb, millpond] = outcomes.each_ref().map(|outcome| match &outcome.answer {
        Answer::Failed { code, text } => {
            let (text, row) = text.rsplit_once(" at row ")?;
            row.parse::<u64>().ok().map(|_| (code, text))
        }
        _ => None,
    });
    innodb.is_some() && innodb == millpond
}

fn plans_differ(sql: &str, world: &World) -> bool {
    world.plans(sql).is_some_and(|[innodb, millpond]| innodb != millpond)
}

/// Tells whether InnoDB finds other rows for the condition of a statement with its indexes than
/// without: the server's range for LIKE misses strings that have a character below the space.
fn index_misses_rows(sql: &str, world: &World) -> bool {
    let Some((table, condition)) = table_and_condition(sql).filter(|_| sql.contains(" LIKE ")) else {
        return false;
    };
    let indexes = world.secondary_indexes(table).join(", ");
    let with = world.count_in_innodb(&format!("{table} FORCE INDEX ({indexes})"), condition);
    with.is_some() && with != world.count_in_innodb(&format!("{table} USE INDEX ()"), condition)
}

/// Tells whether one of the engines finds other rows for the condition of a statement with an index
/// of beginnings than without. The server's range on such an index compares beginnings: `A` is
/// behind `a` where case counts, so that a range up to `a_b` misses `A B`, which is before `a_b`.
/// The statement has changed the rows on the side that missed none, so that the other one shows it.
fn prefix_misses_rows(step: &Step, world: &mut World) -> bool {
    let Some((table, condition)) = table_and_condition(&step.sql) else { return false };
    world.prefix_indexes(table).iter().any(|index| {
        (0..2).any(|side| {
            let mut count = |hint: &str| {
                world.count_in_snapshot(side, step.session, &format!("{table} {hint}"), condition)
            };
            let with = count(&format!("FORCE INDEX ({index})"));
            with.is_some() && with != count("USE INDEX ()")
        })
    })
}

/// Tells whether one side jumps over rows of an index, and answers as the other one if it must not.
/// Such a scan takes the order of an index for that of MIN and MAX, and a condition on a later
/// column for one on the next.
fn scan_is_too_loose(step: &Step, outcomes: &[Outcome; 2], world: &mut World) -> bool {
    let Some(sql) = without_indexes(&step.sql) else { return false };
    let Some(plans) = world.plans(&step.sql) else { return false };
    (0..2).any(|side| {
        let other = &outcomes[1 - side].answer;
        plans[side].iter().any(Access::is_loose)
            && !plans[1 - side].iter().any(Access::is_loose)
            && world.answer_in_snapshot(side, step.session, &sql).is_some_and(|outcome| {
                let (found, wanted) = (outcome.answer.rows(), other.rows());
                outcome.answer.code().is_none()
                    && (found == wanted || step.order == Order::Open && sorted(found) == sorted(wanted))
            })
    })
}

/// Returns a plain query of one table, to be answered without its indexes.
fn without_indexes(sql: &str) -> Option<String> {
    let (head, rest) = sql.strip_prefix("SELECT ")?.split_once(" FROM ")?;
    let (table, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if ["FORCE INDEX (", "USE INDEX (", "IGNORE INDEX ("].iter().any(|hint| rest.starts_with(hint)) {
        rest = rest.split_once(')')?.1.trim_start();
    }
    let plain = ["", "WHERE ", "GROUP BY ", "ORDER BY ", "LIMIT "].iter();
    let plain = plain.skip(usize::from(!rest.is_empty())).any(|word| rest.starts_with(word));
    let locks = [" FOR UPDATE", " LOCK IN SHARE MODE"].iter().any(|lock| sql.contains(lock));
    (plain && !locks && !rest.contains(" FROM ") && !rest.contains(" SELECT "))
        .then(|| format!("SELECT {head} FROM {table} USE INDEX () {rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Outcome {
        let answer = Answer::Done { affected: 1, insert_id: 0, info: String::new(), warnings: 0 };
        Outcome { answer, warnings: Vec::new() }
    }

    fn failed(code: u16, text: &str) -> Outcome {
        Outcome { answer: Answer::Failed { code, text: text.to_owned() }, warnings: Vec::new() }
    }

    #[test]
    fn one_side_may_fail_only_at_the_string_of_a_condition() {
        const SQL: &str = "UPDATE t x JOIN t y ON x.a = y.b SET x.c = 1";
        let no_number = || failed(1292, "Truncated incorrect DECIMAL value: 'b,a'");
        assert!(one_evaluates(SQL, &[no_number(), done()]));
        assert!(one_evaluates(SQL, &[done(), no_number()]));
        assert!(!one_evaluates(SQL, &[no_number(), no_number()]));
        assert!(!one_evaluates("INSERT INTO t VALUES ('a')", &[no_number(), done()]));
        assert!(!one_evaluates(SQL, &[failed(1292, "Incorrect datetime value: 'b,a'"), done()]));
        assert!(!one_evaluates(SQL, &[failed(1366, "Truncated incorrect DECIMAL value: 'b,a'"), done()]));
        assert!(!one_evaluates(SQL, &[no_number(), failed(1205, "Lock wait timeout exceeded")]));
    }

    #[test]
    fn both_sides_may_fail_at_another_row_only_for_what_a_row_has() {
        let fail = |codes: [u16; 2]| both_fail_at_rows(&codes.map(|code| failed(code, "")));
        assert!(fail([1062, 1690]) && fail([1366, 1062]));
        assert!(!fail([1062, 1205]) && !fail([1020, 1062]) && !fail([1062, 1030]));
        assert!(!both_fail_at_rows(&[failed(1062, ""), done()]));
    }

    #[test]
    fn the_number_of_the_row_that_fails_may_differ_but_not_the_error() {
        let fail = |texts: [&str; 2]| both_fail_alike(&texts.map(|text| failed(1366, text)));
        assert!(fail(["Incorrect value: 'a' at row 2", "Incorrect value: 'a' at row 1"]));
        assert!(!fail(["Incorrect value: 'a' at row 2", "Incorrect value: 'b' at row 1"]));
        assert!(!fail(["Incorrect value: 'a'", "Incorrect value: 'a'"]));
    }

    #[test]
    fn a_query_of_one_table_can_be_answered_without_indexes() {
        let wanted = [
            ("SELECT a FROM t", Some("SELECT a FROM t USE INDEX () ")),
            (
                "SELECT a, MIN(b) FROM t WHERE a > 1 GROUP BY a",
                Some("SELECT a, MIN(b) FROM t USE INDEX () WHERE a > 1 GROUP BY a"),
            ),
            ("SELECT a FROM t FORCE INDEX (k) GROUP BY a", Some("SELECT a FROM t USE INDEX () GROUP BY a")),
            ("SELECT a FROM t x JOIN t y ON x.a = y.a WHERE 1", None),
            ("SELECT a FROM t WHERE a IN (SELECT b FROM u)", None),
            ("SELECT a FROM t WHERE a = 1 FOR UPDATE", None),
            ("DELETE FROM t WHERE a = 1", None),
        ];
        for (sql, without) in wanted {
            assert_eq!(without_indexes(sql).as_deref(), without, "{sql}");
        }
    }
}
