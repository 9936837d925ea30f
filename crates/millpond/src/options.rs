//! The options of opening a database: plain data, checked once.

mod doublewrite;
mod experiments;
#[cfg(any(test, feature = "lab"))]
mod law;
mod on_deadlock;

use crate::error::{Error, OnFailure, Result};
pub use doublewrite::Doublewrite;
pub(crate) use experiments::Experiments;
#[cfg(any(test, feature = "lab"))]
pub use law::{InnodbLaw, Law};
use on_deadlock::OnDeadlock;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vfs::Vfs;

/// The least memory for history, bytes. Less would not hold a few transactions.
const HISTORY_MEMORY_MIN: u64 = 4 << 10;
const LOCK_MEMORY_MIN: u64 = 64 << 10;

/// The smallest buffer pool, bytes.
pub(crate) const POOL_BYTES_MIN: u64 = 1 << 20;

/// The default buffer pool of a database in memory.
const IN_MEMORY_POOL_BYTES: u64 = 64 << 20;
/// The default redo capacity of a database in memory: just enough for cleaning pages in large
/// batches.
const IN_MEMORY_REDO_BYTES: u64 = 64 << 20;

/// The shortest time between two samples of the flight recorder.
const RECORDER_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Blocks of its log buffer. Half of them hold the redo of sixteen of the longest
/// mini-transactions.
const IN_MEMORY_RING_BLOCKS: usize = 512;
/// Pages that it writes in one batch.
const IN_MEMORY_DOUBLEWRITE_PAGES: usize = 64;

/// How a database is opened. Every option has a good default, and there is nothing to tune: all
/// other sizes and rates follow from these options and from what the engine measures.
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
    pub(crate) lock_memory_bytes: Option<u64>,
    pub(crate) history_disk_bytes: u64,
    pub(crate) eager_recovery: bool,
    pub(crate) own_process: bool,
    pub(crate) recorder_interval: Duration,
    pub(crate) doublewrite: Doublewrite,
    pub(crate) experiments: Experiments,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) on_deadlock: Option<OnDeadlock>,
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
    /// Pages by which the `pages` file grows; 0 takes 64 MiB of them.
    pub grow_pages: u32,
    /// The most pages that the `pages` file may have: as many as page numbers can name, fewer in
    /// tests.
    pub pages_max: u32,
    /// Pages in one area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Frames of the buffer pool; 0 derives them from its bytes.
    pub frames: usize,
    /// Redo that a worker of recovery holds in memory before it applies it to pages, bytes.
    pub replay_window_bytes: usize,
    /// Threads that apply redo; 0: as many as there are cores, and not more than help.
    pub replay_workers: usize,
    /// Log that an opening may read before the first transaction, about, bytes.
    pub head_bytes: u64,
    /// Replay ends before the database is open.
    pub replay_first: bool,
    /// At most this much replay is repeated if recovery crashes, microseconds.
    pub replay_checkpoint_us: u64,
    /// No file `progress`, for tests that count operations of files or make each of them fail.
    pub no_progress_file: bool,
    /// Start no threads: a test takes the steps of the cleaner itself.
    pub no_threads: bool,
    /// Without threads, the cleaner only orders page writes, and a test plays the page writers.
    pub writers_by_hand: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            segment_blocks: 1024,
            ring_blocks: 2048,
            flush_depth: 4,
            grow_pages: 0,
            pages_max: u32::MAX,
            doublewrite_pages: 512,
            frames: 0,
            replay_window_bytes: 64 << 20,
            replay_workers: 0,
            head_bytes: 64 << 20,
            replay_first: false,
            replay_checkpoint_us: 3_000_000,
            no_progress_file: false,
            no_threads: false,
            writers_by_hand: false,
        }
    }
}

/// What the files of a database are made of.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    /// Files of the operating system.
    Os,
    /// Memory of this process.
    Memory,
    /// A disk that the caller gives, as the simulator does.
    #[cfg(feature = "sim")]
    Given(Vfs),
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

