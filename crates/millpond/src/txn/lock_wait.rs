//! [`LockWaits`]: waiting for locks, and the time that it takes.

use super::transaction::Txn;
use crate::error::{Error, Result};
use crate::lock::{Denied, Enqueued};
use metrics::{Latency, M, Metrics};
use std::sync::Arc;
use vfs::Clock;

/// Waits for locks by a clock, and counts the time for metrics and for the transaction.
#[derive(Debug)]
pub(crate) struct LockWaits {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl LockWaits {
    pub(super) fn new(clock: &Arc<dyn Clock>, metrics: &Arc<Metrics>) -> LockWaits {
        LockWaits { clock: Arc::clone(clock), metrics: Arc::clone(metrics) }
    }

    /// Waits for a lock if it was not granted at once, and adds the time to the transaction's lock
    /// time.
    pub(super) fn await_lock_for(&self, txn: &Txn, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.timed(txn, || ticket.wait_unless(txn.cancel_flag())),
        }
    }

    /// Waits for a lock if it was not granted at once.
    pub(crate) fn await_lock(&self, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.counted(|| ticket.wait_unless(None)).1,
        }
    }

    /// Waits, and adds the time to the transaction's lock time.
    pub(super) fn timed(&self, txn: &Txn, wait: impl FnOnce() -> Result<(), Denied>) -> Result {
        let (took_us, result) = self.counted(wait);
        txn.lock_us.set(txn.lock_us.get() + took_us);
        result
    }

    fn counted(&self, wait: impl FnOnce() -> Result<(), Denied>) -> (u64, Result) {
        let begun_us = self.clock.now_us();
        let result = wait().map_err(denied);
        let took_us = self.clock.now_us().saturating_sub(begun_us);
        self.metrics.add(M::LockWaitUsTotal, took_us);
        self.metrics.time(Latency::LockWait, took_us);
        (took_us, result)
    }
}

/// Returns the error of a denied lock.
pub(crate) fn denied(why: Denied) -> Error {
    match why {
        Denied::Deadlock => Error::Deadlock,
        Denied::Timeout | Denied::Skipped => Error::LockTimeout,
        Denied::Stopped => Error::Closed,
        Denied::Cancelled => Error::Cancelled,
        Denied::Full => Error::Limit {
            what: "locks of rows and ranges take all the memory that the setting lock_memory_bytes lets \
                   them have"
                .into(),
        },
    }
}
