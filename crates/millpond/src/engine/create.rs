//! The paths of a database's files, and the creation of a database.

use super::directory::{Locks, Purpose, claim_new, mark_created};
use crate::checkpoint::protection::Protection;
use crate::checkpoint::root::{Root, RootFile};
use crate::duty;
use crate::error::{Error, Result};
use crate::flush::doublewrite::Doublewrite;
use crate::log::reader::EpochStart;
use crate::options::Options;
use base::Lsn;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, OpenMode, Vfs};

/// The files of a database (Fi1).
pub(crate) struct Paths {
    pub(super) dir: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) pages: PathBuf,
    pub(crate) redo: PathBuf,
    pub(crate) undo: PathBuf,
    doublewrite_dir: PathBuf,
    pub(crate) doublewrite: PathBuf,
    pub(crate) lock: PathBuf,
}

impl Paths {
    pub(crate) fn new(dir: &Path, options: &Options) -> Paths {
        let doublewrite_dir = options.doublewrite_dir.clone().unwrap_or_else(|| dir.join("doublewrite"));
        Paths {
            dir: dir.to_owned(),
            root: dir.join("root"),
            pages: dir.join("pages"),
            undo: dir.join("undo"),
            redo: options.redo_dir.clone().unwrap_or_else(|| dir.join("redo")),
            doublewrite: doublewrite_dir.join("areas"),
            doublewrite_dir,
            lock: dir.join("LOCK"),
        }
    }

    /// Returns the directories for redo, undo and doublewrite, with their purposes.
    pub(super) fn other_dirs(&self) -> impl Iterator<Item = (&Path, Purpose)> {
        let parts = [
            (&self.redo, Purpose::Redo),
            (&self.undo, Purpose::Undo),
            (&self.doublewrite_dir, Purpose::Doublewrite),
        ];
        parts.into_iter().map(|(dir, purpose)| (dir.as_path(), purpose))
    }

    /// Limits how many files of the log and of undo are open at once: there may be thousands.
    pub(super) fn with_descriptor_cache(&self, vfs: &Vfs, metrics: &Arc<Metrics>) -> Vfs {
        let metrics = Arc::clone(metrics);
        let on_sync =
            move |took_us| metrics.fsync(FileKind::Undo, SyncReason::Harden, took_us, duty::callers());
        vfs.with_descriptor_cache(&[&self.redo, &self.undo], Box::new(on_sync))
    }

    /// Returns whether data that is synced in these directories survives a power cut. REQUIRES: the
    /// directories exist.
    pub(super) fn are_durable(&self, vfs: &Vfs) -> bool {
        let dirs = [&self.dir, &self.redo, &self.undo, &self.doublewrite_dir];
        dirs.into_iter().all(|dir| vfs.disk.is_durable(dir))
    }
}

pub(super) fn make_dir(vfs: &Vfs, path: &Path) -> Result {
    match vfs.disk.create_dir(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::io("create", path, e)),
    }
    Ok(())
}

pub(super) fn sync_dir(vfs: &Vfs, metrics: &Metrics, path: &Path, reason: SyncReason) -> Result {
    let start = vfs.clock.now_us();
    vfs.disk.sync_dir(path).map_err(|e| Error::io("sync", path, e))?;
    metrics.fsync(FileKind::Dir, reason, vfs.clock.now_us() - start, duty::callers());
    Ok(())
}

pub(super) fn parent_of(dir: &Path) -> &Path {
    dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the files that opening is about to read (Re1). A killed process leaves names and bytes
/// that its successor sees and that a power cut undoes: a root slot, a page whose redo a checkpoint
/// then passes, the name of the root itself. The log's segments are synced when they are opened.
pub(super) fn sync_existing(vfs: &Vfs, dir: &Path, paths: &Paths, metrics: &Metrics) -> Result {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
    let files = [
        (&paths.root, FileKind::Root),
        (&paths.pages, FileKind::Pages),
        (&paths.doublewrite, FileKind::Doublewrite),
    ];
    for (path, kind) in files {
        let file = match vfs.disk.open(path, mode) {
            Ok(file) => file,
            // Without a root there is no database. The step that needs another missing file reports
            // it.
            Err(e) if e.kind() == io::ErrorKind::NotFound && kind == FileKind::Root => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("open", path, e)),
        };
        let start = vfs.clock.now_us();
        file.sync().map_err(|e| Error::io("sync", path, e))?;
        metrics.fsync(kind, SyncReason::Recovery, vfs.clock.now_us() - start, duty::callers());
    }
    for path in [&paths.redo, &paths.undo, &paths.doublewrite_dir] {
        // A missing directory is reported here: after a failed sync this disk does nothing more.
        vfs.disk.list(path).map_err(|e| Error::io("list", path, e))?;
        sync_dir(vfs, metrics, path, SyncReason::Recovery)?;
        if parent_of(path) != dir {
            sync_dir(vfs, metrics, parent_of(path), SyncReason::Recovery)?;
        }
    }
    sync_dir(vfs, metrics, dir, SyncReason::Recovery)?;
    sync_dir(vfs, metrics, parent_of(dir), SyncReason::Recovery)
}

/// Makes the files of a new database. The root is last, so a crash before it leaves no database.
/// The directories already name the new database, so a later creation recognises the remains of one
/// that was interrupted by its id.
pub(super) fn create(
    vfs: &Vfs,
    paths: &Paths,
    options: &Options,
    metrics: &Arc<Metrics>,
    locks: &mut Locks,
) -> Result {
    let dir = &paths.dir;
    let root = Root {
        db_id: claim_new(vfs, paths, metrics, locks)?,
        page_bytes: options.page_bytes.unwrap_or(8192),
        segment_blocks: options.tuning.segment_blocks,
        ring_blocks: options.tuning.ring_blocks,
        sequence: 1,
        checkpoint: Lsn::ZERO,
        undo_from: Lsn::ZERO,
        dirty: None,
        record: Lsn::MAX,
        durable: Lsn::ZERO,
        clean: false,
        protection: Protection::On.at_open(options.doublewrite.is_off(), true),
        replay_rate: 0,
        epochs: vec![EpochStart { epoch: 1, first: Lsn::ZERO }],
    };
    let slots = options.tuning.doublewrite_pages;
    Doublewrite::create(vfs, &paths.doublewrite, root.db_id, root.page_bytes, slots, metrics)?;
    let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
    let pages = vfs.disk.open(&paths.pages, mode).map_err(|e| Error::io("create", &paths.pages, e))?;
    let start = vfs.clock.now_us();
    pages.set_len(0).and_then(|()| pages.sync()).map_err(|e| Error::io("create", &paths.pages, e))?;
    metrics.fsync(FileKind::Pages, SyncReason::Create, vfs.clock.now_us() - start, duty::callers());
    sync_dir(vfs, metrics, &paths.doublewrite_dir, SyncReason::Create)?;
    // Everything that the root names must be durable before the root is.
    sync_dir(vfs, metrics, dir, SyncReason::Create)?;
    RootFile::create(vfs, &paths.root, &root, metrics)?;
    sync_dir(vfs, metrics, dir, SyncReason::Create)?;
    mark_created(vfs, dir, root.db_id, metrics)
}
