//! A package of Debian: an ar archive of a version, a control archive and a data archive (deb(5)).
//! It depends on nothing, so any Debian, and any system with dpkg, can have it.

use super::archive::{self, Entry};
use super::contents::{Contents, DESCRIPTION, SUMMARY};
use std::io;

/// The package, and its program.
const NAME: &str = "millpond";

/// Returns the file's name and its bytes.
pub(super) fn pack(contents: &Contents) -> io::Result<(String, Vec<u8>)> {
    let mut files = vec![Entry::program("usr/bin/millpond", contents.program.clone())];
    files.push(Entry::file(doc("copyright"), copyright(contents)));
    for text in &contents.licences {
        files.push(Entry::file(doc(text.name), text.bytes.clone()));
    }
    let control = [Entry::file("control", control(contents, &files))];
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::tar_gz(&control, false)?),
        ("data.tar.gz", archive::tar_gz(&files, true)?),
    ];
    let name = format!("{NAME}_{}_{}.deb", contents.version, contents.target.debian);
    Ok((name, archive::ar(&members)?))
}

fn doc(name: &str) -> String {
    format!("usr/share/doc/{NAME}/{name}")
}

/// The size is in units of 1,024 bytes.
fn control(contents: &Contents, files: &[Entry]) -> String {
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    format!(
        "Package: {NAME}\nVersion: {}\nArchitecture: {}\nMaintainer: The Millpond authors\n\
         Installed-Size: {size}\nSection: database\nPriority: optional\nDescription: {SUMMARY}\n {}\n",
        contents.version,
        contents.target.debian,
        DESCRIPTION.join("\n ")
    )
}

/// Returns the file that Debian's policy wants: who holds the rights, and where the licences are.
fn copyright(contents: &Contents) -> String {
    let files = contents.licences.iter().map(|text| format!("  /{}\n", doc(text.name)));
    format!(
        "Copyright 2026 The Millpond authors\n\nMillpond is under the MIT licence or the Apache licence, \
         version 2.0, as you like.\nThe program contains other works with licences of their own. All are \
         here:\n\n{}",
        files.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::super::contents::example;
    use super::*;

    #[test]
    fn the_control_file_has_lines_that_dpkg_reads() {
        let text = control(&example(), &[Entry::file("a", vec![0u8; 1025])]);
        assert!(text.contains("\nArchitecture: amd64\n") && text.contains("\nInstalled-Size: 2\n"), "{text}");
        let (fields, description) = text.split_at(text.find("Description").unwrap());
        assert!(fields.lines().all(|line| line.contains(": ")), "{text}");
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{text}");
    }

    #[test]
    fn the_copyright_file_names_all_licences() {
        let text = copyright(&example());
        assert!(
            text.ends_with("doc/millpond/LICENSE-MIT\n  /usr/share/doc/millpond/THIRD-PARTY\n"),
            "{text}"
        );
        assert_eq!(pack(&example()).unwrap().0, "millpond_1.2.3_amd64.deb");
    }
}
