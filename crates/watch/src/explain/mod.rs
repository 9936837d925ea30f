//! What settings and figures mean: InnoDB's, the server's and Millpond's.
//!
//! The facts are in text files beside this one, which the program contains; [`entry`] reads them.
//! Millpond's own figures come from the catalog of metrics. `nearest` finds what a wrong name may
//! have meant, [`show`] prints.

mod entry;
mod figures;
mod nearest;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use nearest::nearest;

use entry::Entry;
use output::failure::Failure;
use std::fmt::Write;

/// The files, in the order in which they are listed.
const FILES: [(&str, &str); 9] = [
    ("The redo log", include_str!("log.txt")),
    ("Writing pages", include_str!("flushing.txt")),
    ("The buffer pool", include_str!("pool.txt")),
    ("Threads, undo, locks", include_str!("threads.txt")),
    ("The binary log", include_str!("commit.txt")),
    ("The server and the file system", include_str!("server.txt")),
    ("Tables, indexes and statistics of InnoDB", include_str!("tables.txt")),
    ("What of InnoDB is rarely set", include_str!("more.txt")),
    ("Status variables", include_str!("status.txt")),
];

/// Millpond's own options and settings.
const OWN: (&str, &str) = ("Millpond", include_str!("millpond.txt"));

/// The widest line that is printed.
const COLUMNS: usize = 80;

/// How many names are proposed for one that is unknown.
const PROPOSALS: usize = 3;

/// Returns what `name` means, as text. Its case does not count, `-` is `_`, and `@@global.` or
/// `--` before it is left out.
pub(crate) fn explain(name: &str) -> Result<String, Failure> {
    let wanted = normal(name);
    let found = entries().into_iter().find(|entry| entry.names.iter().any(|n| normal(n) == wanted));
    match found.or_else(|| figures::find(&wanted)) {
        Some(entry) => Ok(show::entry(&entry, COLUMNS)),
        None => Err(Failure::misuse(unknown(name, &wanted))),
    }
}

/// Returns all names that [`explain`] knows, in groups, as text.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for (title, file) in FILES.iter().chain([&OWN]) {
        let _ = writeln!(text, "{title}:");
        for entry in entry::parse(file) {
            let _ = writeln!(text, "  {}", entry.names.join(", "));
        }
    }
    text.push_str("Figures of Millpond (in MariaDB with Millpond_ before the name):\n");
    for name in figures::names() {
        let _ = writeln!(text, "  {name}");
    }
    text
}

fn entries() -> Vec<Entry> {
    FILES.iter().chain([&OWN]).flat_map(|(_, file)| entry::parse(file)).collect()
}

fn unknown(name: &str, wanted: &str) -> String {
    let known = entries().into_iter().flat_map(|entry| entry.names).chain(figures::names());
    let near = nearest(wanted, known, PROPOSALS);
    match near.split_last() {
        None => format!("nothing is known of {name:?}: `millpond explain --list` shows all names"),
        Some((only, [])) => format!("nothing is known of {name:?}; did you mean {only}?"),
        Some((last, others)) => {
            format!("nothing is known of {name:?}; did you mean {} or {last}?", others.join(", "))
        }
    }
}

/// Returns a name in the form in which names are compared.
fn normal(name: &str) -> String {
    let name = name.trim().to_lowercase().replace('-', "_");
    let name = name.trim_start_matches('_').trim_start_matches("@@");
    ["global.", "session.", "local."].iter().find_map(|scope| name.strip_prefix(scope)).unwrap_or(name).into()
}
