//! An npm package: a tar archive with everything below `package/`. Its `bin` is the program itself.

use super::archive::{self, Entry};
use super::contents::{Contents, DESCRIPTION, LICENCE, NAME, SUMMARY};
use serde_json::json;
use std::io;

/// Returns the file's name and its bytes.
pub(super) fn pack(contents: &Contents) -> io::Result<(String, Vec<u8>)> {
    let readme = format!("# {NAME}\n\n{}\n", DESCRIPTION.join("\n"));
    let mut entries = vec![
        Entry::file("package/package.json", manifest(contents)),
        Entry::file("package/README.md", readme),
        Entry::program("package/bin/millpond", contents.program.clone()),
    ];
    for text in &contents.licences {
        entries.push(Entry::file(format!("package/{}", text.name), text.bytes.clone()));
    }
    let name = format!("{NAME}-{}.tgz", contents.version);
    Ok((name, archive::tar_gz(&entries, false)?))
}

/// npm refuses to install it on a machine that `os` and `cpu` do not name.
fn manifest(contents: &Contents) -> String {
    let manifest = json!({
        "name": NAME,
        "version": contents.version,
        "description": SUMMARY,
        "license": format!("({LICENCE})"),
        "bin": { "millpond": "bin/millpond" },
        "os": ["linux"],
        "cpu": [contents.target.npm],
    });
    format!("{manifest:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::contents::example;
    use super::*;

    #[test]
    fn the_manifest_names_program_and_machine() {
        let manifest: serde_json::Value = serde_json::from_str(&manifest(&example())).unwrap();
        assert_eq!(manifest["bin"]["millpond"], "bin/millpond");
        assert_eq!((&manifest["version"], &manifest["cpu"][0]), (&json!("1.2.3"), &json!("x64")));
        assert_eq!(pack(&example()).unwrap().0, "millpond-lab-1.2.3.tgz");
    }
}
