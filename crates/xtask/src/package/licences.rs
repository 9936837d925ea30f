//! The licences of all that is in the program: of its crates, of Rust's library, and of the C
//! library. A package of the program must carry them.

use super::contents::Text;
use super::target::Target;
use crate::dependencies::{RULES, list, told};
use checkout::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file is the text of a licence, or what a licence tells one to keep, if its name begins so.
const NAMES: &[&str] = &["license", "licence", "unlicense", "copying", "copyright", "notice"];

/// What Debian says of the C library, and the licence that is named there.
const LIBC: [&str; 2] = ["/usr/share/doc/libc6-dev/copyright", "/usr/share/common-licenses/LGPL-2.1"];

/// A crate of the program.
struct Crate {
    /// Its name and version.
    name: String,
    licence: String,
    /// Its files about licences: names and texts.
    files: Vec<(String, String)>,
}

/// Returns the texts that all packages carry.
pub(super) fn collect(target: Target) -> Result<Vec<Text>, String> {
    let own = |name| Ok::<_, String>(Text { name, bytes: read(&root().join(name))?.into() });
    Ok(vec![
        own("LICENSE-MIT")?,
        own("LICENSE-APACHE")?,
        Text { name: "LICENSES-OF-CRATES", bytes: page(&crates(target)?).into() },
        Text { name: "LICENSE-OF-C-LIBRARY", bytes: c_library()?.into() },
        Text { name: "LICENSES-OF-RUST-LIBRARY.html", bytes: rust_library()?.into() },
    ])
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the crates in the program that are not of this repository.
fn crates(target: Target) -> Result<Vec<Crate>, String> {
    let tree = ["tree", "--locked", "--package", "lab", "--edges", "normal,no-proc-macro"];
    let form = ["--target", target.triple, "--prefix", "none", "--no-dedupe", "--format", "{p}"];
    let tree = told(&[&tree[..], &form].concat())?;
    let metadata = told(&["metadata", "--format-version", "1", "--locked", "--all-features"])?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let linked = linked(&String::from_utf8_lossy(&tree), &metadata)?;
    linked.into_iter().map(|(name, package)| of_package(name, package)).collect()
}

/// Returns the packages of `cargo tree` that are not of this repository, with what `cargo metadata`
/// tells of them.
fn linked<'m>(tree: &str, metadata: &'m Value) -> Result<Vec<(String, &'m Value)>, String> {
    let of = |package: &Value, field: &str| package[field].as_str().unwrap_or("").to_owned();
    let named = |p: &'m Value| (format!("{} v{}", of(p, "name"), of(p, "version")), p);
    let known: BTreeMap<String, &Value> = list(&metadata["packages"]).map(named).collect();
    // The source of a package of ours stands behind its version.
    let lines = tree.lines().filter(|line| !line.is_empty() && !line.contains(" ("));
    let found = lines.collect::<BTreeSet<&str>>().into_iter().map(|line| {
        let package = known.get(line).ok_or_else(|| format!("cargo metadata does not know {line}"))?;
        Ok((line.replacen(" v", " ", 1), *package))
    });
    found.collect()
}

fn of_package(name: String, package: &Value) -> Result<Crate, String> {
    let listed = RULES.licence_files.iter().find(|(listed, _)| *listed == name).map(|(_, licence)| *licence);
    let licence = package["license"].as_str().or(listed).unwrap_or("").to_owned();
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or(""));
    let dir = manifest.parent().unwrap_or(&manifest);
    let mut paths = Vec::new();
    find(dir, &mut paths)?;
    paths.sort();
    let shown = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let files = paths.iter().map(|path| Ok((shown(path), read(path)?)));
    let files = files.collect::<Result<Vec<_>, String>>()?;
    if files.is_empty() {
        return Err(format!("{name} comes without the text of its licence {licence:?}: {}", dir.display()));
    }
    Ok(Crate { name, licence, files })
}

