//! Directories are made, and synced so that the names in them are durable.

use crate::error::{Error, Result};
use crate::role;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::Path;
use vfs::Vfs;

/// Makes a directory, unless it is there.
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
    metrics.fsync(FileKind::Dir, reason, vfs.clock.now_us() - start, role::callers());
    Ok(())
}

/// Returns the directory that holds the name of `dir`.
pub(super) fn parent_of(dir: &Path) -> &Path {
    dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
