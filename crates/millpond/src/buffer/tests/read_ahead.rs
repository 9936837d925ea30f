//! Reading ahead, seen from the pool: which frames it takes, and what it leaves alone.

use super::*;
use crate::buffer::{Siblings, Stamp};

/// The page that names the others.
const PARENT: PageNo = PageNo(1);

impl World {
    fn stamp(&self) -> Stamp {
        self.pool.stamp(PARENT).unwrap()
    }

    fn read_ahead(&self, pages: std::ops::Range<u32>, stamp: Stamp, hint: FetchHint) -> usize {
        let siblings = Siblings { pages: pages.map(PageNo).collect(), parent: PARENT, stamp };
        siblings.read_ahead(&self.pool, hint)
    }

    fn resident(&self, pages: std::ops::Range<u32>) -> usize {
        pages.filter(|page| self.pool.resident_state(PageNo(*page)).is_some()).count()
    }

    fn unused(&self) -> u64 {
        self.metrics.snapshot().value(M::PagesReadAheadUnused)
    }
}

#[test]
fn pages_read_ahead_are_there_and_count_as_used_only_when_they_are() {
    let w = world(16);
    drop(w.fetch(PARENT.0));
    assert_eq!(w.read_ahead(10..14, w.stamp(), FetchHint::Normal), 4);
    assert_eq!((w.resident(10..14), w.file.reads()), (4, 5));
    drop(w.fetch(11));
    // All is evicted: the hand finds nothing else.
    w.pool.sweep(16, usize::MAX);
    w.pool.sweep(16, usize::MAX);
    assert_eq!((w.resident(10..14), w.unused()), (0, 2), "12 and 13; 10 was needed, 11 was fetched");
}

#[test]
fn reading_ahead_leaves_the_reserve_and_pages_in_use() {
    let w = world(16);
    let parent = w.fetch(PARENT.0);
    w.pool.set_free_reserve(4);
    // There are 15 free frames, and 4 of them stay.
    assert_eq!(w.read_ahead(10..40, w.stamp(), FetchHint::Normal), 11);
    assert_eq!((w.resident(10..40), w.pool.free_frames()), (11, 4));
    // Pinned pages stay, so there is no frame at all.
    let pins: Vec<_> = (10..21).map(|page| w.fetch(page)).collect();
    assert_eq!(w.read_ahead(40..50, w.stamp(), FetchHint::Normal), 0);
    assert_eq!((w.resident(40..50), w.pool.free_frames()), (0, 4));
    // Pages that nobody has used for a round of the hand do not.
    drop((pins, parent));
    let pages = (0..10).map(|n| w.read_ahead(40 + n..50, w.stamp(), FetchHint::Normal)).max();
    assert!(pages > Some(0) && w.pool.free_frames() == 4);
}

/// A page may have been freed since its parent was read, and a bulk load writes freed pages past
/// the pool.
#[test]
fn nothing_is_read_ahead_if_the_parent_has_changed() {
    let w = world(16);
    let before = { w.fetch(PARENT.0).read().stamp() };
    drop(w.fetch(PARENT.0).write());
    let reads = w.file.reads();
    assert_eq!(w.read_ahead(10..14, before, FetchHint::Normal), 0);
    assert_eq!((w.resident(10..14), w.file.reads(), w.pool.free_frames()), (0, reads, 15));
    assert_eq!(w.read_ahead(10..14, w.stamp(), FetchHint::Normal), 4);
}

#[test]
fn a_failed_or_damaged_page_leaves_the_others() {
    let w = world(16);
    drop(w.fetch(PARENT.0));
    w.file.damage(PageNo(11));
    assert_eq!(w.read_ahead(10..14, w.stamp(), FetchHint::Normal), 4);
    assert_eq!((w.resident(10..14), w.resident(11..12), w.pool.free_frames()), (3, 0, 12));
    assert!(matches!(w.pool.fetch(PageNo(11)), Err(Error::Corrupt { .. })));
    w.file.fail_reads(true);
    w.read_ahead(20..24, w.stamp(), FetchHint::Normal);
    assert_eq!((w.resident(20..24), w.pool.free_frames()), (0, 12));
}

/// A batch takes all its frames before it gives one back, so two batches must fit in the ring.
#[test]
fn long_scans_read_ahead_into_the_frames_that_they_filled() {
    let w = world(256);
    w.pool.set_free_reserve(16);
    (1000..1224).for_each(|page| drop(w.fetch(page)));
    drop(w.fetch(PARENT.0));
    for batch in 0..40 {
        let first = 2000 + 8 * batch;
        assert_eq!(w.read_ahead(first..first + 8, w.stamp(), FetchHint::Scan), 8, "batch {batch}");
        (first..first + 8).for_each(|page| drop(w.pool.fetch_with(PageNo(page), FetchHint::Scan).unwrap()));
        let left = w.resident(1000..1224);
        assert!(left >= 224 - 32, "batch {batch}: {left} pages of others are left");
    }
    assert!(w.pool.free_frames() >= 15 && w.unused() == 0);
}
