//! Ranges of keys that transactions keep as they are, shared: what a serializable scan has read, rows and gaps alike (Lk3).
//!
//! Who wants to change or exclusively lock a key waits until no other transaction's range covers it, and then looks at the
//! row again. The place where he waits is a *want*: his key, and when he came.
//!
//! **Who came first goes first.** A scan that begins lets all go first who wait for a key of its range by then, and holds nothing
//! of the range meanwhile ([`LockTable::let_go_first`]). It passes whoever begins to wait later; so neither side waits for more than those of the
//! other that came before. When nobody covers a want any more it is *granted*: no scan covers its key, whenever it began, until the
//! writer has taken the row, whose version or queue then speaks for him. A key that a scan's own transaction
//! covers already stops it nowhere. None of this decides what is right: a writer asks again under the latch whether his key
//! is covered. So a scan may pass a want when all would wait in a circle otherwise, and nobody gives way.
//!
//! **The latch rule.** A range is added under the latch of a leaf whose fences enclose it, after its rows have been looked at
//! under the same latch; a key is asked for under the exclusive latch of the leaf that covers it, before it is changed. So
//! either the reader has seen the change or the writer sees the range, and an empty shard may be recognised by one atomic
//! load. Ranges name keys and not pages: neither splits nor merges nor purge concern them.
//!
//! **Deadlocks.** A waiting writer waits for every transaction whose range covers its key. A range that comes later adds to
//! these, but who adds one is not waiting, and is awaited from then on. A scan waits for those whose wants it lets go
//! first, until their ends, though their rows would be free before: it would most likely wait for them next, with half of its
//! range held.

use super::key::LockKey;
use super::owner::Woken;
use super::queue::Owners;
use super::range::{RangeSet, heap_bytes};
use super::ticket::{self, Ticket, Turn};
use super::{Denied, Enqueued, LockTable, Owner, Wait};
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{TreeId, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The ranges of a few trees.
#[derive(Debug, Default)]
struct Shard {
    /// How many transactions have ranges here, counted once a tree. Changed under `mu`; read without it under the latch that
    /// covers the key in question.
    holders: AtomicU32,
    /// How many keys are wanted here. The same.
    wants: AtomicU32,
    mu: Mutex<BTreeMap<TreeId, TreeRanges>>,
}

#[derive(Debug)]
pub(super) struct Ranges {
    shards: Box<[Shard]>,
    /// Counts those who have begun to wait for ranges.
    turns: AtomicU64,
}

/// Keys of a tree that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    pub(crate) tree: TreeId,
    pub(crate) from: &'a [u8],
    /// The first key beyond. None: to the tree's end.
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

/// When a scan began, among those who wait for ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Since {
    /// It has not.
    #[default]
    Unbegun,
    /// It lets those go first who had waited by then.
    Turn(u64),
    /// It lets nobody go first: it does not wait, or has waited for its turn for as long as it may.
    Nobody,
}

/// How a want stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// Its key is covered, by this transaction among others.
    Behind(TxnId),
    /// Nobody covers its key.
    Granted,
    /// The writer has the row, which says so itself.
    Taken,
}

#[derive(Debug)]
struct Want {
    owner: Arc<Owner>,
    turn: u64,
    stands: Stands,
}

impl Want {
    /// Whether a scan of `txn` must let it go first.
    fn stops(&self, txn: TxnId, since: Since) -> bool {
        let first = match since {
            Since::Turn(turn) => match self.stands {
                Stands::Behind(_) => self.turn <= turn,
                Stands::Granted => true,
                Stands::Taken => false,
            },
            Since::Unbegun | Since::Nobody => false,
        };
        first && self.owner.txn != txn
    }
}

/// A scan that lets others go first, until they have ended or wait no more.
#[derive(Debug)]
struct Gate {
    owner: Arc<Owner>,
    /// Their wants, by turn.
    first: SmallVec<[(u64, Arc<Owner>); 2]>,
}

#[derive(Debug, Default)]
struct TreeRanges {
    /// By transaction, so that who wakes whom in which order repeats.
    holders: BTreeMap<TxnId, (Arc<Owner>, RangeSet)>,
    /// By key, those of a key in order of arrival.
    wants: BTreeMap<Vec<u8>, Vec<Want>>,
    /// In order of arrival.
    gates: Vec<Gate>,
}

impl TreeRanges {
    /// Others than `txn` whose ranges cover `key`.
    fn covering(&self, txn: TxnId, key: &[u8]) -> impl Iterator<Item = &Arc<Owner>> {
        let covers = move |(owner, set): &&(Arc<Owner>, RangeSet)| owner.txn != txn && set.covers(key);
        self.holders.values().filter(covers).map(|(owner, _)| owner)
    }

