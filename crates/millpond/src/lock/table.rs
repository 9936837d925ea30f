//! The sharded table of queues, and the calls that enter them.

use super::key::{LockKey, hash_row};
use super::owner::{Woken, bytes_of};
use super::queue::{Placed, Queue};
use super::queues::{By, Queues, shard_of};
use super::ranges::Ranges;
use super::ticket::{self, Ticket};
use super::{Denied, Mode, Owner, Wait};
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use base::{ByTxn, Spread, TreeId, TxnId};
use std::sync::Arc;
use vfs::Clock;

/// Shards for rows and for tables are apart, so that the table locks, which are always there, do not spoil the fast
/// path of the rows.
const ROW_SHARDS: usize = if cfg!(loom) { 1 } else { 64 };
const TABLE_SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

#[derive(Debug)]
pub(super) struct Shard {
    /// How many queues `mu` holds. Changed under `mu`; read without it under the latch that covers the key in question.
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
    /// Drawn at opening, so that nobody who chooses keys can have them fall to one shard, or to one place of a map.
    seed: Spread,
    shards: Box<[Shard]>,
    owners: ByTxn<Arc<Owner>>,
    /// One chooses victims at a time; see `deadlock.rs`.
    pub(super) breaking: Mutex<()>,
    pub(super) searches: Searches,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ranges: Ranges,
    stopped: AtomicBool,
    pub(super) bytes: AtomicU64,
    /// When locks take more, nobody is given one that he asks for.
    bytes_most: u64,
    /// Locks of rows that stand in queues, granted.
    held: AtomicU64,
    waits: AtomicU64,
    pub(super) deadlocks: AtomicU64,
}

/// What searches for circles have cost.
#[derive(Debug, Default)]
pub(super) struct Searches {
    us: AtomicU64,
    longest_us: AtomicU64,
    /// Victims that stood in no circle.
    #[cfg(test)]
    pub(super) wrong: AtomicU64,
}

impl Searches {
    pub(super) fn count(&self, us: u64) {
        self.us.fetch_add(us, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn judge(&self, right: bool) {
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
    }

    /// A circle was broken so long after its last wait began.
    pub(super) fn broken(&self, us: u64) {
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }
}

/// What a request came to at once.
#[derive(Debug)]
#[must_use]
pub(crate) enum Enqueued<'t> {
    /// The lock is held until the transaction ends.
    Granted,
    /// The request stands in its queue, or waits for others' ranges. Release every latch, wait, and look at the row again:
    /// it may have changed, and who waited for ranges does not have the lock yet.
    Waiting(Ticket<'t>),
}

/// What a wait for the writer of an uncommitted version came to at once.
#[derive(Debug)]
#[must_use]
pub(crate) enum Writer<'t> {
    /// The writer has just ended: look at the row again.
    Gone,
    /// The request stands behind the writer. Release every latch, then wait.
    Waiting(Ticket<'t>),
}

impl LockTable {
    /// A table whose locks take so many bytes of memory, about, and no more.
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_most: u64) -> LockTable {
        let seed = Spread::from(clock.random_u64());
        LockTable {
            seed,
            shards: (0..ROW_SHARDS + TABLE_SHARDS).map(|_| Shard::new(seed)).collect(),
            owners: ByTxn::default(),
            breaking: Mutex::new(()),
            searches: Searches::default(),
            clock,
            ranges: Ranges::default(),
            stopped: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            bytes_most,
            held: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
        }
    }

    /// Makes a transaction known. REQUIRES: before its first lock and its first uncommitted version, also for one that
    /// recovery found prepared.
    pub(crate) fn begin(&self, txn: TxnId) -> Arc<Owner> {
        let owner = Arc::new(Owner::new(txn));
        let before = self.owners.insert(txn, Arc::clone(&owner));
        base::check!(before.is_none(), "{txn} begins twice");
        owner
    }

    /// Asks for an explicit lock on a row. REQUIRES: the leaf that covers the key is latched.
    pub(crate) fn enqueue(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        mode: Mode,
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        if mode == Mode::Exclusive
            && let waiting @ Enqueued::Waiting(_) = self.out_of_ranges(owner, tree, key, wait)?
        {
            return Ok(waiting);
        }
        let key = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&key);
        if self.is_full() && !queues.get(&key).is_some_and(|queue| queue.holds(owner.txn)) {
            return Err(Denied::Full);
        }
        self.request_in(&mut queues, owner, key, mode, wait)
    }

