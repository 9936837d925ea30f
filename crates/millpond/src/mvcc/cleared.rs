//! Cleared ranges: ranges of keys in which every row is a delete mark that newer readers see. A
//! scan goes past such a range in one step.
//!
//! A snapshot that is held keeps delete marks. In a queue, where rows are removed at one end and
//! added at the other, the marks pile up in front of the live rows, and each scan would look at all
//! of them. So a scan that has passed a few marks notes the range that they fill, with an LSN:
//! readers that see all commits below the LSN see the range as empty. The next such reader goes on
//! after the range.
//!
//! **The latch rule.** A range is noted under the latch of a leaf that encloses it, after its rows
//! were judged under that latch. A writer that makes a row in it takes the key out of the range,
//! under the exclusive latch of the row's leaf, before the page shows the row. So a range that a
//! scan finds is cleared at that time. A row that is added later commits later, and no snapshot
//! that has been drawn sees it. Ranges name keys and not pages, so splits, merges and purge do not
//! concern them. A forgotten range costs time and nothing else.
//!
//! Neighbouring ranges become one when no held snapshot tells them apart. So there are few more
//! ranges than snapshots.

use base::sharded::shards;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Lsn, Sharded, TreeId};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// A range with fewer marks than this is not worth a note.
pub(crate) const MARKS_LEAST: u32 = 4;
/// A tree with more ranges than this tries to join them.
const FEW: usize = 8;
/// The most ranges of a tree.
const RANGES_MAX: usize = 128;
/// About the most memory of all ranges, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// A range of keys that was found cleared. The map's key is its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClearedRange {
    /// Exclusive.
    end: Vec<u8>,
    /// A reader that sees all commits below it sees that the rows are gone.
    since: Lsn,
    /// The greatest commit of a mark that may not be durable yet.
    newest: Option<Lsn>,
    /// About how many marks it has.
    marks: u32,
}

/// A range that a scan notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClearedNote<'k> {
    pub(crate) from: &'k [u8],
    /// Exclusive.
    pub(crate) to: &'k [u8],
    /// A reader that sees all commits below it sees the marks.
    pub(crate) since: Lsn,
    /// The greatest commit of a mark that may not be durable yet.
    pub(crate) newest: Option<Lsn>,
    pub(crate) marks: u32,
}

/// The ranges of one tree; none overlaps another.
#[derive(Debug, Default)]
struct TreeRanges {
    ranges: BTreeMap<Vec<u8>, ClearedRange>,
    /// With more ranges than this, the tree tries to join them.
    join_above: usize,
}

/// The ranges of all trees.
#[derive(Debug, Default)]
pub(crate) struct ClearedRanges {
    shards: Sharded<Shard, { shards(16) }>,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    /// The number of ranges. Changed under `mu`; read without it under the latch that covers the
    /// key in question.
    ranges: AtomicU64,
    mu: Mutex<BTreeMap<TreeId, TreeRanges>>,
}

fn bytes_of(from: &[u8], range: &ClearedRange) -> u64 {
    (from.len() + range.end.len() + size_of::<(Vec<u8>, ClearedRange)>()) as u64
}

impl TreeRanges {
    /// Returns the range that contains `key`.
    fn at(&self, key: &[u8]) -> Option<(&Vec<u8>, &ClearedRange)> {
        let before = self.ranges.range::<[u8], _>((Unbounded, Included(key))).next_back();
        before.filter(|(_, range)| key < &range.end[..])
    }

    /// Returns where a reader goes on instead of at `from`, if it sees the commits below `sees`.
    /// Also returns the newest commit that it is shown by that.
    fn skip_to(&self, from: &[u8], sees: Lsn) -> Option<(Vec<u8>, Option<Lsn>)> {
        let (_, first) = self.at(from).filter(|(_, range)| range.since <= sees)?;
        let (mut end, mut newest) = (&first.end, first.newest);
        while let Some(next) = self.ranges.get(end).filter(|range| range.since <= sees) {
            newest = newest.max(next.newest);
            end = &next.end;
        }
        Some((end.clone(), newest))
    }

