//! A delta: how to make an older value of a row from a newer one, over any number of changes. Pure.
//!
//! One change keeps the bytes at the front and at the back of the value. Several changes together
//! may keep more than two parts. The place of a kept part is known by its distance from the value's
//! front or from its end, until the next change tells how long the value is.

use crate::page::Damage;
use smallvec::SmallVec;

/// A delta with more parts is not worth its cost.
const PARTS_MAX: usize = 24;
const SHORT: Damage = Damage("an undo record keeps more than the value has");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValuePart {
    /// Bytes of the newer value, from offset `at` on.
    Front { at: usize, len: usize },
    /// Bytes of the newer value that begin `back` bytes before its end.
    Back { back: usize, len: usize },
    /// The next bytes of [`Delta::bytes`].
    New { len: usize },
}

impl ValuePart {
    fn len(self) -> usize {
        match self {
            ValuePart::Front { len, .. } | ValuePart::Back { len, .. } | ValuePart::New { len } => len,
        }
    }
}

/// An older value, described by a newer one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    parts: SmallVec<[ValuePart; 3]>,
    bytes: Vec<u8>,
    /// The length of the older value.
    len: usize,
}

impl Delta {
    /// The delta that undoes one change, which kept `front` and `back` bytes. The older value has
    /// `middle` between them.
    pub(super) fn of(front: usize, back: usize, middle: &[u8]) -> Delta {
        let mut delta = Delta { bytes: Vec::with_capacity(middle.len()), ..Delta::default() };
        delta.push(ValuePart::Front { at: 0, len: front });
        delta.push_new(middle);
        delta.push(ValuePart::Back { back, len: back });
        delta
    }

    fn push_new(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.push(ValuePart::New { len: bytes.len() });
    }

    fn push(&mut self, part: ValuePart) {
        if part.len() == 0 {
            return;
        }
        self.len += part.len();
        match (self.parts.last_mut(), part) {
            (Some(ValuePart::New { len }), ValuePart::New { len: more }) => *len += more,
            (Some(ValuePart::Front { at, len }), ValuePart::Front { at: next, len: more })
                if *at + *len == next =>
            {
                *len += more;
            }
            (Some(ValuePart::Back { back, len }), ValuePart::Back { back: next, len: more })
                if *back - *len == next =>
            {
                *len += more;
            }
            _ => self.parts.push(part),
        }
    }

    /// Returns the approximate memory in bytes, without the size of the struct.
    pub(super) fn bytes(&self) -> usize {
        let spilled = if self.parts.spilled() { self.parts.capacity() * size_of::<ValuePart>() } else { 0 };
        self.bytes.capacity() + spilled
    }

    /// Appends the bytes `from..to` of the value that `newer` makes, as parts of the value that
    /// `newer` is applied to.
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
                    ValuePart::Front { at, .. } => self.push(ValuePart::Front { at: at + skip, len }),
                    ValuePart::Back { back, .. } => self.push(ValuePart::Back { back: back - skip, len }),
                    ValuePart::New { .. } => self.push_new(&newer.bytes[at_new + skip..at_new + skip + len]),
                }
            }
            if let ValuePart::New { len } = part {
                at_new += len;
            }
            start += part.len();
        }
        Some(())
    }

    /// Returns the delta that undoes what `newer` undoes and then what this one undoes. `None` if
    /// they do not fit together, or if the result would have too many parts.
    pub(super) fn after(&self, newer: &Delta) -> Option<Delta> {
        let (mut both, mut at_new) = (Delta::default(), 0);
        for &part in &self.parts {
            match part {
                ValuePart::Front { at, len } => both.push_through(newer, at, at + len)?,
                ValuePart::Back { back, len } => {
                    let from = newer.len.checked_sub(back)?;
                    both.push_through(newer, from, from + len)?;
                }
                ValuePart::New { len } => {
                    both.push_new(&self.bytes[at_new..at_new + len]);
                    at_new += len;
                }
            }
        }
        (both.parts.len() <= PARTS_MAX).then_some(both)
    }

    /// Changes `value` to the older value.
    pub(super) fn apply(&self, value: &mut Vec<u8>) -> Result<(), Damage> {
        let (mut out, mut at_new) = (Vec::with_capacity(self.len), 0);
        for &part in &self.parts {
            let from = match part {
                ValuePart::Front { at, .. } => at,
                ValuePart::Back { back, .. } => value.len().checked_sub(back).ok_or(SHORT)?,
                ValuePart::New { len } => {
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

    /// The delta from `new` to `old`, over one change.
    fn between(new: &[u8], old: &[u8]) -> Delta {
        let (front, back) = common_ends(new, old);
        let (front, back) = (usize::from(front), usize::from(back));
        Delta::of(front, back, &old[front..old.len() - back])
    }

    proptest! {
        /// A value changes in many places, grows and shrinks. Whichever neighbouring deltas are
        /// joined, in whichever order, the result is each older value.
        #[test]
        fn joined_deltas_make_the_same_values_as_single_ones(
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
            // One delta for each step from a value to the one before it, oldest step first.
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
    fn a_delta_that_does_not_fit_is_refused() {
        let delta = Delta::of(3, 2, b"x");
        assert!(delta.apply(&mut b"four".to_vec()).is_ok(), "front and back may overlap in the newer value");
        assert!(delta.apply(&mut b"no".to_vec()).is_err());
        assert_eq!(Delta::of(9, 0, b"").after(&delta), None);
        assert_eq!(Delta::of(0, 9, b"").after(&delta), None);
    }

    #[test]
    fn columns_that_change_in_turn_give_few_parts() {
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
