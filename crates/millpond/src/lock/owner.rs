//! A transaction as the lock table sees it: what it holds, what it waits for, how much work it would lose.

use super::key::LockKey;
use base::TxnId;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, futex_wake};

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

    pub(super) fn begin_wait(&self, key: &LockKey, signal: u32) {
        let before = self.mu.lock().waits_for.replace(key.clone());
        base::check!(before.is_none(), "{} waits for two locks at once", self.txn);
        self.signal.store(signal, Ordering::Release);
    }

    /// Ends the wait and wakes the thread. REQUIRES: the shard of the awaited key is locked.
    pub(super) fn end_wait(&self, signal: u32) {
        let before = self.mu.lock().waits_for.take();
        base::check!(before.is_some(), "{} is told of a lock that it does not wait for", self.txn);
        self.signal.store(signal, Ordering::Release);
        futex_wake(&self.signal, 1);
    }

    pub(super) fn waits_for(&self) -> Option<LockKey> {
        self.mu.lock().waits_for.clone()
    }
}
