//! Chooses for each key the leaf from which it is taken. In a sound tree the leaves divide the keys
//! among them. In a damaged one they may overlap, because one is older than its neighbours, or
//! leave a gap.

use base::{Lsn, PageNo};
use std::collections::BTreeMap;

/// A leaf that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundLeaf {
    pub(super) page: PageNo,
    pub(super) lsn: Lsn,
    /// It lacks changes, or may lack some.
    pub(super) is_old: bool,
    /// Its fences; no high one is the end of all keys.
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

/// Keys from one on to below another. No end is the end of all keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyRange {
    pub(super) from: Vec<u8>,
    pub(super) to: Option<Vec<u8>>,
}

/// The ranges of keys, in order, and the page whose rows stand for each; none if no page has it.
pub(super) type Shares = Vec<(KeyRange, Option<PageNo>)>;

/// Whether an end of a range lies above another; none is the end of all keys.
fn ends_after(end: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    match (end, other) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(end), Some(other)) => end > other,
    }
}

/// Divides all keys among the leaves. A leaf that has all its changes comes before one that may
/// lack some, and a newer one before an older one.
pub(super) fn share(mut leaves: Vec<FoundLeaf>) -> Shares {
    leaves.sort_by(|a, b| (a.is_old, b.lsn, a.page).cmp(&(b.is_old, a.lsn, b.page)));
    // By the start of the range. They do not overlap.
    let mut taken: BTreeMap<Vec<u8>, (Option<Vec<u8>>, PageNo)> = BTreeMap::new();
    for leaf in leaves {
        for range in gaps(&taken, &leaf.low, leaf.high.as_deref()) {
            taken.insert(range.from, (range.to, leaf.page));
        }
    }
    let mut shares: Shares = gaps(&taken, &[], None).into_iter().map(|range| (range, None)).collect();
    shares.extend(taken.into_iter().map(|(from, (to, page))| (KeyRange { from, to }, Some(page))));
    shares.sort();
    shares
}

/// Returns the parts of a range that no taken range covers.
fn gaps(
    taken: &BTreeMap<Vec<u8>, (Option<Vec<u8>>, PageNo)>,
    from: &[u8],
    to: Option<&[u8]>,
) -> Vec<KeyRange> {
    let mut found = Vec::new();
    let mut at = from.to_vec();
    let before = taken.range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(from)));
    if let Some((_, (end, _))) = before.last() {
        match end {
            None => return found,
            Some(end) if *end > at => at.clone_from(end),
            Some(_) => {}
        }
    }
    let after = (std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded);
    for (start, (end, _)) in taken.range::<[u8], _>(after) {
        if ends_after(Some(start), to) || to == Some(start) {
            break;
        }
        if *start > at {
            found.push(KeyRange { from: at, to: Some(start.clone()) });
        }
        match end {
            None => return found,
            Some(end) => at = end.clone(),
        }
    }
    if ends_after(to, Some(&at)) {
        found.push(KeyRange { from: at, to: to.map(<[u8]>::to_vec) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each leaf: page, LSN, `old` or not, `low..high`. The shares: `low..high=page`.
    #[test]
    fn the_newest_complete_leaf_stands_for_its_keys() {
        let table = [
            ("", "..=-"),
            ("1 5 ..", "..=1"),
            ("1 5 ..m|2 5 m..", "..m=1 m..=2"),
            ("2 5 m..|1 5 ..c", "..c=1 c..m=- m..=2"),
            // The left half was put back to before its split.
            ("1 3 ..|2 5 m..", "..m=1 m..=2"),
            ("1 3 ..z|2 5 m..p", "..m=1 m..p=2 p..z=1 z..=-"),
            // An old leaf fills only what no complete one has, however new it is.
            ("1 9 ..m old|2 5 c..f|3 5 m..", "..c=1 c..f=2 f..m=1 m..=3"),
            ("1 9 ..m old|2 7 c.. old", "..m=1 m..=2"),
            ("1 5 b..c|2 4 b..c", "..b=- b..c=1 c..=-"),
        ];
        for (leaves, expected) in table {
            let bound = |text: &str| Some(text.as_bytes().to_vec()).filter(|key| !key.is_empty());
            let leaf = |text: &str| {
                let words: Vec<&str> = text.split(' ').collect();
                let (low, high) = words[2].split_once("..").unwrap();
                FoundLeaf {
                    page: PageNo(words[0].parse().unwrap()),
                    lsn: Lsn(words[1].parse().unwrap()),
                    is_old: words.get(3) == Some(&"old"),
                    low: low.as_bytes().to_vec(),
                    high: bound(high),
                }
            };
            let found = leaves.split('|').filter(|text| !text.is_empty()).map(leaf).collect();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let show = |(range, page): &(KeyRange, Option<PageNo>)| {
                let page = page.map_or("-".to_owned(), |page| page.0.to_string());
                format!("{}..{}={page}", text(&range.from), text(range.to.as_deref().unwrap_or(b"")))
            };
            let got: Vec<String> = share(found).iter().map(show).collect();
            assert_eq!(got.join(" "), expected, "{leaves}");
        }
    }
}
