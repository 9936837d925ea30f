//! A simulated disk that remembers every operation, so that after a run the state that a power cut would have left can
//! be built for any moment of it.
//!
//! Readers see what was written. A crash sees less: a file's bytes and length are durable only after its sync, a
//! directory's entries only after the directory's; of everything else any subset may have survived, bytes at the grain
//! of a 512-byte sector.

use crate::{Clock, Create, Disk, File, OpenMode, Vfs, WriteOp};
use base::prng::Prng;
use base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a disk writes whole or not at all, bytes.
pub const SECTOR_BYTES: usize = 512;

/// What survives of the operations that nothing had made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashChoice {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// A random subset: each sector of each write, each entry, each change of length on its own.
    Random(u64),
}

#[derive(Clone, Debug)]
enum Op {
    Write { inode: usize, offset: u64, bytes: Arc<[u8]> },
    SetLen { inode: usize, len: u64 },
    Sync { inode: usize },
    Link { path: PathBuf, inode: usize },
    Rename { from: PathBuf, to: PathBuf, inode: usize },
    Unlink { path: PathBuf },
    MakeDir { path: PathBuf },
    SyncDir { dir: PathBuf },
}

/// Directories, names and bytes.
#[derive(Clone, Debug, Default)]
struct Content {
    dirs: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    inodes: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What was there, durably, when the journal began.
    base: Content,
    now: Content,
    ops: Vec<Op>,
    locked: BTreeMap<PathBuf, Arc<AtomicBool>>,
}

/// The simulated disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct MemFile {
    disk: MemDisk,
    inode: usize,
}

struct MemLock(Arc<AtomicBool>);

impl Drop for MemLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Content {
    fn write(&mut self, inode: usize, offset: u64, bytes: &[u8]) {
        let file = &mut self.inodes[inode];
        let end = offset as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { inode, offset, bytes } => self.write(*inode, *offset, bytes),
            Op::SetLen { inode, len } => self.inodes[*inode].resize(*len as usize, 0),
            Op::Link { path, inode } => drop(self.names.insert(path.clone(), *inode)),
            Op::Rename { from, to, inode } => {
                self.names.remove(from);
                self.names.insert(to.clone(), *inode);
            }
            Op::Unlink { path } => drop(self.names.remove(path)),
            Op::MakeDir { path } => drop(self.dirs.insert(path.clone())),
            Op::Sync { .. } | Op::SyncDir { .. } => {}
        }
    }

    /// Applies what a crash lets through of `op`.
    fn survive(&mut self, op: &Op, choice: CrashChoice, rng: &mut Prng) {
        match (choice, op) {
            (CrashChoice::None, _) => {}
            (CrashChoice::All, _) => self.apply(op),
            (CrashChoice::Random(_), Op::Write { inode, offset, bytes }) => {
                let mut at = 0;
                while at < bytes.len() {
                    let start = *offset as usize + at;
                    let n = (SECTOR_BYTES - start % SECTOR_BYTES).min(bytes.len() - at);
                    if rng.one_in(2) {
                        self.write(*inode, start as u64, &bytes[at..at + n]);
                    }
                    at += n;
                }
            }
            (CrashChoice::Random(_), _) => {
                if rng.one_in(2) {
                    self.apply(op);
                }
            }
        }
    }

    /// Drops files and directories whose directory did not survive.
    fn prune(&mut self) {
        let whole = |dirs: &BTreeSet<PathBuf>, path: &Path| {
            path.ancestors().skip(1).all(|up| is_top(up) || dirs.contains(up))
        };
        let dirs = self.dirs.clone();
        self.dirs.retain(|dir| whole(&dirs, dir));
        let dirs = self.dirs.clone();
        self.names.retain(|path, _| whole(&dirs, path));
    }
}

impl Op {
    /// The file or directory whose sync makes this durable.
    fn durable_by(&self, sync: &Op) -> bool {
        let below = |path: &Path, dir: &Path| path.parent() == Some(dir);
        match (self, sync) {
            (Op::Write { inode, .. } | Op::SetLen { inode, .. }, Op::Sync { inode: synced }) => {
                inode == synced
            }
            (Op::Link { path, .. } | Op::Unlink { path } | Op::MakeDir { path }, Op::SyncDir { dir }) => {
                below(path, dir)
            }
            (Op::Rename { to, .. }, Op::SyncDir { dir }) => below(to, dir),
            _ => false,
        }
    }
}