    /// The wants in `range` that a scan must let go first, in order of their keys. REQUIRES: `range` is not empty.
    fn stopping(
        &self,
        txn: TxnId,
        since: Since,
        range: KeyRange<'_>,
    ) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Want)> {
        let own = self.holders.get(&txn).map(|(_, set)| set);
        let end = range.to.map_or(Unbounded, Excluded);
        self.wants
            .range::<[u8], _>((Included(range.from), end))
            .filter(move |(key, _)| own.is_none_or(|set| !set.covers(key)))
            .flat_map(|(key, wants)| wants.iter().map(move |want| (key, want)))
            .filter(move |(_, want)| want.stops(txn, since))
    }

    fn want_of(&mut self, txn: TxnId, key: &[u8]) -> Option<&mut Want> {
        self.wants.get_mut(key)?.iter_mut().find(|want| want.owner.txn == txn)
    }

    /// Takes a want out, and wakes the scans that waited for nobody else. Returns the bytes freed; none if there is none.
    fn forget_want(&mut self, txn: TxnId, key: &[u8], woken: &mut Woken) -> Option<usize> {
        let wants = self.wants.get_mut(key)?;
        let gone = wants.remove(wants.iter().position(|want| want.owner.txn == txn)?);
        if wants.is_empty() {
            self.wants.remove(key);
        }
        self.gates.retain_mut(|gate| {
            gate.first.retain(|(turn, _)| *turn != gone.turn);
            if gate.first.is_empty() {
                woken.end_wait(&gate.owner, ticket::GRANTED);
            }
            !gate.first.is_empty()
        });
        Some(want_bytes(key))
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.wants.is_empty()
    }
}

/// Memory that a want takes, in bytes.
fn want_bytes(key: &[u8]) -> usize {
    size_of::<Want>() + size_of::<Vec<u8>>() + heap_bytes(key.len())
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges { shards: (0..SHARDS).map(|_| Shard::default()).collect(), turns: AtomicU64::new(0) }
    }
}

impl Ranges {
    fn shard(&self, tree: TreeId) -> &Shard {
        &self.shards[tree.0 as usize % SHARDS]
    }

    /// For whom `owner` waits at `key`, if it still does.
    pub(super) fn blockers(&self, owner: &Owner, key: &LockKey) -> Owners {
        let mut trees = self.shard(key.tree()).mu.lock();
        let Some(ranges) = trees.get_mut(&key.tree()) else { return Owners::default() };
        if key.is_gate() {
            let gate = ranges.gates.iter().find(|gate| gate.owner.txn == owner.txn);
            return gate
                .into_iter()
                .flat_map(|gate| &gate.first)
                .map(|(_, first)| Arc::clone(first))
                .collect();
        }
        match ranges.want_of(owner.txn, key.bytes_of_row()) {
            Some(Want { stands: Stands::Behind(_), .. }) => {
                ranges.covering(owner.txn, key.bytes_of_row()).cloned().collect()
            }
            _ => Owners::default(),
        }
    }

    /// Takes a waiting transaction out and tells it why. Returns the bytes freed; none if it waits no longer.
    pub(super) fn withdraw(
        &self,
        owner: &Arc<Owner>,
        key: &LockKey,
        why: u32,
        woken: &mut Woken,
    ) -> Option<usize> {
        let shard = self.shard(key.tree());
        let mut trees = shard.mu.lock();
        let ranges = trees.get_mut(&key.tree())?;
        if key.is_gate() {
            let at = ranges.gates.iter().position(|gate| gate.owner.txn == owner.txn)?;
            woken.end_wait(&ranges.gates.remove(at).owner, why);
            return Some(0);
        }
        let row = key.bytes_of_row();
        let waits = matches!(ranges.want_of(owner.txn, row)?.stands, Stands::Behind(_));
        if !waits {
            return None;
        }
        woken.end_wait(owner, why);
        shard.wants.fetch_sub(1, Ordering::Release);
        ranges.forget_want(owner.txn, row, woken)
    }

