//! Range locks: the keys that serializable scans have read, rows and gaps alike (Lk3). They have
//! the effect of next-key locks.
//!
//! A transaction that wants to change or exclusively lock a key waits until no other transaction's
//! range covers it, and then reads the row again. Its entry here is a *pending write*: the key and
//! the time of arrival.
//!
//! **Writers and scans go in order of arrival.** A scan that begins first lets all pending writes
//! of its range pass, and holds nothing of the range meanwhile ([`Ranges::let_writers_pass`]).
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
//! the range, and one atomic load is enough to recognise an empty shard. A lock in a queue is asked
//! for under a shared latch. So a range whose rows have to be locked, not only unchanged, is added
//! under the exclusive latch. Ranges name keys and not pages: splits, merges and purge do not
//! concern them.
//!
//! **Deadlocks.** A pending write waits for every transaction whose range covers its key. A later
//! range adds to these; the transaction that adds it does not wait, and counts as blocking from
//! then on. A scan waits for the transactions whose pending writes it lets pass, until they end.
//! Their rows would be free earlier, but the scan would most likely wait for them next, with half
//! of its range locked.

use super::covered::{Covered, KeyState, RangeMode, Want};
use super::key::LockKey;
use super::key_range::KeyRange;
use super::owner::WakeList;
use super::pending::{Pending, PendingState, ScanStart, TreeRanges, WaitingScan, pending_bytes};
use super::queue::Owners;
use super::shared::{Begun, LockMemory, Shared};
use super::{Denied, Mode, Owner, Wait, wait_state};
use crate::planted::{Bug, planted};
use base::sharded::shards;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{Sharded, TreeId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
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

impl Shard {
    /// Whether no transaction has ranges here.
    #[inline]
    fn has_no_range(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 0
    }
}

/// The ranges of all trees.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    shards: Sharded<Shard, { shards(16) }>,
    /// Counts the arrivals of pending writes.
    arrivals: AtomicU64,
}

/// A row that a scan locks by a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeRow<'a> {
    pub(crate) tree: TreeId,
    pub(crate) key: &'a [u8],
    /// Where the scan's range may end or begin that the row joins: the boundary after the row that
    /// the scan locked before, if it has passed no other row since.
    pub(crate) joins: Option<&'a [u8]>,
}

/// What ranges say to a request.
pub(super) enum Asked {
    /// None is in its way.
    Free,
    /// The transaction's own range is the lock that it asks for.
    Held,
    Waits(Begun),
}

impl Ranges {
    /// Locks the keys of `range` as `owner` has read them, until it ends. If a pending request in
    /// the range must pass first, it locks only the part before that key, in the direction of the
    /// scan, and returns the key. On an error nothing is locked. REQUIRES: one leaf encloses the
    /// keys and has been latched since its rows were read, exclusively if rows are to be locked;
    /// each row was `LockTable::row_is_free`, or `owner` holds its lock, and none was another
    /// transaction's uncommitted version.
    pub(super) fn cover(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        mode: RangeMode,
        since: ScanStart,
        backward: bool,
    ) -> Result<Option<Vec<u8>>, Denied> {
        if range.is_empty() {
            return Ok(None);
        }
        let KeyRange { tree, from, to } = range;
        let mut trees = self.shard(tree).mu.lock();
        let ranges = trees.entry(tree).or_default();
        let mut stopping = ranges.stopping(owner.txn, since, range, mode);
        let stopped = if backward { stopping.next_back() } else { stopping.next() };
        let stopped = stopped.map(|(key, _)| key.clone());
        drop(stopping);
        let after;
        let (from, to) = match &stopped {
            Some(key) if backward => {
                after = [key, &[0][..]].concat();
                (&after[..], to)
            }
            Some(key) => (from, Some(&key[..])),
            None => (from, to),
        };
        let full = shared.memory.is_full();
        self.grow(shared, owner, ranges, KeyRange { tree, from, to }, |covered| {
            let fits = !full || covered.grows(from, to, mode);
            if fits {
                covered.add(from, to, mode);
            }
            fits
        })?;
        Ok(stopped)
    }

