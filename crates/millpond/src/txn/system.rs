//! The shared state of all transactions of a database ([`Txns`]), and the state of one transaction
//! ([`Txn`]).

use super::admission::UndoAdmission;
use super::bookmark::Bookmark;
use super::counters::{Counter, CounterHold, Counters};
use super::decided::Decided;
use super::history_limits::HistoryLimits;
use super::leaf_cache::LeafCache;
use super::own_snapshot::OwnSnapshot;
use super::prepared::{Prepared, PreparedList};
use super::quarantine::{Quarantine, QuarantineTask};
use super::reverts::Reverts;
use super::tree_ids::TreeIds;
use super::trees::Trees;
use crate::error::{Error, Result};
use crate::lock::{CancelFlag, Denied, Enqueued, LockTable, Owner, Wait};
use crate::mvcc::purge::EndedTxn;
use crate::mvcc::writer::check_writer;
use crate::mvcc::{ClearedRanges, PurgeQueue, Snapshot, Snapshots, StatusTable, TxnState, View};
use crate::planted::{Bug, planted};
use crate::store::Store;
use crate::undo::journal::Journal;
use crate::undo::{History, HistoryBatchRange, PieceCache, Stream, Streams, UndoSource};
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use base::{Lsn, TreeId, TxnId};
use metrics::{Latency, M};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::Vfs;

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
    pub(crate) history: Vec<HistoryBatchRange>,
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

/// All transactions of an open database.
#[derive(Debug)]
pub(crate) struct Txns {
    pub(crate) store: Arc<Store>,
    pub(crate) vfs: Vfs,
    pub(crate) status: StatusTable,
    pub(crate) streams: Streams,
    /// Committed transactions in history batches; the other fields do not know them any more.
    pub(crate) history: History,
    pub(crate) limits: HistoryLimits,
    /// Undo that was fetched from files.
    pub(crate) fetched: PieceCache,
    pub(crate) snapshots: Snapshots,
    pub(crate) locks: LockTable,
    pub(crate) purge_queue: PurgeQueue,
    /// Ranges of keys where scans find nothing but delete marks.
    pub(crate) cleared: ClearedRanges,
    /// Transactions that committed below it are due for purge. An old value is safe: it only grows.
    pub(super) known_due: AtomicU64,
    pub(crate) trees: Trees,
    pub(crate) counters: Counters,
    pub(super) journal: Mutex<Journal>,
    /// Aborted transactions that the background thread reverts.
    pub(super) reverts: Reverts,
    /// A step of [`Txns::background_step`] is in progress.
    pub(super) in_step: AtomicBool,
    /// The number of trees that have pages and no table.
    pub(super) tableless: AtomicU64,
    /// What could not be reverted, purged or given back.
    pub(super) quarantine: Quarantine,
    /// Admits the redo of rollback and purge.
    pub(super) undo_admission: Arc<dyn UndoAdmission>,
    pub(super) prepared: PreparedList,
    pub(super) decided: Decided,
    pub(crate) bookmark: Bookmark,
    /// Purged transactions that the log does not report as purged yet.
    pub(super) purged: Mutex<Vec<TxnId>>,
    /// Wakes the thread that reverts and purges.
    pub(super) background: Unparker,
    pub(crate) tree_ids: TreeIds,
}

/// How a transaction treats the locks and versions of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A version committed at or above it is a write conflict.
    pub(crate) conflicts_after: Option<Lsn>,
    /// The table is younger than that snapshot: a row without a version is a write conflict too.
    pub(crate) younger: bool,
    /// The change of a version committed at or above it overtakes the transaction's snapshot. `MAX`
    /// if there is no such snapshot.
    pub(crate) overtakes: Lsn,
    /// How long it waits for a lock.
    pub(crate) wait: Wait,
    /// The transaction is serializable: what a change shows it must stay as it is. That is the row
    /// that an insert found, the absence of a row that a delete did not find, and the row before a
    /// change that a savepoint undoes.
    pub(crate) serializable: bool,
}

impl Rules {
    /// Returns the LSN of the snapshot that versions are measured by, `MAX` if there is none. Which
    /// of the commits below it are settled does not matter.
    pub(super) fn sees(self) -> Lsn {
        self.conflicts_after.unwrap_or(self.overtakes)
    }
}

/// One transaction. It gets its id with its first lock or change, and its undo stream with its
/// first change.
#[derive(Debug, Default)]
pub(crate) struct Txn {
    owner: OnceCell<Arc<Owner>>,
    stream: OnceCell<Arc<Stream>>,
    /// The snapshot of its plain reads.
    pub(crate) snapshot: OwnSnapshot,
    /// The highest commit LSN of the rows that it was shown.
    pub(crate) seen: Cell<Lsn>,
    /// A row that was deleted after the snapshot, and of which the snapshot is known to see
    /// nothing: its tree, its key and who deleted it.
    pub(super) unseen: RefCell<Option<(TreeId, Vec<u8>, TxnId)>>,
    /// The leaf of its last row.
    pub(super) leaf_cache: LeafCache,
    /// Time spent waiting for locks, microseconds.
    pub(crate) lock_us: Cell<u64>,
    /// It has been rolled back because a partial rollback failed half way.
    pub(super) doomed: Cell<bool>,
    /// Lets another thread cancel its waits.
    pub(crate) cancel: Option<Arc<CancelFlag>>,
    /// What the program calls it, or 0.
    tag: u64,
    /// Its name for the observer of waits; 0: none.
    observed_as: u64,
}

