//! The [segments](super::segment) of committed history: whose undo stands in which, and which are due for purge.

use super::fetch::{Held, Piece};
use super::record::Record;
use super::segment::{self, Extent, Segment, ToPurge};
use super::shortcuts::{Passed, Shortcuts};
use crate::checkpoint::list::Segments;
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

type Index = BTreeMap<u64, SmallVec<[Arc<Segment>; 2]>>;

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
    segments: BTreeMap<Lsn, Arc<Segment>>,
    /// What a crash has left to purge; oldest first.
    left: VecDeque<Extent>,
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
    fn find<R>(&self, txn: TxnId, look: impl FnOnce(&Segment) -> R) -> Option<R> {
        if txn.0 < self.least.load(Ordering::Acquire) {
            return None;
        }
        let block = txn.0 / BLOCK;
        let shard = self.shard(block).lock();
        shard.get(&block)?.iter().find(|segment| segment.has(txn)).map(|segment| look(segment))
    }

    /// A commit LSN that stands for that of `txn` against every snapshot, if it is in a segment and committed at or above
    /// `from`; perhaps also if it committed below.
    #[inline]
    pub(crate) fn commit_of(&self, txn: TxnId, from: Lsn) -> Option<Lsn> {
        // Whoever changes rows beside an old snapshot comes by here each time, and knows by this that all segments lie below.
        if self.newest.load(Ordering::Acquire) < from.0 {
            return None;
        }
        self.find(txn, |segment| segment.first)
    }

    /// Takes `value`, that of `version`, past all the versions before it that no snapshot tells from it, as far as that is known. REQUIRES:
    /// the snapshot is registered and does not see the version, whose transaction has left the streams.
    pub(crate) fn pass(
        &self,
        version: Version,
        snapshot: Lsn,
        value: &mut Vec<u8>,
    ) -> Result<Option<Passed>, Damage> {
        self.shortcuts.pass(version, snapshot, value)
    }

    /// Takes in which versions can be gone past together, from transactions that are about to be in segments: `each` shows their records, in the
    /// order of their commits. `apart`: whether a snapshot sees the one commit and not the other.
    pub(crate) fn put_together(
        &self,
        horizon: Lsn,
        apart: impl Fn(Lsn, Lsn) -> bool,
        each: impl FnOnce(&mut dyn FnMut(Lsn, u64, &Record<'_>)),
    ) {
        self.shortcuts.take_in(horizon, apart, each);
    }

    /// Where the undo of `txn` stands.
    pub(crate) fn piece_of(&self, txn: TxnId) -> Option<Piece> {
        self.find(txn, |segment| segment.member(txn))
    }

    /// Takes in segments. Whoever looks for one of their transactions finds it from here on.
    pub(crate) fn insert(&self, segments: Vec<Segment>) {
        let mut queue = self.queue.lock();
        for segment in segments {
            let segment = Arc::new(segment);
            self.newest.fetch_max(segment.last.0, Ordering::AcqRel);
            self.least.fetch_min(segment.least(), Ordering::AcqRel);
            let mut blocks = 0;
            for block in segment.blocks(BLOCK) {
                self.shard(block).lock().entry(block).or_default().push(Arc::clone(&segment));
                blocks += 1;
            }
            self.txns.fetch_add(segment.count.into(), Ordering::Relaxed);
            self.memory.fetch_add(segment.memory() + blocks * ENTRY_BYTES, Ordering::Relaxed);
            let before = queue.segments.insert(segment.first, segment);
            base::check!(before.is_none(), "two segments begin with one commit");
        }
    }

    /// The oldest segment, if all its commits lie below `horizon`.
    pub(crate) fn due(&self, horizon: Lsn) -> Option<Arc<Segment>> {
        let queue = self.queue.lock();
        queue.segments.values().next().filter(|segment| segment.last < horizon).cloned()
    }

    /// The oldest commit in a segment.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.queue.lock().segments.keys().next().copied()
    }

    /// Forgets a segment: its transactions are settled.
    pub(crate) fn remove(&self, segment: &Segment) {
        let mut queue = self.queue.lock();
        queue.segments.remove(&segment.first);
        let mut blocks = 0;
        for block in segment.blocks(BLOCK) {
            let mut shard = self.shard(block).lock();
            let empty = shard.get_mut(&block).is_some_and(|there| {
                there.retain(|other| other.first != segment.first);
                there.is_empty()
            });
            if empty {
                shard.remove(&block);
            }
            blocks += 1;
        }
        if queue.segments.is_empty() {
            self.least.store(u64::MAX, Ordering::Release);
            self.shortcuts.clear();
        }
        self.txns.fetch_sub(segment.count.into(), Ordering::Relaxed);
        self.memory.fetch_sub(segment.memory() + blocks * ENTRY_BYTES, Ordering::Relaxed);
    }

    /// What a crash has left to purge.
    pub(crate) fn leave(&self, extents: Vec<Extent>) {
        self.queue.lock().left.extend(extents);
    }

    /// The oldest that a crash has left. It stays until [`History::left_done`].
    pub(crate) fn left(&self) -> Option<Extent> {
        self.queue.lock().left.front().cloned()
    }

    /// Replaces the oldest that a crash has left by what is still to be done of it.
    pub(crate) fn left_done(&self, rest: Option<Extent>) {
        let mut queue = self.queue.lock();
        queue.left.pop_front();
        queue.left.extend(rest.clone());
        if rest.is_some() {
            queue.left.rotate_right(1);
        }
    }

    /// The segments that have something to purge, for a checkpoint's list.
    pub(crate) fn list(&self) -> Vec<Segments> {
        let queue = self.queue.lock();
        let mut listed = Vec::new();
        queue.left.iter().for_each(|extent| extent.list(&mut listed));
        queue.segments.values().filter(|segment| segment.purge).for_each(|segment| segment.list(&mut listed));
        listed
    }

    /// How many transactions wait here for purge.
    pub(crate) fn len(&self) -> u64 {
        let left: u64 = self.queue.lock().left.iter().map(Extent::txns).sum();
        self.txns.load(Ordering::Relaxed) + left
    }

    /// Whether nothing waits here.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.segments.is_empty() && queue.left.is_empty()
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

impl Held {
    /// All that purge must look at of a segment, which is held: transactions and their streams.
    pub(crate) fn to_purge(&self, piece: &Piece) -> Result<Vec<ToPurge>, Damage> {
        let payload = self.bytes(piece).ok_or(Damage("a segment of history was not fetched"))?;
        segment::to_purge(payload)
    }
}
