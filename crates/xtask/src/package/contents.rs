//! What all packages have: the program, its licences, and what they say of it.

use super::target::Target;

/// The name of the wheel and of the npm package. That of the program and of Debian's is `millpond`.
pub(super) const NAME: &str = "millpond-lab";
/// The licence, as SPDX writes it.
pub(super) const LICENCE: &str = "MIT OR Apache-2.0";
/// One line of what it is.
pub(super) const SUMMARY: &str = "Runs, benchmarks, crashes, checks and watches storage engines";
/// What it is, in lines of at most 78 characters.
pub(super) const DESCRIPTION: &[&str] = &[
    "The program `millpond` runs workloads on the storage engine Millpond and over",
    "SQL on servers of MariaDB and MySQL, kills them and checks what they have",
    "acknowledged, measures disks, and shows the write path of a server live, in a",
    "terminal or in a browser. The program needs no library.",
];

/// A text that comes with the program.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// A file name.
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// What is packed.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) target: Target,
    pub(super) version: &'static str,
    pub(super) program: Vec<u8>,
    pub(super) licences: Vec<Text>,
}

#[cfg(test)]
pub(super) fn example() -> Contents {
    let text = |name, text: &str| Text { name, bytes: text.into() };
    Contents {
        target: Target::of("x86_64").unwrap(),
        version: "1.2.3",
        program: b"\x7fELF".to_vec(),
        licences: vec![text("LICENSE-MIT", "MIT\n"), text("THIRD-PARTY", "theirs\n")],
    }
}
