//! Frames ordered by an LSN, roughly: in buckets of the LSN scale, without order within a bucket,
//! as in a calendar queue (R. Brown, Communications of the ACM 31, 1988).
//!
//! A set that is ordered throughout costs a search for each frame that enters and each that leaves.
//! Here both take a step: a frame is added at the end of its bucket, and where it left, the last
//! one takes its place. Nobody needs the order within a bucket, for the checkpoint asks only for
//! the least LSN of all, and a batch takes the oldest buckets whole.

use base::Lsn;
use std::collections::VecDeque;

/// A frame and its LSN.
pub(super) type Entry = (Lsn, u32);

/// Empty buckets whose memory is kept for new ones.
const SPARE: usize = 16;

/// The frames. The caller keeps for each of them the position that [`LsnBuckets::insert`] returned.
#[derive(Debug)]
pub(super) struct LsnBuckets {
    /// A bucket is `1 << shift` bytes of the log wide.
    shift: u32,
    /// The number of the first bucket. It is not empty, if there are any.
    first: u64,
    buckets: VecDeque<Vec<Entry>>,
    len: usize,
    spare: Vec<Vec<Entry>>,
    /// How often the width has changed.
    widths: u32,
}

/// How far a list of all entries has come. It begins as the default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListPosition {
    widths: u32,
    bucket: u64,
    /// So many entries of the bucket are not listed yet; `None` if none of it is.
    left: Option<usize>,
}

