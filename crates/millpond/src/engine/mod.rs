//! An open page engine: what opening builds, in its order, and the threads that keep it calm: one leads flushes of the
//! log for those who do not wait, one cleans.

mod admission;
mod adopt;
mod build;
mod bulk_sink;
mod calls;
mod capacity;
mod catch_up;
mod cleaner;
mod create;
mod directory;
mod figures;
mod growth;
mod open;
mod roster;
#[cfg(all(test, feature = "sim"))]
mod sim_tests;
#[cfg(test)]
pub(crate) mod tests;
mod undo_admission;

use crate::checkpoint::fuzzy::Checkpointer;
use crate::duty;
use crate::error::{Poison, Result};
use crate::flush::batch::Flusher;
use crate::recover::txn_table::TxnTable;
use crate::reserve::Reserve;
use crate::store::Store;
use crate::txn::Txns;
pub(crate) use admission::Admission;
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::AtomicU64;
pub(crate) use calls::{ActiveCall, ActiveCalls};
use capacity::Capacity;
use cleaner::Cleaner;
pub(crate) use create::Paths;
use growth::Growth;
use metrics::{Force, SyncReason};
use roster::{Pause, Roster, Worker};
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// How long the thread that purges sleeps when nothing is due.
const BACKGROUND_NAP: Duration = Duration::from_millis(10);
/// How often it finds nothing due before it makes durable what commits have left to others.
const NAPS_BEFORE_FLUSH: u32 = 100;
/// How long the thread that keeps the past within its limits sleeps unless somebody wakes it.
const HISTORY_NAP: Duration = Duration::from_millis(50);
/// The first time after something was moved: writers that have filled memory so far go on, and small portions find what they
/// move in the processor's caches.
const HISTORY_NAP_BUSY: Duration = Duration::from_millis(2);
/// A rate that is measured over less says nothing, microseconds.
const RATE_US_MIN: u64 = 10_000;
/// Ended transactions that it purges before it looks whether it is to stop.
const PURGE_SLICE: usize = 64;

/// An open page engine.
pub(crate) struct Engine {
    /// What trees work on.
    pub(crate) store: Arc<Store>,
    /// Who works on it.
    pub(crate) txns: Arc<Txns>,
    /// Whether what is synced outlives a power cut.
    pub(crate) durable: bool,
    /// Whether nothing outlives the process, synced or not.
    pub(crate) ephemeral: bool,
    shared: Arc<Shared>,
    /// Held until the engine is closed.
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// What the threads share.
struct Shared {
    store: Arc<Store>,
    txns: Arc<Txns>,
    flusher: Mutex<Flusher>,
    checkpointer: Checkpointer,
    /// How transactions stand where the digests of segments have come to; only the cleaner asks.
    txn_table: Mutex<TxnTable>,
    admission: Arc<Admission>,
    capacity: Capacity,
    /// What a checkpoint may spend on a full disk.
    reserve: Arc<Reserve>,
    clock: Arc<dyn Clock>,
    /// Calls that are inside.
    calls: ActiveCalls,
    /// Threads that the cleaner reckons with.
    active_threads: AtomicU64,
    opened_us: u64,
    /// The cleaner lets the checkpoint age grow to this before it cleans for the log's sake.
    hold_cleaning_until: u64,
    /// So much replay a crash in its midst repeats at most.
    replay_checkpoint_us: u64,
    poison: Arc<Poison>,
    roster: Roster,
}

impl Shared {
    /// Sends everybody away who waits in the engine, if the database is poisoned. Each of the engine's threads does so as it ends,
    /// whoever failed: any of them may be in the midst of a call to the device, and one is enough. Tasks hear from the log thread.
    fn dismiss_waiters(&self) {
        if self.poison.is_set() {
            self.store.log.wake_all_waiters();
            self.store.pool.wake_frame_waiters();
            self.admission.wake();
            self.txns.locks.stop();
        }
    }