impl Txn {
    /// A transaction that the program calls `tag`, and the observer of waits `observed_as`.
    pub(crate) fn named(tag: u64, observed_as: u64) -> Txn {
        Txn { tag, observed_as, ..Txn::default() }
    }

    /// Returns its id; `NONE` while it has neither locked nor changed anything.
    pub(crate) fn id(&self) -> TxnId {
        self.owner.get().map_or(TxnId::NONE, |owner| owner.txn())
    }

    /// Returns its undo, if it has changed anything.
    pub(crate) fn stream(&self) -> Option<&Arc<Stream>> {
        self.stream.get()
    }

    /// Returns the owner of its locks, if it has an id.
    pub(crate) fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.get()
    }

    /// Returns the flag by which another thread cancels its waits.
    #[inline]
    pub(crate) fn cancel_flag(&self) -> Option<&CancelFlag> {
        self.cancel.as_deref()
    }

    /// Returns whether it has been rolled back because a partial rollback failed half way.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.get()
    }

    /// Remembers that it was shown a row committed at `lsn`.
    pub(super) fn note_seen(&self, commit: Option<Lsn>) {
        if let Some(lsn) = commit
            && lsn > self.seen.get()
        {
            self.seen.set(lsn);
        }
    }
}

impl Txns {
    /// Makes the transactions of a database from what recovery has found. Losers are reverted once
    /// the background thread runs, when the trees are known.
    pub(crate) fn new(
        store: &Arc<Store>,
        vfs: &Vfs,
        found: Recovered,
        limits: HistoryLimits,
        background: Unparker,
        undo_admission: Arc<dyn UndoAdmission>,
    ) -> Txns {
        let status = StatusTable::new(found.next_txn, found.states());
        let history = History::default();
        history.add_left_by_crash(found.history);
        let locks = LockTable::new(Arc::clone(&vfs.clock), limits.locks);
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
        let mut journal = found.journal;
        journal.set_total_bytes(limits.files);
        store.metrics.add(M::UndoSpilledBytes, found.spilled);
        Txns {
            store: Arc::clone(store),
            vfs: vfs.clone(),
            status,
            locks,
            purge_queue,
            cleared: ClearedRanges::default(),
            known_due: AtomicU64::new(0),
            history,
            limits,
            fetched: PieceCache::default(),
            snapshots: Snapshots::default(),
            trees: Trees::default(),
            counters: Counters::recovered(found.counters),
            journal: Mutex::new(journal),
            in_step: AtomicBool::new(false),
            tableless: AtomicU64::new(0),
            quarantine: Quarantine::default(),
            undo_admission,
            reverts,
            prepared,
            decided: Decided::default(),
            bookmark: Bookmark::recovered(found.bookmark),
            purged: Mutex::default(),
            background,
            tree_ids: TreeIds::from(found.next_tree),
            streams: found.streams,
        }
    }

