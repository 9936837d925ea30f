//! Frames ordered by an LSN, roughly: in slices of the LSN scale, without order within a slice.
//!
//! A set that is ordered throughout costs a search for each frame that enters and each that leaves.
//! Here both take a step: a frame is added at the end of its slice, and where it left, the last one
//! takes its place. Nobody needs the order within a slice, for the checkpoint asks only for the
//! least LSN of all, and a batch takes the oldest slices whole.

use base::Lsn;
use std::collections::VecDeque;

/// A frame and its LSN.
pub(super) type Entry = (Lsn, u32);

/// Empty slices whose memory is kept for new ones.
const SPARE: usize = 16;

/// The frames. The caller keeps for each of them the place that [`Calendar::insert`] returned.
#[derive(Debug)]
pub(super) struct Calendar {
    /// A slice is `1 << shift` bytes of the log wide.
    shift: u32,
    /// The number of the first slice. It is not empty, if there are any.
    first: u64,
    slices: VecDeque<Vec<Entry>>,
    len: usize,
    spare: Vec<Vec<Entry>>,
    /// How often the width has changed.
    widths: u32,
}

/// How far a list of all entries has come. It begins as the default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListPosition {
    widths: u32,
    slice: u64,
    /// So many entries of the slice are not listed yet; `None` if none of it is.
    left: Option<usize>,
}

impl Calendar {
    pub(super) fn new(shift: u32) -> Calendar {
        let (slices, spare) = (VecDeque::new(), Vec::new());
        Calendar { shift, first: 0, slices, len: 0, spare, widths: 0 }
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a frame. Returns its place.
    pub(super) fn insert(&mut self, lsn: Lsn, frame: u32) -> u32 {
        let slice = lsn.0 >> self.shift;
        if self.slices.is_empty() {
            self.first = slice;
        }
        while slice < self.first {
            self.first -= 1;
            self.slices.push_front(Vec::new());
        }
        let index = (slice - self.first) as usize;
        if index >= self.slices.len() {
            self.slices.resize_with(index + 1, Vec::new);
        }
        let entries = &mut self.slices[index];
        if entries.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *entries = spare;
        }
        entries.push((lsn, frame));
        self.len += 1;
        entries.len() as u32 - 1
    }

    /// Removes a frame from its place. If another frame has that place now, returns it.
    pub(super) fn remove(&mut self, lsn: Lsn, frame: u32, place: u32) -> Option<u32> {
        let slice = (lsn.0 >> self.shift).checked_sub(self.first);
        let entries = slice.and_then(|slice| self.slices.get_mut(slice as usize));
        let found = entries.filter(|entries| entries.get(place as usize) == Some(&(lsn, frame)));
        let entries = found.expect("a dirty frame is in its place");
        entries.swap_remove(place as usize);
        let moved = entries.get(place as usize).map(|&(_, frame)| frame);
        self.len -= 1;
        while self.slices.front().is_some_and(Vec::is_empty) {
            let empty = self.slices.pop_front().unwrap_or_default();
            if empty.capacity() > 0 && self.spare.len() < SPARE {
                self.spare.push(empty);
            }
            self.first += 1;
        }
        moved
    }

    /// Returns the least LSN.
    pub(super) fn min(&self) -> Option<Lsn> {
        self.slices.front()?.iter().map(|&(lsn, _)| lsn).min()
    }

    /// Returns each slice: the LSN where it ends, and its entries in any order.
    pub(super) fn slices(&self) -> impl Iterator<Item = (Lsn, &[Entry])> {
        let end = |n: usize| Lsn((self.first + n as u64 + 1) << self.shift);
        self.slices.iter().enumerate().map(move |(n, entries)| (end(n), entries.as_slice()))
    }

