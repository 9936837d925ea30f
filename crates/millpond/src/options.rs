//! Choices that a database is opened with: plain data, checked once.

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Less memory for history than a few transactions take is of no use to anybody, bytes.
const HISTORY_MEMORY_MIN: u64 = 4 << 10;

/// How a database is opened. Every choice has a default that serves.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) buffer_pool_bytes: Option<u64>,
    pub(crate) recovery_target: Duration,
    pub(crate) redo_capacity_bytes: Option<u64>,
    pub(crate) page_bytes: Option<usize>,
    pub(crate) redo_dir: Option<PathBuf>,
    pub(crate) doublewrite_dir: Option<PathBuf>,
    pub(crate) lock_wait: Duration,
    pub(crate) history_memory_bytes: Option<u64>,
    pub(crate) history_disk_bytes: u64,
    pub(crate) eager_recovery: bool,
    pub(crate) hold_cleaning_until_redo_bytes: u64,
    pub(crate) tuning: Tuning,
}

/// Sizes that users never set, and that tests make small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Log blocks of 4 KiB in a segment, fixed when the database is created.
    pub segment_blocks: u64,
    /// Log blocks in the log buffer, a power of two, fixed when the database is created.
    pub ring_blocks: usize,
    /// Log flushes in flight at once.
    pub flush_depth: u32,
    /// Pages by which the `pages` file grows.
    pub grow_pages: u32,
    /// Pages in one area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Frames of the buffer pool; 0: by its bytes.
    pub frames: usize,
    /// Redo that a worker of recovery holds in memory before it turns to the pages, bytes.
    pub replay_window_bytes: usize,
    /// So much replay a crash in its midst repeats at most, microseconds.
    pub replay_checkpoint_us: u64,
    /// Start no threads: a test takes the cleaner's steps itself.
    pub still: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            segment_blocks: 1024,
            ring_blocks: 2048,
            flush_depth: 4,
            grow_pages: 0,
            doublewrite_pages: 256,
            frames: 0,
            replay_window_bytes: 64 << 20,
            replay_checkpoint_us: 3_000_000,
            still: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Options {
        Options {
            buffer_pool_bytes: None,
            recovery_target: Duration::from_secs(10),
            redo_capacity_bytes: None,
            page_bytes: None,
            redo_dir: None,
            doublewrite_dir: None,
            lock_wait: Duration::from_secs(50),
            history_memory_bytes: None,
            history_disk_bytes: 32 << 30,
            eager_recovery: false,
            hold_cleaning_until_redo_bytes: 0,
            tuning: Tuning::default(),
        }
    }

    /// Memory for cached pages, bytes. Default: a quarter of the machine's memory.
    #[must_use]
    pub fn buffer_pool_bytes(mut self, bytes: u64) -> Options {
        self.buffer_pool_bytes = Some(bytes);
        self
    }

    /// How long recovery after a crash may take; sizes the redo log. Default: 10 seconds.
    #[must_use]
    pub fn recovery_target(mut self, target: Duration) -> Options {
        self.recovery_target = target;
        self.redo_capacity_bytes = None;
        self
    }

    /// Pins the redo log's capacity, bytes, instead of deriving it from the recovery target.
    #[must_use]
    pub fn redo_capacity_bytes(mut self, bytes: u64) -> Options {
        self.redo_capacity_bytes = Some(bytes);
        self
    }

    /// Page size in bytes: 4096, 8192 or 16384. Fixed when the database is created; opening with another is refused.
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Options {
        self.page_bytes = Some(bytes);
        self
    }

    /// Where the redo log lives, if not in `redo` below the database's directory.
    #[must_use]
    pub fn redo_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.redo_dir = Some(dir.into());
        self
    }

    /// Where the doublewrite lives, if not in `doublewrite` below the database's directory.
    #[must_use]
    pub fn doublewrite_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.doublewrite_dir = Some(dir.into());
        self
    }

    /// How long a row or table lock is waited for unless a transaction says otherwise. Default: 50 seconds.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Options {
        self.lock_wait = wait;
        self
    }

    /// Memory for the past, bytes: undo of transactions, what is known of how they ended, and their locks. Undo that finds no room
    /// goes to files in `undo/` below the database's directory, whether its transaction is active, prepared, rolled back or
    /// committed. Default: a quarter of the buffer pool, at least 64 MiB.
    #[must_use]
    pub fn history_memory_bytes(mut self, bytes: u64) -> Options {
        self.history_memory_bytes = Some(bytes);
        self
    }

    /// What those files may take, bytes. When they take more, and what is in them is kept for the sake of a snapshot, the oldest
    /// snapshot is given up: reads by it fail with [`Error::SnapshotTooOld`] from then on. The undo of a transaction that has not
    /// ended is never given up, so one that changes very much can go beyond this. Default: 32 GiB.
    #[must_use]
    pub fn history_disk_bytes(mut self, bytes: u64) -> Options {
        self.history_disk_bytes = bytes;
        self
    }

    /// Finish all recovery, undo included, before `open` returns.
    #[must_use]
    pub fn eager_recovery(mut self, eager: bool) -> Options {
        self.eager_recovery = eager;
        self
    }

    /// Holds the cleaner back until the redo since the checkpoint reaches so many bytes. For crash experiments.
    #[doc(hidden)]
    #[must_use]
    pub fn hold_cleaning_until_redo_bytes(mut self, bytes: u64) -> Options {
        self.hold_cleaning_until_redo_bytes = bytes;
        self
    }

    /// Checks what can be checked without a directory.
    pub(crate) fn validate(&self) -> Result {
        let misuse = |what: String| Err(Error::Misuse(what));
        if let Some(bytes) = self.page_bytes
            && ![4096, 8192, 16384].contains(&bytes)
        {
            return misuse(format!("a page of {bytes} bytes: pages are 4096, 8192 or 16384 bytes"));
        }
        if let Some(bytes) = self.buffer_pool_bytes
            && bytes < 1 << 20
        {
            return misuse(format!("a buffer pool of {bytes} bytes: at least 1 MiB is needed"));
        }
        if let Some(bytes) = self.history_memory_bytes
            && bytes < HISTORY_MEMORY_MIN
        {
            return misuse(format!(
                "{bytes} bytes of memory for history: at least {HISTORY_MEMORY_MIN} are needed"
            ));
        }
        let least = pace::segments::FILES_MIN * self.tuning.segment_blocks * 4096;
        if let Some(bytes) = self.redo_capacity_bytes
            && bytes < least
        {
            return misuse(format!("a redo capacity of {bytes} bytes: at least {least} are needed"));
        }
        if self.recovery_target.is_zero() {
            return misuse("a recovery target of 0: recovery takes time".into());
        }
        Ok(())
    }
}
