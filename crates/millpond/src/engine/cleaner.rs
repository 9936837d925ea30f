//! The cleaner (page flushing, checkpoints): writes dirty pages before their redo or their frames
//! are needed, moves the checkpoint and recycles the log. It samples, asks the pure functions of
//! `pace`, and acts. There is nothing to tune here.

use super::Shared;
use super::roster::Worker;
use super::writers::{OldestOrder, VictimsOrder, Written};
use crate::checkpoint::dirty_list;
use crate::error::{Error, Result};
use crate::flush::runs::BatchLimit;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::atomic::Ordering;
use base::sync::spin;
use metrics::{Force, M, SyncReason};
use pace::active_threads::ActiveThreads;
use pace::admission::clean_rate;
use pace::budget::{BUDGET_US_PER_S, WriteCost};
use pace::checkpoint::{pays, worth_writing};
use pace::free_frames::free_frame_reserve;
use pace::governor::{CleanerPlan, CleanerSample, CleaningReason, DirtyBucket, Governor};
use pace::helpful_log::HelpfulLog;
use pace::innodb::cleaner::InnodbCleaner;
use pace::innodb::{Settings, lru};
use pace::smoothed_rate::SmoothedRate;
use pace::thresholds::thresholds;

/// Slices of the checkpoint age that the governor gets.
const SLICES: u64 = 64;

/// The least number of threads that is ever assumed. The engine's own threads count too.
const THREADS_MIN: u64 = 4;

/// So much of the wanted cleaning may be ordered and not done yet, seconds.
const BACKLOG_S: f64 = 0.1;

/// Decides how many pages to clean, by the law of the database.
enum Planner {
    Millpond(Governor),
    Innodb(InnodbCleaner),
}

/// What the cleaner remembers between steps.
pub(super) struct Cleaner {
    planner: Planner,
    active_threads: ActiveThreads,
    /// What a page that is cleaned for the checkpoint costs, and a victim.
    page_cost: WriteCost,
    victim_cost: WriteCost,
    redo_rate: SmoothedRate,
    clean_rate: SmoothedRate,
    /// The share of dirty pages among the eviction candidates of the last sweeps.
    dirty_victims: f64,
    helpful_log: HelpfulLog,
    slices: Vec<(Lsn, u64)>,
    root_written_us: u64,
}

