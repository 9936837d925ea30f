//! An entry as text for people.

use super::entry::{Entry, KEYS};
use std::fmt::Write;

/// The width of the column of keys.
const KEY_COLUMNS: usize = 10;

/// Returns an entry as text of at most `columns` columns.
pub(crate) fn entry(entry: &Entry, columns: usize) -> String {
    let mut text = String::new();
    let names = entry.names.join(", ");
    write_wrapped(&mut text, "", &names, 0, columns);
    for is in entry.all("is") {
        write_wrapped(&mut text, "", &format!("{}.", capital(is)), 0, columns);
    }
    text.push('\n');
    for key in KEYS.iter().filter(|key| **key != "is") {
        for (i, fact) in entry.all(key).enumerate() {
            let heading = if i == 0 { *key } else { "" };
            write_wrapped(&mut text, heading, fact, KEY_COLUMNS, columns);
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Writes `text` in lines, from the column `indent` on, with `heading` before the first.
fn write_wrapped(out: &mut String, heading: &str, text: &str, indent: usize, columns: usize) {
    let mut line = format!("{heading:indent$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > columns {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
