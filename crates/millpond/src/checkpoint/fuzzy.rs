//! Moves the checkpoint: the place below which no redo is needed any more.

use super::list::Listed;
use super::root::{Root, RootFile};
use super::{UndoFiles, Unfinished};
use crate::buffer::Pool;
use crate::error::{Poison, Result};
use crate::log::Log;
use crate::log::block::{block_of, block_start};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::{M, Metrics, SyncReason};
use std::sync::Arc;

/// The checkpoint that counts.
#[derive(Debug)]
struct CurrentCheckpoint {
    root: Root,
    /// The unfinished transactions that its list names; none before this run's first checkpoint.
    listed: Arc<[Listed]>,
}

/// Takes checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    log: Arc<Log>,
    pool: Arc<Pool>,
    file: RootFile,
    current: Mutex<CurrentCheckpoint>,
    /// Redo of the last run has been applied up to here; beyond it the checkpoint must not go. [`Lsn::MAX`] once all is.
    replayed: AtomicU64,
    /// Below it nothing is worth a checkpoint: it is the last one's own list.
    own_list_end: AtomicU64,
    /// Who knows the unfinished transactions.
    unfinished: Arc<dyn Unfinished>,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Checkpointer {
    /// A checkpointer whose root file holds `root`.
    pub(crate) fn new(
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        file: RootFile,
        root: Root,
        unfinished: Arc<dyn Unfinished>,
        metrics: &Arc<Metrics>,
        poison: &Arc<Poison>,
    ) -> Checkpointer {
        metrics.set(M::CheckpointLsn, root.checkpoint.0);
        Checkpointer {
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file,
            replayed: AtomicU64::new(root.checkpoint.0),
            current: Mutex::new(CurrentCheckpoint { root, listed: Arc::default() }),
            own_list_end: AtomicU64::new(0),
            unfinished,
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
        }
    }

    /// Says how far the redo of the last run has been applied to pages that are marked dirty.
    pub(crate) fn replayed_to(&self, lsn: Lsn) {
        self.replayed.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether redo of the last run is still being applied.
    pub(crate) fn replaying(&self) -> bool {
        self.replayed.load(Ordering::Acquire) != Lsn::MAX.0
    }

    /// Has the next root name the rate at which recovery replays redo, bytes a second.
    pub(crate) fn set_replay_rate(&self, bytes_per_s: u64) {
        self.current.lock().root.replay_rate = bytes_per_s;
    }

    /// The place that the root names now.
    pub(crate) fn lsn(&self) -> Lsn {
        self.current.lock().root.checkpoint
    }

    /// That place, and the unfinished transactions that a checkpoint of this run lists with it.
    pub(crate) fn current(&self) -> (Lsn, Arc<[Listed]>) {
        let current = self.current.lock();
        (current.root.checkpoint, Arc::clone(&current.listed))
    }

    /// What the files of undo are there for.
    pub(crate) fn undo_files(&self) -> UndoFiles {
        self.unfinished.undo_files()
    }

    /// How far the checkpoint could move now.
    pub(crate) fn possible(&self) -> Lsn {
        // In this order: a change whose redo lies below the published prefix has marked its page by now.
        let mut replayed = Lsn(self.replayed.load(Ordering::Acquire));
        if planted(Bug::CheckpointIgnoresReplay) {
            replayed = Lsn::MAX;
        }
        if planted(Bug::CheckpointOrder) {
            let first = self.pool.min_first_dirty();
            base::sync::point();
            let published = self.log.published_lsn().min(replayed);
            return first.map_or(published, |first| first.min(published));
        }
        let published = self.log.published_lsn().min(replayed);
        if planted(Bug::CheckpointIgnoresDirty) {
            return published;
        }
        self.pool.min_first_dirty().map_or(published, |first| first.min(published))
    }

    /// Moves the checkpoint as far as the dirty pages allow. Returns where it stands. A failure poisons.
    pub(crate) fn advance(&self, reason: SyncReason, clean: bool) -> Result<Lsn> {
        self.poison.check()?;
        let mut current = self.current.lock();
        let CurrentCheckpoint { root, listed } = &mut *current;
        let target = self.possible();
        // INV-5: no page is dirty from below the checkpoint, and the checkpoint never goes back.
        let too_far = planted(Bug::CheckpointIgnoresDirty)
            || planted(Bug::CheckpointIgnoresWriting)
            || planted(Bug::CheckpointIgnoresReplay)
            || planted(Bug::CheckpointOrder);
        base::check!(
            target >= root.checkpoint || too_far,
            "a page is dirty from {target}, below the checkpoint"
        );
        let moves = target.0 > root.checkpoint.0.max(self.own_list_end.load(Ordering::Acquire));
        if !moves && !clean && !self.undo_files().spare {
            return Ok(root.checkpoint);
        }
        let all = target == self.log.published_lsn();
        let mut next = root.clone();
        next.sequence += 1;
        next.checkpoint = target.max(root.checkpoint);
        // After the target is known: what is below it is in some stream by now, and what ends below it has ended.
        let list = self.unfinished.harden(next.sequence)?;
        let end = self.log.reserved_lsn();
        self.log.flush_to(list.last, SyncReason::Checkpoint)?;
        next.record = list.first;
        next.durable = self.log.durable_lsn();
        next.clean = clean;
        base::check!(next.checkpoint <= next.durable, "the checkpoint {} is not durable", next.checkpoint);
        base::check!(list.first <= list.last && list.last < next.durable, "the list is not durable");
        base::check!(next.durable >= root.durable, "the durable LSN goes back from {}", root.durable);
        // The epoch of the checkpoint's own block and all later ones are still read.
        let needed = block_start(block_of(next.checkpoint));
        let older = next.epochs.partition_point(|epoch| epoch.first <= needed);
        next.epochs.drain(..older.saturating_sub(1));
        self.file.write(&next, reason).map_err(|error| self.poison.set(error))?;
        *root = next;
        if all {
            self.own_list_end.store(end.0, Ordering::Release);
        }
        *listed = list.listed.into();
        self.unfinished.root_is_durable()?;
        self.metrics.add(M::Checkpoints, 1);
        self.metrics.set(M::CheckpointLsn, root.checkpoint.0);
        Ok(root.checkpoint)
    }
}
