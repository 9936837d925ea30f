//! The list `mariadb/differs`: tests that may end otherwise with Millpond than with InnoDB, each
//! with a checksum of the difference and its reason, which is one of [`differences`].
//!
//! A difference quotes the results of tests of others, so it is not kept here: its checksum pins it
//! as well.

use super::{differences, write};
use checkout::root;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What stands in the place of a checksum where none is pinned yet.
const UNPINNED: &str = "-";

/// The list, with its comments.
#[derive(Debug)]
pub(super) struct Listed {
    file: PathBuf,
    lines: Vec<Line>,
    changed: bool,
}

#[derive(Debug)]
enum Line {
    Comment(String),
    Test(Test),
}

/// A test of the list. Its name may have spaces in it.
#[derive(Debug)]
struct Test {
    name: String,
    checksum: String,
    reason: String,
}

/// What the list says of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The test is not listed.
    Unlisted,
    /// The test may differ in just this way.
    Permitted,
    /// The test may differ, but another way is pinned, or none.
    Otherwise,
}

impl Listed {
    /// Reads the list.
    pub(super) fn read() -> Result<Listed, String> {
        let file = root().join("mariadb/differs");
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let listed = Listed::parse(file, &text)?;
        if let Some(test) = listed.tests().find(|test| !differences::permits(&test.reason)) {
            return Err(format!("{} differs for no permitted reason: {}", test.name, test.reason));
        }
        Ok(listed)
    }

    fn parse(file: PathBuf, text: &str) -> Result<Listed, String> {
        let mut known = BTreeSet::new();
        let mut lines = Vec::new();
        for text in text.lines() {
            let line = parse_line(text)
                .ok_or_else(|| format!("{}: no test, checksum and reason in: {text}", file.display()))?;
            if let Line::Test(test) = &line
                && !known.insert(test.name.clone())
            {
                return Err(format!("{} names {} twice", file.display(), test.name));
            }
            lines.push(line);
        }
        Ok(Listed { file, lines, changed: false })
    }

    /// Returns the names of the tests.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tests().map(|test| test.name.as_str())
    }

    /// Tells whether a test may differ in this way.
    pub(super) fn standing(&self, name: &str, difference: &str) -> Standing {
        match self.tests().find(|test| test.name == name) {
            None => Standing::Unlisted,
            Some(test) if test.checksum == checksum(difference) => Standing::Permitted,
            Some(_) => Standing::Otherwise,
        }
    }

    /// Tells whether the list permits a test to differ in this way.
    pub(super) fn permits(&self, name: &str, difference: &str) -> bool {
        self.standing(name, difference) == Standing::Permitted
    }

    /// Pins the difference of a test that is listed. Returns whether it is.
    pub(super) fn pin(&mut self, name: &str, difference: &str) -> bool {
        let mut tests = self.lines.iter_mut().filter_map(Line::test_mut);
        let Some(test) = tests.find(|test| test.name == name) else { return false };
        let sum = checksum(difference);
        self.changed |= test.checksum != sum;
        test.checksum = sum;
        true
    }

    /// Writes the list if something else was pinned.
    pub(super) fn save(&self) -> Result<(), String> {
        if self.changed { write(&self.file, &self.text()) } else { Ok(()) }
    }

    fn text(&self) -> String {
        let line = |line: &Line| match line {
            Line::Comment(text) => format!("{text}\n"),
            Line::Test(Test { name, checksum, reason }) => format!("{name} {checksum} : {reason}\n"),
        };
        self.lines.iter().map(line).collect()
    }

    fn tests(&self) -> impl Iterator<Item = &Test> {
        self.lines.iter().filter_map(|line| match line {
            Line::Comment(_) => None,
            Line::Test(test) => Some(test),
        })
    }
}

impl Line {
    fn test_mut(&mut self) -> Option<&mut Test> {
        match self {
            Line::Comment(_) => None,
            Line::Test(test) => Some(test),
        }
    }
}

/// Reads a comment, an empty line, or `NAME CHECKSUM : REASON`.
fn parse_line(text: &str) -> Option<Line> {
    if text.starts_with('#') || text.trim().is_empty() {
        return Some(Line::Comment(text.to_owned()));
    }
    // A name may have a colon between spaces in it, a reason has none.
    let (test, reason) = text.rsplit_once(" : ")?;
    let (name, checksum) = test.rsplit_once(' ')?;
    let known = checksum == UNPINNED || checksum.len() == 16 && u64::from_str_radix(checksum, 16).is_ok();
    known.then(|| {
        Line::Test(Test {
            name: name.to_owned(),
            checksum: checksum.to_owned(),
            reason: reason.trim().to_owned(),
        })
    })
}

/// FNV-1a.
fn checksum(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a list of this text. It has no file.
    pub(crate) fn list(text: &str) -> Result<Listed, String> {
        Listed::parse(PathBuf::from("differs"), text)
    }

    #[test]
    fn each_test_has_a_checksum_and_a_permitted_reason() {
        let listed = Listed::read().unwrap();
        assert!(listed.tests().all(|test| test.checksum != UNPINNED));
    }

    #[test]
    fn only_the_pinned_difference_is_permitted() {
        let text = "# Comment.\n\nmain.join - : plan: a reason\ndjango a b : c[ ] - : \"why\"\n";
        let mut listed = list(text).unwrap();
        assert_eq!(listed.text(), text);
        assert_eq!(listed.names().collect::<Vec<_>>(), ["main.join", "django a b : c[ ]"]);
        assert_eq!(listed.standing("main.join", "-1\n"), Standing::Otherwise);
        assert!(!listed.pin("main.key", "-1\n") && !listed.changed);
        assert!(listed.pin("main.join", "-1\n") && listed.changed);
        let listed = list(&listed.text()).unwrap();
        assert_eq!(listed.standing("main.join", "-1\n"), Standing::Permitted);
        assert_eq!(listed.standing("main.join", "-2\n"), Standing::Otherwise);
        assert_eq!(listed.standing("main.key", "-1\n"), Standing::Unlisted);
    }

    #[test]
    fn a_line_has_a_name_a_checksum_and_a_reason_and_no_name_comes_twice() {
        for text in ["main.join : a\n", "main.join 12 : a\n", "main.join -\n", "a.b - : c\na.b - : d\n"] {
            assert!(list(text).is_err(), "{text}");
        }
    }
}
