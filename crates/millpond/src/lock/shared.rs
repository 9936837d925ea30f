//! What queues and ranges have in common: the memory that locks take ([`LockMemory`]), and the
//! waits that begin ([`Waits`]).

use super::key::LockKey;
use super::owner::bytes_of;
use super::{Owner, WaitObserver, wait_state};
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What each change of a queue or a range is told.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) memory: LockMemory,
    pub(super) waits: Waits,
}

/// Counts the memory that locks take, and the locks of rows.
#[derive(Debug)]
pub(super) struct LockMemory {
    bytes: AtomicU64,
    /// Locks take at most this many bytes; further requests are refused.
    bytes_most: AtomicU64,
    /// Granted row locks in queues.
    held: AtomicU64,
}

impl LockMemory {
    /// Locks may take about `bytes_most` bytes.
    pub(super) fn new(bytes_most: u64) -> LockMemory {
        LockMemory {
            bytes: AtomicU64::new(0),
            bytes_most: AtomicU64::new(bytes_most),
            held: AtomicU64::new(0),
        }
    }

    /// Adds a lock to the list of `owner`. Returns false once `owner` has begun to release.
    pub(super) fn note(&self, owner: &Owner, key: &LockKey) -> bool {
        let Some(bytes) = owner.note(key) else { return false };
        if bytes > 0 {
            self.take(bytes);
        }
        if key.is_row() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Removes the lock of a row from the list of `owner`, if it is among the last there. Returns
    /// whether it was.
    pub(super) fn forget(&self, owner: &Owner, row: &LockKey) -> bool {
        let Some(bytes) = owner.forget(row) else { return false };
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.give(bytes);
        true
    }

    /// Removes the locks of a chunk of a list; `release` releases each.
    pub(super) fn drop_chunk(&self, chunk: &Vec<LockKey>, release: impl FnMut(&LockKey)) {
        let rows = chunk.iter().filter(|key| key.is_row()).count();
        self.held.fetch_sub(rows as u64, Ordering::Relaxed);
        chunk.iter().for_each(release);
        self.give(bytes_of(chunk));
    }

    /// Counts bytes that are taken.
    pub(super) fn take(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that are given back.
    pub(super) fn give(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Counts something that had `before` bytes and has `after`, which may be fewer.
    pub(super) fn resize(&self, before: usize, after: usize) {
        self.bytes.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
    }

    /// Whether locks take all the memory that they may.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_most()
    }

    /// Memory that locks take, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory that locks may take, in bytes.
    pub(super) fn bytes_most(&self) -> u64 {
        self.bytes_most.load(Ordering::Relaxed)
    }

    /// Sets how much memory locks may take. Locks that are held stay.
    pub(super) fn set_bytes_most(&self, bytes: u64) {
        self.bytes_most.store(bytes, Ordering::Relaxed);
    }

    /// Explicit row locks that are held.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

/// A wait that has begun: the request is in its place.
#[derive(Debug)]
#[must_use]
pub(super) struct Begun {
    /// What it waits for.
    pub(super) key: LockKey,
    /// How long it may wait.
    pub(super) limit: Duration,
}

/// Counts the waits, and tells the observer of them.
#[derive(Debug, Default)]
pub(super) struct Waits {
    observer: OnceLock<Arc<dyn WaitObserver>>,
    stopped: AtomicBool,
    count: AtomicU64,
}

impl Waits {
    /// Begins the wait of `owner` at `key`. REQUIRES: the shard of the key is locked, and the
    /// request is in it.
    pub(super) fn begin(&self, owner: &Owner, key: &LockKey) {
        owner.begin_wait(key, wait_state::WAITING);
        self.count.fetch_add(1, Ordering::Relaxed);
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

    /// Sets the observer of waits. Returns false if there is one already.
    pub(super) fn observe(&self, observer: Arc<dyn WaitObserver>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Refuses every wait from now on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether every wait is refused.
    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Requests that had to wait, since the start.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
