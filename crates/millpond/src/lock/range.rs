//! The ranges of keys that one transaction has locked in one tree: disjoint, few and long. Pure.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The exclusive end of a range; none means the tree's end.
type End = Option<Vec<u8>>;

/// Disjoint ranges that do not touch either: touching ranges are joined.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    parts: BTreeMap<Vec<u8>, End>,
    bytes: usize,
}

/// Returns whether a range that ends at `end` reaches at least to `other`.
fn reaches(end: &End, other: Option<&[u8]>) -> bool {
    match (end, other) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(end), Some(other)) => &end[..] >= other,
    }
}

fn bytes_of(end: &End) -> usize {
    end.as_ref().map_or(0, |end| heap_bytes(end.len()))
}

/// Memory that an allocation of `len` bytes takes, as allocators round it.
pub(super) fn heap_bytes(len: usize) -> usize {
    if len == 0 { 0 } else { (len + 8).next_multiple_of(16).max(32) }
}

impl RangeSet {
    /// The ranges: first keys, and the first keys beyond.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.parts.iter().map(|(from, to)| (&from[..], to.as_deref()))
    }

    /// Adds the keys from `from` on and below `to`.
    pub(super) fn add(&mut self, from: &[u8], to: Option<&[u8]>) {
        if to.is_some_and(|to| to <= from) {
            return;
        }
        let upto = || (Unbounded, Included(from));
        let touched = self.parts.range::<[u8], _>(upto()).next_back();
        let touched = touched.filter(|(_, end)| reaches(end, Some(from)));
        if touched.is_some_and(|(_, end)| reaches(end, to)) {
            return;
        }
        let joins = touched.is_some();
        let mut end = to.map(<[u8]>::to_vec);
        loop {
            // A range that begins in the new one, or where it ends, becomes part of it.
            let limit = end.as_deref().map_or(Unbounded, Included);
            let next = self.parts.range::<[u8], _>((Excluded(from), limit)).next();
            let Some(start) = next.map(|(start, _)| start.clone()) else { break };
            let gone = self.parts.remove(&start).expect("it was just seen");
            self.bytes -= heap_bytes(start.len()) + bytes_of(&gone);
            if !reaches(&end, gone.as_deref()) {
                end = gone;
            }
        }
        self.bytes += bytes_of(&end);
        if joins {
            let (_, last) = self.parts.range_mut::<[u8], _>(upto()).next_back().expect("it was just seen");
            self.bytes -= bytes_of(last);
            *last = end;
        } else {
            self.bytes += heap_bytes(from.len());
            self.parts.insert(from.to_vec(), end);
        }
    }

    /// Removes the keys from `from` on and below `to`. Returns whether one of them was in the set.
    pub(super) fn cut(&mut self, from: &[u8], to: &[u8]) -> bool {
        if to <= from {
            return false;
        }
        let (mut cut, mut rest) = (false, None);
        let before = self.parts.range_mut::<[u8], _>((Unbounded, Excluded(from))).next_back();
        if let Some((_, end)) = before
            && end.as_ref().is_none_or(|end| &end[..] > from)
        {
            let left = Some(from.to_vec());
            self.bytes += bytes_of(&left);
            let old = std::mem::replace(end, left);
            self.bytes -= bytes_of(&old);
            (cut, rest) = (true, Some(old));
        }
        while let Some((start, _)) = self.parts.range::<[u8], _>((Included(from), Excluded(to))).next() {
            let start = start.clone();
            let gone = self.parts.remove(&start).expect("it was just seen");
            self.bytes -= heap_bytes(start.len()) + bytes_of(&gone);
            (cut, rest) = (true, Some(gone));
        }
        // Of the last part that was cut, what lies after it stays.
        if let Some(end) = rest
            && end.as_ref().is_none_or(|end| &end[..] > to)
        {
            self.bytes += heap_bytes(to.len()) + bytes_of(&end);
            self.parts.insert(to.to_vec(), end);
        }
        cut
    }

    /// Returns whether a range ends exactly before `key`.
    pub(super) fn ends_at(&self, key: &[u8]) -> bool {
        let before = self.parts.range::<[u8], _>((Unbounded, Excluded(key))).next_back();
        before.is_some_and(|(_, end)| end.as_deref() == Some(key))
    }

    /// Returns whether a range begins exactly with `key`.
    pub(super) fn begins_at(&self, key: &[u8]) -> bool {
        self.parts.contains_key(key)
    }

    /// Returns whether a range overlaps the keys from `from` on and below `to`, or touches them.
    pub(super) fn touches(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        let last = self.parts.range::<[u8], _>((Unbounded, to.map_or(Unbounded, Included))).next_back();
        last.is_some_and(|(_, end)| reaches(end, Some(from)))
    }

    /// Returns whether no key lies in a range.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether `key` lies in one of the ranges.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        let before = self.parts.range::<[u8], _>((Unbounded, Included(key))).next_back();
        before.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < &end[..]))
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Memory that the ranges take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        // The nodes of a tree are filled to two thirds, about.
        self.bytes + self.parts.len() * size_of::<(Vec<u8>, End)>() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: u8 = 40;

    /// Fails if the set covers other keys than `model` says, has ranges that touch, or counts its
    /// bytes wrongly.
    fn check_set(set: &RangeSet, model: &[bool]) {
        let covered: Vec<bool> = (0..KEYS).map(|key| set.covers(&[key])).collect();
        assert_eq!(covered, model);
        let parts: Vec<_> = set.parts.iter().collect();
        for two in parts.windows(2) {
            assert!(two[0].1.as_ref().is_some_and(|end| end < two[1].0), "they touch: {parts:?}");
        }
        let bytes: usize = parts.iter().map(|(from, to)| heap_bytes(from.len()) + bytes_of(to)).sum();
        assert_eq!(set.bytes, bytes);
        assert_eq!(set.is_empty(), parts.is_empty());
    }

    proptest! {
        /// Ranges that are added and cut away in any order, against one flag a key.
        #[test]
        fn a_set_is_cut_as_a_list_of_keys_is(
            steps in prop::collection::vec((any::<bool>(), 0..KEYS, 0..=KEYS), 0..40)
        ) {
            let (mut set, mut model) = (RangeSet::default(), vec![false; usize::from(KEYS)]);
            for (adds, from, to) in steps {
                let to = to.max(from);
                let keys = usize::from(from)..usize::from(to);
                let before = keys.clone().any(|key| model[key]);
                let end = Some([to]);
                let around = keys.start.saturating_sub(1)..(keys.end + 1).min(model.len());
                let touched = around.into_iter().any(|key| model[key]);
                if !keys.is_empty() && before {
                    prop_assert!(set.touches(&[from], end.as_ref().map(|to| &to[..])));
                } else if !touched {
                    prop_assert!(!set.touches(&[from], end.as_ref().map(|to| &to[..])));
                }
                if adds {
                    set.add(&[from], end.as_ref().map(|to| &to[..]));
                } else {
                    let cut = set.cut(&[from], &[to]);
                    prop_assert_eq!(cut && !keys.is_empty(), before, "{:?} of {:?}", (from, to), set);
                }
                model[keys].fill(adds);
                check_set(&set, &model);
                for key in 1..KEYS {
                    let (left, right) = (model[usize::from(key) - 1], model[usize::from(key)]);
                    prop_assert_eq!(set.ends_at(&[key]), left && !right);
                    prop_assert_eq!(set.begins_at(&[key]), right && !left);
                }
            }
        }

        /// Any ranges in any order: the set covers the keys that a list of them covers, holds no
        /// two that touch, and counts its bytes.
        #[test]
        fn a_set_covers_what_a_list_covers(
            ranges in prop::collection::vec((0..KEYS, prop::option::of(0..KEYS)), 0..20)
        ) {
            let mut set = RangeSet::default();
            for (n, &(from, to)) in ranges.iter().enumerate() {
                set.add(&[from], to.as_ref().map(std::slice::from_ref));
                for key in 0..KEYS {
                    let expected =
                        ranges[..=n].iter().any(|&(from, to)| from <= key && to.is_none_or(|to| key < to));
                    prop_assert_eq!(set.covers(&[key]), expected, "key {} after {:?}", key, &ranges[..=n]);
                }
            }
            let parts: Vec<_> = set.parts.iter().collect();
            for two in parts.windows(2) {
                prop_assert!(two[0].1.as_ref().is_some_and(|end| end < two[1].0), "they touch: {:?}", parts);
            }
            let bytes: usize = parts.iter().map(|(from, to)| heap_bytes(from.len()) + bytes_of(to)).sum();
            prop_assert_eq!(set.bytes, bytes);
        }
    }

    #[test]
    fn a_scan_makes_one_range() {
        let mut set = RangeSet::default();
        for n in 0u16..1000 {
            set.add(&n.to_be_bytes(), Some(&(n + 1).to_be_bytes()));
        }
        assert_eq!(set.parts.len(), 1);
        set.add(&1000u16.to_be_bytes(), None);
        assert_eq!((set.parts.len(), set.bytes), (1, 32));
    }
}
