//! The cleaner (page flushing, checkpoints): writes dirty pages before their redo or their frames
//! are needed, moves the checkpoint and recycles the log. It samples, asks the pure functions of
//! `pace`, and acts. There is nothing to tune here.

use super::admission::Admission;
use super::call_threads::CallThreads;
use super::checkpoints::Checkpoints;
use super::disk_space::DiskSpace;
use super::law_in_use::LawInUse;
use super::log_size::LogSize;
use super::page_orders::{OldestOrder, VictimsOrder, Written};
use super::writers::PageWriters;
use crate::error::{Error, Poison, Result};
use crate::tree_store::Store;
use base::Lsn;
use metrics::{Force, M};
use pace::active_threads::ActiveThreads;
use pace::admission::clean_rate;
use pace::age_limits::age_limits;
use pace::budget::WriteCost;
use pace::constants::{BUDGET_US_PER_S, CLEANING_AGE_BINS, CLEANING_BACKLOG_S};
use pace::governor::{CleanerPlan, CleanerSample, CleaningReason, DirtyBin};
use pace::helpful_log::HelpfulLog;
use pace::law::Planner;
use pace::smoothed_rate::SmoothedRate;
use std::sync::Arc;
use vfs::Clock;

/// What the cleaner has seen and learned.
struct Observed {
    active_threads: ActiveThreads,
    /// What a page that is cleaned for the checkpoint costs, and a victim.
    page_cost: WriteCost,
    victim_cost: WriteCost,
    redo_rate: SmoothedRate,
    clean_rate: SmoothedRate,
    /// The share of dirty pages among the eviction candidates of the last sweeps.
    dirty_victims: f64,
    helpful_log: HelpfulLog,
    bins: Vec<(Lsn, u64)>,
}

/// What the cleaner samples and acts on.
#[derive(Clone)]
pub(super) struct CleanerParts {
    pub(super) store: Arc<Store>,
    pub(super) checkpoints: Arc<Checkpoints>,
    pub(super) writers: Arc<PageWriters>,
    pub(super) log_size: Arc<LogSize>,
    pub(super) law: LawInUse,
    pub(super) disk: Arc<DiskSpace>,
    pub(super) threads: Arc<CallThreads>,
    pub(super) admission: Arc<Admission>,
    pub(super) poison: Arc<Poison>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The cleaner.
pub(super) struct Cleaner {
    planner: Box<dyn Planner>,
    seen: Observed,
    parts: CleanerParts,
}

impl Cleaner {
    /// A cleaner under the law of the database.
    pub(super) fn new(parts: &CleanerParts) -> Cleaner {
        Cleaner {
            planner: parts.law.law().planner(),
            seen: Observed {
                active_threads: ActiveThreads::new(),
                page_cost: WriteCost::new(),
                victim_cost: WriteCost::new(),
                redo_rate: SmoothedRate::new(),
                clean_rate: SmoothedRate::new(),
                dirty_victims: 0.0,
                helpful_log: HelpfulLog::new(),
                bins: Vec::new(),
            },
            parts: parts.clone(),
        }
    }

    /// Does one step. Returns the microseconds until the next one, unless another thread wakes the
    /// cleaner earlier.
    pub(super) fn step(&mut self) -> Result<u64> {
        self.parts.poison.check()?;
        let now_us = self.parts.clock.now_us();
        // Before anything that takes long: writers can use only the files that exist.
        self.parts.log_size.adjust(now_us)?;
        self.parts.disk.report();
        self.learn();
        // Without space to harden undo the checkpoint cannot move, but frames are still needed.
        let moved = if self.is_in_round() {
            Ok(())
        } else {
            self.parts.allow_transient(self.parts.checkpoints.advance(now_us))?
        };
        let plan = self.make_plan(now_us);
        let worked = self.supply_frames(&plan) | self.clean_oldest(now_us, &plan);
        self.parts.store.metrics.add(M::CleanerSteps, u64::from(worked));
        let called = if worked { self.call_writers() } else { Ok(()) };
        let called = self.parts.allow_transient(called)?;
        self.update_admission(now_us);
        let passed = moved.and(called);
        let spent = self.parts.disk.report();
        self.parts.admission.set_blocking_file(match &passed {
            Err(Error::DiskFull { file }) => Some(file),
            _ => spent.then(|| self.parts.disk.ballast.path()),
        });
        passed?;
        Ok(plan.next_step_us)
    }

