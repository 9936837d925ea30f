//! What a server is asked when an event begins: statements of each maker, and how an answer looks
//! as text. Pure.

use client::{Row, Version};
use output::report::page::Table;

/// A statement of an event may take so long, seconds.
pub(super) const LIMIT_S: u64 = 5;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// A word for names of files.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) statement: &'static str,
    /// The names of the answer's columns; none if its last column is the text.
    pub(super) columns: &'static [&'static str],
}

/// Names of columns, and the statement that selects them.
macro_rules! select {
    ($name:literal, $title:literal, [$($expression:literal as $column:literal),* $(,)?], $from:literal) => {
        Question {
            name: $name,
            title: $title,
            statement: concat!("SELECT ", $($expression, " AS ", $column, ", ",)* "1 ", $from),
            columns: &[$($column),*],
        }
    };
}

pub(super) const PROCESSES: &str = "processlist";
pub(super) const LOCK_WAITS: &str = "lock-waits";
pub(super) const METADATA: &str = "metadata-locks";

const PROCESSLIST: Question = Question {
    name: PROCESSES,
    title: "SHOW FULL PROCESSLIST",
    statement: "SHOW FULL PROCESSLIST",
    columns: &["Id", "User", "Host", "db", "Command", "Time", "State", "Info"],
};
const STATUS: Question = Question {
    name: "innodb-status",
    title: "SHOW ENGINE INNODB STATUS",
    statement: "SHOW ENGINE INNODB STATUS",
    columns: &[],
};
const TRANSACTIONS: Question = select!(
    "transactions",
    "Transactions (information_schema.INNODB_TRX)",
    [
        "trx_mysql_thread_id" as "connection",
        "trx_state" as "state",
        "TIMESTAMPDIFF(SECOND, trx_started, NOW())" as "age_s",
        "TIMESTAMPDIFF(SECOND, trx_wait_started, NOW())" as "waits_s",
        "trx_rows_locked" as "rows_locked",
        "trx_rows_modified" as "rows_modified",
        "trx_isolation_level" as "isolation",
        "trx_operation_state" as "doing",
        "trx_query" as "query",
    ],
    "FROM information_schema.INNODB_TRX ORDER BY trx_started"
);
const WAITS_MARIADB: Question = select!(
    "lock-waits",
    "Row lock waits (information_schema.INNODB_LOCK_WAITS)",
    [
        "r.trx_mysql_thread_id" as "waits",
        "TIMESTAMPDIFF(SECOND, r.trx_wait_started, NOW())" as "for_s",
        "r.trx_query" as "waiting_query",
        "b.trx_mysql_thread_id" as "blocked_by",
        "TIMESTAMPDIFF(SECOND, b.trx_started, NOW())" as "its_age_s",
        "b.trx_query" as "its_query",
        "CONCAT_WS(' ', l.lock_table, l.lock_index)" as "locked",
        "l.lock_mode" as "mode",
    ],
    "FROM information_schema.INNODB_LOCK_WAITS w \
     JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id \
     JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id \
     LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id"
);
const WAITS_MYSQL: Question = select!(
    "lock-waits",
    "Row lock waits (performance_schema.data_lock_waits)",
    [
        "r.trx_mysql_thread_id" as "waits",
        "TIMESTAMPDIFF(SECOND, r.trx_wait_started, NOW())" as "for_s",
        "r.trx_query" as "waiting_query",
        "b.trx_mysql_thread_id" as "blocked_by",
        "TIMESTAMPDIFF(SECOND, b.trx_started, NOW())" as "its_age_s",
        "b.trx_query" as "its_query",
        "CONCAT_WS(' ', CONCAT_WS('.', l.OBJECT_SCHEMA, l.OBJECT_NAME), l.INDEX_NAME)" as "locked",
        "l.LOCK_MODE" as "mode",
    ],
    "FROM performance_schema.data_lock_waits w \
     JOIN information_schema.INNODB_TRX b ON b.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID \
     JOIN information_schema.INNODB_TRX r ON r.trx_id = w.REQUESTING_ENGINE_TRANSACTION_ID \
     LEFT JOIN performance_schema.data_locks l ON l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID"
);
const METADATA_MARIADB: Question = select!(
    "metadata-locks",
    "Metadata locks (the plugin metadata_lock_info)",
    [
        "THREAD_ID" as "connection",
        "LOCK_MODE" as "mode",
        "LOCK_TIME_MS" as "for_ms",
        "CONCAT_WS(' ', LOCK_TYPE, TABLE_SCHEMA, TABLE_NAME)" as "locked",
    ],
    "FROM information_schema.METADATA_LOCK_INFO"
);
const METADATA_MYSQL: Question = select!(
    "metadata-locks",
    "Metadata locks (performance_schema.metadata_locks)",
    [
        "t.PROCESSLIST_ID" as "connection",
        "m.LOCK_TYPE" as "mode",
        "m.LOCK_STATUS" as "status",
        "CONCAT_WS(' ', m.OBJECT_TYPE, m.OBJECT_SCHEMA, m.OBJECT_NAME)" as "locked",
    ],
    "FROM performance_schema.metadata_locks m \
     JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID \
     WHERE t.PROCESSLIST_ID <> CONNECTION_ID()"
);

