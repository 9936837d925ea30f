//! The programs and what runs their tests, from the Python package index, into
//! `target/mariadb/programs`.
//!
//! `mariadb/programs` pins each package by version and checksum: `tools.txt` the packages that are
//! installed into a virtual environment, `sources.txt` the source packages that have the tests. The
//! index is the one that pip is set up for.

use super::lists::list_dir;
use crate::packages::install;
use crate::{make_dir, output, target, write};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's Python, whatever other versions come before it in the path.
const PYTHON: &str = "/usr/bin/python3";

/// What is fetched.
#[derive(Debug)]
pub(super) struct Fetched {
    dir: PathBuf,
}

/// How fetching ended.
#[derive(Debug)]
pub(super) enum Answer {
    /// All is there.
    Fetched(Fetched),
    /// No package index answers. The text says what pip said.
    NotReached(String),
}

impl Fetched {
    /// Returns the interpreter that has the tools.
    pub(super) fn python(&self) -> PathBuf {
        self.dir.join("venv/bin/python")
    }

    /// Returns the directory of a program's source package, such as `django-5.2.19`.
    pub(super) fn source(&self, program: &str) -> Result<PathBuf, String> {
        let dir = self.dir.join("sources");
        let entries = std::fs::read_dir(&dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
        let begin = format!("{program}-");
        let is_it = |path: &PathBuf| {
            path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin))
        };
        let found = entries.flatten().map(|entry| entry.path()).find(is_it);
        found.ok_or_else(|| format!("no sources of {program} in {}", dir.display()))
    }
}

/// Returns what is fetched. Nothing is done if it is there and the lists are as they were.
pub(super) fn fetch() -> Result<Answer, String> {
    let dir = target().join("programs");
    let lists = ["tools.txt", "sources.txt"].map(|list| list_dir().join(list));
    let read =
        |list: &PathBuf| read_to_string(list).map_err(|e| format!("cannot read {}: {e}", list.display()));
    let wanted = read(&lists[0])? + &read(&lists[1])?;
    let done = dir.join("fetched");
    let fetched = Fetched { dir: dir.clone() };
    if read_to_string(&done).is_ok_and(|text| text == wanted) {
        return Ok(Answer::Fetched(fetched));
    }
    install(&["python3-venv"])?;
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    make_dir(&dir)?;
    println!("fetching the packages of {}", list_dir().display());
    output(Command::new(PYTHON).args(["-m", "venv"]).arg(dir.join("venv")))?;
    match packages(&fetched, &lists) {
        Ok(()) => {}
        Err(said) if is_out_of_reach(&said) => return Ok(Answer::NotReached(said)),
        Err(said) => return Err(said),
    }
    write(&done, &wanted)?;
    Ok(Answer::Fetched(fetched))
}

/// Installs the tools, downloads the source packages, and unpacks them.
fn packages(fetched: &Fetched, lists: &[PathBuf; 2]) -> Result<(), String> {
    let pip = |word: &str, only: [&str; 2], list: &Path| {
        let mut pip = Command::new(fetched.python());
        pip.args(["-m", "pip", word, "--quiet", "--require-hashes", "--no-deps"]);
        // The source packages are asked for their names by the tools that are installed.
        pip.args(only).arg("--no-build-isolation").arg("--requirement").arg(list);
        pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("DISABLE_SQLALCHEMY_CEXT", "1");
        pip
    };
    output(&mut pip("install", ["--only-binary", ":all:"], &lists[0]))?;
    let sources = fetched.dir.join("sources");
    output(pip("download", ["--no-binary", ":all:"], &lists[1]).arg("--dest").arg(&sources))?;
    let unpack = "for archive in *.tar.gz; do tar --extract --gzip --file \"$archive\" || exit; done";
    output(Command::new("sh").args(["-c", unpack]).current_dir(&sources)).map(drop)
}

/// Tells from what pip says whether no index answers it. An index that answers, but not with the
/// pinned package, is an error.
fn is_out_of_reach(said: &str) -> bool {
    said.contains("(from versions: none)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_index_that_names_no_version_is_out_of_reach() {
        let none = "ERROR: Could not find a version that satisfies the requirement django==5.2.19 (from \
                    versions: none)";
        let other = "ERROR: Could not find a version that satisfies the requirement django==5.2.19 (from \
                     versions: 5.1, 5.2)";
        let changed = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.";
        assert!(is_out_of_reach(none));
        assert!(!is_out_of_reach(other) && !is_out_of_reach(changed));
    }

    #[test]
    fn each_package_is_pinned_by_version_and_checksum() {
        for list in ["tools.txt", "sources.txt"] {
            let text = read_to_string(list_dir().join(list)).unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (package, checksum) = line.split_once(" --hash=sha256:").unwrap();
                assert!(package.contains("==") && checksum.len() == 64, "{line}");
            }
        }
    }
}
