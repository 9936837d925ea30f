//! The list `mariadb/programs/differs`: the tests that end differently, each with a checksum of the
//! difference and its reason.

use super::list_dir;
use crate::mariadb::write;
use std::collections::{BTreeMap, BTreeSet};

/// What stands in the place of a checksum where none is pinned yet.
const UNPINNED: &str = "-";

/// The list, with its comments.
#[derive(Debug)]
pub(super) struct Listed {
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Comment(String),
    Test { checksum: String, name: String, reason: String },
}

impl Listed {
    /// Reads the list.
    pub(super) fn read() -> Result<Listed, String> {
        let file = list_dir().join("differs");
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        Listed::parse(&text)
    }

    fn parse(text: &str) -> Result<Listed, String> {
        let mut known = BTreeSet::new();
        let mut lines = Vec::new();
        for text in text.lines() {
            let line = parse_line(text)
                .ok_or_else(|| format!("differs: no checksum, program, test and reason in: {text}"))?;
            if let Line::Test { name, .. } = &line
                && !known.insert(name.clone())
            {
                return Err(format!("differs names {name} twice"));
            }
            lines.push(line);
        }
        Ok(Listed { lines })
    }

    /// Compares the differences of the tests that ran with the list. Returns a sentence for each
    /// that is not in it as it is, and for each listed one that did not come. `ran` tells of a
    /// listed test whether it ran.
    pub(super) fn judge(&self, found: &BTreeMap<String, String>, ran: impl Fn(&str) -> bool) -> Vec<String> {
        let mut bad = Vec::new();
        let tests = self.tests();
        for (name, difference) in found {
            match tests.get(name.as_str()) {
                None => bad.push(format!("{name} is not listed:\n{difference}")),
                Some((pinned, _)) if *pinned != checksum(difference) => {
                    bad.push(format!("{name} differs in another way than was pinned:\n{difference}"));
                }
                Some(_) => {}
            }
        }
        let gone = tests.keys().filter(|name| !found.contains_key(**name) && ran(name));
        bad.extend(gone.map(|name| format!("{name} is listed, and does not differ")));
        bad
    }

    /// Pins the differences of the tests that are listed, and writes the list.
    pub(super) fn pin(&mut self, found: &BTreeMap<String, String>) -> Result<(), String> {
        for line in &mut self.lines {
            if let Line::Test { checksum: pinned, name, .. } = line
                && let Some(difference) = found.get(name)
            {
                *pinned = checksum(difference);
            }
        }
        write(&list_dir().join("differs"), &self.text())
    }

    fn text(&self) -> String {
        let line = |line: &Line| match line {
            Line::Comment(text) => format!("{text}\n"),
            Line::Test { checksum, name, reason } => format!("{checksum} {name} : {reason}\n"),
        };
        self.lines.iter().map(line).collect()
    }

    /// Returns checksum and reason of each test.
    fn tests(&self) -> BTreeMap<&str, (&str, &str)> {
        self.lines.iter().filter_map(of_line).collect()
    }
}

fn of_line(line: &Line) -> Option<(&str, (&str, &str))> {
    match line {
        Line::Comment(_) => None,
        Line::Test { checksum, name, reason } => Some((name, (checksum, reason))),
    }
}

/// Reads a comment, an empty line, or `CHECKSUM PROGRAM TEST : REASON`.
fn parse_line(text: &str) -> Option<Line> {
    if text.starts_with('#') || text.trim().is_empty() {
        return Some(Line::Comment(text.to_owned()));
    }
    let (test, reason) = text.rsplit_once(" : ")?;
    let (checksum, name) = test.split_once(' ')?;
    let known = checksum == UNPINNED || checksum.len() == 16 && u64::from_str_radix(checksum, 16).is_ok();
    (known && name.contains(' ')).then(|| Line::Test {
        checksum: checksum.to_owned(),
        name: name.to_owned(),
        reason: reason.trim().to_owned(),
    })
}

/// FNV-1a.
fn checksum(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn the_guide_has_the_reason_of_each_difference() {
        let guide = std::fs::read_to_string(root().join("docs/mariadb.md")).unwrap();
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for (test, (checksum, reason)) in Listed::read().unwrap().tests() {
            assert_ne!(checksum, UNPINNED, "{test}");
            let quoted = reason.split('"').nth(1);
            assert!(quoted.is_some_and(|words| guide.contains(words)), "{test}: {reason}");
        }
    }

    #[test]
    fn what_differs_is_exactly_what_is_listed() {
        let found = |text: &str| BTreeMap::from([("django a.b".to_owned(), text.to_owned())]);
        let sum = checksum("one");
        let list = Listed::parse(&format!("# Comment.\n\n{sum} django a.b : \"why\"\n")).unwrap();
        assert!(list.judge(&found("one"), |_| true).is_empty());
        assert!(list.judge(&found("two"), |_| true)[0].contains("in another way"));
        assert!(list.judge(&BTreeMap::new(), |_| true)[0].contains("does not differ"));
        assert!(list.judge(&BTreeMap::new(), |_| false).is_empty());
        let none = Listed::parse("").unwrap();
        assert!(none.judge(&found("one"), |_| true)[0].contains("is not listed"));
    }

    #[test]
    fn a_line_has_a_checksum_a_program_a_test_and_a_reason_and_no_name_comes_twice() {
        for text in ["django a : b\n", "- django : b\n", "- django a\n", "- d a : b\n- d a : c\n"] {
            assert!(Listed::parse(text).is_err(), "{text}");
        }
    }
}
