//! Replay beside the callers: the thread that applies the redo of the last run, and those that
//! wait for its end.

use super::disk_space::DiskSpace;
use super::log_size::LogSize;
use super::progress_file::{ProgressFile, Stage};
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Error, Poison, Result};
use crate::recover::apply::{Replay, replay};
use crate::recover::on_demand::pending::Pending;
use crate::tree_store::Store;
use base::Lsn;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{Condvar, Mutex, Parker, Unparker};
use metrics::M;
use pace::capacity::ReplayRate;
use pace::constants::{
    FAILURE_PAUSE_US, REPLAY_HEAD_START_STEP_US, REPLAY_HEAD_START_STEPS, REPLAY_WORKERS_A_CORE,
    REPLAY_WORKERS_MAX,
};
use pace::replay_progress::ReplayView;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// How far the thread has come, and what it works on.
pub(super) struct Replaying {
    state: Mutex<ReplayState>,
    /// The state has changed.
    changed: Condvar,
    /// Ends replay early.
    stop: Arc<AtomicBool>,
    pub(super) progress: ProgressFile,
    parts: ReplayParts,
}

/// What replay works on, and whom it tells.
pub(super) struct ReplayParts {
    pub(super) store: Arc<Store>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) disk: Arc<DiskSpace>,
    pub(super) poison: Arc<Poison>,
    pub(super) clock: Arc<dyn Clock>,
    /// When the database was opened, microseconds.
    pub(super) opened_us: u64,
    pub(super) thread: Unparker,
}

#[derive(Debug, Default)]
struct ReplayState {
    /// A thread has been started and has not ended.
    runs: bool,
    /// How often it has failed.
    failures: u64,
    /// The last failure.
    failed: Option<Error>,
}

/// What replay needs, whenever it is begun again.
#[derive(Debug)]
pub(super) struct ReplayTask {
    pub(super) pending: Arc<Pending>,
    /// Redo that a worker collects in memory before it applies it to pages, bytes.
    pub(super) window_bytes: usize,
    /// Threads that apply redo; 0: so many for each core, and not more than help.
    pub(super) workers: usize,
    /// The rate that earlier recoveries have measured, bytes a second.
    pub(super) rate: u64,
}

impl Replaying {
    pub(super) fn new(progress: ProgressFile, parts: ReplayParts) -> Replaying {
        Replaying {
            state: Mutex::default(),
            changed: Condvar::default(),
            stop: Arc::default(),
            progress,
            parts,
        }
    }

    /// Says that a thread is about to run.
    pub(super) fn begin(&self) {
        self.state.lock().runs = true;
    }

    /// Says that the thread could not be started.
    pub(super) fn not_begun(&self) {
        self.change(|state| state.runs = false);
    }

    /// Whether a try has failed: something could not be read.
    fn has_failed(&self) -> bool {
        self.state.lock().failures > 0
    }

    /// Ends replay as soon as possible. The rest is left to the next opening.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Waits for the end of the thread. An error if it has failed in this time; it will try again.
    fn wait(&self) -> Result {
        let mut state = self.state.lock();
        let before = state.failures;
        while state.runs && state.failures == before {
            self.changed.wait(&mut state);
        }
        if state.runs { state.failed.clone().map_or(Ok(()), Err) } else { Ok(()) }
    }

    fn change(&self, change: impl FnOnce(&mut ReplayState)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }
}

impl Replaying {
    /// Whether reverting and purging wait for the end of replay. They need pages at random places,
    /// and each page that lacks redo would be completed by itself, by reads at random places of the
    /// log (decision 0151). They do not wait if replay cannot go on, or if the disk has no space
    /// but what they free.
    pub(super) fn holds_purge(&self) -> bool {
        self.parts.checkpointer.replaying() && !self.has_failed() && self.parts.disk.has_spare()
    }