    /// Whether `owner` may write the row now. `Granted` records nothing: the version that the caller writes under the
    /// same latch is the lock. REQUIRES: the leaf that covers the key is latched exclusively, and the row's newest
    /// version is not another transaction's uncommitted one (else [`LockTable::wait_for_writer`]).
    #[inline]
    pub(crate) fn claim(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        if let waiting @ Enqueued::Waiting(_) = self.out_of_ranges(owner, tree, key, wait)? {
            return Ok(waiting);
        }
        let at = shard_of(hash_row(self.seed, tree, key), ROW_SHARDS);
        if self.shards[at].occupied.load(Ordering::Acquire) > 0 {
            let row = LockKey::row(tree, key);
            let free = self.shards[at].mu.lock().get(&row).is_none_or(|queue| queue.only(owner.txn));
            if !free
                && let waiting @ Enqueued::Waiting(_) = self.request(owner, row, Mode::Exclusive, wait)?
            {
                return Ok(waiting);
            }
        }
        self.take_wanted(owner, tree, key);
        Ok(Enqueued::Granted)
    }

    /// Whether a row may be read by who is about to cover it with a range: nobody else has locked it exclusively or waits for
    /// that. REQUIRES: the leaf that covers the key is latched.
    #[inline]
    pub(crate) fn readable(&self, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let shard = &self.shards[shard_of(hash_row(self.seed, tree, key), ROW_SHARDS)];
        if shard.occupied.load(Ordering::Acquire) == 0 {
            return true;
        }
        shard.mu.lock().get(&LockKey::row(tree, key)).is_none_or(|queue| queue.readable(owner.txn))
    }

    /// Enters the lock that an uncommitted version of `owner` is, because that version is about to be undone. REQUIRES: the
    /// row's leaf is latched exclusively.
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

