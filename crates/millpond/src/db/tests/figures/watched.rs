//! A disk that is watched from outside. It counts syncs and page writes by thread, to compare them
//! with the metrics, and can hold an operation as long as a test wants. Its clock moves with every
//! reading, so everything takes time.

use base::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfs::intercept::Interceptor;
use vfs::mem::MemDisk;
use vfs::{BatchIo, Clock, Disk, File, Vfs, WriteOp};

/// The operations that a test can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HeldSync {
    LogSync,
    PagesSync,
}

#[derive(Debug, Default)]
struct Counts {
    syncs: u64,
    /// Pages written in place, without growth of the file, by the name of the thread.
    pages: BTreeMap<String, u64>,
    held: Vec<HeldSync>,
}

#[derive(Debug)]
struct WatchedState {
    counts: Mutex<Counts>,
    freed: Condvar,
    /// If true, neither pages nor undo nor the recorder find space.
    full: AtomicBool,
    /// If true, syncs fail.
    broken: AtomicBool,
}

/// The disk. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct WatchedDisk {
    disk: MemDisk,
    shared: Arc<WatchedState>,
    pub(super) clock: Arc<TickingClock>,
}

/// The machine's clock. It moves a little at every reading, and by hand.
#[derive(Debug)]
pub(super) struct TickingClock {
    machine: Arc<dyn Clock>,
    ahead_us: AtomicU64,
    tick_us: AtomicU64,
}

impl TickingClock {
    pub(super) fn pass(&self, us: u64) {
        self.ahead_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn set_tick(&self, us: u64) {
        self.tick_us.store(us, Ordering::Relaxed);
    }
}

impl Clock for TickingClock {
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
    fn give_memory_back(&self) -> bool {
        self.machine.give_memory_back()
    }
}

impl WatchedDisk {
    pub(super) fn new(disk: MemDisk) -> WatchedDisk {
        let machine = Vfs::os().clock;
        let clock = TickingClock { machine, ahead_us: AtomicU64::new(0), tick_us: AtomicU64::new(2) };
        let shared = WatchedState {
            counts: Mutex::default(),
            freed: Condvar::new(),
            full: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        };
        WatchedDisk { disk, shared: Arc::new(shared), clock: Arc::new(clock) }
    }

    pub(super) fn vfs(&self) -> Vfs {
        let between = Arc::clone(&self.shared) as Arc<dyn Interceptor>;
        Vfs::intercepted(Arc::new(self.disk.clone()), Arc::clone(&self.clock) as Arc<dyn Clock>, between)
    }

    pub(super) fn disk(&self) -> &MemDisk {
        &self.disk
    }

    /// Returns the number of syncs of files and directories.
    pub(super) fn syncs(&self) -> u64 {
        self.shared.counts.lock().syncs
    }

    /// Returns the pages written in place, by the name of the thread.
    pub(super) fn pages_by_thread(&self) -> BTreeMap<String, u64> {
        self.shared.counts.lock().pages.clone()
    }

    /// Holds such operations until [`WatchedDisk::free`].
    pub(super) fn hold(&self, what: HeldSync) {
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

fn is_pages(path: &Path) -> bool {
    path.ends_with("pages")
}

impl Interceptor for WatchedState {
    fn sync_dir(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk.sync_dir(dir)?;
        self.counts.lock().syncs += 1;
        Ok(())
    }
    fn is_durable(&self, _: &dyn Disk, _: &Path) -> bool {
        true
    }
    fn batch_io(&self, _: &dyn Disk) -> BatchIo {
        BatchIo::Ring
    }
    fn write(&self, file: &dyn File, path: &Path, op: WriteOp<'_>) -> io::Result<()> {
        let grows = op.offset + op.bytes.len() as u64 > file.len()?;
        let limited = is_pages(path)
            || path.ends_with("recorder")
            || path.parent().is_some_and(|dir| dir.ends_with("undo"));
        if limited && grows && self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if is_pages(path) && !grows {
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            let pages = (op.bytes.len() / super::PAGE) as u64;
            *self.counts.lock().pages.entry(thread).or_default() += pages;
        }
        file.write_at(op.bytes, op.offset)
    }
    fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
        // A segment may have been created under another name.
        let is_log = path.parent().is_some_and(|dir| dir.ends_with("redo"));
        let held = |what: &HeldSync| match what {
            HeldSync::LogSync => is_log,
            HeldSync::PagesSync => is_pages(path),
        };
        let mut counts = self.counts.lock();
        while counts.held.iter().any(held) {
            self.freed.wait(&mut counts);
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Other.into());
        }
        counts.syncs += 1;
        drop(counts);
        file.sync()
    }
    fn is_direct(&self, _: &dyn File) -> bool {
        true
    }
}
