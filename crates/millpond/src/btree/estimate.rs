//! Estimates of how many entries a tree, or a part of it, has, from a few descents.
//!
//! A path is the slot that a descent takes on each level. Two paths that part on some level enclose
//! a number of whole children and two parts of children there. How many entries a child has is
//! taken from the lengths of the nodes on the paths. The first leaves between two paths are counted
//! one by one; where these are all, the figure is exact. The tree may change between two latches,
//! so an estimate may be wrong, but never fails for that. In the figures of a range, delete marks
//! count as entries.
//!
//! Samples are leaves at equal distances over the tree. So they are the same leaves each time, and
//! an estimate changes only when the tree does.

use super::descend::Latched;
use super::seek::Seek;
use super::tree::Tree;
use crate::error::Result;
use crate::page::node::{DELETED, Inner, Leaf, Node, OVERFLOW};
use crate::page::overflow::{ChainRef, pages_for};
use crate::tree_store::Store;
use base::PageNo;

/// So many leaves of a range are counted one by one, besides its last one.
const COUNTED_LEAVES: u32 = 8;

/// How many paths the size of a whole tree is estimated from.
const SAMPLES: u16 = 16;

/// Where a path passes one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathStep {
    page: PageNo,
    /// The child that it takes; on the lowest level, the number of entries before the key.
    slot: u16,
    /// How many slots the node has.
    len: u16,
}

/// The estimated size of a part of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RangeSize {
    /// Entries, delete marks included.
    pub(crate) rows: f64,
    /// Leaves that the range touches.
    pub(crate) leaves: f64,
    /// Every leaf was counted.
    pub(crate) exact: bool,
}

/// The first leaves of a range.
#[derive(Clone, Copy, Debug, Default)]
struct CountedLeaves {
    /// Entries of these leaves, also of those before the range.
    rows: u32,
    leaves: u32,
    /// The last leaf of the range comes after them.
    all: bool,
}

/// The estimated size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TreeSize {
    /// Entries of the leaves that are not marked as deleted.
    pub(crate) rows: f64,
    /// Leaves and inner nodes.
    pub(crate) pages: f64,
    /// Pages of long values.
    pub(crate) value_pages: f64,
}

/// What the size of a tree is estimated from in one leaf.
#[derive(Clone, Copy, Debug, Default)]
struct LeafContent {
    /// Entries that are not marked as deleted.
    rows: u32,
    /// Pages of their long values.
    value_pages: usize,
}

impl LeafContent {
    fn of(leaf: &Leaf<'_>, page_bytes: usize) -> LeafContent {
        let mut content = LeafContent::default();
        for row in (0..leaf.len()).map(|slot| leaf.row(slot)) {
            content.rows += u32::from(row.flags & DELETED == 0);
            if row.flags & OVERFLOW != 0
                && let Ok(chain) = ChainRef::decode(row.value)
            {
                content.value_pages += pages_for(page_bytes, chain.len as usize);
            }
        }
        content
    }
}

/// Returns how many slots lie between two paths, given from some level upwards. `slot_rows` is how
/// many entries a slot of that level has, `node_rows` a node.
fn between(lower: &[PathStep], upper: &[PathStep], slot_rows: f64, node_rows: Option<f64>) -> f64 {
    let levels = lower.len().min(upper.len());
    // The part of a node before the path, and the entries of a slot.
    let (mut left, mut right, mut rows_of_slot) = (0.0, 0.0, slot_rows);
    let (mut parted, mut node_rows) = (0.0, node_rows);
    for (low, up) in lower[..levels].iter().zip(upper) {
        let (low_at, up_at) = (f64::from(low.slot) + left, f64::from(up.slot) + right);
        if low.page == up.page {
            // On each level where the paths share a node, the slots say it best. Further up they
            // take the same slot, and the distance there is what the level below has said.
            parted = if low.slot == up.slot && rows_of_slot > 1.0 {
                parted
            } else {
                ((up_at - low_at) * rows_of_slot).max(0.0)
            };
        } else {
            let rest = f64::from(low.len) - low_at;
            parted = ((rest + up_at) * rows_of_slot).max(0.0);
        }
        left = low_at / f64::from(low.len.max(1));
        right = up_at / f64::from(up.len.max(1));
        let average = (f64::from(low.len) + f64::from(up.len)).max(2.0) / 2.0;
        rows_of_slot = node_rows.take().unwrap_or(rows_of_slot * average);
    }
    parted
}

