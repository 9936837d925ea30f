//! The calls that enter a request in a queue, or find that none is needed.

use super::covered::Want;
use super::key::LockKey;
use super::queue::Placed;
use super::queues::Queues;
use super::ticket::{Enqueued, Ticket};
use super::{Denied, KeyState, LockTable, Mode, Owner, RowRequest, Wait, wait_state};
use base::sync::atomic::Ordering;
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
        match self.lock_out_of_ranges(owner, tree, key, Want { mode, state }, wait)? {
            None => {
                owner.set_new_lock(false);
                self.take_pending(owner, tree, key);
                return Ok(Enqueued::Granted);
            }
            Some(waiting @ Enqueued::Waiting(_)) => {
                owner.set_new_lock(false);
                return Ok(waiting);
            }
            Some(Enqueued::Granted) => {}
        }
        let row = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&row);
        if self.is_full() && !queues.get(&row).is_some_and(|queue| queue.holds(owner.txn)) {
            return Err(Denied::Full);
        }
        let placed = self.request_in(&mut queues, owner, row, mode, wait);
        drop(queues);
        if matches!(placed, Ok(Enqueued::Granted)) {
            self.take_pending(owner, tree, key);
        }
        placed
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
        if let waiting @ Enqueued::Waiting(_) = self.out_of_ranges(owner, tree, key, state, wait)? {
            return Ok(waiting);
        }
        let shard = self.shard_of_row(tree, key);
        if shard.occupied.load(Ordering::Acquire) > 0 {
            let row = LockKey::row(tree, key);
            let free = shard.mu.lock().get(&row).is_none_or(|queue| queue.only(owner.txn));
            if !free
                && let waiting @ Enqueued::Waiting(_) = self.request(owner, row, Mode::Exclusive, wait)?
            {
                return Ok(waiting);
            }
        }
        self.take_pending(owner, tree, key);
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
        if contested && !self.is_outside(owner, tree, key, mode) {
            return false;
        }
        let shard = self.shard_of_row(tree, key);
        if shard.occupied.load(Ordering::Acquire) == 0 {
            return true;
        }
        let queues = shard.mu.lock();
        queues.get(&LockKey::row(tree, key)).is_none_or(|queue| match mode {
            Mode::Shared => queue.readable(owner.txn),
            Mode::Exclusive => queue.only(owner.txn),
        })
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
        let RowRequest { tree, key, mode, wait } = request;
        base::check!(waiter.txn != writer, "{writer} waits for itself");
        let Some(holder) = self.owners.get(writer) else { return Ok(Writer::Gone) };
        let key = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&key);
        if !still_active() {
            return Ok(Writer::Gone);
        }
        // A request that does not wait enters nothing: with SKIP LOCKED there may be as many such
        // rows as others have written.
        match wait {
            Wait::Until(_) => {}
            _ if self.stopped() => return Err(Denied::Stopped),
            Wait::NoWait => return Err(Denied::Timeout),
            Wait::Skip => return Err(Denied::Skipped),
        }
        let held = queues.get(&key).is_some_and(|queue| queue.holds(writer));
        if !held && !self.note(&holder, &key) {
            return Ok(Writer::Gone);
        }
        self.queue_of(&mut queues, &key, &holder).materialise(&holder);
        match self.request_in(&mut queues, waiter, key, mode, wait)? {
            Enqueued::Waiting(ticket) => Ok(Writer::Waiting(ticket)),
            // The writer has ended meanwhile, and its lock was removed.
            Enqueued::Granted => Ok(Writer::Gone),
        }
    }

    /// Enters a request in the queue of `key`.
    pub(super) fn request(
        &self,
        owner: &Arc<Owner>,
        key: LockKey,
        mode: Mode,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let mut queues = self.lock_shard(&key);
        self.request_in(&mut queues, owner, key, mode, wait)
    }

    fn request_in(
        &self,
        queues: &mut Queues,
        owner: &Arc<Owner>,
        key: LockKey,
        mode: Mode,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let stopped = self.stopped();
        let limit = if let Wait::Until(limit) = wait { Some(limit) } else { None };
        let queue = self.queue_of(queues, &key, owner);
        if queue.keeps_out(owner.txn, mode) {
            // A holder that is releasing a million locks must not keep others waiting until it
            // comes to this one.
            queue.forget_ended();
        }
        let placed = queue.place(owner, mode, limit.is_some() && !stopped);
        queue.verify();
        match (placed, limit) {
            (Placed::Granted, _) => {
                base::check!(self.note(owner, &key), "{} locks after its end", owner.txn);
                owner.set_new_lock(true);
                Ok(Enqueued::Granted)
            }
            (Placed::Held | Placed::Upgraded, _) => {
                owner.set_new_lock(false);
                Ok(Enqueued::Granted)
            }
            (Placed::Waiting, limit) => {
                owner.set_new_lock(false);
                // Holders are marked before this wait begins. If other requests wait already, they
                // are marked.
                if queue.waiting_count() == 1 {
                    queue
                        .holders()
                        .filter(|holder| holder.txn != owner.txn)
                        .for_each(|holder| holder.mark_blocking_at(&key));
                }
                owner.begin_wait(&key, wait_state::WAITING);
                self.count_wait();
                self.tell(owner, queue.before(owner.txn));
                let limit = limit.expect("only a request with a limit waits");
                Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), key, limit)))
            }
            (Placed::Refused, _) if stopped => Err(Denied::Stopped),
            (Placed::Refused, _) => Err(if wait == Wait::Skip { Denied::Skipped } else { Denied::Timeout }),
        }
    }
}
