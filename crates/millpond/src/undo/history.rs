//! The [batches](super::history_batch) of committed history: whose undo stands in which, and which are due for purge.

use super::fetch::{HeldPiece, UndoPiece};
use super::history_batch::{self, HistoryBatch, HistoryBatchRange, ToPurge};
use super::record::UndoRecord;
use super::shortcuts::{ShortcutEnd, Shortcuts};
use crate::checkpoint::list::ListedBatches;
use crate::page::Damage;
use crate::page::node::Version;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Lsn, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const SHARDS: usize = 16;
/// Ids that share an entry of the index.
const BLOCK: u64 = 1024;
/// Memory that an entry of the index takes, about, bytes.
const ENTRY_BYTES: u64 = 64;

type Index = BTreeMap<u64, SmallVec<[Arc<HistoryBatch>; 2]>>;

/// Committed transactions whose undo is in files and that nothing else knows any more.
#[derive(Debug)]
pub(crate) struct History {
    shards: [Mutex<Index>; SHARDS],
    /// No id below it is in a segment. Changed under `queue`.
    least: AtomicU64,
    /// No commit in a segment lies above it. It never falls.
    newest: AtomicU64,
    queue: Mutex<Queue>,
    /// Transactions in segments.
    txns: AtomicU64,
    /// Memory of the segments and their index, bytes.
    memory: AtomicU64,
    /// Past what nobody needs of it.
    shortcuts: Shortcuts,
}

#[derive(Debug, Default)]
struct Queue {
    /// By the commits that they begin with.
    batches: BTreeMap<Lsn, Arc<HistoryBatch>>,
    /// What a crash has left to purge; oldest first.
    left: VecDeque<HistoryBatchRange>,
}

