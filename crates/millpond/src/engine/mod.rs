//! An open page engine: what opening builds, in its order, and the threads that keep it calm: one leads flushes of the
//! log for those who do not wait, one cleans.

mod admission;
mod capacity;
mod cleaner;
mod create;
mod crowd;
mod figures;
mod growth;
mod home;
mod open;
mod outlet;
#[cfg(all(test, feature = "sim"))]
mod sim_tests;
#[cfg(test)]
mod speed;
#[cfg(test)]
pub(crate) mod tests;
mod undoing;

use crate::checkpoint::fuzzy::Checkpointer;
use crate::duty::{self, spawn_engine};
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::recover::standing::Standings;
use crate::reserve::Reserve;
use crate::store::Store;
use crate::txn::Txns;
pub(crate) use admission::Admission;
use base::Lsn;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::{JoinHandle, Mutex, Parker, Unparker};
use capacity::Capacity;
use cleaner::Cleaner;
pub(crate) use create::Paths;
pub(crate) use crowd::{Crowd, Inside};
use growth::Growth;
use metrics::{Force, SyncReason};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
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
/// How long it sleeps after a failure that may pass.
const BACKGROUND_RETRY: Duration = Duration::from_millis(500);
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
    background: Option<Background>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    background_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held until the engine is closed.
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// Wait to become threads.
struct Background {
    /// Reverts and purges.
    purge: Parker,
    /// Grows the pages file.
    growth: Parker,
    /// Keeps the past within its limits.
    history: Parker,
}

/// What the threads share.
struct Shared {
    store: Arc<Store>,
    txns: Arc<Txns>,
    flusher: Mutex<Flusher>,
    checkpointer: Checkpointer,
    /// How transactions stand where the digests of segments have come to; only the cleaner asks.
    standings: Mutex<Standings>,
    admission: Arc<Admission>,
    capacity: Capacity,
    /// What a checkpoint may spend on a full disk.
    reserve: Arc<Reserve>,
    clock: Arc<dyn Clock>,
    /// Calls that are inside.
    crowd: Crowd,
    /// Threads that the cleaner reckons with.
    threads_at_work: AtomicU64,
    opened_us: u64,
    /// The cleaner lets the checkpoint age grow to this before it cleans for the log's sake.
    hold_cleaning_until: u64,
    /// So much replay a crash in its midst repeats at most.
    replay_checkpoint_us: u64,
    stop: AtomicBool,
    /// Reverting, purging and growth end first: they may be waiting for a frame, which the cleaner supplies.
    stop_background: AtomicBool,
    poison: Arc<Poison>,
    log_thread: Unparker,
    cleaner_thread: Unparker,
    background_thread: Unparker,
    growth_thread: Unparker,
    history_thread: Unparker,
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
}

