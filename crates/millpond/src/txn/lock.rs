//! Locking reads of one row, and the check for conflicts: whether another transaction holds a row
//! that a transaction wants to lock or change.

use super::admission::UndoAdmission;
use super::lock_wait::{LockWaits, denied};
use super::read::{Reader, Value};
use super::revert::Reverter;
use super::rules::Rules;
use super::transaction::Txn;
use super::trees::Trees;
use super::versions::Versions;
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::lock::{Denied, Enqueued, KeyState, LockTable, Mode, Owner, RowRequest, Ticket, Writer};
use crate::mvcc::visible::WriterState;
use crate::mvcc::{SeenVersion, TxnState, View};
use crate::page::node::{DELETED, Leaf, Row};
use crate::tree_store::Store;
use crate::undo::HeldPiece;
use base::{Lsn, TxnId};
use std::sync::Arc;

/// The result of locking a row.
#[derive(Debug)]
pub(crate) enum Locked {
    /// No row, or a deleted one. The key is locked all the same.
    Absent,
    /// A row with this value.
    Present(Value),
    /// Another transaction has the row, and the caller skips such rows.
    Skipped,
}

/// Why a row cannot be locked yet, found under its leaf's latch. [`RowLocks::wait_out`] resolves
/// it.
pub(super) enum Conflict<'t> {
    /// Another transaction holds it: wait, then look again.
    Wait(Ticket<'t>),
    /// It has just become free: look again.
    Retry,
    /// Its newest version is aborted: revert it, then look again.
    Revert,
    /// Another transaction holds it, and the caller skips such rows.
    Skip,
    /// It was deleted after the transaction's snapshot, and undo that is not in memory tells
    /// whether the snapshot sees it: find out, then look again.
    Unjudged(Tombstone),
}

/// A delete mark that a snapshot does not see: the writer that left it, and how the row's versions
/// are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone {
    writer: TxnId,
    snapshot: Lsn,
}

/// Returns the conflict of a lock that was asked for, if it was not granted at once.
pub(super) fn conflict_of(outcome: Result<Enqueued<'_>, Denied>) -> Result<Option<Conflict<'_>>> {
    match outcome {
        Ok(Enqueued::Granted) => Ok(None),
        Ok(Enqueued::Waiting(ticket)) => Ok(Some(Conflict::Wait(ticket))),
        Err(Denied::Skipped) => Ok(Some(Conflict::Skip)),
        Err(why) => Err(denied(why)),
    }
}

/// Locks rows, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct RowLocks<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) locks: &'a LockTable,
    pub(super) waits: &'a LockWaits,
    /// To revert rows that have aborted versions.
    pub(super) trees: &'a Trees,
    pub(super) admission: &'a dyn UndoAdmission,
}

