//! A transaction as the lock table sees it: what it holds, what it waits for, how much work it would lose.

use super::key::LockKey;
use base::TxnId;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, futex_wake};
use smallvec::SmallVec;
use std::sync::Arc;

/// One transaction's locks. It waits for at most one at a time, because a transaction is used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) txn: TxnId,
    /// What the transaction would lose if it were the victim, in row changes.
    work: AtomicU64,
    /// How its present wait stands: one of the constants of [`super::ticket`].
    pub(super) signal: AtomicU32,
    mu: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    keys: Vec<LockKey>,
    waits_for: Option<LockKey>,
    /// Somebody has waited for what it holds.
    awaited: bool,
    closed: bool,
}

impl Owner {
    pub(super) fn new(txn: TxnId) -> Owner {
        Owner { txn, work: AtomicU64::new(0), signal: AtomicU32::new(0), mu: Mutex::new(Held::default()) }
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

    /// Notes a lock held. False once the transaction has begun to release: what comes later would never be released.
    pub(super) fn note(&self, key: &LockKey) -> bool {
        let mut mu = self.mu.lock();
        if !mu.closed {
            mu.keys.push(key.clone());
        }
        !mu.closed
    }

    /// Everything held; nothing can be added any more.
    pub(super) fn close(&self) -> Vec<LockKey> {
        let mut mu = self.mu.lock();
        base::check!(mu.waits_for.is_none(), "{} ends while it waits for a lock", self.txn);
        mu.closed = true;
        std::mem::take(&mut mu.keys)
    }

    /// Says that somebody is about to wait for what it holds: from now on its own waits may close circles. REQUIRES: who says so
    /// has not begun his wait.
    pub(super) fn becomes_awaited(&self) {
        self.mu.lock().awaited = true;
    }

    /// Whether a wait of its may close a circle. Nobody waits for a transaction that was never awaited, so none leads back to
    /// it. Asked after its wait has begun: who makes it awaited later begins his own wait later still, and looks for circles himself.
    pub(super) fn was_awaited(&self) -> bool {
        self.mu.lock().awaited
    }

    pub(super) fn begin_wait(&self, key: &LockKey, signal: u32) {
        let before = self.mu.lock().waits_for.replace(key.clone());
        base::check!(before.is_none(), "{} waits for two locks at once", self.txn);
        self.signal.store(signal, Ordering::Release);
    }

    /// Ends the wait. The thread is woken by [`Woken`]. REQUIRES: the shard of the awaited key is locked.
    pub(super) fn end_wait(&self, signal: u32) {
        let before = self.mu.lock().waits_for.take();
        base::check!(before.is_some(), "{} is told of a lock that it does not wait for", self.txn);
        self.signal.store(signal, Ordering::Release);
    }

    pub(super) fn waits_for(&self) -> Option<LockKey> {
        self.mu.lock().waits_for.clone()
    }
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
        // A thread that has seen the signal by itself may wait for another lock by now; it looks at its signal and goes on waiting.
        self.0.iter().for_each(|owner| futex_wake(&owner.signal, 1));
    }
}
