//! Range locks: the keys that serializable scans have read, rows and gaps alike (Lk3). They have
//! the effect of next-key locks.
//!
//! A transaction that wants to change or exclusively lock a key waits until no other transaction's
//! range covers it, and then reads the row again. Its entry here is a *pending write*: the key and
//! the time of arrival.
//!
//! **Writers and scans go in order of arrival.** A scan that begins first lets all pending writes
//! of its range pass, and holds nothing of the range meanwhile ([`LockTable::let_writers_pass`]).
//! It does not wait for writers that come later. So a writer waits only for scans that came before
//! it, and a scan only for writers that came before it. When no range covers a pending write any
//! more it is *granted*: no scan may cover its key, whenever the scan began, until the writer has
//! taken the row; then the row's version or queue protects the key. A key that the scan's own
//! transaction covers already does not stop the scan. None of this is needed for correctness: the
//! writer checks again under the latch whether a range covers its key. So a scan may pass a pending
//! write where otherwise all would wait in a cycle, and no transaction is rolled back.
//!
//! **The latch rule.** A range is added under the latch of a leaf that encloses it, after its rows
//! were read under the same latch. A writer asks for a key under the exclusive latch of the leaf
//! that covers it, before the change. So either the reader has seen the change or the writer sees
//! the range, and one atomic load is enough to recognise an empty shard. Ranges name keys and not
//! pages: splits, merges and purge do not concern them.
//!
//! **Deadlocks.** A pending write waits for every transaction whose range covers its key. A later
//! range adds to these; the transaction that adds it does not wait, and counts as blocking from
//! then on. A scan waits for the transactions whose pending writes it lets pass, until they end.
//! Their rows would be free earlier, but the scan would most likely wait for them next, with half
//! of its range locked.

use super::key::LockKey;
use super::owner::WakeList;
use super::queue::Owners;
use super::range::{RangeSet, heap_bytes};
use super::ticket::{self, Ticket, WaitEnd};
use super::{CancelFlag, Denied, Enqueued, LockTable, Owner, Wait};
use crate::planted::{Bug, planted};
use base::sharded::shards;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{Sharded, TreeId, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// The ranges of a few trees.
#[derive(Debug, Default)]
struct Shard {
    /// Number of transactions that have ranges here, counted once a tree. Changed under `mu`; read
    /// without it under the latch that covers the key in question.
    holders: AtomicU32,
    /// Number of pending writes here. Changed and read in the same way.
    pending: AtomicU32,
    mu: Mutex<BTreeMap<TreeId, TreeRanges>>,
}

#[derive(Debug, Default)]
pub(super) struct Ranges {
    shards: Sharded<Shard, { shards(16) }>,
    /// Counts the arrivals of pending writes.
    turns: AtomicU64,
}

/// Adjacent keys of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    pub(crate) tree: TreeId,
    pub(crate) from: &'a [u8],
    /// The first key beyond. None: the tree's end.
    pub(crate) to: Option<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    pub(crate) fn new(tree: TreeId, from: &'a [u8], to: Option<&'a [u8]>) -> KeyRange<'a> {
        KeyRange { tree, from, to }
    }

    fn is_empty(self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }
}

/// When a scan began, in the order of arrival of pending writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScanStart {
    /// It has not begun.
    #[default]
    NotStarted,
    /// It lets the writers pass that had arrived by then.
    At(u64),
    /// It lets no writer pass: it does not wait, or has waited as long as it may.
    NoYield,
}

/// The state of a pending write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingState {
    /// This transaction's range covers its key; others may too.
    BlockedBy(TxnId),
    /// No range covers its key.
    Granted,
    /// The writer has the row; its version or lock protects the key.
    Taken,
}

#[derive(Debug)]
struct PendingWrite {
    owner: Arc<Owner>,
    turn: u64,
    stands: PendingState,
}

