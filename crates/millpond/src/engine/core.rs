//! The page engine of an open database: its threads, its checkpoint and its end.

use super::admission::{Admission, Asker};
use super::calls::ActiveCalls;
use super::cleaner::{Cleaner, CleanerParts};
use super::directory::Locks;
use super::growth::Growth;
use super::history_keeping;
use super::parts::Parts;
use super::recording::Recording;
use super::roster::{Pause, Worker};
use super::switches::Switches;
use crate::error::{Error, Poison, Result};
use crate::role;
use crate::tree_store::Store;
use crate::txn::Txns;
use base::Lsn;
use base::sync::{Mutex, ProcessStamp};
use metrics::{Force, Snapshot, SyncReason};
use pace::constants::LOG_RATE_US_MIN;
use std::mem::forget;
use std::sync::Arc;

/// An open page engine.
pub(crate) struct Engine {
    /// Log, pool and space.
    pub(crate) store: Arc<Store>,
    /// The transactions.
    pub(crate) txns: Arc<Txns>,
    /// Whether all data is lost with the process, synced or not.
    pub(crate) ephemeral: bool,
    /// The calls that are in progress.
    pub(super) calls: ActiveCalls,
    pub(super) admission: Arc<Admission>,
    pub(super) poison: Arc<Poison>,
    pub(super) parts: Arc<Parts>,
    /// The directories' locks, until the engine is closed.
    pub(super) locks: Arc<Mutex<Locks>>,
    /// The process that has the threads and the locks.
    pub(super) process: ProcessStamp,
}

impl Engine {
    /// Starts the threads that supply log space and frames.
    pub(super) fn start(&self) -> Result {
        let Parts { roster, waiters, cleaner, .. } = &*self.parts;
        for writer in Worker::WRITERS {
            let writers = Arc::clone(&cleaner.writers);
            roster.start_steps(writer, waiters, move || writers.step())?;
        }
        let store = Arc::clone(&self.store);
        roster.start(Worker::Log, waiters, move |parker, stop| store.log.serve(parker, stop))?;
        let mut cleaner = Cleaner::new(cleaner);
        roster.start_steps(Worker::Cleaner, waiters, move || cleaner.step().map(Pause::us))
    }

    /// Starts the threads that revert and purge, grow the file, move history to files, and record
    /// the metrics. REQUIRES: `txns` knows all trees.
    pub(crate) fn start_background(&self) -> Result {
        let Parts { roster, waiters, cleaner, .. } = &*self.parts;
        if self.parts.recording.is_some() {
            let parts = Arc::clone(&self.parts);
            let record = move || Ok(parts.recording.as_ref().map_or(Pause::None, Recording::step));
            roster.start_steps(Worker::Recorder, waiters, record)?;
        }
        let (purging, mut idle) = (self.parts.purging.clone(), 0);
        roster.start_steps(Worker::Purge, waiters, move || purging.step(&mut idle))?;
        let mut growth = Growth::new(&self.store, &self.poison, &cleaner.clock);
        roster.start_steps(Worker::Growth, waiters, move || growth.step())?;
        let (parts, mut nap) = (Arc::clone(&self.parts), history_keeping::NAP);
        roster.start_steps(Worker::History, waiters, move || parts.history.step(&mut nap))
    }

    /// Waits until the redo of the last run is applied. An error if that is not to be expected now.
    pub(crate) fn finish_replay(&self) -> Result {
        self.parts.replaying.finish()
    }

    /// Writes every dirty page and moves the checkpoint to the end of the log. Waits until the redo
    /// of the last run is applied.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        self.finish_replay()?;
        let CleanerParts { clock, store, writers, checkpoints, disk, log_size, .. } = &self.parts.cleaner;
        let _asked = role::page_writes();
        let (begun_us, begun) = (clock.now_us(), store.log.reserved_lsn());
        writers.drain(Force::Shutdown)?;
        // Writers that were active during the checkpoint will go on.
        let (took_us, written) = (clock.now_us() - begun_us, store.log.reserved_lsn().since(begun));
        let advanced = checkpoints.take(SyncReason::Checkpoint, false);
        disk.report();
        let checkpoint = advanced?;
        log_size.free_disk_space(written * 1_000_000 / took_us.max(LOG_RATE_US_MIN))?;
        checkpoints.finish_moves()?;
        Ok(checkpoint)
    }

    /// Stops the threads and takes a last checkpoint. A database that is not closed is recovered at
    /// the next open.
    pub(crate) fn close(&self) -> Result {
        // Without it the last checkpoint could not be complete.
        let replayed = if self.ephemeral { Ok(()) } else { self.finish_replay() };
        if !self.ephemeral {
            self.parts.purging.finish_on_full_disk();
        }
        self.stop();
        let _asked = role::page_writes();
        // Commits that still wait get their result, also if the steps below fail: from here on no
        // other thread leads a flush for them. A failure poisons the database and is reported
        // below.
        let log = &self.store.log;
        drop(log.flush_to(Lsn(log.reserved_lsn().0.saturating_sub(1)), SyncReason::Close));
        // The log thread has ended, or this is the log thread.
        log.wake_tasks();
        if self.ephemeral {
            // It cannot be opened again.
            return self.check_poison();
        }
        let CleanerParts { writers, checkpoints, .. } = &self.parts.cleaner;
        let drained = replayed.and_then(|()| writers.drain(Force::Shutdown));
        let drained = drained.and_then(|()| checkpoints.finish_moves());
        let closed = drained.and_then(|()| checkpoints.take(SyncReason::Close, true).map(drop));
        self.parts.recording.iter().for_each(Recording::take_last_sample);
        self.locks.lock().clear();
        closed
    }

    /// Returns the first failed write or sync after which the engine has stopped.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.poison.first()
    }

    /// Returns the error of the first failed write or sync, if there was one.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result {
        self.poison.check()
    }

    /// Admits no more row operations. Those that wait for admission get an error. Rollback and
    /// purge continue until the database is closed.
    pub(crate) fn stop_admission(&self) {
        self.admission.close(Asker::Caller);
    }

    /// Returns the counts of calls in progress.
    pub(crate) fn calls(&self) -> &ActiveCalls {
        &self.calls
    }

    /// Returns the admission of row operations.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Returns what can be changed while the database is open.
    pub(crate) fn switches(&self) -> &Switches {
        &self.parts.switches
    }

    /// Records that the database is open: the first transaction may begin.
    pub(crate) fn note_open(&self) {
        self.parts.figures.note_open();
    }

    /// Returns all metrics, with levels as they are now.
    pub(crate) fn metrics(&self) -> Snapshot {
        self.parts.figures.read()
    }

    fn stop(&self) {
        self.admission.close(Asker::Background);
        self.parts.replaying.stop();
        self.parts.roster.stop();
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
            forget((Arc::clone(&self.parts), Arc::clone(&self.locks)));
            return;
        }
        self.stop();
        self.locks.lock().clear();
    }
}
