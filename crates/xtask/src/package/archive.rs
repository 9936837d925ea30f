//! Archives in memory: zip, tar and ar. The same files make the same bytes: no time, no owner and
//! no order of a directory is in them.

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use std::io::{self, Write};

/// A file of an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Relative, with `/` between its parts.
    pub(super) path: String,
    pub(super) is_program: bool,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    /// A file that is read.
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.into(), is_program: false, bytes: bytes.into() }
    }

    /// A file that is run.
    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.into(), is_program: true, bytes: bytes.into() }
    }

    fn mode(&self) -> u32 {
        if self.is_program { 0o755 } else { 0o644 }
    }
}

/// The time of every file: 1980-01-01 in seconds since 1970, the first day that zip knows. npm and
/// dpkg would take 0 as well.
const TIME: u64 = 315_532_800;

/// Returns a tar archive, compressed by gzip. If `dirs`, each directory has an entry of its own
/// before its files, as dpkg needs it.
pub(super) fn tar_gz(entries: &[Entry], dirs: bool) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    let mut known = Vec::new();
    for entry in entries {
        let ends = entry.path.match_indices('/').map(|(at, _)| at + 1);
        for dir in ends.map(|end| &entry.path[..end]).filter(|_| dirs) {
            if !known.contains(&dir) {
                known.push(dir);
                let mut header = header(0o755, 0)?;
                header.set_entry_type(tar::EntryType::Directory);
                archive.append_data(&mut header, dir, io::empty())?;
            }
        }
        let mut header = header(entry.mode(), entry.bytes.len())?;
        archive.append_data(&mut header, &entry.path, &entry.bytes[..])?;
    }
    archive.into_inner()?.finish()
}

fn header(mode: u32, size: usize) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_mtime(TIME);
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}

/// Returns an ar archive, as deb(5) describes it: 60 bytes of text before each member, and members
/// begin at even places.
pub(super) fn ar(members: &[(&str, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        // Name, time, owner, group, mode, size.
        writeln!(out, "{name:<16}{TIME:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, "100644", bytes.len())?;
        out.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// Returns a zip archive: its files with a local header each, a directory with a longer header
/// each, and an end (PKWARE's APPNOTE.TXT, 4.3).
pub(super) fn zip(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let start = size(out.len())?;
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&entry.bytes)?;
        let deflated = deflate.finish()?;
        let shared = shared_header(entry, deflated.len())?;
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&shared);
        out.extend_from_slice(entry.path.as_bytes());
        out.extend_from_slice(&deflated);
        // Made on Unix, so that the upper half of the attributes is a mode.
        directory.extend_from_slice(b"PK\x01\x02\x14\x03");
        directory.extend_from_slice(&shared);
        // No comment, first disk, no attribute of text.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&((0o100_000 | entry.mode()) << 16).to_le_bytes());
        directory.extend_from_slice(&start.to_le_bytes());
        directory.extend_from_slice(entry.path.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(io::Error::other)?.to_le_bytes();
    let (place, length) = (size(out.len())?, size(directory.len())?);
    out.append(&mut directory);
    // The end of the directory: the first disk is the only one.
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&[count, count].concat());
    out.extend_from_slice(&[length.to_le_bytes(), place.to_le_bytes()].concat());
    // No comment.
    out.extend_from_slice(&[0; 2]);
    Ok(out)
}

/// Returns what the header of a file and that in the directory have in common.
fn shared_header(entry: &Entry, deflated: usize) -> io::Result<Vec<u8>> {
    let mut crc = Crc::new();
    crc.update(&entry.bytes);
    // Version 2.0 unpacks it; no flags; deflate.
    let mut header = vec![20, 0, 0, 0, 8, 0];
    // Midnight, and 1980-01-01 as month 1 and day 1.
    header.extend_from_slice(&[0, 0, 0x21, 0]);
    header.extend_from_slice(&crc.sum().to_le_bytes());
    header.extend_from_slice(&size(deflated)?.to_le_bytes());
    header.extend_from_slice(&size(entry.bytes.len())?.to_le_bytes());
    header.extend_from_slice(&u16::try_from(entry.path.len()).map_err(io::Error::other)?.to_le_bytes());
    // Nothing extra.
    header.extend_from_slice(&[0; 2]);
    Ok(header)
}

/// Zip has 32 bits for a size.
fn size(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{DeflateDecoder, GzDecoder};
    use std::io::Read;

    fn entries() -> [Entry; 2] {
        [Entry::program("usr/bin/p", vec![7u8; 10_000]), Entry::file("usr/share/text", "words\n")]
    }

    #[test]
    fn a_tar_archive_has_files_modes_and_directories() {
        let bytes = tar_gz(&entries(), true).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
        let found = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            format!("{path} {:o} {}", entry.header().mode().unwrap(), entry.size())
        });
        let expected = [
            "usr/ 755 0",
            "usr/bin/ 755 0",
            "usr/bin/p 755 10000",
            "usr/share/ 755 0",
            "usr/share/text 644 6",
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_members_of_an_ar_archive_begin_at_even_places() {
        let bytes = ar(&[("odd", b"123".to_vec()), ("even", b"45".to_vec())]).unwrap();
        assert_eq!(bytes.len(), 8 + 60 + 4 + 60 + 2);
        assert!(bytes[72..].starts_with(b"even  ") && bytes.ends_with(b"`\n45"));
    }

    #[test]
    fn a_zip_archive_has_files_and_modes() {
        let bytes = zip(&entries()).unwrap();
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let end = bytes.len() - 22;
        let mut at = number(end + 16) as usize;
        for entry in entries() {
            assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
            assert_eq!(number(at + 38) >> 16, 0o100_000 | entry.mode());
            let name = &bytes[at + 46..at + 46 + entry.path.len()];
            assert_eq!(name, entry.path.as_bytes());
            let start = number(at + 42) as usize + 30 + name.len();
            let deflated = &bytes[start..start + number(at + 20) as usize];
            let mut content = Vec::new();
            DeflateDecoder::new(deflated).read_to_end(&mut content).unwrap();
            assert_eq!(content, entry.bytes);
            at += 46 + name.len();
        }
        assert_eq!(at, end, "the end follows the directory");
    }
}