/// Walks over a run, operation by operation, and builds what a crash would have left.
#[derive(Debug)]
pub struct CrashWalker {
    ops: Vec<Op>,
    at: usize,
    durable: Content,
    pending: Vec<Op>,
}

impl CrashWalker {
    /// Operations before the present moment.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// Moves behind the next operation. False at the end of the run.
    pub fn step(&mut self) -> bool {
        let Some(op) = self.ops.get(self.at) else { return false };
        self.at += 1;
        match op {
            Op::Sync { .. } | Op::SyncDir { .. } => {
                let (durable, pending) = (&mut self.durable, &mut self.pending);
                pending.retain(|earlier| {
                    let covered = earlier.durable_by(op);
                    if covered {
                        durable.apply(earlier);
                    }
                    !covered
                });
            }
            _ => {
                if let Op::Link { inode, .. } = op
                    && self.durable.inodes.len() <= *inode
                {
                    self.durable.inodes.resize(*inode + 1, Vec::new());
                }
                self.pending.push(op.clone());
            }
        }
        true
    }

    /// The disk as a power cut at this moment would leave it.
    #[must_use]
    pub fn image(&self, choice: CrashChoice) -> MemDisk {
        let mut content = self.durable.clone();
        let mut rng = Prng::new(if let CrashChoice::Random(seed) = choice { seed } else { 0 });
        for op in &self.pending {
            content.survive(op, choice, &mut rng);
        }
        content.prune();
        MemDisk::holding(content)
    }
}

impl MemDisk {
    fn holding(content: Content) -> MemDisk {
        let inner = Inner { base: content.clone(), now: content, ..Inner::default() };
        MemDisk { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Operations so far.
    #[must_use]
    pub fn op_count(&self) -> u64 {
        self.inner.lock().ops.len() as u64
    }

    /// A walk over everything done so far, at its beginning.
    #[must_use]
    pub fn walk(&self) -> CrashWalker {
        let inner = self.inner.lock();
        CrashWalker { ops: inner.ops.clone(), at: 0, durable: inner.base.clone(), pending: Vec::new() }
    }

    /// The same bytes as now, all durable, with an empty journal and nothing locked.
    #[must_use]
    pub fn fork(&self) -> MemDisk {
        MemDisk::holding(self.inner.lock().now.clone())
    }

    /// This disk and a clock of its own.
    #[must_use]
    pub fn vfs(&self, seed: u64) -> Vfs {
        Vfs { disk: Arc::new(self.clone()), clock: Arc::new(ManualClock::new(seed)) }
    }

    /// Flips bits of the byte at `offset` of a file, as a decaying medium would.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let inode = *inner.now.names.get(path).ok_or(ErrorKind::NotFound)?;
        let byte = inner.now.inodes[inode].get_mut(offset as usize).ok_or(ErrorKind::UnexpectedEof)?;
        *byte ^= mask;
        Ok(())
    }

    fn perform(&self, op: Op) {
        base::sync::point();
        let mut inner = self.inner.lock();
        inner.now.apply(&op);
        inner.ops.push(op);
    }
}

/// The directories that are always there.
fn is_top(dir: &Path) -> bool {
    dir.as_os_str().is_empty() || dir == Path::new("/")
}

fn parent_exists(content: &Content, path: &Path) -> bool {
    path.parent().is_none_or(|up| is_top(up) || content.dirs.contains(up))
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut inner = self.inner.lock();
        let inode = match (inner.now.names.get(path).copied(), mode.create) {
            (Some(_), Create::New) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => inode,
            (None, Create::Never) => return Err(ErrorKind::NotFound.into()),
            (None, _) if !parent_exists(&inner.now, path) => return Err(ErrorKind::NotFound.into()),
            (None, _) => {
                let inode = inner.now.inodes.len();
                inner.now.inodes.push(Vec::new());
                let op = Op::Link { path: path.to_owned(), inode };
                inner.now.apply(&op);
                inner.ops.push(op);
                inode
            }
        };
        Ok(Arc::new(MemFile { disk: self.clone(), inode }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let content = self.inner.lock().now.clone_names();
        if content.dirs.contains(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if !parent_exists(&content, path) {
            return Err(ErrorKind::NotFound.into());
        }
        self.perform(Op::MakeDir { path: path.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let inner = self.inner.lock();
        if !inner.now.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let entries = inner.now.names.keys().chain(&inner.now.dirs);
        let mut names: Vec<_> = entries
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = *self.inner.lock().now.names.get(from).ok_or(ErrorKind::NotFound)?;
        self.perform(Op::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.inner.lock().now.names.contains_key(path) {
            return Err(ErrorKind::NotFound.into());
        }
        self.perform(Op::Unlink { path: path.to_owned() });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.perform(Op::SyncDir { dir: dir.to_owned() });
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let held = Arc::clone(self.inner.lock().locked.entry(path.to_owned()).or_default());
        if held.swap(true, Ordering::AcqRel) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemLock(held)))
    }

    fn is_durable(&self, _: &Path) -> bool {
        true
    }
}

impl Content {
    /// Names alone, for questions about them.
    fn clone_names(&self) -> Content {
        Content { dirs: self.dirs.clone(), names: self.names.clone(), inodes: Vec::new() }
    }
}

impl File for MemFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        base::sync::point();
        let inner = self.disk.inner.lock();
        let file = &inner.now.inodes[self.inode];
        let from = offset as usize;
        let part = file.get(from..from + bytes.len()).ok_or(ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(part);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.perform(Op::Write { inode: self.inode, offset, bytes: bytes.into() });
        Ok(())
    }

    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.perform(Op::Sync { inode: self.inode });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner.lock().now.inodes[self.inode].len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.perform(Op::SetLen { inode: self.inode, len });
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn is_direct(&self) -> bool {
        true
    }
}

/// A clock that moves on by a microsecond each time it is read.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicU64,
    rng: Mutex<Prng>,
}

impl ManualClock {
    /// A clock at 0 whose random numbers come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> ManualClock {
        ManualClock { now: AtomicU64::new(0), rng: Mutex::new(Prng::new(seed)) }
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed)
    }
    fn unix_seconds(&self) -> u64 {
        0
    }
    fn random_u64(&self) -> u64 {
        self.rng.lock().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };
    const OLD: OpenMode = OpenMode { create: Create::Never, direct: true, read_only: false };

