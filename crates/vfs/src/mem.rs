//! A simulated disk with a journal of every operation. After a run it can build the state that a
//! power cut would have left at any point of the run.
//!
//! Readers see all writes at once. After a crash less is left: a file's bytes and length are
//! durable only after a sync of the file, a directory's entries only after a sync of the directory.
//! Of all other changes any subset may survive, bytes in units of a 512-byte sector, or of another
//! size. A sync covers
//! the operations that had returned before it began.
//!
//! In a simulated world every operation is a scheduling point, takes simulated time, and is mixed
//! into the world's hash. The clock shows simulated time.

mod content;
mod crash;
mod journal;

pub(crate) use content::SECTOR_BYTES;
pub use crash::{CrashChoice, CrashWalker};

use crate::{Clock, Create, DirIdentity, Disk, File, OpenMode, Vfs};
use base::prng::Prng;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::{Mutex, device_time, event, holds_no_latch, simulated_us};
use content::{DiskContent, FileBytes};
use journal::{DiskOp, JournalEntry};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The duration of operations in a simulated world, microseconds. About that of a fast local
/// device.
const READ_US: u64 = 4;
const WRITE_US: u64 = 8;
const SYNC_US: u64 = 80;

#[derive(Debug)]
struct MemState {
    /// The durable content when the journal began.
    base: DiskContent,
    now: DiskContent,
    ops: Vec<JournalEntry>,
    locked: BTreeMap<PathBuf, Arc<AtomicBool>>,
    /// The most bytes of all files together.
    capacity: Option<u64>,
    /// A power cut leaves all or nothing of so many bytes.
    sector_bytes: usize,
}

impl Default for MemState {
    fn default() -> MemState {
        MemState {
            base: DiskContent::default(),
            now: DiskContent::default(),
            ops: Vec::new(),
            locked: BTreeMap::new(),
            capacity: None,
            sector_bytes: SECTOR_BYTES,
        }
    }
}

/// The simulated disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    inner: Arc<Mutex<MemState>>,
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

impl MemDisk {
    /// Returns an empty disk that writes `sector_bytes` whole or not at all, instead of 512. A
    /// sector begins at a multiple of its size.
    #[must_use]
    pub fn with_sectors(sector_bytes: usize) -> MemDisk {
        MemDisk::holding(DiskContent::default(), sector_bytes)
    }

    fn holding(content: DiskContent, sector_bytes: usize) -> MemDisk {
        MemDisk::with_journal(content.clone(), content, Vec::new(), sector_bytes)
    }

    fn with_journal(
        base: DiskContent,
        now: DiskContent,
        ops: Vec<JournalEntry>,
        sector_bytes: usize,
    ) -> MemDisk {
        let inner = MemState { base, now, ops, sector_bytes, ..MemState::default() };
        MemDisk { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn op_count(&self) -> u64 {
        self.inner.lock().ops.len() as u64
    }

    /// Returns a disk with the same bytes, all durable, with an empty journal and no locks.
    #[must_use]
    pub fn fork(&self) -> MemDisk {
        let inner = self.inner.lock();
        MemDisk::holding(inner.now.clone(), inner.sector_bytes)
    }

    /// Returns this disk with a clock of its own.
    #[must_use]
    pub fn vfs(&self, seed: u64) -> Vfs {
        Vfs { disk: Arc::new(self.clone()), clock: Arc::new(ManualClock::new(seed)) }
    }

    /// Limits the total length of all files to `bytes`. Files that are already longer stay. With
    /// `None` the disk is never full.
    pub fn limit(&self, bytes: Option<u64>) {
        self.inner.lock().capacity = bytes;
    }

    /// Returns the total length of all files that have a name.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner.lock().used()
    }

    /// Flips bits of the byte at `offset` of a file, as silent corruption would.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let inode = *inner.now.names.get(path).ok_or(ErrorKind::NotFound)?;
        let mut byte = [0];
        if !inner.now.inodes[inode].read(offset as usize, &mut byte) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        inner.now.inodes[inode].write(offset as usize, &[byte[0] ^ mask]);
        Ok(())
    }

    /// Does a change. Others see it at once; it returns after some simulated time.
    fn change(&self, op: DiskOp) {
        let mut inner = self.inner.lock();
        let at = inner.begin(op);
        drop(inner);
        device_time(WRITE_US);
        let mut inner = self.inner.lock();
        inner.ops[at].mark = inner.ops.len();
    }

