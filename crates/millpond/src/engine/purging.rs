//! The thread that reverts and purges (purge): when it works, and how much at once.

use super::disk_space::DiskSpace;
use super::replaying::Replaying;
use super::roster::Pause;
use crate::error::{Poison, Result};
use crate::tree_store::Store;
use crate::txn::Txns;
use base::sync::{Parker, Unparker};
use metrics::M;
use pace::constants::FULL_DISK_NO_PROGRESS_US;
use std::sync::Arc;
use std::time::Duration;

/// Sleep of the thread when it has no work, microseconds.
const NAP_US: u64 = 10_000;
/// The same as a duration.
const NAP: Duration = Duration::from_micros(NAP_US);
/// Closing on a full disk looks so often for progress of purge, one nap apart. It waits as long for
/// that as an operation does.
const LOOKS_AT_CLOSE: u32 = (FULL_DISK_NO_PROGRESS_US / NAP_US) as u32;
/// After this many sleeps without work (a second), the thread flushes commits that did not wait.
const NAPS_BEFORE_FLUSH: u32 = 100;
/// Ended transactions that the thread purges before it checks whether it is to stop.
const SLICE: usize = 64;

/// What reverting and purging depend on.
#[derive(Clone)]
pub(super) struct Purging {
    store: Arc<Store>,
    txns: Arc<Txns>,
    replaying: Arc<Replaying>,
    disk: Arc<DiskSpace>,
    poison: Arc<Poison>,
    thread: Unparker,
}

impl Purging {
    /// Purging by a thread that `thread` wakes.
    pub(super) fn new(
        (store, txns): (&Arc<Store>, &Arc<Txns>),
        replaying: &Arc<Replaying>,
        disk: &Arc<DiskSpace>,
        poison: &Arc<Poison>,
        thread: Unparker,
    ) -> Purging {
        Purging {
            store: Arc::clone(store),
            txns: Arc::clone(txns),
            replaying: Arc::clone(replaying),
            disk: Arc::clone(disk),
            poison: Arc::clone(poison),
            thread,
        }
    }

    /// Does one slice of reverting and purging. `idle` counts the steps without work.
    pub(super) fn step(&self, idle: &mut u32) -> Result<Pause> {
        if self.replaying.holds_purge() {
            return Ok(Pause::For(NAP));
        }
        let step = self.txns.background().step(SLICE);
        *idle = if matches!(step, Ok(0)) { *idle + 1 } else { 0 };
        if *idle == NAPS_BEFORE_FLUSH {
            *idle = 0;
            self.txns.background().flush_for_purge()?;
        }
        Ok(if step? == SLICE { Pause::None } else { Pause::For(NAP) })
    }

    /// Waits for purge and rollback if a full disk has no ballast: then the last checkpoint would
    /// find no space for the undo of what they have left. Gives up after a fifth of a second
    /// without progress.
    pub(super) fn finish_on_full_disk(&self) {
        let left = || self.txns.background().left();
        let metrics = &self.store.metrics;
        // One transaction may have many rows.
        let done = || metrics.get(M::PurgeRows) + metrics.get(M::RowReverts);
        let (parker, mut last, mut looks) = (Parker::new(), (usize::MAX, done()), 0);
        let is_full = || self.disk.ballast.hold().is_err();
        while left() > 0 && looks < LOOKS_AT_CLOSE && !self.poison.is_set() && is_full() {
            let now = (left().min(last.0), done());
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
            // Purge needs the commits durable. A failure poisons, and closing reports it.
            drop(self.txns.background().flush_for_purge());
            self.thread.unpark();
            parker.park_for(NAP);
        }
    }
}
