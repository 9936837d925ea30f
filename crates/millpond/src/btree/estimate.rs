//! Estimates of how many entries a tree, or a part of it, has, from a few descents.
//!
//! A path is the slot that a descent takes on each level. Two paths that part on some level enclose
//! a number of whole children and two parts of children there. How many entries a child has is
//! taken from the lengths of the nodes on the paths. The tree may change between two latches, so an
//! estimate may be wrong, but never fails for that. Delete marks count as entries.

use super::descend::{Latched, Seek};
use super::tree::Tree;
use crate::error::Result;
use crate::page::node::{Inner, Leaf, Node};
use crate::store::Store;
use base::PageNo;

/// How many paths the size of a whole tree is estimated from.
const SAMPLES: u16 = 12;

/// Where a path passes one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathStep {
    page: PageNo,
    /// The child that it takes; on the lowest level, the number of entries before the key.
    slot: u16,
    /// How many slots the node has.
    len: u16,
}

/// The estimated size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TreeSize {
    /// Entries of the leaves.
    pub(crate) rows: f64,
    /// Leaves and inner nodes.
    pub(crate) pages: f64,
}

/// Returns how many entries lie between two paths, given from the leaf upwards.
fn between(lower: &[PathStep], upper: &[PathStep]) -> f64 {
    let levels = lower.len().min(upper.len());
    // From the leaf upwards: the part of a node before the path, and the entries of a slot.
    let (mut left, mut right, mut rows_of_slot) = (0.0, 0.0, 1.0);
    let mut parted = 0.0;
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
        rows_of_slot *= (f64::from(low.len) + f64::from(up.len)).max(2.0) / 2.0;
    }
    parted
}

impl Tree {
    /// Returns the path to `seek`, from the leaf upwards.
    fn path(&self, store: &Store, seek: Seek<'_>) -> Result<Vec<PathStep>> {
        let mut path = Vec::new();
        while let Some(found) = self.descend(store, seek, path.len() as u8, false)? {
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

    /// Estimates how many entries lie from `from` on and below `to`; `None`: to the end. Within one
    /// leaf it is exact. REQUIRES: no latch held.
    pub(crate) fn estimate(&self, store: &Store, from: &[u8], to: Option<&[u8]>) -> Result<f64> {
        let lower = self.path(store, Seek::At(from))?;
        let upper = self.path(store, to.map_or(Seek::Last, Seek::At))?;
        Ok(between(&lower, &upper))
    }

    /// Returns keys that cut the tree into parts of about the same number of pages. None if the
    /// tree is one leaf.
    fn sample_keys(&self, store: &Store) -> Result<Vec<Vec<u8>>> {
        let mut top = 0;
        let mut keys = Vec::new();
        while let Some(found) = self.descend(store, Seek::Last, top, false)? {
            let Latched::Read(page) = found.page else { unreachable!("a shared latch was asked for") };
            let inner = Node::new(&page);
            keys.clear();
            if top > 0 {
                let samples = inner.len().min(SAMPLES);
                let slot = |n: u16| (u32::from(n) * u32::from(inner.len()) / u32::from(samples)) as u16;
                keys.extend((0..samples).map(|n| inner.key(slot(n)).to_vec()));
            }
            top += 1;
        }
        Ok(keys)
    }

    /// Estimates the size of the tree from paths that are spread over it (Knuth, "Estimating the
    /// efficiency of backtrack programs", 1975). Pages of long values are not counted. REQUIRES: no
    /// latch held.
    pub(crate) fn size(&self, store: &Store) -> Result<TreeSize> {
        let keys = self.sample_keys(store)?;
        if keys.is_empty() {
            let leaf = self.path(store, Seek::Last)?;
            let rows = leaf.first().map_or(0.0, |leaf| f64::from(leaf.len));
            return Ok(TreeSize { rows, pages: leaf.len() as f64 });
        }
        let mut sum = TreeSize::default();
        for key in &keys {
            let path = self.path(store, Seek::At(key))?;
            let (mut nodes, mut pages) = (1.0, 0.0);
            for step in path.iter().rev() {
                pages += nodes;
                nodes *= f64::from(step.len);
            }
            sum = TreeSize { rows: sum.rows + nodes, pages: sum.pages + pages };
        }
        let count = keys.len() as f64;
        Ok(TreeSize { rows: sum.rows / count, pages: sum.pages / count })
    }
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
}