/// Returns the size of the range between two paths. `counted` are its first leaves.
fn range_between(lower: &[PathStep], upper: &[PathStep], counted: CountedLeaves) -> RangeSize {
    let (Some(low), Some(up)) = (lower.first(), upper.first()) else { return RangeSize::default() };
    if low.page == up.page {
        let rows = f64::from(up.slot.saturating_sub(low.slot));
        return RangeSize { rows, leaves: 1.0, exact: true };
    }
    if counted.all {
        let rows = (f64::from(counted.rows) - f64::from(low.slot)).max(0.0) + f64::from(up.slot);
        return RangeSize { rows, leaves: f64::from(counted.leaves) + 1.0, exact: true };
    }
    // The leaves at both ends may be emptier than the others.
    let average = (counted.leaves > 0).then(|| f64::from(counted.rows) / f64::from(counted.leaves));
    let rows = between(lower, upper, 1.0, average);
    let leaves = 1.0 + between(&lower[1..], &upper[1..], 1.0, None);
    RangeSize { rows, leaves, exact: false }
}

/// Estimates the size of a tree and of its parts, and shows samples of it.
pub(crate) struct Estimates<'a> {
    tree: Tree,
    store: &'a Store,
}

impl<'a> Estimates<'a> {
    /// The estimates of a tree.
    pub(crate) fn of(tree: Tree, store: &'a Store) -> Estimates<'a> {
        Estimates { tree, store }
    }
}

impl Estimates<'_> {
    /// Returns the path to `seek`, from the leaf upwards.
    fn path(&self, seek: Seek<'_>) -> Result<Vec<PathStep>> {
        let mut path = Vec::new();
        while let Some(found) = self.tree.descend(self.store, seek, path.len() as u8, false)? {
            let Latched::Read(page) = found.page else { unreachable!("a shared latch was asked for") };
            let node = Node::new(&page);
            let slot = match (node.level(), seek) {
                (0, Seek::At(key) | Seek::Before(key)) => {
                    Leaf::new(&page).search(key).unwrap_or_else(|at| at)
                }
                (0, Seek::Last) => node.len(),
                (_, Seek::At(key)) => Inner::new(&page).find(key),
                (_, Seek::Before(key)) => Inner::new(&page).find_before(key),
                (_, Seek::Last) => node.len().saturating_sub(1),
            };
            path.push(PathStep { page: page.page_no(), slot, len: node.len() });
        }
        Ok(path)
    }

    /// Estimates what lies from `from` on and below `to`; `None`: to the end. It is exact where the
    /// range covers few leaves. REQUIRES: no latch held.
    pub(crate) fn range_size(&self, from: &[u8], to: Option<&[u8]>) -> Result<RangeSize> {
        if to.is_some_and(|to| to <= from) {
            return Ok(RangeSize { exact: true, ..RangeSize::default() });
        }
        let lower = self.path(Seek::At(from))?;
        let upper = self.path(to.map_or(Seek::Last, Seek::At))?;
        let (first, last) = (lower.first().map(|step| step.page), upper.first().map(|step| step.page));
        let counted = match last.filter(|_| first != last) {
            Some(last) => self.count_leaves(from, last)?,
            None => CountedLeaves::default(),
        };
        Ok(range_between(&lower, &upper, counted))
    }

    /// Counts the leaves from that of `from` on, until `last` or until they are many.
    fn count_leaves(&self, from: &[u8], last: PageNo) -> Result<CountedLeaves> {
        let (mut counted, mut key) = (CountedLeaves::default(), from.to_vec());
        loop {
            let page = self.tree.leaf_read(self.store, &key)?;
            if page.page_no() == last {
                counted.all = true;
                return Ok(counted);
            }
            let leaf = Leaf::new(&page);
            let Some(high) = leaf.high_fence().filter(|_| counted.leaves < COUNTED_LEAVES) else {
                return Ok(counted);
            };
            (counted.rows, counted.leaves) = (counted.rows + u32::from(leaf.len()), counted.leaves + 1);
            key.clear();
            key.extend_from_slice(high);
        }
    }

