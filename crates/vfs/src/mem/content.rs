//! The content of a simulated disk: directories, names and bytes. Cheap to copy: copies share all
//! chunks that no copy has changed.

use super::journal::DiskOp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The unit of atomic writes of a usual disk, bytes.
pub(crate) const SECTOR_BYTES: usize = 512;
/// The size of a chunk, the unit in which copies share bytes.
const CHUNK_BYTES: usize = 4096;

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileBytes {
    len: usize,
    /// `None` is all zeros.
    chunks: Vec<Option<Arc<[u8; CHUNK_BYTES]>>>,
}

impl FileBytes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn set_len(&mut self, len: usize) {
        if len < self.len && !len.is_multiple_of(CHUNK_BYTES) {
            let last = len / CHUNK_BYTES;
            if let Some(chunk) = &mut self.chunks[last] {
                Arc::make_mut(chunk)[len % CHUNK_BYTES..].fill(0);
            }
        }
        self.chunks.resize(len.div_ceil(CHUNK_BYTES), None);
        self.len = len;
    }

    /// Calls `each` for every chunk that a range touches, with the chunk's number, the offset in
    /// it, and the part of the range.
    fn split(at: usize, n: usize, mut each: impl FnMut(usize, usize, std::ops::Range<usize>)) {
        let mut done = 0;
        while done < n {
            let (chunk, offset) = ((at + done) / CHUNK_BYTES, (at + done) % CHUNK_BYTES);
            let part = (CHUNK_BYTES - offset).min(n - done);
            each(chunk, offset, done..done + part);
            done += part;
        }
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        if self.len < at + bytes.len() {
            self.set_len(at + bytes.len());
        }
        Self::split(at, bytes.len(), |chunk, offset, range| {
            let part = &bytes[range];
            let zeros = part.iter().all(|b| *b == 0);
            match &mut self.chunks[chunk] {
                None if zeros => {}
                chunk if zeros && part.len() == CHUNK_BYTES => *chunk = None,
                chunk => {
                    let chunk = chunk.get_or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
                    Arc::make_mut(chunk)[offset..offset + part.len()].copy_from_slice(part);
                }
            }
        });
    }

    /// Fills `out` from `at`. Returns false if the file ends before.
    pub(super) fn read(&self, at: usize, out: &mut [u8]) -> bool {
        if at + out.len() > self.len {
            return false;
        }
        Self::split(at, out.len(), |chunk, offset, range| {
            let part = &mut out[range];
            match &self.chunks[chunk] {
                None => part.fill(0),
                Some(chunk) => part.copy_from_slice(&chunk[offset..offset + part.len()]),
            }
        });
        true
    }
}

/// Directories, names and bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskContent {
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) inodes: Vec<FileBytes>,
}

/// Whether a directory always exists.
pub(super) fn is_top(dir: &Path) -> bool {
    dir.as_os_str().is_empty() || dir == Path::new("/")
}

impl DiskContent {
    pub(super) fn parent_exists(&self, path: &Path) -> bool {
        path.parent().is_none_or(|up| is_top(up) || self.dirs.contains(up))
    }

    pub(super) fn apply(&mut self, op: &DiskOp) {
        match op {
            DiskOp::Write { inode, offset, bytes } => self.inodes[*inode].write(*offset as usize, bytes),
            DiskOp::SetLen { inode, len } => self.inodes[*inode].set_len(*len as usize),
            DiskOp::Link { path, inode } => drop(self.names.insert(path.clone(), *inode)),
            DiskOp::Rename { from, to, inode } => {
                self.names.remove(from);
                self.names.insert(to.clone(), *inode);
            }
            DiskOp::Unlink { path } => drop(self.names.remove(path)),
            DiskOp::MakeDir { path } => drop(self.dirs.insert(path.clone())),
            DiskOp::Sync { .. } | DiskOp::SyncDir { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn a_file_behaves_as_a_vector_and_copies_are_independent() {
        let mut rng = Prng::new(1);
        let (mut bytes, mut plain) = (FileBytes::default(), Vec::new());
        let mut copies = Vec::new();
        for _ in 0..2000 {
            let at = rng.below(40_000) as usize;
            if rng.one_in(20) {
                bytes.set_len(at);
                plain.resize(at, 0);
            } else {
                let mut part = vec![0; rng.below(9000) as usize];
                if !rng.one_in(4) {
                    rng.fill(&mut part);
                }
                if plain.len() < at + part.len() {
                    plain.resize(at + part.len(), 0);
                }
                bytes.write(at, &part);
                plain[at..at + part.len()].copy_from_slice(&part);
            }
            if rng.one_in(100) {
                copies.push((bytes.clone(), plain.clone()));
            }
        }
        copies.push((bytes, plain));
        for (bytes, plain) in copies {
            let mut read = vec![1; plain.len()];
            assert!(bytes.len() == plain.len() && bytes.read(0, &mut read) && read == plain);
            assert!(!bytes.read(1, &mut read), "beyond the end");
        }
    }
}
