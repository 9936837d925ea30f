//! What a server answers to a statement, and how two answers differ.

use std::fmt::{Display, Formatter};

/// A row: None is NULL.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// The description of a column of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) charset: u16,
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u16,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done { affected: u64, insert_id: u64, info: String, warnings: u16 },
    Rows { columns: Vec<Column>, rows: Vec<Row>, warnings: u16 },
    Failed { code: u16, text: String },
}

/// How the rows of a statement are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The statement orders its rows.
    Given,
    /// The statement leaves the order open.
    Open,
}

/// The numbers of errors.
pub(crate) const LOCK_WAIT_TIMEOUT: u16 = 1205;
pub(crate) const WRONG_VALUE: u16 = 1292;

/// A statement's answer with its warnings.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) warnings: Vec<Row>,
}

impl Answer {
    /// Tells whether the server has warnings for the statement, or may have.
    pub(crate) fn has_warnings(&self) -> bool {
        match self {
            Answer::Done { warnings, .. } | Answer::Rows { warnings, .. } => *warnings > 0,
            Answer::Failed { .. } => true,
        }
    }

    /// Returns the number of the error.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Answer::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        match self {
            Answer::Rows { rows, .. } => rows,
            _ => &[],
        }
    }
}

/// Tells whether two outcomes of one statement are equal.
pub(crate) fn equal(left: &Outcome, right: &Outcome, order: Order) -> bool {
    let answers = match (&left.answer, &right.answer) {
        (Answer::Rows { columns: a, rows: x, .. }, Answer::Rows { columns: b, rows: y, .. }) => {
            described_alike(a, b) && (x == y || order == Order::Open && sorted(x) == sorted(y))
        }
        (
            Answer::Done { affected: a, insert_id: i, info: x, .. },
            Answer::Done { affected: b, insert_id: j, info: y, .. },
        ) => a == b && i == j && x == y,
        (Answer::Failed { code: a, text: x }, Answer::Failed { code: b, text: y }) => a == b && x == y,
        _ => false,
    };
    // A condition may be evaluated more or less often, in another order: a warning counts once.
    let warnings = || left.answer.rows().is_empty() && left.warnings == right.warnings;
    answers && (warnings() || distinct(&left.warnings) == distinct(&right.warnings))
}

pub(crate) fn fails(outcome: &Outcome, code: u16) -> bool {
    outcome.answer.code() == Some(code)
}

/// Returns an outcome without warnings of some numbers, and without the number of warnings.
pub(crate) fn without(outcome: &Outcome, numbers: &[&[u8]]) -> Outcome {
    let mut outcome = outcome.clone();
    if let Answer::Done { info, .. } = &mut outcome.answer
        && let Some(at) = info.find("  Warnings: ")
    {
        info.truncate(at);
    }
    outcome.warnings.retain(|warning| {
        let number = warning.get(1).and_then(|number| number.as_deref());
        !number.is_some_and(|number| numbers.contains(&number))
    });
    outcome
}

/// Tells whether all rows of one outcome are in the other, which has more.
pub(crate) fn has_all(fewer: &Outcome, more: &Outcome) -> bool {
    match (&fewer.answer, &more.answer) {
        (Answer::Rows { rows: fewer, .. }, Answer::Rows { rows: more, .. }) => {
            fewer.len() < more.len() && fewer.iter().all(|row| more.contains(row))
        }
        _ => false,
    }
}

/// CHAR and VARCHAR, and the four lengths of BLOB and TEXT: a temporary table makes one the other.
const STRINGS: [u8; 2] = [253, 254];
const LONG_STRINGS: [u8; 4] = [249, 250, 251, 252];

/// The flag of a column without a sign. Other flags, such as those of keys and NULL, and lengths
/// depend on whether the plan has a temporary table.
const UNSIGNED: u16 = 32;

fn described_alike(left: &[Column], right: &[Column]) -> bool {
    let alike = |(a, b): (&Column, &Column)| {
        let both = |kinds: &[u8]| kinds.contains(&a.kind) && kinds.contains(&b.kind);
        let kinds = a.kind == b.kind || both(&STRINGS) || both(&LONG_STRINGS);
        a.name == b.name && kinds && a.charset == b.charset && (a.flags ^ b.flags) & UNSIGNED == 0
    };
    left.len() == right.len() && left.iter().zip(right).all(alike)
}

/// Returns rows in an order that does not depend on theirs.
pub(crate) fn sorted(rows: &[Row]) -> Vec<&Row> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort();
    sorted
}

fn distinct(rows: &[Row]) -> Vec<&Row> {
    let mut distinct = sorted(rows);
    distinct.dedup();
    distinct
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.answer {
            Answer::Done { affected, insert_id, info, .. } => {
                writeln!(f, "  {affected} rows affected, insert id {insert_id} {info}")?;
            }
            Answer::Failed { code, text } => writeln!(f, "  ERROR {code}: {text}")?,
            Answer::Rows { columns, rows, .. } => {
                let head: Vec<String> = columns
                    .iter()
                    .map(|c| format!("{}:{}/{}/{}/{}", c.name, c.kind, c.length, c.charset, c.flags))
                    .collect();
                writeln!(f, "  {}", head.join(" | "))?;
                for row in rows.iter().take(MOST_ROWS) {
                    writeln!(f, "  {}", text_of(row))?;
                }
                writeln!(f, "  {} rows", rows.len())?;
            }
        }
        for warning in self.warnings.iter().take(MOST_ROWS) {
            writeln!(f, "  warning: {}", text_of(warning))?;
        }
        Ok(())
    }
}

/// How many rows of an answer are printed.
const MOST_ROWS: usize = 40;

/// Returns a row as text. Bytes that are no text are printed in base 16.
pub(crate) fn text_of(row: &Row) -> String {
    let value = |value: &Option<Vec<u8>>| match value {
        None => "NULL".to_owned(),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => {
                text.replace('\n', " ").chars().take(1000).collect()
            }
            _ => format!("0x{}", bytes.iter().take(200).map(|b| format!("{b:02X}")).collect::<String>()),
        },
    };
    row.iter().map(value).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[&str], warnings: &[&str]) -> Outcome {
        let row = |text: &&str| vec![Some(text.as_bytes().to_vec())];
        let answer =
            Answer::Rows { columns: Vec::new(), rows: values.iter().map(row).collect(), warnings: 0 };
        Outcome { answer, warnings: warnings.iter().map(row).collect() }
    }

    #[test]
    fn the_order_of_rows_counts_where_it_is_given() {
        let (left, right) = (rows(&["a", "b"], &[]), rows(&["b", "a"], &[]));
        assert!(equal(&left, &right, Order::Open));
        assert!(!equal(&left, &right, Order::Given));
        assert!(!equal(&left, &rows(&["a"], &[]), Order::Open));
        assert!(!equal(&rows(&["a", "a", "b"], &[]), &rows(&["a", "b", "b"], &[]), Order::Open));
    }

    #[test]
    fn a_warning_of_a_query_counts_once() {
        let (once, twice) = (rows(&["a"], &["w"]), rows(&["a"], &["w", "w"]));
        assert!(equal(&once, &twice, Order::Open));
        assert!(!equal(&once, &rows(&["a"], &[]), Order::Open));
    }
}
