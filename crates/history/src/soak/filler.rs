//! Fills the disk on which the database lies, and empties it again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// No larger file system is filled: that would take long, and hurt others.
const LARGEST: u64 = 8 << 30;

/// A file that takes all room that is left.
pub(super) struct Filler {
    path: PathBuf,
    full: bool,
}

impl Filler {
    /// Beside the database, on its file system; refuses one that is too large.
    pub(super) fn new(dir: &Path) -> Result<Filler, String> {
        let stat = rustix::fs::statvfs(dir).map_err(|e| format!("cannot look at {}: {e}", dir.display()))?;
        let size = stat.f_blocks * stat.f_frsize;
        if size > LARGEST {
            return Err(format!(
                "--fill needs a file system of at most {} MiB for itself, that of {} has {} MiB",
                LARGEST >> 20,
                dir.display(),
                size >> 20
            ));
        }
        Ok(Filler { path: dir.join("filler"), full: false })
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Takes all that is left.
    pub(super) fn fill(&mut self) -> Result<(), String> {
        let mut file = File::create(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))?;
        for bytes in [1 << 20, 4096] {
            let block = vec![0x5a; bytes];
            // Until it is refused, which is what this is for.
            while file.write_all(&block).is_ok() {}
        }
        self.full = true;
        Ok(())
    }

    /// Gives it back.
    pub(super) fn empty(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.full) {
            std::fs::remove_file(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))?;
        }
        Ok(())
    }
}
