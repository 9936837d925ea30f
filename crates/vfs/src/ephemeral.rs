//! A disk in the process's own memory, for databases in memory. What is written to it exists until
//! the disk is dropped; syncing costs nothing and means nothing.
//!
//! A file takes memory only for its chunks that hold a byte other than zero. So a file that is
//! zero-written ahead of need costs nothing before it is used. The chunks are in shards with a
//! mutex each, so threads that work on different parts of one file seldom wait for each other.

use crate::{Create, Disk, File, OpenMode};
use base::Sharded;
use base::sharded::shards;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, holds_no_latch};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A chunk is in memory as a whole or all zeros. As long as the largest page, so that a page seldom
/// takes more memory than its size. Bytes.
const CHUNK_BYTES: usize = 16 << 10;
/// Neighbouring chunks are in different shards.
const SHARDS: usize = shards(64);

/// The disk. Clones share it. Its memory is freed with the last clone and the last open file.
#[derive(Clone, Debug, Default)]
pub(crate) struct EphemeralDisk {
    names: Arc<Mutex<Namespace>>,
}

#[derive(Debug, Default)]
struct Namespace {
    dirs: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Arc<EphemeralFile>>,
    locked: BTreeSet<PathBuf>,
}

/// `None` is all zeros.
type Chunk = Option<Box<[u8]>>;

#[derive(Debug, Default)]
struct EphemeralFile {
    len: AtomicU64,
    /// Chunk `n` is number `n / SHARDS` of shard `n % SHARDS`. Beyond a shard's end all is zeros.
    shards: Sharded<Mutex<Vec<Chunk>>, SHARDS>,
}

struct EphemeralLock {
    names: Arc<Mutex<Namespace>>,
    path: PathBuf,
}

impl Drop for EphemeralLock {
    fn drop(&mut self) {
        self.names.lock().locked.remove(&self.path);
    }
}

impl Namespace {
    /// Whether an entry can be made at `path`. The top directory always exists.
    fn parent_exists(&self, path: &Path) -> bool {
        let top = |dir: &Path| dir.as_os_str().is_empty() || dir == Path::new("/");
        path.parent().is_none_or(|up| top(up) || self.dirs.contains(up))
    }
}

impl Disk for EphemeralDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut names = self.names.lock();
        match (names.files.get(path), mode.create) {
            (Some(_), Create::New) => Err(ErrorKind::AlreadyExists.into()),
            (Some(file), _) => Ok(Arc::clone(file) as Arc<dyn File>),
            (None, Create::IfMissing | Create::New) if names.parent_exists(path) => {
                let file = Arc::new(EphemeralFile::default());
                names.files.insert(path.to_owned(), Arc::clone(&file));
                Ok(file)
            }
            (None, _) => Err(ErrorKind::NotFound.into()),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        if !names.parent_exists(path) {
            return Err(ErrorKind::NotFound.into());
        }
        if names.dirs.insert(path.to_owned()) { Ok(()) } else { Err(ErrorKind::AlreadyExists.into()) }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.names.lock();
        if !names.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let entries = names.files.keys().chain(&names.dirs).filter(|path| path.parent() == Some(dir));
        let mut list: Vec<_> =
            entries.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        list.sort();
        Ok(list)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let file = names.files.remove(from).ok_or(ErrorKind::NotFound)?;
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.names.lock().files.remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        if !self.names.lock().locked.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(EphemeralLock { names: Arc::clone(&self.names), path: path.to_owned() }))
    }

    fn is_durable(&self, _: &Path) -> bool {
        false
    }

    fn is_ephemeral(&self) -> bool {
        true
    }
}

/// Whether all bytes are 0. Compares with stored zeros: that is as fast as memory even in builds
/// without optimisation.
fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];
    bytes.chunks(CHUNK_BYTES).all(|part| *part == ZEROS[..part.len()])
}