    /// The same for a reader that goes backward from `to`, exclusive.
    fn before(&self, to: &[u8], sees: Lsn) -> Option<(Vec<u8>, Option<Lsn>)> {
        let mut all = self.ranges.range::<[u8], _>((Unbounded, Excluded(to))).rev();
        let (mut start, first) =
            all.next().filter(|(_, range)| to <= &range.end[..] && range.since <= sees)?;
        let mut newest = first.newest;
        for (from, range) in all.take_while(|(_, range)| range.since <= sees) {
            if range.end != *start {
                break;
            }
            newest = newest.max(range.newest);
            start = from;
        }
        Some((start.clone(), newest))
    }

    /// Adds the keys that no range covers yet.
    fn add(&mut self, note: ClearedNote<'_>) {
        let mut from = match self.at(note.from) {
            Some((_, range)) => range.end.clone(),
            None => note.from.to_vec(),
        };
        while &from[..] < note.to {
            let next = self.ranges.range::<[u8], _>((Included(&from[..]), Excluded(note.to))).next();
            let (end, then) = match next {
                Some((start, range)) => (start.clone(), range.end.clone()),
                None => (note.to.to_vec(), note.to.to_vec()),
            };
            if from < end {
                let ClearedNote { since, newest, marks, .. } = note;
                self.ranges.insert(from, ClearedRange { end, since, newest, marks });
            }
            from = then;
        }
    }

    /// Joins neighbouring ranges that touch, unless `apart` tells them apart. If there are still
    /// too many, joins any that touch, and drops those with the fewest marks.
    fn join(&mut self, apart: impl Fn(Lsn, Lsn) -> bool) {
        for forced in [false, true] {
            let mut joined: Vec<(Vec<u8>, ClearedRange)> = Vec::with_capacity(self.ranges.len());
            for (from, range) in std::mem::take(&mut self.ranges) {
                match joined.last_mut() {
                    Some((_, last)) if last.end == from && (forced || !apart(last.since, range.since)) => {
                        *last = ClearedRange {
                            end: range.end,
                            since: last.since.max(range.since),
                            newest: last.newest.max(range.newest),
                            marks: last.marks.saturating_add(range.marks),
                        };
                    }
                    _ => joined.push((from, range)),
                }
            }
            if forced && joined.len() > RANGES_MAX / 2 {
                joined.sort_by_key(|(_, range)| std::cmp::Reverse(range.marks));
                joined.truncate(RANGES_MAX / 2);
            }
            self.ranges = joined.into_iter().collect();
            if self.ranges.len() <= RANGES_MAX {
                break;
            }
        }
        self.join_above = (2 * self.ranges.len()).max(FEW);
    }

    /// Takes `key` out of its range. A part that remains on either side goes too if it is short.
    fn cut(&mut self, key: &[u8]) {
        let Some(start) = self.at(key).map(|(start, _)| start.clone()) else { return };
        let range = self.ranges.remove(&start).expect("it was just seen");
        let marks = range.marks / 2;
        if marks < MARKS_LEAST {
            return;
        }
        let after = [key, &[0]].concat();
        if after < range.end {
            self.ranges.insert(after, ClearedRange { marks, ..range.clone() });
        }
        if &start[..] < key {
            self.ranges.insert(start, ClearedRange { end: key.to_vec(), marks, ..range });
        }
    }

    /// Whether each range has keys and ends before the next begins.
    fn is_in_order(&self) -> bool {
        let ends = self.ranges.iter().map(|(from, range)| (from, &range.end));
        ends.clone().all(|(from, end)| from < end)
            && ends.clone().zip(ends.skip(1)).all(|((_, end), (next, _))| end <= next)
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(from, range)| bytes_of(from, range)).sum()
    }
}

impl ClearedRanges {
    fn shard(&self, tree: TreeId) -> &Shard {
        self.shards.of(u64::from(tree.0))
    }

    /// Returns whether the tree may have ranges.
    #[inline]
    pub(crate) fn any(&self, tree: TreeId) -> bool {
        self.shard(tree).ranges.load(Ordering::Acquire) > 0
    }

