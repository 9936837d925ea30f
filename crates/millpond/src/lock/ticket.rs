//! A place in a queue, and the wait for its turn.

use super::key::LockKey;
use super::{Denied, LockTable, Owner};
use base::sync::atomic::Ordering;
use base::sync::futex_wait;
use std::sync::Arc;
use std::time::Duration;

// How a wait stands: the word that the waiting thread sleeps on.
pub(super) const WAITING: u32 = 1;
pub(super) const GRANTED: u32 = 2;
pub(super) const DEADLOCK: u32 = 3;
pub(super) const STOPPED: u32 = 4;
pub(super) const WITHDRAWN: u32 = 5;
/// Nothing was granted, and it goes on all the same: a scan passes those that it let go first.
pub(super) const PASSED: u32 = 6;

/// How a wait ended that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// What was waited for has come.
    Come,
    /// It has not and is waited for no more.
    Passed,
}

/// A request that stands in its queue. Dropping it without waiting withdraws it.
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
    pub(crate) fn wait(self) -> Result<(), Denied> {
        self.wait_for_turn().map(drop)
    }

    /// The same for a scan that lets others go first. REQUIRES: no latch is held.
    pub(super) fn wait_for_turn(self) -> Result<Turn, Denied> {
        let limit_us = u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX);
        let begun_us = self.table.clock.now_us();
        self.table.break_cycles(&self.owner, begun_us);
        let deadline = begun_us.saturating_add(limit_us);
        loop {
            match self.owner.signal.load(Ordering::Acquire) {
                WAITING => {}
                GRANTED => return Ok(Turn::Come),
                PASSED => return Ok(Turn::Passed),
                DEADLOCK => return Err(Denied::Deadlock),
                STOPPED => return Err(Denied::Stopped),
                other => unreachable!("a wait in state {other}"),
            }
            let left_us = deadline.saturating_sub(self.table.clock.now_us());
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
