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

    proptest! {
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
