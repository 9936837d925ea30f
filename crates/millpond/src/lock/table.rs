//! [`LockTable`]: the sharded lock queues of a database, and how locks and requests leave them.

use super::key::{LockKey, hash_row};
use super::owner::{WakeList, bytes_of};
use super::queue::{Blockers, Queue};
use super::queues::{By, Queues, shard_bits};
use super::range_table::Ranges;
use super::searches::Searches;
use super::seen::Reports;
use super::{CancelFlag, Denied, Owner, WaitObserver, wait_state};
use base::sharded::shards;
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use base::{ByTxn, Sharded, Spread, TreeId, TxnId};
use std::sync::{Arc, OnceLock};
use vfs::Clock;

#[derive(Debug)]
pub(super) struct Shard {
    /// Number of queues in `mu`. Changed under `mu`; read without it under the latch that covers
    /// the key in question.
    pub(super) occupied: AtomicU32,
    pub(super) mu: Mutex<Queues>,
}

impl Shard {
    fn new(seed: Spread) -> Shard {
        Shard { occupied: AtomicU32::new(0), mu: Mutex::new(Queues::new(seed)) }
    }
}

/// All locks of a database.
#[derive(Debug)]
pub(crate) struct LockTable {
    /// Drawn at opening, so that no user can choose keys that all fall into one shard, or into one
    /// place of a map.
    seed: Spread,
    /// Shards for rows and for tables (with their counters) are separate, so that the table locks,
    /// which always exist, do not spoil the fast path of the rows.
    rows: Sharded<Shard, { shards(64) }>,
    tables: Sharded<Shard, { shards(16) }>,
    pub(super) owners: ByTxn<Arc<Owner>>,
    /// One thread at a time chooses victims; see `deadlock.rs`.
    pub(super) breaking: Mutex<()>,
    pub(super) searches: Searches,
    pub(super) reports: Reports,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ranges: Ranges,
    /// Is told of waits.
    observer: OnceLock<Arc<dyn WaitObserver>>,
    stopped: AtomicBool,
    pub(super) bytes: AtomicU64,
    /// Locks take at most this many bytes; further requests are refused.
    bytes_most: AtomicU64,
    /// Granted row locks in queues.
    pub(super) held: AtomicU64,
    waits: AtomicU64,
    pub(super) deadlocks: AtomicU64,
}

