//! The cleaner: writes dirty pages before their redo or their frames are needed.

use super::Shared;
use crate::error::Result;
use base::Lsn;
use base::sync::spin;
use metrics::{Force, SyncReason};

impl Shared {
    /// One step of the cleaner: frames first, then the oldest dirty pages while the log is half full, then the
    /// checkpoint and the segments that it frees. Returns how many pages were written or frames freed.
    pub(super) fn clean(&self) -> Result<usize> {
        let (pool, log) = (&self.store.pool, &self.store.log);
        let mut done = 0;
        let reserve = (pool.frame_count() / 16).max(8);
        pool.set_free_reserve(reserve);
        if pool.free_frames() < reserve {
            let mut flusher = self.flusher.lock();
            let batch = flusher.batch_pages();
            let swept = pool.sweep(reserve, batch);
            done += swept.freed;
            if !swept.dirty.is_empty() {
                done += flusher.flush(&swept.dirty, Force::FreeFrames)?;
                done += pool.sweep(reserve, 1).freed;
            }
        }
        let age = log.reserved_lsn().since(self.checkpointer.lsn());
        if age > self.capacity_bytes / 2 {
            let mut flusher = self.flusher.lock();
            let up_to = Lsn(log.reserved_lsn().0.saturating_sub(self.capacity_bytes / 4));
            let oldest = pool.oldest_dirty(up_to, flusher.batch_pages());
            let pages: Vec<_> = oldest.into_iter().map(|(page, _)| page).collect();
            if !pages.is_empty() {
                done += flusher.flush(&pages, Force::CheckpointAge)?;
            }
            drop(flusher);
            self.checkpointer.advance(SyncReason::Checkpoint, false)?;
        }
        let checkpoint = self.checkpointer.lsn();
        log.segments()
            .prepare(checkpoint, log.reserved_lsn(), self.capacity_bytes)
            .map_err(|error| self.poison.set(error))?;
        Ok(done)
    }

    /// Writes every page that is dirty now.
    pub(super) fn drain(&self, force: Force) -> Result {
        let pool = &self.store.pool;
        let mut flusher = self.flusher.lock();
        let up_to = self.store.log.reserved_lsn();
        let mut turn = 0;
        loop {
            let oldest = pool.oldest_dirty(up_to, flusher.batch_pages());
            if oldest.is_empty() {
                return Ok(());
            }
            let pages: Vec<_> = oldest.into_iter().map(|(page, _)| page).collect();
            if flusher.flush(&pages, force)? == 0 {
                // Somebody holds them all for a moment.
                spin(&mut turn);
            }
        }
    }
}
