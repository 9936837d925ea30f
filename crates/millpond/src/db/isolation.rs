//! What a transaction sees of others, and how it waits for them.

use super::Durability;
#[cfg(doc)]
use crate::error::Error;
use crate::lock::Wait;
use std::time::Duration;

/// What a transaction sees of others. At every level it sees its own changes, never what is not committed, and of each
/// transaction all or nothing; plain reads of the two weaker levels neither wait nor make others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Each read sees what was committed when it began: two reads of a row may differ. A change never fails because of what
    /// others have committed meanwhile; it is made to the newest version.
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
    /// All reads see one snapshot, drawn by the first of them (snapshot isolation). A change of a row that another
    /// transaction changed after that snapshot is a [`Error::WriteConflict`]: the first updater wins (Berenson et al., "A
    /// Critique of ANSI SQL Isolation Levels", SIGMOD 1995). What two transactions read of each other's rows and do not change can
    /// still be contradictory (write skew): lock it with [`Transaction::get_for_share`](crate::Transaction::get_for_share), or be
    /// serializable. The first plain read draws the snapshot; locking reads and changes before it see the newest rows.
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
    /// As if transactions ran one after the other, in the order of their commits. A read locks what it returns, and that there
    /// is nothing else, until the transaction ends: [`Transaction::get`](crate::Transaction::get) the row or its absence, a range
    /// the rows and all that lies between them. So a change of what another one has read waits, and circles of such waits
    /// are a [`Error::Deadlock`]: try the transaction again.
    ///
    /// A transaction that is [`read_only`](TxnOptions::read_only) locks nothing and waits for nobody: it reads one moment
    /// between two commits, as [`Isolation::RepeatableRead`] does. The promise holds among transactions that are all serializable.
    /// One of another level is seen whole or not at all, and it waits for what these have locked, but what it reads itself may
    /// change.
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

/// How a transaction is begun: [`Db::begin_with`](crate::Db::begin_with) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxnOptions {
    pub(super) isolation: Isolation,
    pub(super) durability: Durability,
    pub(super) read_only: bool,
    lock_wait: Option<Duration>,
}

impl TxnOptions {
    /// Repeatable reads, durable commit, read and write.
    #[must_use]
    pub fn new() -> TxnOptions {
        TxnOptions::default()
    }

    /// What the transaction sees of others. Default: [`Isolation::RepeatableRead`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TxnOptions {
        self.isolation = isolation;
        self
    }

    /// What its commit promises. Default: [`Durability::Sync`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TxnOptions {
        self.durability = durability;
        self
    }

    /// A transaction that only reads: changes and locking reads are [`Error::Misuse`]. Every row that it returns is durable, so
    /// that what it told somebody cannot be taken back by a power cut; a read may wait for a sync for that. It locks no
    /// row, also when it is [serializable](Isolation::Serializable). Default: false.
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

    /// How long it waits for a lock. Default: as the database was opened with, 50 seconds. Zero: a lock that is not free is
    /// an [`Error::LockTimeout`] at once. See [`LockWait`] for single calls.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> TxnOptions {
        self.lock_wait = Some(wait);
        self
    }

    /// How its calls wait in a database whose own limit is `default`.
    pub(super) fn wait(&self, default: Duration) -> Wait {
        match self.lock_wait.unwrap_or(default) {
            Duration::ZERO => Wait::NoWait,
            limit => Wait::Until(limit),
        }
    }

    /// Whether its plain reads take locks.
    pub(super) fn locks_reads(&self) -> bool {
        self.isolation == Isolation::Serializable && !self.read_only
    }
}

/// What a locking read does when somebody else has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Waits for it, as long as [`TxnOptions::lock_wait`] says.
    #[default]
    Wait,
    /// Fails with [`Error::LockTimeout`] at once; only this call has failed.
    NoWait,
    /// Goes on as if the row were not there. What it returns is locked and says nothing about the rest, whatever the isolation.
    SkipLocked,
}