/// Fails for a limit of lock memory that is too small.
pub(crate) fn check_lock_memory(bytes: u64) -> Result {
    if bytes >= LOCK_MEMORY_MIN {
        return Ok(());
    }
    Err(Error::Misuse(format!("{bytes} bytes of memory for locks: at least {LOCK_MEMORY_MIN} are needed")))
}

/// Fails if no recovery could take as little as `target`.
pub(crate) fn check_recovery_target(target: Duration) -> Result {
    if target.is_zero() {
        return Err(Error::Misuse("a recovery target of 0: recovery takes time".into()));
    }
    Ok(())
}

impl Options {
    /// The default options.
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
            lock_memory_bytes: None,
            history_disk_bytes: 32 << 30,
            eager_recovery: false,
            own_process: false,
            recorder_interval: Duration::from_secs(1),
            doublewrite: Doublewrite::On,
            experiments: Experiments::default(),
            on_failure: None,
            on_deadlock: None,
            tuning: Tuning::default(),
        }
    }

    /// Memory for cached pages and everything that is stored for each of them, bytes. Default: a
    /// quarter of the memory that the process may use: that of the machine, or the least limit of
    /// its control group, of the groups above it, and of the process (`ulimit -v`, `ulimit -d`).
    /// The figure `buffer_pool_bytes` tells the size. 64 MiB for a database that is [in
    /// memory](Options::open_in_memory).
    /// [`Db::set_buffer_pool_bytes`](crate::Db::set_buffer_pool_bytes) changes it later.
    #[must_use]
    pub fn buffer_pool_bytes(mut self, bytes: u64) -> Options {
        self.buffer_pool_bytes = Some(bytes);
        self
    }

    /// How long recovery after a crash may take. The size of the redo log follows from it and from
    /// the measured speed of replay. A longer time lets more changes of a page share one write. The
    /// log does not get longer than helps: four times the bytes of the dirty pages. Default: 10
    /// seconds. Zero is refused. Overrides an earlier [`Options::redo_capacity_bytes`].
    #[must_use]
    pub fn recovery_target(mut self, target: Duration) -> Options {
        self.recovery_target = target;
        self.redo_capacity_bytes = None;
        self
    }

    /// Sets the capacity of the redo log, bytes, at least 16 MiB, instead of deriving it from the
    /// recovery target. The log takes that much of the disk only when it is needed.
    /// [`Db::set_redo_capacity`](crate::Db::set_redo_capacity) changes it later.
    #[must_use]
    pub fn redo_capacity_bytes(mut self, bytes: u64) -> Options {
        self.redo_capacity_bytes = Some(bytes);
        self
    }

    /// Page size in bytes: 4096, 8192 or 16384. Default: 8192 for a new database. Fixed when the
    /// database is created; opening with another size is [`Error::Misuse`]. It decides how long a
    /// key may be (see [the limits of the crate](crate#sizes-and-limits)).
    #[must_use]
    pub fn page_bytes(mut self, bytes: usize) -> Options {
        self.page_bytes = Some(bytes);
        self
    }

    /// The directory of the redo log, if not `redo` below the directory of the database: best on
    /// the device that syncs fastest. Its parent must exist, and it must be given at every open,
    /// until [`Db::set_redo_dir`](crate::Db::set_redo_dir) moves the log: from then on the root
    /// file knows where it is, and this option counts only if the log's files are in the directory
    /// that it names, because they were moved or copied by hand. Only this database uses it, and it
    /// holds nothing else: for a new database it must be empty or missing. It may be moved while
    /// the database is closed. A directory of another database, or one without a log, is
    /// [`Error::Foreign`]. A directory that this database already uses for another purpose is
    /// [`Error::Misuse`].
    #[must_use]
    pub fn redo_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.redo_dir = Some(dir.into());
        self
    }

    /// The directory of the doublewrite, if not `doublewrite` below the directory of the database.
    /// The rules of [`Options::redo_dir`] apply.
    #[must_use]
    pub fn doublewrite_dir(mut self, dir: impl Into<PathBuf>) -> Options {
        self.doublewrite_dir = Some(dir.into());
        self
    }

    /// Whether pages are protected against torn writes. Default: [`Doublewrite::On`]. It may be
    /// another one at each open, and [`Db::set_doublewrite`](crate::Db::set_doublewrite) changes it
    /// later.
    #[must_use]
    pub fn doublewrite(mut self, doublewrite: Doublewrite) -> Options {
        self.doublewrite = doublewrite;
        self
    }

    /// How long a call waits for a row or table lock before it returns [`Error::LockTimeout`]. A
    /// transaction can [set its own](crate::TxnOptions::lock_wait). Default: 50 seconds.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Options {
        self.lock_wait = wait;
        self
    }

    /// Memory for history, bytes: the undo of transactions, their states, and their locks. Undo
    /// that does not fit goes to files in `undo/` below the directory of the database, whether its
    /// transaction is active, prepared, rolled back or committed. Default: a quarter of the buffer
    /// pool as it is opened, at least 64 MiB.
    #[must_use]
    pub fn history_memory_bytes(mut self, bytes: u64) -> Options {
        self.history_memory_bytes = Some(bytes);
        self
    }

    /// Memory for the locks of rows and ranges that transactions request, bytes. Beyond it requests
    /// are refused with [`Error::Limit`]. A row that is locked by itself takes some 200 bytes with
    /// a short key. Rows that a scan locks one after the other take a few hundred bytes together,
    /// from the first row on where the gaps are locked too, else once the transaction has some
    /// thousand locks. Default: half of [`Options::history_memory_bytes`] if that is set, and at
    /// least 1 MiB; else half of its default, and at least 256 MiB, so that a million rows with
    /// short keys can be locked one by one on any machine. It can be changed by
    /// [`Db::set_lock_memory_bytes`](crate::Db::set_lock_memory_bytes).
    #[must_use]
    pub fn lock_memory_bytes(mut self, bytes: u64) -> Options {
        self.lock_memory_bytes = Some(bytes);
        self
    }

    /// The disk space that those files may take, bytes. If they take more because a snapshot needs
    /// them, the oldest snapshot expires: its reads fail with [`Error::SnapshotTooOld`] from then
    /// on. The undo of a transaction that has not ended is always kept, so a transaction with very
    /// many changes can exceed this. Default: 32 GiB.
    #[must_use]
    pub fn history_disk_bytes(mut self, bytes: u64) -> Options {
        self.history_disk_bytes = bytes;
        self
    }

    /// Finishes all recovery, redo and rollback included, before `open` returns, so that damage in
    /// a page that redo changes is an error of `open`. Default: false. Then a page gets its redo
    /// when it is needed, or in the background. The changes of transactions that a crash
    /// interrupted are rolled back in the background too, and no transaction sees them meanwhile.
    #[must_use]
    pub fn eager_recovery(mut self, eager: bool) -> Options {
        self.eager_recovery = eager;
        self
    }

    /// Whether the process is there for the database, as a server is. Then opening raises the soft
    /// limit of open files (`ulimit -n`) as far as the hard limit allows, up to 8,192, and memory
    /// that the engine has freed after a peak goes back to the system by `malloc_trim`, which walks
    /// the heap of the whole process. Default: false: a library leaves its host as it is.
    #[must_use]
    pub fn own_process(mut self, own: bool) -> Options {
        self.own_process = own;
        self
    }

    /// How often the flight recorder writes all metrics to the file `recorder`, a ring of 8 MiB in
    /// the directory of the database. At least 10 milliseconds; zero switches it off. Default: one
    /// second, which is several hours of a busy database. [`inspect::recording`] reads it. A
    /// database in memory has none.
    ///
    /// [`inspect::recording`]: crate::inspect::recording
    #[must_use]
    pub fn recorder_interval(mut self, interval: Duration) -> Options {
        self.recorder_interval = interval;
        self
    }

    /// A function that is called once if the database stops after a failed write or sync: with the
    /// error that names the file, at once, by the thread that has met it. Every call after it
    /// returns [`Error::Poisoned`], and [`Db::failure`](crate::Db::failure) the same error. The
    /// function is for a line in a log. It must not call the database, which may be in the middle
    /// of something.
    ///
    /// ```
    /// let options = millpond::Options::new().on_failure(|error| eprintln!("stopped: {error}"));
    /// let db = options.open_in_memory()?;
    /// assert!(db.failure().is_none());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn on_failure(mut self, function: impl Fn(&Error) + Send + Sync + 'static) -> Options {
        self.on_failure = Some(OnFailure::new(function));
        self
    }

    /// A function that is called for each deadlock, with its number in
    /// [`Db::deadlocks`](crate::Db::deadlocks) and the [tags](crate::TxnOptions::tag) of its
    /// transactions. All of them still wait then, so the function can note what each of them does.
    /// It must be quick, and must not call the database.
    ///
    /// ```
    /// let options = millpond::Options::new()
    ///     .on_deadlock(|number, tags| eprintln!("deadlock {number} of {tags:?}"));
    /// let db = options.open_in_memory()?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn on_deadlock(mut self, function: impl Fn(u64, &[u64]) + Send + Sync + 'static) -> Options {
        self.on_deadlock = Some(OnDeadlock(Arc::new(function)));
        self
    }

    /// The options for a database in memory. There a miss in the pool costs only a copy, and redo
    /// costs only memory, so both are small by default.
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
        // Large buffers hide the slowness of a device. Here there is none, and many tests open many
        // databases.
        options.tuning.ring_blocks = options.tuning.ring_blocks.min(IN_MEMORY_RING_BLOCKS);
        options.tuning.doublewrite_pages = options.tuning.doublewrite_pages.min(IN_MEMORY_DOUBLEWRITE_PAGES);
        Ok(options)
    }

    /// Returns the files and the clock of a database with these options. Opening a database,
    /// viewing it and rescuing it all begin here. So a disk that stands before all files of a
    /// database, such as one that encrypts them, is put here.
    pub(crate) fn vfs(&self, medium: Medium) -> Vfs {
        let vfs = match medium {
            Medium::Os => Vfs::os(),
            Medium::Memory => Vfs::in_memory(),
            #[cfg(feature = "sim")]
            Medium::Given(vfs) => vfs,
        };
        if self.own_process {
            vfs.disk.raise_descriptors();
        }
        vfs
    }

    /// Checks everything that can be checked without a directory.
    pub(crate) fn validate(&self) -> Result {
        let misuse = |what: String| Err(Error::Misuse(what));
        if let Some(bytes) = self.page_bytes
            && ![4096, 8192, 16384].contains(&bytes)
        {
            return misuse(format!("a page of {bytes} bytes: pages are 4096, 8192 or 16384 bytes"));
        }
        if let Some(bytes) = self.buffer_pool_bytes
            && bytes < POOL_BYTES_MIN
        {
            return misuse(format!("a buffer pool of {bytes} bytes: at least {POOL_BYTES_MIN} are needed"));
        }
        if let Some(bytes) = self.history_memory_bytes
            && bytes < HISTORY_MEMORY_MIN
        {
            return misuse(format!(
                "{bytes} bytes of memory for history: at least {HISTORY_MEMORY_MIN} are needed"
            ));
        }
        self.lock_memory_bytes.map_or(Ok(()), check_lock_memory)?;
        let least = pace::constants::LOG_FILES_MIN * self.tuning.segment_blocks * 4096;
        if let Some(bytes) = self.redo_capacity_bytes
            && bytes < least
        {
            return misuse(format!("a redo capacity of {bytes} bytes: at least {least} are needed"));
        }
        check_recovery_target(self.recovery_target)?;
        self.experiments.law.problem().map_or(Ok(()), misuse)?;
        let interval = self.recorder_interval;
        if !interval.is_zero() && interval < RECORDER_INTERVAL_MIN {
            return misuse(format!(
                "a recorder interval of {interval:?}: at least {RECORDER_INTERVAL_MIN:?}, or 0"
            ));
        }
        Ok(())
    }
}
