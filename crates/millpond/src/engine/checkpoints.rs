//! Checkpoints while the database is open: when a root is worth a sync, when its lists are written
//! anew, and what may go when it has moved. The rule is `pace::checkpoint`.

use super::disk_space::DiskSpace;
use super::log_size::LogSize;
use super::moves::Moves;
use super::writers::PageWriters;
use crate::checkpoint::dirty_list;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Poison, Result};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::SyncReason;
use pace::checkpoint::{pays, worth_writing};
use std::sync::Arc;

/// What the checkpoint depends on, and what goes on when it has moved.
pub(super) struct CheckpointParts {
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) store: Arc<Store>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) disk: Arc<DiskSpace>,
    pub(super) moves: Arc<Moves>,
    pub(super) writers: Arc<PageWriters>,
    pub(super) poison: Arc<Poison>,
}

/// When checkpoints are taken.
#[derive(Clone, Copy)]
pub(super) struct CheckpointTimes {
    /// When the database was opened, microseconds.
    pub(super) opened_us: u64,
    /// At most this much replay is repeated if recovery crashes, microseconds.
    pub(super) replay_checkpoint_us: u64,
    /// So much of the log an opening may read, bytes.
    pub(super) head_bytes: u64,
}

/// What moves the checkpoint.
pub(super) struct Checkpoints {
    parts: CheckpointParts,
    times: CheckpointTimes,
    /// When the last root was written, microseconds.
    root_written_us: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(parts: CheckpointParts, times: CheckpointTimes) -> Checkpoints {
        Checkpoints { parts, times, root_written_us: AtomicU64::new(0) }
    }

    /// Returns the checkpoint.
    pub(super) fn lsn(&self) -> Lsn {
        self.parts.checkpointer.lsn()
    }

    /// Moves the checkpoint as far as it can move now, and returns it. `closes`: the database is
    /// being closed.
    pub(super) fn take(&self, why: SyncReason, closes: bool) -> Result<Lsn> {
        self.parts.checkpointer.advance(why, closes)
    }

    /// Ends a move of the log or of the doublewrite that waits for the checkpoint.
    pub(super) fn finish_moves(&self) -> Result {
        self.parts.moves.finish()
    }

    /// What takes the checkpoints.
    #[cfg(test)]
    pub(super) fn checkpointer(&self) -> &Checkpointer {
        &self.parts.checkpointer
    }

    /// Writes the root if that is worth a sync, and recycles the segments below the checkpoint.
    pub(super) fn advance(&self, now_us: u64) -> Result {
        // A checkpoint hardens the undo that replay has found unfinished or not purged. Most of it
        // is not needed a moment later.
        let since_us =
            now_us.saturating_sub(self.root_written_us.load(Ordering::Relaxed).max(self.times.opened_us));
        if self.parts.checkpointer.replaying() && since_us < self.times.replay_checkpoint_us {
            return Ok(());
        }
        let segments = self.parts.store.log.segments();
        let view = pace::checkpoint::CheckpointView {
            named: self.parts.checkpointer.lsn().0,
            possible: self.parts.checkpointer.possible().0,
            capacity: self.parts.log_size.room(now_us).existing,
            segment: segments.shape().payload_bytes(),
            since_us: now_us.saturating_sub(self.root_written_us.load(Ordering::Relaxed)),
            list: self.parts.checkpointer.list_bytes(),
        };
        if planted(Bug::RecycledEarly) {
            segments
                .recycle_below(self.parts.checkpointer.possible())
                .map_err(|error| self.parts.poison.fatal(error))?;
        }
        // Undo files that a root no longer lists give the ballast its space back. Each such root
        // removes at least one file, so there are few of them. Any other root must pay for its
        // list, or the log fills with lists.
        let is_wanted = || pays(&view) || self.parts.checkpointer.undo_files().spare;
        if worth_writing(&view) || (self.parts.disk.is_ballast_spent() && is_wanted()) {
            let advanced = self.parts.checkpointer.advance(SyncReason::Checkpoint, false);
            // At once: operations that are admitted from here on add to what the next checkpoint
            // must harden.
            self.parts.disk.report();
            advanced?;
            self.root_written_us.store(now_us, Ordering::Relaxed);
        }
        self.renew_lists(now_us)?;
        segments
            .recycle_below(self.parts.checkpointer.lsn())
            .map_err(|error| self.parts.poison.fatal(error))?;
        self.finish_moves()
    }

    /// Writes new lists if an opening would read too much of the log without.
    fn renew_lists(&self, now_us: u64) -> Result {
        let (log, pool) = (&self.parts.store.log, &self.parts.store.pool);
        let view = pace::checkpoint::HeadView {
            head: self.parts.checkpointer.head(),
            age: log.reserved_lsn().since(self.parts.checkpointer.lsn()),
            capacity: self.parts.log_size.room(now_us).existing,
            list: pool.dirty_pages() as u64 * dirty_list::PAGE_BYTES,
            most: self.times.head_bytes,
        };
        // A page that lacks redo of the last run is in no list. With a spent ballast the space is
        // for roots that free undo files.
        if !pace::checkpoint::renews(&view)
            || self.parts.checkpointer.replaying()
            || self.parts.disk.is_ballast_spent()
        {
            return Ok(());
        }
        self.parts.writers.order_map();
        self.parts.checkpointer.renew()?;
        self.root_written_us.store(now_us, Ordering::Relaxed);
        Ok(())
    }
}