/// Finds the files about licences in a directory, and in those below it.
fn find(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            find(&entry.path(), found)?;
        } else if kind.is_file() && is_licence(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn is_licence(name: &str) -> bool {
    let name = name.to_lowercase();
    NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".rs")
}

/// Returns a page with all crates, and each text once, below the crates that have it.
fn page(crates: &[Crate]) -> String {
    let mut page = String::from("The program `millpond` contains these crates, besides its own:\n\n");
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in crates {
        let _ = writeln!(page, "{}: {}", one.name, one.licence);
        for (file, text) in &one.files {
            texts.entry(text.trim()).or_default().push(format!("{}: {file}", one.name));
        }
    }
    let mut texts: Vec<(Vec<String>, &str)> = texts.into_iter().map(|(text, users)| (users, text)).collect();
    texts.sort();
    let line = "=".repeat(78);
    for (users, text) in texts {
        let _ = write!(page, "\n{line}\n{}\n{line}\n\n{text}\n", users.join("\n"));
    }
    page
}

/// Returns what is to be said of the C library and of the compiler's own library.
fn c_library() -> Result<String, String> {
    let [copyright, lesser] = LIBC.map(|path| {
        read(Path::new(path))
            .map_err(|e| format!("the licence of the C library comes from Debian's libc6-dev: {e}"))
    });
    let source = Command::new("dpkg-query")
        .args(["--show", "--showformat=${source:Package} ${source:Version}", "libc6-dev"])
        .output()
        .map_err(|e| format!("cannot start dpkg-query: {e}"))?;
    let source = String::from_utf8_lossy(&source.stdout).trim().to_owned();
    Ok(format!(
        "The program `millpond` contains parts of the GNU C Library: of Debian's source package\n{source}, \
         unchanged, under the GNU Lesser General Public License, version 2.1 or later.\nWho has the \
         sources of Millpond can link the program with another version of that library:\n`cargo xtask \
         package` does it.\n\nIt contains parts of libgcc, too, under the GNU General Public License, \
         version 3, with\nthe GCC Runtime Library Exception, version 3.1, which lets the program have its \
         own licence.\n\n{}\n\n{}",
        copyright?, lesser?
    ))
}

/// Returns the licences of Rust's standard library, which every toolchain of rustup brings.
fn rust_library() -> Result<String, String> {
    let out = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output();
    let out = out.map_err(|e| format!("cannot start rustc: {e}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    read(&sysroot.join("share/doc/rust/COPYRIGHT-library.html"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn crates_of_the_program_are_those_of_the_tree() {
        let metadata = json!({ "packages": [
            { "name": "x", "version": "1.0.0" }, { "name": "x", "version": "2.0.0" },
            { "name": "tool", "version": "1.0.0" }, { "name": "lab", "version": "0.1.0" },
        ] });
        let found = linked("lab v0.1.0 (/here/lab)\nx v2.0.0\n\nx v2.0.0\n", &metadata).unwrap();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x 2.0.0"]);
        assert!(linked("y v1.0.0\n", &metadata).unwrap_err().ends_with("y v1.0.0"));
    }

    #[test]
    fn each_text_stands_once() {
        let one = |name: &str, text: &str| Crate {
            name: name.into(),
            licence: "MIT".into(),
            files: vec![("LICENSE".into(), text.into())],
        };
        let page = page(&[one("a 1", "same\n"), one("b 1", "other"), one("c 1", "same")]);
        assert!(page.contains("a 1: MIT\nb 1: MIT\nc 1: MIT\n"), "{page}");
        assert_eq!(page.matches("\nsame\n").count(), 1, "{page}");
        assert!(page.contains("=\na 1: LICENSE\nc 1: LICENSE\n="), "{page}");
    }

    #[test]
    fn licences_have_names() {
        for name in ["LICENSE", "license-mit.md", "COPYING", "NOTICE.txt", "UNLICENSE"] {
            assert!(is_licence(name), "{name}");
        }
        assert!(!is_licence("licence.rs") && !is_licence("README.md"));
    }
}
