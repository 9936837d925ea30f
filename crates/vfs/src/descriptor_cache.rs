//! A cache of file descriptors: of the files in some directories only a few are open. There may be
//! thousands of log segments and undo files, but a process may have a few hundred descriptors. A
//! file is opened when it is used. Of the open files that no caller uses, the least recently used
//! ones are closed first (clock algorithm).
//!
//! A file is closed only after all its writes were synced through the same descriptor: the system
//! reports a failed write-back to those that have the file open then, and not to a later opener. If
//! an unsynced file must be closed, it is synced first. If that sync fails, the next sync of the
//! file returns the error.
//!
//! If the process or the whole system has no descriptor left, files are closed and the call is
//! tried again. If nothing can be closed, the call fails and has changed no file. Like a full disk,
//! this is no failure of the disk: [`no_descriptor`].

use crate::{Clock, Create, DirIdentity, Disk, File, OpenMode, ReadOp, WriteOp};
use base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use base::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// `EMFILE` and `ENFILE`: the process, or the system, has no descriptor left.
pub(crate) const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// The descriptors that any database needs: the root, `pages`, the doublewrite file, the four
/// directories and their locks, and the files of log and undo that are in use at one time.
const NEEDED: usize = 28;

/// The least and the most files that are kept open.
const OPEN: std::ops::RangeInclusive<usize> = 4..=2048;

/// The error that no descriptor is left. It says how to get more.
#[derive(Debug)]
struct NoDescriptor {
    most: usize,
}

impl fmt::Display for NoDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoDescriptor { most } = self;
        write!(
            f,
            "no file descriptor is left; the process may have {most} (`ulimit -n`), and a database needs about {NEEDED}"
        )
    }
}

impl std::error::Error for NoDescriptor {}

/// Whether an operation failed because the process or the system has no file descriptor left. Then
/// the operation has done nothing.
#[must_use]
pub fn no_descriptor(error: &io::Error) -> bool {
    let told = error.get_ref().is_some_and(|inner| inner.is::<NoDescriptor>());
    told || error.raw_os_error().is_some_and(|errno| NO_DESCRIPTOR.contains(&errno))
}

/// Called after a sync that was made in order to close a file, with its duration in microseconds.
pub type OnSync = Box<dyn Fn(u64) + Send + Sync>;

/// The directories whose files are cached. Clones share one list: a directory that is added counts
/// for the files that are opened from then on.
#[derive(Clone, Debug, Default)]
pub struct CachedDirs(Arc<Mutex<Vec<PathBuf>>>);

impl CachedDirs {
    /// Adds a directory.
    pub fn add(&self, dir: &Path) {
        let mut dirs = self.0.lock();
        if !dirs.iter().any(|cached| cached == dir) {
            dirs.push(dir.to_owned());
        }
    }

    fn contain(&self, dir: &Path) -> bool {
        self.0.lock().iter().any(|cached| cached == dir)
    }
}

struct DescriptorCache {
    disk: Arc<dyn Disk>,
    dirs: CachedDirs,
    /// The descriptors that the process may have.
    limit: usize,
    /// The most cached files that are open.
    most: usize,
    /// The number of cached files that are open.
    open: AtomicUsize,
    files: Mutex<CachedFiles>,
    clock: Arc<dyn Clock>,
    on_sync: OnSync,
}

#[derive(Default)]
struct CachedFiles {
    /// Files that may be open. The file that was opened or examined longest ago is first.
    queue: VecDeque<Weak<CachedFile>>,
    /// Files by name. If a file is open several times, the last one counts.
    names: BTreeMap<PathBuf, Weak<CachedFile>>,
}

/// A disk with a descriptor cache. Clones share the cache.
#[derive(Clone)]
pub(crate) struct CachingDisk {
    cache: Arc<DescriptorCache>,
}

struct CachedFile {
    me: Weak<CachedFile>,
    cache: Arc<DescriptorCache>,
    mode: OpenMode,
    direct: bool,
    /// How many changes have ended. During a change the changing thread holds a reference to
    /// `CachedFileState::file`.
    changes: AtomicU64,
    /// How many of the changes a sync has covered.
    synced: AtomicU64,
    state: Mutex<CachedFileState>,
}

