//! A request in a queue, and the wait for it.

use super::key::LockKey;
use super::wait_state::{CANCELLED, DEADLOCK, GRANTED, PASSED, STOPPED, WAITING, WITHDRAWN};
use super::{CancelFlag, Denied, LockTable, Owner, ScanStart};
use base::sync::atomic::Ordering;
use base::sync::futex_wait;
use std::sync::Arc;
use std::time::Duration;

/// How a wait ended that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The request was granted.
    Granted,
    /// The request was not granted, and the wait is over.
    Passed,
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

/// A request in its queue. Dropping it without waiting withdraws the request.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket<'t> {
    table: &'t LockTable,
    owner: Arc<Owner>,
    key: LockKey,
    limit: Duration,
}

impl<'t> Ticket<'t> {
    pub(super) fn new(table: &'t LockTable, owner: Arc<Owner>, key: LockKey, limit: Duration) -> Ticket<'t> {
        Ticket { table, owner, key, limit }
    }

    /// Waits for the lock. REQUIRES: no latch is held.
    #[cfg(any(test, loom))]
    pub(crate) fn wait(self) -> Result<(), Denied> {
        self.wait_unless(None)
    }

    /// Waits for the lock, unless `cancel` is or becomes set. REQUIRES: no latch is held.
    pub(crate) fn wait_unless(self, cancel: Option<&CancelFlag>) -> Result<(), Denied> {
        self.wait_for_grant(cancel).map(drop)
    }

    /// Like [`Ticket::wait_unless`], for a scan that lets writers pass first. REQUIRES: no latch is
    /// held.
    pub(super) fn wait_for_grant(self, cancel: Option<&CancelFlag>) -> Result<WaitEnd, Denied> {
        let _reachable = cancel.map(|flag| flag.reach(&self.owner));
        // The wait has begun, and the flag reaches it. If it was set before, no other thread ends
        // the wait. Dropping the ticket withdraws the request.
        if cancel.is_some_and(CancelFlag::is_set) {
            return Err(Denied::Cancelled);
        }
        let limit_us = u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX);
        let begun_us = self.table.now_us();
        self.table.break_cycles(&self.owner, begun_us);
        let deadline = begun_us.saturating_add(limit_us);
        loop {
            match self.owner.signal.load(Ordering::Acquire) {
                WAITING => {}
                GRANTED => return Ok(WaitEnd::Granted),
                PASSED => return Ok(WaitEnd::Passed),
                DEADLOCK => return Err(Denied::Deadlock),
                STOPPED => return Err(Denied::Stopped),
                CANCELLED => return Err(Denied::Cancelled),
                other => unreachable!("a wait in state {other}"),
            }
            let left_us = deadline.saturating_sub(self.table.now_us());
            if left_us > 0 {
                futex_wait(&self.owner.signal, WAITING, Some(Duration::from_micros(left_us)));
            } else if self.table.withdraw(&self.owner, &self.key, WITHDRAWN) {
                return Err(Denied::Timeout);
            }
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.owner.signal.load(Ordering::Acquire) == WAITING {
            self.table.withdraw(&self.owner, &self.key, WITHDRAWN);
        }
    }
}

/// The wait of a scan that lets writers pass.
#[derive(Debug)]
#[must_use]
pub(crate) struct WriterWait<'t>(Ticket<'t>);

impl<'t> WriterWait<'t> {
    pub(super) fn new(ticket: Ticket<'t>) -> WriterWait<'t> {
        WriterWait(ticket)
    }

    /// Waits. A scan whose time is over continues as well, and lets no writer pass from then on.
    /// REQUIRES: no latch is held.
    pub(crate) fn wait(self, since: &mut ScanStart, cancel: Option<&CancelFlag>) -> Result<(), Denied> {
        match self.0.wait_for_grant(cancel) {
            Ok(WaitEnd::Granted) => {}
            Ok(WaitEnd::Passed) | Err(Denied::Timeout | Denied::Skipped) => *since = ScanStart::NoYield,
            Err(why @ (Denied::Stopped | Denied::Deadlock | Denied::Full | Denied::Cancelled)) => {
                return Err(why);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn into_ticket(self) -> Ticket<'t> {
        self.0
    }
}
