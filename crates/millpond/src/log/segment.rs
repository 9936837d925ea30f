//! The segment files, which hold the blocks of the log.
//!
//! A segment holds a fixed number of blocks: segment `n` holds those from `n * blocks` on. Segments
//! are zero-written once. Later they are recycled under a new number, or removed if the log is to
//! be shorter. A commit never waits for that. The identity of a segment is in its header, not in
//! its name. Header rewrite, sync, rename and directory sync are done before the segment counts as
//! ready.
//!
//! ```text
//!  0            4096                            4096 + blocks * 4096
//!  +------------+-------------------------------+
//!  | header     | blocks                        |
//!  +------------+-------------------------------+
//!  header: magic 8 | format u16 | 0 u16 | blocks u32 | db id u64 | number u64 | first lsn u64
//!          | crc32c u32
//! ```

mod moves;

pub(crate) use moves::remove_drafts;

use super::block::{BLOCK_BYTES, block_start};
use crate::error::{Error, Poison, Result};
use crate::planted::{Bug, planted};
use crate::role;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard, for_each_in_parallel};
use base::{Lsn, crc};
use metrics::{FileKind, M, Metrics, SyncReason};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{BatchIo, Create, File, OpenMode, Vfs};

const MAGIC: &[u8; 8] = b"MPONDLOG";
const FORMAT: u16 = 1;
/// Threads that open and sync the segments of a log together, each of which waits for the device.
const OPEN_THREADS: usize = 16;
/// Segments that a shrinking log keeps beyond the one being written. No thread holds a segment that
/// is not yet being written.
pub(crate) const SPARE_SEGMENTS: u64 = 1;
const _: () = assert!(1 + SPARE_SEGMENTS == pace::constants::LOG_FILES_AT_REST);

/// What all segments of a database share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    /// The id of the database.
    pub db_id: u64,
    /// Blocks in a segment.
    pub blocks: u64,
}

impl SegmentShape {
    /// Returns the bytes of log payload in a segment.
    pub(crate) fn payload_bytes(&self) -> u64 {
        block_start(self.blocks).0
    }

    /// Returns the first position of a segment.
    pub(super) fn first_lsn(&self, number: u64) -> Lsn {
        block_start(number * self.blocks)
    }

    /// Returns the length of a segment file.
    pub(crate) fn file_bytes(&self) -> u64 {
        (1 + self.blocks) * BLOCK_BYTES as u64
    }

    /// Returns the segment that holds block `block`.
    pub(crate) fn segment_of(&self, block: u64) -> u64 {
        block / self.blocks
    }

    /// Returns the header block of segment `number`.
    fn encode(&self, number: u64) -> AlignedBuf {
        let mut h = AlignedBuf::zeroed(BLOCK_BYTES);
        h[..8].copy_from_slice(MAGIC);
        set_u16(&mut h, 8, FORMAT);
        set_u32(&mut h, 12, self.blocks as u32);
        set_u64(&mut h, 16, self.db_id);
        set_u64(&mut h, 24, number);
        set_u64(&mut h, 32, block_start(number * self.blocks).0);
        let crc = crc::crc32c(&h[..40]);
        set_u32(&mut h, 40, crc);
        h
    }
}

/// One segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its number: it tells which blocks it holds.
    pub number: u64,
    /// Where its file is.
    pub path: PathBuf,
    /// The open file.
    pub file: Arc<dyn File>,
}

/// Returns where block `block` lies in the file of its segment.
pub(crate) fn file_offset(shape: SegmentShape, block: u64) -> u64 {
    (1 + block % shape.blocks) * BLOCK_BYTES as u64
}

/// All segments of a database.
#[derive(Debug)]
pub(crate) struct Segments {
    vfs: Vfs,
    target: Mutex<Target>,
    shape: SegmentShape,
    ready: Mutex<BTreeMap<u64, Arc<Segment>>>,
    /// The number of a ready segment that no flush may take, for its file is about to be replaced;
    /// `u64::MAX` if there is none. Changes under the mutex of `ready`.
    replacing: AtomicU64,
    /// Files of segments whose successors are in the directory of now. Only a crash leaves them.
    strays: Vec<PathBuf>,
    /// Held while files are made, recycled or removed, so that two threads never make the same one.
    files_lock: Mutex<()>,
    /// The number of the segment that was written last.
    written: AtomicU64,
    /// The descriptors of that segment and the next, so that the log never waits for one.
    kept_open: Mutex<Vec<Arc<dyn File>>>,
    /// Segments that were opened once more, for reads through the page cache. `None`: no thread has
    /// use for them any more.
    cached: Mutex<Option<BTreeMap<u64, Arc<Segment>>>>,
    metrics: Arc<Metrics>,
}

