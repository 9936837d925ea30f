//! [`QueueTable`]: the queues of all rows and tables, in shards, and how locks and requests enter
//! and leave them.

use super::key::{LockKey, hash_row};
use super::owner::WakeList;
use super::queue::{Blockers, Queue, Requested};
use super::queues::{By, Queues, shard_bits};
use super::shared::{Begun, LockMemory, Shared};
use super::{Denied, Mode, Owner, RowRequest, Wait, wait_state};
use base::sharded::shards;
use base::sync::atomic::{AtomicU32, Ordering};
use base::sync::{Mutex, MutexGuard};
use base::{Sharded, Spread, TreeId};
use std::sync::Arc;

#[derive(Debug)]
struct Shard {
    /// Number of queues in `mu`. Changed under `mu`; read without it under the latch that covers
    /// the key in question.
    occupied: AtomicU32,
    mu: Mutex<Queues>,
}

impl Shard {
    fn new(seed: Spread) -> Shard {
        Shard { occupied: AtomicU32::new(0), mu: Mutex::new(Queues::new(seed)) }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.occupied.load(Ordering::Acquire) == 0
    }
}

/// All queues.
#[derive(Debug)]
pub(super) struct QueueTable {
    /// Drawn at opening, so that no user can choose keys that all fall into one shard, or into one
    /// place of a map.
    seed: Spread,
    /// Shards for rows and for tables (with their counters) are separate, so that the table locks,
    /// which always exist, do not spoil the fast path of the rows.
    rows: Sharded<Shard, { shards(64) }>,
    tables: Sharded<Shard, { shards(16) }>,
}

/// The result of a request to wait for a writer.
pub(super) enum QueuedForWriter {
    /// The writer has just ended.
    Gone,
    Waits(Begun),
}

impl QueueTable {
    /// No queue.
    pub(super) fn new(seed: Spread) -> QueueTable {
        QueueTable {
            seed,
            rows: Sharded::new(|| Shard::new(seed)),
            tables: Sharded::new(|| Shard::new(seed)),
        }
    }

    /// Returns whether `owner` has a lock in the row's queue.
    pub(super) fn holds_row(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let shard = self.shard_of_row(tree, key);
        !shard.is_empty() && shard.mu.lock().holds(&LockKey::row(tree, key), owner.txn)
    }