    /// Returns the owner of the transaction's locks; gives the transaction its id.
    pub(crate) fn owner<'t>(&self, txn: &'t Txn) -> &'t Arc<Owner> {
        txn.owner.get_or_init(|| {
            let id = self.status.begin();
            self.streams.prefetch(id);
            let owner = self.locks.begin_as(id, txn.observed_as);
            owner.set_tag(txn.tag);
            owner
        })
    }

    /// Returns the transaction's undo stream; begins it if it has none. `Limit` if too few ids are
    /// left for transactions that write.
    pub(super) fn stream_of<'t>(&self, txn: &'t Txn) -> Result<&'t Arc<Stream>> {
        if let Some(stream) = txn.stream.get() {
            return Ok(stream);
        }
        let id = self.owner(txn).txn();
        check_writer(id)?;
        Ok(txn.stream.get_or_init(|| self.streams.begin(id)))
    }

    /// Draws a snapshot of the present state.
    pub(crate) fn draw_snapshot(&self) -> Snapshot {
        self.snapshots.draw(|| self.store.log.reserved_lsn())
    }

    /// Returns the snapshot LSN of the transaction's plain reads. The first of them draws the
    /// snapshot.
    pub(crate) fn snapshot_lsn_of(&self, txn: &Txn) -> Lsn {
        txn.snapshot.lsn_or_draw(|| self.draw_snapshot())
    }

    /// Returns the read view of the transaction `own` at the snapshot LSN `snapshot`.
    pub(crate) fn view(&self, snapshot: Lsn, own: TxnId) -> View<'_> {
        View { status: &self.status, undo: self.undo(), snapshot, own, metrics: &self.store.metrics }
    }

    /// Returns where undo is found.
    pub(super) fn undo(&self) -> UndoSource<'_> {
        UndoSource { streams: &self.streams, history: &self.history }
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

    /// As [`Txns::check_not_expired`], with the snapshot that first-updater-wins measures by, if
    /// there is one.
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

    /// Takes the shared table lock, which keeps the tree until the transaction ends.
    pub(crate) fn share_tree(&self, txn: &Txn, tree: TreeId, wait: Wait) -> Result {
        self.await_lock_for(txn, self.locks.share_table(self.owner(txn), tree, wait))
    }

    /// Locks a counter for the transaction, until the caller drops the hold after
    /// [`Txns::unlock_counter`], or after the transaction's end. REQUIRES: no latch held.
    pub(crate) fn lock_counter(
        &self,
        txn: &Txn,
        counter: &Arc<Counter>,
        rules: Rules,
    ) -> Result<CounterHold> {
        let hold = CounterHold::new(counter);
        self.await_lock_for(txn, self.locks.lock_counter(self.owner(txn), hold.tree(), rules.wait))?;
        Ok(hold)
    }

    /// Releases the lock of a counter.
    pub(crate) fn unlock_counter(&self, txn: &Txn, hold: CounterHold) {
        if let Some(owner) = txn.owner() {
            self.locks.release_counter(owner, hold.tree());
        }
    }

    /// Waits for a lock if it was not granted at once, and adds the time to the transaction's lock
    /// time.
    pub(super) fn await_lock_for(&self, txn: &Txn, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.timed(txn, || ticket.wait_unless(txn.cancel_flag())),
        }
    }

    /// Waits for a lock if it was not granted at once.
    pub(crate) fn await_lock(&self, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.counted(|| ticket.wait_unless(None)).1,
        }
    }

    /// Waits, and adds the time to the transaction's lock time.
    pub(super) fn timed(&self, txn: &Txn, wait: impl FnOnce() -> Result<(), Denied>) -> Result {
        let (took_us, result) = self.counted(wait);
        txn.lock_us.set(txn.lock_us.get() + took_us);
        result
    }

    fn counted(&self, wait: impl FnOnce() -> Result<(), Denied>) -> (u64, Result) {
        let begun_us = self.vfs.clock.now_us();
        let result = wait().map_err(denied);
        let took_us = self.vfs.clock.now_us().saturating_sub(begun_us);
        self.store.metrics.add(M::LockWaitUsTotal, took_us);
        self.store.metrics.time(Latency::LockWait, took_us);
        (took_us, result)
    }

    /// Lets all snapshots expire, so that purge does not wait for those that are held when the
    /// database closes. REQUIRES: no call is inside, and none is let in.
    pub(crate) fn expire_snapshots(&self) {
        self.snapshots.expire_all(self.store.log.reserved_lsn());
    }

    /// Returns how much the background has to do: transactions to revert or to purge, and one for
    /// the step that it does now.
    pub(crate) fn left_in_background(&self) -> usize {
        let waiting = self.aborted() + self.purge_queue.len() + self.history.len() as usize;
        // Read last: what a step works on is in no queue, and the step was noted before it took it.
        waiting + usize::from(self.in_step.load(Ordering::Acquire))
    }

    /// Returns how many transactions have ended and wait to be purged or reverted.
    #[cfg(test)]
    pub(crate) fn history(&self) -> usize {
        self.purge_queue.len() + self.history.len() as usize + self.aborted() + self.quarantine.len()
    }

    /// Returns how many aborted transactions are not wholly reverted.
    pub(crate) fn aborted(&self) -> usize {
        self.reverts.left() as usize
    }

    /// Puts into quarantine what could not be reverted, purged or given back. Returns false if
    /// there is no room for it.
    pub(super) fn quarantine_task(&self, task: QuarantineTask, error: Error) -> bool {
        self.quarantine.put(task, error, self.vfs.clock.now_us())
    }

    /// Returns how many ended transactions, or pieces of their history, wait because something of
    /// them cannot be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.quarantine.unreadable()
    }

    /// Returns what cannot be read, a sentence each, at most `most`.
    pub(crate) fn unreadable_sentences(&self, most: usize) -> Vec<String> {
        self.quarantine.sentences(most)
    }
}

/// Returns the error of a denied lock.
pub(crate) fn denied(why: Denied) -> Error {
    match why {
        Denied::Deadlock => Error::Deadlock,
        Denied::Timeout | Denied::Skipped => Error::LockTimeout,
        Denied::Stopped => Error::Closed,
        Denied::Cancelled => Error::Cancelled,
        Denied::Full => Error::Limit {
            what: "locks of rows and ranges take all the memory that the setting lock_memory_bytes lets \
                   them have"
                .into(),
        },
    }
}
