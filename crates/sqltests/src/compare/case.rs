//! A case: statements of some sessions, one after another, made from a seed or read from a script.

use crate::compare::answer::Order;
use std::fmt::Write as _;

/// A statement of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The session: a letter.
    pub(crate) session: char,
    pub(crate) sql: String,
    pub(crate) order: Order,
    /// The plan decides in which order rows are changed, and so which row fails first: texts of
    /// errors and warnings are not compared, their numbers are.
    pub(crate) loose: bool,
}

impl Step {
    /// Returns a statement whose rows have a given order, or that returns none.
    pub(crate) fn new(session: char, sql: impl Into<String>) -> Step {
        Step { session, sql: sql.into(), order: Order::Given, loose: false }
    }

    /// Leaves the order of the rows open.
    pub(crate) fn open(mut self) -> Step {
        self.order = Order::Open;
        self
    }

    /// Compares numbers of errors and warnings only.
    pub(crate) fn loose(mut self) -> Step {
        self.loose = true;
        self
    }
}

/// Marks in a script, behind the letter of the session.
const OPEN: &str = "?";
const LOOSE: &str = "~";

/// Returns steps as a script. A line is `a: STATEMENT`; `a?:` leaves the order of the rows open,
/// and `a~:` compares only the numbers of errors and warnings.
pub(crate) fn script(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let open = if step.order == Order::Open { OPEN } else { "" };
        let loose = if step.loose { LOOSE } else { "" };
        let _ = writeln!(text, "{}{open}{loose}: {}", step.session, step.sql);
    }
    text
}

/// Reads a script. Lines without a session are comments.
pub(crate) fn read_script(text: &str) -> Vec<Step> {
    text.lines().filter_map(step_of).collect()
}

fn step_of(line: &str) -> Option<Step> {
    let (head, sql) = line.split_once(": ")?;
    let session = head.chars().next().filter(char::is_ascii_lowercase)?;
    let marks = &head[1..];
    let order = if marks.contains(OPEN) { Order::Open } else { Order::Given };
    let known = marks.chars().all(|mark| mark == '?' || mark == '~');
    known.then(|| Step { session, sql: sql.to_owned(), order, loose: marks.contains(LOOSE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        let steps = [
            Step::new('a', "SELECT 1"),
            Step::new('b', "SELECT ': '").open(),
            Step::new('c', "DELETE FROM t").open().loose(),
        ];
        let text = format!("# a comment: of two words\n\n{}", script(&steps));
        assert_eq!(read_script(&text), steps);
    }
}