    /// Returns the key of the row if another transaction has a lock in its queue, or waits there.
    #[inline]
    pub(super) fn contended_row(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> Option<LockKey> {
        let shard = self.shard_of_row(tree, key);
        if shard.is_empty() {
            return None;
        }
        let row = LockKey::row(tree, key);
        let free = shard.mu.lock().get(&row).is_none_or(|queue| queue.only(owner.txn));
        (!free).then_some(row)
    }

    /// Returns whether no other transaction has locked the row so that a lock of this mode had to
    /// wait, or waits for such a lock.
    #[inline]
    pub(super) fn row_is_free(&self, owner: &Owner, tree: TreeId, key: &[u8], mode: Mode) -> bool {
        let shard = self.shard_of_row(tree, key);
        if shard.is_empty() {
            return true;
        }
        let queues = shard.mu.lock();
        queues.get(&LockKey::row(tree, key)).is_none_or(|queue| match mode {
            Mode::Shared => queue.readable(owner.txn),
            Mode::Exclusive => queue.only(owner.txn),
        })
    }

    /// Enters a request in the queue of `key`. Returns its wait; none if the lock is granted.
    pub(super) fn request(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        key: LockKey,
        mode: Mode,
        wait: Wait,
    ) -> Result<Option<Begun>, Denied> {
        let mut queues = self.lock_shard(&key);
        self.request_in(shared, &mut queues, owner, key, mode, wait)
    }

    /// As [`QueueTable::request`], for a row: refused if locks take all the memory that they may.
    pub(super) fn request_row(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        row: LockKey,
        mode: Mode,
        wait: Wait,
    ) -> Result<Option<Begun>, Denied> {
        let mut queues = self.lock_shard(&row);
        if shared.memory.is_full() && !queues.holds(&row, owner.txn) {
            return Err(Denied::Full);
        }
        self.request_in(shared, &mut queues, owner, row, mode, wait)
    }

    fn request_in(
        &self,
        shared: &Shared,
        queues: &mut Queues,
        owner: &Arc<Owner>,
        key: LockKey,
        mode: Mode,
        wait: Wait,
    ) -> Result<Option<Begun>, Denied> {
        let stopped = shared.waits.stopped();
        let limit = if let Wait::Until(limit) = wait { Some(limit) } else { None };
        let queue = self.queue_of(&shared.memory, queues, &key, owner);
        if queue.keeps_out(owner.txn, mode) {
            // A holder that is releasing a million locks must not keep others waiting until it
            // comes to this one.
            queue.forget_ended();
        }
        let requested = queue.request(owner, mode, limit.is_some() && !stopped);
        queue.verify();
        match (requested, limit) {
            (Requested::Granted, _) => {
                base::check!(shared.memory.note(owner, &key), "{} locks after its end", owner.txn);
                owner.set_new_lock(true);
                Ok(None)
            }
            (Requested::Held | Requested::Upgraded, _) => {
                owner.set_new_lock(false);
                Ok(None)
            }
            (Requested::Waiting, limit) => {
                owner.set_new_lock(false);
                // Holders are marked before this wait begins. If other requests wait already, they
                // are marked.
                if queue.waiting_count() == 1 {
                    queue
                        .holders()
                        .filter(|holder| holder.txn != owner.txn)
                        .for_each(|holder| holder.mark_blocking_at(&key));
                }
                shared.waits.begin(owner, &key);
                shared.waits.tell(owner, queue.before(owner.txn));
                let limit = limit.expect("only a request with a limit waits");
                Ok(Some(Begun { key, limit }))
            }
            (Requested::Refused, _) if stopped => Err(Denied::Stopped),
            (Requested::Refused, _) => {
                Err(if wait == Wait::Skip { Denied::Skipped } else { Denied::Timeout })
            }
        }
    }

    /// Enters the implicit lock of `holder` in the row's queue, and a request of `waiter` behind
    /// it. `still_active` is called with the queue locked and tells whether `holder` still has its
    /// state.
    pub(super) fn wait_for_writer(
        &self,
        shared: &Shared,
        holder: &Arc<Owner>,
        waiter: &Arc<Owner>,
        request: RowRequest<'_>,
        still_active: impl FnOnce() -> bool,
    ) -> Result<QueuedForWriter, Denied> {
        let RowRequest { tree, key, mode, wait } = request;
        let key = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&key);
        if !still_active() {
            return Ok(QueuedForWriter::Gone);
        }
        // A request that does not wait enters nothing: with SKIP LOCKED there may be as many such
        // rows as others have written.
        match wait {
            Wait::Until(_) => {}
            _ if shared.waits.stopped() => return Err(Denied::Stopped),
            Wait::NoWait => return Err(Denied::Timeout),
            Wait::Skip => return Err(Denied::Skipped),
        }
        let held = queues.holds(&key, holder.txn);
        if !held && !shared.memory.note(holder, &key) {
            return Ok(QueuedForWriter::Gone);
        }
        self.queue_of(&shared.memory, &mut queues, &key, holder).materialise(holder);
        let begun = self.request_in(shared, &mut queues, waiter, key, mode, wait)?;
        // Without a wait the writer has ended meanwhile, and its lock was removed.
        Ok(begun.map_or(QueuedForWriter::Gone, QueuedForWriter::Waits))
    }

    /// Enters the implicit lock of `owner` in its queue, because its uncommitted version is about
    /// to be undone.
    pub(super) fn keep_written(
        &self,
        memory: &LockMemory,
        owner: &Arc<Owner>,
        key: &LockKey,
    ) -> Result<(), Denied> {
        let mut queues = self.lock_shard(key);
        let held = queues.holds(key, owner.txn);
        if !held && memory.is_full() {
            return Err(Denied::Full);
        }
        base::check!(held || memory.note(owner, key), "{} undoes changes after its end", owner.txn);
        let queue = self.queue_of(memory, &mut queues, key, owner);
        queue.materialise(owner);
        queue.verify();
        Ok(())
    }

    /// Releases the lock of a row, and forgets it, unless another transaction waits in the queue or
    /// it is not one of the last that `owner` has got.
    pub(super) fn release_unless_awaited(&self, memory: &LockMemory, owner: &Owner, row: &LockKey) {
        let mut woken = WakeList::default();
        let mut queues = self.lock_shard(row);
        let Some(queue) = queues.get_mut(row).filter(|queue| !queue.has_waiters()) else { return };
        if !memory.forget(owner, row) {
            return;
        }
        queue.release(owner.txn);
        self.settle(memory, &mut queues, row, &mut woken);
    }

