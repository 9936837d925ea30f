//! Errors, in five families: retry, misuse, environment, corruption, poison. Also the cell that
//! stores the first fatal error of a database.

use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{Mutex, Unparker};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// `std::result::Result` with [`Error`].
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why a call did not do what was asked. Each error names the table, the file or the limit.
///
/// | | | what to do |
/// | --- | --- | --- |
/// | retry | [`Deadlock`](Error::Deadlock), [`WriteConflict`](Error::WriteConflict), [`LockTimeout`](Error::LockTimeout) | begin the transaction again: [`Error::is_retryable`] |
/// | stop | [`Cancelled`](Error::Cancelled) | another thread has asked for it |
/// | the data | [`KeyExists`](Error::KeyExists), [`TableExists`](Error::TableExists), [`NoSuchTable`](Error::NoSuchTable) | depends on the program; the transaction can continue |
/// | the call | [`Misuse`](Error::Misuse), [`KeyTooLong`](Error::KeyTooLong), [`Aborted`](Error::Aborted), [`Closed`](Error::Closed), [`Forked`](Error::Forked) | a mistake in the program |
/// | the machine | [`Io`](Error::Io), [`DiskFull`](Error::DiskFull), [`InUse`](Error::InUse) | make room, or wait; after a full disk the database stays usable |
/// | a limit | [`Limit`](Error::Limit) | the error names it; deleting, reading and ending transactions still work |
/// | the past | [`SnapshotTooOld`](Error::SnapshotTooOld) | end the transaction; allow [more space](crate::Options::history_disk_bytes), or use shorter transactions |
/// | | [`TableChanged`](Error::TableChanged) | end the transaction; a new one sees the table |
/// | the files | [`Corrupt`](Error::Corrupt), [`Foreign`](Error::Foreign) | the error names the file; nothing was changed |
/// | after a failed write or sync | [`Poisoned`](Error::Poisoned) | close and open again: recovery keeps every acknowledged commit |
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Transactions waited for each other in a cycle, and this one was chosen as the victim. It has
    /// been rolled back.
    #[error("deadlock: the transaction was rolled back to let others go on")]
    Deadlock,
    /// A row or table lock did not become free in time. Only this call failed.
    #[error("a lock did not become free in time")]
    LockTimeout,
    /// Another thread has cancelled the transaction's calls, see [`crate::Canceller`]. Only this
    /// call failed.
    #[error("the call was cancelled")]
    Cancelled,
    /// A transaction that committed after this one's snapshot has changed the row. This one has
    /// been rolled back.
    #[error("write conflict: the row was changed after the transaction's snapshot")]
    WriteConflict,

    /// The call makes no sense as it was made.
    #[error("{0}")]
    Misuse(String),
    /// A table of the name passed to `create_table` or `rename_table` exists.
    #[error("table {name:?} already exists")]
    TableExists {
        /// The name.
        name: String,
    },
    /// There is no table of that name, or it has been dropped.
    #[error("there is no table {name:?}")]
    NoSuchTable {
        /// The name.
        name: String,
    },
    /// The key passed to `insert` exists. Nothing was changed.
    #[error("the key already exists")]
    KeyExists,
    /// The key is longer than a page of this database can index.
    #[error("the key is {len} bytes long, {max} is the most that this page size allows")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The transaction was rolled back by an earlier error.
    #[error("the transaction was rolled back by an earlier error")]
    Aborted,
    /// The database has been closed.
    #[error("the database is closed")]
    Closed,
    /// The database was opened by another process, of which this one is a copy made by `fork`. Only
    /// that process can use it; this call has done nothing.
    #[error("the database belongs to the process that opened it, and this one was made from it by fork")]
    Forked,
    /// Another process, or this one, has the database open.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The database's directory.
        dir: PathBuf,
    },
    /// The snapshot was held so long that [`crate::Options::history_disk_bytes`] had no space left
    /// for the versions that it needs, and it was the oldest snapshot. Only this call failed, but
    /// all later reads by the snapshot will fail too. The changes of the transaction can be
    /// committed. Not retryable: the same work would most likely take as long again, so it needs
    /// more space or shorter transactions.
    #[error("the snapshot is too old: the versions that it needs are gone")]
    SnapshotTooOld,
    /// The table was created, or put in place of another one, after the transaction's snapshot. So
    /// the snapshot knows nothing of its rows. Only this call failed.
    #[error("table {name:?} was made after the transaction's snapshot")]
    TableChanged {
        /// The name.
        name: String,
    },

    /// The operating system refused an operation on a file.
    #[error("cannot {op} {}: {source}", file.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The database has reached a limit of its format, or locks take all the memory that they may;
    /// the error names the limit. Nothing was changed, except by
    /// [`rollback_to`](crate::Transaction::rollback_to), which has rolled the transaction back.
    /// Work that needs no more of it can continue.
    #[error("{what}")]
    Limit {
        /// Which limit.
        what: String,
    },
    /// No space is left for the call: the device is full, a quota is used up, or the file would
    /// exceed the limit on the size of files. Nothing was changed, except by
    /// [`rollback_to`](crate::Transaction::rollback_to), which has rolled the transaction back.
    #[error("no space left for {}", file.display())]
    DiskFull {
        /// The file that could not grow. For a database in memory, its name there.
        file: PathBuf,
    },

    /// A file holds data that this engine never wrote, or has lost data that it wrote.
    #[error("{} is damaged: {what}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What is wrong and where.
        what: String,
    },
    /// A file belongs to another program or another database, or has another format.
    #[error("{} {what}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// How it differs.
        what: String,
    },
    /// An earlier failure made it unsafe to continue. Opening the database again recovers it.
    #[error("the database stopped after an earlier failure ({first}); reopen it to recover")]
    Poisoned {
        /// That failure.
        first: Arc<str>,
    },
}