impl Cleaner {
    /// A cleaner under InnoDB's law with these settings, or under Millpond's.
    pub(super) fn new(innodb: Option<Settings>) -> Cleaner {
        Cleaner {
            planner: match innodb {
                None => Planner::Millpond(Governor::new()),
                Some(settings) => Planner::Innodb(InnodbCleaner::new(settings)),
            },
            active_threads: ActiveThreads::new(),
            page_cost: WriteCost::new(),
            victim_cost: WriteCost::new(),
            redo_rate: SmoothedRate::new(),
            clean_rate: SmoothedRate::new(),
            dirty_victims: 0.0,
            helpful_log: HelpfulLog::new(),
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
        self.learn(c);
        // Without space to harden undo the checkpoint cannot move, but frames are still needed.
        let moved =
            if self.is_in_round() { Ok(()) } else { self.allow_transient(self.move_checkpoint(c, now_us))? };
        let plan = self.make_plan(c, now_us);
        let worked = self.supply_frames(c, &plan) | self.clean_oldest(now_us, &plan);
        self.store.metrics.add(M::CleanerSteps, u64::from(worked));
        let called = if worked { self.allow_transient(self.call_writers(c))? } else { Ok(()) };
        self.update_admission(c, now_us);
        let passed = moved.and(called);
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
        files.any() && !files.waits
    }

    /// Returns whether the disk has space that hardening does not need: the reserve is held, or no
    /// undo file is left whose end could be needed to hold it again.
    pub(super) fn has_spare_space(&self) -> bool {
        self.reserve.is_held() || !self.checkpointer.undo_files().any()
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
        let waits = !spent && !self.has_spare_space() && !planted(Bug::ReserveRunDown);
        self.admission.set_reserve_spent(spent, waits);
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
        if self.innodb.is_none() {
            let dirty: u64 = c.slices.iter().map(|(_, pages)| pages).sum();
            let helpful = c.helpful_log.update(now_us, dirty * pool.page_bytes() as u64);
            self.capacity.set_helpful(helpful);
            self.store.metrics.set(M::RedoHelpfulBytes, helpful);
        }
        let (threads, frames) = (self.threads(), pool.frame_count() as u64);
        let own = thresholds(self.redo_room(now_us).allowed, threads);
        let marks = self.marks_by_law(own, own.capacity);
        self.store.metrics.set(M::CheckpointAgeTarget, marks.target);
        let reserve = match self.innodb {
            None => free_frame_reserve(threads, frames).high,
            Some(settings) => lru::wanted_free(&settings, frames),
        };
        pool.set_free_reserve(reserve as usize);
        pool.dirty_by_slice(marks.capacity / SLICES, &mut c.slices);
        let held_back = end.since(checkpoint) < self.hold_cleaning_until;
        let slices: Vec<DirtyBucket> =
            c.slices.iter().map(|(end, pages)| DirtyBucket { end_lsn: end.0, pages: *pages }).collect();
        let mut sample = CleanerSample {
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
            us_per_page: c.page_cost.us(),
            us_per_victim: c.victim_cost.us(),
        };
        match &mut c.planner {
            Planner::Millpond(governor) => governor.step(&sample),
            Planner::Innodb(cleaner) => {
                // Where writers stop now: the log may have fewer files than it is allowed.
                sample.thresholds.hard = marks.hard.min(self.admission.marks().hard);
                cleaner.step(&sample, self.writers.is_writing_oldest())
            }
        }
    }

    /// Returns whether the checkpoint waits for the end of a round of page writes (Fl8). Where the
    /// reserve is spent it does not wait.
    pub(super) fn is_in_round(&self) -> bool {
        self.innodb.is_some() && self.writers.is_writing_oldest() && !self.reserve_is_spent()
    }

    /// Fills the free list with clean pages that it evicts, and orders writes of dirty ones.
    /// Returns whether it did anything.
    fn supply_frames(&self, c: &mut Cleaner, plan: &CleanerPlan) -> bool {
        if plan.free_frames == 0 {
            return false;
        }
        let pool = &self.store.pool;
        let free = pool.free_frames() + plan.free_frames as usize;
        let swept = pool.sweep(free, self.flusher.batch_pages());
        let seen = swept.freed + swept.dirty.len();
        if seen > 0 {
            c.dirty_victims += (swept.dirty.len() as f64 / seen as f64 - c.dirty_victims) * 0.25;
        }
        let ordered = plan.victims > 0 && !swept.dirty.is_empty();
        if ordered {
            let ios = plan.victims.into();
            self.writers.order_victims(VictimsOrder { pages: swept.dirty, ios, free });
        }
        ordered || swept.freed > 0
    }

    /// Orders the cleaning that the plan asks for. Returns whether there is any.
    fn clean_oldest(&self, now_us: u64, plan: &CleanerPlan) -> bool {
        let force = match plan.reason {
            CleaningReason::DirtyShare => Force::DirtyShare,
            CleaningReason::Idle => Force::Idle,
            // Writes for free frames are counted elsewhere, under their own reason.
            CleaningReason::CheckpointAge | CleaningReason::FreeFrames => Force::CheckpointAge,
        };
        let pages = plan.page_quota;
        if pages == 0 {
            return false;
        }
        let most = plan.wanted_pages_per_s * BACKLOG_S;
        self.writers.order_oldest(
            now_us,
            OldestOrder { pages, gather_us: plan.gather_us, force },
            most as u64,
        );
        true
    }

    /// Learns from the batches that were written since the last call.
    pub(super) fn learn(&self, c: &mut Cleaner) {
        let Written { oldest, victims } = self.writers.take_written();
        oldest.iter().for_each(|batch| c.page_cost.observe(batch.pages, batch.took_us));
        // A victim is written alone or with its neighbours in one I/O.
        victims.iter().for_each(|batch| c.victim_cost.observe(batch.ios, batch.took_us));
    }

    /// Writes the root if that is worth a sync, and recycles the segments below the checkpoint.
    pub(super) fn move_checkpoint(&self, c: &mut Cleaner, now_us: u64) -> Result {
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
        self.renew_lists(c, now_us)?;
        segments.recycle_below(self.checkpointer.lsn()).map_err(|error| self.fatal(error))?;
        self.end_moves()
    }

    /// Writes new lists if an opening would read too much of the log without.
    fn renew_lists(&self, c: &mut Cleaner, now_us: u64) -> Result {
        let (log, pool) = (&self.store.log, &self.store.pool);
        let view = pace::checkpoint::HeadView {
            head: self.checkpointer.head(),
            age: log.reserved_lsn().since(self.checkpointer.lsn()),
            capacity: self.redo_room(now_us).existing,
            list: pool.dirty_pages() as u64 * dirty_list::PAGE_BYTES,
            most: self.head_bytes,
        };
        // A page that lacks redo of the last run is in no list. With a spent reserve the space is
        // for roots that free undo files.
        if !pace::checkpoint::renews(&view) || self.checkpointer.replaying() || self.reserve_is_spent() {
            return Ok(());
        }
        self.order_map();
        self.checkpointer.renew()?;
        c.root_written_us = now_us;
        Ok(())
    }

    /// Orders the dirty pages of the space map. Opening reads all of the map, and each page of it
    /// changes with every extent that is given out: without this it would lack thousands of
    /// changes, each at another place of the log.
    pub(super) fn order_map(&self) {
        let pool = &self.store.pool;
        let mut pages = self.store.space.map_pages();
        pages.retain(|page| pool.wants_flush(*page));
        if pages.is_empty() {
            return;
        }
        self.writers.order_named(pages);
        if self.has_writers {
            self.roster.wake(Worker::WRITERS[0]);
        }
    }

    /// Gives admission the present rates and marks.
    pub(super) fn update_admission(&self, c: &Cleaner, now_us: u64) {
        let (log, metrics) = (&self.store.log, &self.store.metrics);
        let checkpoint = self.checkpointer.lsn();
        let age = log.reserved_lsn().since(checkpoint);
        let clean_bytes_per_s = clean_rate(
            c.clean_rate.typical_per_second(),
            BUDGET_US_PER_S / c.page_cost.us(),
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
        metrics.set(M::CleaningBudget, (BUDGET_US_PER_S / c.page_cost.us()) as u64);
    }

    /// Writes every page that is dirty now, in batches. Each of them may be written by this thread
    /// or by a writer.
    pub(super) fn drain(&self, force: Force) -> Result {
        let pool = &self.store.pool;
        let up_to = self.store.log.reserved_lsn();
        let oldest = |most| pool.oldest_dirty(up_to, most);
        let pages = |most| oldest(most).into_iter().map(|(page, _)| page).collect();
        let mut turn = 0;
        while pool.min_first_dirty().is_some_and(|first| first < up_to) {
            if oldest(1).is_empty() {
                // A page that was changed again while it is being written is dirty again then.
                self.flusher.wait_for_copies(up_to)?;
            } else if self.flusher.flush(pages, BatchLimit::NONE, force)?.pages == 0 {
                // Other threads have latched all of them for a moment.
                spin(&mut turn);
            }
        }
        Ok(())
    }
}
