//! The log and the doublewrite move to other directories while the database is open (INV-32).
//!
//! A move has three steps. First the new directory is claimed and gets files of full length; up to
//! here an error, a full disk or a broken device changes nothing. Then the root names it, with the
//! directory of before. Last, when no recovery can need a file of before, the root forgets that
//! directory, and the directory belongs to no database.

use super::admission::Admission;
use super::directory::{AREAS, Locks, claim_for_move, disown, mark_moved};
use super::durable_dir::sync_dir;
use super::log_size::LogSize;
use super::paths::{Dirs, Paths};
use super::protection::ProtectionSwitch;
use super::purpose::Purpose;
use crate::checkpoint::directories::{PurposeDirs, recorded};
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Error, Poison, Result};
use crate::flush::batch::Flusher;
use crate::flush::doublewrite::Doublewrite;
use crate::log::group::{self, Record};
use crate::log::segment::{SPARE_SEGMENTS, remove_drafts};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{Mutex, Unparker};
use metrics::{M, Metrics, SyncReason};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::Vfs;
use vfs::descriptor_cache::CachedDirs;

/// Bytes of filler that are logged at once, at most.
const FILLER_BYTES: u64 = 32 << 10;
/// A segment takes at least so many of them: a small log admits only small operations.
const FILLERS: u64 = 16;

/// Where the log and the doublewrite are.
#[derive(Debug)]
struct Where {
    redo: Dirs,
    doublewrite: Dirs,
}

/// What a move needs besides the engine.
pub(super) struct Moves {
    /// The database's own directory and id.
    dir: PathBuf,
    db_id: u64,
    /// The same files as the engine's. A failure of the new device stops nothing here.
    unlatched: Vfs,
    /// The engine's.
    vfs: Vfs,
    cached: CachedDirs,
    locks: Arc<Mutex<Locks>>,
    /// Held during a move.
    now: Mutex<Where>,
    /// Whether synced data survives a power cut in all directories.
    durable: AtomicBool,
    parts: MovedParts,
}

/// What a move changes and uses.
pub(super) struct MovedParts {
    pub(super) store: Arc<Store>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) flusher: Arc<Flusher>,
    pub(super) admission: Arc<Admission>,
    pub(super) protection: Arc<ProtectionSwitch>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) poison: Arc<Poison>,
    pub(super) cleaner: Unparker,
}

impl Moves {
    pub(super) fn new(
        (vfs, unlatched): (&Vfs, &Vfs),
        paths: &Paths,
        db_id: u64,
        cached: &CachedDirs,
        locks: &Arc<Mutex<Locks>>,
        parts: MovedParts,
    ) -> Moves {
        Moves {
            dir: paths.dir.clone(),
            db_id,
            unlatched: unlatched.clone(),
            vfs: vfs.clone(),
            cached: cached.clone(),
            locks: Arc::clone(locks),
            now: Mutex::new(Where { redo: paths.redo.clone(), doublewrite: paths.doublewrite.clone() }),
            durable: AtomicBool::new(paths.are_durable(vfs)),
            parts,
        }
    }

    /// Returns the directory of the log, and the one that it is leaving.
    pub(super) fn redo_dirs(&self) -> (PathBuf, Option<PathBuf>) {
        let Dirs { now, before, .. } = self.now.lock().redo.clone();
        (now, before)
    }

    /// Returns the directory of the doublewrite.
    pub(super) fn doublewrite_dir(&self) -> PathBuf {
        self.now.lock().doublewrite.now.clone()
    }

    /// Whether synced data survives a power cut.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Relaxed)
    }

    /// Gives up a directory: it belongs to no database then.
    fn release(&self, dir: &Path) {
        disown(&self.unlatched, dir);
        self.locks.lock().retain(|lock| lock.dir != dir);
    }

    fn update_durable(&self, now: &Where, metrics: &Metrics) {
        let undo = self.dir.join("undo");
        let dirs = [Some(&self.dir), Some(&undo), Some(&now.redo.now), Some(&now.doublewrite.now)];
        let dirs = dirs.into_iter().chain([now.redo.before.as_ref()]);
        let durable = dirs.flatten().all(|dir| self.vfs.disk.is_durable(dir));
        self.durable.store(durable, Ordering::Relaxed);
        metrics.set(M::Durable, u64::from(durable));
    }
}

fn same(one: &Path, other: &Path) -> bool {
    one.components().eq(other.components())
}