impl LsnBuckets {
    pub(super) fn new(shift: u32) -> LsnBuckets {
        let (buckets, spare) = (VecDeque::new(), Vec::new());
        LsnBuckets { shift, first: 0, buckets, len: 0, spare, widths: 0 }
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a frame. Returns its position.
    pub(super) fn insert(&mut self, lsn: Lsn, frame: u32) -> u32 {
        let bucket = lsn.0 >> self.shift;
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        while bucket < self.first {
            self.first -= 1;
            self.buckets.push_front(Vec::new());
        }
        let index = (bucket - self.first) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize_with(index + 1, Vec::new);
        }
        let entries = &mut self.buckets[index];
        if entries.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *entries = spare;
        }
        entries.push((lsn, frame));
        self.len += 1;
        entries.len() as u32 - 1
    }

    /// Removes a frame from its position. If another frame has that position now, returns it.
    pub(super) fn remove(&mut self, lsn: Lsn, frame: u32, position: u32) -> Option<u32> {
        let bucket = (lsn.0 >> self.shift).checked_sub(self.first);
        let entries = bucket.and_then(|bucket| self.buckets.get_mut(bucket as usize));
        let found = entries.filter(|entries| entries.get(position as usize) == Some(&(lsn, frame)));
        let entries = found.expect("a dirty frame is in its position");
        entries.swap_remove(position as usize);
        let moved = entries.get(position as usize).map(|&(_, frame)| frame);
        self.len -= 1;
        while self.buckets.front().is_some_and(Vec::is_empty) {
            let empty = self.buckets.pop_front().unwrap_or_default();
            if empty.capacity() > 0 && self.spare.len() < SPARE {
                self.spare.push(empty);
            }
            self.first += 1;
        }
        moved
    }

    /// Returns the least LSN.
    pub(super) fn min(&self) -> Option<Lsn> {
        self.buckets.front()?.iter().map(|&(lsn, _)| lsn).min()
    }

    /// Returns each bucket: the LSN where it ends, and its entries in any order.
    pub(super) fn each(&self) -> impl Iterator<Item = (Lsn, &[Entry])> {
        let end = |n: usize| Lsn((self.first + n as u64 + 1) << self.shift);
        self.buckets.iter().enumerate().map(move |(n, entries)| (end(n), entries.as_slice()))
    }

    /// Makes the buckets `1 << shift` bytes wide. Tells the new position of each frame.
    pub(super) fn set_shift(&mut self, shift: u32, mut tell: impl FnMut(u32, u32)) {
        if self.shift == shift {
            return;
        }
        let before = std::mem::replace(self, LsnBuckets::new(shift));
        self.widths = before.widths + 1;
        for (lsn, frame) in before.buckets.into_iter().flatten() {
            tell(frame, self.insert(lsn, frame));
        }
    }

    /// Shows the next entries below `lsn`, `most` at most, and returns whether there may be more.
    /// Entries may come and go between two calls. All are shown that are there from the first call
    /// to the last, and some twice.
    pub(super) fn list(
        &self,
        lsn: Lsn,
        at: &mut ListPosition,
        most: usize,
        mut show: impl FnMut(Entry),
    ) -> bool {
        if at.widths != self.widths {
            *at = ListPosition { widths: self.widths, ..ListPosition::default() };
        }
        let mut shown = 0;
        if at.bucket < self.first {
            // The bucket has become empty since: nothing of the next one is listed yet.
            at.left = None;
        }
        at.bucket = at.bucket.max(self.first);
        while at.bucket << self.shift < lsn.0
            && let Some(entries) = self.buckets.get((at.bucket - self.first) as usize)
        {
            // From the end: a frame that leaves gives its position to the last one, which was
            // shown, or everything above was.
            let left = at.left.unwrap_or(usize::MAX).min(entries.len());
            for n in (0..left).rev() {
                if shown == most {
                    at.left = Some(n + 1);
                    return true;
                }
                if entries[n].0 < lsn {
                    show(entries[n]);
                    shown += 1;
                }
            }
            (at.bucket, at.left) = (at.bucket + 1, None);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeMap;

    /// Buckets with the positions of its frames, and the truth.
    struct Checked {
        buckets: LsnBuckets,
        positions: BTreeMap<u32, (Lsn, u32)>,
    }

    impl Checked {
        fn new() -> Checked {
            Checked { buckets: LsnBuckets::new(4), positions: BTreeMap::new() }
        }

        fn insert(&mut self, lsn: u64, frame: u32) {
            let position = self.buckets.insert(Lsn(lsn), frame);
            assert!(self.positions.insert(frame, (Lsn(lsn), position)).is_none());
        }

        fn remove(&mut self, frame: u32) {
            let (lsn, position) = self.positions.remove(&frame).unwrap();
            if let Some(moved) = self.buckets.remove(lsn, frame, position) {
                self.positions.get_mut(&moved).unwrap().1 = position;
            }
        }

        fn set_shift(&mut self, shift: u32) {
            let positions = &mut self.positions;
            self.buckets.set_shift(shift, |frame, position| positions.get_mut(&frame).unwrap().1 = position);
        }

        /// Any frame.
        fn any(&self, rng: &mut Prng) -> Option<u32> {
            let n = rng.below(self.positions.len().max(1) as u64) as usize;
            self.positions.keys().nth(n).copied()
        }

        fn oldest_bucket(&self) -> Vec<u32> {
            let oldest = self.buckets.each().next();
            oldest.map_or(Vec::new(), |(_, entries)| entries.iter().map(|&(_, frame)| frame).collect())
        }

        /// Mostly adds in ascending order, sometimes not, as in replay and with slow
        /// mini-transactions.
        fn step(&mut self, round: u64, rng: &mut Prng) {
            match self.any(rng).filter(|_| rng.below(100) >= 52) {
                Some(frame) => self.remove(frame),
                None => self.insert((round + rng.below(40)).saturating_sub(rng.below(60)), round as u32),
            }
        }
    }

    #[test]
    fn the_least_the_entries_and_the_positions_are_those_of_the_set() {
        let (mut rng, mut c) = (Prng::new(3), Checked::new());
        for round in 0..5000 {
            c.step(round, &mut rng);
            if rng.one_in(200) {
                c.set_shift(rng.below(8) as u32);
            }
            let buckets = &c.buckets;
            assert_eq!(buckets.min(), c.positions.values().map(|&(lsn, _)| lsn).min(), "round {round}");
            assert_eq!(buckets.len(), c.positions.len());
            let (mut from, mut seen) = (Lsn::ZERO, 0);
            for (end, entries) in buckets.each() {
                for (position, &(lsn, frame)) in entries.iter().enumerate() {
                    assert!(from <= lsn && lsn < end, "round {round}: {lsn:?} in a bucket to {end:?}");
                    assert_eq!(c.positions[&frame], (lsn, position as u32));
                    seen += 1;
                }
                from = end;
            }
            assert_eq!(seen, c.positions.len());
        }
    }

    /// Between two calls frames come and go, and the width of the buckets changes.
    #[test]
    fn a_list_in_pieces_has_all_that_stay() {
        let mut rng = Prng::new(7);
        for round in 0..300 {
            let mut c = Checked::new();
            let first = 1000 * round;
            (first..first + 200).for_each(|count| c.step(count, &mut rng));
            // Sometimes all of them in a few buckets.
            c.set_shift(rng.below(8) as u32);
            let limit = Lsn(first + rng.below(220));
            let mut stay: BTreeMap<u32, Lsn> =
                c.positions.iter().map(|(&frame, &(lsn, _))| (frame, lsn)).collect();
            stay.retain(|_, lsn| *lsn < limit);
            let (mut at, mut shown) = (ListPosition::default(), BTreeMap::new());
            let mut count = first + 200;
            while c.buckets.list(limit, &mut at, 3, |(lsn, frame)| {
                shown.insert(frame, lsn);
            }) {
                for _ in 0..rng.below(4) {
                    count += 1;
                    match c.any(&mut rng).filter(|_| rng.one_in(2)) {
                        Some(frame) => {
                            c.remove(frame);
                            stay.remove(&frame);
                        }
                        // Who comes is not below the limit.
                        None => c.insert(limit.0.max(count), count as u32),
                    }
                }
                // The page writers take the oldest bucket as a whole.
                if rng.one_in(4) {
                    let oldest: Vec<u32> = c.oldest_bucket();
                    for frame in oldest {
                        c.remove(frame);
                        stay.remove(&frame);
                    }
                }
                if rng.one_in(20) {
                    c.set_shift(rng.below(8) as u32);
                }
            }
            assert!(shown.values().all(|lsn| *lsn < limit));
            for (frame, lsn) in stay {
                assert_eq!(shown.get(&frame), Some(&lsn), "round {round}: frame {frame} is missing");
            }
        }
    }

    /// The position in a bucket was once kept for the next one if all of the bucket left meanwhile:
    /// then a checkpoint's list of dirty pages had only the first entries of that one.
    #[test]
    fn a_list_begins_the_next_bucket_if_its_own_is_gone() {
        let mut c = Checked::new();
        (0..2).for_each(|n| c.insert(n, n as u32));
        (16..26).for_each(|n| c.insert(n, n as u32));
        let (mut at, mut shown) = (ListPosition::default(), Vec::new());
        let mut list = |c: &Checked| c.buckets.list(Lsn(100), &mut at, 1, |(_, frame)| shown.push(frame));
        assert!(list(&c));
        (0..2).for_each(|frame| c.remove(frame));
        while list(&c) {}
        shown.sort_unstable();
        assert!((16..26).all(|frame| shown.contains(&frame)), "{shown:?}");
    }

    #[test]
    #[should_panic(expected = "a dirty frame is in its position")]
    fn a_frame_that_is_not_there_cannot_leave() {
        let mut buckets = LsnBuckets::new(4);
        let position = buckets.insert(Lsn(20), 1);
        buckets.remove(Lsn(20), 2, position);
    }
}
