//! Fuzzy checkpoints: moves the checkpoint LSN, below which no redo is needed, while transactions
//! run.

use super::directories::RootDirs;
use super::dirty_list::encode_dirty;
use super::protection::Protection;
use super::root::{DirtyListAt, Root, RootFile};
use super::{UndoFiles, Unfinished};
use crate::buffer::{Pool, audit};
use crate::environment::Environment;
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::log::block::{block_of, block_start};
use crate::log::group::{self, Record};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use metrics::{M, Metrics, SyncReason};
use std::sync::Arc;

/// Takes checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    log: Arc<Log>,
    pool: Arc<Pool>,
    file: RootFile,
    /// The root that the file holds.
    current: Mutex<Root>,
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
    /// Pages are written without copies, or are about to be. Changes under the mutex of `current`.
    unprotected: AtomicBool,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
}

impl Checkpointer {
    /// A checkpointer whose root file holds `root`. `off`: pages are written without copies.
    pub(crate) fn new(
        environment: &Environment,
        log: &Arc<Log>,
        pool: &Arc<Pool>,
        (file, root, off): (RootFile, Root, bool),
        unfinished: Arc<dyn Unfinished>,
    ) -> Checkpointer {
        let Environment { metrics, poison, .. } = environment.clone();
        metrics.set(M::CheckpointLsn, root.checkpoint.0);
        metrics.set(M::DoublewriteOff, u64::from(root.protection == Protection::Off));
        Checkpointer {
            log: Arc::clone(log),
            pool: Arc::clone(pool),
            file,
            replayed: AtomicU64::new(root.checkpoint.0),
            current: Mutex::new(root),
            own_list_end: AtomicU64::new(0),
            list_bytes: AtomicU64::new(0),
            unfinished,
            unprotected: AtomicBool::new(off),
            metrics,
            poison,
        }
    }

