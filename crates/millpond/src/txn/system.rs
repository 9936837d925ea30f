//! The shared state of all transactions of a database ([`Txns`]), and what recovery has found of it
//! ([`Recovered`]).

use super::admission::UndoAdmission;
use super::background::Background;
use super::bookmark::Bookmark;
use super::bulk_load::Loads;
use super::commit::Commits;
use super::ended_txns::EndedTxns;
use super::harden::Hardener;
use super::history::HistoryKeeper;
use super::history_limits::HistoryLimits;
use super::lock::RowLocks;
use super::lock_wait::LockWaits;
use super::on_record::UnrecordedCommits;
use super::prepare::TwoPhase;
use super::prepared::{Prepared, PreparedList};
use super::purge::Purger;
use super::read::Reader;
use super::release::Releaser;
use super::revert::Reverter;
use super::reverts::Reverts;
use super::rollback::Rollbacks;
use super::table_locks::TableLocks;
use super::table_trees::TableTrees;
use super::transaction::Txn;
use super::undo_space::UndoSpace;
use super::versions::Versions;
use super::write::RowWriter;
use crate::checkpoint::{Hardened, UndoFiles, Unfinished};
use crate::error::Result;
use crate::lock::{LockTable, Owner};
use crate::mvcc::purge::EndedTxn;
use crate::mvcc::{PurgeQueue, StatusTable, TxnState, View};
use crate::tree_store::Store;
use crate::undo::journal::Journal;
use crate::undo::{HistoryBatchRange, HistoryBatches, Streams};
use base::sync::Unparker;
use base::{Lsn, TreeId, TxnId};
use metrics::M;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::Clock;

/// The transactions that recovery found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// No transaction of an earlier run has this id or one above it.
    pub(crate) next_txn: TxnId,
    /// No tree of an earlier run has this id or one above it.
    pub(crate) next_tree: TreeId,
    /// The undo of all transactions that are not settled.
    pub(crate) streams: Streams,
    /// Committed, with something left to purge; by commit LSN.
    pub(crate) committed: Vec<(Lsn, TxnId)>,
    /// Committed before the checkpoint, in history batches that are not purged.
    pub(crate) history_batches: Vec<HistoryBatchRange>,
    /// Cut off by the crash, or rolled back and not wholly reverted.
    pub(crate) aborted: Vec<TxnId>,
    /// Prepared, with their xids.
    pub(crate) prepared: Vec<(TxnId, Vec<u8>)>,
    /// Counters of tables, those of dropped tables too.
    pub(crate) counters: BTreeMap<TreeId, u64>,
    /// The program's bookmark; empty: none.
    pub(crate) bookmark: Vec<u8>,
    /// Hardened undo.
    pub(crate) journal: Journal,
    /// Bytes of undo that went to files because memory had no room for them.
    pub(crate) spilled: u64,
}

impl Recovered {
    /// Returns the states of the transactions that are not settled.
    fn states(&self) -> impl Iterator<Item = (TxnId, TxnState)> {
        // A checkpoint must list what is not purged, so its state is known until then.
        let unpurged = self
            .committed
            .iter()
            .filter(|(_, txn)| self.streams.get(*txn).is_some_and(|stream| stream.needs_purge()))
            .map(|&(lsn, txn)| (txn, TxnState::Committed(lsn)));
        let aborted = self.aborted.iter().map(|&txn| (txn, TxnState::Aborted));
        let prepared = self.prepared.iter().map(|(txn, _)| (*txn, TxnState::Prepared));
        aborted.chain(prepared).chain(unpurged)
    }
}

/// What all transactions of an open database share. The functions here only put together what works
/// with the parts.
#[derive(Debug)]
pub(crate) struct Txns {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Who has written what, and who still reads it.
    pub(crate) versions: Versions,
    pub(crate) locks: LockTable,
    pub(crate) waits: LockWaits,
    pub(crate) trees: TableTrees,
    /// What ended transactions have left to do.
    pub(crate) ended: EndedTxns,
    /// Admits the redo of rollback and purge.
    pub(super) undo_admission: Arc<dyn UndoAdmission>,
    pub(crate) undo_space: UndoSpace,
    pub(super) prepared: PreparedList,
    pub(super) unrecorded: UnrecordedCommits,
    pub(crate) bookmark: Bookmark,
}

impl Txns {
    /// Makes the transactions of a database from what recovery has found. Losers are reverted once
    /// the background thread runs, when the trees are known.
    pub(crate) fn new(
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        found: Recovered,
        limits: HistoryLimits,
        background: Unparker,
        undo_admission: Arc<dyn UndoAdmission>,
    ) -> Txns {
        let status = StatusTable::new(found.next_txn, found.states());
        let history_batches = HistoryBatches::default();
        history_batches.add_left_by_crash(found.history_batches);
        let locks = LockTable::new(Arc::clone(clock), limits.locks);
        let purge_queue = PurgeQueue::default();
        for (lsn, txn) in found.committed {
            match found.streams.get(txn) {
                Some(stream) if stream.needs_purge() => {
                    purge_queue.push(lsn, EndedTxn { txn, stream, committed: true });
                }
                _ => found.streams.remove(txn),
            }
        }
        let prepared = found.prepared.into_iter().map(|(txn, xid)| {
            let prepared = Prepared {
                owner: locks.begin(txn),
                stream: found.streams.get(txn),
                claimed: false,
                tables: Vec::new(),
            };
            (xid, prepared)
        });
        let prepared = PreparedList::recovered(prepared);
        let losers = found.aborted.iter().filter_map(|&txn| found.streams.get(txn));
        let reverts = Reverts::recovered(losers, found.next_txn);
        store.metrics.add(M::UndoSpilledBytes, found.spilled);
        Txns {
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            versions: Versions::recovered(store, status, found.streams, history_batches),
            locks,
            waits: LockWaits::new(clock, &store.metrics),
            trees: TableTrees::recovered(found.counters, found.next_tree),
            ended: EndedTxns::recovered(purge_queue, reverts, background, clock),
            undo_admission,
            undo_space: UndoSpace::recovered(found.journal, limits),
            prepared,
            unrecorded: UnrecordedCommits::default(),
            bookmark: Bookmark::recovered(found.bookmark),
        }
    }

