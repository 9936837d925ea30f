//! Checkpoints while the database is open: when a root is worth a sync, when its lists are written
//! anew, and what may go when it has moved. The rule is `pace::checkpoint`.

use super::disk_space::DiskSpace;
use super::log_size::LogSize;
use super::moving::Moves;
use super::writers::PageWriters;
use crate::checkpoint::dirty_list;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Poison, Result};
use crate::planted::{Bug, planted};
use crate::store::Store;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::SyncReason;
use pace::checkpoint::{pays, worth_writing};
use std::sync::Arc;

/// What moves the checkpoint.
pub(super) struct Checkpoints {
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) store: Arc<Store>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) disk: Arc<DiskSpace>,
    pub(super) moves: Arc<Moves>,
    pub(super) writers: Arc<PageWriters>,
    pub(super) poison: Arc<Poison>,
    /// When the database was opened, microseconds.
    pub(super) opened_us: u64,
    /// When the last root was written, microseconds.
    pub(super) root_written_us: AtomicU64,
    /// At most this much replay is repeated if recovery crashes, microseconds.
    pub(super) replay_checkpoint_us: u64,
    /// So much of the log an opening may read, bytes.
    pub(super) head_bytes: u64,
}

impl Checkpoints {
    /// Writes the root if that is worth a sync, and recycles the segments below the checkpoint.
    pub(super) fn advance(&self, now_us: u64) -> Result {
        // A checkpoint hardens the undo that replay has found unfinished or not purged. Most of it
        // is not needed a moment later.
        let since_us =
            now_us.saturating_sub(self.root_written_us.load(Ordering::Relaxed).max(self.opened_us));
        if self.checkpointer.replaying() && since_us < self.replay_checkpoint_us {
            return Ok(());
        }
        let segments = self.store.log.segments();
        let view = pace::checkpoint::CheckpointView {
            named: self.checkpointer.lsn().0,
            possible: self.checkpointer.possible().0,
            capacity: self.log_size.room(now_us).existing,
            segment: segments.shape().payload_bytes(),
            since_us: now_us.saturating_sub(self.root_written_us.load(Ordering::Relaxed)),
            list: self.checkpointer.list_bytes(),
        };
        if planted(Bug::RecycledEarly) {
            segments.recycle_below(self.checkpointer.possible()).map_err(|error| self.poison.fatal(error))?;
        }
        // Undo files that a root no longer lists give the reserve its space back. Each such root
        // removes at least one file, so there are few of them. Any other root must pay for its
        // list, or the log fills with lists.
        let is_wanted = || pays(&view) || self.checkpointer.undo_files().spare;
        if worth_writing(&view) || (self.disk.is_reserve_spent() && is_wanted()) {
            let advanced = self.checkpointer.advance(SyncReason::Checkpoint, false);
            // At once: operations that are admitted from here on add to what the next checkpoint
            // must harden.
            self.disk.report();
            advanced?;
            self.root_written_us.store(now_us, Ordering::Relaxed);
        }
        self.renew_lists(now_us)?;
        segments.recycle_below(self.checkpointer.lsn()).map_err(|error| self.poison.fatal(error))?;
        self.moves.end()
    }

    /// Writes new lists if an opening would read too much of the log without.
    fn renew_lists(&self, now_us: u64) -> Result {
        let (log, pool) = (&self.store.log, &self.store.pool);
        let view = pace::checkpoint::HeadView {
            head: self.checkpointer.head(),
            age: log.reserved_lsn().since(self.checkpointer.lsn()),
            capacity: self.log_size.room(now_us).existing,
            list: pool.dirty_pages() as u64 * dirty_list::PAGE_BYTES,
            most: self.head_bytes,
        };
        // A page that lacks redo of the last run is in no list. With a spent reserve the space is
        // for roots that free undo files.
        if !pace::checkpoint::renews(&view) || self.checkpointer.replaying() || self.disk.is_reserve_spent() {
            return Ok(());
        }
        self.writers.order_map();
        self.checkpointer.renew()?;
        self.root_written_us.store(now_us, Ordering::Relaxed);
        Ok(())
    }
}
