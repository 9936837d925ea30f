//! A transaction as the lock table sees it: the locks that it holds, the one it waits for, and the
//! work that it would lose as a victim.

use super::key::LockKey;
use crate::planted::{Bug, planted};
use base::TxnId;
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, futex_wake};
use smallvec::SmallVec;
use std::sync::Arc;

/// Keys in a chunk of a transaction's list of locks.
const CHUNK_LEAST: usize = 4;
const CHUNK_MOST: usize = 2048;
/// A single lock is released only if it is among so many that were added last.
const FORGET_MOST: usize = 64;
/// At most so many keys are released first because other transactions wait for them.
const URGENT_MOST: usize = 4096;

/// The locks of one transaction. It waits for at most one at a time, because one thread at a time
/// uses a transaction.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) txn: TxnId,
    /// What the program calls the transaction, or 0.
    tag: AtomicU64,
    /// Row changes that the transaction would lose as a victim.
    work: AtomicU64,
    /// State of its present wait: one of the constants of [`super::wait_state`].
    pub(super) signal: AtomicU32,
    /// Counts the beginnings and ends of its waits: odd while it waits. Changes under the shard of
    /// the lock that it waits for.
    wait_number: AtomicU64,
    /// Its locks are being released. Those that are still in queues belong to no transaction.
    ended: AtomicBool,
    /// It has thousands of locks.
    many: AtomicBool,
    /// Its last request was granted at once, and it had no lock there before.
    new_lock: AtomicBool,
    /// It is to be rolled back, because it is in the way of one that must commit before it.
    in_the_way: AtomicBool,
    /// Its name for the observer of waits; 0: none.
    name: u64,
    mu: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// In chunks, so that a long list is never moved, and its memory is freed as locks are
    /// released.
    keys: Vec<Vec<LockKey>>,
    /// The counters that it has locked.
    counters: Vec<LockKey>,
    /// Keys that other transactions wait for and that do not stand near the beginning of the list.
    urgent: Vec<LockKey>,
    waits_for: Option<LockKey>,
    /// Another transaction has waited for one of its locks.
    blocking: bool,
    closed: bool,
    /// The observer is not told of it any more.
    hidden: bool,
}

impl Owner {
    pub(super) fn new(txn: TxnId, name: u64) -> Owner {
        Owner {
            txn,
            tag: AtomicU64::new(0),
            work: AtomicU64::new(0),
            signal: AtomicU32::new(0),
            wait_number: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            many: AtomicBool::new(false),
            new_lock: AtomicBool::new(false),
            in_the_way: AtomicBool::new(false),
            name,
            mu: Mutex::new(Held::default()),
        }
    }

    /// The transaction's id.
    pub(crate) fn txn(&self) -> TxnId {
        self.txn
    }

    /// What the program calls the transaction, or 0.
    pub(super) fn tag(&self) -> u64 {
        self.tag.load(Ordering::Relaxed)
    }

