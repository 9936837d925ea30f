//! Differences that follow from what the guide says of the engine: a feature that is absent, or
//! that works in another way. Each is known by what both engines answer, so all else still counts.

use super::block::Block;
use crate::differences::{
    COPY, DIRECTORIES, FOREIGN_KEYS, FORMATS, INDEXES, OPTIONS, OWN_TABLES, Permitted, QUERY_CACHE,
    STATEMENTS, TABLESPACES,
};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of errors of Millpond, and what explains them.
const REFUSED: [(&str, Permitted); 8] = [
    ("doesn't support FULLTEXT", INDEXES),
    ("doesn't support SPATIAL", INDEXES),
    ("does not support DATA DIRECTORY or INDEX DIRECTORY", DIRECTORIES),
    ("Can't DROP FOREIGN KEY", FOREIGN_KEYS),
    ("ALGORITHM=INPLACE is not supported", COPY),
    ("ALGORITHM=NOCOPY is not supported", COPY),
    ("doesn't have this option", TABLESPACES),
    ("uses a storage engine limited to row-based logging", STATEMENTS),
];
/// Parts of errors and warnings of InnoDB that Millpond does not have, and what explains that.
const NOT_REFUSED: [(&str, Permitted); 8] = [
    ("a foreign key constraint fails", FOREIGN_KEYS),
    ("Foreign key constraint is incorrectly formed", FOREIGN_KEYS),
    ("foreign key references", FOREIGN_KEYS),
    ("referenced in a foreign key constraint", FOREIGN_KEYS),
    ("errno: 140 \"Wrong create options\"", FORMATS),
    ("Non matching attribute 'ROW_FORMAT'", FORMATS),
    ("ignoring KEY_BLOCK_SIZE", FORMATS),
    ("Tablespace is missing", TABLESPACES),
];
/// Parts of the names of InnoDB's own tables, as they stand in a result. The last one is a query of
/// such a table that tests keep in a variable.
const OWN: [&str; 4] =
    ["InnoDB_sys_", "mysql.InnoDB_index_stats", "mysql.InnoDB_table_stats", "check_InnoDB_flags"];
/// Statements that ask how the one before ended.
const QUESTIONS: [&str; 5] =
    ["show warnings", "show errors", "select found_rows", "select row_count", "get diagnostics"];

/// What a test cannot have any more, because a statement was refused by one engine only.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// All tables, views and sequences that were created.
    created: BTreeSet<String>,
    /// Those that may be absent or have other rows with one engine, and handlers that were opened
    /// for them, each with the reason.
    unlike: BTreeMap<String, Permitted>,
    /// The reason for which the answers to the statement before differ.
    before: Option<Permitted>,
}

impl Absent {
    /// Returns the words of the guide that explain how the answers of both engines to a statement
    /// differ, if there are such.
    pub(super) fn explain(&mut self, innodb: &Block<'_>, millpond: &Block<'_>) -> Option<Permitted> {
        let statement = statement_of(innodb, millpond);
        let names = self.note_created(&statement);
        let inherited = names.iter().find_map(|name| self.unlike.get(name).copied());
        if innodb == millpond {
            self.note_success(&statement, innodb, &names, inherited);
            self.before = self.before.filter(|_| asks_of_the_one_before(&statement));
            return None;
        }
        let refused = reason_of(innodb, millpond);
        let of_before = self.before.filter(|_| asks_of_the_one_before(&statement));
        // InnoDB enforces them from now on.
        let made = (makes_foreign_keys(&statement) && without_foreign_keys(innodb, millpond))
            .then_some(FOREIGN_KEYS);
        let inherited = inherited.or_else(|| self.reason_of_missing(millpond));
        let lasting = refused.or(made).or(inherited).or_else(|| refused_by_a_copy(innodb, millpond));
        let reason = lasting.or(of_before).or_else(|| plain_reason(innodb, millpond));
        if let Some(reason) = lasting {
            for name in names {
                self.unlike.entry(name).or_insert(reason);
            }
            self.unlike.extend(opened_handler(innodb.head()).map(|handler| (handler, reason)));
        }
        self.before = reason;
        reason
    }

