//! Fills the database's file system, and empties it again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Refuses a larger file system: filling it would take long and harm other programs.
const LARGEST: u64 = 8 << 30;

/// A file that takes all free space.
pub(super) struct DiskFiller {
    path: PathBuf,
    full: bool,
}

impl DiskFiller {
    /// Prepares a file in `dir`. Fails if the file system is too large.
    pub(super) fn new(dir: &Path) -> Result<DiskFiller, String> {
        let stat = rustix::fs::statvfs(dir).map_err(|e| format!("cannot look at {}: {e}", dir.display()))?;
        let size = stat.f_blocks * stat.f_frsize;
        if size > LARGEST {
            return Err(format!(
                "--fill needs its own file system of at most {} MiB, that of {} has {} MiB",
                LARGEST >> 20,
                dir.display(),
                size >> 20
            ));
        }
        Ok(DiskFiller { path: dir.join("filler"), full: false })
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Takes all free space.
    pub(super) fn fill(&mut self) -> Result<(), String> {
        let mut file = File::create(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))?;
        for bytes in [1 << 20, 4096] {
            let block = vec![0x5a; bytes];
            // Until the disk is full.
            while file.write_all(&block).is_ok() {}
        }
        self.full = true;
        Ok(())
    }

    /// Frees the space.
    pub(super) fn empty(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.full) {
            std::fs::remove_file(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))?;
        }
        Ok(())
    }
}
