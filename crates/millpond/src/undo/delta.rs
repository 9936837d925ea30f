//! How a value is made of a newer one of the same row, over any number of changes at once. Pure.
//!
//! One change keeps what stands in front of it and behind it. Several together keep more than two pieces, and of a piece that is kept it is
//! known how far it lies from the value's front or from its end, until the next change tells how long the value is.

use crate::page::Damage;
use smallvec::SmallVec;

/// A value in more pieces is not worth it.
const PARTS_MAX: usize = 24;
const SHORT: Damage = Damage("an undo record keeps more than the value has");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Of the newer value, from `at` on.
    Front { at: usize, len: usize },
    /// Of the newer value, from `back` before its end on.
    Back { back: usize, len: usize },
    /// Of [`Delta::bytes`], the next.
    New { len: usize },
}

impl Part {
    fn len(self) -> usize {
        match self {
            Part::Front { len, .. } | Part::Back { len, .. } | Part::New { len } => len,
        }
    }
}

/// A value, by a newer one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    parts: SmallVec<[Part; 3]>,
    bytes: Vec<u8>,
    /// How long the value is that it makes.
    len: usize,
}

impl Delta {
    /// Back over one change, which kept `front` and `back` bytes and had `middle` between them.
    pub(super) fn of(front: usize, back: usize, middle: &[u8]) -> Delta {
        let mut delta = Delta { bytes: Vec::with_capacity(middle.len()), ..Delta::default() };
        delta.push(Part::Front { at: 0, len: front });
        delta.push_new(middle);
        delta.push(Part::Back { back, len: back });
        delta
    }

    fn push_new(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.push(Part::New { len: bytes.len() });
    }

    fn push(&mut self, part: Part) {
        if part.len() == 0 {
            return;
        }
        self.len += part.len();
        match (self.parts.last_mut(), part) {
            (Some(Part::New { len }), Part::New { len: more }) => *len += more,
            (Some(Part::Front { at, len }), Part::Front { at: next, len: more }) if *at + *len == next => {
                *len += more;
            }
            (Some(Part::Back { back, len }), Part::Back { back: next, len: more })
                if *back - *len == next =>
            {
                *len += more;
            }
            _ => self.parts.push(part),
        }
    }

    /// Memory that it takes beside its own size, about, bytes.
    pub(super) fn bytes(&self) -> usize {
        let spilled = if self.parts.spilled() { self.parts.capacity() * size_of::<Part>() } else { 0 };
        self.bytes.capacity() + spilled
    }

    /// Pushes what lies from `from` on and below `to` of the value that `newer` makes, as parts of the one that it makes it of.
    fn push_through(&mut self, newer: &Delta, from: usize, to: usize) -> Option<()> {
        if from > to || to > newer.len {
            return None;
        }
        let (mut start, mut at_new) = (0, 0);
        for &part in &newer.parts {
            let (low, high) = (from.max(start), to.min(start + part.len()));
            if low < high {
                let (skip, len) = (low - start, high - low);
                match part {
                    Part::Front { at, .. } => self.push(Part::Front { at: at + skip, len }),
                    Part::Back { back, .. } => self.push(Part::Back { back: back - skip, len }),
                    Part::New { .. } => self.push_new(&newer.bytes[at_new + skip..at_new + skip + len]),
                }
            }
            if let Part::New { len } = part {
                at_new += len;
            }
            start += part.len();
        }
        Some(())
    }

    /// Back over `newer` and then over this one, in one. `None`: they do not fit, or it would be in too many pieces.
    pub(super) fn after(&self, newer: &Delta) -> Option<Delta> {
        let (mut both, mut at_new) = (Delta::default(), 0);
        for &part in &self.parts {
            match part {
                Part::Front { at, len } => both.push_through(newer, at, at + len)?,
                Part::Back { back, len } => {
                    let from = newer.len.checked_sub(back)?;
                    both.push_through(newer, from, from + len)?;
                }
                Part::New { len } => {
                    both.push_new(&self.bytes[at_new..at_new + len]);
                    at_new += len;
                }
            }
        }
        (both.parts.len() <= PARTS_MAX).then_some(both)
    }

