//! What a server shows of its databases: the tables, their definitions and rows, what is prepared,
//! the files, and the engine's own list of tables.

use super::super::server::Server;
use super::super::{output, sql};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Databases that are the server's own.
const OWN: &str = "('mysql', 'information_schema', 'performance_schema', 'sys')";
/// Begins a part of what a client prints.
const MARK: &str = "== ";
/// Names of the parts that only one server can have.
const FILES: &str = "files of ";

/// The parts by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture(BTreeMap<String, String>);

impl Picture {
    /// Looks at a server.
    pub(super) fn of(server: &Server) -> Result<Picture, String> {
        let databases = databases(server)?;
        let tables = tables(server)?;
        let mut text = format!(
            "SELECT '{MARK}prepared'; XA RECOVER FORMAT='SQL'; SELECT '{MARK}triggers'; SELECT \
             trigger_schema, trigger_name, event_object_table, action_statement FROM \
             information_schema.triggers WHERE trigger_schema NOT IN {OWN}; SELECT '{MARK}tables of the \
             engine'; SELECT table_schema, table_name, partition_name FROM \
             information_schema.MILLPOND_TABLES WHERE table_schema <> 'mysql';\n"
        );
        for (name, _) in &tables {
            let _ = write!(
                text,
                "SELECT '{MARK}definition of {name}';\nSHOW CREATE TABLE {name};\nSELECT '{MARK}rows of \
                 {name}';\nSELECT * FROM {name};\n"
            );
        }
        let mut parts = parts_of(&all_said(server, &text)?);
        let names: Vec<String> = tables.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        parts.insert("tables".into(), names.join("\n"));
        parts.insert("databases".into(), databases.join("\n"));
        for database in &databases {
            parts.insert(format!("{FILES}{database}"), files(&server.data().join(database))?);
        }
        Ok(Picture(parts))
    }

    /// Returns the picture without what a replayed server cannot have.
    pub(super) fn without_files(mut self) -> Picture {
        self.0.retain(|name, _| !name.starts_with(FILES));
        self
    }

    /// Returns the names of the parts in which the two differ.
    pub(super) fn differing(&self, other: &Picture) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        names.filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect()
    }

    /// Says how the two differ.
    pub(super) fn difference(&self, other: &Picture) -> String {
        let mut said = String::new();
        for name in self.differing(other) {
            let [left, right] = excerpts(self.0.get(&name), other.0.get(&name));
            let _ = writeln!(said, "      {name}: {left} against {right}");
        }
        said
    }
}

/// Returns the databases that are not the server's own.
pub(super) fn databases(server: &Server) -> Result<Vec<String>, String> {
    let names = format!("SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN {OWN}");
    Ok(sql(server, &names)?.lines().map(str::to_owned).collect())
}

/// Returns the names of all tables, sequences and views, and what they are.
fn tables(server: &Server) -> Result<Vec<(String, String)>, String> {
    let names = format!(
        "SELECT CONCAT(table_schema, '.`', table_name, '`'), IFNULL(table_type, 'BROKEN') FROM \
         information_schema.tables WHERE table_schema NOT IN {OWN} ORDER BY 1"
    );
    let said = sql(server, &names)?;
    let pairs = said.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect())
}

/// Checks all tables of a server.
pub(super) fn check_tables(server: &Server) -> Result<(), String> {
    let names: Vec<String> =
        tables(server)?.into_iter().filter(|(_, kind)| kind != "VIEW").map(|(name, _)| name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let said = sql(server, &format!("CHECK TABLE {}", names.join(", ")))?;
    let is_well = |line: &&str| line.ends_with("status\tOK") || line.ends_with("doesn't support check");
    said.lines().find(|line| !is_well(line)).map_or(Ok(()), |line| Err(format!("CHECK TABLE: {line}")))
}

/// Runs statements, and returns what they print, errors included.
pub(super) fn all_said(server: &Server, text: &str) -> Result<String, String> {
    let client = server.client();
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" \"$@\" 2>&1; true"]).arg(client.get_program()).args(client.get_args());
    output(shell.args(["--batch", "--skip-column-names", "--force", "--execute", text]))
}

/// Splits what was printed at the marks. Rows are sorted; where a counter stands is left out.
fn parts_of(said: &str) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = "before all".to_owned();
    for line in said.lines() {
        match line.strip_prefix(MARK) {
            Some(begins) => {
                name = begins.to_owned();
                parts.insert(name.clone(), Vec::new());
            }
            None => parts.entry(name.clone()).or_default().push(without_counter(line)),
        }
    }
    let join = |(name, mut lines): (String, Vec<String>)| {
        lines.sort();
        (name, lines.join("\n"))
    };
    parts.into_iter().map(join).collect()
}

/// Shows two texts from a little before the place where they differ.
fn excerpts(left: Option<&String>, right: Option<&String>) -> [String; 2] {
    const BEFORE: usize = 40;
    const SHOWN: usize = 300;
    let chars = |text: Option<&String>| text.map(|text| text.chars().collect::<Vec<_>>());
    let (left, right) = (chars(left), chars(right));
    let same = match (&left, &right) {
        (Some(left), Some(right)) => left.iter().zip(right).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    let from = same.saturating_sub(BEFORE);
    let shown = |text: Option<Vec<char>>| match text {
        None => "nothing".to_owned(),
        Some(text) => format!("{:?}", text.iter().skip(from).take(SHOWN).collect::<String>()),
    };
    [shown(left), shown(right)]
}

/// Leaves out ` AUTO_INCREMENT=7`: numbers that were given and not used may be lost.
fn without_counter(line: &str) -> String {
    const COUNTER: &str = " AUTO_INCREMENT=";
    match line.split_once(COUNTER) {
        Some((before, rest)) => before.to_owned() + rest.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => line.to_owned(),
    }
}

/// Returns the names of a directory's files, sorted.
fn files(dir: &Path) -> Result<String, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_part_for_each_mark_and_no_counter() {
        let said =
            "== rows of a\n2\n1\n== definition of a\nCREATE ENGINE=Millpond AUTO_INCREMENT=8 X\n== empty\n";
        let parts = parts_of(said);
        assert_eq!(parts["rows of a"], "1\n2");
        assert_eq!(parts["definition of a"], "CREATE ENGINE=Millpond X");
        assert_eq!(parts["empty"], "");
        let (one, other) = (Picture(parts.clone()), Picture(BTreeMap::new()));
        assert!(one.difference(&one).is_empty());
        assert!(one.difference(&other).contains("rows of a: \"1\\n2\" against nothing"));
    }
}
