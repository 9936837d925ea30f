//! What all transactions of a database share, and what one transaction has.

use super::admission::UndoAdmission;
use super::history::HistoryLimits;
use super::leaf_cache::LeafCache;
use super::quarantine::{Quarantine, QuarantineTask};
use super::revert::Reverting;
use super::trees::Trees;
use crate::error::{Error, Result};
use crate::lock::{Denied, Enqueued, LockTable, Owner, Wait};
use crate::mvcc::purge::EndedTxn;
use crate::mvcc::{ClearedRanges, PurgeQueue, Snapshot, Snapshots, StatusTable, TxnState, View};
use crate::planted::{Bug, planted};
use crate::store::Store;
use crate::undo::journal::Journal;
use crate::undo::{Cache, Extent, History, Stream, Streams, Undo};
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use base::{Lsn, TreeId, TxnId};
use metrics::{Latency, M};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vfs::Vfs;

/// What recovery found of transactions.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// No transaction of an earlier run has this id or one above it.
    pub(crate) next_txn: TxnId,
    /// The same for trees.
    pub(crate) next_tree: TreeId,
    /// The undo of all that are not settled.
    pub(crate) streams: Streams,
    /// Committed, with something left to purge; by commit LSN.
    pub(crate) committed: Vec<(Lsn, TxnId)>,
    /// Committed before the checkpoint, in segments that are not purged.
    pub(crate) segments: Vec<Extent>,
    /// Cut off, or rolled back and not wholly reverted.
    pub(crate) aborted: Vec<TxnId>,
    /// Prepared, with their outside names.
    pub(crate) prepared: Vec<(TxnId, Vec<u8>)>,
    /// Hardened undo.
    pub(crate) journal: Journal,
    /// Bytes of undo that went to files because memory had no room for them.
    pub(crate) spilled: u64,
}

/// A prepared transaction, which no thread has.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) owner: Arc<Owner>,
    pub(crate) stream: Option<Arc<Stream>>,
    /// Somebody is deciding it.
    pub(crate) claimed: bool,
}

/// All transactions of an open database.
#[derive(Debug)]
pub(crate) struct Txns {
    pub(crate) store: Arc<Store>,
    pub(crate) vfs: Vfs,
    pub(crate) status: StatusTable,
    pub(crate) streams: Streams,
    /// Committed transactions of which the rest here knows nothing any more.
    pub(crate) history: History,
    pub(super) limits: HistoryLimits,
    /// Undo that was fetched from files.
    pub(crate) fetched: Cache,
    pub(crate) snapshots: Snapshots,
    pub(crate) locks: LockTable,
    pub(crate) purge_queue: PurgeQueue,
    /// Where scans find nothing but delete marks.
    pub(crate) cleared: ClearedRanges,
    /// Transactions that committed below it are due for purge. Old knowledge is safe: it only grows.
    pub(super) known_due: AtomicU64,
    pub(crate) trees: Trees,
    pub(super) journal: Mutex<Journal>,
    /// Aborted transactions whose undo the background thread is to revert.
    pub(super) reverts: Mutex<VecDeque<Reverting>>,
    /// How many transactions these are, with those that are being reverted or set aside.
    pub(super) reverting: AtomicU64,
    /// Trees that have pages and no table.
    pub(super) tableless: AtomicU64,
    /// What could not be reverted, purged or given back.
    pub(super) quarantine: Quarantine,
    /// Asked before redo that takes back or clears away.
    pub(super) undo_admission: Arc<dyn UndoAdmission>,
    pub(super) prepared: Mutex<BTreeMap<Vec<u8>, Prepared>>,
    /// Purged, and not yet called so in the log.
    pub(super) purged: Mutex<Vec<TxnId>>,
    /// Wakes the thread that reverts and purges.
    pub(super) background: Unparker,
    pub(super) next_tree: AtomicU32,
    /// Aborted transactions that recovery found and that are not wholly reverted yet.
    pub(super) losers: AtomicU64,
    /// The least id of this run.
    pub(super) first_txn: TxnId,
}

/// How a transaction judges what others do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A version committed at or above it is a write conflict.
    pub(crate) conflicts_after: Option<Lsn>,
    /// How long a lock is waited for.
    pub(crate) wait: Wait,
    /// What it learns from a change is kept so: a row that was in the way of an insert, none that could be deleted, and what
    /// there was before a change that is undone by a savepoint.
    pub(crate) serializable: bool,
}

/// One transaction: its id from its first lock or change, its undo from its first change.
#[derive(Debug, Default)]
pub(crate) struct Txn {
    owner: OnceCell<Arc<Owner>>,
    stream: OnceCell<Arc<Stream>>,
    /// The moment that its plain reads see, once drawn.
    snapshot: RefCell<Option<Snapshot>>,
    /// The highest commit whose rows it was shown.
    pub(crate) seen: Cell<Lsn>,
    /// Where its last row stood.
    pub(super) leaf_cache: LeafCache,
    /// Time spent waiting for locks, microseconds.
    pub(crate) lock_us: Cell<u64>,
    /// It has been rolled back because undoing a part of it failed half way.
    pub(super) doomed: Cell<bool>,
}

