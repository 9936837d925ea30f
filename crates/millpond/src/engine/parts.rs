//! The parts of an engine that have threads, or that callers change, and how they are put together.
//! Each does its own work and knows only the parts that it uses.

use super::admission::Admission;
use super::call_threads::CallThreads;
use super::calls::ActiveCalls;
use super::capacity::Capacity;
use super::checkpoints::{CheckpointParts, CheckpointTimes, Checkpoints};
use super::cleaner::CleanerParts;
use super::directory::Locks;
use super::disk_space::DiskSpace;
use super::figures::Figures;
use super::history_keeping::HistoryKeeping;
use super::law_in_use::LawInUse;
use super::log_size::{LogSize, LogSizeParts};
use super::moves::{MovedParts, Moves};
use super::opening::Opening;
use super::pool_size::PoolSize;
use super::progress_file::ProgressFile;
use super::protection::ProtectionSwitch;
use super::purging::Purging;
use super::recording::Recording;
use super::replaying::{ReplayParts, Replaying};
use super::roster::{Roster, Worker};
use super::switches::Switches;
use super::waiters::Waiters;
use super::writers::PageWriters;
use crate::ballast::Ballast;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::Poison;
use crate::flush::batch::Flusher;
use crate::recorder::Recorder;
use crate::tree_store::Store;
use crate::txn::Txns;
use base::sync::{Mutex, Unparker};
use pace::heap_trim::HeapTrim;
use std::sync::Arc;
use vfs::Clock;

/// The parts.
pub(super) struct Parts {
    pub(super) flusher: Arc<Flusher>,
    pub(super) cleaner: CleanerParts,
    pub(super) replaying: Arc<Replaying>,
    pub(super) purging: Purging,
    pub(super) history: HistoryKeeping,
    pub(super) switches: Switches,
    pub(super) figures: Arc<Figures>,
    /// None without a file, or if it is switched off.
    pub(super) recording: Option<Recording>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) roster: Arc<Roster>,
}

/// What the parts stand on.
pub(super) struct Ground<'o> {
    pub(super) opening: &'o Opening<'o>,
    pub(super) roster: Arc<Roster>,
    pub(super) store: Arc<Store>,
    pub(super) txns: Arc<Txns>,
    pub(super) flusher: Arc<Flusher>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) admission: Arc<Admission>,
    pub(super) ballast: Arc<Ballast>,
    /// The directories' locks.
    pub(super) locks: Arc<Mutex<Locks>>,
    pub(super) db_id: u64,
    /// A checkpoint is taken as soon as all redo is applied.
    pub(super) needs_checkpoint: bool,
}

impl Parts {
    /// Builds the parts. Recovery takes `recovery_bytes` of memory for a while.
    pub(super) fn build(
        ground: &Ground<'_>,
        calls: &ActiveCalls,
        capacity: Capacity,
        recovery_bytes: u64,
    ) -> Parts {
        let Ground { store, txns, flusher, checkpointer, admission, roster, .. } = ground;
        let (poison, clock) = (ground.poison(), ground.clock());
        let ballast = Arc::clone(&ground.ballast);
        let disk = Arc::new(DiskSpace::new(ballast, checkpointer, admission, store, poison));
        let threads = Arc::new(CallThreads::new(calls, store));
        let writers = Arc::new(PageWriters::new(flusher, store, clock, ground.writers()));
        let log_size = Arc::new(ground.log_size(capacity, &threads, &disk));
        let switches = ground.switches(&log_size, &writers);
        let checkpoints = Arc::new(ground.checkpoints(&log_size, &disk, &switches.moves, &writers));
        let replaying = Arc::new(ground.replaying(&log_size, &disk));
        let figures = Arc::new(ground.figures(&switches));
        let recorder = ground.recorder();
        let own_process = ground.opening.options.own_process;
        let heap = own_process.then(|| HeapTrim::new(recovery_bytes));
        Parts {
            flusher: Arc::clone(flusher),
            purging: Purging::new((store, txns), &replaying, &disk, poison, roster.unparker(Worker::Purge)),
            history: HistoryKeeping::new(store, txns, clock, heap),
            recording: recorder.map(|recorder| Recording::new(recorder, &figures, &disk)),
            waiters: Arc::new(Waiters {
                store: Arc::clone(store),
                txns: Arc::clone(txns),
                admission: Arc::clone(admission),
                poison: Arc::clone(poison),
            }),
            cleaner: CleanerParts {
                store: Arc::clone(store),
                checkpoints,
                writers,
                log_size,
                law: ground.law(),
                disk,
                threads,
                admission: Arc::clone(admission),
                poison: Arc::clone(poison),
                clock: Arc::clone(clock),
            },
            replaying,
            switches,
            figures,
            roster: Arc::clone(roster),
        }
    }
}

