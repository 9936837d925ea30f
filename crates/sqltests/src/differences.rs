//! All differences between InnoDB and Millpond that are permitted, each with its reason. The code
//! that finds one in two answers names it from here, and so does `mariadb/differs`, which pins
//! those of single tests. All others are findings.

/// A permitted difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permitted {
    /// What differs, and why that is right.
    pub(crate) reason: &'static str,
    kind: Kind,
}

/// What a reason is, and what follows from the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Words of `docs/mariadb.md`.
    Guide,
    /// How a reason begins that says what no statement fixes.
    Open,
    /// What a statement answers; the tables are the same behind it.
    Passing,
    /// The tables may differ from here on.
    Lasting,
}

macro_rules! permitted {
    ($($name:ident: $kind:ident = $reason:literal;)*) => {
        $(pub(crate) const $name: Permitted = Permitted { reason: $reason, kind: Kind::$kind };)*
        const ALL: &[Permitted] = &[$($name),*];
    };
}

permitted! {
    // In what tests print.
    FOREIGN_KEYS: Guide = "Foreign keys are accepted with a warning and not enforced";
    INDEXES: Guide = "FULLTEXT and SPATIAL indexes";
    DIRECTORIES: Guide = "`DATA DIRECTORY` and `INDEX DIRECTORY`";
    COPY: Guide = "new columns and indexes without copying the table";
    FORMATS: Guide = "Any ROW_FORMAT and KEY_BLOCK_SIZE is accepted, and means nothing";
    QUERY_CACHE: Guide = "The query cache keeps no results of these tables";
    TABLESPACES: Guide = "DISCARD and IMPORT TABLESPACE";
    STATEMENTS: Guide = "statement-based replication";
    OPTIONS: Guide = "InnoDB's options of tables";
    OWN_TABLES: Guide = "InnoDB's own tables have nothing of this engine's";
    NAME_OF_ENGINE: Guide = "A program may ask for the name of the engine";
    KEPT_BY_NOTHING: Guide = "Nothing keeps them";
    CREATE_SELECT: Guide = "A CREATE TABLE ... SELECT that fails for a lock leaves no table";
    LOCKED_TEXTS: Guide = "A locking read of an index alone locks the rows too if the index or the primary key has text";
    READ_UNCOMMITTED: Guide = "READ UNCOMMITTED acts as READ COMMITTED";
    PREPARED: Guide = "A transaction that has changed nothing stays prepared too";
    DOUBLE_COUNTERS: Guide = "that is DOUBLE ends at 2^53";
    ORDER_OF_ROWS: Open = "order of rows";
    PLANS: Open = "plan";
    // How tables are changed.
    CHECKS_AGAIN: Lasting = "ALTER copies the rows in Millpond, and a strict sql_mode checks all their values again; InnoDB changes the table in place";
    OWN_THREADS: Lasting = "InnoDB's own threads, which purge and count, lock rows and tables for a moment";
    DELETED_ENTRIES: Passing = "InnoDB's CHECK TABLE reports an entry that is deleted and whose row is purged already";
    SPENT_COUNTERS: Passing = "Behind the last number of a column's type the counter may stand anywhere";
    WARNS_AGAIN: Passing = "ALTER IGNORE copies the rows in Millpond, and warns of all their values again; InnoDB changes the table in place";
    COUNTS_OF_COPIES: Passing = "ALTER copies the rows in Millpond and counts them; InnoDB changes the table in place";
    FAILED_COPIES: Passing = "ALTER fails in both, at another row: rows are copied in another order";
    // SKIP LOCKED.
    FAILED_SKIPS: Lasting = "InnoDB's SKIP LOCKED can fail with `Operation not permitted`: its bug";
    FEWER_SKIPPED: Passing = "SKIP LOCKED skips fewer rows where InnoDB holds such locks";
    // Other rows are locked, or have changed.
    KEY_WITHOUT_ROW: Lasting = "A locking read or a change of a key that no row has locks that key in Millpond; InnoDB locks the gap, so that only an insert waits";
    TEXTS_OF_INDEX: Lasting = "InnoDB reads an index alone; Millpond reads and locks the rows too, because index entries do not have texts as they are";
    OTHER_PLAN: Lasting = "The plans differ, and so do the rows that are read and locked";
    UPGRADED: Lasting = "A row that a transaction has locked shared, and then exclusively without changing it, because it does not fit, stays locked exclusively in Millpond";
    FAILED_AT_LOCK: Lasting = "A statement that fails for a lock has got to another row, and the locks up to there stay";
    UNDONE: Lasting = "At SERIALIZABLE Millpond keeps the locks of what a failed statement or a savepoint undid";
    BOTH_WAIT: Lasting = "Both fail with a lock wait timeout, but InnoDB at an earlier or later row: it also locks gaps";
    BOTH_CHANGED: Lasting = "Both fail with error 1020, at another row: InnoDB also fails at rows that it only reads, and not at all unique keys";
    MORE_LOCKS: Lasting = "InnoDB also locks gaps, rows that are deleted and not purged, and rows that it read and that do not fit the condition; a statement that meets only such locks fails there alone";
    NO_SNAPSHOT: Lasting = "At SERIALIZABLE Millpond has no snapshot: it locks and reads what is committed. InnoDB can have one there too, and with snapshot isolation a row that changed since fails with error 1020";
    ROWS_ONLY_READ: Lasting = "With snapshot isolation InnoDB fails at a row that changed since, even if it only reads it and it does not fit the condition";
    CHANGED_KEY: Lasting = "With snapshot isolation, an insert or an update whose unique key a row has or had that was changed after the snapshot fails in Millpond with error 1020, as a change of that row does";
    DELETED_ROW: Lasting = "With snapshot isolation, a change of a row that the snapshot sees and that is deleted fails in Millpond with error 1020; InnoDB finds no row";
    INDEX_ALONE: Lasting = "With snapshot isolation, a locking read of a row that has changed since fails in Millpond; InnoDB does not look at the row where an index is enough";
    USED_NUMBERS: Lasting = "An insert of several rows that fails for a lock has got to another row, and has used other numbers";
    // Plans.
    UNEVALUATED: Passing = "A condition that a plan need not evaluate warns of no wrong value, and rows in no temporary table of none that sql_mode forbids";
    EVALUATED: Lasting = "A strict sql_mode fails a change whose condition compares a string that is no number; the other plan need not evaluate it";
    OTHER_FAILURE: Passing = "Both fail, at another row: the plans differ, and so does the order of the changes";
    RANGE_FOR_LIKE: Lasting = "The server's range for LIKE misses strings with a character below the space, and the plans differ";
    RANGE_OF_PREFIX: Lasting = "The server's range on the beginning of a column misses rows of a collation that compares accents or case after all letters, and the plans differ";
    LOOSE_SCAN: Lasting = "The server's loose index scan answers wrongly; the same engine without indexes answers as the other";
    // Replicas.
    OF_STATEMENTS: Passing = "On a replica InnoDB's table differs: with binlog_format=MIXED its changes are logged as statements, which may do something else there or fail; Millpond's are logged as rows";
}

