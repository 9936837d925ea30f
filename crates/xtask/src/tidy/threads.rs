//! The engine's threads: the table of ARCHITECTURE under "Threads" names each thread that the
//! engine starts, and no other.

use super::markdown_table::rows;
use super::problem::Report;
use super::reach::Reach;
use super::source::{Tree, line_of, without_tests};
use std::collections::BTreeMap;

const ENGINE: &str = "crates/millpond/src/";
const TABLE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Threads";
/// Names of threads begin so, so that a user sees whose they are.
const PREFIX: &str = "\"millpond-";
/// What stands before a name that is a thread's: a call that starts one, or a name of the roster.
const STARTS: &[&str] = &["spawn(", "spawn_engine(", "=> "];

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    let Some(doc) = tree.get(TABLE) else { return };
    let mut named: BTreeMap<&str, (usize, bool)> = rows(&doc.text, HEADING)
        .flat_map(|row| row.names.into_iter().map(move |name| (name, (row.line, false))))
        .collect();
    for file in tree.rust().filter(|file| file.path.starts_with(ENGINE) && !reach.is_test(&file.path)) {
        // Names are literals, so they are in the text, and blank in the code.
        let code = without_tests(&file.code);
        for (at, _) in file.text.match_indices(PREFIX) {
            let (line, column) = place(&file.text, at);
            let kept = code.lines().nth(line - 1).unwrap_or("");
            let before: String = kept.chars().take(column).collect();
            if !STARTS.iter().any(|start| before.ends_with(start)) {
                continue;
            }
            let name = file.text[at + 1..].split('"').next().unwrap_or("");
            match named.get_mut(name) {
                Some((_, found)) => *found = true,
                None => report(&file.path, line, format!("{name} is not in the table of threads ({TABLE})")),
            }
        }
    }
    for (name, (line, _)) in named.iter().filter(|(_, (_, found))| !found) {
        report(TABLE, *line, format!("the engine starts no thread {name}"));
    }
}

/// Returns the line of an offset, from 1, and how many characters are before it in the line.
fn place(text: &str, at: usize) -> (usize, usize) {
    let begin = text[..at].rfind('\n').map_or(0, |n| n + 1);
    (line_of(text, at), text[begin..at].chars().count())
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    #[test]
    fn threads_and_table_are_compared() {
        let found = |code| {
            let table =
                "## Threads\n\n| name | work |\n| --- | --- |\n| `millpond-a`, `millpond-b` | both |\n";
            made::found(&[(TABLE, table), ("crates/millpond/src/lib.rs", code)], check)
        };
        let both = "fn f() { spawn(\"millpond-a\", g); }\nmatch w { W::B => \"millpond-b\" }";
        assert!(found(both).is_empty());
        let other = format!("{both}\nspawn_engine(\"millpond-c\", g); let dir = \"millpond-d\";");
        let what =
            "crates/millpond/src/lib.rs:3: millpond-c is not in the table of threads (ARCHITECTURE.md)";
        assert_eq!(found(&other), [what]);
        let one = found(
            "spawn(\"millpond-a\", g); #[cfg(test)]\nmod tests { fn f() { spawn(\"millpond-b\", g) } }",
        );
        assert_eq!(one, ["ARCHITECTURE.md:5: the engine starts no thread millpond-b"]);
    }
}