struct CachedFileState {
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    /// It was used since the queue was last scanned.
    used: bool,
    /// It was removed, so it could not be opened again.
    gone: bool,
    /// The error of the sync before it was closed.
    failed: Option<(ErrorKind, String)>,
}

impl DescriptorCache {
    /// Does an action that needs a descriptor. If there is none, closes files and tries again.
    fn with_descriptor<T>(&self, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match act() {
                Err(error) if no_descriptor(&error) => {
                    if !self.close_one() {
                        return Err(io::Error::new(error.kind(), NoDescriptor { most: self.limit }));
                    }
                }
                done => return done,
            }
        }
    }

    /// Closes a file that no caller uses. Prefers a file that needs no sync. Returns false if there
    /// is none.
    fn close_one(&self) -> bool {
        // These references may be the last ones. They are dropped after the mutex, because dropping
        // a file takes the mutex.
        let mut looked_at = Vec::new();
        let mut files = self.files.lock();
        for may_sync in [false, true] {
            // A recently used file gets a second chance.
            for _ in 0..2 * files.queue.len() {
                let Some(next) = files.queue.pop_front() else { return false };
                let Some(file) = next.upgrade() else { continue };
                looked_at.push(Arc::clone(&file));
                let Some(mut state) = file.state.try_lock() else {
                    files.queue.push_back(next);
                    continue;
                };
                let Some(open) = &mut state.file else { continue };
                // If this is the only reference, all changes by other threads are visible here.
                let in_use = Arc::get_mut(open).is_none() || state.gone;
                let unsynced = file.is_unsynced();
                let lately = std::mem::take(&mut state.used);
                if !in_use && !lately && (may_sync || !unsynced) {
                    self.close(&file, &mut state);
                    return true;
                }
                drop(state);
                files.queue.push_back(next);
            }
        }
        false
    }

    fn close(&self, cached: &CachedFile, state: &mut CachedFileState) {
        let Some(file) = state.file.take() else { return };
        if cached.is_unsynced() {
            let begun = self.clock.now_us();
            match file.sync() {
                Ok(()) => cached.synced.store(cached.changes.load(Ordering::Relaxed), Ordering::Relaxed),
                Err(error) => state.failed = Some((error.kind(), error.to_string())),
            }
            (self.on_sync)(self.clock.now_us().saturating_sub(begun));
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        while self.open.load(Ordering::Relaxed) >= self.most && self.close_one() {}
        let file = self.with_descriptor(|| self.disk.open(path, mode))?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }
}

impl CachingDisk {
    /// Makes a disk over `disk`. `limit` is the number of descriptors that the process may have.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dirs: &CachedDirs,
        limit: usize,
        on_sync: OnSync,
    ) -> CachingDisk {
        let most = (limit / 4).clamp(*OPEN.start(), *OPEN.end());
        let dirs = dirs.clone();
        let (open, files) = (AtomicUsize::new(0), Mutex::default());
        CachingDisk {
            cache: Arc::new(DescriptorCache { disk, dirs, limit, most, open, files, clock, on_sync }),
        }
    }

    fn find(&self, path: &Path) -> Option<Arc<CachedFile>> {
        self.cache.files.lock().names.get(path).and_then(Weak::upgrade)
    }
}

