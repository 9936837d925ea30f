//! Purge: removes what no reader can see any more: delete marks, replaced long values, undo.
//! (PostgreSQL: vacuum.)

use super::admission::{UndoAdmission, UndoWait};
use super::chain_heads::read_chain_heads;
use super::ended_txns::{EndedTxns, PURGED_TOGETHER};
use super::log_record::log_record;
use super::purge_work::{PurgeWork, work_of};
use super::quarantine::SkippedRecords;
use super::revert::RECORD_REDO;
use super::trees::Trees;
use super::versions::Versions;
use crate::btree::{OldChain, is_small};
use crate::buffer::PageImages;
use crate::error::Result;
use crate::log::group::{self, Record as LogRecord};
use crate::mtr::Mtr;
use crate::mvcc::purge::EndedTxn;
use crate::page::node::{DELETED, Leaf};
use crate::page::op::PageOp;
use crate::page::overflow::ChainRef;
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use crate::undo::{HeldPiece, HistoryBatch, HistoryBatchRange, Stream, ToPurge, UndoAccess};
use base::{Lsn, TreeId, TxnId};
use metrics::M;

/// Transactions of a history batch whose long values are looked at together.
const READ_TOGETHER: usize = 64;

/// What the purge of several transactions has in common.
pub(super) struct PurgeRun {
    horizon: Lsn,
    /// First pages of long values that it frees, as far as they were read.
    heads: PageImages,
}

/// Purges transactions, with what that needs of a database.
#[derive(Clone, Copy)]
pub(super) struct Purger<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) trees: &'a Trees,
    pub(super) admission: &'a dyn UndoAdmission,
    /// Counts those that are purged.
    pub(super) ended: &'a EndedTxns,
}

impl Purger<'_> {
    /// Begins the purges of `streams`. All snapshots see what lies below `horizon`.
    pub(super) fn begin_run<'s>(&self, horizon: Lsn, streams: impl Iterator<Item = &'s Stream>) -> PurgeRun {
        PurgeRun { horizon, heads: read_chain_heads(self.store, self.trees, streams) }
    }

    /// Does all that is left of an ended transaction.
    pub(super) fn purge(&self, ended: &EndedTxn, run: &PurgeRun) -> Result {
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
        self.versions.settle(txn);
        Ok(())
    }

    /// Does all purge work for the records of a stream. Skips what cannot be read, and returns that
    /// error at the end.
    fn purge_records(&self, stream: &Stream, committed: bool, run: &PurgeRun) -> Result {
        let (mut walk, mut held, mut skipped) =
            (stream.walk(committed), HeldPiece::default(), SkippedRecords::default());
        loop {
            let found = stream.walk_on(&mut walk, &held, |record, purge| work_of(&record.entry, purge));
            let work = match found.map_err(|damage| self.versions.undo_damage(damage))? {
                UndoAccess::Away(piece) => {
                    self.versions.fetch(&piece, &mut held)?;
                    continue;
                }
                UndoAccess::Here(None) => return skipped.finish(),
                UndoAccess::Here(Some(work)) => work.map_err(|damage| self.versions.undo_damage(damage))?,
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
        self.admission.admit_undo(RECORD_REDO + key.len() as u64, UndoWait::Unlimited)?;
        self.purge_row(work.tree, key, run.horizon)
    }

    /// Frees the chain of a value that no snapshot sees any more. If the tree was dropped, its
    /// pages went with the tree.
    fn free_old_chain(&self, tree: TreeId, chain: &ChainRef, heads: &PageImages) -> Result {
        let Some(live) = self.trees.get(tree) else { return Ok(()) };
        let mut rest = OldChain::find(self.store, tree, chain, heads)?;
        drop(live);
        while !rest.is_empty() {
            self.admission.admit_undo(rest.redo(), UndoWait::Unlimited)?;
            // While the tree exists, no other thread frees these pages.
            let Some(_live) = self.trees.get(tree) else { return Ok(()) };
            rest.free_last(self.store)?;
        }
        Ok(())
    }

    /// Purges a history batch.
    pub(super) fn purge_members_of(&self, batch: &HistoryBatch, horizon: Lsn) -> Result {
        let (piece, mut held) = (batch.piece(), HeldPiece::default());
        self.versions.fetch(&piece, &mut held)?;
        let members = held.to_purge(&piece).map_err(|damage| self.versions.undo_damage(damage))?;
        self.purge_members(members, horizon)
    }

    /// Purges history batches that a crash has left and that were in quarantine.
    pub(super) fn purge_batch_range(&self, extent: HistoryBatchRange, horizon: Lsn) -> Result {
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
    pub(super) fn purge_members(&self, members: Vec<ToPurge>, horizon: Lsn) -> Result {
        let mut skipped = SkippedRecords::default();
        let mut members = members.into_iter();
        loop {
            let some = members.by_ref().take(READ_TOGETHER);
            let some: Vec<_> = some.map(|(txn, bytes)| (txn, Stream::from_bytes(txn, bytes))).collect();
            if some.is_empty() {
                return skipped.finish();
            }
            let readable = some.iter().filter_map(|(_, stream)| stream.as_ref().ok());
            let run = self.begin_run(horizon, readable);
            for (txn, stream) in some {
                let purged = stream
                    .map_err(|damage| self.versions.undo_damage(damage))
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
        let together = if planted(Bug::PurgedLoggedEarly) { 1 } else { PURGED_TOGETHER };
        let Some(mut txns) = self.ended.add_purged(txn, together) else { return Ok(()) };
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
            let page = tree.leaf_write(self.store, key, 0)?;
            let leaf = Leaf::new(&page);
            let Ok(slot) = leaf.search(key) else { return Ok(()) };
            let row = leaf.row(slot);
            let view = self.versions.view(Lsn::MAX, TxnId::NONE);
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
            tree.try_merge(self.store, key)?;
        }
        Ok(())
    }
}