    /// How many there are.
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
        for shard in &self.shards {
            let mut woken = Woken::default();
            for ranges in shard.mu.lock().values_mut() {
                for gate in ranges.gates.drain(..) {
                    woken.end_wait(&gate.owner, ticket::STOPPED);
                }
                for want in ranges.wants.values_mut().flatten() {
                    if matches!(want.stands, Stands::Behind(_)) {
                        want.stands = Stands::Taken;
                        woken.end_wait(&want.owner, ticket::STOPPED);
                    }
                }
            }
        }
    }

    /// Takes away what `owner` noted of a tree, its ranges or a want, and wakes whom nobody else keeps waiting. Returns the
    /// bytes freed.
    pub(super) fn release(&self, owner: &Owner, noted: &LockKey, woken: &mut Woken) -> usize {
        let tree = noted.tree();
        let shard = self.shard(tree);
        // What is many is freed after the mutex.
        let gone: RangeSet;
        let mut trees = shard.mu.lock();
        let Some(ranges) = trees.get_mut(&tree) else { return 0 };
        let freed = if noted.is_wanted() {
            let freed = ranges.forget_want(owner.txn, noted.bytes_of_row(), woken);
            shard.wants.fetch_sub(u32::from(freed.is_some()), Ordering::Release);
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
    /// After the ranges `gone` of `txn` have gone: grants the wants that nobody else covers.
    fn uncover(&mut self, txn: TxnId, gone: &RangeSet, woken: &mut Woken) {
        let holders = &self.holders;
        for (key, wants) in &mut self.wants {
            if !gone.covers(key) {
                continue;
            }
            for want in wants.iter_mut().filter(|want| want.stands == Stands::Behind(txn)) {
                let other = holders.values().find(|(o, set)| o.txn != want.owner.txn && set.covers(key));
                if let Some((other, _)) = other {
                    want.stands = Stands::Behind(other.txn);
                } else {
                    want.stands = Stands::Granted;
                    woken.end_wait(&want.owner, ticket::GRANTED);
                }
            }
        }
    }
}

impl LockTable {
    /// Before a scan covers what it has read: keeps the keys of `range` as `owner` has seen them, rows and gaps, until
    /// it ends. Where somebody in between must go first it keeps what lies before his key, in the direction of the scan, and returns the
    /// key. Full: nothing is kept. REQUIRES: one leaf encloses the keys and has been latched since its rows were looked at; none of them was another
    /// transaction's uncommitted version or exclusively locked.
    pub(crate) fn cover(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: Since,
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
        if !ranges.wants.is_empty() {
            // It may come to cover what somebody wants who waits.
            owner.becomes_awaited();
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

    /// Whether a scan of `range` must let others go first: then it waits as a transaction that holds what it held before. None: it goes on.
    #[inline]
    pub(crate) fn let_go_first(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: &mut Since,
        wait: Wait,
    ) -> Result<Option<Gated<'_>>, Denied> {
        if *since == Since::Unbegun {
            *since = match wait {
                Wait::Until(_) => Since::Turn(self.ranges.turns.load(Ordering::Acquire)),
                Wait::NoWait | Wait::Skip => Since::Nobody,
            };
            if planted(Bug::ScanPasses) {
                *since = Since::Nobody;
            }
        }
        let none = self.ranges.shard(range.tree).wants.load(Ordering::Acquire) == 0;
        if none || range.is_empty() {
            return Ok(None);
        }
        self.wait_at_gate(owner, range, *since, wait)
    }

    fn wait_at_gate(
        &self,
        owner: &Arc<Owner>,
        range: KeyRange<'_>,
        since: Since,
        wait: Wait,
    ) -> Result<Option<Gated<'_>>, Denied> {
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
        first.iter().for_each(|(_, first)| first.becomes_awaited());
        ranges.gates.push(Gate { owner: Arc::clone(owner), first });
        let key = LockKey::gate(range.tree);
        owner.begin_wait(&key, ticket::WAITING);
        self.count_wait();
        Ok(Some(Gated(Ticket::new(self, Arc::clone(owner), key, limit))))
    }

    /// Whether no other transaction's range covers `key`. After a wait the caller looks at the row again: `Waiting` never
    /// means that the key is the caller's. REQUIRES: the leaf that covers the key is latched.
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
        let Some(behind) = ranges.covering(owner.txn, key).next().map(|other| Stands::Behind(other.txn))
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
        ranges.covering(owner.txn, key).for_each(|other| other.becomes_awaited_at(&kept));
        let name = LockKey::wanted(tree, key);
        if let Some(want) = ranges.want_of(owner.txn, key) {
            // A scan has passed it. It keeps its turn.
            want.stands = behind;
        } else {
            let turn = self.ranges.turns.fetch_add(1, Ordering::AcqRel) + 1;
            let want = Want { owner: Arc::clone(owner), turn, stands: behind };
            ranges.wants.entry(key.to_vec()).or_default().push(want);
            base::check!(self.note(owner, &name), "{} waits after its end", owner.txn);
            shard.wants.fetch_add(1, Ordering::Release);
            self.bytes.fetch_add(want_bytes(key) as u64, Ordering::Relaxed);
        }
        owner.begin_wait(&name, ticket::WAITING);
        self.count_wait();
        Ok(Enqueued::Waiting(Ticket::new(self, Arc::clone(owner), name, limit)))
    }

    /// The row of `key` is about to get a version of `owner`'s, which stops scans from then on. REQUIRES: the leaf that covers
    /// the key is latched exclusively.
    #[inline]
    pub(super) fn take_wanted(&self, owner: &Owner, tree: TreeId, key: &[u8]) {
        let shard = self.ranges.shard(tree);
        if shard.wants.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut trees = shard.mu.lock();
        if let Some(want) = trees.get_mut(&tree).and_then(|ranges| ranges.want_of(owner.txn, key)) {
            want.stands = Stands::Taken;
        }
    }
}

/// A scan that lets others go first.
#[derive(Debug)]
#[must_use]
pub(crate) struct Gated<'t>(Ticket<'t>);

impl<'t> Gated<'t> {
    /// Waits. A scan whose time is over goes on as well, and lets nobody go first from then on. REQUIRES: no latch is held.
    pub(crate) fn wait(self, since: &mut Since) -> Result<(), Denied> {
        match self.0.wait_for_turn() {
            Ok(Turn::Come) => {}
            Ok(Turn::Passed) | Err(Denied::Timeout | Denied::Skipped) => *since = Since::Nobody,
            Err(why @ (Denied::Stopped | Denied::Deadlock | Denied::Full)) => return Err(why),
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn into_ticket(self) -> Ticket<'t> {
        self.0
    }
}