    /// Makes the slices `1 << shift` bytes wide. Tells the new place of each frame.
    pub(super) fn set_shift(&mut self, shift: u32, mut tell: impl FnMut(u32, u32)) {
        if self.shift == shift {
            return;
        }
        let before = std::mem::replace(self, Calendar::new(shift));
        self.widths = before.widths + 1;
        for (lsn, frame) in before.slices.into_iter().flatten() {
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
        if at.slice < self.first {
            // The slice has become empty since: nothing of the next one is listed yet.
            at.left = None;
        }
        at.slice = at.slice.max(self.first);
        while at.slice << self.shift < lsn.0
            && let Some(entries) = self.slices.get((at.slice - self.first) as usize)
        {
            // From the end: a frame that leaves gives its place to the last one, which was shown,
            // or everything above was.
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
            (at.slice, at.left) = (at.slice + 1, None);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeMap;

    /// A calendar with the places of its frames, and the truth.
    struct Checked {
        calendar: Calendar,
        places: BTreeMap<u32, (Lsn, u32)>,
    }

    impl Checked {
        fn new() -> Checked {
            Checked { calendar: Calendar::new(4), places: BTreeMap::new() }
        }

        fn insert(&mut self, lsn: u64, frame: u32) {
            let place = self.calendar.insert(Lsn(lsn), frame);
            assert!(self.places.insert(frame, (Lsn(lsn), place)).is_none());
        }

        fn remove(&mut self, frame: u32) {
            let (lsn, place) = self.places.remove(&frame).unwrap();
            if let Some(moved) = self.calendar.remove(lsn, frame, place) {
                self.places.get_mut(&moved).unwrap().1 = place;
            }
        }

        fn set_shift(&mut self, shift: u32) {
            let places = &mut self.places;
            self.calendar.set_shift(shift, |frame, place| places.get_mut(&frame).unwrap().1 = place);
        }

        /// Any frame.
        fn any(&self, rng: &mut Prng) -> Option<u32> {
            let n = rng.below(self.places.len().max(1) as u64) as usize;
            self.places.keys().nth(n).copied()
        }

        fn oldest_slice(&self) -> Vec<u32> {
            let oldest = self.calendar.slices().next();
            oldest.map_or(Vec::new(), |(_, entries)| entries.iter().map(|&(_, frame)| frame).collect())
        }

        /// Mostly adds in ascending order, sometimes not, as in replay and with slow
        /// mini-transactions.
        fn step(&mut self, turn: u64, rng: &mut Prng) {
            match self.any(rng).filter(|_| rng.below(100) >= 52) {
                Some(frame) => self.remove(frame),
                None => self.insert((turn + rng.below(40)).saturating_sub(rng.below(60)), turn as u32),
            }
        }
    }

    #[test]
    fn the_least_the_slices_and_the_places_are_those_of_the_set() {
        let (mut rng, mut c) = (Prng::new(3), Checked::new());
        for turn in 0..5000 {
            c.step(turn, &mut rng);
            if rng.one_in(200) {
                c.set_shift(rng.below(8) as u32);
            }
            let calendar = &c.calendar;
            assert_eq!(calendar.min(), c.places.values().map(|&(lsn, _)| lsn).min(), "turn {turn}");
            assert_eq!(calendar.len(), c.places.len());
            let (mut from, mut seen) = (Lsn::ZERO, 0);
            for (end, entries) in calendar.slices() {
                for (place, &(lsn, frame)) in entries.iter().enumerate() {
                    assert!(from <= lsn && lsn < end, "turn {turn}: {lsn:?} in a slice to {end:?}");
                    assert_eq!(c.places[&frame], (lsn, place as u32));
                    seen += 1;
                }
                from = end;
            }
            assert_eq!(seen, c.places.len());
        }
    }

    /// Between two calls frames come and go, and the width of the slices changes.
    #[test]
    fn a_list_in_pieces_has_all_that_stay() {
        let mut rng = Prng::new(7);
        for round in 0..300 {
            let mut c = Checked::new();
            let first = 1000 * round;
            (first..first + 200).for_each(|turn| c.step(turn, &mut rng));
            // Sometimes all of them in a few slices.
            c.set_shift(rng.below(8) as u32);
            let limit = Lsn(first + rng.below(220));
            let mut stay: BTreeMap<u32, Lsn> =
                c.places.iter().map(|(&frame, &(lsn, _))| (frame, lsn)).collect();
            stay.retain(|_, lsn| *lsn < limit);
            let (mut at, mut shown) = (ListPosition::default(), BTreeMap::new());
            let mut turn = first + 200;
            while c.calendar.list(limit, &mut at, 3, |(lsn, frame)| {
                shown.insert(frame, lsn);
            }) {
                for _ in 0..rng.below(4) {
                    turn += 1;
                    match c.any(&mut rng).filter(|_| rng.one_in(2)) {
                        Some(frame) => {
                            c.remove(frame);
                            stay.remove(&frame);
                        }
                        // Who comes is not below the limit.
                        None => c.insert(limit.0.max(turn), turn as u32),
                    }
                }
                // The page writers take the oldest slice as a whole.
                if rng.one_in(4) {
                    let oldest: Vec<u32> = c.oldest_slice();
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

    /// The place in a slice was once kept for the next one if all of the slice left meanwhile: then
    /// a checkpoint's list of dirty pages had only the first entries of that one.
    #[test]
    fn a_list_begins_the_next_slice_if_its_own_is_gone() {
        let mut c = Checked::new();
        (0..2).for_each(|n| c.insert(n, n as u32));
        (16..26).for_each(|n| c.insert(n, n as u32));
        let (mut at, mut shown) = (ListPosition::default(), Vec::new());
        let mut list = |c: &Checked| c.calendar.list(Lsn(100), &mut at, 1, |(_, frame)| shown.push(frame));
        assert!(list(&c));
        (0..2).for_each(|frame| c.remove(frame));
        while list(&c) {}
        shown.sort_unstable();
        assert!((16..26).all(|frame| shown.contains(&frame)), "{shown:?}");
    }

    #[test]
    #[should_panic(expected = "a dirty frame is in its place")]
    fn a_frame_that_is_not_there_cannot_leave() {
        let mut calendar = Calendar::new(4);
        let place = calendar.insert(Lsn(20), 1);
        calendar.remove(Lsn(20), 2, place);
    }
}