    /// Returns the reason for which a table is absent that an error names, as in a procedure.
    fn reason_of_missing(&self, block: &Block<'_>) -> Option<Permitted> {
        let errors = block.lines.iter().filter(|line| line.starts_with("ERROR 42S02"));
        let names = errors.filter_map(|line| line.split('\'').nth(1)).flat_map(words);
        names.into_iter().find_map(|name| self.unlike.get(&name).copied())
    }

    /// Returns the tables, views and handlers that a statement names, after noting the one that it
    /// creates.
    fn note_created(&mut self, statement: &str) -> Vec<String> {
        let words = words(statement);
        self.created.extend(created(&words));
        let known = |word: &String| self.created.contains(word) || self.unlike.contains_key(word);
        // A column may stand behind its table's name.
        let parts = statement.split('.').flat_map(self::words);
        words.into_iter().chain(parts).filter(known).collect()
    }

    /// Notes that both engines answer a statement in the same way: a table that is now created or
    /// dropped is the same again, unless it is made from one that is not.
    fn note_success(
        &mut self,
        statement: &str,
        block: &Block<'_>,
        names: &[String],
        inherited: Option<Permitted>,
    ) {
        let words = words(statement);
        let fails = block.lines.iter().any(|line| line.starts_with("ERROR"));
        let Some(made) = created(&words).filter(|_| !fails) else {
            if !fails && words.first().is_some_and(|word| word == "drop") {
                self.unlike.retain(|name, _| !names.contains(name));
            }
            return;
        };
        let others = names.iter().any(|name| *name != made && self.unlike.contains_key(name));
        // A temporary table hides one that other connections still see.
        if !words.iter().any(|word| word == "temporary") {
            self.unlike.remove(&made);
        }
        if let Some(reason) = inherited.filter(|_| others) {
            self.unlike.insert(made, reason);
        }
    }
}

/// Tells whether a statement may add foreign keys to a table.
fn makes_foreign_keys(statement: &str) -> bool {
    let words = words(statement);
    let changes = words.first().is_some_and(|word| word == "create" || word == "alter");
    changes && words.iter().any(|word| word == "references")
}

/// Returns the lines of a statement, which are those that begin both blocks.
fn statement_of(innodb: &Block<'_>, millpond: &Block<'_>) -> String {
    let both = innodb.lines.iter().zip(&millpond.lines);
    let lines: Vec<&str> = both.take_while(|(a, b)| a == b).map(|(line, _)| *line).collect();
    // The statement ends with a semicolon; rows may follow it.
    let end = lines.iter().position(|line| line.ends_with(';')).map_or(lines.len(), |last| last + 1);
    lines[..end].join("\n")
}

fn asks_of_the_one_before(statement: &str) -> bool {
    let statement = statement.to_ascii_lowercase();
    QUESTIONS.iter().any(|question| statement.starts_with(question))
}

/// Returns the reason for which one engine refused a statement.
fn reason_of(innodb: &Block<'_>, millpond: &Block<'_>) -> Option<Permitted> {
    let has = |block: &Block<'_>, text: &str| {
        let says =
            |line: &&str| ["ERROR", "Warning\t", "Error\t"].iter().any(|begin| line.starts_with(begin));
        block.lines.iter().filter(|line| says(line)).any(|line| line.contains(text))
    };
    let refused = REFUSED.iter().find(|(text, _)| has(millpond, text));
    let not_refused = || NOT_REFUSED.iter().find(|(text, _)| has(innodb, text) && !has(millpond, text));
    refused.or_else(not_refused).map(|&(_, reason)| reason)
}

