//! Isolation levels, and the options of a transaction and of a locking read.

use super::Durability;
#[cfg(doc)]
use crate::error::Error;
use crate::lock::{Mode, Wait};
use std::time::Duration;

/// What a transaction sees of concurrent transactions. At every level it sees its own changes,
/// never uncommitted changes of others, and of each other transaction all changes or none. Plain
/// reads at the two weaker levels wait for no row lock, and no change of a row waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Each read sees what was committed when the read began, so two reads of a row may differ. A
    /// change applies to the newest committed version. It never fails because others have committed
    /// meanwhile.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::{Isolation, TxnOptions};
    /// let tx = db.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted))?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    ///
    /// let mut other = db.begin()?;
    /// other.put(&table, b"key", b"new")?;
    /// other.commit()?;
    /// assert_eq!(tx.get(&table, b"key")?.as_deref(), Some(&b"new"[..]));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ReadCommitted,
    /// All plain reads see one snapshot, taken at the first of them (snapshot isolation). Locking
    /// reads and changes before that see the newest rows.
    ///
    /// If another transaction committed a change of a row after the snapshot, changing that row is
    /// a [`Error::WriteConflict`]: the first updater wins (Berenson et al., "A Critique of ANSI SQL
    /// Isolation Levels", SIGMOD 1995). Write skew is possible: two transactions may read each
    /// other's rows, change different ones, and leave a contradiction. To prevent it, lock the rows
    /// with [`Transaction::get_for_share`](crate::Transaction::get_for_share), or use
    /// [`Isolation::Serializable`].
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?; // the default
    /// assert_eq!(tx.get(&table, b"key")?, None);
    ///
    /// let mut other = db.begin()?;
    /// other.put(&table, b"key", b"new")?;
    /// other.commit()?;
    /// assert_eq!(tx.get(&table, b"key")?, None); // as before
    /// assert!(matches!(tx.put(&table, b"key", b"mine"), Err(millpond::Error::WriteConflict)));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[default]
    RepeatableRead,
    /// As if transactions ran one after the other, in the order of their commits. A read locks what
    /// it has read until the transaction ends: [`Transaction::get`](crate::Transaction::get) locks
    /// the row or its absence, a range locks the rows and the gaps between them (next-key locks),
    /// so there are no phantoms. A transaction that changes what another one has read waits for it.
    /// A deadlock gives [`Error::Deadlock`]: run the transaction again.
    ///
    /// A [`read_only`](TxnOptions::read_only) transaction locks no row and waits for no row lock:
    /// it reads one snapshot between two commits, as [`Isolation::RepeatableRead`] does. The
    /// guarantee holds among transactions that are all serializable. A transaction of another level
    /// is seen as a whole or not at all, and it waits for the locks of serializable ones, but what
    /// it has read may change.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::{Isolation, TxnOptions};
    /// let shifts = db.create_table("shifts")?;
    /// let options = TxnOptions::new().isolation(Isolation::Serializable);
    ///
    /// // At most two doctors are on call, however many threads run this at once.
    /// let name = b"monday/ada";
    /// loop {
    ///     let mut tx = db.begin_with(options)?;
    ///     let on_call = tx.range(&shifts, &b"monday/"[..]..&b"monday0"[..])?.count();
    ///     let taken = if on_call < 2 { tx.put(&shifts, name, b"") } else { Ok(()) };
    ///     match taken.and_then(|()| tx.commit()) {
    ///         Err(error) if error.is_retryable() => continue,
    ///         outcome => break outcome.map(drop)?,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    Serializable,
}

impl Isolation {
    /// All levels, the weakest first.
    ///
    /// ```
    /// use millpond::Isolation;
    /// assert!(Isolation::ALL.contains(&Isolation::default()));
    /// ```
    pub const ALL: &'static [Isolation] =
        &[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

    /// Returns the level's name, as in command lines.
    ///
    /// ```
    /// use millpond::Isolation;
    /// assert_eq!(Isolation::default().name(), "repeatable-read");
    /// assert_eq!(Isolation::named("serializable"), Some(Isolation::Serializable));
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read-committed",
            Isolation::RepeatableRead => "repeatable-read",
            Isolation::Serializable => "serializable",
        }
    }

    /// Returns the level with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Isolation> {
        Isolation::ALL.iter().copied().find(|level| level.name() == name)
    }

    /// Whether all plain reads of a transaction see one snapshot.
    #[must_use]
    pub fn takes_one_snapshot(self) -> bool {
        match self {
            Isolation::ReadCommitted | Isolation::Serializable => false,
            Isolation::RepeatableRead => true,
        }
    }

    /// Whether plain reads see the newest rows and lock what they have read, except in a
    /// [`read_only`](TxnOptions::read_only) transaction.
    #[must_use]
    pub fn locks_reads(self) -> bool {
        match self {
            Isolation::ReadCommitted | Isolation::RepeatableRead => false,
            Isolation::Serializable => true,
        }
    }

    /// Whether a plain read finds the same rows again, and a change that follows from it overwrites
    /// no later change of another transaction. With [`TxnOptions::current_reads`] it may.
    #[must_use]
    pub fn repeats_reads(self) -> bool {
        self.takes_one_snapshot() || self.locks_reads()
    }

    /// Whether the outcome is as if the transactions at this level ran one after the other, in the
    /// order of their commits.
    #[must_use]
    pub fn is_serial(self) -> bool {
        match self {
            Isolation::ReadCommitted | Isolation::RepeatableRead => false,
            Isolation::Serializable => true,
        }
    }
}

