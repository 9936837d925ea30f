//! The cleaner (page flushing, checkpoints): writes dirty pages before their redo or their frames
//! are needed, moves the checkpoint and recycles the log. It samples, asks the pure functions of
//! `pace`, and acts. There is nothing to tune here.

use super::Shared;
use crate::error::{Error, Result};
use crate::flush::batch::{BatchLimit, BatchWritten, Flusher};
use crate::planted::{Bug, planted};
use crate::recover::txn_table::Digested;
use base::sync::atomic::Ordering;
use base::sync::spin;
use base::{Lsn, PageNo};
use metrics::{Force, M, SyncReason};
use pace::active_threads::ActiveThreads;
use pace::admission::clean_rate;
use pace::budget::{DeviceSpeed, PagesPerIo};
use pace::checkpoint::{pays, worth_writing};
use pace::free_frames::free_frame_reserve;
use pace::governor::{CleanerPlan, CleanerSample, CleaningReason, DirtyBucket, Governor};
use pace::smoothed_rate::SmoothedRate;
use pace::thresholds::thresholds;

/// Slices of the checkpoint age that the governor gets.
const SLICES: u64 = 64;

/// The least number of threads that is ever assumed. The engine's own threads count too.
const THREADS_MIN: u64 = 4;

/// What the cleaner remembers between steps.
pub(super) struct Cleaner {
    governor: Governor,
    active_threads: ActiveThreads,
    device: DeviceSpeed,
    redo_rate: SmoothedRate,
    clean_rate: SmoothedRate,
    pages_per_io: PagesPerIo,
    /// The share of dirty pages among the eviction candidates of the last sweeps.
    dirty_victims: f64,
    slices: Vec<(Lsn, u64)>,
    root_written_us: u64,
}

impl Cleaner {
    pub(super) fn new() -> Cleaner {
        Cleaner {
            governor: Governor::new(),
            active_threads: ActiveThreads::new(),
            device: DeviceSpeed::new(),
            redo_rate: SmoothedRate::new(),
            clean_rate: SmoothedRate::new(),
            pages_per_io: PagesPerIo::new(),
            dirty_victims: 0.0,
            slices: Vec::new(),
            root_written_us: 0,
        }
    }
}

impl Shared {
    /// Does one step. Returns the microseconds until the next one, unless another thread wakes the
    /// cleaner earlier.
    pub(super) fn clean(&self, c: &mut Cleaner) -> Result<u64> {
        self.poison.check()?;
        let now_us = self.clock.now_us();
        // Before anything that takes long: writers can use only the files that exist.
        self.adjust_files(now_us)?;
        self.report_reserve();
        // Without space to harden undo the checkpoint cannot move, but frames are still needed.
        let moved = self.allow_transient(self.move_checkpoint(c, now_us))?;
        let plan = self.make_plan(c, now_us);
        let freed = self.supply_frames(c, &plan)?;
        let cleaned = self.allow_transient(self.clean_oldest(c, &plan))?;
        let worked = freed > 0 || cleaned.as_ref().is_ok_and(|pages| *pages > 0);
        self.store.metrics.add(M::CleanerSteps, u64::from(worked));
        self.update_admission(c, now_us);
        let passed = moved.and(cleaned);
        let spent = self.report_reserve();
        self.admission.set_blocking_file(match &passed {
            Err(Error::DiskFull { file }) => Some(file),
            _ => spent.then(|| self.reserve.path()),
        });
        passed?;
        Ok(plan.next_step_us)
    }

    /// Returns whether the reserve is spent (INV-27) while there are undo files whose end gives its
    /// space back. False if that end itself waits for space that others give back.
    pub(super) fn reserve_is_spent(&self) -> bool {
        // While the reserve is held, no thread waits for a writer of the undo files.
        if self.reserve.is_held() || planted(Bug::ReserveRunDown) {
            return false;
        }
        let files = self.checkpointer.undo_files();
        (files.used || files.spare) && !files.waits
    }

    /// Lets the step continue after an error that may pass, such as a full disk, because frames are
    /// still needed. Any other error poisons the database. Otherwise the cleaner would fail at each
    /// step, and threads that need frames would wait for ever.
    fn allow_transient<T>(&self, result: Result<T>) -> Result<Result<T>> {
        match result {
            Err(error) if !error.may_pass() => Err(self.poison.set(error)),
            kept => Ok(kept),
        }
    }

    /// Tells admission whether the reserve is spent, and returns it.
    pub(super) fn report_reserve(&self) -> bool {
        let spent = self.reserve_is_spent();
        self.admission.set_reserve_spent(spent);
        spent
    }

