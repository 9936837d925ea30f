//! Adopting the files of a database: where its log ends, which copies of pages count, and the new
//! epoch of the log.
//!
//! First everything is read and judged. Then the root gets the new epoch, and only after that torn
//! pages are restored. Log that outlived a killed process without being synced is copied into the
//! segments as soon as the end of the log is known.

use super::directory::Locks;
use super::locked_root::LockedRoot;
use super::opening::Opening;
use crate::ballast::Ballast;
use crate::checkpoint::root::{EPOCHS_MAX, Root, RootFile};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::flush::doublewrite::{Doublewrite, PageCopies, RestorePlan};
use crate::flush::restore::{LogBounds, PageRedo};
use crate::log::LogStart;
use crate::log::block::{PAYLOAD_BYTES, block_of};
use crate::log::reader::EpochStart;
use crate::log::segment::{SegmentShape, Segments};
use crate::log::unsynced::UnsyncedBlocks;
use crate::page_file::PageFile;
use crate::planted::{Bug, planted};
use crate::recover::first_pass::{LogTail, LogToRead, find_end, next_epoch_start, pages_changed};
use crate::recover::lists::read_dirty_list;
use crate::recover::on_demand::chain::{Followed, LogOfLastRun, ReaderMemory};
use crate::recover::undo::{Rebuild, read_list};
use crate::undo::journal::{Journal, JournalOptions};
use crate::undo::{HistoryBatchRange, Streams};
use base::{Lsn, PageNo};
use metrics::{M, SyncReason};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::BatchIo;

/// The files of a database, ready to build an engine on.
pub(super) struct Adopted {
    pub(super) locks: Locks,
    pub(super) root_file: RootFile,
    /// With the new epoch.
    pub(super) root: Root,
    /// Where the new epoch begins.
    pub(super) start: LogStart,
    pub(super) segments: Segments,
    pub(super) pages: Arc<PageFile>,
    pub(super) doublewrite: Doublewrite,
    pub(super) ballast: Arc<Ballast>,
    /// Pages whose copy proves that a later write was lost, with the copy's LSN.
    pub(super) stale: BTreeMap<PageNo, Lsn>,
}

/// What the first pass over the log has found.
pub(super) struct Recovery {
    pub(super) tail: LogTail,
    pub(super) rebuild: Rebuild,
    pub(super) history_batches: Vec<HistoryBatchRange>,
    /// The database had been closed.
    pub(super) was_clean: bool,
    /// Pages that redo changes may be torn and have no copy.
    pub(super) may_be_torn: bool,
    /// The root names so many crashes since the last checkpoint that this opening takes one.
    pub(super) needs_checkpoint: bool,
}

/// Reads the log to its end, begins a new epoch and restores torn pages.
pub(super) fn adopt(opening: &Opening<'_>, locked_root: LockedRoot) -> Result<(Adopted, Recovery)> {
    let Opening { environment: Environment { vfs, metrics, poison }, paths, .. } = opening;
    let LockedRoot { locks, root_file, mut root } = locked_root;
    let shape = SegmentShape { db_id: root.db_id, blocks: root.segment_blocks };
    let segments = Segments::open(vfs, &paths.redo_dirs(), shape, metrics)?;
    segments.sync_from(shape.segment_of(block_of(root.checkpoint)), poison)?;
    let (rebuild, history_batches, ballast) = begin_rebuild(opening, &root, &segments)?;

    let pages = Arc::new(PageFile::open(vfs, &paths.pages, root.page_bytes, metrics)?);
    let files = paths.doublewrite_files();
    let mut doublewrite = Doublewrite::open(vfs, &files, root.db_id, root.page_bytes, metrics)?;
    let copies = doublewrite.copies();
    let window = (root.ring_blocks * PAYLOAD_BYTES) as u64;
    // Closing makes everything durable.
    let unsynced = match root.epochs.last() {
        Some(last) if !root.clean => Some(UnsyncedBlocks::read(vfs, &paths.dir, root.db_id, last.epoch)?),
        _ => None,
    };
    let log = LogToRead {
        segments: &segments,
        unsynced: unsynced.as_ref(),
        epochs: &root.epochs,
        from: root.read_from(),
        undo_from: root.undo_from,
        listed: read_dirty_list(&segments, &root)?,
        known: root.durable,
        window,
    };
    let (mut tail, rebuild) = find_end(log, rebuild)?;
    if let (Some(unsynced), Some(from)) = (unsynced, tail.unsynced_from) {
        unsynced.copy_into(&segments, from, tail.end)?;
    }
    metrics.set(M::RecoveryReadBytes, tail.end.since(root.read_from()));
    let (mut plan, is_listed) = plan_restore(&doublewrite, &copies, &tail, (&segments, &root), &pages)?;
    if !is_listed && root.dirty.is_some() {
        // The list leaves out a page that was in the file when the list was made. If the file has
        // lost it since, its copy may be older, and only the whole log says what it lacks.
        tail.pages = pages_changed(&segments, &root.epochs, (root.checkpoint, tail.end))?;
        (plan, _) = plan_restore(&doublewrite, &copies, &tail, (&segments, &root), &pages)?;
    }

    let was_clean = root.clean;
    let may_be_torn = root.protection.may_be_torn() && !root.clean;
    let start = next_epoch_start(tail.end, &root.epochs);
    let needs_checkpoint = begin_epoch(&mut root, &start, opening)?;
    if !planted(Bug::NoEpoch) {
        root_file.write(&root, SyncReason::Recovery)?;
    }
    metrics.set(M::DirectIo, u64::from(pages.is_direct() && segments.are_direct()));
    metrics.set(M::Durable, u64::from(paths.are_durable(vfs)));
    metrics.set(M::IoUring, u64::from(vfs.disk.batch_io() == BatchIo::Ring));
    doublewrite.restore(&plan, &pages)?;
    doublewrite.forget_before();

    let stale = plan.stale;
    let adopted = Adopted { locks, root_file, root, start, segments, pages, doublewrite, ballast, stale };
    Ok((adopted, Recovery { tail, rebuild, history_batches, was_clean, may_be_torn, needs_checkpoint }))
}

