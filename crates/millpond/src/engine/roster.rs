//! The roster: the engine's background threads, and how each starts, sleeps, is woken, panics and
//! stops.
//!
//! A background thread repeats one *step*. The step does a bounded piece of work and returns how
//! long the thread may sleep. Between steps the thread checks whether it is to stop. An error that
//! may pass (a full disk, a page that cannot be read) makes it sleep for a while; once the database
//! is poisoned it ends. A panic poisons the database.

use super::waiters::Waiters;
use crate::error::{Error, Result};
use crate::role::spawn_engine;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{JoinHandle, Mutex, Parker, Unparker};
use pace::constants::{FAILURE_PAUSE_US, PAGE_WRITERS};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A background thread of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// Leads flushes of the log for commits that do not wait.
    Log,
    /// Says which dirty pages are written, moves the checkpoint, keeps the segments.
    Cleaner,
    /// Writes dirty pages, as another one does at the same time.
    FirstWriter,
    SecondWriter,
    /// Reverts and purges.
    Purge,
    /// Applies the redo of the last run.
    Replay,
    /// Grows the pages file.
    Growth,
    /// Keeps history within its limits.
    History,
    /// Writes the metrics to a file, now and then.
    Recorder,
}

impl Worker {
    const ALL: [Worker; 9] = [
        Worker::Log,
        Worker::Cleaner,
        Worker::FirstWriter,
        Worker::SecondWriter,
        Worker::Purge,
        Worker::Replay,
        Worker::Growth,
        Worker::History,
        Worker::Recorder,
    ];

    /// The page writers: as many as `pace` counts, and one for each area of the doublewrite.
    pub(super) const WRITERS: [Worker; PAGE_WRITERS] = [Worker::FirstWriter, Worker::SecondWriter];

    /// Whether the thread asks for a core as soon as the device has answered: what it does next
    /// lets writers go on (decision 0176).
    fn is_prompt(self) -> bool {
        matches!(self, Worker::Cleaner | Worker::FirstWriter | Worker::SecondWriter)
    }

    fn name(self) -> &'static str {
        match self {
            Worker::Log => "millpond-log",
            Worker::Cleaner => "millpond-cleaner",
            Worker::FirstWriter => "millpond-page-1",
            Worker::SecondWriter => "millpond-page-2",
            Worker::Purge => "millpond-purge",
            Worker::Replay => "millpond-replay",
            Worker::Growth => "millpond-growth",
            Worker::History => "millpond-history",
            Worker::Recorder => "millpond-recorder",
        }
    }

    /// The stage of closing in which the thread ends. A thread of the first stage may be waiting
    /// for a frame or for the log, which the threads of the second stage supply.
    fn stage(self) -> Stage {
        match self {
            Worker::Purge | Worker::Replay | Worker::Growth | Worker::History | Worker::Recorder => {
                Stage::First
            }
            Worker::Log | Worker::Cleaner | Worker::FirstWriter | Worker::SecondWriter => Stage::Second,
        }
    }
}

/// The order in which threads end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    First,
    Second,
}

/// How a thread waits between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Not at all: there is more work.
    None,
    /// Sleeps for this time, unless it is woken.
    For(Duration),
}

impl Pause {
    pub(super) fn us(us: u64) -> Pause {
        Pause::For(Duration::from_micros(us))
    }
}

#[derive(Debug)]
struct WorkerSlot {
    /// Until the thread starts.
    parker: Mutex<Option<Parker>>,
    unparker: Unparker,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// All background threads of an engine.
#[derive(Debug)]
pub(super) struct Roster {
    slots: [WorkerSlot; Worker::ALL.len()],
    stop_first: AtomicBool,
    stop_second: AtomicBool,
}

impl Roster {
    /// Returns a roster of threads that have not started.
    pub(super) fn new() -> Roster {
        let slot = |_| {
            let parker = Parker::new();
            let unparker = parker.unparker();
            WorkerSlot { parker: Mutex::new(Some(parker)), unparker, handle: Mutex::default() }
        };
        Roster {
            slots: std::array::from_fn(slot),
            stop_first: AtomicBool::new(false),
            stop_second: AtomicBool::new(false),
        }
    }

