//! Purge: removes what no reader can see any more: delete marks, replaced long values, undo.
//! (PostgreSQL: vacuum.)

use super::admission::UndoWait;
use super::log_record::log_record;
use super::quarantine::{QuarantineTask, SkippedRecords, is_local};
use super::revert::RECORD_REDO;
use super::system::Txns;
use crate::btree::{OldChain, is_small};
use crate::buffer::PageImages;
use crate::error::{Error, Result};
use crate::log::group::{self, Record as LogRecord};
use crate::mtr::Mtr;
use crate::mvcc::TxnState;
use crate::mvcc::purge::{EndedTxn, PurgeDue};
use crate::page::node::{DELETED, Leaf, OVERFLOW};
use crate::page::op::PageOp;
use crate::page::overflow::ChainRef;
use crate::planted::{Bug, planted};
use crate::undo::{
    HeldPiece, HistoryBatch, HistoryBatchRange, PurgeItem, Stream, ToPurge, UndoAccess, UndoEntry,
};
use base::sync::atomic::Ordering;
use base::{Lsn, TreeId, TxnId};
use metrics::{M, SyncReason};
use std::sync::Arc;

/// How many transactions one record reports as purged. If the engine stops before a record is full,
/// its transactions are purged once more, which changes nothing.
const PURGED_TOGETHER: usize = 64;

/// Transactions of a history batch whose long values are looked at together.
const READ_TOGETHER: usize = 64;

/// The work for one record, copied out of the undo so that nothing is held while it is done.
pub(super) struct PurgeWork {
    pub(super) tree: TreeId,
    /// The key of a row that may be a delete mark.
    mark: Option<Vec<u8>>,
    /// A long value that was replaced.
    pub(super) chain: Option<ChainRef>,
}

/// What the purge of several transactions has in common.
struct PurgeRun {
    horizon: Lsn,
    /// First pages of long values that it frees, as far as they were read.
    heads: PageImages,
}

impl Txns {
    /// Returns the LSNs below which ended transactions are due for purge now.
    fn due(&self) -> PurgeDue {
        if planted(Bug::PurgedEarly) {
            return PurgeDue { seen: Lsn::MAX, durable: Lsn::MAX };
        }
        // A settled transaction is never asked whether it is durable. So its commit must be
        // durable.
        let due = PurgeDue { seen: self.horizon(), durable: self.store.log.durable_lsn() };
        self.known_due.fetch_max(due.seen.min(due.durable).0, Ordering::AcqRel);
        due
    }

    /// Forgets transactions of which nothing is left but memory.
    pub(super) fn forget(&self, ended: impl IntoIterator<Item = EndedTxn>) {
        for ended in ended {
            self.status.set(ended.txn, TxnState::Settled);
            self.streams.remove(ended.txn);
            self.streams.give_back_here(ended.stream);
        }
    }

    /// Does a slice of background work: reverts one aborted transaction, or purges up to `max`
    /// ended ones. Returns how many were done; `max` if there is more to do.
    pub(crate) fn background_step(&self, max: usize) -> Result<usize> {
        self.in_step.store(true, Ordering::Release);
        let done = self.do_step(max);
        self.in_step.store(false, Ordering::Release);
        done
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
        let next = self.purge_queue.next_with_work(due, max);
        let run = PurgeRun { horizon, heads: self.read_chain_heads(next.iter().map(|stream| &**stream)) };
        drop(next);
        for done in 0..max {
            let Some((lsn, ended)) = self.purge_queue.take(due) else {
                self.forget_cleared(horizon);
                return Ok(done);
            };
            match self.purge(&ended, &run) {
                Ok(()) => drop(self.streams.give_back([ended.stream])),
                Err(error) if is_local(&error) && !planted(Bug::StuckAtUnreadable) => {
                    if !self.quarantine_task(QuarantineTask::Purge(ended.clone()), error) {
                        self.forget_unpurged(&ended);
                    }
                }
                Err(error) => {
                    self.purge_queue.put_back(lsn, ended);
                    return Err(error);
                }
            }
        }
        Ok(max)
    }

