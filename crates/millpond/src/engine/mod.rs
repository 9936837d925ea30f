//! An open page engine: what opening builds, in its order, and the threads that keep it calm: one leads flushes of the
//! log for those who do not wait, one cleans.

mod admission;
mod capacity;
mod cleaner;
mod create;
mod figures;
mod open;
#[cfg(all(test, feature = "sim"))]
mod sim_tests;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;

use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::store::Store;
pub(crate) use admission::{Admission, Admitted};
use base::Lsn;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{JoinHandle, Mutex, Parker, Unparker, spawn};
use capacity::Capacity;
use cleaner::Cleaner;
use metrics::{Force, SyncReason};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// How long the cleaner sleeps when nobody wakes it.
const CLEANER_NAP: Duration = Duration::from_millis(10);
/// An open page engine.
pub(crate) struct Engine {
    /// What trees work on.
    pub(crate) store: Arc<Store>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Send + Sync>,
}

/// What the threads share.
struct Shared {
    store: Arc<Store>,
    flusher: Mutex<Flusher>,
    checkpointer: Checkpointer,
    admission: Admission,
    capacity: Capacity,
    clock: Arc<dyn Clock>,
    opened_us: u64,
    /// The cleaner lets the checkpoint age grow to this before it cleans for the log's sake.
    hold_cleaning_until: u64,
    stop: AtomicBool,
    poison: Arc<Poison>,
    log_thread: Unparker,
    cleaner_thread: Unparker,
}

impl Engine {
    fn start(&mut self, log: Parker, cleaner: Parker) -> Result {
        let spawn_error = |e| Error::io("start a thread for", Path::new("the engine"), e);
        let shared = Arc::clone(&self.shared);
        let log = spawn("millpond-log", move || {
            while !shared.stop.load(Ordering::Acquire) {
                match shared.store.log.lead_if_wanted() {
                    Ok(true) => {}
                    Ok(false) => log.park(),
                    Err(_) => return,
                }
            }
        });
        self.threads.push(log.map_err(spawn_error)?);
        let shared = Arc::clone(&self.shared);
        let cleaner = spawn("millpond-cleaner", move || {
            let mut state = Cleaner::new();
            while !shared.stop.load(Ordering::Acquire) {
                match shared.clean(&mut state) {
                    Ok(nap_us) => drop(cleaner.park_for(Duration::from_micros(nap_us))),
                    Err(_) => {
                        shared.admission.wake();
                        return shared.store.pool.wake_frame_waiters();
                    }
                }
            }
        });
        self.threads.push(cleaner.map_err(spawn_error)?);
        Ok(())
    }

    /// Writes every dirty page and moves the checkpoint to the log's end.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        self.shared.drain(Force::Shutdown)?;
        self.shared.checkpointer.advance(SyncReason::Checkpoint, false)
    }

    /// Ends the threads and takes a last checkpoint. What is not closed is recovered at the next open.
    pub(crate) fn close(mut self) -> Result {
        self.stop();
        let drained = self.shared.drain(Force::Shutdown);
        drained.and_then(|()| self.shared.checkpointer.advance(SyncReason::Close, true).map(drop))
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

    fn stop(&mut self) {
        self.shared.admission.close();
        self.shared.stop.store(true, Ordering::Release);
        self.shared.log_thread.unpark();
        self.shared.cleaner_thread.unpark();
        for thread in self.threads.drain(..) {
            // A thread's panic has been reported by its own message and shows as an engine that no longer moves.
            if thread.join().is_err() {
                let first = Error::Misuse("an engine thread panicked".into());
                self.shared.poison.set(first);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
