//! The page engine of an open database, and its background threads: log, cleaner, purge, growth and
//! history (`roster.rs`).

mod admission;
mod adopt;
mod build;
mod bulk_sink;
mod calls;
mod capacity;
mod catch_up;
mod claim;
mod cleaner;
mod create;
mod directory;
mod durable_dir;
mod figures;
mod growth;
mod inspect;
mod moving;
mod open;
mod opening;
mod paths;
mod pool_size;
mod progress_file;
mod protection;
mod purpose;
mod replaying;
mod residence;
mod roster;
#[cfg(all(test, feature = "sim"))]
mod sim_tests;
mod sync_existing;
#[cfg(test)]
pub(crate) mod tests;
mod undo_admission;
mod undo_slice;
mod writers;

use crate::checkpoint::fuzzy::Checkpointer;
use crate::duty;
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::options::{check_lock_memory, check_recovery_target};
use crate::recorder::Recorder;
use crate::reserve::Reserve;
use crate::store::Store;
use crate::txn::Txns;
pub(crate) use admission::Admission;
use admission::Asker;
use base::Lsn;
use base::sync::atomic::AtomicU64;
use base::sync::{Mutex, Parker, ProcessMark};
pub(crate) use calls::{ActiveCall, ActiveCalls};
use capacity::Capacity;
use cleaner::Cleaner;
use directory::Locks;
use growth::Growth;
use metrics::{Force, M, SyncReason};
use moving::Moves;
use pace::heap_trim::HeapTrim;
use pace::innodb::Settings;
pub(crate) use paths::Paths;
use pool_size::PoolSize;
use progress_file::ProgressFile;
use replaying::Replaying;
use roster::{Pause, Roster, Worker};
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;
use writers::PageWriters;

/// Sleep of the purge thread when it has no work.
const BACKGROUND_NAP: Duration = Duration::from_millis(10);
/// Closing on a full disk looks so often for progress of purge, one nap apart.
const LOOKS_AT_CLOSE: u32 = 20;
/// After this many sleeps without work, the purge thread flushes commits that did not wait.
const NAPS_BEFORE_FLUSH: u32 = 100;
/// Sleep of the history thread, unless another thread wakes it.
const HISTORY_NAP: Duration = Duration::from_millis(50);
/// Its first sleep after it has moved undo. Writers that have filled memory before will fill more,
/// and what it moves in small portions is still in the processor's caches.
const HISTORY_NAP_BUSY: Duration = Duration::from_millis(2);
/// A rate measured over a shorter time is too uncertain, microseconds.
const RATE_US_MIN: u64 = 10_000;
/// Ended transactions that the purge thread purges before it checks whether it is to stop.
const PURGE_SLICE: usize = 64;

/// An open page engine.
pub(crate) struct Engine {
    /// Log, pool and space.
    pub(crate) store: Arc<Store>,
    /// The transactions.
    pub(crate) txns: Arc<Txns>,
    /// Whether all data is lost with the process, synced or not.
    pub(crate) ephemeral: bool,
    shared: Arc<Shared>,
    /// The directories' locks, until the engine is closed.
    locks: Arc<Mutex<Locks>>,
    /// The process that has the threads and the locks.
    process: ProcessMark,
}

/// What the background threads and the callers' threads share.
struct Shared {
    store: Arc<Store>,
    txns: Arc<Txns>,
    flusher: Flusher,
    /// The doublewrite is being switched on or off.
    switching: Mutex<()>,
    moves: Moves,
    writers: PageWriters,
    /// The settings of InnoDB's law; `None` under Millpond's (Fl8).
    innodb: Option<Settings>,
    /// False in tests that take the steps of the cleaner themselves.
    has_writers: bool,
    checkpointer: Checkpointer,
    admission: Arc<Admission>,
    capacity: Capacity,
    pool_size: PoolSize,
    /// Disk space that a checkpoint may use when the disk is full.
    reserve: Arc<Reserve>,
    /// The replay of the last run's redo.
    replaying: Replaying,
    progress: ProgressFile,
    clock: Arc<dyn Clock>,
    /// The calls that are in progress.
    calls: ActiveCalls,
    /// The number of active threads as the cleaner estimates it.
    active_threads: AtomicU64,
    opened_us: u64,
    /// The cleaner lets the checkpoint age grow to this before it cleans to free log.
    hold_cleaning_until: u64,
    /// When memory goes back to the system. Only the history thread uses it.
    heap_trim: Mutex<HeapTrim>,
    /// So much of the log an opening may read, bytes.
    head_bytes: u64,
    /// At most this much replay is repeated if recovery crashes, microseconds.
    replay_checkpoint_us: u64,
    /// None without a file, or if it is switched off.
    recorder: Option<Mutex<Recorder>>,
    poison: Arc<Poison>,
    roster: Roster,
}