    /// Applies the redo of the last run that pages lack. Returns early if it is told to stop.
    pub(super) fn replay(self: &Arc<Self>, task: &ReplayTask) -> Result {
        let begun_us = self.parts.clock.now_us();
        let (from, end) = (self.parts.checkpointer.replayed_lsn(), task.pending.end);
        let told = Arc::clone(self);
        let (redo_bytes, usual_bytes_per_s) = (end.since(from), task.rate);
        let job = Replay {
            pool: Arc::clone(&self.parts.store.pool),
            pending: Arc::clone(&task.pending),
            from,
            window_bytes: task.window_bytes,
            stop: Arc::clone(&self.stop),
            reached: Box::new(move |lsn| {
                told.parts.checkpointer.replayed_to(lsn);
                let left_bytes = end.since(lsn.min(end));
                told.parts.store.metrics.set(M::RecoveryLeftBytes, left_bytes);
                told.progress.tell_replay(|| ReplayView {
                    redo_bytes,
                    left_bytes,
                    elapsed_us: told.parts.clock.now_us().saturating_sub(begun_us),
                    usual_bytes_per_s,
                });
            }),
        };
        let workers = match task.workers {
            0 => (self.parts.clock.cores() as usize * REPLAY_WORKERS_A_CORE).min(REPLAY_WORKERS_MAX),
            some => some,
        };
        if from < end && !replay(job, workers)? {
            return Ok(());
        }
        task.pending.all_done();
        self.parts.checkpointer.replayed_to(Lsn::MAX);
        let now_us = self.parts.clock.now_us();
        self.parts.store.metrics.set(M::RecoveryLeftBytes, 0);
        self.parts.store.metrics.set(M::RecoveryMs, now_us.saturating_sub(self.parts.opened_us) / 1000);
        let mut rate = ReplayRate::new(task.rate);
        rate.observe(end.since(from), now_us.saturating_sub(begun_us));
        self.use_replay_rate(rate.bytes_per_s());
        self.progress.tell(Stage::Done, self.parts.disk.has_spare());
        Ok(())
    }

    /// Remembers how fast this recovery replayed, and sizes the log by it.
    fn use_replay_rate(&self, bytes_per_s: u64) {
        self.parts.store.metrics.set(M::ReplayRate, bytes_per_s);
        self.parts.checkpointer.set_replay_rate(bytes_per_s);
        self.parts.log_size.follow_replay_rate(bytes_per_s);
    }

    /// The thread of replay. A page that cannot be read may be readable later. Damage stays, and
    /// poisons: without the page the checkpoint could never move again.
    pub(super) fn run_beside(self: &Arc<Self>, task: &ReplayTask, parker: &Parker) {
        if task.pending.from < task.pending.end {
            let step = Duration::from_micros(REPLAY_HEAD_START_STEP_US);
            for _ in 0..REPLAY_HEAD_START_STEPS {
                if parker.park_for(step) || task.pending.is_crowded() {
                    break;
                }
            }
        }
        self.replay_again(task, parker);
    }

    /// Replays until it has succeeded, or cannot.
    fn replay_again(self: &Arc<Self>, task: &ReplayTask, parker: &Parker) {
        while let Err(error) = self.replay(task) {
            if self.parts.poison.is_set() || self.stop.load(Ordering::Acquire) {
                break;
            }
            if matches!(error, Error::Corrupt { .. }) {
                self.parts.poison.set(error);
                break;
            }
            self.change(|state| {
                state.failures += 1;
                state.failed = Some(error);
            });
            parker.park_for(Duration::from_micros(FAILURE_PAUSE_US));
        }
        self.change(|state| state.runs = false);
    }

    /// Waits until no page lacks redo of the last run. An error if that is not to be expected now:
    /// the database is poisoned, or something cannot be read.
    pub(super) fn finish(&self) -> Result {
        // It may be in its head start, or wait to try again.
        self.parts.thread.unpark();
        self.wait()?;
        self.parts.poison.check()?;
        if self.parts.checkpointer.replaying() {
            return Err(Error::Misuse("the database was stopped before all redo was applied".into()));
        }
        Ok(())
    }
}