/// Judges the copies of pages. Returns also whether it is known of all damaged pages with a copy
/// which redo they lack.
fn plan_restore(
    doublewrite: &Doublewrite,
    copies: &PageCopies,
    tail: &LogTail,
    (segments, root): (&Segments, &Root),
    pages: &PageFile,
) -> Result<(RestorePlan, bool)> {
    let memory = ReaderMemory::new();
    let (epochs, from) = (&root.epochs[..], root.checkpoint);
    let log = LogOfLastRun { segments, epochs, from, pages_path: pages.path(), memory: &memory };
    let mut is_listed = true;
    let redo = |page| {
        let Some(last) = tail.pages.last(page) else {
            is_listed = false;
            return Ok(PageRedo::default());
        };
        Ok(match log.follow(page, last, None)? {
            Followed::NeedsImage(before) => PageRedo { before: Some(before) },
            Followed::Whole(_) | Followed::LostWrite(..) => PageRedo::default(),
        })
    };
    let bounds = LogBounds { checkpoint: root.checkpoint, end: tail.end };
    let plan = doublewrite.plan(copies, redo, bounds, pages, &segments.dir())?;
    Ok((plan, is_listed))
}

/// Reads the checkpoint's list and the hardened undo of the transactions in it.
fn begin_rebuild(
    opening: &Opening<'_>,
    root: &Root,
    segments: &Segments,
) -> Result<(Rebuild, Vec<HistoryBatchRange>, Arc<Ballast>)> {
    let Opening { environment: Environment { vfs, metrics, poison }, paths, .. } = opening;
    let list = read_list(segments, root)?;
    let hardened = list.txns.iter().map(|listed| (listed.txn, listed.hardened)).collect();
    let memory = opening.history_bytes();
    let streams = Streams::default();
    let options = JournalOptions {
        vfs,
        dir: &paths.undo,
        db_id: root.db_id,
        listed: &list.files,
        hardened: &hardened,
        memory,
        metrics,
        poison,
    };
    let mut journal = Journal::open(&options, &streams)?;
    let history_batches = journal.open_history_batches(&list.history_batches)?;
    let ballast = Arc::new(Ballast::open(vfs, &paths.undo, segments.block_bytes())?);
    journal.set_ballast(Arc::clone(&ballast));
    let rebuild = Rebuild::begin(&paths.redo.now, root.record, list, streams).within(memory, journal);
    Ok((rebuild, history_batches, ballast))
}

/// Enters the epoch that begins at `start`. Returns whether the root names so many crashes since
/// the last checkpoint that this opening must take one.
fn begin_epoch(root: &mut Root, start: &LogStart, opening: &Opening<'_>) -> Result<bool> {
    root.sequence += 1;
    root.protection = root.protection.at_open(opening.options.doublewrite.is_off(), root.clean);
    root.clean = false;
    root.dirs = opening.paths.root_dirs(&root.dirs);
    // An epoch that began at the same place wrote nothing; the new one replaces it.
    root.epochs.retain(|e| e.first < start.lsn);
    root.epochs.push(EpochStart { epoch: start.epoch, first: start.lsn });
    if root.epochs.len() > EPOCHS_MAX {
        let path = opening.paths.root.display();
        let what =
            format!("{path} names {EPOCHS_MAX} crashes since the last checkpoint, the most that it can");
        return Err(Error::Limit { what });
    }
    // Long before the limit: the checkpoint of this opening may move during replay already.
    Ok(root.epochs.len() > EPOCHS_MAX / 2)
}
