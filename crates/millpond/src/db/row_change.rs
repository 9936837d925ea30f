//! [`Transaction::change_row`]: changes several entries, of one row and its index entries, as one.

use super::Transaction;
use super::isolation::RowLock;
use crate::btree::Tree;
use crate::buffer::FetchHint;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::table_handle::Table;
use crate::txn::{Locked, New, Wrote};
use metrics::M;
use smallvec::SmallVec;

/// What an [`EntryChange`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOp<'a> {
    /// Inserts an entry with this value; there must be none with this key.
    Insert(&'a [u8]),
    /// Inserts an entry with this value, or replaces its value.
    Put(&'a [u8]),
    /// Replaces the value of an entry. Does nothing if there is none.
    Update(&'a [u8]),
    /// Deletes an entry. Does nothing if there is none.
    Delete,
}

/// The change of one entry of one table, see [`Transaction::change_row`].
#[derive(Clone, Copy, Debug)]
pub struct EntryChange<'a> {
    /// The table.
    pub table: &'a Table,
    /// The key of the entry.
    pub key: &'a [u8],
    /// What is done with it.
    pub op: EntryOp<'a>,
}

/// The result of [`Transaction::change_row`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// All changes were made.
    Changed,
    /// An insert found an entry with its key. Nothing was changed.
    Exists {
        /// The place of the insert in the list of changes.
        index: usize,
        /// The value of the entry that it found, if the call was to lock it.
        value: Option<Vec<u8>>,
    },
}

impl<'a> EntryOp<'a> {
    fn to_new(self) -> New<'a> {
        match self {
            EntryOp::Insert(value) => New::Insert(value),
            EntryOp::Put(value) => New::Put(value),
            EntryOp::Update(value) => New::Update(value),
            EntryOp::Delete => New::Delete,
        }
    }

    fn value_len(self) -> usize {
        match self {
            EntryOp::Insert(value) | EntryOp::Put(value) | EntryOp::Update(value) => value.len(),
            EntryOp::Delete => 0,
        }
    }

    /// Returns the metric of a change that was made.
    fn metric(self, replaced: bool) -> M {
        match self {
            EntryOp::Delete => M::RowDeletes,
            _ if replaced => M::RowUpdates,
            _ => M::RowInserts,
        }
    }
}

/// How far the changes of a row came.
enum Progress {
    All,
    /// The insert at this place found an entry.
    Found(usize),
}

impl Transaction {
    /// Changes entries of several tables as one: all of them or none. For a program whose rows have
    /// index entries in other tables. It is one admission and one check of the database's state,
    /// and a conflict undoes this row only.
    ///
    /// If an insert finds an entry with its key, nothing was changed, and the result says which
    /// insert it was. With `lock_existing` the entry that it found is locked so and its value is
    /// returned, so that the program can replace or update it.
    ///
    /// ```
    /// # fn main() -> millpond::Result<()> {
    /// # let db = millpond::Db::open_in_memory()?;
    /// use millpond::{EntryChange, EntryOp, RowLock, RowOutcome};
    /// let (users, by_mail) = (db.create_table("users")?, db.create_table("users by mail")?);
    ///
    /// let mut tx = db.begin()?;
    /// let mut add = |id: &[u8], mail: &[u8]| {
    ///     let row = [
    ///         EntryChange { table: &users, key: id, op: EntryOp::Insert(mail) },
    ///         EntryChange { table: &by_mail, key: mail, op: EntryOp::Insert(id) },
    ///     ];
    ///     tx.change_row(&row, Some(RowLock::Shared))
    /// };
    /// assert_eq!(add(b"1", b"ada@example.com")?, RowOutcome::Changed);
    /// let again = add(b"2", b"ada@example.com")?;
    /// assert_eq!(again, RowOutcome::Exists { index: 1, value: Some(b"1".to_vec()) });
    /// assert_eq!(tx.get(&users, b"2")?, None); // the first entry was undone
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`], without `KeyExists`. Nothing of this row was changed then; after
    /// the errors that roll the transaction back, nothing at all.
    pub fn change_row(
        &mut self,
        changes: &[EntryChange<'_>],
        lock_existing: Option<RowLock>,
    ) -> Result<RowOutcome> {
        let inside = self.enter()?;
        self.check_cancelled()?;
        self.writable()?;
        let trees = changes.iter().map(|change| self.tree(change.table));
        let trees = trees.collect::<Result<SmallVec<[Tree; 8]>>>()?;
        let mut admission_us = 0;
        let outcome = loop {
            let made = self.change_entries(changes, &trees, &mut admission_us);
            let index = match self.roll_back_if_required(made) {
                Ok(Progress::All) => break Ok(RowOutcome::Changed),
                Ok(Progress::Found(index)) => index,
                Err(error) => break Err(error),
            };
            let Some(lock) = lock_existing else { break Ok(RowOutcome::Exists { index, value: None }) };
            let (key, tree, rules) = (changes[index].key, trees[index], self.rules());
            let txns = &self.core.engine.txns;
            let locked = txns.row_locks().lock_row(&self.txn, tree, key, lock.mode(), rules);
            match self.roll_back_if_required(locked) {
                Ok(Locked::Present(value)) => {
                    let value = value.load(&txns.store, FetchHint::Normal).map(Some);
                    break value.map(|value| RowOutcome::Exists { index, value });
                }
                // The entry has gone before it could be locked: now there is none in the way.
                Ok(Locked::Absent | Locked::Skipped) => {}
                Err(error) => break Err(error),
            }
        };
        drop(inside);
        self.admission_us += admission_us;
        self.note_writes(trees.iter().map(|tree| tree.id));
        outcome
    }

    /// Makes the changes one after the other. If one cannot be made, undoes those before it.
    fn change_entries(
        &self,
        changes: &[EntryChange<'_>],
        trees: &[Tree],
        admission_us: &mut u64,
    ) -> Result<Progress> {
        let engine = &self.core.engine;
        let (txns, rules) = (&engine.txns, self.rules_of_change());
        let page_bytes = engine.store.pool.page_bytes();
        let redo_of =
            |change: &EntryChange<'_>| change.key.len() + change.op.value_len().min(page_bytes) + 128;
        let redo: usize = changes.iter().map(redo_of).sum();
        let before = self.txn.undo_position();
        let mut admitted = engine.admission().admit(redo as u64)?;
        let mut result = Ok(Progress::All);
        for (index, (change, tree)) in changes.iter().zip(trees).enumerate() {
            match txns.writer().write_row(
                &self.txn,
                *tree,
                change.key,
                change.op.to_new(),
                rules,
                &mut admitted,
            ) {
                Ok(Wrote::Done { replaced }) => self.count(change.op.metric(replaced)),
                Ok(Wrote::Nothing) if matches!(change.op, EntryOp::Insert(_)) => {
                    result = Ok(Progress::Found(index));
                    break;
                }
                Ok(Wrote::Nothing) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        *admission_us += admitted.held_us;
        drop(admitted);
        let undo = match &result {
            Ok(Progress::All) => false,
            Ok(Progress::Found(_)) => true,
            // The whole transaction is rolled back.
            Err(crate::Error::Deadlock | crate::Error::WriteConflict) => false,
            Err(_) => !self.txn.is_doomed(),
        };
        if undo && self.txn.undo_position() != before {
            txns.rollbacks().rollback_to(&self.txn, before, rules)?;
        }
        result
    }
}
