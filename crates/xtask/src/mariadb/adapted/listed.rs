//! The list `mariadb/adapted/differs`: tests whose results may differ, each with a checksum of the
//! difference and its reason.
//!
//! A difference quotes the results of MariaDB's tests, so it is not kept here: its checksum pins it
//! as well.

use super::choose::list_dir;
use crate::mariadb::write;

/// What stands between a test's name and its checksum where none is pinned yet.
const UNPINNED: &str = "-";

/// The list, with its comments.
#[derive(Debug)]
pub(super) struct Listed {
    lines: Vec<Line>,
    changed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Comment(String),
    Test { name: String, checksum: String, reason: String },
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
        let mut lines: Vec<Line> = Vec::new();
        for text in text.lines() {
            let line = parse_line(text).ok_or_else(|| format!("differs: no test and reason in: {text}"))?;
            if let Line::Test { name, .. } = &line
                && lines.iter().any(|other| matches!(other, Line::Test { name: known, .. } if known == name))
            {
                return Err(format!("differs names {name} twice"));
            }
            lines.push(line);
        }
        Ok(Listed { lines, changed: false })
    }

    /// Tells whether a test may differ in just this way.
    pub(super) fn permits(&self, test: &str, difference: &str) -> bool {
        let sum = checksum(difference);
        self.lines
            .iter()
            .any(|line| matches!(line, Line::Test { name, checksum, .. } if name == test && *checksum == sum))
    }

    /// Pins the difference of a test that is listed. Returns whether it is.
    pub(super) fn pin(&mut self, test: &str, difference: &str) -> bool {
        for line in &mut self.lines {
            match line {
                Line::Test { name, checksum: pinned, .. } if name == test => {
                    let sum = checksum(difference);
                    self.changed |= *pinned != sum;
                    *pinned = sum;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Writes the list if something was pinned.
    pub(super) fn save(&self) -> Result<(), String> {
        if self.changed { write(&list_dir().join("differs"), &self.text()) } else { Ok(()) }
    }

    fn text(&self) -> String {
        let line = |line: &Line| match line {
            Line::Comment(text) => format!("{text}\n"),
            Line::Test { name, checksum, reason } => format!("{name} {checksum} : {reason}\n"),
        };
        self.lines.iter().map(line).collect()
    }

    /// Returns the tests with their reasons.
    #[cfg(test)]
    fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().filter_map(|line| match line {
            Line::Test { name, reason, .. } => Some((name.as_str(), reason.as_str())),
            Line::Comment(_) => None,
        })
    }
}

/// Reads a comment, an empty line, or `SUITE.TEST CHECKSUM : REASON`.
fn parse_line(text: &str) -> Option<Line> {
    if text.starts_with('#') || text.trim().is_empty() {
        return Some(Line::Comment(text.to_owned()));
    }
    let (test, reason) = text.split_once(" : ")?;
    let (name, checksum) = test.split_once(' ')?;
    let known = checksum == UNPINNED || checksum.len() == 16 && u64::from_str_radix(checksum, 16).is_ok();
    known.then(|| Line::Test {
        name: name.to_owned(),
        checksum: checksum.to_owned(),
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

    /// A reason is a quotation of the guide, or says that rows or plans differ.
    #[test]
    fn the_guide_has_the_reason_of_each_difference() {
        let guide = std::fs::read_to_string(root().join("docs/mariadb.md")).unwrap();
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for (test, reason) in Listed::read().unwrap().reasons() {
            let quoted = reason.split('"').nth(1);
            let permitted = ["order of rows:", "plan:"].iter().any(|begin| reason.starts_with(begin));
            assert!(permitted || quoted.is_some_and(|words| guide.contains(words)), "{test}: {reason}");
        }
    }

    #[test]
    fn only_the_pinned_difference_is_permitted() {
        let text = "# Comment.\n\nmain.join - : plan: a reason\n";
        let mut listed = Listed::parse(text).unwrap();
        assert_eq!(listed.text(), text);
        assert!(!listed.permits("main.join", "-1\n") && !listed.pin("main.key", "-1\n"));
        assert!(listed.pin("main.join", "-1\n"));
        let listed = Listed::parse(&listed.text()).unwrap();
        assert!(listed.permits("main.join", "-1\n"));
        assert!(!listed.permits("main.join", "-2\n") && !listed.permits("main.key", "-1\n"));
    }

    #[test]
    fn a_line_has_a_name_a_checksum_and_a_reason_and_no_name_comes_twice() {
        for text in ["main.join : a\n", "main.join 12 : a\n", "main.join -\n", "a.b - : c\na.b - : d\n"] {
            assert!(Listed::parse(text).is_err(), "{text}");
        }
    }
}
