//! The work of the background thread that reverts and purges: which transaction comes next, and
//! what follows when something of it cannot be read.

use super::admission::UndoWait;
use super::ended_txns::EndedTxns;
use super::purge::Purger;
use super::quarantine::{QuarantineTask, is_local};
use super::release::Releaser;
use super::rollback::Rollbacks;
use super::versions::Versions;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::mvcc::purge::PurgeDue;
use crate::planted::{Bug, planted};
use base::Lsn;
use metrics::SyncReason;
use std::iter;
use std::sync::Arc;

/// Reverts and purges what ended transactions have left, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Background<'a> {
    pub(super) log: &'a Log,
    pub(super) versions: &'a Versions,
    pub(super) ended: &'a EndedTxns,
    pub(super) rollbacks: Rollbacks<'a>,
    pub(super) purger: Purger<'a>,
    pub(super) releaser: Releaser<'a>,
}

impl Background<'_> {
    /// Returns the LSNs below which ended transactions are due for purge now.
    fn due(&self) -> PurgeDue {
        if planted(Bug::PurgedEarly) {
            return PurgeDue { seen: Lsn::MAX, durable: Lsn::MAX };
        }
        // A settled transaction is never asked whether it is durable. So its commit must be
        // durable.
        let due = PurgeDue { seen: self.versions.horizon(), durable: self.log.durable_lsn() };
        self.ended.note_due(due.seen.min(due.durable));
        due
    }

    /// Does a slice of background work: reverts one aborted transaction, or purges up to `max`
    /// ended ones. Returns how many were done; `max` if there is more to do.
    pub(crate) fn step(&self, max: usize) -> Result<usize> {
        self.ended.in_step(|| self.do_step(max))
    }

    fn do_step(&self, max: usize) -> Result<usize> {
        if self.try_again()? || self.revert_next(UndoWait::Unlimited)? {
            return Ok(max);
        }
        let due = self.due();
        let horizon = due.seen.min(due.durable);
        if self.purge_left(horizon)? || self.purge_history_batch(due.seen, horizon)? {
            return Ok(max);
        }
        let next = self.ended.purge_queue.next_with_work(due, max);
        let run = self.purger.begin_run(horizon, next.iter().map(|stream| &**stream));
        drop(next);
        for done in 0..max {
            let Some((lsn, ended)) = self.ended.purge_queue.take(due) else {
                self.forget_cleared(horizon);
                return Ok(done);
            };
            match self.purger.purge(&ended, &run) {
                Ok(()) => drop(self.versions.streams.give_back([ended.stream])),
                Err(error) if is_local(&error) && !planted(Bug::StuckAtUnreadable) => {
                    if !self.ended.set_aside(QuarantineTask::Purge(ended.clone()), error) {
                        // The quarantine is full.
                        self.versions.settle(ended.txn);
                    }
                }
                Err(error) => {
                    self.ended.purge_queue.put_back(lsn, ended);
                    return Err(error);
                }
            }
        }
        Ok(max)
    }

    /// Tries a task of the quarantine again, if the pause of one is over. Returns whether it tried
    /// one.
    fn try_again(&self) -> Result<bool> {
        let Some((id, mut task)) = self.ended.due_in_quarantine() else { return Ok(false) };
        let due = self.due();
        let horizon = due.seen.min(due.durable);
        let done = match &mut task {
            QuarantineTask::Revert(job) => {
                let done = self.rollbacks.finish_abort(job, UndoWait::AsRetry, true);
                done.map(|_| self.ended.reverts.is_reverted(&job.stream))
            }
            QuarantineTask::Purge(ended) => {
                self.purger.purge(ended, &self.purger.begin_run(horizon, iter::empty()))
            }
            QuarantineTask::HistoryBatch(batch) => self.purger.purge_members_of(batch, horizon),
            QuarantineTask::Left(extent) => self.purger.purge_batch_range(extent.clone(), horizon),
            QuarantineTask::Release(tree) => self.releaser.release_now(*tree, UndoWait::Unlimited),
        };
        match done {
            Ok(()) => self.ended.quarantine.done(id),
            Err(error) if is_local(&error) => self.ended.set_aside_again(id, task, error),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Forgets cleared ranges whose marks are purged: those below `horizon` and below the oldest
    /// transaction that waits for purge.
    fn forget_cleared(&self, horizon: Lsn) {
        if self.versions.cleared.is_empty() {
            return;
        }
        let waiting = [self.ended.purge_queue.oldest(), self.versions.history_batches.oldest()]
            .into_iter()
            .flatten()
            .min();
        self.versions.cleared.forget_below(waiting.map_or(horizon, |waiting| waiting.min(horizon)));
    }

    /// Returns how much there is to do: transactions to revert or to purge, and one for the step
    /// that is done now.
    pub(crate) fn left(&self) -> usize {
        self.ended.left(self.versions.in_history_batches())
    }

    /// Flushes the log if the oldest ended transaction is seen by all and is only not durable.
    pub(crate) fn flush_for_purge(&self) -> Result {
        let oldest = self.ended.purge_queue.oldest().filter(|&lsn| lsn < self.versions.horizon());
        oldest.map_or(Ok(()), |lsn| self.log.flush_to(lsn, SyncReason::Purge).map(drop))
    }

    /// Reverts one aborted transaction of the queue, or puts it into quarantine. Returns whether
    /// there was one.
    fn revert_next(&self, wait: UndoWait) -> Result<bool> {
        // No other thread takes from the queue.
        let Some(mut job) = self.ended.reverts.take() else { return Ok(false) };
        match self.rollbacks.finish_abort(&mut job, wait, true) {
            Ok(true) => self.ended.reverts.is_reverted(&job.stream),
            Ok(false) => self.ended.reverts.put_back(job),
            Err(error) if is_local(&error) && !planted(Bug::StuckAtUnreadable) => {
                self.ended.set_aside(QuarantineTask::Revert(job), error);
            }
            Err(error) => {
                self.ended.reverts.put_back(job);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Reverts the transactions that recovery has found aborted, except those in quarantine.
    pub(crate) fn revert_losers(&self) -> Result {
        while self.ended.reverts.losers()
            > self.ended.quarantine.reverts(self.ended.reverts.first_txn()) as u64
        {
            if !self.revert_next(UndoWait::AsCaller)? {
                break;
            }
        }
        Ok(())
    }

    /// Purges the oldest history batch, if all snapshots see all of it, or puts it into quarantine.
    /// Returns whether there was one.
    fn purge_history_batch(&self, seen: Lsn, horizon: Lsn) -> Result<bool> {
        let Some(batch) = self.versions.history_batches.due(seen) else { return Ok(false) };
        if batch.purge
            && let Err(error) = self.purger.purge_members_of(&batch, horizon)
        {
            self.quarantine_or_fail(QuarantineTask::HistoryBatch(Arc::clone(&batch)), error)?;
        }
        self.versions.history_batches.remove(&batch);
        Ok(true)
    }

    /// Puts a task that failed with `error` into quarantine, if the error does not concern other
    /// work. If the quarantine is full, the task is dropped.
    fn quarantine_or_fail(&self, task: QuarantineTask, error: Error) -> Result {
        if !is_local(&error) || planted(Bug::StuckAtUnreadable) {
            return Err(error);
        }
        let _kept = self.ended.set_aside(task, error);
        Ok(())
    }

    /// Purges a history batch that a crash has left, or puts it into quarantine. Returns whether
    /// there was one.
    fn purge_left(&self, horizon: Lsn) -> Result<bool> {
        let Some(left) = self.versions.history_batches.oldest_left_by_crash() else { return Ok(false) };
        let (failed, rest) = match left.clone().next() {
            Ok((members, rest)) => (self.purger.purge_members(members, horizon).err(), rest),
            // Then it is not known either where the next batch begins.
            Err(error) => (Some(error), None),
        };
        if let Some(error) = failed {
            self.quarantine_or_fail(QuarantineTask::Left(left.before(rest.as_ref())), error)?;
        }
        self.versions.history_batches.replace_oldest_left_by_crash(rest);
        Ok(true)
    }
}