    /// Returns the level of the root, and how many children it has; 0 if it is a leaf.
    fn root_shape(&self) -> Result<(u8, u16)> {
        let (mut top, mut children) = (0, 0);
        while let Some(found) = self.tree.descend(self.store, Seek::Last, top + 1, false)? {
            let Latched::Read(page) = found.page else { unreachable!("a shared latch was asked for") };
            children = Node::new(&page).len();
            top += 1;
        }
        Ok((top, children))
    }

    /// Returns keys that lead to leaves at equal distances, at most `most`, in order; and whether
    /// these are all leaves.
    fn sample_keys(&self, most: u16) -> Result<(Vec<Vec<u8>>, bool)> {
        let (top, children) = self.root_shape()?;
        let all = top == 0 || top == 1 && children <= most;
        let samples = if all { children.max(1) } else { most };
        let share = |n: u16| (f64::from(n) + 0.5) / f64::from(samples);
        let keys = (0..samples).map(|n| self.key_at(top, share(n))).collect::<Result<_>>()?;
        Ok((keys, all))
    }

    /// Returns a key of the leaf before which about `share` of all leaves lie. `top` is the level
    /// of the root.
    fn key_at(&self, top: u8, share: f64) -> Result<Vec<u8>> {
        let (mut key, mut share) = (Vec::new(), share);
        for level in (1..=top).rev() {
            let Some(found) = self.tree.descend(self.store, Seek::At(&key), level, false)? else { break };
            let Latched::Read(page) = found.page else { unreachable!("a shared latch was asked for") };
            let inner = Inner::new(&page);
            let at = share * f64::from(inner.len());
            let slot = (at as u16).min(inner.len().saturating_sub(1));
            share = (at - f64::from(slot)).clamp(0.0, 1.0);
            key = key.max(inner.key(slot).to_vec());
        }
        Ok(key)
    }

    /// Estimates the size of the tree from paths that are spread over it (Knuth, "Estimating the
    /// efficiency of backtrack programs", 1975). It is exact for a tree of few leaves. REQUIRES: no
    /// latch held.
    pub(crate) fn size(&self) -> Result<TreeSize> {
        let (keys, _all) = self.sample_keys(SAMPLES)?;
        let page_bytes = self.store.pool.page_bytes();
        let mut sum = TreeSize::default();
        for key in &keys {
            let path = self.path(Seek::At(key))?;
            let (mut nodes, mut pages) = (1.0, 0.0);
            for step in path.iter().skip(1).rev() {
                pages += nodes;
                nodes *= f64::from(step.len);
            }
            let content = LeafContent::of(&Leaf::new(&self.tree.leaf_read(self.store, key)?), page_bytes);
            sum.rows += nodes * f64::from(content.rows);
            sum.pages += pages + nodes;
            sum.value_pages += nodes * content.value_pages as f64;
        }
        let count = keys.len() as f64;
        Ok(TreeSize {
            rows: sum.rows / count,
            pages: sum.pages / count,
            value_pages: sum.value_pages / count,
        })
    }

    /// Shows the keys of at most `leaves` leaves in order, each with the first key of the next
    /// leaf, without those of delete marks, and for each key whether it follows the one before
    /// without a gap. A tree that has no more leaves is shown whole. REQUIRES: no latch held.
    pub(crate) fn sample(&self, leaves: u16, visit: &mut dyn FnMut(&[u8], bool)) -> Result {
        let (starts, all) = self.sample_keys(leaves)?;
        let (mut leaf, mut next) = (Vec::new(), Vec::new());
        let mut last_page = None;
        let mut any = false;
        for start in starts {
            let page_no = self.copy_leaf(&start, &mut leaf)?;
            if last_page.replace(page_no) == Some(page_no) {
                continue;
            }
            let shown = show_keys(&Leaf::new(&leaf), usize::MAX, all && any, visit);
            any |= shown;
            // Splits may cut a tree where the beginning of its keys changes, so the step from one
            // leaf to the next is as much a part of the sample as those inside.
            if let Some(high) = Leaf::new(&leaf).high_fence().filter(|_| shown && !all) {
                self.copy_leaf(high, &mut next)?;
                show_keys(&Leaf::new(&next), 1, true, visit);
            }
        }
        Ok(())
    }

