//! Locking reads: of one row, or of the rows of a range, for update or for share.

use super::isolation::LockWait;
use super::range::{ReadMode, owned_bound};
use super::{Range, Transaction};
use crate::buffer::FetchHint;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lock::Mode;
use crate::table_handle::Table;
use crate::txn::{Locked, Rules, ScanLocks};
use metrics::M;
use std::ops::RangeBounds;

impl Transaction {
    /// Reads and locks one row. A skipped or missing row is `None`.
    pub(super) fn get_locked(
        &self,
        table: &Table,
        key: &[u8],
        mode: Mode,
        rules: Rules,
    ) -> Result<Option<Vec<u8>>> {
        let (_inside, tree) = self.enter_to_read(table)?;
        self.writable()?;
        let txns = &self.core().engine.txns;
        txns.owner(self.txn()).expect_new_lock();
        let locked =
            self.roll_back_if_required(txns.row_locks().lock_row(self.txn(), tree, key, mode, rules))?;
        match locked {
            Locked::Absent | Locked::Skipped => Ok(None),
            Locked::Present(value) => {
                txns.store.metrics.add(M::RowReads, 1);
                value.load(&txns.store, FetchHint::Normal).map(Some)
            }
        }
    }

    /// Returns the newest committed value of `key` and locks it exclusively: no other transaction
    /// can change or lock the row until this transaction ends. A missing row is locked too: no
    /// other transaction can insert it.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// # let mut tx = db.begin()?;
    /// # tx.put(&table, b"ada", &100u32.to_be_bytes())?;
    /// # tx.commit()?;
    /// // Adds 5, however many threads do so at once.
    /// let mut tx = db.begin()?;
    /// let before = tx.get_for_update(&table, b"ada")?.expect("an account");
    /// let before = u32::from_be_bytes(before.try_into().expect("four bytes"));
    /// tx.put(&table, b"ada", &(before + 5).to_be_bytes())?;
    /// tx.commit()?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`], [`Error::WriteConflict`]; [`Error::Limit`] if
    /// the locks take too much memory; [`Error::Misuse`] in a read-only transaction; and those of
    /// [`Transaction::get`].
    pub fn get_for_update(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_for_update_with(table, key, LockWait::Wait)
    }

    /// Returns the newest committed value of `key` and locks it for sharing: other transactions can
    /// lock it for sharing too, but not change it, until this transaction ends.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// let [customers, orders] = [db.create_table("customers")?, db.create_table("orders")?];
    /// # let mut tx = db.begin()?;
    /// # tx.put(&customers, b"ada", b"")?;
    /// # tx.commit()?;
    /// let mut tx = db.begin()?;
    /// // The customer cannot be deleted before the commit. Others may order meanwhile.
    /// if tx.get_for_share(&customers, b"ada")?.is_some() {
    ///     tx.put(&orders, b"ada/1", b"tea")?;
    /// }
    /// tx.commit()?;
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_share(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_for_share_with(table, key, LockWait::Wait)
    }

