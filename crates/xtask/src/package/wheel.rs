//! A wheel, which pip installs: a zip archive whose scripts go to the directory of programs. The
//! format is that of the Python Packaging User Guide, "Binary distribution format" and "Core
//! metadata".

use super::archive::{self, Entry};
use super::contents::{Contents, DESCRIPTION, LICENCE, NAME, SUMMARY};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::io;

/// Returns the file's name and its bytes.
pub(super) fn pack(contents: &Contents) -> io::Result<(String, Vec<u8>)> {
    let stem = format!("{}-{}", NAME.replace('-', "_"), contents.version);
    let platforms = contents.target.platforms();
    let info = format!("{stem}.dist-info");
    let mut entries = vec![
        Entry::program(format!("{stem}.data/scripts/millpond"), contents.program.clone()),
        Entry::file(format!("{info}/METADATA"), metadata(contents)),
        Entry::file(format!("{info}/WHEEL"), wheel(&platforms)),
    ];
    for text in &contents.licences {
        entries.push(Entry::file(format!("{info}/licenses/{}", text.name), text.bytes.clone()));
    }
    let record = record(&entries, &info);
    entries.push(Entry::file(format!("{info}/RECORD"), record));
    Ok((format!("{stem}-py3-none-{}.whl", platforms.join(".")), archive::zip(&entries)?))
}

fn metadata(contents: &Contents) -> String {
    let files = contents.licences.iter().map(|text| format!("License-File: {}\n", text.name));
    format!(
        "Metadata-Version: 2.4\nName: {NAME}\nVersion: {}\nSummary: {SUMMARY}\n\
         License-Expression: {LICENCE}\n{}Requires-Python: >=3.7\n\
         Description-Content-Type: text/markdown\n\n{}\n",
        contents.version,
        files.collect::<String>(),
        DESCRIPTION.join("\n")
    )
}

fn wheel(platforms: &[String]) -> String {
    let tags = platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n"));
    let head = "Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\n";
    format!("{head}{}", tags.collect::<String>())
}

/// Returns the list of all files with their hashes. The list itself is in it without one.
fn record(entries: &[Entry], info: &str) -> String {
    let lines = entries.iter().map(|entry| {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&entry.bytes));
        format!("{},sha256={hash},{}\n", entry.path, entry.bytes.len())
    });
    format!("{}{info}/RECORD,,\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::contents::example;
    use super::*;

    #[test]
    fn a_wheel_says_where_it_runs() {
        let (name, bytes) = pack(&example()).unwrap();
        let platforms = "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64";
        assert_eq!(name, format!("millpond_lab-1.2.3-py3-none-{platforms}.whl"));
        assert!(bytes.starts_with(b"PK"));
        assert!(wheel(&["a".into(), "b".into()]).ends_with("Tag: py3-none-a\nTag: py3-none-b\n"));
    }

    #[test]
    fn the_metadata_name_each_licence_file() {
        let text = metadata(&example());
        assert!(text.contains("\nLicense-File: LICENSE-MIT\nLicense-File: THIRD-PARTY\n"), "{text}");
        assert!(!text.split("\n\n").next().unwrap().contains("\n "), "no header goes over lines");
    }

    #[test]
    fn the_record_has_a_hash_for_each_other_file() {
        // The hash of no bytes, of FIPS 180.
        let hash = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
        let text = record(&[Entry::file("empty", "")], "x.dist-info");
        assert_eq!(text, format!("empty,sha256={hash},0\nx.dist-info/RECORD,,\n"));
    }
}