    /// Puts a copy of the leaf that covers `key` into `copy`, and returns its number.
    fn copy_leaf(&self, key: &[u8], copy: &mut Vec<u8>) -> Result<PageNo> {
        let page = self.tree.leaf_read(self.store, key)?;
        copy.clear();
        copy.extend_from_slice(&page);
        Ok(page.page_no())
    }
}

/// Shows at most `most` keys of a leaf, without those of delete marks. `follows` says it of the
/// first. Returns whether there were any.
fn show_keys(leaf: &Leaf<'_>, most: usize, follows: bool, visit: &mut dyn FnMut(&[u8], bool)) -> bool {
    let (mut key, mut follows, mut shown) = (Vec::new(), follows, false);
    let live = (0..leaf.len()).filter(|&slot| leaf.row(slot).flags & DELETED == 0);
    for slot in live.take(most) {
        leaf.key(slot).copy_to(&mut key);
        visit(&key, follows);
        (follows, shown) = (true, true);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(page: u32, slot: u16, len: u16) -> PathStep {
        PathStep { page: PageNo(page), slot, len }
    }

    /// Paths from the leaf upwards, and the entries between them.
    #[test]
    fn entries_between_two_paths() {
        let between = |low: &[PathStep], up: &[PathStep]| between(low, up, 1.0, None);
        // In one leaf: exact, whatever stands above.
        let top = step(1, 3, 10);
        assert_eq!(between(&[step(5, 10, 100), top], &[step(5, 17, 100), top]), 7.0);
        assert_eq!(between(&[step(5, 17, 100), top], &[step(5, 10, 100), top]), 0.0, "the wrong way round");
        // Half of one leaf, two whole ones, a tenth of another; all leaves have 100 entries.
        let (low, up) = ([step(5, 50, 100), step(1, 3, 10)], [step(8, 10, 100), step(1, 6, 10)]);
        assert!((between(&low, &up) - 260.0).abs() < 0.001, "{}", between(&low, &up));
        // They part two levels up: the rest of a child, and a part of the next.
        let low = [step(5, 0, 100), step(2, 8, 10), step(1, 0, 4)];
        let up = [step(9, 0, 100), step(3, 3, 10), step(1, 1, 4)];
        assert!((between(&low, &up) - 500.0).abs() < 0.001, "{}", between(&low, &up));
        // An empty tree, and one whose height changed between the two descents.
        assert_eq!(between(&[step(1, 0, 0)], &[step(1, 0, 0)]), 0.0);
        assert_eq!(between(&[step(5, 10, 20), top], &[step(5, 15, 20)]), 5.0);
    }

    #[test]
    fn a_range_of_counted_leaves_is_exact() {
        let (low, up) = ([step(5, 30, 80), step(1, 3, 10)], [step(8, 10, 20), step(1, 6, 10)]);
        let found = range_between(&low, &up, CountedLeaves { rows: 300, leaves: 3, all: true });
        assert_eq!(found, RangeSize { rows: 280.0, leaves: 4.0, exact: true });
        let found = range_between(&low[..1], &[step(5, 40, 80)], CountedLeaves::default());
        assert_eq!(found, RangeSize { rows: 10.0, leaves: 1.0, exact: true });
        // The last leaf is nearly empty: what was counted tells more of the leaves between.
        let (low, up) = ([step(5, 0, 80), step(1, 0, 50)], [step(8, 10, 20), step(1, 40, 50)]);
        let found = range_between(&low, &up, CountedLeaves { rows: 640, leaves: 8, all: false });
        assert_eq!((found.rows, found.leaves, found.exact), (3240.0, 41.0, false));
    }
}
