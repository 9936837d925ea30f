//! The sharded table of lock queues, and the calls that enter them.

use super::covered::Want;
use super::deadlock::Searches;
use super::key::{LockKey, hash_row};
use super::owner::{WakeList, bytes_of};
use super::queue::{Placed, Queue};
use super::queues::{By, Queues, shard_bits};
use super::ranges::Ranges;
use super::report::Reports;
use super::ticket::{self, Ticket};
use super::{Denied, KeyState, Mode, Owner, RowRequest, Wait, WaitObserver};
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
    occupied: AtomicU32,
    mu: Mutex<Queues>,
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
    pub(super) observer: OnceLock<Arc<dyn WaitObserver>>,
    stopped: AtomicBool,
    pub(super) bytes: AtomicU64,
    /// Locks take at most this many bytes; further requests are refused.
    bytes_most: AtomicU64,
    /// Granted row locks in queues.
    held: AtomicU64,
    waits: AtomicU64,
    pub(super) deadlocks: AtomicU64,
}

/// The immediate result of a request.
#[derive(Debug)]
#[must_use]
pub(crate) enum Enqueued<'t> {
    /// The lock is held until the transaction ends.
    Granted,
    /// The request waits in its queue, or for other transactions' ranges. The caller releases every
    /// latch, waits, and reads the row again: it may have changed, and a writer that waited for
    /// ranges does not have the lock yet.
    Waiting(Ticket<'t>),
}

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

    /// Releases all locks of a transaction that ends, and grants them to waiting requests.
    /// REQUIRES: its state is final, so that a transaction that reads it now finds it ended.
    pub(crate) fn release_all(&self, owner: &Owner) {
        let (urgent, chunks) = owner.close();
        self.owners.remove(owner.txn);
        urgent.iter().for_each(|key| self.release(owner, key));
        self.release_chunks(owner, chunks);
    }

    /// Releases a row lock before the end of its transaction. Returns false, and keeps the lock, if
    /// it is neither one of the last that the transaction has got nor in a range that locks rows
    /// without their gaps. REQUIRES: the transaction's own request made the lock, and nothing
    /// relies on it.
    pub(crate) fn release_row(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let row = LockKey::row(tree, key);
        let Some(bytes) = owner.forget(&row) else { return self.cut_row(owner, tree, key) };
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.release(owner, &row);
        true
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
                    self.withdraw_in(&mut queues, &owner, &key, ticket::STOPPED, &mut woken);
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
    fn shard_of_row(&self, tree: TreeId, key: &[u8]) -> &Shard {
        self.rows.of(shard_bits(hash_row(self.seed, tree, key)))
    }

    fn all_shards(&self) -> impl Iterator<Item = &Shard> {
        self.rows.iter().chain(self.tables.iter())
    }

    pub(super) fn lock_shard(&self, key: &LockKey) -> MutexGuard<'_, Queues> {
        self.shard(key).mu.lock()
    }

    /// Returns the queue of `key`; creates it for `owner` if there is none.
    fn queue_of<'q>(&self, queues: &'q mut Queues, key: &LockKey, owner: &Owner) -> &'q mut Queue {
        if queues.get(key).is_none() {
            self.shard(key).occupied.fetch_add(1, Ordering::Release);
            let more = queues.insert(key, if owner.has_many() { By::Many } else { By::Few });
            self.bytes.fetch_add(more as u64, Ordering::Relaxed);
        }
        queues.get_mut(key).expect("just made")
    }

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
                owner.begin_wait(&key, ticket::WAITING);
                self.count_wait();
                self.tell(owner, queue.before(owner.txn));
                let limit = limit.expect("only a request with a limit waits");
                Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), key, limit)))
            }
            (Placed::Refused, _) if stopped => Err(Denied::Stopped),
            (Placed::Refused, _) => Err(if wait == Wait::Skip { Denied::Skipped } else { Denied::Timeout }),
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
            woken.end_wait(owner, ticket::GRANTED);
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

impl Enqueued<'_> {
    /// Waits if need be. REQUIRES: no latch is held.
    #[cfg(any(test, loom))]
    pub(crate) fn finish(self) -> Result<(), Denied> {
        match self {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => ticket.wait(),
        }
    }
}