    fn read(disk: &MemDisk, path: &str, n: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; n];
        disk.open(Path::new(path), OLD).ok()?.read_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    #[test]
    fn what_nobody_synced_may_be_lost_torn_or_reordered() {
        let disk = MemDisk::default();
        disk.create_dir(Path::new("d")).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        let file = disk.open(Path::new("d/f"), NEW).unwrap();
        file.write_at(&[1; 1024], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        file.write_at(&[2; 512], 0).unwrap();
        file.write_at(&[3; 512], 512).unwrap();
        let mut walk = disk.walk();
        let mut seen = BTreeSet::new();
        while walk.step() {}
        assert_eq!(read(&walk.image(CrashChoice::None), "d/f", 1024), Some(vec![1; 1024]));
        for seed in 0..64 {
            let bytes = read(&walk.image(CrashChoice::Random(seed)), "d/f", 1024).unwrap();
            seen.insert((bytes[0], bytes[512]));
        }
        assert_eq!(seen, BTreeSet::from([(1, 1), (1, 3), (2, 1), (2, 3)]), "the later write alone, too");
    }

    #[test]
    fn an_entry_needs_its_directory_synced() {
        let disk = MemDisk::default();
        disk.create_dir(Path::new("d")).unwrap();
        let file = disk.open(Path::new("d/f"), NEW).unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        file.sync().unwrap();
        let mut walk = disk.walk();
        while walk.step() {}
        assert!(read(&walk.image(CrashChoice::None), "d/f", 512).is_none());
        disk.sync_dir(Path::new("d")).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        disk.rename(Path::new("d/f"), Path::new("d/g")).unwrap();
        let mut walk = disk.walk();
        while walk.step() {}
        assert!(read(&walk.image(CrashChoice::None), "d/f", 512).is_some(), "the rename is not durable");
        assert!(read(&walk.image(CrashChoice::All), "d/g", 512).is_some());
    }
}
