//! Settings of a database that runs.

use super::Db;
use crate::error::Result;
use crate::options::Doublewrite;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Db {
    /// Sets how many bytes the redo log may hold. If it cannot grow, the old size stays.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_redo_capacity(96 << 20)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`](crate::Error::DiskFull); [`Error::Misuse`](crate::Error::Misuse) for a
    /// size that is too small; [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_redo_capacity(&self, bytes: u64) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_redo_capacity(bytes)
    }

    /// Sets how long recovery after a crash may take, as
    /// [`Options::recovery_target`](crate::Options::recovery_target) does at open. The redo
    /// capacity follows from it, also if [`Db::set_redo_capacity`] has set one. A shorter target
    /// takes effect as the checkpoint moves. In a database in memory it has no effect.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_recovery_target(std::time::Duration::from_secs(5))?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) for zero; [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_recovery_target(&self, target: Duration) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_recovery_target(target)
    }

    /// Gives the buffer pool another size, bytes, while all threads go on. A growth is done when
    /// the call returns, and so is a shrink: pages in frames that go are written if need be, and
    /// the memory is back at the system. Then readers find fewer pages in memory.
    ///
    /// The pool can grow up to the memory that the process may use, or to four times its size at
    /// the opening if that is more.
    /// [`Options::history_memory_bytes`](crate::Options::history_memory_bytes) stays as it is. Of
    /// each frame that the pool ever had, 64 bytes stay until the database is closed; they are a
    /// part of `bytes`, up to half of it.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_buffer_pool_bytes(128 << 20)?;
    /// db.set_buffer_pool_bytes(16 << 20)?;
    /// assert_eq!(db.metrics().get("buffer_pool_bytes"), Some((16 << 20) as f64));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// After each of them the size is as before. [`Error::Misuse`](crate::Error::Misuse) for less
    /// than 1 MiB; [`Error::Limit`](crate::Error::Limit) for more than there are addresses for, and
    /// if a shrink makes no progress for ten seconds, because the device does not answer;
    /// [`Error::Io`](crate::Error::Io) if the system refuses memory;
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_buffer_pool_bytes(&self, bytes: u64) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_pool_bytes(bytes)
    }

    /// Sets how much memory the locks of rows and ranges may take, as
    /// [`Options::lock_memory_bytes`](crate::Options::lock_memory_bytes) does at open; `None`: its
    /// default. Locks that transactions have stay, also if they take more than that.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// db.set_lock_memory_bytes(Some(1 << 30))?;
    /// assert_eq!(db.lock_memory_bytes(), 1 << 30);
    /// db.set_lock_memory_bytes(None)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`](crate::Error::Misuse) for less than 64 KiB;
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_lock_memory_bytes(&self, bytes: Option<u64>) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_lock_memory(bytes)
    }

    /// Returns how much memory the locks of rows and ranges may take, bytes.
    #[must_use]
    pub fn lock_memory_bytes(&self) -> u64 {
        self.core.engine.txns.locks.bytes_most()
    }

    /// Switches the doublewrite on or off while all threads go on. See [`Doublewrite`] for what is
    /// lost without it. The root file says that it is off before the first page is written without
    /// a copy. When a call that switches it on returns, every page that was written without one is
    /// synced in place: a later power cut tears none of them.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::Doublewrite;
    ///
    /// db.set_doublewrite(Doublewrite::UnsafeOff)?;
    /// assert_eq!(db.metrics().get("doublewrite_off"), Some(1.0));
    /// assert_eq!(db.check()?.notes.len(), 1);
    /// db.set_doublewrite(Doublewrite::On)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`](crate::Error::DiskFull) if the undo of unfinished transactions finds no
    /// space: a checkpoint is a part of this, and pages are protected as before, or better;
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_doublewrite(&self, doublewrite: Doublewrite) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_doublewrite(doublewrite)
    }

    /// Moves the redo log to another directory while all threads go on. The directory must exist
    /// and be empty, and its path absolute. When the call returns, new files of the log are made
    /// there, and the log goes on there after at most two of its files. The files with redo stay
    /// where they are until a checkpoint has passed them, which a database at rest does by itself;
    /// then the directory of before holds nothing but an empty `LOCK`. Until then the database
    /// needs both, also after a crash: [`Db::redo_dir_before`] tells it. Meanwhile the log can only
    /// be moved back.
    ///
    /// The root file names both. So the database opens from now on without
    /// [`Options::redo_dir`](crate::Options::redo_dir), which counts only if the log's files were
    /// moved by hand since.
    ///
    /// ```
    /// # let top = std::env::temp_dir().join(format!("millpond-redo-dir-{}", std::process::id()));
    /// # std::fs::create_dir_all(&top)?;
    /// let (dir, fast) = (top.join("db"), top.join("fast"));
    /// let db = millpond::Db::open(&dir)?;
    /// std::fs::create_dir(&fast)?;
    /// db.set_redo_dir(&fast)?;
    /// assert_eq!(db.redo_dir(), fast);
    /// db.close()?;
    /// assert_eq!(millpond::Db::open(&dir)?.redo_dir(), fast);
    /// # std::fs::remove_dir_all(&top)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// After each of them the log is where it was. [`Error::Io`](crate::Error::Io) if the directory
    /// is missing or cannot be written; [`Error::DiskFull`](crate::Error::DiskFull) if it has no
    /// space for as many files as the log has; [`Error::Foreign`](crate::Error::Foreign) if it is
    /// not empty or belongs to another database; [`Error::InUse`](crate::Error::InUse);
    /// [`Error::Misuse`](crate::Error::Misuse) for a directory that this database uses for
    /// something else, for a relative path, for a path of more than 500 bytes, while the log is
    /// still leaving another directory, and in a database in memory;
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn set_redo_dir(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_redo_dir(dir.as_ref())
    }

    /// Moves the doublewrite to another directory while all threads go on, as
    /// [`Db::set_redo_dir`] moves the log. When the call returns, the directory of before is not
    /// needed any more, unless a full disk had no room for the undo of a checkpoint: then it is
    /// needed until the next one.
    ///
    /// # Errors
    /// Those of [`Db::set_redo_dir`].
    pub fn set_doublewrite_dir(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_doublewrite_dir(dir.as_ref())
    }

    /// Returns the directory in which files of the redo log are made.
    #[must_use]
    pub fn redo_dir(&self) -> PathBuf {
        self.redo_dirs().0
    }

    /// Returns the directory that [`Db::set_redo_dir`] has left while the database still needs
    /// files there.
    #[must_use]
    pub fn redo_dir_before(&self) -> Option<PathBuf> {
        self.redo_dirs().1
    }

    fn redo_dirs(&self) -> (PathBuf, Option<PathBuf>) {
        // In a child made by fork the mutex of a move may be locked for ever.
        if self.core.gate.is_in_child() {
            Default::default()
        } else {
            self.core.engine.switches().redo_dirs()
        }
    }

    /// Returns the directory of the doublewrite.
    #[must_use]
    pub fn doublewrite_dir(&self) -> PathBuf {
        if self.core.gate.is_in_child() {
            return PathBuf::new();
        }
        self.core.engine.switches().doublewrite_dir()
    }

    /// Gives the buffer pool so many frames, which may be fewer than users can choose.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn set_frames(&self, frames: usize) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.switches().set_frames(frames)
    }
}
