//! What the text of a statement says: its table and condition, and which rows it locks or changes.

use crate::compare::plan::without_lock;

/// Returns the table and the condition of a statement that locks all rows exclusively that fit it.
pub(crate) fn all_locked_by(sql: &str) -> Option<(&str, &str)> {
    let locks =
        ["UPDATE ", "DELETE "].iter().any(|word| sql.starts_with(word)) || sql.ends_with(" FOR UPDATE");
    if !locks || sql.contains(" LIMIT ") {
        return None;
    }
    table_and_condition(sql)
}

/// Tells whether a statement has a word, such as the name of a table.
pub(crate) fn has_word(sql: &str, word: &str) -> bool {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Returns the table into which a statement inserts.
pub(crate) fn inserted_into(sql: &str) -> Option<&str> {
    let inserts = ["INSERT ", "REPLACE "].iter().any(|word| sql.starts_with(word));
    let (_, rest) = sql.split_once(" INTO ").filter(|_| inserts)?;
    rest.split_whitespace().next()
}

/// Tells whether a statement changes a table.
pub(crate) fn changes(sql: &str, table: &str) -> bool {
    has_word(sql, table)
        && ["INSERT ", "REPLACE ", "UPDATE ", "DELETE "].iter().any(|word| sql.starts_with(word))
}

/// Returns the query of the rows that a change or a locking read is about to find.
pub(crate) fn rows_to_find(sql: &str) -> Option<String> {
    let locks = changes(sql, table_and_condition(sql)?.0) || sql != without_lock(sql);
    let (table, condition) = table_and_condition(sql).filter(|_| locks && !sql.contains(" LIMIT "))?;
    Some(format!("SELECT * FROM {table} WHERE {condition}"))
}

pub(crate) fn has_condition(sql: &str) -> bool {
    table_and_condition(sql).is_some()
}

/// Returns the table and the condition of a statement of one table.
pub(crate) fn table_and_condition(sql: &str) -> Option<(&str, &str)> {
    let (head, rest) = sql.split_once(" WHERE ")?;
    let table = match head.split_whitespace().next()? {
        "UPDATE" => head.split_whitespace().skip(1).find(|word| *word != "IGNORE")?,
        "DELETE" | "SELECT" => head.split_once(" FROM ")?.1.split_whitespace().next()?,
        _ => return None,
    };
    let rest = without_lock(rest);
    let ends = [" GROUP BY ", " ORDER BY ", " LIMIT "];
    let condition = ends.iter().fold(rest, |rest, end| rest.split_once(end).map_or(rest, |(head, _)| head));
    Some((table, condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_locks_all_rows_that_fit_where_no_limit_says_otherwise() {
        assert_eq!(all_locked_by("UPDATE t SET a = 1 WHERE b = 2 ORDER BY c"), Some(("t", "b = 2")));
        assert_eq!(all_locked_by("SELECT * FROM t WHERE b = 2 FOR UPDATE"), Some(("t", "b = 2")));
        for sql in [
            "SELECT * FROM t WHERE b = 2",
            "SELECT * FROM t WHERE b = 2 LOCK IN SHARE MODE",
            "SELECT * FROM t WHERE b = 2 FOR UPDATE SKIP LOCKED",
            "DELETE FROM t WHERE b = 2 ORDER BY c LIMIT 1",
            "INSERT INTO t (a) VALUES (1)",
        ] {
            assert_eq!(all_locked_by(sql), None, "{sql}");
        }
    }

    #[test]
    fn changes_and_locking_reads_of_one_table_have_rows_to_find() {
        for sql in ["UPDATE t SET a = 1 WHERE b = 2", "SELECT a FROM t WHERE b = 2 FOR UPDATE NOWAIT"] {
            assert_eq!(rows_to_find(sql).as_deref(), Some("SELECT * FROM t WHERE b = 2"));
        }
        for sql in ["SELECT a FROM t WHERE b = 2", "DELETE FROM t WHERE b = 2 LIMIT 1", "COMMIT"] {
            assert_eq!(rows_to_find(sql), None);
        }
    }

    #[test]
    fn names_are_whole_words() {
        assert!(has_word("DELETE FROM t1 WHERE `a` = 1", "t1") && has_word("SELECT x.a FROM t2 x", "t2"));
        assert!(!has_word("DELETE FROM t11", "t1") && !has_word("SELECT t1_a FROM t2", "t1"));
    }

    #[test]
    fn a_statement_has_a_table_and_a_condition() {
        let wanted = [
            ("UPDATE t SET a = 1 WHERE b = 2", Some(("t", "b = 2"))),
            ("UPDATE IGNORE t SET a = 1 WHERE b = 2", Some(("t", "b = 2"))),
            ("DELETE FROM t WHERE b = 2 ORDER BY c", Some(("t", "b = 2"))),
            ("SELECT a FROM t FORCE INDEX (k) WHERE b = 2 FOR UPDATE", Some(("t", "b = 2"))),
            ("SELECT a, COUNT(*) FROM t WHERE b = 2 GROUP BY a LIMIT 1", Some(("t", "b = 2"))),
            ("SELECT a FROM t", None),
            ("INSERT INTO t (a) VALUES (1)", None),
        ];
        for (sql, parts) in wanted {
            assert_eq!(table_and_condition(sql), parts, "{sql}");
        }
    }
}