/// The error for a move that begins before the last one has ended.
fn under_way(what: &str, dirs: &Dirs) -> Error {
    let (now, before) = (dirs.now.display(), dirs.before.as_deref().unwrap_or(&dirs.now).display());
    Error::Misuse(format!(
        "the {what} is still moving from {before} to {now}: it can only go back to {before}"
    ))
}

impl Moves {
    /// Moves the log to another directory. After an error it is where it was.
    pub(super) fn set_redo_dir(&self, wanted: &Path) -> Result {
        let mut now = self.now.lock();
        self.parts.poison.check()?;
        if same(&now.redo.now, wanted) {
            return Ok(());
        }
        let goes_back = now.redo.before.as_deref().is_some_and(|before| same(before, wanted));
        if now.redo.before.is_some() && !goes_back {
            return Err(under_way("redo log", &now.redo));
        }
        let me = (self.db_id, Purpose::Redo);
        let dirs = self.recorded_dirs(wanted, &now.redo)?;
        let moves = self;
        let (vfs, metrics) = (&moves.unlatched, &self.parts.store.metrics);
        if !goes_back {
            let lock = claim_for_move(vfs, wanted, &moves.dir, me, metrics)?;
            moves.locks.lock().push(lock);
        }
        moves.cached.add(wanted);
        let give_up = || {
            if !goes_back {
                moves.release(wanted);
            }
        };
        let segments = self.parts.store.log.segments();
        let drafts = segments.draft_in(vfs, wanted).inspect_err(|_| give_up())?;
        self.parts.checkpointer.set_dirs(|all| all.redo = dirs).inspect_err(|_| {
            remove_drafts(vfs, drafts.clone());
            give_up();
        })?;
        segments.move_to(wanted, drafts);
        now.redo.move_to(wanted);
        moves.update_durable(&now, metrics);
        mark_moved(&moves.vfs, wanted, &moves.dir, me, metrics)
            .or_else(|error| self.parts.poison.pass_over(error))?;
        self.replace_unused()?;
        if !segments.are_direct() {
            metrics.set(M::DirectIo, 0);
        }
        let before = now.redo.before.clone();
        drop(now);
        // If there is no room for it, the log leaves its segments when it gets there.
        let left = before.map_or(Ok(()), |before| self.leave_segments(&before));
        self.parts.cleaner.unpark();
        left.or_else(|_| self.parts.poison.check())
    }

    /// Fills the segments in the old directory that were too close to the end of the log to be
    /// replaced. So the log leaves them although no transaction writes.
    fn leave_segments(&self, before: &Path) -> Result {
        let log = &self.parts.store.log;
        let (segments, begun) = (log.segments(), log.reserved_lsn());
        // What could not be replaced for want of space is not filled.
        let most = (SPARE_SEGMENTS + 1) * segments.shape().payload_bytes();
        let bytes = (segments.shape().payload_bytes() / FILLERS).min(FILLER_BYTES);
        let filler = vec![0; bytes as usize];
        while segments.reaches_in(before, log.reserved_lsn()) && log.reserved_lsn().since(begun) < most {
            // A poisoned log does not grow.
            self.parts.poison.check()?;
            let _admitted = self.parts.admission.admit(bytes)?;
            log.make_room()?;
            let mut group = Vec::new();
            group::begin(&mut group);
            group::put_record(&mut group, &Record::Filler { body: &filler });
            log.append(&mut group, |_| ());
        }
        Ok(())
    }

    /// Replaces the segments of before that no flush has used.
    fn replace_unused(&self) -> Result {
        let _changing = self.parts.log_size.hold();
        let log = &self.parts.store.log;
        // What finds no space now is replaced when it is recycled.
        log.segments()
            .replace_unused(|| log.reserved_lsn())
            .or_else(|error| self.parts.poison.pass_over(error))
    }

    /// Returns what the root says of a part that moves to `wanted`.
    fn recorded_dirs(&self, wanted: &Path, dirs: &Dirs) -> Result<PurposeDirs> {
        let named = |dir| recorded(&self.dir, dir).map(Some);
        Ok(PurposeDirs { now: named(wanted)?, before: named(&dirs.now)? })
    }