/// Where files are made.
#[derive(Debug)]
struct Target {
    dir: PathBuf,
    /// Files there of zeros, synced, that are to become segments. They were made before the log
    /// moved here.
    drafts: Vec<PathBuf>,
}

/// Its holder is the only thread that makes, recycles or removes files.
type FilesLock<'a> = MutexGuard<'a, ()>;

/// What [`read_header`] found.
pub(crate) enum SegmentHeader {
    /// A segment of this database.
    Number(u64),
    /// No header was ever completed: a crash left the file half made.
    Unfinished,
}

impl Segments {
    /// Lists the segments in `dirs`. New ones are made in the first of them; others are left by a
    /// move. Changes nothing on disk.
    pub(crate) fn open(
        vfs: &Vfs,
        dirs: &[&Path],
        shape: SegmentShape,
        metrics: &Arc<Metrics>,
    ) -> Result<Segments> {
        let mut found: Vec<(PathBuf, Option<Segment>)> = Vec::new();
        // The first directory is last, so that its segments count (INV-32).
        for dir in dirs.iter().rev() {
            let names = vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
            let names = names.iter().filter(|name| name.ends_with(".log"));
            found.extend(names.map(|name| (dir.join(name), None)));
        }
        for_each_in_parallel(&mut found, threads_of(vfs), |(path, segment)| {
            let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
            let file = vfs.disk.open(path, mode).map_err(|e| Error::io("open", path, e))?;
            if let SegmentHeader::Number(number) = read_header(&*file, path, shape)? {
                *segment = Some(Segment { number, path: path.clone(), file });
            }
            Ok(())
        })?;
        let (mut ready, mut strays) = (BTreeMap::<u64, Arc<Segment>>::new(), Vec::new());
        for segment in found.into_iter().filter_map(|(_, segment)| segment) {
            if let Some(before) = ready.insert(segment.number, Arc::new(segment)) {
                strays.push(before.path.clone());
            }
        }
        let dir = dirs.first().map_or_else(PathBuf::new, |dir| dir.to_path_buf());
        Ok(Segments {
            vfs: vfs.clone(),
            target: Mutex::new(Target { dir, drafts: Vec::new() }),
            shape,
            ready: Mutex::new(ready),
            replacing: AtomicU64::new(u64::MAX),
            strays,
            files_lock: Mutex::new(()),
            written: AtomicU64::new(u64::MAX),
            kept_open: Mutex::default(),
            cached: Mutex::new(Some(BTreeMap::new())),
            metrics: Arc::clone(metrics),
        })
    }

    /// What all segments share.
    pub(crate) fn shape(&self) -> SegmentShape {
        self.shape
    }

    /// The directory in which segments are made.
    pub(crate) fn dir(&self) -> PathBuf {
        self.target.lock().dir.clone()
    }

