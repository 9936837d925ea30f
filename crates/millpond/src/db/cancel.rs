//! [`Canceller`]: cancels a transaction's calls from another thread.

use super::core_ref::CoreRef;
use super::{Db, Transaction};
use crate::error::{Error, Result};
use crate::lock::CancelFlag;
use std::sync::Arc;

/// Cancels the calls of transactions from another thread, for example when a user no longer wants
/// the result. It is sticky: it may be set before a call begins to wait. [`Db::canceller`] makes
/// one; it serves one transaction after the other, one at a time.
///
/// ```
/// # let db = millpond::Db::open_in_memory()?;
/// # let table = db.create_table("t")?;
/// let mut holder = db.begin()?;
/// holder.put(&table, b"key", b"1")?;
///
/// let canceller = db.canceller();
/// let mut tx = db.begin()?;
/// tx.cancel_by(&canceller)?;
/// let other = canceller.clone();
/// let thread = std::thread::spawn(move || other.cancel());
/// let waited = tx.put(&table, b"key", b"2"); // the row is locked
/// assert!(matches!(waited, Err(millpond::Error::Cancelled)));
/// thread.join().expect("it cancels");
/// canceller.clear(); // from here on calls succeed again
/// assert_eq!(tx.get(&table, b"other")?, None);
/// # Ok::<(), millpond::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Canceller {
    /// Keeps the engine alive, as a transaction does.
    core: CoreRef,
    flag: Arc<CancelFlag>,
}

impl Canceller {
    /// Makes the present wait for a lock end with [`Error::Cancelled`], and every later call of the
    /// transaction that reads or changes rows, until [`Canceller::clear`]. The transaction goes on.
    /// Its rollback and its commit are not cancelled.
    pub fn cancel(&self) {
        if self.core.gate.is_in_child() {
            return;
        }
        self.core.engine.txns.locks.cancel(&self.flag);
    }

    /// Ends the effect of [`Canceller::cancel`].
    pub fn clear(&self) {
        self.flag.clear();
    }

    /// Whether the transaction that it serves waits for a lock of another transaction now.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.core.gate.is_in_child() && self.flag.is_waiting()
    }

    /// Whether calls fail now.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.flag.is_set()
    }
}

impl Db {
    /// Returns a new canceller for transactions of this database. See [`Canceller`].
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { core: self.core.get(), flag: Arc::default() }
    }
}

impl Transaction {
    /// Lets `canceller` cancel the calls of this transaction. See [`Canceller`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a canceller of another database.
    pub fn cancel_by(&mut self, canceller: &Canceller) -> Result<()> {
        if canceller.core.id != self.core.id {
            return Err(Error::Misuse("the canceller belongs to another database".into()));
        }
        self.txn.cancel = Some(Arc::clone(&canceller.flag));
        Ok(())
    }

    /// Fails if another thread has cancelled the transaction's calls.
    #[inline]
    pub(super) fn check_cancelled(&self) -> Result {
        match self.txn.cancel_flag() {
            Some(flag) if flag.is_set() => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}