impl Shared {
    /// Wakes all threads that wait in the engine if the database is poisoned. Each background
    /// thread calls this when it ends, whichever thread failed: others may be inside a call to the
    /// device, and one call of this is enough. The log thread wakes tasks.
    fn wake_waiters_if_poisoned(&self) {
        if self.poison.is_set() {
            self.store.log.wake_all_waiters();
            self.store.pool.wake_frame_waiters();
            self.admission.wake();
            self.txns.locks.stop();
        }
    }

    /// Does one slice of reverting and purging. `idle` counts the steps without work.
    fn purge_step(&self, idle: &mut u32) -> Result<Pause> {
        if self.purge_waits_for_replay() {
            return Ok(Pause::For(BACKGROUND_NAP));
        }
        let step = self.txns.background_step(PURGE_SLICE);
        *idle = if matches!(step, Ok(0)) { *idle + 1 } else { 0 };
        if *idle == NAPS_BEFORE_FLUSH {
            *idle = 0;
            self.txns.flush_for_purge()?;
        }
        Ok(if step? == PURGE_SLICE { Pause::None } else { Pause::For(BACKGROUND_NAP) })
    }

    /// Waits for purge and rollback if a full disk has no reserve: then the last checkpoint would
    /// find no space for the undo of what they have left. Gives up after a fifth of a second
    /// without progress.
    fn finish_purge_on_full_disk(&self) {
        let left = || self.txns.left_in_background();
        let metrics = &self.store.metrics;
        // One transaction may have many rows.
        let done = || metrics.get(M::PurgeRows) + metrics.get(M::RowReverts);
        let (parker, mut last, mut looks) = (Parker::new(), (usize::MAX, done()), 0);
        while left() > 0 && looks < LOOKS_AT_CLOSE && !self.poison.is_set() && self.reserve.hold().is_err() {
            let now = (left().min(last.0), done());
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
            // Purge needs the commits durable. A failure poisons, and closing reports it.
            drop(self.txns.flush_for_purge());
            self.roster.wake(Worker::Purge);
            parker.park_for(BACKGROUND_NAP);
        }
    }

    /// Takes a sample of the metrics if one is due.
    fn record(&self) -> Pause {
        let Some(recorder) = &self.recorder else { return Pause::For(HISTORY_NAP) };
        Pause::us(recorder.lock().step(self.has_spare_space(), || self.metrics()))
    }

    /// Gives freed memory back to the system if [`pace::heap_trim`] says so. The history thread
    /// does this: while memory goes back no writer waits for it, because a writer that finds too
    /// much undo moves it itself.
    fn trim_heap(&self) {
        let in_use = self.txns.past();
        let in_use_bytes = in_use.undo + in_use.status + in_use.locks;
        let now_us = self.clock.now_us();
        let due = self.heap_trim.lock().sample(now_us, in_use_bytes, in_use.budget).is_some();
        if due && self.clock.give_memory_back() {
            let metrics = &self.store.metrics;
            metrics.add(M::HeapTrims, 1);
            metrics.add(M::HeapTrimUsTotal, self.clock.now_us().saturating_sub(now_us));
        }
    }
}

impl Engine {
    /// Starts the threads that supply log space and frames.
    fn start(&self) -> Result {
        for writer in Worker::WRITERS {
            self.shared.start_steps(writer, Shared::writer_step)?;
        }
        self.shared.start(Worker::Log, |shared, parker, stop| shared.store.log.serve(parker, stop))?;
        let mut cleaner = Cleaner::new(self.shared.innodb);
        self.shared.start_steps(Worker::Cleaner, move |shared| shared.clean(&mut cleaner).map(Pause::us))
    }