    fn slot(&self, worker: Worker) -> &WorkerSlot {
        &self.slots[worker as usize]
    }

    /// Returns what wakes the thread, from now on, also before it starts.
    pub(super) fn unparker(&self, worker: Worker) -> Unparker {
        self.slot(worker).unparker.clone()
    }

    /// Returns the unparkers of all threads.
    pub(super) fn unparkers(&self) -> Vec<Unparker> {
        Worker::ALL.map(|worker| self.unparker(worker)).into()
    }

    /// Wakes the thread, or makes its next sleep end at once.
    pub(super) fn wake(&self, worker: Worker) {
        self.slot(worker).unparker.unpark();
    }

    fn stop_flag(&self, stage: Stage) -> &AtomicBool {
        match stage {
            Stage::First => &self.stop_first,
            Stage::Second => &self.stop_second,
        }
    }

    /// Stops all threads, stage by stage, and waits for their ends.
    pub(super) fn stop(&self) {
        for stage in [Stage::First, Stage::Second] {
            self.stop_flag(stage).store(true, Ordering::Release);
            let members = || Worker::ALL.into_iter().filter(|worker| worker.stage() == stage);
            members().for_each(|worker| self.wake(worker));
            let handles: Vec<_> =
                members().filter_map(|worker| self.slot(worker).handle.lock().take()).collect();
            self.join(handles);
        }
    }

    fn join(&self, threads: Vec<JoinHandle<()>>) {
        // A waker may close the database in the log thread, by dropping the last handle. That
        // thread ends by itself later.
        for thread in threads.into_iter().filter(|thread| !thread.is_current()) {
            // A panic has been reported by its own message, and has poisoned the database.
            drop(thread.join());
        }
    }
}

impl Roster {
    /// Starts a thread that runs `work` once. Does nothing if it was started before.
    pub(super) fn start(
        self: &Arc<Self>,
        worker: Worker,
        waiters: &Arc<Waiters>,
        work: impl FnOnce(&Parker, &AtomicBool) + Send + 'static,
    ) -> Result {
        let slot = self.slot(worker);
        let Some(parker) = slot.parker.lock().take() else { return Ok(()) };
        let (roster, waiters) = (Arc::clone(self), Arc::clone(waiters));
        let thread = spawn_engine(worker.name(), move || {
            if worker.is_prompt() {
                base::schedule::run_promptly();
            }
            let stop = roster.stop_flag(worker.stage());
            let ended = catch_unwind(AssertUnwindSafe(|| work(&parker, stop)));
            if ended.is_err() {
                // No other thread does its work. What it held has been released.
                waiters.poison.set(Error::Misuse("an engine thread panicked".into()));
            }
            waiters.wake_if_poisoned();
            ended.unwrap_or_else(|panic| resume_unwind(panic));
        });
        let spawn_error = |e| Error::io("start a thread for", Path::new("the engine"), e);
        *slot.handle.lock() = Some(thread.map_err(spawn_error)?);
        Ok(())
    }

    /// Starts a thread that repeats `step` until it is to stop or the database is poisoned.
    pub(super) fn start_steps(
        self: &Arc<Self>,
        worker: Worker,
        waiters: &Arc<Waiters>,
        mut step: impl FnMut() -> Result<Pause> + Send + 'static,
    ) -> Result {
        let poison = Arc::clone(&waiters.poison);
        self.start(worker, waiters, move |parker, stop| {
            while !stop.load(Ordering::Acquire) {
                match step() {
                    Ok(Pause::None) => base::sync::point(),
                    Ok(Pause::For(time)) => drop(parker.park_for(time)),
                    Err(_) if poison.is_set() => return,
                    // A full disk may have space later, and the page may become readable.
                    Err(_) => drop(parker.park_for(Duration::from_micros(FAILURE_PAUSE_US))),
                }
            }
        })
    }
}