    /// Locks one row that a scan has found, and not the gaps beside it, as a part of a range.
    /// Returns whether that was done: false if a pending request must pass first. Also notes
    /// whether the lock is new, see [`Owner::has_new_lock`]. `held`: it has the row's lock in a
    /// queue. REQUIRES: as [`Ranges::cover`].
    pub(super) fn cover_row(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        row: RangeRow<'_>,
        held: bool,
        mode: Mode,
        since: ScanStart,
    ) -> Result<bool, Denied> {
        let RangeRow { tree, key, joins } = row;
        let after = [key, &[0]].concat();
        let range = KeyRange { tree, from: key, to: Some(&after) };
        let mut trees = self.shard(tree).mu.lock();
        let ranges = trees.entry(tree).or_default();
        let rows = RangeMode { rows: mode, gaps: false };
        if ranges.stopping(owner.txn, since, range, rows).next().is_some() {
            return Ok(false);
        }
        let (full, mut new) = (shared.memory.is_full(), false);
        self.grow(shared, owner, ranges, range, |covered| {
            new = !held && !covered.covers(key);
            covered.add_row(key, &after, joins, mode, full && new)
        })?;
        owner.set_new_lock(new);
        Ok(true)
    }

    /// Changes the ranges of `owner` in a tree by `add`, which returns whether there was room.
    fn grow(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        ranges: &mut TreeRanges,
        range: KeyRange<'_>,
        add: impl FnOnce(&mut Covered) -> bool,
    ) -> Result<(), Denied> {
        let tree = range.tree;
        if !ranges.pending.is_empty() {
            // The new range may cover a pending request.
            owner.mark_blocking();
            ranges.take_in(owner.txn, range);
        }
        let (_, covered) = ranges.holders.entry(owner.txn).or_insert_with(|| {
            let noted = shared.memory.note(owner, &LockKey::ranges(tree));
            base::check!(noted, "{} locks after its end", owner.txn);
            self.shard(tree).holders.fetch_add(1, Ordering::Release);
            (Arc::clone(owner), Covered::default())
        });
        let before = covered.bytes();
        let added = add(covered);
        // Joining ranges can free more than it takes.
        shared.memory.resize(before, covered.bytes());
        if added && owner.observed_as().is_some() {
            for waiting in ranges.waiting_in(owner.txn, range) {
                shared.waits.tell(waiting, std::iter::once(owner));
            }
        }
        if added { Ok(()) } else { Err(Denied::Full) }
    }

    /// Returns whether another transaction's ranges may lock rows of `range` so that a lock of this
    /// mode has to wait. REQUIRES: a leaf that encloses the range is latched. The answer holds as
    /// long as it is.
    pub(super) fn is_contested(&self, owner: &Owner, range: KeyRange<'_>, mode: Mode) -> bool {
        let shard = self.shard(range.tree);
        if shard.has_no_range() {
            return false;
        }
        let trees = shard.mu.lock();
        let Some(ranges) = trees.get(&range.tree) else { return false };
        let mut others = ranges.holders.values().filter(|(other, _)| other.txn != owner.txn);
        others.any(|(_, covered)| covered.may_block(range.from, range.to, mode))
    }

    /// Returns whether no other transaction's range keeps `owner` from locking the row of `key`.
    pub(super) fn is_outside(&self, owner: &Owner, tree: TreeId, key: &[u8], mode: Mode) -> bool {
        let want = Want { mode, state: KeyState::Row };
        let trees = self.shard(tree).mu.lock();
        trees.get(&tree).is_none_or(|ranges| ranges.blocking(owner.txn, key, want).next().is_none())
    }

