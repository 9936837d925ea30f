//! An entry as text for people.

use super::entry::{Entry, KEYS};
use crate::wrap::wrapped;

/// The width of the column of keys.
const KEY_COLUMNS: usize = 10;

/// Returns an entry as text of at most `columns` columns.
pub(crate) fn entry(entry: &Entry, columns: usize) -> String {
    let mut text = String::new();
    let names = entry.names.join(", ");
    text.push_str(&wrapped("", &names, 0, columns));
    for is in entry.all("is") {
        text.push_str(&wrapped("", &format!("{}.", capital(is)), 0, columns));
    }
    text.push('\n');
    for key in KEYS.iter().filter(|key| **key != "is") {
        for (i, fact) in entry.all(key).enumerate() {
            let heading = if i == 0 { *key } else { "" };
            text.push_str(&wrapped(heading, fact, KEY_COLUMNS, columns));
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
