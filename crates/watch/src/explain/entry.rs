//! The text format of the facts, and its parser.
//!
//! A line in the first column begins an entry: names with commas between them. A line that begins
//! with two spaces is a fact, `key: text`. A line with four spaces continues the line before. `#`
//! begins a comment.

/// What is known of one setting, or of a few that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its names, the usual one first.
    pub(crate) names: Vec<String>,
    /// Key and text of each fact, in the order of the file.
    pub(crate) facts: Vec<(String, String)>,
}

/// The keys that a fact may have, in the order in which they are shown.
pub(crate) const KEYS: [&str; 9] =
    ["is", "does", "default", "values", "formula", "versions", "trades", "millpond", "see"];

impl Entry {
    /// Returns the texts of all facts with this key.
    pub(crate) fn all<'e>(&'e self, key: &'e str) -> impl Iterator<Item = &'e str> {
        self.facts.iter().filter(move |(k, _)| k == key).map(|(_, text)| text.as_str())
    }

    /// Returns the names that the entry refers to.
    #[cfg(test)]
    pub(crate) fn related(&self) -> impl Iterator<Item = &str> {
        self.all("see").flat_map(|text| text.split(',')).map(str::trim)
    }
}

/// Reads a file. What has no form is left out; a test finds that there is none.
pub(crate) fn parse(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in joined(text) {
        match (line.strip_prefix("  "), entries.last_mut()) {
            (Some(fact), Some(entry)) => {
                if let Some((key, text)) = fact.split_once(": ") {
                    entry.facts.push((key.to_owned(), text.to_owned()));
                }
            }
            (Some(_), None) => {}
            (None, _) => {
                let names = line.split(',').map(|name| name.trim().to_owned()).collect();
                entries.push(Entry { names, facts: Vec::new() });
            }
        }
    }
    entries
}

/// Returns the lines without comments, and with what continues them.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), lines.last_mut()) {
            (Some(more), Some(last)) => {
                last.push(' ');
                last.push_str(more.trim());
            }
            _ => lines.push(line.trim_end().to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_facts_and_what_continues_them_are_read() {
        let text = "# comment\n\na, b,\n    c\n  is: setting\n  does: one\n    two: three\n  see: x, y\n\nd\n  is: figure\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].names, ["a", "b", "c"]);
        assert_eq!(entries[0].all("does").collect::<Vec<_>>(), ["one two: three"]);
        assert_eq!(entries[0].related().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(entries[1].facts, [("is".to_owned(), "figure".to_owned())]);
    }

    #[test]
    fn a_text_without_form_is_no_panic() {
        for text in
            ["", "  is: fact of nothing", "    more", "a\n  fact\n", ",\n", "\u{e9}\n  \u{e9}: \u{e9}"]
        {
            let _ = parse(text);
        }
    }
}