    /// Returns the segment with this number, if it is ready.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Segment>> {
        let ready = self.ready.lock();
        if self.replacing.load(Ordering::Relaxed) == number {
            return None;
        }
        ready.get(&number).cloned()
    }

    /// As [`Segments::find`], with a file that is read through the page cache if it can be opened
    /// so. REQUIRES: the segment is not written any more.
    pub(crate) fn find_cached(&self, number: u64) -> Option<Arc<Segment>> {
        let known = self.cached.lock().as_ref().map(|cached| cached.get(&number).cloned());
        match known {
            None => return self.find(number),
            Some(Some(cached)) => return Some(cached),
            Some(None) => {}
        }
        let segment = self.find(number)?;
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let Ok(file) = self.vfs.disk.open(&segment.path, mode) else { return Some(segment) };
        let opened = Arc::new(Segment { number, path: segment.path.clone(), file });
        match &mut *self.cached.lock() {
            None => Some(opened),
            Some(cached) => Some(Arc::clone(cached.entry(number).or_insert(opened))),
        }
    }

    /// Closes the files of [`Segments::find_cached`], which opens none from here on.
    pub(crate) fn end_cached(&self) {
        *self.cached.lock() = None;
    }

    /// Returns the numbers of all ready segments, ascending.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.ready.lock().keys().copied().collect()
    }

    /// Whether all of them bypass the page cache.
    pub(crate) fn are_direct(&self) -> bool {
        self.ready.lock().values().all(|segment| segment.file.is_direct())
    }

    /// Returns the segment with this number. If it was not prepared in time it is made now, while
    /// `waiting` callers wait.
    pub(crate) fn get(&self, number: u64, waiting: u64) -> Result<Arc<Segment>> {
        if let Some(segment) = self.find(number) {
            if self.written.load(Ordering::Relaxed) != number {
                // If there is no descriptor for the next segment now, there may be one when it is
                // written.
                let _ = self.keep_open(number);
            }
            return Ok(segment);
        }
        let lock = self.files_lock.lock();
        if let Some(segment) = self.find(number) {
            return Ok(segment);
        }
        let made = self.make(&lock, number, waiting)?;
        drop(lock);
        Ok(made)
    }

    /// Keeps the descriptors of a segment that is about to be written, and of the next one.
    pub(crate) fn keep_open(&self, number: u64) -> Result {
        self.written.store(number, Ordering::Relaxed);
        let mut kept = Vec::new();
        for segment in [number, number + 1].into_iter().filter_map(|number| self.find(number)) {
            let file = segment.file.opened().map_err(|e| Error::io("open", &segment.path, e));
            kept.extend(file?);
        }
        *self.kept_open.lock() = kept;
        Ok(())
    }

    /// Creates a zero-written segment.
    fn make(&self, lock: &FilesLock<'_>, number: u64, waiting: u64) -> Result<Arc<Segment>> {
        let (dir, spare) = {
            let mut target = self.target.lock();
            (target.dir.clone(), target.drafts.pop())
        };
        let is_zeroed = spare.is_some();
        let draft = spare.unwrap_or_else(|| dir.join(format!("{number:016x}.new")));
        let made = self.write_draft(&draft, number, is_zeroed, waiting);
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                // The draft was never part of the log. An error of its removal does not matter.
                let _ = self.vfs.disk.remove(&draft);
                return Err(Error::io("create", &draft, error));
            }
        };
        let made = self.make_ready(lock, number, &draft, file, waiting)?;
        self.metrics.add(M::LogSegmentsCreated, 1);
        Ok(made)
    }

    /// Writes a new file of zeros with a header, and syncs it. `is_zeroed`: it has its zeros.
    fn write_draft(
        &self,
        draft: &Path,
        number: u64,
        is_zeroed: bool,
        waiting: u64,
    ) -> io::Result<Arc<dyn File>> {
        let create = if is_zeroed { Create::Never } else { Create::IfMissing };
        let file = self.vfs.disk.open(draft, OpenMode { create, direct: true, read_only: false })?;
        if !is_zeroed {
            write_zeros(&*file, self.shape.file_bytes())?;
        }
        file.write_at(&self.shape.encode(number), 0)?;
        self.sync(&*file, waiting)?;
        Ok(file)
    }

    /// Syncs a segment file, while `waiting` callers wait.
    fn sync(&self, file: &dyn File, waiting: u64) -> io::Result<()> {
        let start = self.vfs.clock.now_us();
        if !planted(Bug::NoSegmentSync) {
            file.sync()?;
        }
        self.metrics.fsync(FileKind::Log, SyncReason::LogRoll, self.vfs.clock.now_us() - start, waiting);
        Ok(())
    }

    /// Gives a synced file its name, makes the name durable, and counts the segment as ready.
    fn make_ready(
        &self,
        _: &FilesLock<'_>,
        number: u64,
        from: &Path,
        file: Arc<dyn File>,
        waiting: u64,
    ) -> Result<Arc<Segment>> {
        let dir = from.parent().unwrap_or(Path::new("."));
        let path = dir.join(format!("{number:016x}.log"));
        if from != path {
            self.vfs.disk.rename(from, &path).map_err(|e| Error::io("rename", from, e))?;
        }
        let start = self.vfs.clock.now_us();
        if !planted(Bug::NoSegmentDirSync) {
            self.vfs.disk.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        }
        self.metrics.fsync(FileKind::Dir, SyncReason::LogRoll, self.vfs.clock.now_us() - start, waiting);
        let segment = Arc::new(Segment { number, path, file });
        let mut ready = self.ready.lock();
        let before = ready.insert(number, Arc::clone(&segment));
        let is_replaced = self.replacing.swap(u64::MAX, Ordering::Relaxed) == number;
        drop(ready);
        base::check!(before.is_some() == is_replaced, "two files are segment {number}");
        Ok(segment)
    }

    /// Returns how many segments are ready.
    pub(crate) fn count(&self) -> u64 {
        self.ready.lock().len() as u64
    }

    /// Returns how many ready segments hold redo from `checkpoint` on, or will. Those below it are
    /// of no use to writers before they are recycled.
    pub(crate) fn count_from(&self, checkpoint: Lsn) -> u64 {
        let needed = self.shape.segment_of(super::block::block_of(checkpoint));
        self.ready.lock().range(needed..).count() as u64
    }

    /// Returns where the last ready segment ends.
    pub(crate) fn end(&self) -> Lsn {
        self.ready.lock().last_key_value().map_or(Lsn(0), |(last, _)| self.shape.first_lsn(last + 1))
    }

    /// Returns the bytes of log blocks in one segment file.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.shape.blocks * BLOCK_BYTES as u64
    }

    /// Gives new numbers, after the last, to the segments that lie wholly below `checkpoint`.
    /// Returns how many. REQUIRES: the root names this checkpoint durably.
    pub(crate) fn recycle_below(&self, checkpoint: Lsn) -> Result<usize> {
        let lock = self.files_lock.lock();
        let needed = self.shape.segment_of(super::block::block_of(checkpoint));
        let numbers = self.numbers();
        let Some(last) = numbers.last().copied() else { return Ok(0) };
        let first = (last + 1).max(needed);
        let old = numbers.into_iter().take_while(|n| *n < needed);
        let mut recycled = 0;
        for (number, old) in (first..).zip(old) {
            // INV-13: it lies wholly below the checkpoint, and its new number is above all others.
            base::check!(old < needed && number >= needed && number > last, "segment {old} becomes {number}");
            self.recycle(&lock, old, number)?;
            recycled += 1;
        }
        Ok(recycled)
    }

    /// Makes `count` more segments after the last, none of them below `writing`. If the disk fills
    /// up, the segments made so far stay; the error comes with their number.
    pub(crate) fn make_more(&self, count: u64, writing: Lsn) -> Result<(), (u64, Error)> {
        let lock = self.files_lock.lock();
        let current = self.shape.segment_of(super::block::block_of(writing));
        let first = self.numbers().last().map_or(current, |last| (last + 1).max(current));
        for n in 0..count {
            self.make(&lock, first + n, role::callers()).map_err(|error| (n, error))?;
        }
        Ok(())
    }

    /// Makes segments after the last until there are `files`. Cheap if there are enough.
    pub(crate) fn at_least(&self, files: u64, writing: Lsn) -> Result {
        match files.saturating_sub(self.count()) {
            0 => Ok(()),
            missing => self.make_more(missing, writing).map_err(|(_, error)| error),
        }
    }

    /// Removes segments while more than `files` are ready: first those that lie wholly below
    /// `checkpoint`, then, from the last on, those that hold nothing yet. `writing` returns the end
    /// of what has been reserved in the log. REQUIRES: the root names this checkpoint durably.
    pub(crate) fn shrink_to(&self, files: u64, checkpoint: Lsn, writing: impl Fn() -> Lsn) -> Result {
        base::check!(files > 0, "a log without a file");
        let _lock = self.files_lock.lock();
        let mut removed = Vec::new();
        let reserved;
        {
            let mut ready = self.ready.lock();
            let needed = self.shape.segment_of(super::block::block_of(checkpoint));
            while ready.len() as u64 > files
                && let Some(first) = ready.first_entry()
                && *first.key() < needed
            {
                removed.push(first.remove());
            }
            // A flush that uses a segment found it under this mutex, below what was reserved then.
            // So no flush uses a segment above what is reserved now.
            reserved = self.shape.segment_of(super::block::block_of(writing()));
            let keep = reserved + if planted(Bug::LogShrunkTooFar) { 0 } else { SPARE_SEGMENTS };
            while ready.len() as u64 > files
                && let Some(last) = ready.last_entry()
                && *last.key() > keep
            {
                removed.push(last.remove());
            }
        }
        for segment in removed {
            // INV-13: recovery reads none of it, and no flush may use it. Log reserved since then
            // may lie in it: the flush of that log does not find the segment, and makes it again
            // after this call.
            let after = segment.number > reserved;
            let below = segment.number < self.shape.segment_of(super::block::block_of(checkpoint));
            base::verify!(below || after, "segment {} is removed and needed", segment.number);
            self.vfs.disk.remove(&segment.path).map_err(|e| Error::io("remove", &segment.path, e))?;
        }
        Ok(())
    }

    /// Gives segment `old` the new number `number`.
    fn recycle(&self, lock: &FilesLock<'_>, old: u64, number: u64) -> Result {
        let Some(segment) = self.ready.lock().remove(&old) else { return Ok(()) };
        if self.recycle_elsewhere(lock, &segment, number)? {
            return Ok(());
        }
        let header = self.shape.encode(number);
        let failed = |e| Error::io("recycle", &segment.path, e);
        if let Err(error) = segment.file.write_at(&header, 0).map_err(failed) {
            if error.may_pass() {
                // It was not even opened: it stays ready and is tried again later.
                self.ready.lock().insert(old, Arc::clone(&segment));
            }
            return Err(error);
        }
        self.sync(&*segment.file, role::callers()).map_err(failed)?;
        self.make_ready(lock, number, &segment.path, Arc::clone(&segment.file), role::callers()).map(drop)?;
        self.metrics.add(M::LogSegmentsRecycled, 1);
        Ok(())
    }

    /// Syncs every ready segment from number `first` on, so that what recovery reads cannot vanish
    /// afterwards. A failure poisons.
    pub(crate) fn sync_from(&self, first: u64, poison: &Poison) -> Result {
        let mut segments: Vec<_> = self.ready.lock().range(first..).map(|(_, s)| Arc::clone(s)).collect();
        for_each_in_parallel(&mut segments, threads_of(&self.vfs), |segment| {
            let start = self.vfs.clock.now_us();
            if planted(Bug::NoRecoverySync) {
                return Ok(());
            }
            segment.file.sync().map_err(|e| poison.set(Error::io("sync", &segment.path, e)))?;
            let took = self.vfs.clock.now_us() - start;
            self.metrics.fsync(FileKind::Log, SyncReason::Recovery, took, role::callers());
            Ok(())
        })
    }
}