impl Txn {
    /// Its id; `NONE` while it has neither locked nor changed anything.
    pub(crate) fn id(&self) -> TxnId {
        self.owner.get().map_or(TxnId::NONE, |owner| owner.txn())
    }

    /// Its undo, if it has changed anything.
    pub(crate) fn stream(&self) -> Option<&Arc<Stream>> {
        self.stream.get()
    }

    /// What it holds, if it has an id.
    pub(crate) fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.get()
    }

    /// Whether it has been rolled back because undoing a part of it failed half way.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.get()
    }

    /// The moment that its plain reads see, if it is drawn.
    pub(crate) fn snapshot_lsn(&self) -> Option<Lsn> {
        self.snapshot.borrow().as_ref().map(Snapshot::lsn)
    }

    /// Lets go of the versions that its reads needed; it reads no more.
    pub(crate) fn drop_snapshot(&self) {
        self.snapshot.borrow_mut().take();
    }

    /// Remembers that it was shown a row committed at `lsn`.
    pub(crate) fn note_seen(&self, commit: Option<Lsn>) {
        if let Some(lsn) = commit
            && lsn > self.seen.get()
        {
            self.seen.set(lsn);
        }
    }
}

impl Txns {
    /// The transactions of a database that recovery has looked through. Losers begin to be reverted once
    /// the background thread runs, when the trees are known.
    pub(crate) fn new(
        store: &Arc<Store>,
        vfs: &Vfs,
        found: Recovered,
        limits: HistoryLimits,
        background: Unparker,
        undo_admission: Arc<dyn UndoAdmission>,
    ) -> Txns {
        let history = History::default();
        history.leave(found.segments);
        // A checkpoint must go on listing what is not purged, so its state is known until then.
        let unpurged = found
            .committed
            .iter()
            .filter(|(_, txn)| found.streams.get(*txn).is_some_and(|stream| stream.needs_purge()))
            .map(|&(lsn, txn)| (txn, TxnState::Committed(lsn)));
        let states = found
            .aborted
            .iter()
            .map(|&txn| (txn, TxnState::Aborted))
            .chain(found.prepared.iter().map(|(txn, _)| (*txn, TxnState::Prepared)))
            .chain(unpurged);
        let status = StatusTable::new(found.next_txn, states);
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
            let prepared =
                Prepared { owner: locks.begin(txn), stream: found.streams.get(txn), claimed: false };
            (xid, prepared)
        });
        let prepared = prepared.collect();
        let reverts = found.aborted.iter().filter_map(|&txn| found.streams.get(txn));
        let reverts: VecDeque<_> = reverts.map(|stream| Reverting::new(&stream)).collect();
        let mut journal = found.journal;
        journal.fit(limits.files);
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
            fetched: Cache::default(),
            snapshots: Snapshots::default(),
            trees: Trees::default(),
            journal: Mutex::new(journal),
            losers: AtomicU64::new(reverts.len() as u64),
            reverting: AtomicU64::new(reverts.len() as u64),
            tableless: AtomicU64::new(0),
            quarantine: Quarantine::default(),
            undo_admission,
            reverts: Mutex::new(reverts),
            prepared: Mutex::new(prepared),
            purged: Mutex::default(),
            background,
            next_tree: AtomicU32::new(found.next_tree.0),
            first_txn: found.next_txn,
            streams: found.streams,
        }
    }

    /// A tree id that was never used.
    pub(crate) fn new_tree_id(&self) -> Result<TreeId> {
        let another = |id: u32| id.checked_add(1);
        match self.next_tree.fetch_update(Ordering::AcqRel, Ordering::Acquire, another) {
            Ok(id) => Ok(TreeId(id)),
            Err(last) => Err(Error::Limit {
                what: format!("{last} tables have been made, the most that there can be"),
            }),
        }
    }

    /// Raises the ids of new trees above `id`.
    pub(crate) fn tree_ids_above(&self, id: TreeId) {
        self.next_tree.fetch_max(id.0.saturating_add(1), Ordering::AcqRel);
    }

    /// The tree id that would be given out next.
    pub(crate) fn next_tree(&self) -> TreeId {
        TreeId(self.next_tree.load(Ordering::Acquire))
    }

    /// The transaction's locks; gives it its id.
    pub(crate) fn owner<'t>(&self, txn: &'t Txn) -> &'t Arc<Owner> {
        txn.owner.get_or_init(|| {
            let id = self.status.begin();
            self.streams.prefetch(id);
            self.locks.begin(id)
        })
    }

    /// The transaction's undo stream, begun if need be.
    pub(super) fn stream_of<'t>(&self, txn: &'t Txn) -> &'t Arc<Stream> {
        let id = self.owner(txn).txn();
        txn.stream.get_or_init(|| self.streams.begin(id))
    }

    /// Draws a snapshot of this moment.
    pub(crate) fn draw_snapshot(&self) -> Snapshot {
        self.snapshots.draw(|| self.store.log.reserved_lsn())
    }

    /// The moment that the transaction's plain reads see, drawn by the first of them.
    pub(crate) fn snapshot_lsn_of(&self, txn: &Txn) -> Lsn {
        txn.snapshot.borrow_mut().get_or_insert_with(|| self.draw_snapshot()).lsn()
    }

    /// What a reader at `snapshot` sees, as `own`.
    pub(crate) fn view(&self, snapshot: Lsn, own: TxnId) -> View<'_> {
        View { status: &self.status, undo: self.undo(), snapshot, own, metrics: &self.store.metrics }
    }

    /// Where undo is found.
    pub(super) fn undo(&self) -> Undo<'_> {
        Undo { streams: &self.streams, history: &self.history }
    }

    /// What was read or decided by the snapshot at `moment`, unless that has been given up meanwhile: then it may be wrong, and so may be
    /// the complaint that undo is gone.
    #[inline]
    pub(crate) fn check_not_expired<R>(&self, snapshot_lsn: Lsn, read: Result<R>) -> Result<R> {
        if self.snapshots.is_expired(snapshot_lsn) && !planted(Bug::ExpiryUnseen) {
            return Err(Error::SnapshotTooOld);
        }
        read
    }

    /// The same where first-updater-wins goes by a snapshot, if it does.
    #[inline]
    pub(crate) fn check_rules_not_expired<R>(&self, rules: Rules, read: Result<R>) -> Result<R> {
        match rules.conflicts_after {
            Some(snapshot_lsn) => self.check_not_expired(snapshot_lsn, read),
            None => read,
        }
    }

    /// Commits below it are seen by all, now and later.
    pub(crate) fn horizon(&self) -> Lsn {
        self.snapshots.horizon(|| self.store.log.reserved_lsn())
    }

    /// Keeps the tree as it is until the transaction ends.
    pub(crate) fn share_tree(&self, txn: &Txn, tree: TreeId, wait: Wait) -> Result {
        self.await_lock_for(txn, self.locks.share_table(self.owner(txn), tree, wait))
    }

    /// Waits for a lock if need be, and adds the time to the transaction's account.
    pub(super) fn await_lock_for(&self, txn: &Txn, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.timed(txn, || ticket.wait()),
        }
    }

    /// Waits for a lock if need be.
    pub(crate) fn await_lock(&self, asked: Result<Enqueued<'_>, Denied>) -> Result {
        match asked.map_err(denied)? {
            Enqueued::Granted => Ok(()),
            Enqueued::Waiting(ticket) => self.counted(|| ticket.wait()).1,
        }
    }

    /// Waits, and adds the time to the transaction's account.
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

    /// How many transactions have ended and wait for their purge, or to be reverted.
    #[cfg(test)]
    pub(crate) fn history(&self) -> usize {
        let reverting = self.reverting.load(Ordering::Acquire) as usize;
        self.purge_queue.len() + self.history.len() as usize + reverting + self.quarantine.len()
    }

    /// How many aborted transactions are not wholly reverted.
    pub(crate) fn aborted(&self) -> usize {
        self.reverting.load(Ordering::Acquire) as usize
    }

    /// Sets aside what could not be reverted, purged or given back. False if there is no room for it.
    pub(super) fn quarantine_task(&self, task: QuarantineTask, error: Error) -> bool {
        self.quarantine.put(task, error, self.vfs.clock.now_us())
    }

    /// How many ended transactions, or pieces of their history, wait because something of them cannot be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.quarantine.unreadable()
    }

    /// What that is, a sentence each, the first few.
    pub(crate) fn unreadable_sentences(&self, most: usize) -> Vec<String> {
        self.quarantine.sentences(most)
    }

    /// Aborted transactions that recovery found and that are not wholly reverted yet.
    pub(crate) fn losers(&self) -> u64 {
        self.losers.load(Ordering::Acquire)
    }
}

/// What the caller of a denied lock hears.
pub(crate) fn denied(why: Denied) -> Error {
    match why {
        Denied::Deadlock => Error::Deadlock,
        Denied::Timeout | Denied::Skipped => Error::LockTimeout,
        Denied::Stopped => Error::Closed,
        Denied::Full => Error::Limit {
            what: "locks of rows and ranges take all the memory that history_memory_bytes lets them have"
                .into(),
        },
    }
}