/// Returns what a server is asked.
pub(super) fn questions(version: Version) -> [Question; 5] {
    let old = version.is_mariadb() || !version.from((8, 0, 1));
    let waits = if old { WAITS_MARIADB } else { WAITS_MYSQL };
    let metadata = if version.is_mariadb() { METADATA_MARIADB } else { METADATA_MYSQL };
    [PROCESSLIST, waits, TRANSACTIONS, metadata, STATUS]
}

/// Returns the statement that sets the time limit of all later ones.
pub(super) fn limit(version: Version) -> String {
    match version.is_mariadb() {
        true => format!("SET SESSION max_statement_time = {LIMIT_S}"),
        false => format!("SET SESSION max_execution_time = {}", 1000 * LIMIT_S),
    }
}

/// Returns an answer as text.
pub(super) fn text(question: &Question, rows: &[Row]) -> String {
    if question.columns.is_empty() {
        return rows.first().and_then(|row| row.last()?.clone()).unwrap_or_default();
    }
    if rows.is_empty() {
        return "nothing".to_owned();
    }
    let cell = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let columns = question.columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let cells = |row: &Row| (0..columns.len()).map(|at| one_line(&cell(row, at))).collect();
    let rows = rows.iter().map(cells).collect();
    Table { caption: String::new(), names: columns.len(), columns, rows }.text()
}

/// Returns a statement on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says what to do where an answer was refused.
pub(super) fn hint(question: &Question, code: u16) -> &'static str {
    match (question.name, code) {
        (METADATA, 1109 | 1146) => "; INSTALL SONAME 'metadata_lock_info' makes MariaDB show who holds them",
        (_, 1227 | 1044) => "; GRANT PROCESS ON *.* TO the user lets it see them",
        (_, 1142) => "; GRANT SELECT ON performance_schema.* TO the user lets it see them",
        (_, 1317 | 1969 | 3024) => "; it took longer than its limit",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn each_maker_is_asked_what_it_knows() {
        let names = |version: &str| {
            let version = Version::parse(version, "");
            let [_, waits, _, metadata, _] = questions(version);
            format!("{}; {}; {}", waits.title, metadata.title, limit(version))
        };
        expect!["Row lock waits (information_schema.INNODB_LOCK_WAITS); Metadata locks (the plugin metadata_lock_info); SET SESSION max_statement_time = 5"].assert_eq(&names("10.11.19-MariaDB"));
        expect!["Row lock waits (performance_schema.data_lock_waits); Metadata locks (performance_schema.metadata_locks); SET SESSION max_execution_time = 5000"].assert_eq(&names("8.4.0"));
    }

    #[test]
    fn an_answer_is_a_table_with_a_line_for_each_row() {
        let row = |cells: &[&str]| cells.iter().map(|cell| Some((*cell).to_owned())).collect::<Row>();
        let mut rows = vec![row(&[
            "7",
            "root",
            "localhost",
            "",
            "Query",
            "9",
            "Updating",
            "UPDATE t\n  SET v = 1",
            "0.000",
        ])];
        rows.push(vec![Some("12".to_owned()), None]);
        expect![[r#"
            Id  User  Host       db  Command  Time  State     Info
            7   root  localhost      Query    9     Updating  UPDATE t SET v = 1
            12
        "#]]
        .assert_eq(&text(&PROCESSLIST, &rows));
        assert_eq!(text(&PROCESSLIST, &[]), "nothing");
        assert_eq!(text(&STATUS, &[row(&["InnoDB", "", "a\nb"])]), "a\nb");
    }
}