    /// [`Transaction::get_for_update`] with a choice of how to wait. With [`LockWait::SkipLocked`],
    /// `None` means that there is no row or that another transaction has locked it.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::{Error, LockWait};
    /// let seats = db.create_table("seats")?;
    /// let mut ada = db.begin()?;
    /// ada.put(&seats, b"12A", b"ada")?;
    ///
    /// let mut bob = db.begin()?;
    /// let busy = bob.get_for_update_with(&seats, b"12A", LockWait::NoWait);
    /// assert!(matches!(busy, Err(Error::LockTimeout))); // at once; the transaction goes on
    /// assert_eq!(bob.get_for_update_with(&seats, b"12A", LockWait::SkipLocked)?, None);
    /// bob.put(&seats, b"12B", b"bob")?;
    /// bob.commit()?;
    /// # drop(ada);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_update_with(
        &mut self,
        table: &Table,
        key: &[u8],
        wait: LockWait,
    ) -> Result<Option<Vec<u8>>> {
        self.get_locked(table, key, Mode::Exclusive, self.rules_with(wait))
    }

    /// [`Transaction::get_for_share`] with a choice of how to wait, see
    /// [`Transaction::get_for_update_with`].
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_share_with(
        &mut self,
        table: &Table,
        key: &[u8],
        wait: LockWait,
    ) -> Result<Option<Vec<u8>>> {
        self.get_locked(table, key, Mode::Shared, self.rules_with(wait))
    }

    /// Returns whether the last locking read of one row, or the last row of a
    /// [`Cursor`](crate::Cursor) that locks, got a lock that the transaction did not have.
    /// [`Transaction::unlock_row`] may release it. False too if the read had to wait for the lock.
    #[must_use]
    pub fn newly_locked(&self) -> bool {
        self.txn.owner().is_some_and(|owner| owner.has_new_lock())
    }

    /// Releases the lock of a row that a locking read has just locked, for a program that then
    /// finds that it does not want the row. Returns false if the lock stays: in a transaction that
    /// locks gaps, and if many rows were locked since, unless a scan of a transaction with
    /// thousands of locks has locked it.
    ///
    /// The lock must be new, see [`Transaction::newly_locked`], and the transaction must not have
    /// changed the row. Otherwise another transaction may change what this one relies on.
    ///
    /// ```
    /// # let db = millpond::Db::open_in_memory()?;
    /// # let table = db.create_table("t")?;
    /// # let mut tx = db.begin()?;
    /// # tx.put(&table, b"a", b"small")?;
    /// # tx.commit()?;
    /// let mut tx = db.begin()?;
    /// let row = tx.get_for_update(&table, b"a")?;
    /// if row.as_deref() != Some(b"large") && tx.newly_locked() {
    ///     tx.unlock_row(&table, b"a")?;
    /// }
    /// let mut other = db.begin()?;
    /// other.put(&table, b"a", b"changed")?; // it does not wait
    /// # Ok::<(), millpond::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a table of another database; [`Error::Aborted`], [`Error::Closed`],
    /// [`Error::Poisoned`].
    pub fn unlock_row(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        let (_inside, tree) = self.enter_table(table)?;
        match self.txn.owner() {
            Some(owner) if !self.options.locks_gaps() => {
                Ok(self.core().engine.txns.locks.release_row(owner, tree.id, key))
            }
            _ => Ok(false),
        }
    }

    /// Returns the newest committed rows whose keys lie in `range`, from both ends. Each row is
    /// locked as by [`Transaction::get_for_update`] when the iterator returns it; rows that are not
    /// asked for stay unlocked. Gaps between rows are locked only in a
    /// [serializable](crate::Isolation::Serializable) transaction and in one with
    /// [`TxnOptions::current_reads`](crate::TxnOptions::current_reads), and not with
    /// [`LockWait::SkipLocked`]. Then a range that has returned 64 rows locks up to 64 more before
    /// they are asked for.
    ///
    /// With [`LockWait::SkipLocked`] a table serves as a queue: many workers take jobs and never
    /// wait for each other.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::LockWait;
    /// let jobs = db.create_table("jobs")?;
    /// let mut tx = db.begin()?;
    /// for job in [b"1", b"2", b"3"] {
    ///     tx.insert(&jobs, job, b"to do")?;
    /// }
    /// tx.commit()?;
    ///
    /// let take = |tx: &mut millpond::Transaction| {
    ///     tx.range_for_update(&jobs, .., LockWait::SkipLocked)?.next().transpose()
    /// };
    /// let (mut one, mut two) = (db.begin()?, db.begin()?);
    /// let (first, _) = take(&mut one)?.expect("a job");
    /// let (second, _) = take(&mut two)?.expect("another job");
    /// assert_eq!((&first[..], &second[..]), (&b"1"[..], &b"2"[..]));
    /// one.delete(&jobs, &first)?; // the work is done
    /// one.commit()?;
    /// two.rollback(); // another worker will do this one
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`]; each item may fail by itself, and the range ends after
    /// an error.
    pub fn range_for_update<'k>(
        &mut self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        wait: LockWait,
    ) -> Result<Range<'_>> {
        self.range_locked(table, range, Mode::Exclusive, wait)
    }

    /// Returns the same rows as [`Transaction::range_for_update`], each locked as by
    /// [`Transaction::get_for_share`].
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`]; each item may fail by itself, and the range ends after
    /// an error.
    pub fn range_for_share<'k>(
        &mut self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        wait: LockWait,
    ) -> Result<Range<'_>> {
        self.range_locked(table, range, Mode::Shared, wait)
    }

    fn range_locked<'k>(
        &mut self,
        table: &Table,
        range: impl RangeBounds<&'k [u8]>,
        mode: Mode,
        wait: LockWait,
    ) -> Result<Range<'_>> {
        self.writable()?;
        let rules = self.rules_with(wait);
        // A read that skips rows claims nothing about the range, so it locks only the rows.
        let range_too = self.options.locks_gaps() && wait != LockWait::SkipLocked;
        let hold = ScanLocks { rows: Some(mode), range: range_too };
        let bounds = (owned_bound(range.start_bound()), owned_bound(range.end_bound()));
        Range::new(self, table, bounds, || ReadMode::Locked(hold, rules))
    }
}