impl Disk for CachingDisk {
    fn beneath(&self) -> Option<&dyn Disk> {
        Some(&*self.cache.disk)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let cache = &self.cache;
        if !path.parent().is_some_and(|dir| cache.dirs.contain(dir)) {
            return cache.with_descriptor(|| cache.disk.open(path, mode));
        }
        let file = cache.open(path, mode)?;
        let cached = Arc::new_cyclic(|me| CachedFile {
            me: Weak::clone(me),
            cache: Arc::clone(cache),
            mode: OpenMode { create: Create::Never, ..mode },
            direct: file.is_direct(),
            changes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            state: Mutex::new(CachedFileState {
                path: path.to_owned(),
                file: Some(file),
                used: true,
                gone: false,
                failed: None,
            }),
        });
        let mut files = cache.files.lock();
        files.queue.push_back(Arc::downgrade(&cached));
        files.names.insert(path.to_owned(), Arc::downgrade(&cached));
        Ok(cached)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.cache.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.cache.with_descriptor(|| self.cache.disk.list(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from);
        // Holding the state keeps other threads from opening it while its name changes.
        let mut state = file.as_ref().map(|file| file.state.lock());
        self.cache.disk.rename(from, to)?;
        if let Some(state) = &mut state {
            to.clone_into(&mut state.path);
        }
        drop(state);
        let mut files = self.cache.files.lock();
        if let Some(name) = files.names.remove(from) {
            files.names.insert(to.to_owned(), name);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let file = self.find(path);
        let mut state = file.as_ref().map(|file| file.state.lock());
        self.cache.disk.remove(path)?;
        if let Some(state) = &mut state {
            state.gone = true;
        }
        drop(state);
        self.cache.files.lock().names.remove(path);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.cache.with_descriptor(|| self.cache.disk.sync_dir(dir))
    }

    fn hold(&self, dir: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.cache.with_descriptor(|| self.cache.disk.hold(dir))
    }

    fn identity(&self, dir: &Path) -> io::Result<Option<DirIdentity>> {
        self.cache.with_descriptor(|| self.cache.disk.identity(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.cache.with_descriptor(|| self.cache.disk.lock(path))
    }

    fn is_durable(&self, dir: &Path) -> bool {
        self.cache.disk.is_durable(dir)
    }

    fn descriptors(&self) -> Option<usize> {
        Some(self.cache.limit)
    }
}

impl CachedFile {
    /// Returns the open file. It stays open as long as the caller has the reference.
    fn get(&self) -> io::Result<Arc<dyn File>> {
        self.get_by(self.state.lock())
    }

    /// Returns the open file. Fails if changes were lost when it was last closed.
    fn get_to_change(&self) -> io::Result<Arc<dyn File>> {
        let state = self.state.lock();
        if let Some((kind, said)) = &state.failed {
            return Err(io::Error::new(*kind, said.clone()));
        }
        self.get_by(state)
    }

    #[inline]
    fn get_by(&self, mut state: MutexGuard<'_, CachedFileState>) -> io::Result<Arc<dyn File>> {
        state.used = true;
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        self.open_again(state)
    }

    #[cold]
    fn open_again(&self, mut state: MutexGuard<'_, CachedFileState>) -> io::Result<Arc<dyn File>> {
        if state.gone {
            return Err(ErrorKind::NotFound.into());
        }
        // Other threads that look for a file to close find this one locked, and skip it.
        let file = self.cache.open(&state.path, self.mode)?;
        state.file = Some(Arc::clone(&file));
        drop(state);
        self.cache.files.lock().queue.push_back(Weak::clone(&self.me));
        Ok(file)
    }

    /// Changes the file, and remembers that the change is not synced.
    fn change(&self, change: impl FnOnce(&dyn File) -> io::Result<()>) -> io::Result<()> {
        let file = self.get_to_change()?;
        let changed = change(&*file);
        // Counted before `file` is dropped, so that a thread that closes the file sees the change.
        self.changes.fetch_add(1, Ordering::Release);
        changed
    }

    fn is_unsynced(&self) -> bool {
        self.changes.load(Ordering::Acquire) > self.synced.load(Ordering::Relaxed)
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let state = self.state.lock();
        if state.file.is_some() {
            self.cache.open.fetch_sub(1, Ordering::Relaxed);
        }
        let path = state.path.clone();
        drop(state);
        let mut files = self.cache.files.lock();
        if files.names.get(&path).is_some_and(|file| file.strong_count() == 0) {
            files.names.remove(&path);
        }
        // Dead entries are removed when the queue is scanned, and here if it is never scanned.
        if files.queue.len() > 2 * *OPEN.end() {
            files.queue.retain(|file| file.strong_count() > 0);
        }
    }
}

impl File for CachedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.get()?.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(|file| file.write_at(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.get_to_change()?;
        let changes = self.changes.load(Ordering::Acquire);
        file.sync()?;
        self.synced.fetch_max(changes, Ordering::Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.get()?.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|file| file.set_len(len))
    }

    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.get()?.read_batch(ops)
    }

    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        self.change(|file| file.write_batch(ops))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(|file| file.punch(offset, len))
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn opened(&self) -> io::Result<Option<Arc<dyn File>>> {
        self.get().map(Some)
    }
}

impl fmt::Debug for CachingDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachingDisk({:?})", self.cache.disk)
    }
}

impl fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedFile({:?})", self.state.lock().path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, FaultDisk, FaultRule, OpKind};
    use crate::mem::MemDisk;

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };

    /// Makes a disk with `most` descriptors. Also returns the count of syncs that were made in
    /// order to close a file.
    fn few(most: usize) -> (FaultDisk, CachingDisk, Arc<AtomicUsize>) {
        let mem = MemDisk::default();
        mem.create_dir(Path::new("/few")).unwrap();
        let fault = FaultDisk::new(Arc::new(mem.clone()));
        fault.limit_descriptors(most, most);
        let count = Arc::new(AtomicUsize::new(0));
        let count_here = Arc::clone(&count);
        let on_sync = Box::new(move |_| {
            count_here.fetch_add(1, Ordering::Relaxed);
        });
        let dirs = CachedDirs::default();
        dirs.add(Path::new("/few"));
        let disk = CachingDisk::new(Arc::new(fault.clone()), mem.vfs(1).clock, &dirs, most, on_sync);
        (fault, disk, count)
    }

    fn path(n: usize) -> PathBuf {
        PathBuf::from(format!("/few/{n}"))
    }

    #[test]
    fn many_files_use_few_descriptors() {
        let (fault, disk, synced) = few(6);
        let files: Vec<_> = (0..40).map(|n| disk.open(&path(n), NEW).unwrap()).collect();
        for (n, file) in files.iter().enumerate() {
            file.write_at(&[n as u8; 512], 0).unwrap();
            file.sync().unwrap();
        }
        disk.rename(&path(3), &path(103)).unwrap();
        for (n, file) in files.iter().enumerate().rev() {
            let mut bytes = [0; 512];
            file.read_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, [n as u8; 512]);
        }
        disk.sync_dir(Path::new("/few")).unwrap();
        assert!(fault.open_files().1 <= 6, "{:?}", fault.open_files());
        assert_eq!(synced.load(Ordering::Relaxed), 0, "all had been synced");
        drop(files);
        assert_eq!(fault.open_files().0, 0);
    }

    /// An unsynced file is synced through its old descriptor before it is closed. If that fails,
    /// the file returns the error later.
    #[test]
    fn no_file_is_closed_unsynced() {
        for fails in [false, true] {
            let (fault, disk, synced) = few(6);
            let files: Vec<_> = (0..4).map(|n| disk.open(&path(n), NEW).unwrap()).collect();
            for file in &files {
                file.write_at(&[1; 512], 0).unwrap();
            }
            if fails {
                let refused = Fault::Refused(ErrorKind::Other);
                fault.fail(FaultRule { kind: OpKind::Sync, nth: 1, for_ever: false, fault: refused });
            }
            assert_eq!(synced.load(Ordering::Relaxed), 0);
            let others: Vec<_> = (10..13).map(|n| disk.open(&path(n), NEW).unwrap()).collect();
            let held: Vec<_> = others.iter().map(|file| file.opened().unwrap()).collect();
            assert!(synced.load(Ordering::Relaxed) > 0);
            let said = files.iter().filter(|file| file.sync().is_err()).count();
            assert_eq!(said, usize::from(fails));
            drop(held);
        }
    }

    #[test]
    fn a_file_in_use_stays_open_and_the_error_says_that_descriptors_are_missing() {
        let (fault, disk, _) = few(4);
        let files: Vec<_> = (0..4).map(|n| disk.open(&path(n), NEW).unwrap()).collect();
        let held: Vec<_> = files.iter().map(|file| file.opened().unwrap()).collect();
        let error = disk.open(&path(9), NEW).unwrap_err();
        assert!(no_descriptor(&error) && error.to_string().contains("may have 4 (`ulimit -n`)"), "{error}");
        assert!(no_descriptor(&disk.sync_dir(Path::new("/few")).unwrap_err()));
        drop(held);
        disk.open(&path(9), NEW).unwrap();
        assert_eq!(fault.open_files().1, 4);
    }

    #[test]
    fn a_removed_file_can_still_be_read_through_an_open_handle() {
        let (_, disk, _) = few(4);
        let file = disk.open(&path(0), NEW).unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        disk.remove(&path(0)).unwrap();
        let others: Vec<_> = (1..20).map(|n| disk.open(&path(n), NEW)).collect();
        file.read_at(&mut [0; 512], 0).unwrap();
        assert!(others.iter().all(Result::is_ok));
    }
}
