//! The requests: each enters a queue, adds to a range, or finds that none is needed.
//!
//! **Tables (Lk4).** Every transaction has a shared lock from its first use of a table to its end.
//! Drop, rename and truncate take the exclusive lock; it waits for all shared locks, and later
//! users wait for it.
//!
//! As long as no transaction wants the exclusive lock, a shared lock is only a count, see
//! [`super::users`]. All other table locks stand in queues of the same kind as row locks, so a
//! deadlock cycle over both is found.
//!
//! **Counters (Lk6).** A transaction that wants consecutive values of a table's counter locks it
//! exclusively for the time of a statement. The counter itself says whether a transaction has or
//! wants the lock, so those that need no lock look at that alone.

use super::covered::Want;
use super::key::LockKey;
use super::queue_table::QueuedForWriter;
use super::ranges::Asked;
use super::shared::Begun;
use super::ticket::{Enqueued, Ticket, WriterWait};
use super::{
    Denied, KeyRange, KeyState, LockTable, Mode, Owner, RangeMode, RangeRow, RowRequest, ScanStart, Wait,
};
use base::{TreeId, TxnId};
use std::sync::Arc;

/// The immediate result of a request to wait for the writer of an uncommitted version.
#[derive(Debug)]
#[must_use]
pub(crate) enum Writer<'t> {
    /// The writer has just ended: read the row again.
    Gone,
    /// The request waits behind the writer. Release every latch, then wait.
    Waiting(Ticket<'t>),
}

/// A lock of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableLock {
    /// The shared lock, until its owner ends. The caller remembers that it has the lock.
    Shared,
    /// The exclusive lock, until its owner ends. REQUIRES: the table's users are closed, and stay
    /// closed until then.
    Exclusive,
    /// The lock on the table's counter, until [`LockTable::release_counter`] or until its owner
    /// ends.
    Counter,
}

impl LockTable {
    /// Requests an explicit lock on a key, which has a row or not. REQUIRES: the leaf that covers
    /// the key is latched.
    pub(crate) fn enqueue(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        state: KeyState,
        mode: Mode,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        match self.ranges.ask_to_lock(&self.shared, owner, tree, key, Want { mode, state }, wait)? {
            Asked::Held => {
                owner.set_new_lock(false);
                self.ranges.take_pending(owner, tree, key);
                return Ok(Enqueued::Granted);
            }
            Asked::Waits(begun) => {
                owner.set_new_lock(false);
                return Ok(self.waiting_at(owner, begun));
            }
            Asked::Free => {}
        }
        let begun = self.queues.request_row(&self.shared, owner, LockKey::row(tree, key), mode, wait)?;
        if begun.is_none() {
            self.ranges.take_pending(owner, tree, key);
        }
        Ok(self.enqueued(owner, begun))
    }

    /// Returns whether `owner` may write the row now. `Granted` records nothing: the version that
    /// the caller writes under the same latch is the lock. REQUIRES: the leaf that covers the key
    /// is latched exclusively, and the row's newest version is not another transaction's
    /// uncommitted one (for that see [`LockTable::wait_for_writer`]).
    #[inline]
    pub(crate) fn claim(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        state: KeyState,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        if let Asked::Waits(begun) = self.ranges.ask_to_change(&self.shared, owner, tree, key, state, wait)? {
            return Ok(self.waiting_at(owner, begun));
        }
        if let Some(row) = self.queues.contended_row(owner, tree, key)
            && let Some(begun) = self.queues.request(&self.shared, owner, row, Mode::Exclusive, wait)?
        {
            return Ok(self.waiting_at(owner, begun));
        }
        self.ranges.take_pending(owner, tree, key);
        Ok(Enqueued::Granted)
    }

    /// Returns whether a scan that is about to lock the row by a range may do so now: no other
    /// transaction has locked it so that this lock had to wait, or waits for such a lock.
    /// `contested` is what [`LockTable::is_contested`] has said of the leaf. REQUIRES: the leaf
    /// that covers the key is latched.
    #[inline]
    pub(crate) fn row_is_free(
        &self,
        owner: &Owner,
        tree: TreeId,
        key: &[u8],
        mode: Mode,
        contested: bool,
    ) -> bool {
        (!contested || self.ranges.is_outside(owner, tree, key, mode))
            && self.queues.row_is_free(owner, tree, key, mode)
    }

