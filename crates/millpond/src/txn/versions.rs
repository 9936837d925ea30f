//! [`Versions`]: what is known of the versions of all rows. Who wrote them, the undo with the
//! older ones, and who still reads them.

use super::rules::Rules;
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::mvcc::purge::EndedTxn;
use crate::mvcc::{ClearedRanges, Snapshot, Snapshots, StatusTable, TxnState, View};
use crate::page::Damage;
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use crate::undo::{HeldPiece, HistoryBatches, PieceCache, Streams, UndoPiece, UndoSource};
use base::{Lsn, TreeId, TxnId};
use std::sync::Arc;

/// The states of transactions, their undo in memory and in files, and the snapshots that need it.
/// Readers find here what they see of a row, writers what they may change.
#[derive(Debug)]
pub(crate) struct Versions {
    /// The log, whose end a snapshot is drawn at; metrics; the path that damage is reported with.
    store: Arc<Store>,
    pub(super) status: StatusTable,
    pub(super) streams: Streams,
    /// Committed transactions in history batches; `status` and `streams` do not know them any more.
    pub(super) history_batches: HistoryBatches,
    /// Undo that was fetched from files.
    fetched: PieceCache,
    snapshots: Snapshots,
    /// Ranges of keys where scans find nothing but delete marks.
    pub(super) cleared: ClearedRanges,
}

impl Versions {
    /// The versions whose writers and undo recovery has found.
    pub(super) fn recovered(
        store: &Arc<Store>,
        status: StatusTable,
        streams: Streams,
        history_batches: HistoryBatches,
    ) -> Versions {
        Versions {
            store: Arc::clone(store),
            status,
            streams,
            history_batches,
            fetched: PieceCache::default(),
            snapshots: Snapshots::default(),
            cleared: ClearedRanges::default(),
        }
    }

    /// Draws a snapshot of the present state.
    pub(crate) fn draw_snapshot(&self) -> Snapshot {
        self.snapshots.draw(|| self.store.log.reserved_lsn())
    }

    /// Returns the read view of the transaction `own` at the snapshot LSN `snapshot`.
    pub(crate) fn view(&self, snapshot: Lsn, own: TxnId) -> View<'_> {
        View { status: &self.status, undo: self.undo(), snapshot, own, metrics: &self.store.metrics }
    }

    /// Returns where undo is found.
    pub(super) fn undo(&self) -> UndoSource<'_> {
        UndoSource { streams: &self.streams, history_batches: &self.history_batches }
    }

    /// Reads a piece of undo that is not in memory into `held`. REQUIRES: no latch held.
    pub(super) fn fetch(&self, piece: &UndoPiece, held: &mut HeldPiece) -> Result {
        self.fetched.fetch(piece, held)
    }

    /// Returns how often undo was read from files.
    pub(crate) fn undo_fetches(&self) -> u64 {
        self.fetched.reads()
    }

    /// Returns `read`, which was read or decided by the snapshot at `snapshot_lsn`, unless that
    /// snapshot has expired meanwhile. Then the result may be wrong, and so may be an error that
    /// says that undo is gone.
    #[inline]
    pub(crate) fn check_not_expired<R>(&self, snapshot_lsn: Lsn, read: Result<R>) -> Result<R> {
        if self.snapshots.is_expired(snapshot_lsn) && !planted(Bug::ExpiryUnseen) {
            return Err(Error::SnapshotTooOld);
        }
        read
    }

    /// As [`Versions::check_not_expired`], with the snapshot that first-updater-wins measures by,
    /// if there is one.
    #[inline]
    pub(crate) fn check_rules_not_expired<R>(&self, rules: Rules, read: Result<R>) -> Result<R> {
        match rules.conflicts_after {
            Some(snapshot_lsn) => self.check_not_expired(snapshot_lsn, read),
            None => read,
        }
    }

    /// Returns the horizon: all snapshots see the commits below it, now and later.
    pub(crate) fn horizon(&self) -> Lsn {
        self.snapshots.horizon(|| self.store.log.reserved_lsn())
    }

    /// Returns the LSNs of the live snapshots, ascending, and the LSN below which no other will be.
    pub(super) fn snapshot_cuts(&self) -> (Vec<Lsn>, Lsn) {
        self.snapshots.cuts(|| self.store.log.reserved_lsn())
    }

    /// Returns how many snapshots are open.
    pub(crate) fn open_snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// Lets the oldest snapshot expire if it holds undo from `oldest` on. Returns whether it did.
    pub(super) fn expire_oldest(&self, oldest: Lsn) -> bool {
        self.snapshots.expire_oldest(oldest)
    }

    /// Lets all snapshots expire, so that purge does not wait for those that are held when the
    /// database closes. REQUIRES: no call is inside, and none is let in.
    pub(crate) fn expire_snapshots(&self) {
        self.snapshots.expire_all(self.store.log.reserved_lsn());
    }

    /// Forgets what is known of a dropped tree.
    pub(crate) fn forget_tree(&self, tree: TreeId) {
        self.cleared.forget(tree);
    }

    /// Forgets a transaction whose state is never asked for again.
    pub(super) fn settle(&self, txn: TxnId) {
        self.status.set(txn, TxnState::Settled);
        self.streams.remove(txn);
    }

    /// Forgets transactions of which nothing is left but memory.
    pub(super) fn forget(&self, ended: impl IntoIterator<Item = EndedTxn>) {
        for ended in ended {
            self.settle(ended.txn);
            self.streams.give_back_here(ended.stream);
        }
    }

    /// Returns whether no transaction has undo, in memory or in history batches.
    pub(crate) fn have_no_undo(&self) -> bool {
        self.streams.len() == 0 && self.history_batches.is_empty()
    }

    /// Returns how many bytes of undo a transaction has.
    pub(crate) fn undo_bytes_of(&self, txn: TxnId) -> u64 {
        self.streams.get(txn).map_or(0, |stream| stream.end())
    }

    /// Returns how many committed transactions are in history batches.
    pub(crate) fn in_history_batches(&self) -> u64 {
        self.history_batches.len()
    }

    /// Returns the memory of the shortcuts past versions that no snapshot tells apart, bytes.
    pub(crate) fn shortcut_bytes(&self) -> u64 {
        self.history_batches.shortcut_bytes()
    }

    /// Returns the error of a damaged row.
    pub(super) fn damage(&self, tree: Tree, damage: Damage) -> Error {
        Error::corrupt(self.store.pages_path(), format!("{:?}: {damage}", tree.id))
    }

    /// Returns the error of damaged undo.
    pub(super) fn undo_damage(&self, damage: Damage) -> Error {
        Error::corrupt(self.store.pages_path(), damage.to_string())
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> &StatusTable {
        &self.status
    }

    #[cfg(test)]
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    #[cfg(test)]
    pub(crate) fn history_batches(&self) -> &HistoryBatches {
        &self.history_batches
    }
}