    /// Takes the row of `key` out of the ranges of `owner`, if one locks it as a row. Returns
    /// whether one did.
    pub(super) fn cut_row(&self, memory: &LockMemory, owner: &Owner, tree: TreeId, key: &[u8]) -> bool {
        let shard = self.shard(tree);
        if shard.has_no_range() {
            return false;
        }
        let mut woken = WakeList::default();
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return false };
        let Some((_, covered)) = ranges.holders.get_mut(&owner.txn) else { return false };
        let cut = cut_in(memory, covered, key);
        if cut {
            ranges.uncover(owner.txn, &mut woken);
        }
        // The mutex is released before the wake-ups.
        drop(trees);
        cut
    }

    /// Returns the wait of a scan that must let writers of `range` pass; none if it may go on.
    /// While it waits the transaction holds what it held before.
    #[inline]
    pub(super) fn let_writers_pass(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        mode: RangeMode,
        since: &mut ScanStart,
        wait: Wait,
    ) -> Result<Option<Begun>, Denied> {
        if *since == ScanStart::NotStarted {
            *since = match wait {
                Wait::Until(_) => ScanStart::At(self.arrivals.load(Ordering::Acquire)),
                Wait::NoWait | Wait::Skip => ScanStart::NoYield,
            };
            if planted(Bug::ScanPasses) {
                *since = ScanStart::NoYield;
            }
        }
        let none = self.shard(range.tree).pending.load(Ordering::Acquire) == 0;
        if none || range.is_empty() {
            return Ok(None);
        }
        self.wait_for_writers(shared, owner, range, mode, *since, wait)
    }

    fn wait_for_writers(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        mode: RangeMode,
        since: ScanStart,
        wait: Wait,
    ) -> Result<Option<Begun>, Denied> {
        let mut trees = self.shard(range.tree).mu.lock();
        let Some(ranges) = trees.get_mut(&range.tree) else { return Ok(None) };
        let stopping = ranges.stopping(owner.txn, since, range, mode);
        let first = stopping.map(|(_, request)| (request.arrival, Arc::clone(&request.owner)));
        let first: SmallVec<[(u64, Arc<Owner>); 2]> = first.collect();
        let limit = match wait {
            Wait::Until(_) if first.is_empty() => return Ok(None),
            Wait::Until(_) if shared.waits.stopped() => return Err(Denied::Stopped),
            Wait::Until(limit) => limit,
            Wait::NoWait | Wait::Skip => return Ok(None),
        };
        first.iter().for_each(|(_, first)| first.mark_blocking());
        shared.waits.tell(owner, first.iter().map(|(_, first)| first));
        ranges.scans.push(WaitingScan { owner: Arc::clone(owner), first });
        let key = LockKey::scan_wait(range.tree);
        shared.waits.begin(owner, &key);
        Ok(Some(Begun { key, limit }))
    }

    /// Returns what ranges say to `owner`, which wants to change `key`, where now is `change`.
    /// After a wait the caller reads the row again: it does not own the key yet. REQUIRES: the leaf
    /// that covers the key is latched.
    #[inline]
    pub(super) fn ask_to_change(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        change: KeyState,
        wait: Wait,
    ) -> Result<Asked, Denied> {
        let none = self.shard(tree).has_no_range();
        if none || change == KeyState::OwnVersion || planted(Bug::RangesIgnored) {
            return Ok(Asked::Free);
        }
        let want = Want { mode: Mode::Exclusive, state: change };
        self.ask(shared, owner, (tree, key), want, true, wait)
    }

    /// As [`Ranges::ask_to_change`], for a lock in a queue.
    pub(super) fn ask_to_lock(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        tree: TreeId,
        key: &[u8],
        want: Want,
        wait: Wait,
    ) -> Result<Asked, Denied> {
        if self.shard(tree).has_no_range() || planted(Bug::RangesIgnored) {
            return Ok(Asked::Free);
        }
        self.ask(shared, owner, (tree, key), want, false, wait)
    }

    fn ask(
        &self,
        shared: &Shared,
        owner: &Arc<Owner>,
        (tree, key): (TreeId, &[u8]),
        want: Want,
        changes: bool,
        wait: Wait,
    ) -> Result<Asked, Denied> {
        let shard = self.shard(tree);
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return Ok(Asked::Free) };
        let mut blocking = ranges.blocking(owner.txn, key, want);
        let Some(state) = blocking.next().map(|other| PendingState::BlockedBy(other.txn)) else {
            drop(blocking);
            let own = ranges.holders.get(&owner.txn);
            let held = own.is_some_and(|(_, covered)| covered.locks_row(key, want.mode));
            if held && want.state == KeyState::Row {
                return Ok(Asked::Held);
            }
            if changes && want.state == KeyState::NoRow {
                cut_new_row(&shared.memory, owner, ranges, key);
            }
            return Ok(Asked::Free);
        };
        drop(blocking);
        let limit = match wait {
            _ if shared.waits.stopped() => return Err(Denied::Stopped),
            Wait::NoWait => return Err(Denied::Timeout),
            Wait::Skip => return Err(Denied::Skipped),
            Wait::Until(limit) => limit,
        };
        let (kept, name) = (LockKey::ranges(tree), LockKey::pending_write(tree, key));
        ranges.blocking(owner.txn, key, want).for_each(|other| other.mark_blocking_at(&kept));
        if let Some(request) = ranges.pending_of(owner.txn, key) {
            // A scan has passed it. It keeps its time of arrival.
            (request.want, request.stands) = (want, state);
        } else {
            let arrival = self.arrivals.fetch_add(1, Ordering::AcqRel) + 1;
            let request = Pending { owner: Arc::clone(owner), arrival, want, stands: state };
            ranges.pending.entry(key.to_vec()).or_default().push(request);
            base::check!(shared.memory.note(owner, &name), "{} waits after its end", owner.txn);
            shard.pending.fetch_add(1, Ordering::Release);
            shared.memory.take(pending_bytes(key));
        }
        shared.waits.begin(owner, &name);
        shared.waits.tell(owner, ranges.blocking(owner.txn, key, want));
        Ok(Asked::Waits(Begun { key: name, limit }))
    }

    /// Marks the pending request of `key` as taken: the row has a lock of `owner`, or is about to
    /// get a version of it, which stops later scans. REQUIRES: the leaf that covers the key is
    /// latched.
    #[inline]
    pub(super) fn take_pending(&self, owner: &Owner, tree: TreeId, key: &[u8]) {
        let shard = self.shard(tree);
        if shard.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut trees = shard.mu.lock();
        if let Some(request) = trees.get_mut(&tree).and_then(|ranges| ranges.pending_of(owner.txn, key)) {
            request.stands = PendingState::Taken;
        }
    }

    fn shard(&self, tree: TreeId) -> &Shard {
        self.shards.of(u64::from(tree.0))
    }

    /// Returns the transactions for which `owner` waits at `key`, if it still waits.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey) -> Owners {
        let mut trees = self.shard(key.tree()).mu.lock();
        trees.get_mut(&key.tree()).map_or_else(Owners::default, |ranges| ranges.blockers(owner, key))
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

    /// Returns what `look` says of the ranges of a tree; none if it has none.
    pub(super) fn with_tree<R>(&self, tree: TreeId, look: impl FnOnce(&mut TreeRanges) -> R) -> Option<R> {
        self.shard(tree).mu.lock().get_mut(&tree).map(look)
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
                    woken.end_wait(&scan.owner, wait_state::STOPPED);
                }
                for request in ranges.pending.values_mut().flatten() {
                    if matches!(request.stands, PendingState::BlockedBy(_)) {
                        request.stands = PendingState::Taken;
                        woken.end_wait(&request.owner, wait_state::STOPPED);
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
        // Large sets are freed after the mutex.
        let gone: Covered;
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return 0 };
        let freed = if noted.is_pending_write() {
            let freed = ranges.remove_pending(owner.txn, noted.bytes_of_row(), woken);
            shard.pending.fetch_sub(u32::from(freed.is_some()), Ordering::Release);
            freed.unwrap_or(0)
        } else {
            let Some((_, covered)) = ranges.holders.remove(&owner.txn) else { return 0 };
            shard.holders.fetch_sub(1, Ordering::Release);
            ranges.uncover(owner.txn, woken);
            gone = covered;
            gone.bytes()
        };
        if ranges.is_empty() {
            trees.remove(&tree);
        }
        freed
    }
}

/// Takes the row of `key` out of ranges of an owner. Returns whether one locked it as a row.
fn cut_in(memory: &LockMemory, covered: &mut Covered, key: &[u8]) -> bool {
    let before = covered.bytes();
    let cut = covered.cut_row(key, &[key, &[0]].concat());
    memory.resize(before, covered.bytes());
    cut
}

/// Takes a key that gets a row of `owner` out of the ranges in which other transactions have locked
/// the rows that there were. Where locks take all the memory that they may, the key stays in the
/// ranges: the new row is locked with the others.
fn cut_new_row(memory: &LockMemory, owner: &Owner, ranges: &mut TreeRanges, key: &[u8]) {
    for (other, covered) in ranges.holders.values_mut() {
        if other.txn != owner.txn && covered.covers(key) && !memory.is_full() {
            cut_in(memory, covered, key);
        }
    }
}