    /// Records how far the redo of the last run has been applied to pages that are marked dirty.
    pub(crate) fn replayed_to(&self, lsn: Lsn) {
        self.replayed.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Returns how far the redo of the last run has been applied.
    pub(crate) fn replayed_lsn(&self) -> Lsn {
        Lsn(self.replayed.load(Ordering::Acquire))
    }

    /// Whether redo of the last run is still being applied.
    pub(crate) fn replaying(&self) -> bool {
        self.replayed.load(Ordering::Acquire) != Lsn::MAX.0
    }

    /// Returns the rate at which recovery replays redo, bytes a second; 0 if it is unknown.
    pub(crate) fn replay_rate(&self) -> u64 {
        self.current.lock().replay_rate
    }

    /// Sets the rate at which recovery replays redo, bytes a second, for the next root.
    pub(crate) fn set_replay_rate(&self, bytes_per_s: u64) {
        self.current.lock().replay_rate = bytes_per_s;
    }

    /// Returns the checkpoint LSN that the root names now.
    pub(crate) fn lsn(&self) -> Lsn {
        self.current.lock().checkpoint
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
        let mut root = self.current.lock();
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
        // INV-33: below the new checkpoint there is no redo that could mend a page.
        audit(&self.pool).map_err(|error| self.poison.set(error))?;
        let target = target.max(root.checkpoint);
        self.write_root(&mut root, target, reason, clean, false)?;
        Ok(root.checkpoint)
    }

    /// Writes new lists, also if the checkpoint cannot move, so that an opening reads the log only
    /// from about here on. REQUIRES: no redo of the last run is left. A failure poisons.
    pub(crate) fn renew(&self) -> Result {
        self.poison.check()?;
        base::check!(!self.replaying(), "pages that lack redo are in no list");
        let mut root = self.current.lock();
        let target = self.possible().max(root.checkpoint);
        self.write_root(&mut root, target, SyncReason::Checkpoint, false, true)
    }

    /// Returns what the root says about torn pages.
    pub(crate) fn protection(&self) -> Protection {
        self.current.lock().protection
    }

    /// Says durably in the root that pages are written without copies from now on, or that they are
    /// not any more. After an error the root says what it said. REQUIRES: the writes without copies
    /// are synced, if `off` is false.
    pub(crate) fn set_unprotected(&self, off: bool) -> Result {
        self.poison.check()?;
        let mut root = self.current.lock();
        let before = self.unprotected.swap(off, Ordering::Relaxed);
        if planted(Bug::OffUnrecorded) && off {
            self.unprotected.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let target = self.possible().max(root.checkpoint);
        let written = self.write_root(&mut root, target, SyncReason::Checkpoint, false, false);
        if written.is_err() {
            self.unprotected.store(before, Ordering::Relaxed);
        }
        written
    }

    /// Writes a root that names other directories. After an error the root names the same as
    /// before; the database is poisoned unless the error may pass.
    pub(crate) fn set_dirs(&self, change: impl FnOnce(&mut RootDirs)) -> Result {
        self.poison.check()?;
        let mut root = self.current.lock();
        let (before, sequence) = (root.dirs.clone(), root.sequence);
        change(&mut root.dirs);
        let target = self.possible().max(root.checkpoint);
        let written = self.write_root(&mut root, target, SyncReason::Checkpoint, false, false);
        if root.sequence != sequence {
            // The root is durable, whatever failed after it.
            return self.poison.check();
        }
        root.dirs = before;
        written
    }

    /// Returns how much of the log an opening would read after a crash now, bytes.
    pub(crate) fn head(&self) -> u64 {
        self.log.reserved_lsn().since(self.current.lock().read_from())
    }

    /// Writes a root whose checkpoint is `target`, with a new list of unfinished transactions, and
    /// of dirty pages if `dirty`.
    fn write_root(
        &self,
        root: &mut Root,
        target: Lsn,
        reason: SyncReason,
        clean: bool,
        dirty: bool,
    ) -> Result {
        // Before anything is listed: all that is published by now is in the lists (INV-30).
        let from = self.log.published_lsn();
        let all = target == from;
        let mut next = root.clone();
        next.sequence += 1;
        next.checkpoint = target;
        next.undo_from = from;
        next.dirty = if dirty { Some(self.list_dirty(from, next.sequence)?) } else { root.dirty };
        next.dirty = next.dirty.filter(|list| list.from > target);
        // After the target is known: by now the undo of everything below it is in a stream, and a
        // transaction whose end lies below it has ended.
        //
        // A file that cannot be made, for another reason than a full disk, would stop the
        // checkpoint for ever.
        let fatal = |error: Error| if error.may_pass() { error } else { self.poison.set(error) };
        let list = self.unfinished.harden(next.sequence).map_err(fatal)?;
        if planted(Bug::UndoFromLate) {
            next.undo_from = self.log.published_lsn();
        }
        let end = self.log.reserved_lsn();
        self.list_bytes.store(end.since(list.first), Ordering::Release);
        self.log.flush_to(list.last, SyncReason::Checkpoint)?;
        next.record = list.first;
        next.durable = self.log.durable_lsn();
        next.clean = clean;
        let off = self.unprotected.load(Ordering::Relaxed);
        // A closed database has nothing in flight, and a torn page would have stopped replay.
        next.protection = root.protection.next(off, self.replaying());
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
        self.unfinished.root_is_durable()?;
        self.metrics.add(M::Checkpoints, 1);
        self.metrics.set(M::CheckpointLsn, root.checkpoint.0);
        self.metrics.set(M::DoublewriteOff, u64::from(root.protection == Protection::Off));
        Ok(())
    }

    /// Logs the list of the pages that may lack changes from below `from`.
    fn list_dirty(&self, from: Lsn, sequence: u64) -> Result<DirtyListAt> {
        let pages = self.pool.dirty_below(from);
        let from = if planted(Bug::DirtyListOrder) { self.log.published_lsn() } else { from };
        let mut record = Lsn::MAX;
        for part in encode_dirty(&pages, self.log.reserved_lsn(), sequence) {
            self.log.make_room()?;
            let mut group = Vec::new();
            group::begin(&mut group);
            group::put_record(&mut group, &Record::DirtyPages { body: &part });
            record = record.min(self.log.append(&mut group, |_| ()));
        }
        // Every change that the list names was reserved before the list, so it is durable with it.
        Ok(DirtyListAt { record, from })
    }
}
