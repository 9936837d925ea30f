//! Which pages replay reads together.
//!
//! The first window of a long log changes most pages, but not all, and one I/O reads only pages
//! that lie side by side. Those between are needed by a later window. So, where all pages fit the
//! pool, a worker that needs a page reads those of its neighbours too that lack redo.

use super::on_demand::pending::Pending;
use super::window::neighbours;
use base::PageNo;
use std::collections::BTreeSet;

/// Neighbours are read too if all pages that lack redo take at most this part (1/n) of the pool.
const POOL_PART: usize = 2;

/// Whether pages that lack redo stay in the pool if they are read long before they are changed.
pub(super) fn all_fit(pending_pages: usize, frames: usize) -> bool {
    pending_pages <= frames / POOL_PART
}

/// What a worker reads.
#[derive(Debug)]
pub(super) struct NeighbourReads {
    all_fit: bool,
    /// The first pages of neighbours that have been read.
    read: BTreeSet<PageNo>,
}

impl NeighbourReads {
    pub(super) fn new(all_fit: bool) -> NeighbourReads {
        NeighbourReads { all_fit, read: BTreeSet::new() }
    }

    /// Adds a page to those that are to be read, and its neighbours the first time. REQUIRES: pages
    /// are added in ascending order, and `wanted` has nothing else.
    pub(super) fn want(&mut self, page: PageNo, pending: &Pending, wanted: &mut Vec<PageNo>) {
        if wanted.last().is_some_and(|last| page <= *last) {
            // It came with a neighbour, unless it lacks nothing.
            return;
        }
        let all = neighbours(page);
        if self.all_fit && self.read.insert(*all.start()) {
            pending.pending_among(all, wanted);
        } else {
            wanted.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_demand::pending::tests::pending;
    use super::*;
    use base::Lsn;

    #[test]
    fn neighbours_are_read_once() {
        let lacking = [3, 64, 66, 67, 100, 127, 128, 200];
        let (_dir, pending) =
            pending("replay-reads-neighbours", 1 << 20, &lacking.map(|page| (PageNo(page), Lsn(9))));
        let mut reads = NeighbourReads::new(true);
        let want = |reads: &mut NeighbourReads, pages: &[u32]| {
            let mut wanted = Vec::new();
            pages.iter().for_each(|page| reads.want(PageNo(*page), &pending, &mut wanted));
            wanted.into_iter().map(|page| page.0).collect::<Vec<_>>()
        };
        assert_eq!(want(&mut reads, &[66, 80, 100, 128]), [64, 66, 67, 100, 127, 128]);
        assert_eq!(want(&mut reads, &[66, 80, 100, 200]), [66, 80, 100, 200], "80 is left out later");
        assert_eq!(want(&mut NeighbourReads::new(false), &[3, 100]), [3, 100]);
        assert!(all_fit(50, 100) && !all_fit(51, 100));
    }
}
