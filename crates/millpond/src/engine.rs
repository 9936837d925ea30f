//! An open page engine: what opening builds, in its order, and the threads that keep it calm.
//!
//! Opening: lock, root, log end, new epoch, torn pages, replay, space map. Nothing is changed on disk before the log's
//! end is known to be sound. Threads: one leads flushes of the log for those who do not wait, one cleans.

use crate::buffer::{Pool, PoolOptions};
use crate::checkpoint::fuzzy::Checkpointer;
use crate::checkpoint::root::{Root, RootFile};
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::flush::doublewrite::Doublewrite;
use crate::log::block::PAYLOAD_BYTES;
use crate::log::reader::EpochStart;
use crate::log::segment::{SegmentShape, Segments};
use crate::log::{Log, LogOptions};
use crate::options::Options;
use crate::recover::apply::{RedoHook, replay};
use crate::recover::end::{PagesOfGroups, find_end, go_on};
use crate::space::{Space, SpaceOptions};
use crate::store::Store;
#[cfg(test)]
mod tests;

use base::Lsn;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{JoinHandle, Mutex, Parker, Unparker, spawn};
use metrics::{FileKind, Force, M, Metrics, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Create, File, OpenMode, Vfs};

/// How long the cleaner sleeps when nobody wakes it.
const CLEANER_NAP: Duration = Duration::from_millis(10);

/// The files of a database (Fi1).
struct Paths {
    root: PathBuf,
    pages: PathBuf,
    redo: PathBuf,
    doublewrite_dir: PathBuf,
    doublewrite: PathBuf,
    lock: PathBuf,
}

impl Paths {
    fn new(dir: &Path, options: &Options) -> Paths {
        let doublewrite_dir = options.doublewrite_dir.clone().unwrap_or_else(|| dir.join("doublewrite"));
        Paths {
            root: dir.join("root"),
            pages: dir.join("pages"),
            redo: options.redo_dir.clone().unwrap_or_else(|| dir.join("redo")),
            doublewrite: doublewrite_dir.join("areas"),
            doublewrite_dir,
            lock: dir.join("LOCK"),
        }
    }
}

/// An open page engine.
pub(crate) struct Engine {
    /// What trees work on.
    pub(crate) store: Arc<Store>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Send + Sync>,
}

/// What the threads share.
struct Shared {
    store: Arc<Store>,
    flusher: Mutex<Flusher>,
    checkpointer: Checkpointer,
    capacity_bytes: u64,
    stop: AtomicBool,
    poison: Arc<Poison>,
    log_thread: Unparker,
    cleaner_thread: Unparker,
}

fn make_dir(vfs: &Vfs, path: &Path) -> Result {
    match vfs.disk.create_dir(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::io("create", path, e)),
    }
    Ok(())
}

fn sync_dir(vfs: &Vfs, metrics: &Metrics, path: &Path) -> Result {
    let start = vfs.clock.now_us();
    vfs.disk.sync_dir(path).map_err(|e| Error::io("sync", path, e))?;
    metrics.fsync(FileKind::Dir, SyncReason::Create, vfs.clock.now_us() - start, 0);
    Ok(())
}

/// Makes the files of a new database; the root last, so that a crash before it leaves nothing that counts.
fn create(vfs: &Vfs, dir: &Path, paths: &Paths, options: &Options, metrics: &Arc<Metrics>) -> Result {
    let root = Root {
        db_id: vfs.clock.random_u64(),
        page_bytes: options.page_bytes.unwrap_or(8192),
        segment_blocks: options.tuning.segment_blocks,
        ring_blocks: options.tuning.ring_blocks,
        sequence: 1,
        checkpoint: Lsn::ZERO,
        record: Lsn::MAX,
        durable: Lsn::ZERO,
        clean: false,
        epochs: vec![EpochStart { epoch: 1, first: Lsn::ZERO }],
    };
    make_dir(vfs, &paths.redo)?;
    make_dir(vfs, &paths.doublewrite_dir)?;
    for name in vfs.disk.list(&paths.redo).map_err(|e| Error::io("list", &paths.redo, e))? {
        // Left by a creation that was cut short: without a root they belong to no database.
        let path = paths.redo.join(name);
        vfs.disk.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
    }
    let slots = options.tuning.doublewrite_pages;
    Doublewrite::create(vfs, &paths.doublewrite, root.db_id, root.page_bytes, slots, metrics)?;
    let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
    let pages = vfs.disk.open(&paths.pages, mode).map_err(|e| Error::io("create", &paths.pages, e))?;
    pages.set_len(0).and_then(|()| pages.sync()).map_err(|e| Error::io("create", &paths.pages, e))?;
    sync_dir(vfs, metrics, &paths.redo)?;
    sync_dir(vfs, metrics, &paths.doublewrite_dir)?;
    // All that the root speaks of must be there before the root is.
    sync_dir(vfs, metrics, dir)?;
    RootFile::create(vfs, &paths.root, &root, metrics)?;
    sync_dir(vfs, metrics, dir)?;
    // The entry of the directory itself; without it all the rest is lost with the next power cut.
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
    sync_dir(vfs, metrics, parent.unwrap_or(Path::new(".")))?;
    Ok(())
}

