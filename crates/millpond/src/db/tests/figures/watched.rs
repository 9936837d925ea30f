//! A disk that is watched from outside: it counts what the engine says of itself once more, by the thread that does it, and can hold
//! an operation for as long as a test wants. Its clock moves with every look, so that everything takes time.

use base::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfs::mem::MemDisk;
use vfs::{BatchIo, Clock, Disk, File, OpenMode, ReadOp, Vfs, WriteOp};

/// What can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    LogSync,
    PagesSync,
}

#[derive(Debug, Default)]
struct Counts {
    syncs: u64,
    /// Pages written in place, not what made the file longer, by the name of the thread.
    pages: BTreeMap<String, u64>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Shared {
    counts: Mutex<Counts>,
    freed: Condvar,
    /// Neither pages nor undo find room.
    full: AtomicBool,
    /// Syncs fail.
    broken: AtomicBool,
}

/// The disk. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    disk: MemDisk,
    shared: Arc<Shared>,
    pub(super) clock: Arc<Ticking>,
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    shared: Arc<Shared>,
}

/// The machine's clock, a little later at every look, and moved on by hand.
#[derive(Debug)]
pub(super) struct Ticking {
    machine: Arc<dyn Clock>,
    ahead_us: AtomicU64,
    tick_us: AtomicU64,
}

impl Ticking {
    pub(super) fn pass(&self, us: u64) {
        self.ahead_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn set_tick(&self, us: u64) {
        self.tick_us.store(us, Ordering::Relaxed);
    }
}

impl Clock for Ticking {
    fn now_us(&self) -> u64 {
        let tick = self.tick_us.load(Ordering::Relaxed);
        self.machine.now_us() + self.ahead_us.fetch_add(tick, Ordering::Relaxed)
    }
    fn unix_seconds(&self) -> u64 {
        0
    }
    fn random_u64(&self) -> u64 {
        self.machine.random_u64()
    }
}

impl Watched {
    pub(super) fn new(disk: MemDisk) -> Watched {
        let machine = Vfs::os().clock;
        let clock = Ticking { machine, ahead_us: AtomicU64::new(0), tick_us: AtomicU64::new(2) };
        let shared = Shared {
            counts: Mutex::default(),
            freed: Condvar::new(),
            full: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        };
        Watched { disk, shared: Arc::new(shared), clock: Arc::new(clock) }
    }

    pub(super) fn vfs(&self) -> Vfs {
        Vfs { disk: Arc::new(self.clone()), clock: Arc::clone(&self.clock) as Arc<dyn Clock> }
    }

    pub(super) fn disk(&self) -> &MemDisk {
        &self.disk
    }

    /// Syncs of files and directories.
    pub(super) fn syncs(&self) -> u64 {
        self.shared.counts.lock().syncs
    }

    /// Pages written in place, by the name of the thread.
    pub(super) fn pages_by_thread(&self) -> BTreeMap<String, u64> {
        self.shared.counts.lock().pages.clone()
    }

    /// Holds such operations until [`Watched::free`].
    pub(super) fn hold(&self, what: Held) {
        self.shared.counts.lock().held.push(what);
    }

    pub(super) fn free(&self) {
        self.shared.counts.lock().held.clear();
        self.shared.freed.notify_all();
    }

    pub(super) fn set_full(&self, full: bool) {
        self.shared.full.store(full, Ordering::Relaxed);
    }

    pub(super) fn set_broken(&self) {
        self.shared.broken.store(true, Ordering::Relaxed);
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(WatchedFile { file, path: path.to_owned(), shared: Arc::clone(&self.shared) }))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)?;
        self.shared.counts.lock().syncs += 1;
        Ok(())
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
    fn is_durable(&self, _: &Path) -> bool {
        true
    }
    fn batch_io(&self) -> BatchIo {
        BatchIo::Ring
    }
}

impl WatchedFile {
    fn is_pages(&self) -> bool {
        self.path.ends_with("pages")
    }
}

impl File for WatchedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let grows = offset + bytes.len() as u64 > self.file.len()?;
        let limited = self.is_pages() || self.path.parent().is_some_and(|dir| dir.ends_with("undo"));
        if limited && grows && self.shared.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.is_pages() && !grows {
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            let pages = (bytes.len() / super::PAGE) as u64;
            *self.shared.counts.lock().pages.entry(thread).or_default() += pages;
        }
        self.file.write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        // A segment may have been made under another name.
        let is_log = self.path.parent().is_some_and(|dir| dir.ends_with("redo"));
        let held = |what: &Held| match what {
            Held::LogSync => is_log,
            Held::PagesSync => self.is_pages(),
        };
        let mut counts = self.shared.counts.lock();
        while counts.held.iter().any(held) {
            self.shared.freed.wait(&mut counts);
        }
        if self.shared.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Other.into());
        }
        counts.syncs += 1;
        drop(counts);
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.file.read_batch(ops)
    }
    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
    fn is_direct(&self) -> bool {
        true
    }
}