/// Returns a chunk of zeros. If there is no memory for it, the disk is full.
fn new_chunk() -> io::Result<Box<[u8]>> {
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(CHUNK_BYTES).map_err(|_| ErrorKind::StorageFull)?;
    chunk.resize(CHUNK_BYTES, 0);
    Ok(chunk.into_boxed_slice())
}

impl EphemeralFile {
    /// Calls `each` for every chunk that a range touches, with the chunk's shard locked. `each`
    /// gets the shard, the chunk's number in the shard, the offset in the chunk, and the part of
    /// the range that lies in the chunk.
    fn parts(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(&mut Vec<Chunk>, usize, usize, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        at.checked_add(len).ok_or(ErrorKind::FileTooLarge)?;
        let mut done = 0;
        while done < len {
            let (chunk, place) = ((at + done) / CHUNK_BYTES, (at + done) % CHUNK_BYTES);
            let part = (CHUNK_BYTES - place).min(len - done);
            let mut shard = self.shards.of(chunk as u64).lock();
            each(&mut shard, chunk / SHARDS, place, done..done + part)?;
            done += part;
        }
        Ok(())
    }

    /// Makes a range all zeros. Frees the memory of whole chunks.
    fn clear(&self, offset: u64, len: usize) -> io::Result<()> {
        self.parts(offset, len, |shard, chunk, place, part| {
            match shard.get_mut(chunk) {
                Some(whole) if part.len() == CHUNK_BYTES => *whole = None,
                Some(Some(bytes)) => bytes[place..place + part.len()].fill(0),
                Some(None) | None => {}
            }
            Ok(())
        })
    }
}

impl File for EphemeralFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        if offset.saturating_add(bytes.len() as u64) > self.len.load(Ordering::Acquire) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.parts(offset, bytes.len(), |shard, chunk, place, part| {
            match shard.get(chunk) {
                Some(Some(from)) => bytes[part.clone()].copy_from_slice(&from[place..place + part.len()]),
                Some(None) | None => bytes[part].fill(0),
            }
            Ok(())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        if bytes.is_empty() {
            return Ok(());
        }
        if is_zero(bytes) {
            self.clear(offset, bytes.len())?;
        } else {
            self.parts(offset, bytes.len(), |shard, chunk, place, part| {
                if shard.len() <= chunk {
                    shard.try_reserve(chunk + 1 - shard.len()).map_err(|_| ErrorKind::StorageFull)?;
                    shard.resize_with(chunk + 1, || None);
                }
                let to = match &mut shard[chunk] {
                    Some(to) => to,
                    none => none.insert(new_chunk()?),
                };
                to[place..place + part.len()].copy_from_slice(&bytes[part]);
                Ok(())
            })?;
        }
        self.len.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        holds_no_latch();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        holds_no_latch();
        let before = self.len.swap(len, Ordering::AcqRel);
        // The part that is cut off must read as zeros if the file grows again.
        self.clear(len, before.saturating_sub(len) as usize)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        holds_no_latch();
        let end = offset.saturating_add(len).min(self.len.load(Ordering::Acquire));
        self.clear(offset, end.saturating_sub(offset) as usize)
    }

    /// There is no page cache to bypass.
    fn is_direct(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };
    const OLD: OpenMode = OpenMode { create: Create::Never, direct: true, read_only: false };

    impl EphemeralFile {
        fn chunks(&self) -> usize {
            self.shards.iter().map(|shard| shard.lock().iter().flatten().count()).sum()
        }
    }

    #[test]
    fn a_file_behaves_as_a_vector() {
        let mut rng = Prng::new(1);
        let (file, mut plain) = (EphemeralFile::default(), Vec::new());
        for _ in 0..3000 {
            let at = rng.below(40 * CHUNK_BYTES as u64) as usize;
            let n = 1 + rng.below(3 * CHUNK_BYTES as u64) as usize;
            match rng.below(20) {
                0 => {
                    file.set_len(at as u64).unwrap();
                    plain.resize(at, 0);
                }
                1 => {
                    file.punch(at as u64, n as u64).unwrap();
                    let end = (at + n).min(plain.len());
                    plain[at.min(end)..end].fill(0);
                }
                _ => {
                    let mut part = vec![0; n];
                    if !rng.one_in(4) {
                        rng.fill(&mut part);
                    }
                    if plain.len() < at + n {
                        plain.resize(at + n, 0);
                    }
                    file.write_at(&part, at as u64).unwrap();
                    plain[at..at + n].copy_from_slice(&part);
                }
            }
            let from = rng.below(plain.len() as u64 + 1) as usize;
            let mut read = vec![1; (plain.len() - from).min(2 * CHUNK_BYTES)];
            file.read_at(&mut read, from as u64).unwrap();
            assert!(file.len().unwrap() == plain.len() as u64 && read == plain[from..from + read.len()]);
        }
        let mut all = vec![1; plain.len()];
        file.read_at(&mut all, 0).unwrap();
        assert!(all == plain);
        let beyond = file.read_at(&mut all, 1).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn zeros_take_no_memory_and_cleared_chunks_are_freed() {
        let file = EphemeralFile::default();
        file.write_at(&vec![0; 100 * CHUNK_BYTES], 0).unwrap();
        assert_eq!((file.len().unwrap(), file.chunks()), (100 * CHUNK_BYTES as u64, 0));
        file.write_at(&vec![7; 10 * CHUNK_BYTES], 0).unwrap();
        assert_eq!(file.chunks(), 10);
        file.write_at(&vec![0; 4 * CHUNK_BYTES], 0).unwrap();
        file.punch(4 * CHUNK_BYTES as u64, CHUNK_BYTES as u64).unwrap();
        assert_eq!(file.chunks(), 5);
        file.set_len(6 * CHUNK_BYTES as u64).unwrap();
        assert_eq!(file.chunks(), 1);
    }

    #[test]
    fn names_work_as_on_any_disk_and_a_lock_has_one_holder() {
        let disk = EphemeralDisk::default();
        let kind = |result: io::Result<Arc<dyn File>>| result.unwrap_err().kind();
        let (dir, a, b) = (Path::new("d"), Path::new("d/a"), Path::new("d/b"));
        assert_eq!(kind(disk.open(a, NEW)), ErrorKind::NotFound);
        disk.create_dir(dir).unwrap();
        assert_eq!(disk.create_dir(dir).unwrap_err().kind(), ErrorKind::AlreadyExists);
        disk.open(a, NEW).unwrap().write_at(&[7; 512], 0).unwrap();
        assert_eq!(kind(disk.open(a, NEW)), ErrorKind::AlreadyExists);
        assert_eq!(kind(disk.open(b, OLD)), ErrorKind::NotFound);
        disk.rename(a, b).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["b"]);
        assert_eq!(disk.open(b, OLD).unwrap().len().unwrap(), 512);
        disk.remove(b).unwrap();
        assert_eq!(disk.remove(b).unwrap_err().kind(), ErrorKind::NotFound);

        let held = disk.lock(b).unwrap();
        assert_eq!(disk.lock(b).err().map(|e| e.kind()), Some(ErrorKind::WouldBlock));
        drop(held);
        disk.lock(b).unwrap();
        assert!(!disk.is_durable(dir) && disk.is_ephemeral());
    }

    /// Each thread writes and reads its own parts, which share chunks with the parts of other
    /// threads.
    #[test]
    fn threads_on_different_parts_do_not_disturb_each_other() {
        let file = EphemeralFile::default();
        std::thread::scope(|scope| {
            for n in 0..8u8 {
                let file = &file;
                scope.spawn(move || {
                    for place in 0..500u64 {
                        let at = (place * 8 + u64::from(n)) * 1000;
                        file.write_at(&[n + 1; 1000], at).unwrap();
                        let mut read = [0; 1000];
                        file.read_at(&mut read, at).unwrap();
                        assert_eq!(read, [n + 1; 1000]);
                    }
                });
            }
        });
        assert_eq!(file.len().unwrap(), 4_000_000);
    }
}