/// Returns the reason for answers that differ, but leave the tables the same.
fn plain_reason(innodb: &Block<'_>, millpond: &Block<'_>) -> Option<Permitted> {
    if without_foreign_keys(innodb, millpond) {
        Some(FOREIGN_KEYS)
    } else if innodb.head().to_ascii_lowercase().contains("qcache") {
        Some(QUERY_CACHE)
    } else if OWN.iter().any(|name| contains_ignoring_case(&statement_of(innodb, millpond), name)) {
        Some(OWN_TABLES)
    } else if without_options(innodb) == without_options(millpond) {
        Some(OPTIONS)
    } else {
        (copied(innodb) == copied(millpond)).then_some(COPY)
    }
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
}

/// Returns the reason for which only Millpond refuses to change a table: a copy checks the values
/// of all rows, those of new virtual columns too.
fn refused_by_a_copy(innodb: &Block<'_>, millpond: &Block<'_>) -> Option<Permitted> {
    let fails = |block: &Block<'_>| block.lines.iter().any(|line| line.starts_with("ERROR"));
    let finds = |line: &&str| line.starts_with("ERROR 22003") && line.contains(" at row ");
    let refused = !fails(innodb) && millpond.lines.iter().any(finds);
    (changes_table(innodb) && refused).then_some(COPY)
}

/// Returns a name without its database, in small letters.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns the table or view that a statement of these words creates.
fn created(words: &[String]) -> Option<String> {
    if words.first().map(String::as_str) != Some("create") {
        return None;
    }
    // CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS, CREATE ALGORITHM=MERGE SQL SECURITY ... VIEW
    let at = words.iter().position(|word| ["table", "view", "sequence"].contains(&word.as_str()))?;
    let skipped = ["if", "not", "exists"];
    let name = words[at + 1..].iter().find(|word| !skipped.contains(&word.as_str()))?;
    Some(name.clone())
}

/// Returns the name of a handler that is opened.
fn opened_handler(head: &str) -> Option<String> {
    let words = words(head);
    let opens = words.len() >= 3 && words[0] == "handler" && words[2] == "open";
    opens.then(|| words.last().unwrap_or(&words[1]).clone())
}

/// Returns the words of a statement in small letters, names without their databases.
fn words(statement: &str) -> Vec<String> {
    let mark = |c: char| c.is_whitespace() || "(),;`|=".contains(c);
    let words = statement.split(mark).map(|word| last_part(word).to_ascii_lowercase());
    words.filter(|word| !word.is_empty()).collect()
}

/// Tells whether answers are the same but for warnings of foreign keys, and their lines in SHOW
/// CREATE TABLE.
fn without_foreign_keys(innodb: &Block<'_>, millpond: &Block<'_>) -> bool {
    let warns = |line: &&str| {
        let (_, named) = line.split_once("does not enforce foreign keys; ").unwrap_or_default();
        let named = named.strip_suffix("' has no effect").unwrap_or_default();
        named.starts_with("the constraint '") || named.starts_with("a constraint of the table '")
    };
    let mut right: Vec<&str> = millpond.lines.iter().filter(|line| !warns(line)).copied().collect();
    let follows = |at: usize, begin: &str| right.get(at + 1).is_some_and(|line| line.starts_with(begin));
    if right.len() < millpond.lines.len() {
        let alone = |&at: &usize| {
            right[at] == "Warnings:" && !["Warning\t", "Note\t", "Error\t"].iter().any(|b| follows(at, b))
        };
        if let Some(at) = (0..right.len()).rfind(alone) {
            right.remove(at);
        }
    }
    let constraint = |line: &&str| line.starts_with("  CONSTRAINT ") && line.contains(" FOREIGN KEY ");
    let left: Vec<&str> = innodb.lines.iter().filter(|line| !constraint(line)).copied().collect();
    let bare = |lines: Vec<&str>| -> Vec<String> {
        lines.iter().map(|line| line.trim_end_matches(',').to_owned()).collect()
    };
    if left.len() < innodb.lines.len() { bare(left) == bare(right) } else { left == right }
}

