//! Every wait of the engine is documented: the table of `docs/locking.md` under "Every wait" names
//! each function that sleeps or spins, and what ends its wait when the database is poisoned or
//! closed.

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
    let mut named = rows(&doc.text);
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
struct WaitRow {
    path: String,
    function: String,
    line: usize,
    found: bool,
}

/// Returns the rows of the table. The first cell has a path, then functions, each in backquotes.
fn rows(text: &str) -> Vec<WaitRow> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let cells = section.filter_map(|(n, line)| Some((n + 1, line.strip_prefix("| ")?.split(" | ").next()?)));
    cells
        .flat_map(|(line, cell)| {
            let mut quoted = cell.split('`').skip(1).step_by(2);
            let path = quoted.next().unwrap_or_default().to_owned();
            let functions: Vec<_> = quoted.map(str::to_owned).collect();
            functions.into_iter().map(move |function| WaitRow {
                path: path.clone(),
                function,
                line,
                found: false,
            })
        })
        .collect()
}

/// Returns the name of the function in which `code` ends.
fn enclosing(code: &str) -> &str {
    let Some(at) = code.rfind("fn ") else { return "" };
    let name = &code[at + 3..];
    &name[..name.find(|c| !is_ident(c)).unwrap_or(name.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str, table: &str) -> Vec<String> {
        let doc =
            format!("# Locks\n\n{HEADING}\n\n| where | ended by |\n| --- | --- |\n{table}\n\n## Threads\n");
        let tree = Tree::made_of(&[("crates/millpond/src/log/a.rs", code), (TABLE, &doc)]);
        let mut out = Vec::new();
        check(&tree, &Reach::of(&tree), &mut |path, line, what| out.push(format!("{path}:{line}: {what}")));
        out
    }

    #[test]
    fn a_wait_that_the_table_does_not_name_is_found() {
        let code = "fn one() {\n    parker.park();\n}\nfn two() { spin(&mut turn); }";
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