impl PendingWrite {
    /// Returns whether a scan of `txn` must let it pass.
    fn stops(&self, txn: TxnId, since: ScanStart) -> bool {
        let first = match since {
            ScanStart::At(turn) => match self.stands {
                PendingState::BlockedBy(_) => self.turn <= turn,
                PendingState::Granted => true,
                PendingState::Taken => false,
            },
            ScanStart::NotStarted | ScanStart::NoYield => false,
        };
        first && self.owner.txn != txn
    }
}

/// A scan that lets writers pass, until they have ended or wait no more.
#[derive(Debug)]
struct WaitingScan {
    owner: Arc<Owner>,
    /// The writers that it waits for, by arrival.
    first: SmallVec<[(u64, Arc<Owner>); 2]>,
}

#[derive(Debug, Default)]
struct TreeRanges {
    /// By transaction id, so that the order of wake-ups can be repeated.
    holders: BTreeMap<TxnId, (Arc<Owner>, RangeSet)>,
    /// By key; those of one key in order of arrival.
    pending: BTreeMap<Vec<u8>, Vec<PendingWrite>>,
    /// In order of arrival.
    scans: Vec<WaitingScan>,
}

impl TreeRanges {
    /// Transactions other than `txn` whose ranges cover `key`.
    fn covering(&self, txn: TxnId, key: &[u8]) -> impl Iterator<Item = &Arc<Owner>> {
        let covers = move |(owner, set): &&(Arc<Owner>, RangeSet)| owner.txn != txn && set.covers(key);
        self.holders.values().filter(covers).map(|(owner, _)| owner)
    }

    /// The pending writes in `range` that a scan must let pass, in order of their keys. REQUIRES:
    /// `range` is not empty.
    fn stopping(
        &self,
        txn: TxnId,
        since: ScanStart,
        range: KeyRange<'_>,
    ) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &PendingWrite)> {
        let own = self.holders.get(&txn).map(|(_, set)| set);
        let end = range.to.map_or(Unbounded, Excluded);
        self.pending
            .range::<[u8], _>((Included(range.from), end))
            .filter(move |(key, _)| own.is_none_or(|set| !set.covers(key)))
            .flat_map(|(key, pending)| pending.iter().map(move |want| (key, want)))
            .filter(move |(_, want)| want.stops(txn, since))
    }

    fn pending_of(&mut self, txn: TxnId, key: &[u8]) -> Option<&mut PendingWrite> {
        self.pending.get_mut(key)?.iter_mut().find(|want| want.owner.txn == txn)
    }

    /// Removes a pending write, and wakes the scans that waited for no other. Returns the bytes
    /// freed; none if there is none.
    fn remove_pending(&mut self, txn: TxnId, key: &[u8], woken: &mut WakeList) -> Option<usize> {
        let pending = self.pending.get_mut(key)?;
        let gone = pending.remove(pending.iter().position(|want| want.owner.txn == txn)?);
        if pending.is_empty() {
            self.pending.remove(key);
        }
        self.scans.retain_mut(|scan| {
            scan.first.retain(|(turn, _)| *turn != gone.turn);
            if scan.first.is_empty() {
                woken.end_wait(&scan.owner, ticket::GRANTED);
            }
            !scan.first.is_empty()
        });
        Some(pending_bytes(key))
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.pending.is_empty()
    }
}

/// Memory that a pending write takes, in bytes.
fn pending_bytes(key: &[u8]) -> usize {
    size_of::<PendingWrite>() + size_of::<Vec<u8>>() + heap_bytes(key.len())
}

impl Ranges {
    fn shard(&self, tree: TreeId) -> &Shard {
        self.shards.of(u64::from(tree.0))
    }

