//! What the server itself does not keep together when it is killed.
//!
//! Each of these comes with InnoDB too, in the same statements: `cargo xtask mariadb calls --engine
//! InnoDB --tell-known`, with `TMPDIR` on a file system other than `/dev/shm`, where InnoDB writes
//! its log without calls. Only the list of the engine's tables is empty then: what it shows of
//! Millpond's tables, InnoDB has as files that no definition names. An engine cannot close the
//! gaps: the server decides in which order it writes definitions, its own log of changes of tables
//! and the binary log, and when it calls engines.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// The server does not start.
    Start,
    /// The server is neither as before the statement in flight nor as behind it.
    Torn,
    /// A table is damaged.
    Check,
    /// The binary log cannot be run in an empty server.
    Replay,
    /// The binary log gives other tables.
    Log,
}

/// Something that is wrong.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) sort: Sort,
    /// The parts of the picture that differ, if it is about pictures.
    pub(super) parts: Vec<String>,
    pub(super) text: String,
}

/// What may be wrong.
struct Gap {
    /// How the statement in flight begins.
    statements: &'static [&'static str],
    sorts: &'static [Sort],
    /// How the names of the parts begin that may differ; none: all may.
    parts: &'static [&'static str],
    reason: &'static str,
}

/// Each with what comes in the statements of the scenes, and no more.
const GAPS: [Gap; 12] = [
    Gap {
        statements: &[""],
        sorts: &[Sort::Torn, Sort::Log],
        parts: &["rows of one.`s`", "rows of one.`numbers`"],
        reason: "the change of a sequence is committed apart from the transaction that takes the numbers",
    },
    Gap {
        statements: &["XA PREPARE", "XA COMMIT", "XA ROLLBACK"],
        sorts: &[Sort::Log],
        parts: &["prepared", "rows of "],
        reason: "the binary log gets the steps of XA before the engines do, and no start makes them agree",
    },
    Gap {
        statements: &["XA COMMIT", "XA PREPARE"],
        sorts: &[Sort::Torn],
        parts: &["prepared", "rows of one.`i`", "rows of one.`seen`", "rows of one.`t`"],
        reason: "each engine takes a step of XA by itself; in one phase it is prepared before",
    },
    Gap {
        statements: &["ALTER TABLE p ", "ALTER TABLE parts REMOVE", "TRUNCATE TABLE", "CREATE DATABASE"],
        sorts: &[Sort::Log],
        parts: &[],
        reason: "the statement is done before the binary log gets it, and no start undoes it",
    },
    Gap {
        statements: &["CREATE OR REPLACE TABLE", "CREATE TABLE copied"],
        sorts: &[Sort::Torn, Sort::Log],
        parts: &[],
        reason: "the old table is dropped first, and a start drops the new one although the binary log may \
                 have it",
    },
    Gap {
        statements: &["DROP TABLE copied, made", "DROP VIEW looked, wide", "DROP DATABASE"],
        sorts: &[Sort::Torn],
        parts: &[],
        reason: "several tables are dropped one after the other; the binary log gets those that were",
    },
    Gap {
        statements: &["DROP DATABASE"],
        sorts: &[Sort::Log],
        parts: &["tables of the engine", "tables", "definition of one.`seen`", "rows of one.`seen`"],
        reason: "the binary log gets the end of a view before its file is removed, and that of a partitioned \
                 table before its partitions are",
    },
    Gap {
        statements: &["RESET MASTER"],
        sorts: &[Sort::Start],
        parts: &[],
        reason: "the files of the binary log are removed before the list of them, and no server starts with \
                 the list alone",
    },
    Gap {
        statements: &["CREATE TABLE p "],
        sorts: &[Sort::Torn],
        parts: &["files of "],
        reason: "the list of partitions of a table that was being made stays",
    },
    Gap {
        statements: &["CREATE DATABASE", "ALTER TABLE x ADD COLUMN y INT, RENAME"],
        sorts: &[Sort::Torn],
        parts: &["databases", "files of "],
        reason: "the server leaves a database without its options, or the file of a trigger that it was \
                 writing",
    },
    Gap {
        statements: &["ALTER TABLE p ADD COLUMN", "ALTER TABLE parts RENAME", "ALTER TABLE t PARTITION BY"],
        sorts: &[Sort::Torn, Sort::Check, Sort::Log],
        parts: &[],
        reason: "a start drops the old table of a partitioned one that was being moved, and may leave the \
                 copy without its definition",
    },
    Gap {
        statements: &[
            "RENAME TABLE p ",
            "TRUNCATE TABLE parts",
            "ALTER TABLE parts REMOVE",
            "DROP TABLE t",
            "DROP TABLE p",
        ],
        sorts: &[Sort::Torn, Sort::Check, Sort::Log],
        parts: &[],
        reason: "the partitions of a table are changed one after the other, and no start ends that",
    },
];

/// Returns the reason of a finding that is known.
pub(super) fn known(statement: &str, finding: &Finding) -> Option<&'static str> {
    let has =
        |begins: &[&str], text: &str| begins.is_empty() || begins.iter().any(|begin| text.starts_with(begin));
    let fits = |gap: &&Gap| {
        has(gap.statements, statement)
            && gap.sorts.contains(&finding.sort)
            && finding.parts.iter().all(|part| has(gap.parts, part))
    };
    GAPS.iter().find(fits).map(|gap| gap.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_known_by_statement_sort_and_parts() {
        let found = |sort, part: &str| Finding { sort, parts: vec![part.to_owned()], text: String::new() };
        assert!(known("INSERT INTO t", &found(Sort::Torn, "rows of one.`s`")).is_some());
        assert!(known("INSERT INTO t", &found(Sort::Torn, "rows of one.`t`")).is_none());
        assert!(known("XA COMMIT 'a'", &found(Sort::Log, "rows of one.`t`")).is_some());
        assert!(known("XA COMMIT 'a'", &found(Sort::Check, "")).is_none());
        assert!(known("COMMIT", &found(Sort::Log, "rows of one.`t`")).is_none());
        assert!(known("DROP DATABASE one", &found(Sort::Log, "rows of one.`seen`")).is_some());
        assert!(known("DROP DATABASE one", &found(Sort::Log, "rows of one.`t`")).is_none());
        assert!(known("DROP DATABASE one", &found(Sort::Log, "databases")).is_none());
    }
}