impl Error {
    /// Whether the same transaction may well succeed if it is run again from its beginning, in a
    /// new [`Transaction`](crate::Transaction). After [`Error::LockTimeout`] the old transaction is
    /// still active and keeps its locks: roll it back, or try the call again in it.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// fn add_one(db: &millpond::Db, table: &millpond::Table) -> millpond::Result<()> {
    ///     loop {
    ///         let attempt = || {
    ///             let mut tx = db.begin()?;
    ///             let n = tx.get(table, b"n")?.map_or(0, |bytes| bytes[0]);
    ///             tx.put(table, b"n", &[n + 1])?; // `WriteConflict` if another thread was faster
    ///             tx.commit()
    ///         };
    ///         match attempt() {
    ///             Err(error) if error.is_retryable() => continue,
    ///             outcome => return outcome.map(drop),
    ///         }
    ///     }
    /// }
    /// # add_one(&db, &table)?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Deadlock | Error::LockTimeout | Error::WriteConflict)
    }

    /// Wraps an I/O error. A full disk becomes [`Error::DiskFull`]. A file that ends before the
    /// bytes to be read has lost them and is [`Error::Corrupt`].
    pub(crate) fn io(op: &'static str, file: &Path, source: io::Error) -> Error {
        match source.kind() {
            _ if vfs::fail_stop::is_full(&source) => Error::DiskFull { file: file.to_owned() },
            io::ErrorKind::UnexpectedEof => Error::corrupt(file, format!("it is too short: {source}")),
            _ => Error::Io { op, file: file.to_owned(), source: Arc::new(source) },
        }
    }

    /// The error for a file of a format that this program does not read. Says what to do about it.
    pub(crate) fn other_format(file: &Path, has: u32, reads: u32) -> Error {
        let what = if has < reads {
            format!(
                "has format {has}; this program reads format {reads}: open it with the release that wrote it and copy its \
                 rows into a new database"
            )
        } else {
            format!(
                "has format {has}; this program reads format {reads}: open it with the release that wrote it"
            )
        };
        Error::Foreign { file: file.to_owned(), what }
    }

    /// Whether nothing has happened and the same call may succeed later, because there was no disk
    /// space or no file descriptor.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Io { source, .. } => vfs::descriptor_cache::no_descriptor(source),
            _ => false,
        }
    }

    /// The error for damage in a file.
    pub(crate) fn corrupt(file: &Path, what: impl Into<String>) -> Error {
        Error::Corrupt { file: file.to_owned(), what: what.into() }
    }
}

/// Stores the first fatal error of a database. After a failed write or sync nothing may be trusted
/// or retried (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020), so
/// everything stops here.
///
/// The thread that sets it need not know which threads wait for what. Setting it wakes the threads
/// of the engine, and each of those wakes every thread that waits in the engine. One of them is
/// enough. So no wait depends on the thread that failed.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    set: AtomicBool,
    first: Mutex<Option<Error>>,
    /// The threads of the engine.
    threads: OnceLock<Vec<Unparker>>,
    on_failure: Option<OnFailure>,
}

/// A function of the program, see [`crate::Options::on_failure`].
#[derive(Clone)]
pub(crate) struct OnFailure(Arc<dyn Fn(&Error) + Send + Sync>);

impl OnFailure {
    pub(crate) fn new(function: impl Fn(&Error) + Send + Sync + 'static) -> OnFailure {
        OnFailure(Arc::new(function))
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFailure")
    }
}

impl Poison {
    /// Makes the cell of a database that tells the program of its first fatal error.
    pub(crate) fn telling(on_failure: Option<OnFailure>) -> Poison {
        Poison { on_failure, ..Poison::default() }
    }

    /// Stores `error` if it is the first. Returns the error that callers get from now on.
    pub(crate) fn set(&self, error: Error) -> Error {
        let mut first = self.first.lock();
        let told = first.is_none().then(|| error.clone());
        first.get_or_insert(error);
        self.set.store(true, Ordering::Release);
        let poisoned = Self::poisoned(first.as_ref());
        drop(first);
        self.wake();
        if let (Some(error), Some(OnFailure(tell))) = (told, &self.on_failure) {
            tell(&error);
        }
        poisoned
    }

    /// Poisons the database with the error, unless the error may pass. Returns the error that the
    /// caller gets.
    pub(crate) fn fatal(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.set(error) }
    }

    /// Goes on after an error that may pass. Any other poisons the database.
    pub(crate) fn pass_over(&self, error: Error) -> Result {
        if error.may_pass() { Ok(()) } else { Err(self.set(error)) }
    }

    /// Returns the first fatal error.
    pub(crate) fn first(&self) -> Option<Error> {
        self.first.lock().clone()
    }

    /// Sets the threads that are woken when the database is poisoned, and wakes them now if it
    /// already is. REQUIRES: called once.
    pub(crate) fn wakes(&self, threads: Vec<Unparker>) {
        base::check!(self.threads.set(threads).is_ok(), "two sets of threads for one database");
        if self.is_set() {
            self.wake();
        }
    }

    fn wake(&self) {
        self.threads.get().into_iter().flatten().for_each(Unparker::unpark);
    }

    fn poisoned(first: Option<&Error>) -> Error {
        let text = first.map_or_else(String::new, ToString::to_string);
        Error::Poisoned { first: text.into() }
    }

    /// Fails if the database is poisoned.
    #[inline]
    pub(crate) fn check(&self) -> Result {
        if !self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Self::poisoned(self.first.lock().as_ref()))
    }

    /// Whether the database is poisoned.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }
}