impl RowLocks<'_> {
    /// Returns the owner of the transaction's locks; gives the transaction its id.
    #[inline]
    pub(super) fn owner<'t>(&self, txn: &'t Txn) -> &'t Arc<Owner> {
        txn.owner_or_begin(self.versions, self.locks)
    }

    pub(super) fn reverter(&self) -> Reverter<'_> {
        let RowLocks { store, versions, locks, trees, admission, .. } = *self;
        Reverter { store, versions, locks, trees, admission }
    }

    pub(super) fn reader<'v>(&'v self, txn: &'v Txn, view: View<'v>) -> Reader<'v> {
        Reader { store: self.store, versions: self.versions, txn, view }
    }

    /// Checks the newest version of a row that the transaction wants to lock or change. Returns
    /// none if there is no conflict. If the writer is still active, adds its lock to the queue
    /// (*materialises* the implicit lock) and queues behind it. REQUIRES: the row's leaf is
    /// latched.
    pub(super) fn check_conflict(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        newest: TxnId,
        mode: Mode,
        rules: Rules,
    ) -> Result<Option<Conflict<'_>>> {
        if newest == TxnId::NONE && rules.younger {
            return Err(Error::WriteConflict);
        }
        let owner = self.owner(txn);
        let view = self.versions.view(Lsn::MAX, owner.txn());
        match view.writer_state(newest, rules.conflicts_after, rules.sees()) {
            WriterState::Free(commit) => {
                txn.note_seen(commit);
                Ok(None)
            }
            WriterState::Conflict => Err(Error::WriteConflict),
            WriterState::Aborted => Ok(Some(Conflict::Revert)),
            WriterState::Committing => unreachable!("`writer_state` waits for the commit LSN"),
            WriterState::Locked => {
                let active =
                    || matches!(self.versions.status.state(newest), TxnState::Active | TxnState::Prepared);
                let request = RowRequest { tree: tree.id, key, mode, wait: rules.wait };
                match self.locks.wait_for_writer(owner, newest, request, active) {
                    Ok(Writer::Gone) => Ok(Some(Conflict::Retry)),
                    Ok(Writer::Waiting(ticket)) => Ok(Some(Conflict::Wait(ticket))),
                    Err(why) => conflict_of(Err(why)),
                }
            }
        }
    }

    /// As [`RowLocks::check_conflict`], for a transaction that changes nothing if there is no row.
    /// A row that came and went after the snapshot is no conflict: the snapshot sees none, and
    /// there is none. REQUIRES: the row's leaf is latched.
    pub(super) fn check_found(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        row: Row<'_>,
        mode: Mode,
        rules: Rules,
    ) -> Result<Option<Conflict<'_>>> {
        let writer = row.version.txn;
        let checked = self.check_conflict(txn, tree, key, writer, mode, rules);
        let (Some(snapshot), Err(Error::WriteConflict)) = (rules.conflicts_after, &checked) else {
            return checked;
        };
        if row.flags & DELETED == 0 || writer == TxnId::NONE {
            return checked;
        }
        let unseen = || {
            let present = Rules { conflicts_after: None, ..rules };
            self.check_conflict(txn, tree, key, writer, mode, present)
        };
        if txn.unseen.borrow().as_ref().is_some_and(|(t, k, w)| (*t, &k[..], *w) == (tree.id, key, writer)) {
            return unseen();
        }
        let view = self.versions.view(snapshot, self.owner(txn).txn());
        let seen = view.see(row, &mut Vec::new(), HeldPiece::NONE);
        match self
            .versions
            .check_not_expired(snapshot, seen.map_err(|damage| self.versions.damage(tree, damage)))?
        {
            SeenVersion::Deleted(_) | SeenVersion::Absent(_) => unseen(),
            SeenVersion::Newest(_) | SeenVersion::Older { .. } => checked,
            SeenVersion::Away(_) => Ok(Some(Conflict::Unjudged(Tombstone { writer, snapshot }))),
        }
    }

    /// Notes that the transaction's snapshot sees nothing of a row that was deleted after it. Fails
    /// with a write conflict if it sees a row. REQUIRES: no latch held.
    fn judge_tombstone(&self, txn: &Txn, tree: Tree, key: &[u8], mark: Tombstone) -> Result {
        let view = self.versions.view(mark.snapshot, self.owner(txn).txn());
        let seen =
            self.versions.check_not_expired(mark.snapshot, self.reader(txn, view).read_row(tree, key))?;
        if seen.is_some() {
            return Err(Error::WriteConflict);
        }
        *txn.unseen.borrow_mut() = Some((tree.id, key.to_vec(), mark.writer));
        Ok(())
    }

    /// Waits a conflict out; afterwards the caller looks again. `held` is undo that the caller
    /// fetched before. REQUIRES: no latch held; it is not [`Conflict::Skip`].
    pub(super) fn wait_out(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        conflict: Conflict<'_>,
        held: &mut HeldPiece,
    ) -> Result {
        match conflict {
            Conflict::Retry => {
                base::sync::point();
                Ok(())
            }
            Conflict::Wait(ticket) => self.waits.timed(txn, || ticket.wait_unless(txn.cancel_flag())),
            Conflict::Revert => self.reverter().revert_aborted_row(tree.id, key, held),
            Conflict::Unjudged(mark) => self.judge_tombstone(txn, tree, key, mark),
            Conflict::Skip => unreachable!("a row that is skipped is not waited for"),
        }
    }

    /// Locks the row of `key` until the transaction ends, whether or not there is one. Reads its
    /// newest committed version, or the transaction's own. REQUIRES: no latch held.
    pub(crate) fn lock_row(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        mode: Mode,
        rules: Rules,
    ) -> Result<Locked> {
        let (owner, mut held) = (self.owner(txn), HeldPiece::default());
        loop {
            let page = tree.leaf_read_cached(self.store, txn.leaf_cache.get(tree, key), key)?;
            txn.leaf_cache.set(tree, key, page.page_no());
            let leaf = Leaf::new(&page);
            let row = leaf.search(key).ok().map(|slot| leaf.row(slot));
            let mut conflict = match row {
                Some(row) => self.check_found(txn, tree, key, row, mode, rules)?,
                None => None,
            };
            let own = row.is_some_and(|row| row.version.txn == owner.txn());
            if conflict.is_none() && !own {
                let state = KeyState::of(row.is_some_and(|row| row.flags & DELETED == 0));
                conflict = conflict_of(self.locks.enqueue(owner, tree.id, key, state, mode, rules.wait))?;
            }
            match conflict {
                None => {}
                Some(Conflict::Skip) => return Ok(Locked::Skipped),
                Some(conflict) => {
                    drop(page);
                    self.wait_out(txn, tree, key, conflict, &mut held)?;
                    continue;
                }
            }
            let locked = match row {
                Some(row) if row.flags & DELETED == 0 => {
                    Locked::Present(Value::of(self.store, row.flags, row.value)?)
                }
                _ => Locked::Absent,
            };
            return self.versions.check_rules_not_expired(rules, Ok(locked));
        }
    }
}