    /// Does a sync. It covers the operations that had returned when it began.
    fn sync_op(&self, op: DiskOp) {
        let began = self.inner.lock().ops.len();
        device_time(SYNC_US);
        event(|| op.digest());
        self.inner.lock().ops.push(JournalEntry { op, mark: began });
    }
}

impl MemState {
    fn used(&self) -> u64 {
        self.now.names.values().map(|inode| self.now.inodes[*inode].len() as u64).sum()
    }

    /// Returns the length that a file can have, if a change would make it `len` bytes long.
    fn fits(&self, inode: usize, len: u64) -> u64 {
        let (Some(capacity), has) = (self.capacity, self.now.inodes[inode].len() as u64) else { return len };
        if len <= has { len } else { len.min(has + capacity.saturating_sub(self.used())) }
    }

    /// Applies an operation that has not returned yet. Returns its index in the journal.
    fn begin(&mut self, op: DiskOp) -> usize {
        event(|| op.digest());
        self.now.apply(&op);
        self.ops.push(JournalEntry { op, mark: usize::MAX });
        self.ops.len() - 1
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut inner = self.inner.lock();
        let inode = match (inner.now.names.get(path).copied(), mode.create) {
            (Some(_), Create::New) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => inode,
            (None, Create::Never) => return Err(ErrorKind::NotFound.into()),
            (None, _) if !inner.now.parent_exists(path) => return Err(ErrorKind::NotFound.into()),
            (None, _) => {
                let inode = inner.now.inodes.len();
                inner.now.inodes.push(FileBytes::default());
                let at = inner.begin(DiskOp::Link { path: path.to_owned(), inode });
                inner.ops[at].mark = at + 1;
                inode
            }
        };
        Ok(Arc::new(MemFile { disk: self.clone(), inode }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let inner = self.inner.lock();
        if inner.now.dirs.contains(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if !inner.now.parent_exists(path) {
            return Err(ErrorKind::NotFound.into());
        }
        drop(inner);
        self.change(DiskOp::MakeDir { path: path.to_owned() });
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
        self.change(DiskOp::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.inner.lock().now.names.contains_key(path) {
            return Err(ErrorKind::NotFound.into());
        }
        self.change(DiskOp::Unlink { path: path.to_owned() });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sync_op(DiskOp::SyncDir { dir: dir.to_owned() });
        Ok(())
    }

    fn identity(&self, dir: &Path) -> io::Result<Option<DirIdentity>> {
        let inner = self.inner.lock();
        if !inner.now.dirs.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        // No directory is ever renamed here.
        let number = base::crc::crc32c(dir.as_os_str().as_encoded_bytes());
        Ok(Some(DirIdentity { number: number.into(), born_ns: 1, volume: 0 }))
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

impl File for MemFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        device_time(READ_US);
        let inner = self.disk.inner.lock();
        let whole = inner.now.inodes[self.inode].read(offset as usize, bytes);
        if whole { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        let end = offset + bytes.len() as u64;
        let fits = self.disk.inner.lock().fits(self.inode, end);
        // The part that fits is written.
        let missing = ((end - fits) as usize).next_multiple_of(SECTOR_BYTES).min(bytes.len());
        let part = if fits < end { &bytes[..bytes.len() - missing] } else { bytes };
        if !part.is_empty() {
            self.disk.change(DiskOp::Write { inode: self.inode, offset, bytes: part.into() });
        }
        if fits < end { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        holds_no_latch();
        self.disk.sync_op(DiskOp::Sync { inode: self.inode });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner.lock().now.inodes[self.inode].len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        holds_no_latch();
        if self.disk.inner.lock().fits(self.inode, len) < len {
            return Err(ErrorKind::StorageFull.into());
        }
        self.disk.change(DiskOp::SetLen { inode: self.inode, len });
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        holds_no_latch();
        Ok(())
    }

    fn is_direct(&self) -> bool {
        true
    }
}

/// A clock that shows the time of a simulated world. Outside of one, each reading moves it by a
/// microsecond.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicU64,
    rng: Mutex<Prng>,
}

impl ManualClock {
    /// Makes a clock at 0 whose random numbers come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> ManualClock {
        ManualClock { now: AtomicU64::new(0), rng: Mutex::new(Prng::new(seed)) }
    }
}

impl Clock for ManualClock {
    fn cores(&self) -> u32 {
        if simulated_us().is_some() { base::sync::cores() } else { 2 }
    }
    fn now_us(&self) -> u64 {
        simulated_us().unwrap_or_else(|| self.now.fetch_add(1, Ordering::Relaxed))
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
    use std::collections::BTreeSet;

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };
    const OLD: OpenMode = OpenMode { create: Create::Never, direct: true, read_only: false };

    fn read(disk: &MemDisk, path: &str, n: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; n];
        disk.open(Path::new(path), OLD).ok()?.read_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    #[test]
    fn a_sector_of_another_size_survives_whole_or_not_at_all() {
        let disk = MemDisk::with_sectors(4096);
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = disk.open(Path::new("f"), mode).unwrap();
        file.write_at(&[0; 8192], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.write_at(&[1; 8192], 0).unwrap();
        let mut walk = disk.walk();
        while walk.step() {}
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let bytes = read(&walk.image(CrashChoice::Random(seed)), "f", 8192).unwrap();
            assert!(bytes.chunks(4096).all(|sector| sector.iter().all(|b| *b == sector[0])));
            seen.insert((bytes[0], bytes[4096]));
        }
        assert_eq!(seen.len(), 4, "each sector for itself");
    }

    #[test]
    fn unsynced_writes_may_be_lost_torn_or_reordered() {
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
        assert_eq!(
            seen,
            BTreeSet::from([(1, 1), (1, 3), (2, 1), (2, 3)]),
            "the later write may survive alone"
        );
    }

    /// The next process sees the writes of a killed process. A power cut still loses them unless
    /// the next process syncs them.
    #[test]
    fn a_kill_loses_nothing_and_makes_nothing_durable() {
        let disk = MemDisk::default();
        let file = disk.open(Path::new("f"), NEW).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        let mut walk = disk.walk();
        while walk.step() {}
        for synced in [false, true] {
            let next = walk.killed();
            assert_eq!(read(&next, "f", 512), Some(vec![1; 512]));
            if synced {
                next.open(Path::new("f"), OLD).unwrap().sync().unwrap();
            }
            let mut walk = next.walk();
            while walk.step() {}
            assert_eq!(read(&walk.image(CrashChoice::None), "f", 512).is_some(), synced);
        }
    }

    #[test]
    fn an_entry_is_durable_after_a_sync_of_its_directory() {
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

    #[test]
    fn equal_keys_mean_equal_images() {
        let disk = MemDisk::default();
        let file = disk.open(Path::new("f"), NEW).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        for n in 0..3u8 {
            file.write_at(&[n + 1; 1024], 256).unwrap();
            if n == 1 {
                file.sync().unwrap();
            }
        }
        let mut walk = disk.walk();
        let mut seen: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        loop {
            for seed in 0..20 {
                let choice = CrashChoice::Random(seed);
                let bytes = read(&walk.image(choice), "f", 256);
                assert_eq!(seen.entry(walk.image_key(choice)).or_insert_with(|| bytes.clone()), &bytes);
            }
            if !walk.step() {
                break;
            }
        }
        assert!(seen.len() > 10);
    }

    /// A write that has not returned when a sync of its file begins may be lost although the sync
    /// has returned.
    #[cfg(feature = "sim")]
    #[test]
    fn a_sync_covers_only_what_had_returned_when_it_began() {
        use base::sync::sim::{WorldOptions, run};
        let mut lost = 0;
        for seed in 0..100 {
            let disk = MemDisk::default();
            let inside = disk.clone();
            let world = run(WorldOptions::new(seed), move || {
                let file = inside.open(Path::new("f"), NEW).unwrap();
                inside.sync_dir(Path::new("")).unwrap();
                let other = Arc::clone(&file);
                let writer = base::sync::spawn("writer", move || other.write_at(&[1; 512], 0).unwrap());
                file.write_at(&[2; 512], 512).unwrap();
                file.sync().unwrap();
                writer.unwrap().join().unwrap();
            });
            world.result.unwrap();
            let mut walk = disk.walk();
            while walk.step() {}
            let image = walk.image(CrashChoice::None);
            let bytes = read(&image, "f", 1024).expect("the bytes written before the sync exist");
            assert_eq!(bytes[512], 2);
            lost += u32::from(bytes[0] == 0);
        }
        assert!((1..100).contains(&lost), "{lost} of 100");
    }
}