    /// Samples the engine and decides what to do.
    fn make_plan(&mut self, now_us: u64) -> CleanerPlan {
        let (pool, log) = (&self.parts.store.pool, &self.parts.store.log);
        let (end, checkpoint) = (log.reserved_lsn(), self.parts.checkpoints.lsn());
        self.seen.redo_rate.update(now_us, end.0);
        self.seen.clean_rate.update(now_us, checkpoint.0);
        let in_calls = self.parts.threads.now();
        self.parts.threads.set_active(self.seen.active_threads.update(now_us, in_calls));
        if !self.parts.law.law().has_rounds() {
            let dirty: u64 = self.seen.bins.iter().map(|(_, pages)| pages).sum();
            let helpful = self.seen.helpful_log.update(now_us, dirty * pool.page_bytes() as u64);
            self.parts.log_size.set_helpful(helpful);
            self.parts.store.metrics.set(M::RedoHelpfulBytes, helpful);
        }
        let (threads, frames) = (self.parts.threads.active(), pool.frame_count() as u64);
        let own = age_limits(self.parts.log_size.room(now_us).allowed, threads);
        let limits = self.parts.law.law().limits(own, own.capacity);
        self.parts.store.metrics.set(M::CheckpointAgeTarget, limits.target);
        let reserve = self.parts.law.law().free_frames(threads, frames);
        pool.set_free_reserve(reserve as usize);
        pool.dirty_by_lsn(limits.capacity / CLEANING_AGE_BINS, &mut self.seen.bins);
        let held_back = self.parts.law.is_held_back(checkpoint, end);
        let bins: Vec<DirtyBin> =
            self.seen.bins.iter().map(|(end, pages)| DirtyBin { end_lsn: end.0, pages: *pages }).collect();
        let sample = CleanerSample {
            now_us,
            end_lsn: end.0,
            checkpoint_lsn: checkpoint.0,
            redo_bytes_per_s: self.seen.redo_rate.per_second(),
            limits,
            first_dirty: if held_back { &[] } else { &bins },
            frames,
            free_frames: pool.free_frames() as u64,
            threads,
            waiting_threads: pool.frame_waiters() as u64,
            dirty_victims: self.seen.dirty_victims,
            us_per_page: self.seen.page_cost.us(),
            us_per_victim: self.seen.victim_cost.us(),
        };
        let hard_now = self.parts.admission.limits().hard;
        self.planner.plan(sample, hard_now, self.parts.writers.orders.is_writing_oldest())
    }

    /// Returns whether the checkpoint waits for the end of a round of page writes (Fl8). Where the
    /// ballast is spent it does not wait.
    fn is_in_round(&self) -> bool {
        self.parts.law.law().has_rounds()
            && self.parts.writers.orders.is_writing_oldest()
            && !self.parts.disk.is_ballast_spent()
    }

    /// Fills the free list with clean pages that it evicts, and orders writes of dirty ones.
    /// Returns whether it did anything.
    fn supply_frames(&mut self, plan: &CleanerPlan) -> bool {
        if plan.free_frames == 0 {
            return false;
        }
        let pool = &self.parts.store.pool;
        let free = pool.free_frames() + plan.free_frames as usize;
        let swept = pool.sweep(free, self.parts.writers.batch_pages());
        let seen = swept.freed + swept.dirty.len();
        if seen > 0 {
            self.seen.dirty_victims +=
                (swept.dirty.len() as f64 / seen as f64 - self.seen.dirty_victims) * 0.25;
        }
        let ordered = plan.victims > 0 && !swept.dirty.is_empty();
        if ordered {
            let ios = plan.victims.into();
            self.parts.writers.orders.order_victims(VictimsOrder { pages: swept.dirty, ios, free });
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
        let most = plan.wanted_pages_per_s * CLEANING_BACKLOG_S;
        self.parts.writers.orders.order_oldest(
            now_us,
            OldestOrder { pages, gather_us: plan.gather_us, force },
            most as u64,
        );
        true
    }

    /// Learns from the batches that were written since the last call.
    fn learn(&mut self) {
        let Written { oldest, victims } = self.parts.writers.orders.take_written();
        oldest.iter().for_each(|batch| self.seen.page_cost.observe(batch.pages, batch.took_us));
        // A victim is written alone or with its neighbours in one I/O.
        victims.iter().for_each(|batch| self.seen.victim_cost.observe(batch.ios, batch.took_us));
    }

    /// Gives admission the present rates and limits.
    fn update_admission(&self, now_us: u64) {
        let (log, metrics) = (&self.parts.store.log, &self.parts.store.metrics);
        let checkpoint = self.parts.checkpoints.lsn();
        let age = log.reserved_lsn().since(checkpoint);
        let clean_bytes_per_s = clean_rate(
            self.seen.clean_rate.typical_per_second(),
            BUDGET_US_PER_S / self.seen.page_cost.us(),
            age,
            self.seen.bins.iter().map(|(_, pages)| pages).sum(),
        );
        self.parts.admission.set_clean_rate(clean_bytes_per_s);
        let limits = self.parts.log_size.update_limits(now_us);
        metrics.set(M::CheckpointAgeBytes, age);
        metrics.set(M::CheckpointAgeSoft, limits.soft);
        metrics.set(M::CheckpointAgeLimit, limits.hard);
        metrics.set(M::RedoRate, self.seen.redo_rate.per_second() as u64);
        metrics.set(M::CleaningBudget, (BUDGET_US_PER_S / self.seen.page_cost.us()) as u64);
    }

    /// Wakes the writers. Where they have no threads the cleaner writes.
    fn call_writers(&mut self) -> Result {
        if self.parts.writers.wake() {
            return Ok(());
        }
        while self.parts.writers.write_ordered()? {
            self.learn();
            let now_us = self.parts.clock.now_us();
            if !self.is_in_round() {
                self.parts.checkpoints.advance(now_us)?;
            }
            self.update_admission(now_us);
        }
        Ok(())
    }
}

impl CleanerParts {
    /// Lets the step continue after an error that may pass, such as a full disk, because frames are
    /// still needed. Any other error poisons the database. Otherwise the cleaner would fail at each
    /// step, and threads that need frames would wait for ever.
    fn allow_transient<T>(&self, result: Result<T>) -> Result<Result<T>> {
        match result {
            Err(error) if !error.may_pass() => Err(self.poison.set(error)),
            kept => Ok(kept),
        }
    }
}