    /// Sets what the program calls the transaction.
    pub(crate) fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Relaxed);
    }

    /// Counts row changes; the victim of a deadlock is the transaction with the fewest. REQUIRES:
    /// only the transaction's thread calls it.
    pub(crate) fn add_work(&self, rows: u64) {
        self.work.store(self.work() + rows, Ordering::Relaxed);
    }

    pub(super) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Adds a lock to the list. Returns the bytes that this takes. Returns none once the
    /// transaction has begun to release its locks: a lock added later would never be released.
    pub(super) fn note(&self, key: &LockKey) -> Option<usize> {
        let mut mu = self.mu.lock();
        if mu.closed {
            return None;
        }
        if key.is_counter() {
            mu.counters.push(key.clone());
            return Some(0);
        }
        let room = mu.keys.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        let mut bytes = key.heap_bytes();
        if room == 0 {
            let more = mu.keys.last().map_or(CHUNK_LEAST, |chunk| (chunk.len() * 2).min(CHUNK_MOST));
            mu.keys.push(Vec::with_capacity(more));
            if more == CHUNK_MOST {
                self.many.store(true, Ordering::Relaxed);
            }
            bytes += more * size_of::<LockKey>();
        }
        mu.keys.last_mut().expect("just made").push(key.clone());
        Some(bytes)
    }

    /// Removes a lock from the list if it was among the last that were added. Returns the bytes
    /// that this frees; none if it was not found.
    pub(super) fn forget(&self, key: &LockKey) -> Option<usize> {
        let mut mu = self.mu.lock();
        let mut left = FORGET_MOST;
        for chunk in mu.keys.iter_mut().rev() {
            let first = chunk.len().saturating_sub(left);
            if let Some(at) = chunk[first..].iter().rposition(|noted| noted == key) {
                return Some(chunk.swap_remove(first + at).heap_bytes());
            }
            left -= chunk.len() - first;
            if left == 0 {
                break;
            }
        }
        None
    }

    /// Removes a counter from its list. Returns whether it was there.
    pub(super) fn forget_counter(&self, key: &LockKey) -> bool {
        let mut mu = self.mu.lock();
        let at = mu.counters.iter().position(|noted| noted == key);
        at.map(|at| mu.counters.swap_remove(at)).is_some()
    }

    /// Sets whether its last request got a lock that it did not have. REQUIRES: only the
    /// transaction's thread calls it.
    pub(super) fn set_new_lock(&self, new: bool) {
        self.new_lock.store(new, Ordering::Relaxed);
    }

    /// Returns whether its last request was granted at once, and it had no lock there before.
    pub(crate) fn has_new_lock(&self) -> bool {
        self.new_lock.load(Ordering::Relaxed)
    }

    /// Begins a locking read, which may find that it needs no request.
    pub(crate) fn expect_new_lock(&self) {
        self.set_new_lock(false);
    }

    /// Whether it has so many locks that their queues stand apart.
    pub(crate) fn has_many(&self) -> bool {
        self.many.load(Ordering::Relaxed)
    }

    /// Number of entries in its list of locks: rows, tables, counters, and one for its ranges in
    /// each tree.
    pub(super) fn lock_count(&self) -> u64 {
        let mu = self.mu.lock();
        (mu.counters.len() + mu.keys.iter().map(Vec::len).sum::<usize>()) as u64
    }

    /// Returns a copy of the n-th chunk of its list, if it has so many.
    pub(super) fn chunk(&self, n: usize) -> Option<Vec<LockKey>> {
        self.mu.lock().keys.get(n).cloned()
    }

    /// Returns the counters that it has locked.
    pub(super) fn locked_counters(&self) -> Vec<LockKey> {
        self.mu.lock().counters.clone()
    }

    /// Takes the list of locks; nothing can be added any more. Returns the locks to release first,
    /// then all, in chunks.
    pub(super) fn close(&self) -> (Vec<LockKey>, Vec<Vec<LockKey>>) {
        let mut mu = self.mu.lock();
        base::check!(mu.waits_for.is_none(), "{} ends while it waits for a lock", self.txn);
        mu.closed = true;
        mu.hidden = true;
        self.ended.store(true, Ordering::Release);
        let mut first = std::mem::take(&mut mu.urgent);
        first.append(&mut mu.counters);
        (first, std::mem::take(&mut mu.keys))
    }

    /// Returns whether its locks are being released. Another transaction may then treat them as
    /// gone.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Records that another transaction is about to wait for one of its locks. From now on its own
    /// waits may close deadlock cycles. REQUIRES: the other transaction has not begun its wait.
    pub(super) fn mark_blocking(&self) {
        self.mu.lock().blocking = true;
    }

    /// Like [`Owner::mark_blocking`], for a lock in a queue: it is released among the first.
    pub(super) fn mark_blocking_at(&self, key: &LockKey) {
        let mut mu = self.mu.lock();
        mu.blocking = true;
        let far = mu.keys.last().is_some_and(|chunk| chunk.capacity() >= CHUNK_MOST);
        if far && mu.urgent.len() < URGENT_MOST {
            mu.urgent.push(key.clone());
        }
    }

    /// Returns whether one of its waits may close a deadlock cycle. No cycle leads back to a
    /// transaction that no other has ever waited for. Asked after its own wait has begun: a
    /// transaction that marks it as blocking later begins its own wait later still, and searches
    /// itself.
    pub(super) fn has_blocked(&self) -> bool {
        self.mu.lock().blocking
    }

    /// Its name for the observer of waits, if it has one.
    pub(super) fn observed_as(&self) -> Option<u64> {
        (self.name != 0).then_some(self.name)
    }

    /// Calls `told` with its name, unless it is hidden. Notes whether it is in the way.
    pub(super) fn while_observed(&self, told: impl FnOnce(u64) -> bool) {
        let mu = self.mu.lock();
        if !mu.hidden && told(self.name) {
            self.in_the_way.store(true, Ordering::Relaxed);
        }
    }

    /// Hides it from the observer of waits. When this returns, no call names it.
    pub(crate) fn hide(&self) {
        self.mu.lock().hidden = true;
    }

    /// Whether it is to be rolled back because of another transaction.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.in_the_way.load(Ordering::Relaxed)
    }

    pub(super) fn begin_wait(&self, key: &LockKey, signal: u32) {
        let before = self.mu.lock().waits_for.replace(key.clone());
        base::check!(before.is_none(), "{} waits for two locks at once", self.txn);
        self.wait_number.fetch_add(1, Ordering::Release);
        self.signal.store(signal, Ordering::Release);
    }

    /// Ends the wait. [`WakeList`] wakes the thread. REQUIRES: the shard of the awaited key is
    /// locked.
    pub(super) fn end_wait(&self, signal: u32) {
        let before = self.mu.lock().waits_for.take();
        base::check!(before.is_some(), "{} is told of a lock that it does not wait for", self.txn);
        self.wait_number.fetch_add(1, Ordering::Release);
        self.signal.store(signal, Ordering::Release);
    }

    pub(super) fn waits_for(&self) -> Option<LockKey> {
        self.mu.lock().waits_for.clone()
    }

    /// Number of its present wait; an even number between waits.
    pub(super) fn wait_number(&self) -> u64 {
        self.wait_number.load(Ordering::Acquire)
    }
}

/// Bytes that a chunk of the list takes.
pub(super) fn bytes_of(chunk: &Vec<LockKey>) -> usize {
    chunk.capacity() * size_of::<LockKey>() + chunk.iter().map(LockKey::heap_bytes).sum::<usize>()
}

/// Owners whose waits have ended and whose threads are still to be woken. They are woken when the
/// list is dropped, which is after the mutex is released, so that no thread waits for a mutex while
/// others are woken one by one.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct WakeList(SmallVec<[Arc<Owner>; 2]>);

impl WakeList {
    /// Ends a wait and remembers to wake the thread. REQUIRES: as [`Owner::end_wait`].
    pub(super) fn end_wait(&mut self, owner: &Arc<Owner>, signal: u32) {
        owner.end_wait(signal);
        self.0.push(Arc::clone(owner));
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        if planted(Bug::GrantUnwoken) {
            return;
        }
        // The thread may have seen the signal by itself and may wait for another lock by now. It
        // checks its signal and waits again.
        self.0.iter().for_each(|owner| futex_wake(&owner.signal, 1));
    }
}