    /// Makes the older value of `value`.
    pub(super) fn apply(&self, value: &mut Vec<u8>) -> Result<(), Damage> {
        let (mut out, mut at_new) = (Vec::with_capacity(self.len), 0);
        for &part in &self.parts {
            let from = match part {
                Part::Front { at, .. } => at,
                Part::Back { back, .. } => value.len().checked_sub(back).ok_or(SHORT)?,
                Part::New { len } => {
                    out.extend_from_slice(&self.bytes[at_new..at_new + len]);
                    at_new += len;
                    continue;
                }
            };
            out.extend_from_slice(value.get(from..from + part.len()).ok_or(SHORT)?);
        }
        *value = out;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::op::common_ends;
    use proptest::prelude::*;

    /// Back from `new` to `old` over one change.
    fn between(new: &[u8], old: &[u8]) -> Delta {
        let (front, back) = common_ends(new, old);
        let (front, back) = (usize::from(front), usize::from(back));
        Delta::of(front, back, &old[front..old.len() - back])
    }

    proptest! {
        /// A value that changes in many places, grows and shrinks: whichever neighbours are put together in whichever order, the result is
        /// each older value.
        #[test]
        fn together_they_make_what_they_make_one_by_one(
            start in prop::collection::vec(0..3u8, 0..30),
            edits in prop::collection::vec((any::<u8>(), 0..6usize, prop::collection::vec(0..3u8, 0..6)), 1..12),
            order in any::<u64>(),
        ) {
            let mut values = vec![start];
            for (at, cut, new) in edits {
                let mut value = values[values.len() - 1].clone();
                let at = usize::from(at) % (value.len() + 1);
                let end = (at + cut).min(value.len());
                value.splice(at..end, new);
                values.push(value);
            }
            // One for each step from a value to the one before it, oldest step first.
            let mut deltas: Vec<Delta> = values.windows(2).map(|two| between(&two[1], &two[0])).collect();
            let mut ends: Vec<usize> = (0..values.len()).collect();
            let mut order = order;
            while deltas.len() > 1 {
                let at = (order % (deltas.len() as u64 - 1)) as usize;
                order = order.rotate_right(7).wrapping_add(11);
                let Some(both) = deltas[at].after(&deltas[at + 1]) else {
                    prop_assert!(deltas[at].parts.len() + deltas[at + 1].parts.len() > PARTS_MAX / 2);
                    break;
                };
                deltas.remove(at + 1);
                deltas[at] = both;
                ends.remove(at + 1);
                for (delta, two) in deltas.iter().zip(ends.windows(2)) {
                    let mut value = values[two[1]].clone();
                    delta.apply(&mut value).unwrap();
                    prop_assert_eq!(&value, &values[two[0]]);
                    prop_assert_eq!(delta.len, value.len());
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let delta = Delta::of(3, 2, b"x");
        assert!(delta.apply(&mut b"four".to_vec()).is_ok(), "front and back may overlap in the newer value");
        assert!(delta.apply(&mut b"no".to_vec()).is_err());
        assert_eq!(Delta::of(9, 0, b"").after(&delta), None);
        assert_eq!(Delta::of(0, 9, b"").after(&delta), None);
    }

    #[test]
    fn columns_that_change_in_turn_stay_few_pieces() {
        let row =
            |n: usize| (0..10).flat_map(|c| [c as u8, (n * 10 + 9 - c) as u8 / 10, 7]).collect::<Vec<u8>>();
        let mut all = between(&row(1), &row(0));
        for n in 2..200 {
            all = all.after(&between(&row(n), &row(n - 1))).unwrap();
        }
        let mut value = row(199);
        all.apply(&mut value).unwrap();
        assert_eq!(value, row(0));
        assert!(all.parts.len() <= 21, "{all:?}");
    }
}