/// Writes a file full of zeros, so that later writes have their space.
pub(super) fn write_zeros(file: &dyn File, total: u64) -> io::Result<()> {
    let zeros = AlignedBuf::zeroed(total.min(1 << 20) as usize);
    let mut at = 0;
    while at < total {
        let n = (total - at).min(zeros.len() as u64);
        file.write_at(&zeros[..n as usize], at)?;
        at += n;
    }
    Ok(())
}

/// Returns how many threads open or sync the segments of a long log. One where the disk is not a
/// real one: it does not wait, and its world knows only its own threads.
fn threads_of(vfs: &Vfs) -> usize {
    if vfs.disk.batch_io() == BatchIo::OneByOne { 1 } else { OPEN_THREADS }
}

/// Reads the header of a segment file. An error if the file is damaged, or of another database or
/// format.
pub(crate) fn read_header(file: &dyn File, path: &Path, shape: SegmentShape) -> Result<SegmentHeader> {
    let len = file.len().map_err(|e| Error::io("measure", path, e))?;
    if len < BLOCK_BYTES as u64 {
        return Ok(SegmentHeader::Unfinished);
    }
    let mut h = AlignedBuf::zeroed(BLOCK_BYTES);
    file.read_at(&mut h, 0).map_err(|e| Error::io("read", path, e))?;
    if h.iter().all(|b| *b == 0) {
        return Ok(SegmentHeader::Unfinished);
    }
    if &h[..8] != MAGIC || get_u32(&h, 40) != crc::crc32c(&h[..40]) {
        return Err(Error::corrupt(path, "its header is not that of a log segment"));
    }
    if get_u16(&h, 8) != FORMAT {
        return Err(Error::other_format(path, get_u16(&h, 8).into(), FORMAT.into()));
    }
    if get_u64(&h, 16) != shape.db_id {
        return Err(Error::Foreign { file: path.to_owned(), what: "belongs to another database".into() });
    }
    let number = get_u64(&h, 24);
    let fits = u64::from(get_u32(&h, 12)) == shape.blocks
        && number < u64::MAX / shape.payload_bytes()
        && get_u64(&h, 32) == block_start(number * shape.blocks).0;
    if !fits {
        return Err(Error::corrupt(path, "its header contradicts itself"));
    }
    if len < shape.file_bytes() {
        let what = format!("it is {len} bytes long and should be {}", shape.file_bytes());
        return Err(Error::corrupt(path, what));
    }
    Ok(SegmentHeader::Number(number))
}