/// Returns the lines of an answer without the option that a setting of InnoDB adds to tables.
fn without_options(block: &Block<'_>) -> Vec<String> {
    block.lines.iter().map(|line| line.replace(" `PAGE_COMPRESSED`='ON'", "")).collect()
}

fn changes_table(block: &Block<'_>) -> bool {
    let first = words(block.head()).into_iter().next().unwrap_or_default();
    ["alter", "create", "drop"].contains(&first.as_str())
}

/// Returns the lines of an answer to a change of a table without what follows from a copy of its
/// rows: how many they are, at which of them a value or a duplicate was found, how often something
/// was warned of, and why the table cannot be written meanwhile.
fn copied<'a>(block: &Block<'a>) -> Vec<&'a str> {
    if !changes_table(block) {
        return block.lines.clone();
    }
    let counts = |line: &&str| line.starts_with("affected rows:") || line.starts_with("info: Records:");
    let mut lines: Vec<&str> =
        block.lines.iter().copied().filter(|line| !counts(line)).map(bare_error).collect();
    lines.dedup_by(|one, two| one == two && one.starts_with("Warning\t"));
    lines
}

/// Returns an error or a warning without its row.
fn bare_error(line: &str) -> &str {
    const LOCK: &str = "ERROR 0A000: LOCK=NONE is not supported";
    const DUPLICATE: &str = "ERROR 23000: Duplicate entry";
    if let Some(start) = [LOCK, DUPLICATE].into_iter().find(|start| line.starts_with(start)) {
        return start;
    }
    let says = ["ERROR ", "Warning\t"].iter().any(|begin| line.starts_with(begin));
    if says { line.rsplit_once(" at row ").map_or(line, |(error, _)| error) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(absent: &mut Absent, innodb: &str, millpond: &str) -> Option<Permitted> {
        let block = |text: &'static str| Block { lines: text.lines().collect() };
        let text = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        absent.explain(&block(text(innodb)), &block(text(millpond)))
    }

    #[test]
    fn a_warning_of_a_foreign_key_is_explained_and_a_row_is_not() {
        let absent = &mut Absent::default();
        let head = "create table t (a int references u (a));";
        let warning = "Warning\t1478\tInnoDB does not enforce foreign keys; a constraint of the table 't' has no effect";
        let warned = format!("{head}\nWarnings:\n{warning}");
        assert_eq!(explain(absent, head, &warned), Some(FOREIGN_KEYS));
        let other = format!("{warned}\nWarning\t1\tother");
        assert_eq!(explain(&mut Absent::default(), head, &other), None);
        assert_eq!(
            explain(absent, &format!("{head}\nWarnings:\nWarning\t1\tother"), &other),
            Some(FOREIGN_KEYS)
        );
        assert_eq!(explain(absent, "select 1;\n1\n1", "select 1;\n1\n2"), None);
    }

    #[test]
    fn constraints_that_show_create_table_lacks_are_explained() {
        let absent = &mut Absent::default();
        let head = "show create table t;\n  KEY `a` (`a`)";
        let left = format!("{head},\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `u` (`a`)\n)");
        assert_eq!(explain(absent, &left, &format!("{head}\n)")), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, &left, &format!("{head}\n) x")), None);
    }

    #[test]
    fn a_refused_table_explains_that_it_is_missed_until_it_is_created() {
        let absent = &mut Absent::default();
        let missed =
            ["select * from t1;\na", "select * from t1;\nERROR 42S02: Table 'test.t1' doesn't exist"];
        assert_eq!(explain(absent, missed[0], missed[1]), None);
        let refused = "CREATE TABLE t1(a TEXT, FULLTEXT(a));\nERROR HY000: The storage engine InnoDB doesn't support FULLTEXT indexes";
        assert_eq!(explain(absent, "CREATE TABLE t1(a TEXT, FULLTEXT(a));", refused), Some(INDEXES));
        assert_eq!(explain(absent, missed[0], missed[1]), Some(INDEXES));
        let opened = "HANDLER t1 OPEN AS h;\nERROR 42S02: Table 'test.t1' doesn't exist";
        assert_eq!(explain(absent, "HANDLER t1 OPEN AS h;", opened), Some(INDEXES));
        let called = "call p();\nERROR 42S02: Table 'test.t1' doesn't exist";
        assert_eq!(explain(absent, "call p();\na", called), Some(INDEXES));
        let read = "HANDLER h CLOSE;\nERROR 42S02: Unknown table 'h' in HANDLER";
        assert_eq!(explain(absent, "HANDLER h CLOSE;", read), Some(INDEXES));
        assert_eq!(explain(absent, "create table t1 (a int);", "create table t1 (a int);"), None);
        assert_eq!(explain(absent, missed[0], missed[1]), None);
    }

    #[test]
    fn what_a_foreign_key_has_refused_explains_rows_of_its_tables_until_they_are_made_anew() {
        let absent = &mut Absent::default();
        let make = "create table t1 (a int);";
        assert_eq!(explain(absent, make, make), None);
        let rows = ["select a from t1;\na", "select a from t1;\na\n1"];
        assert_eq!(explain(absent, rows[0], rows[1]), None);
        let insert = "insert into test.t1 values (1);";
        let refused = format!("{insert}\nERROR 23000: Cannot add: a foreign key constraint fails (x)");
        assert_eq!(explain(absent, &refused, insert), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "show warnings;\n1", "show warnings;"), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, rows[0], rows[1]), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "select a from t2;\na", "select a from t2;"), None);
        let copy = "create view v as select * from t1;";
        assert_eq!(explain(absent, copy, copy), None);
        assert_eq!(explain(absent, "select * from v;\n1", "select * from v;"), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "drop table t1;", "drop table t1;"), None);
        assert_eq!(explain(absent, rows[0], rows[1]), None);
        assert_eq!(explain(absent, "show warnings;\n1", "show warnings;"), None);
    }

    #[test]
    fn tables_with_foreign_keys_may_have_other_rows() {
        let absent = &mut Absent::default();
        let parent = "create table t1 (a int primary key);";
        assert_eq!(explain(absent, parent, parent), None);
        let child = "create table t2 (a int references t1 (a) on delete cascade);";
        let warned = format!(
            "{child}\nWarnings:\nWarning\t1478\tInnoDB does not enforce foreign keys; a constraint of the table 't' has no effect"
        );
        assert_eq!(explain(absent, child, &warned), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "select * from t2;", "select * from t2;\n1"), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "select * from t1;", "select * from t1;\n1"), Some(FOREIGN_KEYS));
        assert_eq!(explain(absent, "select * from t3;", "select * from t3;\n1"), None);
    }

    #[test]
    fn a_change_in_place_that_is_refused_explains_itself_and_what_follows_for_its_table() {
        let absent = &mut Absent::default();
        let make = "create table t1 (a int);";
        assert_eq!(explain(absent, make, make), None);
        let alter = "alter table t1 add b int, algorithm=inplace;";
        let refused = format!("{alter}\nERROR 0A000: ALGORITHM=INPLACE is not supported for this operation");
        assert_eq!(explain(absent, alter, &refused), Some(COPY));
        assert_eq!(explain(absent, "select b from t1;\nb", "select b from t1;\nERROR"), Some(COPY));
    }

    #[test]
    fn counts_of_copied_rows_are_explained_only_where_a_table_changes() {
        let absent = &mut Absent::default();
        let counts = [
            "affected rows: 0\ninfo: Records: 0  Duplicates: 0  Warnings: 0",
            "affected rows: 3\ninfo: Records: 3  Duplicates: 0  Warnings: 0",
        ];
        let pair = |head: &str| counts.map(|count| format!("{head}\n{count}"));
        let [left, right] = pair("alter table t add b int;");
        assert_eq!(explain(absent, &left, &right), Some(COPY));
        let [left, right] = pair("insert into t select 1;");
        assert_eq!(explain(absent, &left, &right), None);
    }

    #[test]
    fn what_a_copy_of_the_rows_says_in_another_way_is_explained() {
        let explained = |head: &str, one: &str, two: &str| {
            explain(&mut Absent::default(), &format!("{head}\n{one}"), &format!("{head}\n{two}"))
        };
        let alter = "alter table t add b int as (a);";
        let warning =
            |row: u32| format!("Warnings:\nWarning\t1264\tOut of range value for column 'b' at row {row}");
        assert_eq!(explained(alter, &warning(0), &warning(1)), Some(COPY));
        let twice = format!("{}\nWarning\t1264\tOut of range value for column 'b' at row 2", warning(1));
        assert_eq!(explained(alter, &warning(0), &twice), Some(COPY));
        assert_eq!(explained("insert into t values (1);", &warning(0), &warning(1)), None);
        let error = |row: u32| format!("ERROR 22003: Out of range value for column 'b' at row {row}");
        assert_eq!(explained(alter, &error(0), &error(76)), Some(COPY));
        assert_eq!(explained(alter, &error(0), "ERROR 42000: Other"), None);
        let duplicate = |entry: &str| format!("ERROR 23000: Duplicate entry '{entry}' for key 'PRIMARY'");
        assert_eq!(explained(alter, &duplicate("a"), &duplicate("a ")), Some(COPY));
        assert_eq!(explained("insert into t select 1;", &duplicate("a"), &duplicate("b")), None);
    }

    #[test]
    fn a_copy_that_finds_a_wrong_value_explains_that_the_table_stays_as_it_was() {
        let absent = &mut Absent::default();
        let make = "create table t (a int);";
        assert_eq!(explain(absent, make, make), None);
        let alter = "alter table t add b smallint as (a) virtual;";
        let refused = format!("{alter}\nERROR 22003: Out of range value for column 'b' at row 1");
        assert_eq!(explain(absent, alter, &refused), Some(COPY));
        let drop = "alter table t drop column b;";
        assert_eq!(explain(absent, drop, &format!("{drop}\nERROR 42000: Can't DROP COLUMN `b`")), Some(COPY));
    }

    #[test]
    fn tables_are_known_by_their_columns_and_by_errors() {
        let absent = &mut Absent::default();
        let make = "create table t1 (a int);";
        assert_eq!(explain(absent, make, make), None);
        let alter = "alter table t1 add b int, algorithm=nocopy;";
        let refused = format!("{alter}\nERROR 0A000: ALGORITHM=NOCOPY is not supported");
        assert_eq!(explain(absent, alter, &refused), Some(COPY));
        let part = "select c from t2 where c = t1.c);";
        assert_eq!(explain(absent, &format!("{part}\nc"), part), Some(COPY));
    }

    #[test]
    fn innodb_s_own_tables_are_no_tables_of_the_test() {
        let select = "select n_rows from mysql.InnoDB_table_stats;";
        assert_eq!(
            explain(&mut Absent::default(), &format!("{select}\nn_rows\n1"), select),
            Some(OWN_TABLES)
        );
        let setting = "select @@InnoDB_lock_wait_timeout;";
        assert_eq!(explain(&mut Absent::default(), &format!("{setting}\n1"), &format!("{setting}\n2")), None);
    }

    #[test]
    fn a_temporary_table_only_hides_one_that_may_have_other_rows() {
        let absent = &mut Absent::default();
        let child = "create table t2 (a int references t1 (a) on update cascade);";
        let warned = format!(
            "{child}\nWarnings:\nWarning\t1478\tInnoDB does not enforce foreign keys; a constraint of the table 't' has no effect"
        );
        assert_eq!(explain(absent, child, &warned), Some(FOREIGN_KEYS));
        let hides = "create temporary table t2 (a int);";
        assert_eq!(explain(absent, hides, hides), None);
        assert_eq!(explain(absent, "select * from t2;\n1", "select * from t2;\n2"), Some(FOREIGN_KEYS));
    }
}