/// What the plain reads of a transaction see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainReads {
    /// A snapshot of their statement; without a statement each read has its own.
    StatementSnapshot,
    /// The transaction's snapshot.
    OneSnapshot,
    /// The newest rows, which they lock.
    Locked,
}

/// The options of a transaction. [`Db::begin_with`](crate::Db::begin_with) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxnOptions {
    pub(super) isolation: Isolation,
    pub(super) durability: Durability,
    pub(super) read_only: bool,
    pub(super) current_reads: bool,
    pub(super) observed_as: u64,
    pub(super) tag: u64,
    lock_wait: Option<Duration>,
}

impl TxnOptions {
    /// The defaults: [`Isolation::RepeatableRead`], [`Durability::Sync`], reads and writes.
    #[must_use]
    pub fn new() -> TxnOptions {
        TxnOptions::default()
    }

    /// Sets what the transaction sees of others. Default: [`Isolation::RepeatableRead`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TxnOptions {
        self.isolation = isolation;
        self
    }

    /// Sets what is durable when a commit returns. Default: [`Durability::Sync`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TxnOptions {
        self.durability = durability;
        self
    }

    /// If true, the transaction only reads: changes and locking reads are [`Error::Misuse`]. It
    /// returns only durable rows, so a power cut cannot revoke what it has reported; a read may
    /// wait for a sync of the log for that. It locks no row, even if it is
    /// [serializable](Isolation::Serializable). Default: false.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin_with(millpond::TxnOptions::new().read_only(true))?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    /// assert!(matches!(tx.put(&table, b"key", b"value"), Err(millpond::Error::Misuse(_))));
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> TxnOptions {
        self.read_only = read_only;
        self
    }

    /// If true, changes and locking reads of an [`Isolation::RepeatableRead`] transaction use the
    /// newest committed rows, even if these were committed after the transaction's snapshot. They
    /// never fail with [`Error::WriteConflict`], and locking ranges also lock the gaps between
    /// their rows. Plain reads use the snapshot all the same, so what a transaction changes may
    /// differ from what it has read. At other levels it has no effect. Default: false.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin_with(millpond::TxnOptions::new().current_reads(true))?;
    /// assert_eq!(tx.get(&table, b"key")?, None); // the snapshot
    ///
    /// let mut other = db.begin()?;
    /// other.put(&table, b"key", b"new")?;
    /// other.commit()?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    /// assert_eq!(tx.get_for_update(&table, b"key")?.as_deref(), Some(&b"new"[..]));
    /// tx.put(&table, b"key", b"mine")?; // no conflict
    /// # Ok::<(), millpond::Error>(())
    /// ```
    #[must_use]
    pub fn current_reads(mut self, current: bool) -> TxnOptions {
        self.current_reads = current;
        self
    }

    /// Sets a number by which the program knows the transaction, such as that of a connection.
    /// [`Db::transactions`](crate::Db::transactions), [`Db::locks`](crate::Db::locks) and
    /// [`Db::deadlocks`](crate::Db::deadlocks) show it. Default: 0.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> TxnOptions {
        self.tag = tag;
        self
    }

    /// Sets how long a call waits for a lock before it fails with [`Error::LockTimeout`]. Default:
    /// [`Options::lock_wait`](crate::Options::lock_wait) of the database, 50 seconds. Zero: a lock
    /// that is not free is an error at once. See [`LockWait`] for single calls.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> TxnOptions {
        self.lock_wait = Some(wait);
        self
    }

    /// Sets the name by which the observer of waits knows the transaction
    /// ([`Db::observe_waits`](crate::Db::observe_waits) has an example). 0, the default: it is told
    /// nothing of it.
    #[must_use]
    pub fn observed_as(mut self, name: u64) -> TxnOptions {
        self.observed_as = name;
        self
    }

    /// Returns how the transaction's calls wait. `default` is the database's limit.
    pub(super) fn wait(&self, default: Duration) -> Wait {
        match self.lock_wait.unwrap_or(default) {
            Duration::ZERO => Wait::NoWait,
            limit => Wait::Until(limit),
        }
    }

    /// Returns what plain reads see.
    #[inline]
    pub(super) fn plain_reads(&self) -> PlainReads {
        if self.isolation.locks_reads() && !self.read_only {
            PlainReads::Locked
        } else if self.isolation.repeats_reads() {
            PlainReads::OneSnapshot
        } else {
            PlainReads::StatementSnapshot
        }
    }

    /// Whether the change of a row that was committed after the transaction's snapshot is a write
    /// conflict.
    pub(super) fn first_updater_wins(&self) -> bool {
        self.isolation.takes_one_snapshot() && !self.current_reads
    }

    /// Whether locking reads of a range lock its gaps.
    pub(super) fn locks_gaps(&self) -> bool {
        self.isolation.locks_reads() || (self.isolation.takes_one_snapshot() && self.current_reads)
    }
}

/// The lock that a read leaves on the rows that it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// Other transactions can lock the row for sharing too, but not change it.
    Shared,
    /// No other transaction can lock or change the row.
    Exclusive,
}

impl RowLock {
    /// Returns the mode of the lock manager.
    pub(super) fn mode(self) -> Mode {
        match self {
            RowLock::Shared => Mode::Shared,
            RowLock::Exclusive => Mode::Exclusive,
        }
    }
}

/// What a locking read does when another transaction has locked a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Waits for the lock, as long as [`TxnOptions::lock_wait`] says.
    #[default]
    Wait,
    /// Fails with [`Error::LockTimeout`] at once. Only this call fails; the transaction goes on.
    NoWait,
    /// Skips the row as if it did not exist. The rows that the call returns are locked. Of other
    /// rows it says nothing, at any isolation level.
    SkipLocked,
}