    /// Returns the transactions for which `owner` waits at `key`, if it still waits.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey) -> Owners {
        let mut trees = self.shard(key.tree()).mu.lock();
        let Some(ranges) = trees.get_mut(&key.tree()) else { return Owners::default() };
        if key.is_scan_wait() {
            let scan = ranges.scans.iter().find(|scan| scan.owner.txn == owner.txn);
            return scan
                .into_iter()
                .flat_map(|scan| &scan.first)
                .map(|(_, first)| Arc::clone(first))
                .collect();
        }
        match ranges.pending_of(owner.txn, key.bytes_of_row()) {
            Some(PendingWrite { stands: PendingState::BlockedBy(_), .. }) => {
                ranges.covering(owner.txn, key.bytes_of_row()).cloned().collect()
            }
            _ => Owners::default(),
        }
    }

    /// Ends a transaction's wait with the reason `why`. Returns the bytes freed; none if it does
    /// not wait.
    pub(super) fn withdraw(
        &self,
        owner: &Arc<Owner>,
        key: &LockKey,
        why: u32,
        woken: &mut WakeList,
    ) -> Option<usize> {
        let shard = self.shard(key.tree());
        let mut trees = shard.mu.lock();
        let ranges = trees.get_mut(&key.tree())?;
        if key.is_scan_wait() {
            let at = ranges.scans.iter().position(|scan| scan.owner.txn == owner.txn)?;
            woken.end_wait(&ranges.scans.remove(at).owner, why);
            return Some(0);
        }
        let row = key.bytes_of_row();
        let waits = matches!(ranges.pending_of(owner.txn, row)?.stands, PendingState::BlockedBy(_));
        if !waits {
            return None;
        }
        woken.end_wait(owner, why);
        shard.pending.fetch_sub(1, Ordering::Release);
        ranges.remove_pending(owner.txn, row, woken)
    }

    /// Number of ranges.
    pub(super) fn count(&self) -> u64 {
        let in_shard = |shard: &Shard| -> usize {
            if shard.holders.load(Ordering::Relaxed) == 0 {
                return 0;
            }
            shard
                .mu
                .lock()
                .values()
                .flat_map(|ranges| ranges.holders.values())
                .map(|(_, set)| set.len())
                .sum()
        };
        self.shards.iter().map(in_shard).sum::<usize>() as u64
    }

    /// Ends every wait. REQUIRES: no new one begins.
    pub(super) fn stop(&self) {
        for shard in self.shards.iter() {
            let mut woken = WakeList::default();
            for ranges in shard.mu.lock().values_mut() {
                for scan in ranges.scans.drain(..) {
                    woken.end_wait(&scan.owner, ticket::STOPPED);
                }
                for want in ranges.pending.values_mut().flatten() {
                    if matches!(want.stands, PendingState::BlockedBy(_)) {
                        want.stands = PendingState::Taken;
                        woken.end_wait(&want.owner, ticket::STOPPED);
                    }
                }
            }
        }
    }

    /// Removes the ranges of `owner` in a tree, or its pending write, and wakes the transactions
    /// that no other blocks. Returns the bytes freed.
    pub(super) fn release(&self, owner: &Owner, noted: &LockKey, woken: &mut WakeList) -> usize {
        let tree = noted.tree();
        let shard = self.shard(tree);
        // A large set is freed after the mutex.
        let gone: RangeSet;
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return 0 };
        let freed = if noted.is_pending_write() {
            let freed = ranges.remove_pending(owner.txn, noted.bytes_of_row(), woken);
            shard.pending.fetch_sub(u32::from(freed.is_some()), Ordering::Release);
            freed.unwrap_or(0)
        } else {
            let Some((_, set)) = ranges.holders.remove(&owner.txn) else { return 0 };
            shard.holders.fetch_sub(1, Ordering::Release);
            ranges.uncover(owner.txn, &set, woken);
            gone = set;
            gone.bytes()
        };
        if ranges.is_empty() {
            trees.remove(&tree);
        }
        freed
    }
}

impl TreeRanges {
    /// Grants the pending writes that no transaction covers any more, after the ranges `gone` of
    /// `txn` were removed.
    fn uncover(&mut self, txn: TxnId, gone: &RangeSet, woken: &mut WakeList) {
        let holders = &self.holders;
        for (key, pending) in &mut self.pending {
            if !gone.covers(key) {
                continue;
            }
            for want in pending.iter_mut().filter(|want| want.stands == PendingState::BlockedBy(txn)) {
                let other = holders.values().find(|(o, set)| o.txn != want.owner.txn && set.covers(key));
                if let Some((other, _)) = other {
                    want.stands = PendingState::BlockedBy(other.txn);
                } else {
                    want.stands = PendingState::Granted;
                    woken.end_wait(&want.owner, ticket::GRANTED);
                }
            }
        }
    }
}