impl Permitted {
    /// Whether tables may differ from here on.
    pub(crate) fn is_lasting(self) -> bool {
        self.kind == Kind::Lasting
    }
}

/// Whether the reason of a test is one of these: words of the guide in quotation marks, or what no
/// statement fixes, with more behind a colon.
pub(crate) fn permits(reason: &str) -> bool {
    let quoted = reason.split('"').nth(1);
    ALL.iter().any(|known| match known.kind {
        Kind::Guide => quoted == Some(known.reason),
        Kind::Open => reason.strip_prefix(known.reason).is_some_and(|rest| rest.starts_with(": ")),
        Kind::Passing | Kind::Lasting => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_each_quotation() {
        let guide = std::fs::read_to_string(checkout::root().join("docs/mariadb.md")).unwrap();
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for known in ALL.iter().filter(|known| known.kind == Kind::Guide) {
            assert!(guide.contains(known.reason), "{}", known.reason);
        }
    }

    #[test]
    fn a_test_differs_for_a_reason_of_the_list() {
        assert!(permits(r#""FULLTEXT and SPATIAL indexes", and more"#) && permits("plan: a limit"));
        assert!(!permits("FULLTEXT and SPATIAL indexes") && !permits(r#""other words""#));
        assert!(!permits("planned: a limit") && !permits("UNDONE"));
    }
}