    /// Queues behind the transaction `writer`, whose uncommitted version the caller sees, and enters the lock that this
    /// version is, so that the queue is complete. `still_active` is asked with the queue locked and tells whether
    /// `writer` still has its status; if not, it may have released its locks already. REQUIRES: the leaf that covers the
    /// key is latched, and a transaction leaves the active status before it releases its locks.
    pub(crate) fn wait_for_writer(
        &self,
        waiter: &Arc<Owner>,
        writer: TxnId,
        tree: TreeId,
        key: &[u8],
        mode: Mode,
        wait: Wait,
        still_active: impl FnOnce() -> bool,
    ) -> Result<Writer<'_>, Denied> {
        base::check!(waiter.txn != writer, "{writer} waits for itself");
        let Some(holder) = self.owners.get(writer) else { return Ok(Writer::Gone) };
        let key = LockKey::row(tree, key);
        let mut queues = self.lock_shard(&key);
        if !still_active() {
            return Ok(Writer::Gone);
        }
        // Nothing is entered for who does not wait: rows that are skipped may be as many as others have written.
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
            // It has ended since it was asked for, and its lock was taken for gone.
            Enqueued::Granted => Ok(Writer::Gone),
        }
    }

    /// Ends a transaction: its locks go to those who wait. REQUIRES: its status is final, so that who comes now finds it
    /// ended without asking here.
    pub(crate) fn release_all(&self, owner: &Owner) {
        let (urgent, chunks) = owner.close();
        self.owners.remove(owner.txn);
        urgent.iter().for_each(|key| self.release(owner, key));
        self.release_chunks(owner, chunks);
    }

    pub(super) fn release_chunks(&self, owner: &Owner, chunks: Vec<Vec<LockKey>>) {
        for chunk in chunks {
            let rows = chunk.iter().filter(|key| key.is_row()).count();
            self.held.fetch_sub(rows as u64, Ordering::Relaxed);
            chunk.iter().for_each(|key| self.release(owner, key));
            self.bytes.fetch_sub(bytes_of(&chunk) as u64, Ordering::Relaxed);
        }
    }

    /// Gives one lock back, under its shard's mutex alone. It may be gone already.
    pub(super) fn release(&self, owner: &Owner, key: &LockKey) {
        let mut woken = Woken::default();
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
        // The mutex goes first.
        drop(queues);
    }

    /// Fails every wait, now and later: the database closes or is poisoned.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ranges.stop();
        for shard in &self.shards {
            let mut woken = Woken::default();
            let mut queues = shard.mu.lock();
            for key in queues.keys() {
                let waiting = queues.get(&key).map_or_else(Vec::new, Queue::waiting);
                for owner in waiting {
                    self.withdraw_in(&mut queues, &owner, &key, ticket::STOPPED, &mut woken);
                }
            }
        }
    }

    /// Whether every wait fails.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Notes what `owner` has. False once it has begun to release.
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

    /// Whether locks take all the memory that they may.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_most
    }

    pub(super) fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Memory that locks take, in bytes: queues with the room of their maps, ranges, and what transactions note of what they hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Room for queues that stand near, bytes.
    #[cfg(test)]
    pub(super) fn bytes_of_few(&self) -> usize {
        self.shards.iter().map(|shard| shard.mu.lock().bytes_of_few()).sum()
    }

    /// Locks of rows held beside those that uncommitted versions are.
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

    /// Time spent looking for deadlocks, and the longest that one stood before it was broken, microseconds.
    pub(crate) fn searched_us(&self) -> (u64, u64) {
        let Searches { us, longest_us, .. } = &self.searches;
        (us.load(Ordering::Relaxed), longest_us.load(Ordering::Relaxed))
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        let hash = key.hash_from(self.seed);
        let at = match key.is_table() {
            true => ROW_SHARDS + shard_of(hash, TABLE_SHARDS),
            false => shard_of(hash, ROW_SHARDS),
        };
        &self.shards[at]
    }

    pub(super) fn lock_shard(&self, key: &LockKey) -> MutexGuard<'_, Queues> {
        self.shard(key).mu.lock()
    }

    /// The queue of `key`; `owner` enters it if there is none.
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
            // Who releases a million locks would keep others waiting for the last of them.
            queue.forget_ended();
        }
        let placed = queue.place(owner, mode, limit.is_some() && !stopped);
        queue.verify();
        match (placed, limit) {
            (Placed::Granted, _) => {
                base::check!(self.note(owner, &key), "{} locks after its end", owner.txn);
                Ok(Enqueued::Granted)
            }
            (Placed::Held | Placed::Upgraded, _) => Ok(Enqueued::Granted),
            (Placed::Waiting, limit) => {
                // They become awaited before this wait begins. When others wait already, they are.
                if queue.waiting_count() == 1 {
                    queue
                        .holders()
                        .filter(|holder| holder.txn != owner.txn)
                        .for_each(|holder| holder.becomes_awaited_at(&key));
                }
                owner.begin_wait(&key, ticket::WAITING);
                self.count_wait();
                let limit = limit.expect("only a request with a limit waits");
                Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), key, limit)))
            }
            (Placed::Refused, _) if stopped => Err(Denied::Stopped),
            (Placed::Refused, _) => Err(if wait == Wait::Skip { Denied::Skipped } else { Denied::Timeout }),
        }
    }

    /// Takes a waiting request out of its queue and tells its owner why. False if it waits no longer.
    pub(super) fn withdraw(&self, owner: &Arc<Owner>, key: &LockKey, why: u32) -> bool {
        let mut woken = Woken::default();
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
        woken: &mut Woken,
    ) -> bool {
        let found = queues.get_mut(key).is_some_and(|queue| queue.withdraw(owner.txn));
        if found {
            woken.end_wait(owner, why);
            self.settle(queues, key, woken);
        }
        found
    }

    /// After something left a queue: grants what became free, and drops the queue when it is empty.
    fn settle(&self, queues: &mut Queues, key: &LockKey, woken: &mut Woken) {
        let queue = queues.get_mut(key).expect("the caller found it");
        let mut granted = false;
        queue.grant(|owner, upgraded| {
            base::check!(upgraded || self.note(owner, key), "{} waited after its end", owner.txn);
            woken.end_wait(owner, ticket::GRANTED);
            granted = true;
        });
        if granted && queue.awaited() {
            queue.holders().for_each(|holder| holder.becomes_awaited_at(key));
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