    /// Waits behind the transaction `writer`, whose uncommitted version the caller sees. First it
    /// enters the writer's implicit lock, so that the queue is complete. `still_active` is called
    /// with the queue locked and tells whether `writer` still has its state; if not, it may have
    /// released its locks already. REQUIRES: the leaf that covers the key is latched, and a
    /// transaction leaves the active state before it releases its locks.
    pub(crate) fn wait_for_writer(
        &self,
        waiter: &Arc<Owner>,
        writer: TxnId,
        request: RowRequest<'_>,
        still_active: impl FnOnce() -> bool,
    ) -> Result<Writer<'_>, Denied> {
        base::check!(waiter.txn != writer, "{writer} waits for itself");
        let Some(holder) = self.owners.get(writer) else { return Ok(Writer::Gone) };
        let wait = self.queues.wait_for_writer(&self.shared, &holder, waiter, request, still_active)?;
        Ok(match wait {
            QueuedForWriter::Gone => Writer::Gone,
            QueuedForWriter::Waits(begun) => Writer::Waiting(self.ticket(waiter, begun)),
        })
    }

    /// Enters the implicit lock of `owner` in its queue, because its uncommitted version is about
    /// to be undone. REQUIRES: the row's leaf is latched exclusively.
    pub(crate) fn keep_written(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> Result<(), Denied> {
        self.queues.keep_written(&self.shared.memory, owner, &LockKey::row(tree, key))
    }

    /// Locks the keys of `range` as `owner` has read them, until it ends. If a pending request in
    /// the range must pass first, it locks only the part before that key, in the direction of the
    /// scan, and returns the key. On an error nothing is locked. REQUIRES: one leaf encloses the
    /// keys and has been latched since its rows were read, exclusively if rows are to be locked;
    /// each row was [`LockTable::row_is_free`], or `owner` holds its lock, and none was another
    /// transaction's uncommitted version.
    pub(crate) fn cover(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        mode: RangeMode,
        since: ScanStart,
        backward: bool,
    ) -> Result<Option<Vec<u8>>, Denied> {
        self.ranges.cover(&self.shared, owner, range, mode, since, backward)
    }

    /// Locks one row that a scan has found, and not the gaps beside it, as a part of a range.
    /// Returns whether that was done: false if a pending request must pass first. Also notes
    /// whether the lock is new, see [`Owner::has_new_lock`]. REQUIRES: as [`LockTable::cover`].
    pub(crate) fn cover_row(
        &self,
        owner: &Arc<Owner>,
        row: RangeRow<'_>,
        mode: Mode,
        since: ScanStart,
    ) -> Result<bool, Denied> {
        let held = self.queues.holds_row(owner, row.tree, row.key);
        self.ranges.cover_row(&self.shared, owner, row, held, mode, since)
    }

    /// Returns whether another transaction's ranges may lock rows of `range` so that a lock of this
    /// mode has to wait. REQUIRES: a leaf that encloses the range is latched. The answer holds as
    /// long as it is.
    pub(crate) fn is_contested(&self, owner: &Owner, range: KeyRange<'_>, mode: Mode) -> bool {
        self.ranges.is_contested(owner, range, mode)
    }

    /// Returns the wait of a scan that must let writers of `range` pass; none if it may go on.
    /// While it waits the transaction holds what it held before.
    #[inline]
    pub(crate) fn let_writers_pass(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        mode: RangeMode,
        since: &mut ScanStart,
        wait: Wait,
    ) -> Result<Option<WriterWait<'_>>, Denied> {
        let begun = self.ranges.let_writers_pass(&self.shared, owner, range, mode, since, wait)?;
        Ok(begun.map(|begun| WriterWait::new(self.ticket(owner, begun))))
    }

    /// Takes a lock of a table. REQUIRES: no latch is held.
    pub(crate) fn lock_table(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        lock: TableLock,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let (key, mode) = match lock {
            TableLock::Shared => (LockKey::table(tree), Mode::Shared),
            TableLock::Exclusive => (LockKey::table(tree), Mode::Exclusive),
            TableLock::Counter => (LockKey::counter(tree), Mode::Exclusive),
        };
        let begun = self.queues.request(&self.shared, owner, key, mode, wait)?;
        Ok(self.enqueued(owner, begun))
    }

    fn enqueued(&self, owner: &Arc<Owner>, begun: Option<Begun>) -> Enqueued<'_> {
        begun.map_or(Enqueued::Granted, |begun| self.waiting_at(owner, begun))
    }

    fn waiting_at(&self, owner: &Arc<Owner>, begun: Begun) -> Enqueued<'_> {
        Enqueued::Waiting(self.ticket(owner, begun))
    }

    fn ticket(&self, owner: &Arc<Owner>, begun: Begun) -> Ticket<'_> {
        Ticket::new(self, Arc::clone(owner), begun.key, begun.limit)
    }
}