impl Engine {
    /// Opens the engine in `dir`, recovering it; creates it if there is none.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Engine> {
        options.validate()?;
        let metrics = Arc::new(Metrics::new());
        let poison = Arc::new(Poison::default());
        let paths = Paths::new(dir, options);
        make_dir(vfs, dir)?;
        let lock = vfs.disk.lock(&paths.lock).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Error::InUse { dir: dir.to_owned() },
            _ => Error::io("lock", &paths.lock, e),
        })?;
        if RootFile::open(vfs, &paths.root, &metrics)?.is_none() {
            create(vfs, dir, &paths, options, &metrics)?;
        }
        let Some((root_file, mut root)) = RootFile::open(vfs, &paths.root, &metrics)? else {
            return Err(Error::corrupt(&paths.root, "it was written and cannot be read"));
        };
        if let Some(asked) = options.page_bytes
            && asked != root.page_bytes
        {
            let has = root.page_bytes;
            return Err(Error::Misuse(format!("the database has pages of {has} bytes, not {asked}")));
        }

        let shape = SegmentShape { db_id: root.db_id, blocks: root.segment_blocks };
        let segments = Segments::open(vfs, &paths.redo, shape, &metrics)?;
        let first = shape.segment_of(crate::log::block::block_of(root.checkpoint));
        segments.sync_from(first, &poison)?;
        let window = (root.ring_blocks * PAYLOAD_BYTES) as u64;
        let tail = find_end(&segments, &root.epochs, root.checkpoint, root.durable, window)?;

        let start = go_on(tail.end, &root.epochs);
        root.sequence += 1;
        root.clean = false;
        // A start at the place of the epoch before, where nothing was ever written, takes that one's place.
        root.epochs.retain(|e| e.first < start.lsn);
        root.epochs.push(EpochStart { epoch: start.epoch, first: start.lsn });
        if root.epochs.len() > crate::checkpoint::root::EPOCHS_MAX {
            return Err(Error::corrupt(
                &paths.root,
                "more crashes than it can name since the last checkpoint",
            ));
        }
        root_file.write(&root, SyncReason::Recovery)?;

        let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
        let pages = vfs.disk.open(&paths.pages, mode).map_err(|e| Error::io("open", &paths.pages, e))?;
        let doublewrite = Doublewrite::open(vfs, &paths.doublewrite, root.db_id, root.page_bytes, &metrics)?;
        doublewrite.restore(&*pages, &paths.pages)?;

        let (log_parker, cleaner_parker) = (Parker::new(), Parker::new());
        let log_options =
            LogOptions { ring_blocks: root.ring_blocks, flush_depth: options.tuning.flush_depth };
        let log =
            Arc::new(Log::new(vfs, log_options, start, segments, log_parker.unparker(), &metrics, &poison));
        let (hook, made_anew) = RedoHook::new(&paths.pages, &log, &tail);
        let pool_bytes = options.buffer_pool_bytes.unwrap_or(128 << 20) as usize;
        let pool = Arc::new(Pool::new(PoolOptions {
            frames: match options.tuning.frames {
                0 => pool_bytes / root.page_bytes,
                n => n,
            },
            page_bytes: root.page_bytes,
            file: Arc::clone(&pages),
            path: paths.pages.clone(),
            hook: Box::new(hook),
            cleaner: cleaner_parker.unparker(),
            poison: Arc::clone(&poison),
        })?);
        let grow_pages = match options.tuning.grow_pages {
            0 => ((64 << 20) / root.page_bytes) as u32,
            n => n,
        };
        let space_options = SpaceOptions {
            vfs: vfs.clone(),
            file: Arc::clone(&pages),
            path: paths.pages.clone(),
            db_id: root.db_id,
            grow_pages,
        };
        let store = Arc::new(Store {
            space: Space::new(space_options, &log, &pool, &metrics, &poison),
            log: Arc::clone(&log),
            pool: Arc::clone(&pool),
            metrics: Arc::clone(&metrics),
        });
        let files = (Arc::clone(&pages) as Arc<dyn File>, paths.pages.clone());
        let shared = Arc::new(Shared {
            store: Arc::clone(&store),
            flusher: Mutex::new(Flusher::new(vfs, &log, &pool, files, doublewrite, &metrics, &poison)),
            checkpointer: Checkpointer::new(&log, &pool, root_file, root.clone(), &metrics, &poison),
            capacity_bytes: options.redo_capacity_bytes.unwrap_or(1 << 30),
            stop: AtomicBool::new(false),
            poison,
            log_thread: log_parker.unparker(),
            cleaner_thread: cleaner_parker.unparker(),
        });
        let mut engine = Engine { store, shared, threads: Vec::new(), _lock: lock };
        engine.start(log_parker, cleaner_parker)?;
        let from = root.checkpoint;
        let checkpointer = &engine.shared.checkpointer;
        let reached = |lsn| checkpointer.replayed_to(lsn);
        replay(&pool, log.segments(), &root.epochs, from, &paths.pages, &made_anew, tail.end, reached)?;
        checkpointer.replayed_to(Lsn::MAX);
        metrics.set(M::RecoveryRedoBytes, tail.end.since(from));
        let formatted = tail.groups > 0 || from > Lsn::ZERO;
        if formatted {
            engine.store.space.load()?;
        } else {
            engine.store.space.format()?;
        }
        Ok(engine)
    }

    fn start(&mut self, log: Parker, cleaner: Parker) -> Result {
        let spawn_error = |e| Error::io("start a thread for", Path::new("the engine"), e);
        let shared = Arc::clone(&self.shared);
        let log = spawn("millpond-log", move || {
            shared.store.log.serve(&log, &shared.stop);
        });
        self.threads.push(log.map_err(spawn_error)?);
        let shared = Arc::clone(&self.shared);
        let cleaner = spawn("millpond-cleaner", move || {
            while !shared.stop.load(Ordering::Acquire) {
                match shared.clean() {
                    Ok(0) => drop(cleaner.park_for(CLEANER_NAP)),
                    Ok(_) => {}
                    Err(_) => return shared.store.pool.wake_frame_waiters(),
                }
            }
        });
        self.threads.push(cleaner.map_err(spawn_error)?);
        Ok(())
    }

    /// Writes every dirty page and moves the checkpoint to the log's end.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        self.shared.drain(Force::Shutdown)?;
        self.shared.checkpointer.advance(SyncReason::Checkpoint, false)
    }

    /// Ends the threads and takes a last checkpoint. What is not closed is recovered at the next open.
    pub(crate) fn close(mut self) -> Result {
        self.stop();
        let drained = self.shared.drain(Force::Shutdown);
        drained.and_then(|()| self.shared.checkpointer.advance(SyncReason::Close, true).map(drop))
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.log_thread.unpark();
        self.shared.cleaner_thread.unpark();
        for thread in self.threads.drain(..) {
            // A thread's panic has been reported by its own message and shows as an engine that no longer moves.
            if thread.join().is_err() {
                let first = Error::Misuse("an engine thread panicked".into());
                self.shared.poison.set(first);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// One step of the cleaner: frames first, then the oldest dirty pages while the log is half full, then the
    /// checkpoint and the segments that it frees. Returns how many pages were written or frames freed.
    fn clean(&self) -> Result<usize> {
        let (pool, log) = (&self.store.pool, &self.store.log);
        let mut done = 0;
        let reserve = (pool.frame_count() / 16).max(8);
        pool.set_free_reserve(reserve);
        if pool.free_frames() < reserve {
            let mut flusher = self.flusher.lock();
            let batch = flusher.batch_pages();
            let swept = pool.sweep(reserve, batch);
            done += swept.freed;
            if !swept.dirty.is_empty() {
                done += flusher.flush(&swept.dirty, Force::FreeFrames)?;
                done += pool.sweep(reserve, 1).freed;
            }
        }
        let age = log.reserved_lsn().since(self.checkpointer.lsn());
        if age > self.capacity_bytes / 2 {
            let mut flusher = self.flusher.lock();
            let up_to = Lsn(log.reserved_lsn().0.saturating_sub(self.capacity_bytes / 4));
            let oldest = pool.oldest_dirty(up_to, flusher.batch_pages());
            let pages: Vec<_> = oldest.into_iter().map(|(page, _)| page).collect();
            if !pages.is_empty() {
                done += flusher.flush(&pages, Force::CheckpointAge)?;
            }
            drop(flusher);
            self.checkpointer.advance(SyncReason::Checkpoint, false)?;
        }
        let checkpoint = self.checkpointer.lsn();
        log.digest_next(checkpoint, &PagesOfGroups).map_err(|error| self.poison.set(error))?;
        log.segments()
            .prepare(checkpoint, log.reserved_lsn(), self.capacity_bytes)
            .map_err(|error| self.poison.set(error))?;
        Ok(done)
    }

    /// Writes every page that is dirty now.
    fn drain(&self, force: Force) -> Result {
        let pool = &self.store.pool;
        let mut flusher = self.flusher.lock();
        let up_to = self.store.log.reserved_lsn();
        loop {
            let oldest = pool.oldest_dirty(up_to, flusher.batch_pages());
            if oldest.is_empty() {
                return Ok(());
            }
            let pages: Vec<_> = oldest.into_iter().map(|(page, _)| page).collect();
            if flusher.flush(&pages, force)? == 0 {
                // Somebody holds them all for a moment.
                base::sync::point();
                std::thread::yield_now();
            }
        }
    }
}