    /// Returns the transaction `txn` as a reader of what `view` shows.
    #[inline]
    pub(crate) fn reader<'a>(&'a self, txn: &'a Txn, view: View<'a>) -> Reader<'a> {
        Reader { store: &self.store, versions: &self.versions, txn, view }
    }

    /// Returns what commits transactions.
    #[inline]
    pub(crate) fn commits(&self) -> Commits<'_> {
        let Txns { store, versions, locks, ended, unrecorded, bookmark, .. } = self;
        Commits { log: &store.log, versions, locks, ended, unrecorded, bookmark }
    }

    /// Returns what rolls transactions back.
    #[inline]
    pub(crate) fn rollbacks(&self) -> Rollbacks<'_> {
        Rollbacks { reverter: self.reverter(), ended: &self.ended }
    }

    #[inline]
    fn reverter(&self) -> Reverter<'_> {
        let Txns { store, versions, locks, trees, undo_admission, .. } = self;
        Reverter { store, versions, locks, trees: &trees.live, admission: &**undo_admission }
    }

    /// Returns what prepares transactions and decides prepared ones.
    pub(crate) fn two_phase(&self) -> TwoPhase<'_> {
        let (commits, rollbacks) = (self.commits(), self.rollbacks());
        TwoPhase { commits, rollbacks, prepared: &self.prepared, waits: &self.waits }
    }

    /// Returns what reverts and purges in the background.
    pub(crate) fn background(&self) -> Background<'_> {
        let Txns { store, versions, trees, undo_admission, ended, .. } = self;
        Background {
            log: &store.log,
            versions,
            ended,
            rollbacks: self.rollbacks(),
            purger: Purger { store, versions, trees: &trees.live, admission: &**undo_admission, ended },
            releaser: self.releaser(),
        }
    }

    /// Returns what gives the pages of trees back.
    pub(crate) fn releaser(&self) -> Releaser<'_> {
        let Txns { store, trees, undo_admission, ended, .. } = self;
        Releaser { space: &store.space, trees, admission: &**undo_admission, ended }
    }

    /// Returns what locks rows and ranges.
    #[inline]
    pub(crate) fn row_locks(&self) -> RowLocks<'_> {
        let Txns { store, versions, locks, waits, trees, undo_admission, .. } = self;
        RowLocks { store, versions, locks, waits, trees: &trees.live, admission: &**undo_admission }
    }

    /// Returns what locks tables and counters.
    pub(crate) fn table_locks(&self) -> TableLocks<'_> {
        TableLocks { versions: &self.versions, locks: &self.locks, waits: &self.waits }
    }

    /// Returns what changes rows.
    #[inline]
    pub(crate) fn writer(&self) -> RowWriter<'_> {
        RowWriter { rows: self.row_locks(), undo_space: &self.undo_space, ended: &self.ended }
    }

    /// Returns what fills new trees.
    pub(crate) fn loads(&self) -> Loads<'_> {
        Loads { store: &self.store, versions: &self.versions, locks: &self.locks }
    }

    /// Returns what keeps memory and files within their limits.
    pub(crate) fn history_keeper(&self) -> HistoryKeeper<'_> {
        let Txns { store, versions, ended, undo_space, locks, .. } = self;
        HistoryKeeper { store, versions, purge_queue: &ended.purge_queue, undo_space, locks }
    }

    /// Returns the owner of the transaction's locks; gives the transaction its id.
    pub(crate) fn owner<'t>(&self, txn: &'t Txn) -> &'t Arc<Owner> {
        txn.owner_or_begin(&self.versions, &self.locks)
    }

    /// Returns how many transactions have ended and wait to be purged or reverted.
    #[cfg(test)]
    pub(crate) fn history_len(&self) -> usize {
        let waiting = self.ended.aborted() + self.ended.quarantine.len();
        self.ended.to_purge() + self.versions.in_history_batches() as usize + waiting
    }
}

impl Unfinished for Txns {
    fn harden(&self, sequence: u64) -> Result<Hardened> {
        let Txns { store, versions, undo_space, prepared, ended, trees, bookmark, .. } = self;
        let quarantine = &ended.quarantine;
        Hardener { store, versions, undo_space, prepared, quarantine, trees, bookmark }.harden(sequence)
    }

    fn undo_files(&self) -> UndoFiles {
        let uses = self.undo_space.journal.lock().uses();
        UndoFiles { waits: self.ended.quarantine.wants_space(), ..uses }
    }

    fn root_is_durable(&self) -> Result {
        self.undo_space.journal.lock().remove_retired()
    }
}