impl Engine {
    /// Starts one of the engine's threads, which ends when the engine stops or is poisoned.
    fn start_one(
        &self,
        name: &str,
        threads: &Mutex<Vec<JoinHandle<()>>>,
        work: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result {
        let shared = Arc::clone(&self.shared);
        let thread = spawn_engine(name, move || {
            let ended = catch_unwind(AssertUnwindSafe(|| work(&shared)));
            if ended.is_err() {
                // Nobody does its work any more. What it held has been let go of.
                shared.poison.set(Error::Misuse("an engine thread panicked".into()));
            }
            shared.dismiss_waiters();
            ended.unwrap_or_else(|panic| resume_unwind(panic));
        });
        let spawn_error = |e| Error::io("start a thread for", Path::new("the engine"), e);
        threads.lock().push(thread.map_err(spawn_error)?);
        Ok(())
    }

    fn start(&mut self, log: Parker, cleaner: Parker) -> Result {
        self.start_one("millpond-log", &self.threads, move |shared| {
            shared.store.log.serve(&log, &shared.stop);
        })?;
        self.start_one("millpond-cleaner", &self.threads, move |shared| {
            let mut state = Cleaner::new();
            while !shared.stop.load(Ordering::Acquire) {
                match shared.clean(&mut state) {
                    Ok(nap_us) => drop(cleaner.park_for(Duration::from_micros(nap_us))),
                    Err(_) if shared.poison.is_set() => return,
                    // A full disk may have room again later.
                    Err(_) => drop(cleaner.park_for(BACKGROUND_RETRY)),
                }
            }
        })
    }

    /// Begins to revert, purge and grow in the background. REQUIRES: all trees are known to `txns`.
    pub(crate) fn start_background(&mut self) -> Result {
        let Some(Background { purge: parker, growth: growth_parker, history }) = self.background.take()
        else {
            return Ok(());
        };
        let txns = Arc::clone(&self.txns);
        self.start_one("millpond-purge", &self.background_threads, move |shared| {
            let mut idle = 0;
            while !shared.stop_background.load(Ordering::Acquire) {
                let mut step = txns.background_step(PURGE_SLICE);
                idle = if matches!(step, Ok(0)) { idle + 1 } else { 0 };
                if idle == NAPS_BEFORE_FLUSH {
                    idle = 0;
                    step = txns.flush_for_purge().map(|()| 0);
                }
                match step {
                    Ok(PURGE_SLICE) => base::sync::point(),
                    // A page that cannot be read may be readable later; a poisoned database is not.
                    Ok(_) => drop(parker.park_for(BACKGROUND_NAP)),
                    Err(_) if shared.poison.is_set() => return,
                    Err(_) => drop(parker.park_for(BACKGROUND_RETRY)),
                }
            }
        })?;
        self.start_one("millpond-growth", &self.background_threads, move |shared| {
            let mut growth = Growth::default();
            while !shared.stop_background.load(Ordering::Acquire) {
                match shared.grow_ahead(&mut growth) {
                    Ok(0) => base::sync::point(),
                    Ok(nap_us) => drop(growth_parker.park_for(Duration::from_micros(nap_us))),
                    Err(_) if shared.poison.is_set() => return,
                    Err(_) => drop(growth_parker.park_for(BACKGROUND_RETRY)),
                }
            }
        })?;
        let txns = Arc::clone(&self.txns);
        self.start_one("millpond-history", &self.background_threads, move |shared| {
            let mut nap = HISTORY_NAP;
            while !shared.stop_background.load(Ordering::Acquire) {
                match txns.history_step() {
                    Ok(true) => {
                        base::sync::point();
                        nap = HISTORY_NAP_BUSY;
                    }
                    Ok(false) => {
                        history.park_for(nap);
                        nap = (2 * nap).min(HISTORY_NAP);
                    }
                    Err(_) if shared.poison.is_set() => return,
                    Err(_) => drop(history.park_for(BACKGROUND_RETRY)),
                }
            }
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
        self.shared.tell_short();
        let checkpoint = advanced?;
        self.shared.give_back(written * 1_000_000 / took_us.max(RATE_US_MIN))?;
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
    pub(crate) fn crowd(&self) -> &Crowd {
        &self.shared.crowd
    }

    /// Threads that are inside now.
    #[cfg(test)]
    pub(crate) fn threads_inside(&self) -> u64 {
        self.shared.threads_inside()
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
        self.shared.stop_background.store(true, Ordering::Release);
        self.shared.background_thread.unpark();
        self.shared.growth_thread.unpark();
        self.shared.history_thread.unpark();
        let background = std::mem::take(&mut *self.background_threads.lock());
        self.join(background);
        self.shared.stop.store(true, Ordering::Release);
        self.shared.log_thread.unpark();
        self.shared.cleaner_thread.unpark();
        let threads = std::mem::take(&mut *self.threads.lock());
        self.join(threads);
    }

    fn join(&self, threads: impl IntoIterator<Item = JoinHandle<()>>) {
        // The last handle on a database may go in the log's thread, with a waker, and a waker may close it; that thread then ends
        // by itself.
        for thread in threads.into_iter().filter(|thread| !thread.is_current()) {
            // A thread's panic has been reported by its own message, and has poisoned the database.
            drop(thread.join());
        }
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