    /// Moves the doublewrite to another directory. After an error it is where it was.
    pub(super) fn set_doublewrite_dir(&self, wanted: &Path) -> Result {
        let mut now = self.now.lock();
        let _switching = self.parts.protection.hold();
        self.parts.poison.check()?;
        if same(&now.doublewrite.now, wanted) {
            return Ok(());
        }
        self.forget_doublewrite(&mut now)?;
        let me = (self.db_id, Purpose::Doublewrite);
        let dirs = self.recorded_dirs(wanted, &now.doublewrite)?;
        let moves = self;
        let (vfs, metrics) = (&moves.unlatched, &self.parts.store.metrics);
        let lock = claim_for_move(vfs, wanted, &moves.dir, me, metrics)?;
        moves.locks.lock().push(lock);
        let made = self.make_doublewrite(vfs, wanted);
        let named = made.and_then(|()| self.parts.checkpointer.set_dirs(|all| all.doublewrite = dirs));
        named.inspect_err(|_| {
            drop(vfs.disk.remove(&wanted.join(AREAS)));
            moves.release(wanted);
        })?;
        let opened = self.open_doublewrite(wanted).map_err(|error| self.parts.poison.set(error))?;
        now.doublewrite.move_to(wanted);
        moves.update_durable(&now, metrics);
        mark_moved(&moves.vfs, wanted, &moves.dir, me, metrics)
            .or_else(|error| self.parts.poison.pass_over(error))?;
        if planted(Bug::DoublewriteForgottenEarly) {
            self.forget_doublewrite(&mut now)?;
        }
        self.parts.flusher.move_doublewrite(opened);
        // If the disk is full now, a later root forgets it.
        self.forget_doublewrite(&mut now).or_else(|error| self.parts.poison.pass_over(error))
    }

    fn make_doublewrite(&self, vfs: &Vfs, dir: &Path) -> Result {
        let (pool, metrics) = (&self.parts.store.pool, &self.parts.store.metrics);
        let (id, slots) = (self.db_id, self.parts.flusher.batch_pages());
        Doublewrite::create(vfs, &dir.join(AREAS), id, pool.page_bytes(), slots, metrics)?;
        sync_dir(vfs, metrics, dir, SyncReason::Create)
    }

    fn open_doublewrite(&self, dir: &Path) -> Result<Doublewrite> {
        let (pool, metrics) = (&self.parts.store.pool, &self.parts.store.metrics);
        Doublewrite::open(&self.vfs, &[dir.join(AREAS)], self.db_id, pool.page_bytes(), metrics)
    }

    /// Finishes the moves of which no recovery needs a file of before.
    pub(super) fn finish(&self) -> Result {
        // A move that is under way ends itself, or leaves it to the next call.
        let Some(mut now) = self.now.try_lock() else { return Ok(()) };
        let ended = self.forget_redo(&mut now).and_then(|()| self.forget_doublewrite(&mut now));
        ended.or_else(|error| self.parts.poison.pass_over(error))
    }

    /// Forgets the log's directory of before once no segment is in it.
    fn forget_redo(&self, now: &mut Where) -> Result {
        let Some(before) = &now.redo.before else { return Ok(()) };
        if self.parts.store.log.segments().count_in(before) > 0 && !planted(Bug::RedoForgottenEarly) {
            return Ok(());
        }
        let before = before.clone();
        // A file that comes back after a power cut would make the directory look like the log's.
        sync_dir(&self.vfs, &self.parts.store.metrics, &before, SyncReason::LogRoll)?;
        self.parts.checkpointer.set_dirs(|dirs| dirs.redo.before = None)?;
        now.redo.before = None;
        self.update_durable(now, &self.parts.store.metrics);
        self.parts.store.log.segments().drop_drafts();
        self.release(&before);
        Ok(())
    }

    /// Forgets the doublewrite of before. REQUIRES: no page is in flight of which it has the copy.
    fn forget_doublewrite(&self, now: &mut Where) -> Result {
        let Some(before) = now.doublewrite.before.clone() else { return Ok(()) };
        // The file goes first, so that the directory never looks like one that is in use.
        let areas = before.join(AREAS);
        match self.vfs.disk.remove(&areas) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("remove", &areas, e)),
        }
        sync_dir(&self.vfs, &self.parts.store.metrics, &before, SyncReason::Doublewrite)?;
        self.parts.checkpointer.set_dirs(|dirs| dirs.doublewrite.before = None)?;
        now.doublewrite.before = None;
        self.release(&before);
        Ok(())
    }
}
