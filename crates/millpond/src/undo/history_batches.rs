//! The [history batches](super::history_batch): which batch holds the undo of a committed
//! transaction, and which batches are due for purge.

use super::history_batch::{HistoryBatch, HistoryBatchRange};
use super::location::UndoPiece;
use super::record::UndoRecord;
use super::shortcuts::{ShortcutEnd, Shortcuts};
use crate::checkpoint::list::ListedBatches;
use crate::page::Damage;
use crate::page::node::Version;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Lsn, Sharded, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Transaction ids that share an entry of the index.
const IDS_PER_ENTRY: u64 = 1024;
/// Approximate memory of an entry of the index, bytes.
const ENTRY_BYTES: u64 = 64;

type Index = BTreeMap<u64, SmallVec<[Arc<HistoryBatch>; 2]>>;

/// Committed transactions whose undo is in history batches. No other structure knows them any more.
#[derive(Debug)]
pub(crate) struct HistoryBatches {
    shards: Sharded<Mutex<Index>, 16>,
    /// Every transaction id in a history batch is at least this. Changed under `queue`.
    least: AtomicU64,
    /// Every commit in a history batch is at or below this. It never decreases.
    newest: AtomicU64,
    queue: Mutex<Queue>,
    /// The number of transactions in history batches.
    txns: AtomicU64,
    /// Memory of the batches and their index, bytes.
    memory: AtomicU64,
    /// Shortcuts past versions that no snapshot needs.
    shortcuts: Shortcuts,
}

#[derive(Debug, Default)]
struct Queue {
    /// The batches by their first commit.
    batches: BTreeMap<Lsn, Arc<HistoryBatch>>,
    /// Batches of an earlier run that are still to be purged, oldest first.
    left: VecDeque<HistoryBatchRange>,
}

impl Default for HistoryBatches {
    fn default() -> HistoryBatches {
        HistoryBatches {
            shards: Default::default(),
            least: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
            queue: Mutex::default(),
            txns: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            shortcuts: Shortcuts::default(),
        }
    }
}

impl HistoryBatches {
    fn shard(&self, block: u64) -> &Mutex<Index> {
        self.shards.of(block)
    }

    #[inline]
    fn find<R>(&self, txn: TxnId, look: impl FnOnce(&HistoryBatch) -> R) -> Option<R> {
        if txn.0 < self.least.load(Ordering::Acquire) {
            return None;
        }
        let block = txn.0 / IDS_PER_ENTRY;
        let shard = self.shard(block).lock();
        shard.get(&block)?.iter().find(|batch| batch.has(txn)).map(|batch| look(batch))
    }

    /// Returns the commit LSN of `txn`, or one that no snapshot can tell from it, if `txn` is in a
    /// history batch and committed at or above `from`. If it committed below, the result may be
    /// `None` or not.
    #[inline]
    pub(crate) fn commit_of(&self, txn: TxnId, from: Lsn) -> Option<Lsn> {
        // Writers come here for each row that they change while an old snapshot is held. This test
        // tells them quickly that all history batches lie below.
        if self.newest.load(Ordering::Acquire) < from.0 {
            return None;
        }
        self.find(txn, |batch| batch.first)
    }

    /// Changes `value` from that of `version` to that of the oldest version that no snapshot tells
    /// apart from it, if a shortcut is known. REQUIRES: the snapshot is registered and does not see
    /// the version, whose transaction has left the streams.
    pub(crate) fn pass(
        &self,
        version: Version,
        snapshot: Lsn,
        value: &mut Vec<u8>,
    ) -> Result<Option<ShortcutEnd>, Damage> {
        self.shortcuts.pass(version, snapshot, value)
    }

