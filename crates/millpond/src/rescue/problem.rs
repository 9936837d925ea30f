//! What a rescue names: each thing that could not be read, and why.

use std::fmt;

/// Something that a [rescue](crate::rescue()) could not read, or could not read for certain.
/// Its text is one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RescueProblem {
    /// A part of the redo log is missing, or a file that belongs to the log or to the undo.
    Log {
        /// What is missing, and what follows.
        what: String,
    },
    /// A page that cannot be read, or whose rows may be older than they were.
    Page {
        /// The number of the page.
        page: u32,
        /// The table that it belongs to, if that is known.
        table: Option<String>,
        /// What is wrong with it.
        what: String,
    },
    /// All rows of a range of keys are missing.
    Range {
        /// The table.
        table: String,
        /// The least key of the range.
        from: Vec<u8>,
        /// The least key after the range; `None` if it has no end.
        to: Option<Vec<u8>>,
    },
    /// A row that is missing, or of which it is not certain that it was committed.
    Row {
        /// The table.
        table: String,
        /// The key of the row.
        key: Vec<u8>,
        /// What is wrong with it.
        what: String,
    },
    /// A table that is missing, or whose name is lost.
    Table {
        /// The name.
        table: String,
        /// What is wrong with it.
        what: String,
    },
    /// A prepared transaction. Its changes are not in the new database.
    Prepared {
        /// The id that its coordinator gave it.
        xid: Vec<u8>,
    },
}

/// Formats a key, as much of it as fits a line.
fn quoted(key: &[u8]) -> String {
    const SHOWN: usize = 48;
    if key.len() <= SHOWN {
        return format!("\"{}\"", key.escape_ascii());
    }
    format!("\"{}\"… ({} bytes)", key[..SHOWN].escape_ascii(), key.len())
}

impl fmt::Display for RescueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RescueProblem::Log { what } => f.write_str(what),
            RescueProblem::Page { page, table: Some(table), what } => {
                write!(f, "page {page} of table {table:?}: {what}")
            }
            RescueProblem::Page { page, table: None, what } => write!(f, "page {page}: {what}"),
            RescueProblem::Range { table, from, to: Some(to) } => {
                let (from, to) = (quoted(from), quoted(to));
                write!(f, "table {table:?}: no page has the rows from {from} to below {to}")
            }
            RescueProblem::Range { table, from, to: None } => {
                write!(f, "table {table:?}: no page has the rows from {} to the end", quoted(from))
            }
            RescueProblem::Row { table, key, what } => {
                write!(f, "table {table:?}, row {}: {what}", quoted(key))
            }
            RescueProblem::Table { table, what } => write!(f, "table {table:?}: {what}"),
            RescueProblem::Prepared { xid } => {
                write!(f, "prepared transaction {}: its changes are left out", quoted(xid))
            }
        }
    }
}

/// Where problems go, and how many there were.
pub(super) struct Problems<'a> {
    pub(super) sink: &'a mut dyn FnMut(RescueProblem),
    pub(super) count: u64,
}

impl Problems<'_> {
    pub(super) fn add(&mut self, problem: RescueProblem) {
        self.count += 1;
        (self.sink)(problem);
    }
}