impl LockTable {
    /// An empty table. Its locks may take about `bytes_most` bytes of memory.
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_most: u64) -> LockTable {
        let seed = Spread::from(clock.random_u64());
        LockTable {
            seed,
            rows: Sharded::new(|| Shard::new(seed)),
            tables: Sharded::new(|| Shard::new(seed)),
            owners: ByTxn::default(),
            breaking: Mutex::new(()),
            searches: Searches::default(),
            reports: Reports::default(),
            clock,
            ranges: Ranges::default(),
            observer: OnceLock::new(),
            stopped: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            bytes_most: AtomicU64::new(bytes_most),
            held: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
        }
    }

    /// Registers a transaction. REQUIRES: called before its first lock and its first uncommitted
    /// version, also for a transaction that recovery found prepared.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Owner> {
        self.begin_as(txn, 0)
    }

    /// As [`LockTable::begin`], for a transaction that the observer of waits knows by `name`.
    pub(crate) fn begin_as(&self, txn: TxnId, name: u64) -> Arc<Owner> {
        let owner = Arc::new(Owner::new(txn, name));
        let before = self.owners.insert(txn, Arc::clone(&owner));
        base::check!(before.is_none(), "{txn} begins twice");
        owner
    }

    /// Returns whether `owner` has a lock in the row's queue.
    pub(super) fn holds_row(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let shard = self.shard_of_row(tree, key);
        shard.occupied.load(Ordering::Acquire) > 0
            && shard.mu.lock().get(&LockKey::row(tree, key)).is_some_and(|queue| queue.holds(owner.txn))
    }

    /// Enters the implicit lock of `owner` in its queue, because its uncommitted version is about
    /// to be undone. REQUIRES: the row's leaf is latched exclusively.
    pub(crate) fn keep_written(&self, owner: &Arc<Owner>, tree: TreeId, key: &[u8]) -> Result<(), Denied> {
        let key = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&key);
        let held = queues.get(&key).is_some_and(|queue| queue.holds(owner.txn));
        if !held && self.is_full() {
            return Err(Denied::Full);
        }
        base::check!(held || self.note(owner, &key), "{} undoes changes after its end", owner.txn);
        let queue = self.queue_of(&mut queues, &key, owner);
        queue.materialise(owner);
        queue.verify();
        Ok(())
    }

    /// Releases all locks of a transaction that ends, and grants them to waiting requests.
    /// REQUIRES: its state is final, so that a transaction that reads it now finds it ended.
    pub(crate) fn release_all(&self, owner: &Owner) {
        let (urgent, chunks) = owner.close();
        self.owners.remove(owner.txn);
        urgent.iter().for_each(|key| self.release(owner, key));
        self.release_chunks(owner, chunks);
    }

    /// Releases a row lock whose work the row's version does from now on, unless another
    /// transaction waits in its queue: that one would get the lock, and the version would exclude
    /// it all the same. REQUIRES: as [`LockTable::release_row`].
    pub(crate) fn release_row_for_version(&self, owner: &Owner, tree: TreeId, key: &[u8]) {
        let key = LockKey::row(tree, key);
        let mut woken = WakeList::default();
        let mut queues = self.lock_shard(&key);
        let Some(queue) = queues.get_mut(&key).filter(|queue| !queue.has_waiters()) else { return };
        let Some(bytes) = owner.forget(&key) else { return };
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        queue.release(owner.txn);
        self.settle(&mut queues, &key, &mut woken);
    }

    pub(super) fn release_chunks(&self, owner: &Owner, chunks: Vec<Vec<LockKey>>) {
        for chunk in chunks {
            let rows = chunk.iter().filter(|key| key.is_row()).count();
            self.held.fetch_sub(rows as u64, Ordering::Relaxed);
            chunk.iter().for_each(|key| self.release(owner, key));
            self.bytes.fetch_sub(bytes_of(&chunk) as u64, Ordering::Relaxed);
        }
    }

    /// Releases one lock, under its shard's mutex alone. The lock may be gone already.
    pub(super) fn release(&self, owner: &Owner, key: &LockKey) {
        let mut woken = WakeList::default();
        if !key.in_queue() {
            let freed = self.ranges.release(owner, key, &mut woken);
            self.bytes.fetch_sub(freed as u64, Ordering::Relaxed);
            return;
        }
        let mut queues = self.lock_shard(key);
        if let Some(queue) = queues.get_mut(key) {
            queue.release(owner.txn);
            self.settle(&mut queues, key, &mut woken);
        }
        // The mutex is released before the wake-ups.
        drop(queues);
    }

    /// Makes every wait fail, now and later: the database closes or is poisoned.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ranges.stop();
        for shard in self.all_shards() {
            let mut woken = WakeList::default();
            let mut queues = shard.mu.lock();
            for key in queues.keys() {
                let waiting = queues.get(&key).map_or_else(Vec::new, Queue::waiting);
                for owner in waiting {
                    self.withdraw_in(&mut queues, &owner, &key, wait_state::STOPPED, &mut woken);
                }
            }
        }
    }

    /// Returns whether every wait fails.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Adds a lock to the list of `owner`. Returns false once `owner` has begun to release.
    pub(super) fn note(&self, owner: &Owner, key: &LockKey) -> bool {
        let Some(bytes) = owner.note(key) else { return false };
        if bytes > 0 {
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        if key.is_row() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Returns whether locks take all the memory that they may.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_most()
    }

    /// Memory that locks may take, in bytes.
    pub(crate) fn bytes_most(&self) -> u64 {
        self.bytes_most.load(Ordering::Relaxed)
    }

    /// Sets how much memory locks may take. Locks that are held stay.
    pub(crate) fn set_bytes_most(&self, bytes: u64) {
        self.bytes_most.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Memory that locks take, in bytes: queues with the capacity of their maps, ranges, and the
    /// lists of transactions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Capacity of the maps of transactions with few locks, bytes.
    #[cfg(test)]
    pub(super) fn bytes_of_few(&self) -> usize {
        self.all_shards().map(|shard| shard.mu.lock().bytes_of_few()).sum()
    }

    /// Explicit row locks that are held.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Ranges held.
    pub(crate) fn ranges_held(&self) -> u64 {
        self.ranges.count()
    }

    /// Requests that had to wait, since the start.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Deadlocks broken, since the start.
    pub(crate) fn deadlocks(&self) -> u64 {
        self.deadlocks.load(Ordering::Relaxed)
    }

    /// Time spent in deadlock searches, and the longest time from the wait that closed a cycle
    /// until the cycle was broken, microseconds.
    pub(crate) fn searched_us(&self) -> (u64, u64) {
        self.searches.took_us()
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        let bits = shard_bits(key.hash_from(self.seed));
        if key.is_row() { self.rows.of(bits) } else { self.tables.of(bits) }
    }

    #[inline]
    pub(super) fn shard_of_row(&self, tree: TreeId, key: &[u8]) -> &Shard {
        self.rows.of(shard_bits(hash_row(self.seed, tree, key)))
    }

    fn all_shards(&self) -> impl Iterator<Item = &Shard> {
        self.rows.iter().chain(self.tables.iter())
    }

    pub(super) fn lock_shard(&self, key: &LockKey) -> MutexGuard<'_, Queues> {
        self.shard(key).mu.lock()
    }

    /// Returns the queue of `key`; creates it for `owner` if there is none.
    pub(super) fn queue_of<'q>(&self, queues: &'q mut Queues, key: &LockKey, owner: &Owner) -> &'q mut Queue {
        if queues.get(key).is_none() {
            self.shard(key).occupied.fetch_add(1, Ordering::Release);
            let more = queues.insert(key, if owner.has_many() { By::Many } else { By::Few });
            self.bytes.fetch_add(more as u64, Ordering::Relaxed);
        }
        queues.get_mut(key).expect("just made")
    }

    /// Sets who is told of waits, once. Returns false if somebody is.
    pub(crate) fn observe(&self, observer: Arc<dyn WaitObserver>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Tells the observer that `waiter` waits for each of `blockers`. REQUIRES: the shard of the
    /// awaited lock is locked, so that the wait does not end meanwhile.
    pub(super) fn tell<'o>(&self, waiter: &Owner, blockers: impl Iterator<Item = &'o Arc<Owner>>) {
        let Some(name) = waiter.observed_as() else { return };
        let Some(observer) = self.observer.get() else { return };
        for blocker in blockers.filter(|blocker| blocker.observed_as().is_some()) {
            blocker.while_observed(|other| observer.waits(name, other));
        }
    }

    /// Returns the transactions for which `owner` waits, in the wait with this number.
    pub(super) fn blockers(&self, owner: &Owner, wait: u64) -> Blockers {
        let Some(key) = owner.waits_for() else { return Blockers::default() };
        if !key.in_queue() {
            return Blockers { holders: self.ranges.blockers(owner, &key), between: None };
        }
        let queues = self.lock_shard(&key);
        // Otherwise it waits no longer, or for another lock.
        let waits = owner.wait_number() == wait;
        queues.get(&key).filter(|_| waits).map_or_else(Blockers::default, |queue| queue.blockers(owner.txn))
    }

    /// Sets the flag, and ends the wait of the transaction that it can reach.
    pub(crate) fn cancel(&self, flag: &CancelFlag) {
        // If this wait has ended meanwhile, the key is of an old wait, and nothing happens.
        if let Some(owner) = flag.set()
            && let Some(key) = owner.waits_for()
        {
            self.withdraw(&owner, &key, wait_state::CANCELLED);
        }
    }

    /// Ends the wait of a request with the reason `why`. Returns false if it does not wait.
    pub(super) fn withdraw(&self, owner: &Arc<Owner>, key: &LockKey, why: u32) -> bool {
        let mut woken = WakeList::default();
        if !key.in_queue() {
            let freed = self.ranges.withdraw(owner, key, why, &mut woken);
            self.bytes.fetch_sub(freed.unwrap_or(0) as u64, Ordering::Relaxed);
            return freed.is_some();
        }
        let mut queues = self.lock_shard(key);
        self.withdraw_in(&mut queues, owner, key, why, &mut woken)
    }

    fn withdraw_in(
        &self,
        queues: &mut Queues,
        owner: &Arc<Owner>,
        key: &LockKey,
        why: u32,
        woken: &mut WakeList,
    ) -> bool {
        let found = queues.get_mut(key).is_some_and(|queue| queue.withdraw(owner.txn));
        if found {
            woken.end_wait(owner, why);
            self.settle(queues, key, woken);
        }
        found
    }

    /// After a lock or request has left a queue: grants what became free, and removes an empty
    /// queue.
    fn settle(&self, queues: &mut Queues, key: &LockKey, woken: &mut WakeList) {
        let queue = queues.get_mut(key).expect("the caller found it");
        let mut granted = false;
        queue.grant(|owner, upgraded| {
            base::check!(upgraded || self.note(owner, key), "{} waited after its end", owner.txn);
            woken.end_wait(owner, wait_state::GRANTED);
            granted = true;
        });
        if granted && queue.has_waiters() {
            queue.holders().for_each(|holder| holder.mark_blocking_at(key));
        }
        queue.verify();
        if queue.is_empty() {
            let less = queues.remove(key);
            self.bytes.fetch_sub(less as u64, Ordering::Relaxed);
            self.shard(key).occupied.fetch_sub(1, Ordering::Release);
        }
    }
}