impl LockTable {
    /// Locks the keys of `range` as `owner` has read them, rows and gaps, until it ends. If a
    /// pending write in the range must pass first, it locks only the part before that key, in the
    /// direction of the scan, and returns the key. On an error nothing is locked. REQUIRES: one
    /// leaf encloses the keys and has been latched since its rows were read; none of them was
    /// another transaction's uncommitted version or exclusively locked.
    pub(crate) fn cover(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: ScanStart,
        backward: bool,
    ) -> Result<Option<Vec<u8>>, Denied> {
        if range.is_empty() {
            return Ok(None);
        }
        let KeyRange { tree, from, to } = range;
        if self.is_full() {
            return Err(Denied::Full);
        }
        let shard = self.ranges.shard(tree);
        let mut trees = shard.mu.lock();
        let ranges = trees.entry(tree).or_default();
        let mut stopping = ranges.stopping(owner.txn, since, range);
        let stopped = if backward { stopping.next_back() } else { stopping.next() };
        let stopped = stopped.map(|(key, _)| key.clone());
        drop(stopping);
        let mut start = from.to_vec();
        let end = match &stopped {
            Some(key) if backward => {
                start.clone_from(key);
                start.push(0);
                to
            }
            Some(key) => Some(&key[..]),
            None => to,
        };
        if !ranges.pending.is_empty() {
            // The new range may cover a pending write.
            owner.mark_blocking();
        }
        let (_, set) = ranges.holders.entry(owner.txn).or_insert_with(|| {
            base::check!(self.note(owner, &LockKey::ranges(tree)), "{} locks after its end", owner.txn);
            shard.holders.fetch_add(1, Ordering::Release);
            (Arc::clone(owner), RangeSet::default())
        });
        let before = set.bytes();
        set.add(&start, end);
        // Joining ranges can free more than it takes.
        self.bytes.fetch_add((set.bytes() as u64).wrapping_sub(before as u64), Ordering::Relaxed);
        Ok(stopped)
    }