    /// Tries a task of the quarantine again, if the pause of one is over. Returns whether it tried
    /// one.
    fn try_again(&self) -> Result<bool> {
        let Some((id, mut task)) = self.quarantine.due(self.vfs.clock.now_us()) else { return Ok(false) };
        let due = self.due();
        let horizon = due.seen.min(due.durable);
        let done = match &mut task {
            QuarantineTask::Revert(job) => {
                let done = self.finish_abort(job, UndoWait::AsRetry, true);
                done.map(|_| self.reverts.is_reverted(&job.stream))
            }
            QuarantineTask::Purge(ended) => {
                self.purge(ended, &PurgeRun { horizon, heads: PageImages::default() })
            }
            QuarantineTask::HistoryBatch(segment) => self.purge_members_of(segment, horizon),
            QuarantineTask::Left(extent) => self.purge_batch_range(extent.clone(), horizon),
            QuarantineTask::Release(tree) => self.release_now(*tree, UndoWait::Unlimited),
        };
        match done {
            Ok(()) => self.quarantine.done(id),
            Err(error) if is_local(&error) => self.quarantine.again(id, task, error, self.vfs.clock.now_us()),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Forgets a transaction of which something cannot be purged, because the quarantine is full.
    fn forget_unpurged(&self, ended: &EndedTxn) {
        self.status.set(ended.txn, TxnState::Settled);
        self.streams.remove(ended.txn);
    }

    /// Forgets cleared ranges whose marks are purged: those below `horizon` and below the oldest
    /// transaction that waits for purge.
    fn forget_cleared(&self, horizon: Lsn) {
        if self.cleared.is_empty() {
            return;
        }
        let waiting = [self.purge_queue.oldest(), self.history.oldest()].into_iter().flatten().min();
        self.cleared.forget_below(waiting.map_or(horizon, |waiting| waiting.min(horizon)));
    }

    /// Flushes the log if the oldest ended transaction is seen by all and is only not durable.
    pub(crate) fn flush_for_purge(&self) -> Result {
        let oldest = self.purge_queue.oldest().filter(|&lsn| lsn < self.horizon());
        oldest.map_or(Ok(()), |lsn| self.store.log.flush_to(lsn, SyncReason::Purge).map(drop))
    }

    fn purge(&self, ended: &EndedTxn, run: &PurgeRun) -> Result {
        let (txn, stream) = (ended.txn, &ended.stream);
        if planted(Bug::PurgedLoggedEarly) && ended.committed {
            self.log_purged(txn)?;
        }
        self.purge_records(stream, ended.committed, run)?;
        if !ended.committed {
            self.store.log.make_room()?;
            log_record(&self.store.log, &LogRecord::Reverted { txn }, |_| {});
        } else if stream.needs_purge() {
            self.log_purged(txn)?;
        }
        self.status.set(txn, TxnState::Settled);
        self.streams.remove(txn);
        Ok(())
    }

    /// Does all purge work for the records of a stream. Skips what cannot be read, and returns that
    /// error at the end.
    fn purge_records(&self, stream: &Stream, committed: bool, run: &PurgeRun) -> Result {
        let (mut walk, mut held, mut skipped) =
            (stream.walk(committed), HeldPiece::default(), SkippedRecords::default());
        loop {
            let found = stream.walk_on(&mut walk, &held, |record, purge| work_of(&record.entry, purge));
            let work = match found.map_err(|damage| self.undo_damage(damage))? {
                UndoAccess::Away(piece) => {
                    self.fetched.fetch(&piece, &mut held)?;
                    continue;
                }
                UndoAccess::Here(None) => return skipped.finish(),
                UndoAccess::Here(Some(work)) => work.map_err(|damage| self.undo_damage(damage))?,
            };
            match self.purge_record(&work, run) {
                Ok(()) => self.store.metrics.add(M::PurgeRows, 1),
                Err(error) => skipped.skip(error)?,
            }
        }
    }

    fn purge_record(&self, work: &PurgeWork, run: &PurgeRun) -> Result {
        if let Some(chain) = &work.chain {
            self.free_old_chain(work.tree, chain, &run.heads)?;
        }
        let Some(key) = &work.mark else { return Ok(()) };
        self.undo_admission.admit_undo(RECORD_REDO + key.len() as u64, UndoWait::Unlimited)?;
        self.purge_row(work.tree, key, run.horizon)
    }

    /// Frees the chain of a value that no snapshot sees any more. If the tree was dropped, its
    /// pages went with the tree.
    fn free_old_chain(&self, tree: TreeId, chain: &ChainRef, heads: &PageImages) -> Result {
        let Some(live) = self.trees.get(tree) else { return Ok(()) };
        let mut rest = OldChain::find(&self.store, tree, chain, heads)?;
        drop(live);
        while !rest.is_empty() {
            self.undo_admission.admit_undo(rest.redo(), UndoWait::Unlimited)?;
            // While the tree exists, no other thread frees these pages.
            let Some(_live) = self.trees.get(tree) else { return Ok(()) };
            rest.free_last(&self.store)?;
        }
        Ok(())
    }

    /// Purges the oldest history batch, if all snapshots see all of it, or puts it into quarantine.
    /// Returns whether there was one.
    fn purge_history_batch(&self, seen: Lsn, horizon: Lsn) -> Result<bool> {
        let Some(segment) = self.history.due(seen) else { return Ok(false) };
        if segment.purge
            && let Err(error) = self.purge_members_of(&segment, horizon)
        {
            self.quarantine_or_fail(QuarantineTask::HistoryBatch(Arc::clone(&segment)), error)?;
        }
        self.history.remove(&segment);
        Ok(true)
    }

    /// Puts a task that failed with `error` into quarantine, if the error does not concern other
    /// work. If the quarantine is full, the task is dropped.
    fn quarantine_or_fail(&self, task: QuarantineTask, error: Error) -> Result {
        if !is_local(&error) || planted(Bug::StuckAtUnreadable) {
            return Err(error);
        }
        let _kept = self.quarantine_task(task, error);
        Ok(())
    }

    fn purge_members_of(&self, segment: &HistoryBatch, horizon: Lsn) -> Result {
        let (piece, mut held) = (segment.piece(), HeldPiece::default());
        self.fetched.fetch(&piece, &mut held)?;
        let members = held.to_purge(&piece).map_err(|damage| self.undo_damage(damage))?;
        self.purge_members(members, horizon)
    }

    /// Purges a history batch that a crash has left, or puts it into quarantine. Returns whether
    /// there was one.
    fn purge_left(&self, horizon: Lsn) -> Result<bool> {
        let Some(left) = self.history.oldest_left_by_crash() else { return Ok(false) };
        let (failed, rest) = match left.clone().next() {
            Ok((members, rest)) => (self.purge_members(members, horizon).err(), rest),
            // Then it is not known either where the next batch begins.
            Err(error) => (Some(error), None),
        };
        if let Some(error) = failed {
            self.quarantine_or_fail(QuarantineTask::Left(left.before(rest.as_ref())), error)?;
        }
        self.history.replace_oldest_left_by_crash(rest);
        Ok(true)
    }

    /// Purges history batches that a crash has left and that were in quarantine.
    fn purge_batch_range(&self, extent: HistoryBatchRange, horizon: Lsn) -> Result {
        let (mut left, mut failed) = (Some(extent), Ok(()));
        while let Some(extent) = left {
            let (members, rest) = extent.next()?;
            failed = failed.and(self.purge_members(members, horizon));
            left = rest;
        }
        failed
    }

    /// Purges the members of a history batch. Skips what cannot be read, and returns that error at
    /// the end.
    fn purge_members(&self, members: Vec<ToPurge>, horizon: Lsn) -> Result {
        let mut skipped = SkippedRecords::default();
        let mut members = members.into_iter();
        loop {
            let some = members.by_ref().take(READ_TOGETHER);
            let some: Vec<_> = some.map(|(txn, bytes)| (txn, Stream::from_bytes(txn, bytes))).collect();
            if some.is_empty() {
                return skipped.finish();
            }
            let readable = some.iter().filter_map(|(_, stream)| stream.as_ref().ok());
            let run = PurgeRun { horizon, heads: self.read_chain_heads(readable) };
            for (txn, stream) in some {
                let purged = stream
                    .map_err(|damage| self.undo_damage(damage))
                    .and_then(|stream| self.purge_records(&stream, true, &run));
                match purged {
                    Ok(()) => self.log_purged(txn)?,
                    Err(error) => skipped.skip(error)?,
                }
            }
        }
    }

    /// Records, together with others, that nothing of `txn` is left to purge. So recovery neither
    /// keeps its undo nor looks for rows and values that are gone. REQUIRES: the changes that its
    /// purge made are in the log.
    fn log_purged(&self, txn: TxnId) -> Result {
        let mut purged = self.purged.lock();
        purged.push(txn);
        let together = if planted(Bug::PurgedLoggedEarly) { 1 } else { PURGED_TOGETHER };
        if purged.len() < together {
            return Ok(());
        }
        let mut txns = std::mem::take(&mut *purged);
        drop(purged);
        self.store.log.make_room()?;
        let mut ids = Vec::new();
        group::put_ids(&mut ids, &mut txns);
        log_record(&self.store.log, &LogRecord::Purged { txns: &ids }, |_| {});
        Ok(())
    }

    /// Removes the row of `key` if it is a delete mark that all snapshots see.
    fn purge_row(&self, tree: TreeId, key: &[u8], horizon: Lsn) -> Result {
        let Some(tree) = self.trees.get(tree) else { return Ok(()) };
        let small = loop {
            self.store.log.make_room()?;
            let page = tree.leaf_write(&self.store, key, 0)?;
            let leaf = Leaf::new(&page);
            let Ok(slot) = leaf.search(key) else { return Ok(()) };
            let row = leaf.row(slot);
            let view = self.view(Lsn::MAX, TxnId::NONE);
            if row.flags & DELETED == 0 || !view.seen_by_all(row.version.txn, horizon) {
                return Ok(());
            }
            let Some(mut mtr) = Mtr::try_begin(&self.store.log, &self.store.pool) else {
                drop(page);
                self.store.log.await_credit()?;
                continue;
            };
            let held = mtr.add(page);
            mtr.apply(held, &PageOp::Remove { slot });
            let small = is_small(mtr.page(held));
            mtr.commit();
            break small;
        };
        if small {
            tree.try_merge(&self.store, key)?;
        }
        Ok(())
    }
}

pub(super) fn work_of(entry: &UndoEntry<'_>, purge: PurgeItem) -> Result<PurgeWork, crate::page::Damage> {
    let UndoEntry::Replace { tree, key, old_flags, new_flags, old_middle, .. } = *entry else {
        return Err(crate::page::Damage("purge was sent to an undo record of another kind"));
    };
    let chain = if old_flags & OVERFLOW != 0 && !purge.rewound {
        let damage = |_| crate::page::Damage("an undo record holds a long value without an address");
        Some(ChainRef::decode(old_middle).map_err(damage)?)
    } else {
        None
    };
    // A change that was rolled back may have restored a mark.
    let mark = new_flags & DELETED != 0 || purge.rewound;
    Ok(PurgeWork { tree, mark: mark.then(|| key.to_vec()), chain })
}