    /// Returns whether no tree has ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.ranges.load(Ordering::Acquire) == 0)
    }

    /// Returns where a scan goes on that would begin at `from` and sees all commits below `sees`,
    /// if it has a range to go past. Also returns the newest commit of that range that may not be
    /// durable.
    pub(crate) fn skip_to(&self, tree: TreeId, from: &[u8], sees: Lsn) -> Option<(Vec<u8>, Option<Lsn>)> {
        self.any(tree).then(|| self.shard(tree).mu.lock().get(&tree)?.skip_to(from, sees)).flatten()
    }

    /// The same for a backward scan: returns the end, exclusive, of what is left to read below
    /// `to`.
    pub(crate) fn before(&self, tree: TreeId, to: &[u8], sees: Lsn) -> Option<(Vec<u8>, Option<Lsn>)> {
        self.any(tree).then(|| self.shard(tree).mu.lock().get(&tree)?.before(to, sees)).flatten()
    }

    /// Changes the ranges of a tree.
    fn change(&self, tree: TreeId, change: impl FnOnce(&mut TreeRanges)) {
        let shard = self.shard(tree);
        let mut trees = shard.mu.lock();
        let set = trees.entry(tree).or_default();
        let (ranges, bytes) = (set.ranges.len() as u64, set.bytes());
        change(set);
        base::verify!(set.is_in_order(), "the cleared ranges of {tree:?} overlap");
        let (now, now_bytes) = (set.ranges.len() as u64, set.bytes());
        if now == 0 {
            trees.remove(&tree);
        }
        let all = shard.ranges.fetch_add(now.wrapping_sub(ranges), Ordering::AcqRel);
        base::check!(all >= ranges, "{ranges} cleared ranges of {tree:?}, and {all} of all trees");
        let all_bytes = self.bytes.fetch_add(now_bytes.wrapping_sub(bytes), Ordering::Relaxed);
        base::check!(all_bytes >= bytes, "cleared ranges of {bytes} bytes, and {all_bytes} of all trees");
    }

    /// Notes that a range is cleared. `cuts` returns the snapshots that are held, ascending, and an
    /// LSN at or above which one may be that is being drawn. REQUIRES: one leaf encloses the range
    /// and has been latched since its rows were judged; each row was a committed delete mark.
    pub(crate) fn note(&self, tree: TreeId, note: ClearedNote<'_>, cuts: impl FnOnce() -> (Vec<Lsn>, Lsn)) {
        if note.from >= note.to || self.bytes.load(Ordering::Relaxed) > BYTES_MAX {
            return;
        }
        self.change(tree, |set| {
            set.add(note);
            if set.ranges.len() > set.join_above.max(FEW) {
                let (cuts, below) = cuts();
                // A snapshot sees a range as cleared if its LSN is at or above `since`.
                set.join(|one, other| {
                    let (low, high) = (one.min(other), one.max(other));
                    high > below
                        || cuts.partition_point(|cut| *cut < low) < cuts.partition_point(|cut| *cut < high)
                });
            }
        });
    }

    /// Takes out `key`, where a row is about to be made. REQUIRES: the leaf that covers the key is
    /// latched exclusively.
    #[inline]
    pub(crate) fn cut(&self, tree: TreeId, key: &[u8]) {
        if self.any(tree) {
            self.change(tree, |set| set.cut(key));
        }
    }

    /// Forgets a tree that has been dropped.
    pub(crate) fn forget(&self, tree: TreeId) {
        if self.any(tree) {
            self.change(tree, |set| set.ranges.clear());
        }
    }

    /// Forgets ranges whose marks are all purged: those whose `since` is at or below `purged`.
    pub(crate) fn forget_below(&self, purged: Lsn) {
        for shard in self.shards.iter().filter(|shard| shard.ranges.load(Ordering::Acquire) > 0) {
            let trees: Vec<TreeId> = shard.mu.lock().keys().copied().collect();
            for tree in trees {
                self.change(tree, |set| set.ranges.retain(|_, range| range.since > purged));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TREE: TreeId = TreeId(1);
    const KEYS: u8 = 40;

    #[derive(Clone, Debug)]
    enum Do {
        Note(u8, u8, u64),
        Cut(u8),
        Ask(u8, u64),
    }

    fn step() -> impl Strategy<Value = Do> {
        prop_oneof![
            4 => (0..KEYS, 0..KEYS, 1..60u64).prop_map(|(a, b, since)| Do::Note(a, b, since)),
            2 => (0..KEYS).prop_map(Do::Cut),
            4 => (0..KEYS, 0..60u64).prop_map(|(key, sees)| Do::Ask(key, sees)),
        ]
    }

    proptest! {
        /// A scan goes past only keys that were noted as cleared for its snapshot and were not
        /// taken out since, whatever ranges become one.
        #[test]
        fn no_scan_goes_past_keys_that_are_not_cleared_for_it(
            steps in prop::collection::vec(step(), 1..80),
            cuts in prop::collection::btree_set(1..60u64, 0..4),
        ) {
            let cuts: Vec<Lsn> = cuts.into_iter().map(Lsn).collect();
            let cleared = ClearedRanges::default();
            // By key: the least LSN with which the key was noted.
            let mut truth = [None::<u64>; KEYS as usize];
            for step in steps {
                match step {
                    Do::Note(from, to, since) => {
                        let (start, end, since_lsn) = ([from], [to], Lsn(since));
                        let note =
                            ClearedNote { from: &start, to: &end, since: since_lsn, newest: None, marks: 64 };
                        cleared.note(TREE, note, || (cuts.clone(), Lsn(60)));
                        for key in from..to.max(from) {
                            let known = &mut truth[usize::from(key)];
                            *known = Some(known.map_or(since, |known| known.min(since)));
                        }
                    }
                    Do::Cut(key) => {
                        cleared.cut(TREE, &[key]);
                        truth[usize::from(key)] = None;
                    }
                    Do::Ask(key, sees) => {
                        let gone = |key: u8| truth[usize::from(key)].is_some_and(|since| since <= sees);
                        if let Some((end, _)) = cleared.skip_to(TREE, &[key], Lsn(sees)) {
                            prop_assert!(end > vec![key]);
                            prop_assert!((key..=KEYS).take_while(|k| vec![*k] < end).all(gone));
                        }
                        if let Some((start, _)) = cleared.before(TREE, &[key], Lsn(sees)) {
                            prop_assert!(start < vec![key]);
                            prop_assert!((0..key).filter(|k| vec![*k] >= start).all(gone));
                        }
                    }
                }
            }
            cleared.forget(TREE);
            prop_assert_eq!((cleared.any(TREE), cleared.bytes.load(Ordering::Relaxed)), (false, 0));
        }
    }

    #[test]
    fn a_queue_has_one_range_for_each_snapshot() {
        let cleared = ClearedRanges::default();
        let cuts = [Lsn(5_000), Lsn(70_000)];
        for n in 0..100_000u32 {
            let (from, to) = (n.to_be_bytes(), (n + 1).to_be_bytes());
            let note = ClearedNote {
                from: &from,
                to: &to,
                since: Lsn(n.into()),
                newest: Some(Lsn(n.into())),
                marks: 4,
            };
            cleared.note(TREE, note, || (cuts.to_vec(), Lsn(n.into())));
        }
        let ranges = cleared.shard(TREE).ranges.load(Ordering::Relaxed);
        assert!(ranges < 16, "{ranges} ranges");
        let skipped = |sees| cleared.skip_to(TREE, &[0; 4], Lsn(sees)).unwrap();
        assert_eq!(skipped(200_000), (100_000u32.to_be_bytes().to_vec(), Some(Lsn(99_999))));
        assert_eq!(skipped(5_000).0, 5_001u32.to_be_bytes());
        assert_eq!(skipped(70_000).0, 70_001u32.to_be_bytes());
        assert_eq!(cleared.before(TREE, &100_000u32.to_be_bytes(), Lsn(200_000)).unwrap().0, [0; 4]);
        cleared.forget_below(Lsn(69_999));
        assert_eq!((cleared.skip_to(TREE, &[0; 4], Lsn(200_000)), cleared.any(TREE)), (None, true));
    }

    #[test]
    fn of_too_many_ranges_that_do_not_touch_the_larger_ones_stay() {
        let cleared = ClearedRanges::default();
        for n in 0..1000u32 {
            let (from, to) = ((2 * n).to_be_bytes(), (2 * n + 1).to_be_bytes());
            let note = ClearedNote { from: &from, to: &to, since: Lsn(1), newest: None, marks: 4 + n };
            cleared.note(TREE, note, || (vec![], Lsn(9)));
        }
        assert!(cleared.shard(TREE).ranges.load(Ordering::Relaxed) <= 2 * RANGES_MAX as u64);
        assert!(cleared.skip_to(TREE, &1998u32.to_be_bytes(), Lsn(9)).is_some());
    }
}
