//! What EXPLAIN says of a statement: which rows and index entries it reads, and so locks.

use crate::compare::answer::Row;
use crate::compare::client::Client;

/// How one table of a statement is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) table: String,
    /// `const`, `ref`, `range`, `index`, `ALL` and others.
    kind: String,
    key: String,
    /// How much of the key is used.
    key_bytes: String,
    /// Conditions on entries, sorting, whether the index is enough.
    extra: Vec<String>,
}

/// The ends of statements that lock rows. The plan does not depend on them, and without them
/// EXPLAIN locks no row.
const LOCKING: [&str; 2] = [" FOR UPDATE", " LOCK IN SHARE MODE"];

/// Words of EXPLAIN that say nothing of what is read.
const ORDERING: [&str; 2] = ["Using filesort", "Using temporary"];

/// Returns a statement without its locking clause.
pub(crate) fn without_lock(sql: &str) -> &str {
    LOCKING.iter().find_map(|lock| sql.split_once(lock)).map_or(sql, |(head, _)| head)
}

/// Asks for the plan of a statement. None where there is none: INSERT with values, COMMIT.
pub(crate) fn of(client: &mut Client, sql: &str) -> Option<Vec<Access>> {
    let planned = ["SELECT ", "WITH ", "UPDATE ", "DELETE "].iter().any(|word| sql.starts_with(word));
    if !planned {
        return None;
    }
    let answer = client.run(&format!("EXPLAIN {}", without_lock(sql))).ok()?;
    if answer.code().is_some() {
        return None;
    }
    Some(answer.rows().iter().map(Access::of).collect())
}

impl Access {
    /// Reads a row of EXPLAIN: id, `select_type`, table, type, `possible_keys`, key, `key_len`,
    /// ref, rows, Extra.
    fn of(row: &Row) -> Access {
        let mut extra: Vec<String> = text(row, 9).split("; ").map(str::to_owned).collect();
        extra.retain(|what| !ORDERING.contains(&what.as_str()));
        Access { table: text(row, 2), kind: text(row, 3), key: text(row, 5), key_bytes: text(row, 6), extra }
    }

    /// Returns the secondary index that the statement reads without its rows.
    pub(crate) fn index_alone(&self) -> Option<&str> {
        let alone =
            self.extra.iter().any(|what| what == "Using index" || what.starts_with("Using index for"));
        (alone && self.key != "PRIMARY").then_some(&self.key)
    }

    /// Tells whether the statement jumps from one group of an index to the next.
    pub(crate) fn is_loose(&self) -> bool {
        self.extra.iter().any(|what| what.starts_with("Using index for group-by"))
    }
}

/// Returns a value of a row as text.
fn text(row: &Row, at: usize) -> String {
    let value = row.get(at).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Returns the rows of SHOW INDEX: among them `Non_unique` (1), `Key_name` (2), `Column_name` (4)
/// and `Sub_part` (7).
fn parts_of_indexes(client: &mut Client, table: &str) -> Vec<Row> {
    let answer = client.run(&format!("SHOW INDEX FROM {table}"));
    answer.map(|answer| answer.rows().to_vec()).unwrap_or_default()
}

/// Returns the names of the secondary indexes of a table, quoted.
pub(crate) fn secondary_indexes(client: &mut Client, table: &str) -> Vec<String> {
    let mut names: Vec<_> =
        parts_of_indexes(client, table).iter().map(|part| format!("`{}`", text(part, 2))).collect();
    names.dedup();
    names.retain(|name| name != "`PRIMARY`");
    names
}

/// Returns the names, quoted, of the indexes that have only the beginning of a column.
pub(crate) fn prefix_indexes(client: &mut Client, table: &str) -> Vec<String> {
    let parts = parts_of_indexes(client, table);
    parts.iter().filter(|part| !text(part, 7).is_empty()).map(|part| format!("`{}`", text(part, 2))).collect()
}

/// Returns the columns of the unique keys of a table.
pub(crate) fn unique_columns(client: &mut Client, table: &str) -> Vec<String> {
    let parts = parts_of_indexes(client, table);
    parts.iter().filter(|part| text(part, 1) == "0").map(|part| text(part, 4)).collect()
}

/// Tells whether an index, or the primary key behind it, has strings of various lengths. These are
/// not in its entries as they are.
pub(crate) fn has_texts(client: &mut Client, table: &str, index: &str) -> bool {
    let Ok(columns) = client.run(&format!("SHOW COLUMNS FROM {table}")) else { return false };
    let parts = parts_of_indexes(client, table);
    parts.iter().filter(|part| text(part, 2) == index || text(part, 2) == "PRIMARY").any(|part| {
        let column = columns.rows().iter().find(|column| text(column, 0) == text(part, 4));
        column.is_some_and(|column| {
            ["char", "text", "varbinary", "blob"].iter().any(|kind| text(column, 1).contains(kind))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, extra: &str) -> Row {
        let words = ["1", "SIMPLE", "t", "ref", "k,l", key, "4", "const", "7", extra];
        words.iter().map(|word| Some(word.as_bytes().to_vec())).collect()
    }

    #[test]
    fn an_index_is_read_alone_where_explain_says_so() {
        let alone = |key, extra| Access::of(&row(key, extra)).index_alone().map(str::to_owned);
        assert_eq!(alone("k", "Using where; Using index").as_deref(), Some("k"));
        assert_eq!(alone("k", "Using index for group-by").as_deref(), Some("k"));
        assert_eq!(alone("k", "Using index condition"), None);
        assert_eq!(alone("PRIMARY", "Using index"), None);
    }

    #[test]
    fn plans_that_only_sort_in_another_way_are_equal() {
        assert_eq!(
            Access::of(&row("k", "Using where; Using filesort")),
            Access::of(&row("k", "Using where"))
        );
        assert_ne!(Access::of(&row("k", "Using where")), Access::of(&row("l", "Using where")));
    }

    #[test]
    fn a_locking_clause_is_cut_off() {
        assert_eq!(without_lock("SELECT 1 FROM t FOR UPDATE SKIP LOCKED"), "SELECT 1 FROM t");
        assert_eq!(without_lock("SELECT 1 FROM t LOCK IN SHARE MODE"), "SELECT 1 FROM t");
        assert_eq!(without_lock("DELETE FROM t"), "DELETE FROM t");
    }
}