impl Ground<'_> {
    fn poison(&self) -> &Arc<Poison> {
        &self.opening.environment.poison
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.opening.environment.vfs.clock
    }

    /// Returns what wakes the page writers. None in an engine without threads, but for tests that
    /// take the writers' steps themselves.
    fn writers(&self) -> Vec<Unparker> {
        let tuning = &self.opening.options.tuning;
        let have_threads = !tuning.no_threads || tuning.writers_by_hand;
        let unparkers = Worker::WRITERS.map(|writer| self.roster.unparker(writer));
        if have_threads { unparkers.into() } else { Vec::new() }
    }

    fn law(&self) -> LawInUse {
        let experiments = &self.opening.options.experiments;
        LawInUse::new(&experiments.law, experiments.hold_cleaning_until_redo_bytes)
    }

    fn log_size(&self, capacity: Capacity, threads: &Arc<CallThreads>, disk: &Arc<DiskSpace>) -> LogSize {
        let parts = LogSizeParts {
            store: Arc::clone(&self.store),
            checkpointer: Arc::clone(&self.checkpointer),
            admission: Arc::clone(&self.admission),
            threads: Arc::clone(threads),
            disk: Arc::clone(disk),
            poison: Arc::clone(self.poison()),
            clock: Arc::clone(self.clock()),
            cleaner: self.roster.unparker(Worker::Cleaner),
        };
        LogSize::new(capacity, self.law(), parts)
    }

    fn switches(&self, log_size: &Arc<LogSize>, writers: &Arc<PageWriters>) -> Switches {
        let Opening { environment, paths, cached, unlatched, .. } = self.opening;
        let (vfs, poison) = (&environment.vfs, self.poison());
        let protection = Arc::new(ProtectionSwitch::new(&self.checkpointer, &self.flusher, poison));
        let moved = MovedParts {
            store: Arc::clone(&self.store),
            checkpointer: Arc::clone(&self.checkpointer),
            flusher: Arc::clone(&self.flusher),
            admission: Arc::clone(&self.admission),
            protection: Arc::clone(&protection),
            log_size: Arc::clone(log_size),
            poison: Arc::clone(poison),
            cleaner: self.roster.unparker(Worker::Cleaner),
        };
        let moves = Moves::new((vfs, unlatched), paths, self.db_id, cached, &self.locks, moved);
        let pool_size = PoolSize::new(
            self.opening.pool_bytes(),
            (&self.store, writers),
            &self.admission,
            (poison, self.clock()),
            self.roster.unparker(Worker::Cleaner),
        );
        Switches {
            ephemeral: vfs.disk.is_ephemeral(),
            txns: Arc::clone(&self.txns),
            checkpointer: Arc::clone(&self.checkpointer),
            protection,
            moves: Arc::new(moves),
            log_size: Arc::clone(log_size),
            pool_size: Arc::new(pool_size),
        }
    }

    fn checkpoints(
        &self,
        log_size: &Arc<LogSize>,
        disk: &Arc<DiskSpace>,
        moves: &Arc<Moves>,
        writers: &Arc<PageWriters>,
    ) -> Checkpoints {
        let tuning = &self.opening.options.tuning;
        let parts = CheckpointParts {
            checkpointer: Arc::clone(&self.checkpointer),
            store: Arc::clone(&self.store),
            log_size: Arc::clone(log_size),
            disk: Arc::clone(disk),
            moves: Arc::clone(moves),
            writers: Arc::clone(writers),
            poison: Arc::clone(self.poison()),
        };
        let times = CheckpointTimes {
            opened_us: self.opening.opened_us,
            replay_checkpoint_us: if self.needs_checkpoint { 0 } else { tuning.replay_checkpoint_us },
            head_bytes: tuning.head_bytes,
        };
        Checkpoints::new(parts, times)
    }

    fn replaying(&self, log_size: &Arc<LogSize>, disk: &Arc<DiskSpace>) -> Replaying {
        let Opening { paths, options, opened_us, unlatched, .. } = self.opening;
        let parts = ReplayParts {
            store: Arc::clone(&self.store),
            checkpointer: Arc::clone(&self.checkpointer),
            log_size: Arc::clone(log_size),
            disk: Arc::clone(disk),
            poison: Arc::clone(self.poison()),
            clock: Arc::clone(self.clock()),
            opened_us: *opened_us,
            thread: self.roster.unparker(Worker::Replay),
        };
        Replaying::new(ProgressFile::new(unlatched, &paths.dir, options), parts)
    }

    fn figures(&self, switches: &Switches) -> Figures {
        Figures::new(
            (&self.store, &self.txns),
            (&switches.log_size, &switches.pool_size),
            self.poison(),
            self.clock(),
            self.opening.opened_us,
        )
    }

    /// Returns the flight recorder of a database that has files, unless it is switched off.
    fn recorder(&self) -> Option<Recorder> {
        let Opening { environment, paths, options, unlatched, .. } = self.opening;
        let interval = options.recorder_interval;
        let wanted = !interval.is_zero() && !unlatched.disk.is_ephemeral() && !options.tuning.no_threads;
        wanted.then(|| Recorder::new(unlatched, &paths.dir, self.db_id, interval, &environment.metrics))
    }
}
