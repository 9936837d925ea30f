//! The files of tablespaces in a data directory: which one is whose, and the headers of their
//! pages. They are only read.

use super::page::{HEADER_BYTES, Header};
use super::record::PageId;
use super::tally::Pages;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the first page has the number of the tablespace, 4 bytes.
const SPACE_ID: usize = 34;
/// Where the first page has the flags of the tablespace, 4 bytes.
const FLAGS: usize = 54;

/// A file of a tablespace.
struct Part {
    file: File,
    /// The number of its first page.
    first_page: u64,
}

/// An open tablespace. A file that is removed meanwhile can still be read.
struct Space {
    parts: Vec<Part>,
    page_bytes: u64,
}

/// The files below a data directory.
pub(super) struct Files {
    datadir: PathBuf,
    /// The files of the system tablespace, in order.
    system: Vec<PathBuf>,
    /// Paths by tablespace, from a look through the directory.
    found: Option<BTreeMap<u32, PathBuf>>,
    /// Where undo tablespaces are.
    undo_dir: PathBuf,
    open: HashMap<u32, Option<Space>>,
    /// The first file that the user may not read.
    pub(super) forbidden: Option<PathBuf>,
}

impl Files {
    pub(super) fn new(datadir: &Path, system: Vec<PathBuf>, undo_dir: PathBuf) -> Files {
        let datadir = datadir.to_owned();
        Files { datadir, system, found: None, undo_dir, open: HashMap::new(), forbidden: None }
    }

    /// Returns the files of the system tablespace of a directory whose server is not asked:
    /// `ibdata1`, `ibdata2` and so on.
    pub(super) fn usual_system(datadir: &Path) -> Vec<PathBuf> {
        (1..).map(|n| datadir.join(format!("ibdata{n}"))).take_while(|path| path.exists()).collect()
    }

    /// Returns the path of a tablespace's file, below the data directory if it is there.
    pub(super) fn path(&mut self, space: u32) -> Option<String> {
        if space == 0 {
            return Some("ibdata1".into());
        }
        let path = self.found().get(&space)?.clone();
        Some(path.strip_prefix(&self.datadir).unwrap_or(&path).display().to_string())
    }

    /// Returns all files, by the number in their first page. The directory is looked through once.
    fn found(&mut self) -> &BTreeMap<u32, PathBuf> {
        self.found.get_or_insert_with(|| {
            let mut found = BTreeMap::new();
            let databases = entries(&self.datadir).into_iter().filter(|path| path.is_dir());
            let tables = databases.flat_map(|dir| entries(&dir));
            for path in tables.chain(entries(&self.datadir)).chain(entries(&self.undo_dir)) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let undo = name.len() == 7 && name.starts_with("undo");
                if !undo && path.extension().is_none_or(|extension| extension != "ibd") {
                    continue;
                }
                if let Some((id, _)) = File::open(&path).ok().and_then(|file| first_page(&file)) {
                    found.insert(id, path);
                }
            }
            found
        })
    }

    fn open(&mut self, space: u32, name: Option<&str>) -> Option<Space> {
        if space == 0 {
            return open_parts(&self.system.clone(), space, &mut self.forbidden);
        }
        if let Some(name) = name {
            let path = [self.datadir.join(name)];
            if let Some(open) = open_parts(&path, space, &mut self.forbidden) {
                return Some(open);
            }
        }
        let path = self.found().get(&space)?.clone();
        open_parts(&[path], space, &mut self.forbidden)
    }
}

impl Pages for Files {
    fn look(&mut self, page: PageId, name: Option<&str>) -> Option<Header> {
        if !self.open.contains_key(&page.0) {
            let space = self.open(page.0, name);
            self.open.insert(page.0, space);
        }
        let space = self.open.get(&page.0)?.as_ref()?;
        let number = u64::from(page.1);
        let part = space.parts.iter().rev().find(|part| part.first_page <= number)?;
        let mut bytes = [0; HEADER_BYTES];
        let at = (number - part.first_page).checked_mul(space.page_bytes)?;
        part.file.read_exact_at(&mut bytes, at).ok()?;
        Header::read(&bytes)
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map_or(Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect())
}

/// Opens the files of a tablespace, if they are those of it.
fn open_parts(paths: &[PathBuf], space: u32, forbidden: &mut Option<PathBuf>) -> Option<Space> {
    let (mut parts, mut page_bytes, mut first) = (Vec::new(), 0, 0);
    for path in paths {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) => {
                if e.kind() == std::io::ErrorKind::PermissionDenied {
                    forbidden.get_or_insert(path.clone());
                }
                return None;
            }
        };
        if parts.is_empty() {
            let (id, bytes) = first_page(&file)?;
            if id != space {
                return None;
            }
            page_bytes = bytes;
        }
        let bytes = file.metadata().ok()?.len();
        parts.push(Part { file, first_page: first });
        first += bytes / page_bytes;
    }
    (!parts.is_empty()).then_some(Space { parts, page_bytes })
}

/// Reads the number of the tablespace and the size of its pages from its first page.
fn first_page(file: &File) -> Option<(u32, u64)> {
    let mut bytes = [0; FLAGS + 4];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some((number(SPACE_ID), page_bytes(number(FLAGS))))
}

/// Returns the bytes of a page in a file, from the flags of a tablespace.
fn page_bytes(flags: u32) -> u64 {
    // The size as the power of two over 512; 0 is the usual one.
    let of = |shift: u32| if shift == 0 { 16_384 } else { 512_u64 << shift };
    if flags & 0x10 != 0 && flags & 0x20 == 0 {
        // The format full_crc32: the size in the low four bits.
        return of(flags & 15);
    }
    // The older format. ROW_FORMAT=COMPRESSED has the size of its pages in bits 1 to 4.
    match flags >> 1 & 15 {
        0 => of(flags >> 6 & 15),
        zip => of(zip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_follows_from_the_flags() {
        for (flags, bytes) in [
            (0x15, 16_384), // full_crc32
            (0x13, 4096),   // full_crc32
            (0x17, 65_536), // full_crc32
            (0x21, 16_384), // DYNAMIC of 10.3 and earlier
            (0x00, 16_384), // REDUNDANT of old
            (0x29, 8192),   // COMPRESSED, 8 KiB: bits 1 to 4 are 4
            (0x27, 4096),   // COMPRESSED, 4 KiB
            (0x21 | 3 << 6, 4096),
        ] {
            assert_eq!(page_bytes(flags), bytes, "{flags:#x}");
        }
    }
}
