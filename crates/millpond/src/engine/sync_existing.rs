//! What a killed process has left is made durable before opening reads it (Re1).

use super::durable_dir::{parent_of, sync_dir};
use super::paths::Paths;
use crate::error::{Error, Result};
use crate::page_file::PageFile;
use crate::role;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::Path;
use std::sync::Arc;
use vfs::{Create, OpenMode, Vfs};

/// Syncs a file that opening is about to read (Re1). The step that needs a missing file reports it.
pub(super) fn sync_file(vfs: &Vfs, path: &Path, kind: FileKind, metrics: &Metrics) -> Result {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
    let file = match vfs.disk.open(path, mode) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("open", path, e)),
    };
    let start = vfs.clock.now_us();
    file.sync().map_err(|e| Error::io("sync", path, e))?;
    metrics.fsync(kind, SyncReason::Recovery, vfs.clock.now_us() - start, role::callers());
    Ok(())
}

/// Syncs the files that opening is about to read, the root apart (Re1). A killed process leaves
/// names and bytes that its successor sees and that a power cut undoes: a root slot, a page whose
/// redo a checkpoint then passes, the name of the root itself. The log's segments are synced when
/// they are opened.
pub(super) fn sync_existing(
    vfs: &Vfs,
    dir: &Path,
    paths: &Paths,
    page_bytes: usize,
    metrics: &Arc<Metrics>,
) -> Result {
    match PageFile::open(vfs, &paths.pages, page_bytes, metrics) {
        Ok(pages) => pages.sync(SyncReason::Recovery, role::callers)?,
        // As in `sync_file`.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for path in paths.doublewrite_files() {
        sync_file(vfs, &path, FileKind::Doublewrite, metrics)?;
    }
    for (path, _) in paths.other_dirs() {
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