    /// Returns the wait of a scan that must let writers of `range` pass; none if it may go on.
    /// While it waits the transaction holds what it held before.
    #[inline]
    pub(crate) fn let_writers_pass(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: &mut ScanStart,
        wait: Wait,
    ) -> Result<Option<WriterWait<'_>>, Denied> {
        if *since == ScanStart::NotStarted {
            *since = match wait {
                Wait::Until(_) => ScanStart::At(self.ranges.turns.load(Ordering::Acquire)),
                Wait::NoWait | Wait::Skip => ScanStart::NoYield,
            };
            if planted(Bug::ScanPasses) {
                *since = ScanStart::NoYield;
            }
        }
        let none = self.ranges.shard(range.tree).pending.load(Ordering::Acquire) == 0;
        if none || range.is_empty() {
            return Ok(None);
        }
        self.wait_for_writers(owner, range, *since, wait)
    }

    fn wait_for_writers(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: ScanStart,
        wait: Wait,
    ) -> Result<Option<WriterWait<'_>>, Denied> {
        let mut trees = self.ranges.shard(range.tree).mu.lock();
        let Some(ranges) = trees.get_mut(&range.tree) else { return Ok(None) };
        let first =
            ranges.stopping(owner.txn, since, range).map(|(_, want)| (want.turn, Arc::clone(&want.owner)));
        let first: SmallVec<[(u64, Arc<Owner>); 2]> = first.collect();
        let limit = match wait {
            Wait::Until(_) if first.is_empty() => return Ok(None),
            Wait::Until(_) if self.stopped() => return Err(Denied::Stopped),
            Wait::Until(limit) => limit,
            Wait::NoWait | Wait::Skip => return Ok(None),
        };
        first.iter().for_each(|(_, first)| first.mark_blocking());
        ranges.scans.push(WaitingScan { owner: Arc::clone(owner), first });
        let key = LockKey::scan_wait(range.tree);
        owner.begin_wait(&key, ticket::WAITING);
        self.count_wait();
        Ok(Some(WriterWait(Ticket::new(self, Arc::clone(owner), key, limit))))
    }

    /// Returns whether no other transaction's range covers `key`. After a wait the caller reads the
    /// row again: it does not own the key yet. REQUIRES: the leaf that covers the key is latched.
    #[inline]
    pub(super) fn out_of_ranges(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let none = self.ranges.shard(tree).holders.load(Ordering::Acquire) == 0;
        if none || planted(Bug::RangesIgnored) {
            return Ok(Enqueued::Granted);
        }
        self.ask_ranges(owner, tree, key, wait)
    }

    fn ask_ranges(
        &self,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        wait: Wait,
    ) -> Result<Enqueued<'_>, Denied> {
        let shard = self.ranges.shard(tree);
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return Ok(Enqueued::Granted) };
        let Some(behind) =
            ranges.covering(owner.txn, key).next().map(|other| PendingState::BlockedBy(other.txn))
        else {
            return Ok(Enqueued::Granted);
        };
        let limit = match wait {
            _ if self.stopped() => return Err(Denied::Stopped),
            Wait::NoWait => return Err(Denied::Timeout),
            Wait::Skip => return Err(Denied::Skipped),
            Wait::Until(limit) => limit,
        };
        let kept = LockKey::ranges(tree);
        ranges.covering(owner.txn, key).for_each(|other| other.mark_blocking_at(&kept));
        let name = LockKey::pending_write(tree, key);
        if let Some(want) = ranges.pending_of(owner.txn, key) {
            // A scan has passed it. It keeps its time of arrival.
            want.stands = behind;
        } else {
            let turn = self.ranges.turns.fetch_add(1, Ordering::AcqRel) + 1;
            let want = PendingWrite { owner: Arc::clone(owner), turn, stands: behind };
            ranges.pending.entry(key.to_vec()).or_default().push(want);
            base::check!(self.note(owner, &name), "{} waits after its end", owner.txn);
            shard.pending.fetch_add(1, Ordering::Release);
            self.bytes.fetch_add(pending_bytes(key) as u64, Ordering::Relaxed);
        }
        owner.begin_wait(&name, ticket::WAITING);
        self.count_wait();
        Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), name, limit)))
    }

    /// Marks the pending write of `key` as taken: the row is about to get a version of `owner`,
    /// which stops later scans. REQUIRES: the leaf that covers the key is latched exclusively.
    #[inline]
    pub(super) fn take_pending(&self, owner: &Owner, tree: TreeId, key: &[u8]) {
        let shard = self.ranges.shard(tree);
        if shard.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut trees = shard.mu.lock();
        if let Some(want) = trees.get_mut(&tree).and_then(|ranges| ranges.pending_of(owner.txn, key)) {
            want.stands = PendingState::Taken;
        }
    }
}

/// The wait of a scan that lets writers pass.
#[derive(Debug)]
#[must_use]
pub(crate) struct WriterWait<'t>(Ticket<'t>);

impl<'t> WriterWait<'t> {
    /// Waits. A scan whose time is over continues as well, and lets no writer pass from then on.
    /// REQUIRES: no latch is held.
    pub(crate) fn wait(self, since: &mut ScanStart, cancel: Option<&CancelFlag>) -> Result<(), Denied> {
        match self.0.wait_for_turn(cancel) {
            Ok(WaitEnd::Granted) => {}
            Ok(WaitEnd::Passed) | Err(Denied::Timeout | Denied::Skipped) => *since = ScanStart::NoYield,
            Err(why @ (Denied::Stopped | Denied::Deadlock | Denied::Full | Denied::Cancelled)) => {
                return Err(why);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn into_ticket(self) -> Ticket<'t> {
        self.0
    }
}