    /// Builds shortcuts from transactions that are about to move to history batches. `each` shows
    /// their records in commit order. `apart` says whether a snapshot sees the first commit and not
    /// the second.
    pub(crate) fn add_shortcuts(
        &self,
        horizon: Lsn,
        apart: impl Fn(Lsn, Lsn) -> bool,
        each: impl FnOnce(&mut dyn FnMut(Lsn, u64, &UndoRecord<'_>)),
    ) {
        self.shortcuts.add(horizon, apart, each);
    }

    /// Returns the piece that holds the undo of `txn`.
    pub(super) fn piece_of(&self, txn: TxnId) -> Option<UndoPiece> {
        self.find(txn, |batch| batch.member(txn))
    }

    /// Adds history batches. From here on their transactions are found here.
    pub(crate) fn insert(&self, batches: Vec<HistoryBatch>) {
        let mut queue = self.queue.lock();
        for batch in batches {
            let batch = Arc::new(batch);
            self.newest.fetch_max(batch.last.0, Ordering::AcqRel);
            self.least.fetch_min(batch.least(), Ordering::AcqRel);
            let mut blocks = 0;
            for block in batch.blocks(IDS_PER_ENTRY) {
                self.shard(block).lock().entry(block).or_default().push(Arc::clone(&batch));
                blocks += 1;
            }
            self.txns.fetch_add(batch.count.into(), Ordering::Relaxed);
            self.memory.fetch_add(batch.memory() + blocks * ENTRY_BYTES, Ordering::Relaxed);
            let before = queue.batches.insert(batch.first, batch);
            base::check!(before.is_none(), "two history batches begin with one commit");
        }
    }

    /// Returns the oldest batch if all its commits lie below `horizon`.
    pub(crate) fn due(&self, horizon: Lsn) -> Option<Arc<HistoryBatch>> {
        let queue = self.queue.lock();
        queue.batches.values().next().filter(|batch| batch.last < horizon).cloned()
    }

    /// Returns the oldest commit in a history batch.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.queue.lock().batches.keys().next().copied()
    }

    /// Removes a batch whose transactions are settled.
    pub(crate) fn remove(&self, batch: &HistoryBatch) {
        let mut queue = self.queue.lock();
        queue.batches.remove(&batch.first);
        let mut blocks = 0;
        for block in batch.blocks(IDS_PER_ENTRY) {
            let mut shard = self.shard(block).lock();
            let empty = shard.get_mut(&block).is_some_and(|there| {
                there.retain(|other| other.first != batch.first);
                there.is_empty()
            });
            if empty {
                shard.remove(&block);
            }
            blocks += 1;
        }
        if queue.batches.is_empty() {
            self.least.store(u64::MAX, Ordering::Release);
            self.shortcuts.clear();
        }
        self.txns.fetch_sub(batch.count.into(), Ordering::Relaxed);
        self.memory.fetch_sub(batch.memory() + blocks * ENTRY_BYTES, Ordering::Relaxed);
    }

    /// Adds batches of an earlier run that are still to be purged.
    pub(crate) fn add_left_by_crash(&self, ranges: Vec<HistoryBatchRange>) {
        self.queue.lock().left.extend(ranges);
    }

    /// Returns the oldest range that a crash has left. It stays until
    /// [`HistoryBatches::replace_oldest_left_by_crash`].
    pub(crate) fn oldest_left_by_crash(&self) -> Option<HistoryBatchRange> {
        self.queue.lock().left.front().cloned()
    }

    /// Replaces the oldest range that a crash has left by the rest that is still to be purged.
    pub(crate) fn replace_oldest_left_by_crash(&self, rest: Option<HistoryBatchRange>) {
        let mut queue = self.queue.lock();
        queue.left.pop_front();
        queue.left.extend(rest.clone());
        if rest.is_some() {
            queue.left.rotate_right(1);
        }
    }

    /// Returns the batches that have something to purge, for a checkpoint's list.
    pub(crate) fn list(&self) -> Vec<ListedBatches> {
        let queue = self.queue.lock();
        let mut listed = Vec::new();
        queue.left.iter().for_each(|range| range.list(&mut listed));
        queue.batches.values().filter(|batch| batch.purge).for_each(|batch| batch.list(&mut listed));
        listed
    }

    /// Returns how many transactions wait here for purge.
    pub(crate) fn len(&self) -> u64 {
        let left: u64 = self.queue.lock().left.iter().map(HistoryBatchRange::txns).sum();
        self.txns.load(Ordering::Relaxed) + left
    }

    /// Whether no transaction waits here for purge.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.batches.is_empty() && queue.left.is_empty()
    }

    /// Returns the memory of the shortcuts in bytes. They have a limit of their own.
    pub(crate) fn shortcut_bytes(&self) -> u64 {
        self.shortcuts.memory()
    }

    /// Returns the memory of batches and index in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }
}
