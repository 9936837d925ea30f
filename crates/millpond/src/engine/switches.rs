//! What can be changed while the database is open.

use super::log_size::LogSize;
use super::moves::Moves;
use super::pool_size::PoolSize;
use super::protection::ProtectionSwitch;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::checkpoint::protection::Protection;
use crate::error::{Error, Result};
use crate::options::{Doublewrite, check_lock_memory, check_recovery_target};
use crate::txn::Txns;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What can be changed.
pub(crate) struct Switches {
    /// A database in memory has no directories, and no recovery.
    pub(super) ephemeral: bool,
    pub(super) txns: Arc<Txns>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) protection: Arc<ProtectionSwitch>,
    pub(super) moves: Arc<Moves>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) pool_size: Arc<PoolSize>,
}

impl Switches {
    /// Changes the redo capacity, bytes. Returns `DiskFull` if the log cannot grow; then the old
    /// size stays. A smaller log takes effect as the checkpoint moves.
    pub(crate) fn set_redo_capacity(&self, bytes: u64) -> Result {
        self.log_size.set_capacity(bytes)
    }

    /// Sets another recovery target, from which the redo capacity follows.
    pub(crate) fn set_recovery_target(&self, target: Duration) -> Result {
        if self.ephemeral { check_recovery_target(target) } else { self.log_size.set_target(target) }
    }

    /// Sets how much memory the locks of rows and ranges may take; none: the default.
    pub(crate) fn set_lock_memory(&self, bytes: Option<u64>) -> Result {
        bytes.map_or(Ok(()), check_lock_memory)?;
        self.txns.locks.set_bytes_most(bytes.unwrap_or(self.txns.undo_space.lock_bytes()));
        Ok(())
    }

    /// Gives the pool another size. A shrink ends when the memory is free; after an error the size
    /// is as before.
    pub(crate) fn set_pool_bytes(&self, bytes: u64) -> Result {
        self.pool_size.set(bytes)
    }

    /// Gives the pool so many frames, which may be fewer than users can choose.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn set_frames(&self, frames: usize) -> Result {
        self.pool_size.set_frames(frames)
    }

    /// Switches the doublewrite on or off. After an error pages are protected as before, or better.
    pub(crate) fn set_doublewrite(&self, wanted: Doublewrite) -> Result {
        self.protection.set(wanted.is_off())
    }

    /// Returns what the root says about torn pages.
    pub(crate) fn protection(&self) -> Protection {
        self.checkpointer.protection()
    }

    /// Moves the log to another directory. After an error it is where it was.
    pub(crate) fn set_redo_dir(&self, dir: &Path) -> Result {
        self.check_has_files("redo_dir", dir)?;
        self.moves.set_redo_dir(dir)
    }

    /// Moves the doublewrite to another directory. After an error it is where it was.
    pub(crate) fn set_doublewrite_dir(&self, dir: &Path) -> Result {
        self.check_has_files("doublewrite_dir", dir)?;
        self.moves.set_doublewrite_dir(dir)
    }

    /// Returns the directory of the log, and the one that it is leaving.
    pub(crate) fn redo_dirs(&self) -> (PathBuf, Option<PathBuf>) {
        self.moves.redo_dirs()
    }

    /// Returns the directory of the doublewrite.
    pub(crate) fn doublewrite_dir(&self) -> PathBuf {
        self.moves.doublewrite_dir()
    }

    /// Whether synced data survives a power cut.
    pub(crate) fn is_durable(&self) -> bool {
        self.moves.is_durable()
    }

    fn check_has_files(&self, name: &str, dir: &Path) -> Result {
        if !self.ephemeral {
            return Ok(());
        }
        let dir = dir.display();
        Err(Error::Misuse(format!("{name} {dir}: a database in memory has no directories")))
    }
}
