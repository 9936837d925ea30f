//! A transaction as the lock table sees it: what it holds, what it waits for, how much work it would lose.

use super::key::LockKey;
use crate::planted::{Bug, planted};
use base::TxnId;
use base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, futex_wake};
use smallvec::SmallVec;
use std::sync::Arc;

/// Keys in a chunk of those that a transaction has.
const CHUNK_LEAST: usize = 4;
const CHUNK_MOST: usize = 2048;
/// So many keys are released before all others because somebody waits for them, at most.
const URGENT_MOST: usize = 4096;

/// One transaction's locks. It waits for at most one at a time, because a transaction is used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) txn: TxnId,
    /// What the transaction would lose if it were the victim, in row changes.
    work: AtomicU64,
    /// How its present wait stands: one of the constants of [`super::ticket`].
    pub(super) signal: AtomicU32,
    /// Counts the beginnings and the ends of its waits: odd while it waits. Changed under the shard of what it waits for.
    turns: AtomicU64,
    /// Its locks are being released; those that still stand are nobody's.
    ended: AtomicBool,
    /// It has thousands of locks.
    many: AtomicBool,
    mu: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// In chunks, so that many are not moved when there are more, and their memory goes back as they are released.
    keys: Vec<Vec<LockKey>>,
    /// Those of them that somebody waits for and that do not stand near the beginning.
    urgent: Vec<LockKey>,
    waits_for: Option<LockKey>,
    /// Somebody has waited for what it holds.
    awaited: bool,
    closed: bool,
}

impl Owner {
    pub(super) fn new(txn: TxnId) -> Owner {
        Owner {
            txn,
            work: AtomicU64::new(0),
            signal: AtomicU32::new(0),
            turns: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            many: AtomicBool::new(false),
            mu: Mutex::new(Held::default()),
        }
    }

    /// Whose locks these are.
    pub(crate) fn txn(&self) -> TxnId {
        self.txn
    }

    /// Counts one more row change; the victim of a deadlock is who has fewest. REQUIRES: one thread at a time, the transaction's.
    pub(crate) fn add_work(&self, rows: u64) {
        self.work.store(self.work() + rows, Ordering::Relaxed);
    }

    pub(super) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Notes a lock held. Returns the bytes that this takes; none once the transaction has begun to release: what comes later
    /// would never be released.
    pub(super) fn note(&self, key: &LockKey) -> Option<usize> {
        let mut mu = self.mu.lock();
        if mu.closed {
            return None;
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

    /// Whether it has so many locks that their queues stand apart.
    pub(super) fn has_many(&self) -> bool {
        self.many.load(Ordering::Relaxed)
    }

    /// Everything held; nothing can be added any more. What is to be released first, then all, in chunks.
    pub(super) fn close(&self) -> (Vec<LockKey>, Vec<Vec<LockKey>>) {
        let mut mu = self.mu.lock();
        base::check!(mu.waits_for.is_none(), "{} ends while it waits for a lock", self.txn);
        mu.closed = true;
        self.ended.store(true, Ordering::Release);
        (std::mem::take(&mut mu.urgent), std::mem::take(&mut mu.keys))
    }

    /// Whether its locks are being released: who meets one may take it for gone.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Says that somebody is about to wait for what it holds: from now on its own waits may close circles. REQUIRES: who says so
    /// has not begun his wait.
    pub(super) fn becomes_awaited(&self) {
        self.mu.lock().awaited = true;
    }

    /// The same for a lock in a queue: it is released among the first.
    pub(super) fn becomes_awaited_at(&self, key: &LockKey) {
        let mut mu = self.mu.lock();
        mu.awaited = true;
        let far = mu.keys.last().is_some_and(|chunk| chunk.capacity() >= CHUNK_MOST);
        if far && mu.urgent.len() < URGENT_MOST {
            mu.urgent.push(key.clone());
        }
    }

    /// Whether a wait of its may close a circle. Nobody waits for a transaction that was never awaited, so none leads back to
    /// it. Asked after its wait has begun: who makes it awaited later begins his own wait later still, and looks for circles himself.
    pub(super) fn was_awaited(&self) -> bool {
        self.mu.lock().awaited
    }

    pub(super) fn begin_wait(&self, key: &LockKey, signal: u32) {
        let before = self.mu.lock().waits_for.replace(key.clone());
        base::check!(before.is_none(), "{} waits for two locks at once", self.txn);
        self.turns.fetch_add(1, Ordering::Release);
        self.signal.store(signal, Ordering::Release);
    }

    /// Ends the wait. The thread is woken by [`Woken`]. REQUIRES: the shard of the awaited key is locked.
    pub(super) fn end_wait(&self, signal: u32) {
        let before = self.mu.lock().waits_for.take();
        base::check!(before.is_some(), "{} is told of a lock that it does not wait for", self.txn);
        self.turns.fetch_add(1, Ordering::Release);
        self.signal.store(signal, Ordering::Release);
    }

    pub(super) fn waits_for(&self) -> Option<LockKey> {
        self.mu.lock().waits_for.clone()
    }

    /// Which of its waits the present one is; an even number between them.
    pub(super) fn wait_number(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }
}

/// Bytes that a chunk of noted keys takes.
pub(super) fn bytes_of(chunk: &Vec<LockKey>) -> usize {
    chunk.capacity() * size_of::<LockKey>() + chunk.iter().map(LockKey::heap_bytes).sum::<usize>()
}

/// Owners whose waits have ended and whose threads are still to be woken: when this is dropped, which is after the mutex under which
/// it was decided, so that nobody waits for a mutex while threads are woken one by one.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Woken(SmallVec<[Arc<Owner>; 2]>);

impl Woken {
    /// Ends a wait and remembers to wake the thread. REQUIRES: as [`Owner::end_wait`].
    pub(super) fn end_wait(&mut self, owner: &Arc<Owner>, signal: u32) {
        owner.end_wait(signal);
        self.0.push(Arc::clone(owner));
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if planted(Bug::GrantUnwoken) {
            return;
        }
        // A thread that has seen the signal by itself may wait for another lock by now; it looks at its signal and goes on waiting.
        self.0.iter().for_each(|owner| futex_wake(&owner.signal, 1));
    }
}
