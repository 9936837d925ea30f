//! Statements: a part of a transaction that reads by one snapshot and can be undone.

use super::Transaction;
use super::isolation::PlainReads;
#[cfg(doc)]
use super::isolation::{Isolation, TxnOptions};
use crate::error::{Error, Result};

impl Transaction {
    /// Draws the snapshot of the transaction's plain reads now, if it is not drawn yet and they all
    /// see one: at [`RepeatableRead`](Isolation::RepeatableRead), and in a serializable transaction
    /// that is [`read_only`](TxnOptions::read_only). Without this call the first plain read
    /// draws it.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.draw_snapshot()?;
    /// let mut other = db.begin()?;
    /// other.put(&table, b"key", b"later")?;
    /// other.commit()?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Aborted`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn draw_snapshot(&mut self) -> Result<()> {
        let _inside = self.enter()?;
        if self.options.plain_reads() == PlainReads::OneSnapshot {
            self.txn.snapshot_lsn(&self.core().engine.txns.versions);
        }
        Ok(())
    }

    /// Begins a statement: several calls that belong together. At
    /// [`ReadCommitted`](Isolation::ReadCommitted) all plain reads of a statement see one snapshot,
    /// taken at the first of them. [`Transaction::rollback_statement`] undoes the changes since
    /// here. A statement that still runs is ended first.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// use millpond::{Isolation, TxnOptions};
    /// let mut tx = db.begin_with(TxnOptions::new().isolation(Isolation::ReadCommitted))?;
    /// tx.begin_statement()?;
    /// assert_eq!(tx.get(&table, b"key")?, None);
    ///
    /// let mut other = db.begin()?;
    /// other.put(&table, b"key", b"new")?;
    /// other.commit()?;
    /// assert_eq!(tx.get(&table, b"key")?, None); // the same statement
    /// tx.end_statement();
    /// assert!(tx.get(&table, b"key")?.is_some());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Aborted`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin_statement(&mut self) -> Result<()> {
        let inside = self.enter()?;
        let position = self.txn.undo_position();
        drop(inside);
        self.end_statement();
        self.statement = Some(position);
        Ok(())
    }

    /// Ends the statement and keeps what it changed. Without a statement it does nothing.
    pub fn end_statement(&mut self) {
        if self.core().gate.is_in_child() {
            return;
        }
        for hold in std::mem::take(self.counters.get_mut()) {
            self.core().engine.txns.table_locks().unlock_counter(&self.txn, hold);
        }
        let reads = self.options.plain_reads();
        if self.statement.take().is_some() && reads == PlainReads::StatementSnapshot {
            self.txn.snapshot.clear();
        }
    }

    /// Undoes what the statement changed, and ends it. Locks of locking reads stay.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// let mut tx = db.begin()?;
    /// tx.put(&table, b"ada", b"1")?;
    /// tx.begin_statement()?;
    /// tx.put(&table, b"bob", b"2")?;
    /// tx.rollback_statement()?;
    /// assert_eq!(tx.get(&table, b"bob")?, None);
    /// assert!(tx.get(&table, b"ada")?.is_some());
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is no statement; [`Error::Closed`], [`Error::Poisoned`].
    ///
    /// No change of the statement ever stays: if the changes cannot be undone, because the disk is
    /// full or a page cannot be read, the whole transaction has been rolled back, and the error
    /// says why. [`Error::Aborted`] if that had happened before.
    pub fn rollback_statement(&mut self) -> Result<()> {
        self.note_undone();
        let inside = self.enter()?;
        let Some(position) = self.statement else {
            return Err(Error::Misuse("the transaction is in no statement".into()));
        };
        let rules = self.rules();
        // A savepoint of this transaction, set before the statement, may have been rolled back to.
        let txns = &self.core.engine.txns;
        let undone = match self.txn.reaches(position) {
            true => self.roll_back_if_required(txns.rollbacks().rollback_to(&self.txn, position, rules)),
            false => Ok(()),
        };
        drop(inside);
        self.end_statement();
        undone
    }
}
