//! Fuzzy checkpoints: moves the checkpoint LSN, below which no redo is needed, while transactions
//! run.

use super::list::Listed;
use super::root::{Root, RootFile};
use super::{UndoFiles, Unfinished};
use crate::buffer::Pool;
use crate::context::Context;
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::log::block::{block_of, block_start};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::{M, Metrics, SyncReason};
use std::sync::Arc;

/// The checkpoint that the root names.
#[derive(Debug)]
struct CurrentCheckpoint {
    root: Root,
    /// The unfinished transactions in its list; empty before the first checkpoint of this run.
    listed: Arc<[Listed]>,
}

/// Takes checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    log: Arc<Log>,
    pool: Arc<Pool>,
    file: RootFile,
    current: Mutex<CurrentCheckpoint>,
    /// Redo of the last run has been applied up to here, and the checkpoint must not pass it.
    /// [`Lsn::MAX`] once all of it is applied.
    replayed: AtomicU64,
    /// Below it there is nothing but the list of the last checkpoint itself, which is worth no new
    /// checkpoint.
    own_list_end: AtomicU64,
    /// Redo that the last list took, bytes.
    list_bytes: AtomicU64,
    /// Knows the unfinished transactions.
    unfinished: Arc<dyn Unfinished>,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Checkpointer {
    /// A checkpointer whose root file holds `root`.
    pub(crate) fn new(
        context: &Context,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        (file, root): (RootFile, Root),
        unfinished: Arc<dyn Unfinished>,
    ) -> Checkpointer {
        let Context { metrics, poison, .. } = context.clone();
        metrics.set(M::CheckpointLsn, root.checkpoint.0);
        Checkpointer {
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file,
            replayed: AtomicU64::new(root.checkpoint.0),
            current: Mutex::new(CurrentCheckpoint { root, listed: Arc::default() }),
            own_list_end: AtomicU64::new(0),
            list_bytes: AtomicU64::new(0),
            unfinished,
            metrics,
            poison,
        }
    }

    /// Records how far the redo of the last run has been applied to pages that are marked dirty.
    pub(crate) fn replayed_to(&self, lsn: Lsn) {
        self.replayed.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether redo of the last run is still being applied.
    pub(crate) fn replaying(&self) -> bool {
        self.replayed.load(Ordering::Acquire) != Lsn::MAX.0
    }

    /// Sets the rate at which recovery replays redo, bytes a second, for the next root.
    pub(crate) fn set_replay_rate(&self, bytes_per_s: u64) {
        self.current.lock().root.replay_rate = bytes_per_s;
    }

    /// Returns the checkpoint LSN that the root names now.
    pub(crate) fn lsn(&self) -> Lsn {
        self.current.lock().root.checkpoint
    }

    /// Returns the checkpoint LSN, and the unfinished transactions that this checkpoint lists if it
    /// is of this run.
    pub(crate) fn current(&self) -> (Lsn, Arc<[Listed]>) {
        let current = self.current.lock();
        (current.root.checkpoint, Arc::clone(&current.listed))
    }

    /// Returns what the undo files are needed for.
    pub(crate) fn undo_files(&self) -> UndoFiles {
        self.unfinished.undo_files()
    }

    /// Redo that the last list took, with what other threads logged meanwhile, bytes.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.list_bytes.load(Ordering::Acquire)
    }

    /// Returns how far the checkpoint could move now.
    pub(crate) fn possible(&self) -> Lsn {
        // The log first, then the pool: a change whose redo lies below the published prefix has
        // marked its page dirty by now.
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

    /// Moves the checkpoint as far as the dirty pages allow, and returns where it is then. `clean`
    /// says in the root that the database is closed. A failure poisons.
    pub(crate) fn advance(&self, reason: SyncReason, clean: bool) -> Result<Lsn> {
        self.poison.check()?;
        let mut current = self.current.lock();
        let CurrentCheckpoint { root, listed } = &mut *current;
        let target = self.possible();
        // INV-5: no page is dirty from below the checkpoint, and the checkpoint never moves back.
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
        // After the target is known: by now the undo of everything below it is in a stream, and a
        // transaction whose end lies below it has ended.
        //
        // A file that cannot be made, for another reason than a full disk, would stop the
        // checkpoint for ever.
        let fatal = |error: Error| if error.may_pass() { error } else { self.poison.set(error) };
        let list = self.unfinished.harden(next.sequence).map_err(fatal)?;
        let end = self.log.reserved_lsn();
        self.list_bytes.store(end.since(list.first), Ordering::Release);
        self.log.flush_to(list.last, SyncReason::Checkpoint)?;
        next.record = list.first;
        next.durable = self.log.durable_lsn();
        next.clean = clean;
        base::check!(next.checkpoint <= next.durable, "the checkpoint {} is not durable", next.checkpoint);
        base::check!(list.first <= list.last && list.last < next.durable, "the list is not durable");
        base::check!(next.durable >= root.durable, "the durable LSN moves back from {}", root.durable);
        // The epoch of the block of the checkpoint, and all later epochs, are still read.
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