    /// Starts the threads that revert and purge, grow the file, move history to files, and record
    /// the metrics. REQUIRES: `txns` knows all trees.
    pub(crate) fn start_background(&self) -> Result {
        if self.shared.recorder.is_some() {
            self.shared.start_steps(Worker::Recorder, |shared| Ok(shared.record()))?;
        }
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
            shared.trim_heap();
            if shared.txns.history_step()? {
                nap = HISTORY_NAP_BUSY;
                return Ok(Pause::None);
            }
            let pause = Pause::For(nap);
            nap = (2 * nap).min(HISTORY_NAP);
            Ok(pause)
        })
    }

    /// Waits until the redo of the last run is applied. An error if that is not to be expected now.
    pub(crate) fn finish_replay(&self) -> Result {
        self.shared.finish_replay()
    }

    /// Writes every dirty page and moves the checkpoint to the end of the log. Waits until the redo
    /// of the last run is applied.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        self.shared.finish_replay()?;
        let Shared { clock, store, .. } = &*self.shared;
        let _asked = duty::page_writes();
        let (begun_us, begun) = (clock.now_us(), store.log.reserved_lsn());
        self.shared.drain(Force::Shutdown)?;
        // Writers that were active during the checkpoint will go on.
        let (took_us, written) = (clock.now_us() - begun_us, store.log.reserved_lsn().since(begun));
        let advanced = self.shared.checkpointer.advance(SyncReason::Checkpoint, false);
        self.shared.report_reserve();
        let checkpoint = advanced?;
        self.shared.free_disk_space(written * 1_000_000 / took_us.max(RATE_US_MIN))?;
        self.shared.end_moves()?;
        Ok(checkpoint)
    }

    /// Stops the threads and takes a last checkpoint. A database that is not closed is recovered at
    /// the next open.
    pub(crate) fn close(&self) -> Result {
        // Without it the last checkpoint could not be complete.
        let replayed = if self.ephemeral { Ok(()) } else { self.shared.finish_replay() };
        if !self.ephemeral {
            self.shared.finish_purge_on_full_disk();
        }
        self.stop();
        let _asked = duty::page_writes();
        // Commits that still wait get their result, also if the steps below fail: from here on no
        // other thread leads a flush for them. A failure poisons the database and is reported
        // below.
        let log = &self.shared.store.log;
        drop(log.flush_to(Lsn(log.reserved_lsn().0.saturating_sub(1)), SyncReason::Close));
        // The log thread has ended, or this is the log thread.
        log.wake_tasks();
        if self.ephemeral {
            // It cannot be opened again.
            return self.check_poison();
        }
        let drained = replayed.and_then(|()| self.shared.drain(Force::Shutdown));
        let drained = drained.and_then(|()| self.shared.end_moves());
        let closed =
            drained.and_then(|()| self.shared.checkpointer.advance(SyncReason::Close, true).map(drop));
        // What the last second was like, that of closing included.
        if let Some(recorder) = &self.shared.recorder {
            drop(recorder.lock().sample(self.shared.has_spare_space(), || self.shared.metrics()));
        }
        self.locks.lock().clear();
        closed
    }

    /// Returns the first failed write or sync after which the engine has stopped.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.shared.poison.first()
    }

    /// Returns the error of the first failed write or sync, if there was one.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result {
        self.shared.poison.check()
    }

    /// Admits no more row operations. Those that wait for admission get an error. Rollback and
    /// purge continue until the database is closed.
    pub(crate) fn stop_admission(&self) {
        self.shared.admission.close(Asker::Caller);
    }

    /// Returns the counts of calls in progress.
    pub(crate) fn calls(&self) -> &ActiveCalls {
        &self.shared.calls
    }

    /// Returns the number of threads in calls now.
    #[cfg(test)]
    pub(crate) fn threads_in_calls(&self) -> u64 {
        self.shared.threads_in_calls()
    }

    /// Returns the most memory that was in use at the same time since memory was given back, bytes.
    #[cfg(test)]
    pub(crate) fn heap_kept(&self) -> u64 {
        self.shared.heap_trim.lock().kept()
    }

    /// Returns the admission of row operations.
    pub(crate) fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Changes the redo capacity, bytes. Returns `DiskFull` if the log cannot grow; then the old
    /// size stays. A smaller log takes effect as the checkpoint moves.
    pub(crate) fn set_redo_capacity(&self, bytes: u64) -> Result {
        self.shared.set_redo_capacity(bytes)
    }

    /// Sets another recovery target, from which the redo capacity follows.
    pub(crate) fn set_recovery_target(&self, target: Duration) -> Result {
        if self.ephemeral { check_recovery_target(target) } else { self.shared.set_recovery_target(target) }
    }

    /// Sets how much memory the locks of rows and ranges may take; none: the default.
    pub(crate) fn set_lock_memory(&self, bytes: Option<u64>) -> Result {
        bytes.map_or(Ok(()), check_lock_memory)?;
        self.txns.locks.set_bytes_most(bytes.unwrap_or(self.txns.limits.locks));
        Ok(())
    }

    fn stop(&self) {
        self.shared.admission.close(Asker::Background);
        self.shared.replaying.stop();
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
        if !self.process.is_here() {
            // In a child made by fork there are no threads to join, another thread may have held
            // any mutex, and the locks of the files are those of the parent. So nothing is dropped.
            forget((Arc::clone(&self.store), Arc::clone(&self.txns)));
            forget((Arc::clone(&self.shared), Arc::clone(&self.locks)));
            return;
        }
        self.stop();
        self.locks.lock().clear();
    }
}