impl Default for History {
    fn default() -> History {
        History {
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

impl History {
    fn shard(&self, block: u64) -> &Mutex<Index> {
        &self.shards[block as usize % SHARDS]
    }

    #[inline]
    fn find<R>(&self, txn: TxnId, look: impl FnOnce(&HistoryBatch) -> R) -> Option<R> {
        if txn.0 < self.least.load(Ordering::Acquire) {
            return None;
        }
        let block = txn.0 / BLOCK;
        let shard = self.shard(block).lock();
        shard.get(&block)?.iter().find(|batch| batch.has(txn)).map(|batch| look(batch))
    }

    /// A commit LSN that stands for that of `txn` against every snapshot, if it is in a segment and committed at or above
    /// `from`; perhaps also if it committed below.
    #[inline]
    pub(crate) fn commit_of(&self, txn: TxnId, from: Lsn) -> Option<Lsn> {
        // Whoever changes rows beside an old snapshot comes by here each time, and knows by this that all segments lie below.
        if self.newest.load(Ordering::Acquire) < from.0 {
            return None;
        }
        self.find(txn, |batch| batch.first)
    }

    /// Takes `value`, that of `version`, past all the versions before it that no snapshot tells from it, as far as that is known. REQUIRES:
    /// the snapshot is registered and does not see the version, whose transaction has left the streams.
    pub(crate) fn pass(
        &self,
        version: Version,
        snapshot: Lsn,
        value: &mut Vec<u8>,
    ) -> Result<Option<ShortcutEnd>, Damage> {
        self.shortcuts.pass(version, snapshot, value)
    }

    /// Takes in which versions can be gone past together, from transactions that are about to be in segments: `each` shows their records, in the
    /// order of their commits. `apart`: whether a snapshot sees the one commit and not the other.
    pub(crate) fn add_shortcuts(
        &self,
        horizon: Lsn,
        apart: impl Fn(Lsn, Lsn) -> bool,
        each: impl FnOnce(&mut dyn FnMut(Lsn, u64, &UndoRecord<'_>)),
    ) {
        self.shortcuts.add(horizon, apart, each);
    }

    /// Where the undo of `txn` stands.
    pub(crate) fn piece_of(&self, txn: TxnId) -> Option<UndoPiece> {
        self.find(txn, |batch| batch.member(txn))
    }

    /// Takes in segments. Whoever looks for one of their transactions finds it from here on.
    pub(crate) fn insert(&self, batches: Vec<HistoryBatch>) {
        let mut queue = self.queue.lock();
        for batch in batches {
            let batch = Arc::new(batch);
            self.newest.fetch_max(batch.last.0, Ordering::AcqRel);
            self.least.fetch_min(batch.least(), Ordering::AcqRel);
            let mut blocks = 0;
            for block in batch.blocks(BLOCK) {
                self.shard(block).lock().entry(block).or_default().push(Arc::clone(&batch));
                blocks += 1;
            }
            self.txns.fetch_add(batch.count.into(), Ordering::Relaxed);
            self.memory.fetch_add(batch.memory() + blocks * ENTRY_BYTES, Ordering::Relaxed);
            let before = queue.batches.insert(batch.first, batch);
            base::check!(before.is_none(), "two history batches begin with one commit");
        }
    }

    /// The oldest segment, if all its commits lie below `horizon`.
    pub(crate) fn due(&self, horizon: Lsn) -> Option<Arc<HistoryBatch>> {
        let queue = self.queue.lock();
        queue.batches.values().next().filter(|batch| batch.last < horizon).cloned()
    }

    /// The oldest commit in a segment.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.queue.lock().batches.keys().next().copied()
    }

    /// Forgets a segment: its transactions are settled.
    pub(crate) fn remove(&self, batch: &HistoryBatch) {
        let mut queue = self.queue.lock();
        queue.batches.remove(&batch.first);
        let mut blocks = 0;
        for block in batch.blocks(BLOCK) {
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

    /// What a crash has left to purge.
    pub(crate) fn add_left_by_crash(&self, ranges: Vec<HistoryBatchRange>) {
        self.queue.lock().left.extend(ranges);
    }

    /// The oldest that a crash has left. It stays until [`History::replace_oldest_left_by_crash`].
    pub(crate) fn oldest_left_by_crash(&self) -> Option<HistoryBatchRange> {
        self.queue.lock().left.front().cloned()
    }

    /// Replaces the oldest that a crash has left by what is still to be done of it.
    pub(crate) fn replace_oldest_left_by_crash(&self, rest: Option<HistoryBatchRange>) {
        let mut queue = self.queue.lock();
        queue.left.pop_front();
        queue.left.extend(rest.clone());
        if rest.is_some() {
            queue.left.rotate_right(1);
        }
    }

    /// The segments that have something to purge, for a checkpoint's list.
    pub(crate) fn list(&self) -> Vec<ListedBatches> {
        let queue = self.queue.lock();
        let mut listed = Vec::new();
        queue.left.iter().for_each(|range| range.list(&mut listed));
        queue.batches.values().filter(|batch| batch.purge).for_each(|batch| batch.list(&mut listed));
        listed
    }

    /// How many transactions wait here for purge.
    pub(crate) fn len(&self) -> u64 {
        let left: u64 = self.queue.lock().left.iter().map(HistoryBatchRange::txns).sum();
        self.txns.load(Ordering::Relaxed) + left
    }

    /// Whether nothing waits here.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.batches.is_empty() && queue.left.is_empty()
    }

    /// Memory of what is known beside, which is bounded by itself, bytes.
    pub(crate) fn shortcut_bytes(&self) -> u64 {
        self.shortcuts.memory()
    }

    /// Memory, bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }
}

impl HeldPiece {
    /// All that purge must look at of a segment, which is held: transactions and their streams.
    pub(crate) fn to_purge(&self, piece: &UndoPiece) -> Result<Vec<ToPurge>, Damage> {
        let payload = self.bytes(piece).ok_or(Damage("a history batch was not fetched"))?;
        history_batch::to_purge(payload)
    }
}
