//! Differences that follow from what the guide says of the engine: a feature that is absent, or
//! that works in another way. Each is known by what both engines answer, so all else still counts.

use super::results::Block;
use std::collections::BTreeSet;

/// Sentences of docs/mariadb.md, and lists of what is absent there.
const FOREIGN_KEYS: &str = "Foreign keys are accepted with a warning and not enforced";
const INDEXES: &str = "FULLTEXT and SPATIAL indexes";
const DIRECTORIES: &str = "`DATA DIRECTORY` and `INDEX DIRECTORY`";
const COPY: &str = "new columns and indexes without copying the table";

/// What a test cannot have any more, because a statement was refused.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// Tables that were not created, and handlers that were not opened for them.
    tables: BTreeSet<String>,
}

impl Absent {
    /// Returns the words of the guide that explain how the answers of both engines to a statement
    /// differ, if there are such.
    pub(super) fn explain(&mut self, innodb: &Block<'_>, millpond: &Block<'_>) -> Option<&'static str> {
        let created = created_table(innodb.head());
        let fails = millpond.lines.iter().any(|line| line.starts_with("ERROR"));
        if let Some(table) = created.as_ref().filter(|_| !fails) {
            self.tables.remove(table);
        }
        if innodb == millpond {
            return None;
        }
        let refused =
            |text: &str| millpond.lines.iter().any(|line| line.starts_with("ERROR") && line.contains(text));
        let feature = if refused("doesn't support FULLTEXT") || refused("doesn't support SPATIAL") {
            Some(INDEXES)
        } else if refused("does not support DATA DIRECTORY or INDEX DIRECTORY") {
            Some(DIRECTORIES)
        } else {
            None
        };
        if feature.is_some() {
            self.tables.extend(created);
            return feature;
        }
        if self.misses_table(millpond) {
            self.tables.extend(opened_handler(innodb.head()));
            return Some(INDEXES);
        }
        if without_foreign_keys(innodb, millpond) {
            return Some(FOREIGN_KEYS);
        }
        (uncounted(innodb) == uncounted(millpond)).then_some(COPY)
    }

    /// Tells whether a statement failed because it names a table that was refused.
    fn misses_table(&self, block: &Block<'_>) -> bool {
        let errors = block.lines.iter().filter(|line| line.starts_with("ERROR 42S02"));
        errors
            .filter_map(|line| line.split('\'').nth(1))
            .any(|names| names.split(',').any(|name| self.tables.contains(last_part(name))))
    }
}

/// Returns a name without its database, in small letters.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns the table of a CREATE TABLE.
fn created_table(head: &str) -> Option<String> {
    let words = words(head);
    let at = words.iter().position(|word| word == "table")?;
    let skipped = ["if", "not", "exists"];
    let name = words[at + 1..].iter().find(|word| !skipped.contains(&word.as_str()))?;
    (words[0] == "create").then(|| last_part(name).to_owned())
}

/// Returns the name of a handler that is opened.
fn opened_handler(head: &str) -> Option<String> {
    let words = words(head);
    let opens = words.len() >= 3 && words[0] == "handler" && words[2] == "open";
    opens.then(|| last_part(words.last().unwrap_or(&words[1])).to_owned())
}

/// Returns the words of a line in small letters, without marks around them.
fn words(line: &str) -> Vec<String> {
    let mark = |c: char| c.is_whitespace() || "(),;`|".contains(c);
    line.split(mark).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
}

/// Tells whether answers are the same but for warnings of foreign keys, and their lines in SHOW
/// CREATE TABLE.
fn without_foreign_keys(innodb: &Block<'_>, millpond: &Block<'_>) -> bool {
    let warns = |line: &&str| line.contains("does not enforce foreign keys; the constraint");
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

/// Returns the lines of an answer to a change of a table without how many rows were copied.
fn uncounted<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let counts = |line: &str| line.starts_with("affected rows:") || line.starts_with("info: Records:");
    let first = words(block.head()).into_iter().next().unwrap_or_default();
    let changes = ["alter", "create", "drop"].contains(&first.as_str());
    block.lines.iter().filter(|line| !(changes && counts(line))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(absent: &mut Absent, innodb: &str, millpond: &str) -> Option<&'static str> {
        let block = |text: &'static str| Block { lines: text.lines().collect() };
        let text = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        absent.explain(&block(text(innodb)), &block(text(millpond)))
    }

    #[test]
    fn the_guide_has_each_explanation() {
        let guide = std::fs::read_to_string(crate::root().join("docs/mariadb.md")).unwrap();
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [FOREIGN_KEYS, INDEXES, DIRECTORIES, COPY] {
            assert!(guide.contains(words), "{words}");
        }
    }

    #[test]
    fn a_warning_of_a_foreign_key_is_explained_and_a_row_is_not() {
        let absent = &mut Absent::default();
        let head = "create table t (a int references u (a));";
        let warning = "Warning\t1478\tInnoDB does not enforce foreign keys; the constraint '' has no effect";
        let warned = format!("{head}\nWarnings:\n{warning}");
        assert_eq!(explain(absent, head, &warned), Some(FOREIGN_KEYS));
        let other = format!("{warned}\nWarning\t1\tother");
        assert_eq!(explain(absent, head, &other), None);
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
        let read = "HANDLER h CLOSE;\nERROR 42S02: Unknown table 'h' in HANDLER";
        assert_eq!(explain(absent, "HANDLER h CLOSE;", read), Some(INDEXES));
        assert_eq!(explain(absent, "create table t1 (a int);", "create table t1 (a int);"), None);
        assert_eq!(explain(absent, missed[0], missed[1]), None);
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
}