    /// Poisons the database with the error, unless the error may pass.
    pub(super) fn fatal(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.poison.set(error) }
    }

    /// Returns the smoothed number of active threads, at least [`THREADS_MIN`].
    pub(super) fn threads(&self) -> u64 {
        self.active_threads.load(Ordering::Relaxed).max(THREADS_MIN)
    }

    /// Returns the number of threads in the engine now: in a call, or in a commit that waits. Open
    /// transactions alone do not count.
    pub(super) fn threads_in_calls(&self) -> u64 {
        let waiting = self.store.pool.frame_waiters() as u64;
        (self.calls.count() + self.store.log.committers()).max(waiting)
    }

    /// Samples the engine and decides what to do.
    fn make_plan(&self, c: &mut Cleaner, now_us: u64) -> CleanerPlan {
        let (pool, log) = (&self.store.pool, &self.store.log);
        let (end, checkpoint) = (log.reserved_lsn(), self.checkpointer.lsn());
        c.redo_rate.update(now_us, end.0);
        c.clean_rate.update(now_us, checkpoint.0);
        self.active_threads
            .store(c.active_threads.update(now_us, self.threads_in_calls()), Ordering::Relaxed);
        let (threads, frames) = (self.threads(), pool.frame_count() as u64);
        let marks = thresholds(self.redo_room(now_us).allowed, threads);
        self.store.metrics.set(M::CheckpointAgeTarget, marks.target);
        pool.set_free_reserve(free_frame_reserve(threads, frames).high as usize);
        pool.dirty_by_slice(marks.capacity / SLICES, &mut c.slices);
        let held_back = end.since(checkpoint) < self.hold_cleaning_until;
        let slices: Vec<DirtyBucket> =
            c.slices.iter().map(|(end, pages)| DirtyBucket { end_lsn: end.0, pages: *pages }).collect();
        c.governor.step(&CleanerSample {
            now_us,
            end_lsn: end.0,
            checkpoint_lsn: checkpoint.0,
            redo_bytes_per_s: c.redo_rate.per_second(),
            thresholds: marks,
            first_dirty: if held_back { &[] } else { &slices },
            frames,
            free_frames: pool.free_frames() as u64,
            threads,
            waiting_threads: pool.frame_waiters() as u64,
            dirty_victims: c.dirty_victims,
            pages_per_io: c.pages_per_io.get(),
            budget_ios_per_s: c.device.budget_ios_per_s(),
        })
    }

    /// Fills the free list: first with clean pages that it evicts, then with dirty pages that it
    /// writes and evicts.
    fn supply_frames(&self, c: &mut Cleaner, plan: &CleanerPlan) -> Result<u64> {
        if plan.free_frames == 0 {
            return Ok(0);
        }
        let pool = &self.store.pool;
        let target = pool.free_frames() + plan.free_frames as usize;
        let mut flusher = self.flusher.lock();
        let swept = pool.sweep(target, flusher.batch_pages());
        let seen = swept.freed + swept.dirty.len();
        if seen > 0 {
            c.dirty_victims += (swept.dirty.len() as f64 / seen as f64 - c.dirty_victims) * 0.25;
        }
        let mut freed = swept.freed;
        if plan.free_frame_ios > 0 && !swept.dirty.is_empty() {
            let limit = BatchLimit { pages: u64::MAX, ios: plan.free_frame_ios.into() };
            self.write(c, &mut flusher, &swept.dirty, limit, Force::FreeFrames)?;
            freed += pool.free_cleaned(&swept.dirty, target);
        }
        Ok(freed as u64)
    }

    /// Cleans what the plan asks for, oldest first. Stops early if a thread waits for a frame.
    fn clean_oldest(&self, c: &mut Cleaner, plan: &CleanerPlan) -> Result<u64> {
        let pool = &self.store.pool;
        let force = match plan.reason {
            CleaningReason::DirtyShare => Force::DirtyShare,
            CleaningReason::Idle => Force::Idle,
            // Writes for free frames are counted elsewhere, under their own reason.
            CleaningReason::CheckpointAge | CleaningReason::FreeFrames => Force::CheckpointAge,
        };
        let (mut ios, mut pages) = (u64::from(plan.checkpoint_ios), 0);
        while ios > 0 && pages < plan.page_quota {
            let mut flusher = self.flusher.lock();
            let oldest = pool.oldest_dirty(Lsn(plan.clean_to_lsn), flusher.batch_pages());
            let oldest: Vec<PageNo> = oldest.into_iter().map(|(page, _)| page).collect();
            let limit = BatchLimit { pages: plan.page_quota - pages, ios };
            let written = self.write(c, &mut flusher, &oldest, limit, force)?;
            drop(flusher);
            pages += written.pages;
            ios = ios.saturating_sub(written.ios);
            // Each batch moves the checkpoint at once: a step may be many batches long.
            let now_us = self.clock.now_us();
            self.move_checkpoint(c, now_us)?;
            self.update_admission(c, now_us);
            if written.pages == 0 || pool.frame_waiters() > pool.free_frames() {
                break;
            }
        }
        Ok(pages)
    }

    fn write(
        &self,
        c: &mut Cleaner,
        flusher: &mut Flusher,
        pages: &[PageNo],
        limit: BatchLimit,
        force: Force,
    ) -> Result<BatchWritten> {
        let written = flusher.flush(pages, limit, force)?;
        if written.ios > 0 {
            c.device.observe(written.ios, written.took_us);
            c.pages_per_io.observe(written.pages, written.ios);
        }
        Ok(written)
    }

    /// Writes the root if that is worth a sync, and recycles the segments below the checkpoint.
    fn move_checkpoint(&self, c: &mut Cleaner, now_us: u64) -> Result {
        // A checkpoint hardens the undo that replay has found unfinished or not purged. Most of it
        // is not needed a moment later.
        let since_us = now_us.saturating_sub(c.root_written_us.max(self.opened_us));
        if self.checkpointer.replaying() && since_us < self.replay_checkpoint_us {
            return Ok(());
        }
        let segments = self.store.log.segments();
        let view = pace::checkpoint::CheckpointView {
            named: self.checkpointer.lsn().0,
            possible: self.checkpointer.possible().0,
            capacity: self.redo_room(now_us).existing,
            segment: segments.shape().payload_bytes(),
            since_us: now_us.saturating_sub(c.root_written_us),
            list: self.checkpointer.list_bytes(),
        };
        if planted(Bug::RecycledEarly) {
            segments.recycle_below(self.checkpointer.possible()).map_err(|error| self.fatal(error))?;
        }
        // Undo files that a root no longer lists give the reserve its space back. Each such root
        // removes at least one file, so there are few of them. Any other root must pay for its
        // list, or the log fills with lists.
        let is_wanted = || pays(&view) || self.checkpointer.undo_files().spare;
        if worth_writing(&view) || (self.reserve_is_spent() && is_wanted()) {
            let advanced = self.checkpointer.advance(SyncReason::Checkpoint, false);
            // At once: operations that are admitted from here on add to what the next checkpoint
            // must harden.
            self.report_reserve();
            advanced?;
            c.root_written_us = now_us;
        }
        let (checkpoint, listed) = self.checkpointer.current();
        {
            let mut txn_table = self.txn_table.lock();
            let mut source = Digested { txn_table: &mut txn_table, listed: &listed };
            self.store.log.digest_next(checkpoint, &mut source).map_err(|error| self.fatal(error))?;
            txn_table.forget_ended(checkpoint, &listed);
            self.store.metrics.set(M::TxnTableBytes, txn_table.bytes());
        }
        segments.recycle_below(checkpoint).map_err(|error| self.fatal(error))?;
        Ok(())
    }

    /// Gives admission the present rates and marks.
    fn update_admission(&self, c: &Cleaner, now_us: u64) {
        let (log, metrics) = (&self.store.log, &self.store.metrics);
        let checkpoint = self.checkpointer.lsn();
        let age = log.reserved_lsn().since(checkpoint);
        let clean_bytes_per_s = clean_rate(
            c.clean_rate.typical_per_second(),
            c.device.budget_ios_per_s(),
            c.pages_per_io.get(),
            age,
            c.slices.iter().map(|(_, pages)| pages).sum(),
        );
        self.admission.set_clean_rate(clean_bytes_per_s);
        self.admission.set_next_id(self.txns.status.next());
        let marks = self.update_marks(now_us);
        metrics.set(M::CheckpointAgeBytes, age);
        metrics.set(M::CheckpointAgeSoft, marks.soft);
        metrics.set(M::CheckpointAgeLimit, marks.hard);
        metrics.set(M::RedoRate, c.redo_rate.per_second() as u64);
        metrics.set(M::IoBudget, c.device.budget_ios_per_s() as u64);
    }

    /// Writes every page that is dirty now, in batches, so the cleaner can supply frames in
    /// between.
    pub(super) fn drain(&self, force: Force) -> Result {
        let pool = &self.store.pool;
        let up_to = self.store.log.reserved_lsn();
        let mut turn = 0;
        loop {
            let mut flusher = self.flusher.lock();
            let oldest = pool.oldest_dirty(up_to, flusher.batch_pages());
            if oldest.is_empty() {
                return Ok(());
            }
            let pages: Vec<_> = oldest.into_iter().map(|(page, _)| page).collect();
            if flusher.flush(&pages, BatchLimit::NONE, force)?.pages == 0 {
                // Other threads have latched all of them for a moment.
                drop(flusher);
                spin(&mut turn);
            }
        }
    }
}