    /// One slice of reverting and purging. `idle` counts the steps in which nothing was due.
    fn purge_step(&self, idle: &mut u32) -> Result<Pause> {
        let step = self.txns.background_step(PURGE_SLICE);
        *idle = if matches!(step, Ok(0)) { *idle + 1 } else { 0 };
        if *idle == NAPS_BEFORE_FLUSH {
            *idle = 0;
            self.txns.flush_for_purge()?;
        }
        Ok(if step? == PURGE_SLICE { Pause::None } else { Pause::For(BACKGROUND_NAP) })
    }
}

impl Engine {
    /// Starts the threads that supply log space and frames.
    fn start(&self) -> Result {
        self.shared.start(Worker::Log, |shared, parker, stop| shared.store.log.serve(parker, stop))?;
        let mut cleaner = Cleaner::new();
        self.shared.start_steps(Worker::Cleaner, move |shared| shared.clean(&mut cleaner).map(Pause::us))
    }

    /// Begins to revert, purge and grow in the background. REQUIRES: all trees are known to `txns`.
    pub(crate) fn start_background(&self) -> Result {
        let mut idle = 0;
        self.shared.start_steps(Worker::Purge, move |shared| shared.purge_step(&mut idle))?;
        let mut growth = Growth::default();
        self.shared.start_steps(Worker::Growth, move |shared| {
            Ok(match shared.grow_ahead(&mut growth)? {
                0 => Pause::None,
                nap_us => Pause::us(nap_us),
            })
        })?;
        let mut nap = HISTORY_NAP;
        self.shared.start_steps(Worker::History, move |shared| {
            if shared.txns.history_step()? {
                nap = HISTORY_NAP_BUSY;
                return Ok(Pause::None);
            }
            let pause = Pause::For(nap);
            nap = (2 * nap).min(HISTORY_NAP);
            Ok(pause)
        })
    }

    /// Writes every dirty page and moves the checkpoint to the log's end.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        let Shared { clock, store, .. } = &*self.shared;
        let _asked = duty::page_writes();
        let (begun_us, begun) = (clock.now_us(), store.log.reserved_lsn());
        self.shared.drain(Force::Shutdown)?;
        // Whoever writes while the caller waits here will go on.
        let (took_us, written) = (clock.now_us() - begun_us, store.log.reserved_lsn().since(begun));
        let advanced = self.shared.checkpointer.advance(SyncReason::Checkpoint, false);
        self.shared.report_reserve();
        let checkpoint = advanced?;
        self.shared.free_disk_space(written * 1_000_000 / took_us.max(RATE_US_MIN))?;
        Ok(checkpoint)
    }

    /// Ends the threads and takes a last checkpoint. What is not closed is recovered at the next open.
    pub(crate) fn close(&self) -> Result {
        self.stop();
        let _asked = duty::page_writes();
        // Whoever still awaits a commit hears of it, also where nothing below succeeds: nobody leads for it from here on. A
        // failure poisons, and is told below.
        let log = &self.shared.store.log;
        drop(log.flush_to(Lsn(log.reserved_lsn().0.saturating_sub(1)), SyncReason::Close));
        // The log thread has ended, or is this one.
        log.wake_tasks();
        if self.ephemeral {
            // Nobody will open it again.
            return self.check_poison();
        }
        let drained = self.shared.drain(Force::Shutdown);
        let closed =
            drained.and_then(|()| self.shared.checkpointer.advance(SyncReason::Close, true).map(drop));
        *self.lock.lock() = None;
        closed
    }

    /// Fails once a write or sync has failed.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result {
        self.shared.poison.check()
    }

    /// Lets no operation in any more; those that wait for admission hear of it.
    pub(crate) fn stop_admission(&self) {
        self.shared.admission.close();
    }

    /// Where calls are counted.
    pub(crate) fn calls(&self) -> &ActiveCalls {
        &self.shared.calls
    }

    /// Threads that are inside now.
    #[cfg(test)]
    pub(crate) fn threads_in_calls(&self) -> u64 {
        self.shared.threads_in_calls()
    }

    /// Where row operations ask to be let in.
    pub(crate) fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Changes the redo capacity, bytes. `DiskFull` if it cannot grow: then the old size stays. A smaller log takes
    /// effect as the checkpoint moves.
    pub(crate) fn set_redo_capacity(&self, bytes: u64) -> Result {
        self.shared.set_redo_capacity(bytes)
    }

    fn stop(&self) {
        self.shared.admission.close();
        self.shared.roster.stop();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({:?})", self.store.log)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
