//! Choices that a database is opened with: plain data, checked once.

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Less memory for history than a few transactions take is of no use to anybody, bytes.
const HISTORY_MEMORY_MIN: u64 = 4 << 10;

/// The buffer pool of a database in memory, unless another was asked for.
const IN_MEMORY_POOL_BYTES: u64 = 64 << 20;
/// The redo that it keeps at most: as little as lets pages be cleaned in large batches.
const IN_MEMORY_REDO_BYTES: u64 = 64 << 20;

/// Blocks of its log buffer: half of them hold the redo of sixteen of the longest mini-transactions.
const IN_MEMORY_RING_BLOCKS: usize = 512;
/// Pages that it writes at once.
const IN_MEMORY_DOUBLEWRITE_PAGES: usize = 64;

/// How a database is opened. Every choice has a default that serves. There is nothing to tune: sizes and rates that are not
/// here follow from these and from what the engine measures.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("millpond-doc-options-{}", std::process::id()));
/// use std::time::Duration;
///
/// let db = millpond::Options::new()
///     .buffer_pool_bytes(64 << 20)
///     .recovery_target(Duration::from_secs(5))
///     .page_bytes(4096)
///     .lock_wait(Duration::from_secs(1))
///     .open(&dir)?;
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), millpond::Error>(())
/// ```
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
    /// Pages that the `pages` file never goes beyond: what page numbers can name, but for tests.
    pub pages_max: u32,
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
            pages_max: u32::MAX,
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

    /// Memory for cached pages and all that is kept for each of them, bytes. Default: a quarter of the machine's memory; 64 MiB for a database that is
    /// [in memory](Options::open_in_memory) itself.
    #[must_use]
    pub fn buffer_pool_bytes(mut self, bytes: u64) -> Options {
        self.buffer_pool_bytes = Some(bytes);
        self
    }

    /// How long recovery after a crash may take; sizes the redo log, from the speed that replay was measured to have here. A
    /// longer time lets more changes of a page share one write. Default: 10 seconds. Zero is refused. Takes back
    /// [`Options::redo_capacity_bytes`].
    #[must_use]
    pub fn recovery_target(mut self, target: Duration) -> Options {
        self.recovery_target = target;
        self.redo_capacity_bytes = None;
        self
    }

    /// Pins the redo log's capacity, bytes, at least 16 MiB, instead of deriving it from the recovery target. The log takes that
    /// much of the disk only once it is needed. [`Db::set_redo_capacity`](crate::Db::set_redo_capacity) changes it later.
    #[must_use]
    pub fn redo_capacity_bytes(mut self, bytes: u64) -> Options {
        self.redo_capacity_bytes = Some(bytes);
        self
    }

    /// Page size in bytes: 4096, 8192 or 16384. Default: 8192 for a new database. Fixed when the database is created; opening
    /// with another is [`Error::Misuse`]. It decides how long a key may be (see [the crate's limits](crate#sizes-and-limits)).
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Options {
        self.page_bytes = Some(bytes);
        self
    }

    /// Where the redo log lives, if not in `redo` below the database's directory: best on the device that syncs fastest. Its
    /// parent must exist, and it must be given at every open. It is this database's alone, and nothing else is in it: a new
    /// database wants it empty or missing. It may be moved while the database is closed. One that belongs to another database, or holds no
    /// log, is [`Error::Foreign`]; one that has another purpose here as well is [`Error::Misuse`].
    #[must_use]
    pub fn redo_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.redo_dir = Some(dir.into());
        self
    }

    /// Where the doublewrite lives, if not in `doublewrite` below the database's directory. As [`Options::redo_dir`].
    #[must_use]
    pub fn doublewrite_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.doublewrite_dir = Some(dir.into());
        self
    }

    /// How long a row or table lock is waited for unless a transaction [says otherwise](crate::TxnOptions::lock_wait), before
    /// the call gives [`Error::LockTimeout`]. Default: 50 seconds.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Options {
        self.lock_wait = wait;
        self
    }

    /// Memory for the past, bytes: undo of transactions, what is known of how they ended, and their locks. Undo that finds no room
    /// goes to files in `undo/` below the database's directory, whether its transaction is active, prepared, rolled back or
    /// committed. Locks of rows and ranges that transactions ask for may take half of it, and are refused with [`Error::Limit`] then: some
    /// 5,000 rows with short keys a MiB. Default: a quarter of the buffer pool, at least 64 MiB, and for locks at least 256 MiB, so that a
    /// million rows with short keys can be locked on any machine.
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

    /// Finish all recovery, undo included, before `open` returns. Default: false; what transactions that a crash cut off had
    /// changed is then taken back in the background, and nobody sees it meanwhile.
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

    /// The choices for a database in memory. A miss in the pool costs a copy there, and redo nothing but memory, so both
    /// are small unless somebody asked for more.
    pub(crate) fn in_memory(&self) -> Result<Options> {
        for (dir, name) in [(&self.redo_dir, "redo_dir"), (&self.doublewrite_dir, "doublewrite_dir")] {
            if let Some(dir) = dir {
                let dir = dir.display();
                return Err(Error::Misuse(format!("{name} {dir}: a database in memory has no directories")));
            }
        }
        let mut options = self.clone();
        options.buffer_pool_bytes.get_or_insert(IN_MEMORY_POOL_BYTES);
        options.redo_capacity_bytes.get_or_insert(IN_MEMORY_REDO_BYTES);
        // Buffers that hide a device's slowness have nothing to hide, and many a test opens many of these.
        options.tuning.ring_blocks = options.tuning.ring_blocks.min(IN_MEMORY_RING_BLOCKS);
        options.tuning.doublewrite_pages = options.tuning.doublewrite_pages.min(IN_MEMORY_DOUBLEWRITE_PAGES);
        Ok(options)
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
