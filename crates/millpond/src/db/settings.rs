//! Settings of a database that runs.

use super::Db;
use crate::error::Result;
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
}
