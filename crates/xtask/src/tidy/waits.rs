//! Every wait of the engine is documented: the table of `docs/locking.md` under "Every wait" names
//! each function that sleeps or spins, and what ends its wait when the database is poisoned or
//! closed.

use super::markdown_table::{Row, rows};
use super::problem::Report;
use super::reach::Reach;
use super::source::{Tree, is_ident, line_of, without_tests};
use std::collections::BTreeSet;

/// The directory of the engine. Paths in the table are relative to it.
const ENGINE: &str = "crates/millpond/src/";
/// The document with the table.
const TABLE: &str = "docs/locking.md";
const HEADING: &str = "## Every wait";

/// Calls in which a thread waits for another one. Mutexes have tables of their own.
const WAITS: &[&str] =
    &[".park()", ".park_for(", "futex_wait(", ".wait(&mut ", ".wait_for(&mut ", "spin(&mut ", ".join()"];

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    let Some(doc) = tree.get(TABLE) else { return };
    let mut named = named(&doc.text);
    for file in tree.rust().filter(|file| !reach.is_test(&file.path)) {
        let Some(path) = file.path.strip_prefix(ENGINE) else { continue };
        let code = without_tests(&file.code);
        let mut missing = BTreeSet::new();
        for (at, _) in WAITS.iter().flat_map(|wait| code.match_indices(wait)) {
            // A method of that name. The table names its own wait.
            if code[..at].ends_with("self") {
                continue;
            }
            let function = enclosing(&code[..at]).to_owned();
            match named.iter_mut().find(|row| row.path == path && row.function == function) {
                Some(row) => row.found = true,
                None => drop(missing.insert((line_of(&code, at), function))),
            }
        }
        for (line, function) in missing {
            let what =
                format!("`{function}` waits: name it under \"Every wait\" in {TABLE}, and what ends it");
            report(&file.path, line, what);
        }
    }
    for row in named.iter().filter(|row| !row.found) {
        report(TABLE, row.line, format!("nothing waits in `{}` of {}", row.function, row.path));
    }
}

/// A function that the table names.
struct WaitRow<'t> {
    path: &'t str,
    function: &'t str,
    line: usize,
    found: bool,
}

/// Returns the functions that the table names: the first cell of a row has a path, then functions.
fn named(text: &str) -> Vec<WaitRow<'_>> {
    let mut named = Vec::new();
    for Row { line, names } in rows(text, HEADING) {
        let Some((path, functions)) = names.split_first() else { continue };
        named.extend(functions.iter().map(|function| WaitRow { path, function, line, found: false }));
    }
    named
}

/// Returns the name of the function in which `code` ends.
fn enclosing(code: &str) -> &str {
    let Some(at) = code.rfind("fn ") else { return "" };
    let name = &code[at + 3..];
    &name[..name.find(|c| !is_ident(c)).unwrap_or(name.len())]
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(code: &str, table: &str) -> Vec<String> {
        let doc =
            format!("# Locks\n\n{HEADING}\n\n| where | ended by |\n| --- | --- |\n{table}\n\n## Threads\n");
        made::found(&[("crates/millpond/src/log/a.rs", code), (TABLE, &doc)], check)
    }

    #[test]
    fn a_wait_that_the_table_does_not_name_is_found() {
        let code = "fn one() {\n    parker.park();\n}\nfn two() { spin(&mut spins); }";
        assert_eq!(found(code, "| `log/a.rs` `one` `two` | all |"), Vec::<String>::new());
        let missing = found(code, "| `log/a.rs` `one` | all |");
        assert!(missing.len() == 1 && missing[0].starts_with("crates/millpond/src/log/a.rs:4: `two` waits"));
        assert_eq!(found(code, "").len(), 2);
        assert_eq!(found("#[cfg(test)]\nmod tests { fn t() { p.park(); } }", "").len(), 0);
    }

    #[test]
    fn a_row_without_a_wait_is_found() {
        let stale = found("fn one() { dir.join(name); self.join(); }", "| `log/a.rs` `one` | all |");
        assert_eq!(stale, ["docs/locking.md:7: nothing waits in `one` of log/a.rs"]);
    }
}