    /// Releases one lock. It may be gone already.
    pub(super) fn release(&self, memory: &LockMemory, owner: &Owner, key: &LockKey) {
        let mut woken = WakeList::default();
        let mut queues = self.lock_shard(key);
        if let Some(queue) = queues.get_mut(key) {
            queue.release(owner.txn);
            self.settle(memory, &mut queues, key, &mut woken);
        }
        // The mutex is released before the wake-ups.
        drop(queues);
    }

    /// Ends the wait of a request with the reason `why`. Returns false if it does not wait.
    pub(super) fn withdraw(&self, memory: &LockMemory, owner: &Arc<Owner>, key: &LockKey, why: u32) -> bool {
        let mut woken = WakeList::default();
        let mut queues = self.lock_shard(key);
        self.withdraw_in(memory, &mut queues, owner, key, why, &mut woken)
    }

    fn withdraw_in(
        &self,
        memory: &LockMemory,
        queues: &mut Queues,
        owner: &Arc<Owner>,
        key: &LockKey,
        why: u32,
        woken: &mut WakeList,
    ) -> bool {
        let found = queues.get_mut(key).is_some_and(|queue| queue.withdraw(owner.txn));
        if found {
            woken.end_wait(owner, why);
            self.settle(memory, queues, key, woken);
        }
        found
    }

    /// Ends every wait. REQUIRES: no new one begins.
    pub(super) fn stop(&self, memory: &LockMemory) {
        for shard in self.all_shards() {
            let mut woken = WakeList::default();
            let mut queues = shard.mu.lock();
            for key in queues.keys() {
                let waiting = queues.get(&key).map_or_else(Vec::new, Queue::waiting);
                for owner in waiting {
                    self.withdraw_in(memory, &mut queues, &owner, &key, wait_state::STOPPED, &mut woken);
                }
            }
        }
    }

    /// Returns the transactions for which `owner` waits at `key`, in the wait with this number.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey, wait: u64) -> Blockers {
        let queues = self.lock_shard(key);
        // Otherwise it waits no longer, or for another lock.
        let waits = owner.wait_number() == wait;
        queues.get(key).filter(|_| waits).map_or_else(Blockers::default, |queue| queue.blockers(owner.txn))
    }

    /// Returns what `look` says of a queue; none if there is none.
    pub(super) fn with_queue<R>(&self, key: &LockKey, look: impl FnOnce(&Queue) -> R) -> Option<R> {
        self.lock_shard(key).get(key).map(look)
    }

    /// Capacity of the maps of transactions with few locks, bytes.
    #[cfg(test)]
    pub(super) fn bytes_of_few(&self) -> usize {
        self.all_shards().map(|shard| shard.mu.lock().bytes_of_few()).sum()
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        let bits = shard_bits(key.hash_from(self.seed));
        if key.is_row() { self.rows.of(bits) } else { self.tables.of(bits) }
    }

    #[inline]
    fn shard_of_row(&self, tree: TreeId, key: &[u8]) -> &Shard {
        self.rows.of(shard_bits(hash_row(self.seed, tree, key)))
    }

    fn all_shards(&self) -> impl Iterator<Item = &Shard> {
        self.rows.iter().chain(self.tables.iter())
    }

    fn lock_shard(&self, key: &LockKey) -> MutexGuard<'_, Queues> {
        self.shard(key).mu.lock()
    }

    /// Returns the queue of `key`; creates it for `owner` if there is none.
    fn queue_of<'q>(
        &self,
        memory: &LockMemory,
        queues: &'q mut Queues,
        key: &LockKey,
        owner: &Owner,
    ) -> &'q mut Queue {
        if queues.get(key).is_none() {
            self.shard(key).occupied.fetch_add(1, Ordering::Release);
            memory.take(queues.insert(key, if owner.has_many() { By::Many } else { By::Few }));
        }
        queues.get_mut(key).expect("just made")
    }

    /// After a lock or request has left a queue: grants what became free, and removes an empty
    /// queue.
    fn settle(&self, memory: &LockMemory, queues: &mut Queues, key: &LockKey, woken: &mut WakeList) {
        let queue = queues.get_mut(key).expect("the caller found it");
        let mut granted = false;
        queue.grant(|owner, upgraded| {
            base::check!(upgraded || memory.note(owner, key), "{} waited after its end", owner.txn);
            woken.end_wait(owner, wait_state::GRANTED);
            granted = true;
        });
        if granted && queue.has_waiters() {
            queue.holders().for_each(|holder| holder.mark_blocking_at(key));
        }
        queue.verify();
        if queue.is_empty() {
            memory.give(queues.remove(key));
            self.shard(key).occupied.fetch_sub(1, Ordering::Release);
        }
    }
}
