//! Settings of a database that runs.

use super::Db;
use crate::error::Result;
use crate::options::Doublewrite;
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
        self.core.engine.set_redo_capacity(bytes)
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
        self.core.engine.set_recovery_target(target)
    }

    /// Gives the buffer pool another size, bytes, while all threads go on. A growth is done when
    /// the call returns, and so is a shrink: pages in frames that go are written if need be, and
    /// the memory is back at the system. Then readers find fewer pages in memory.
    ///
    /// The pool can grow up to the memory of the machine, or to four times its size at the opening
    /// if that is more. [`Options::history_memory_bytes`](crate::Options::history_memory_bytes)
    /// stays as it is. Of each frame that the pool ever had, 64 bytes stay until the database is
    /// closed; they are a part of `bytes`, up to half of it.
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
        self.core.engine.set_pool_bytes(bytes)
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
        self.core.engine.set_doublewrite(doublewrite)
    }

    /// Gives the buffer pool so many frames, which may be fewer than users can choose.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn set_frames(&self, frames: usize) -> Result<()> {
        let _inside = self.core.enter()?;
        self.core.engine.set_frames(frames)
    }
}
