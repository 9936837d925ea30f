//! The page table: a hash table from page number to frame. It has about two chains for each frame,
//! so its size follows from the pool's size, not from the file's.
//!
//! Readers follow a chain without a lock. What they find is a hint, until the frame is pinned and
//! confirms that it holds the page. A frame that moves to another chain takes a reader on it along,
//! so the reader may miss a page that is there. A reader that finds nothing therefore looks again
//! under the mutex under which the chain changes. If it finds nothing then, the page is not there.

use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, Ordering};
use base::{CachePadded, PageNo, Sharded};

use super::frame::{Frame, Frames};

/// Mutexes for all chains together.
const MUTEXES: usize = 64;

/// The mutex of every 64th chain, on a cache line of its own.
type ChainMutex = CachePadded<Mutex<()>>;

/// The table.
#[derive(Debug)]
pub(super) struct PageTable {
    /// The first frame of each chain: its number plus one, or 0 for an empty chain. The number of
    /// chains is a power of two.
    heads: Box<[AtomicU32]>,
    /// A hash shifted right by this is the number of its chain.
    shift: u32,
    mutexes: Sharded<ChainMutex, MUTEXES>,
}

impl PageTable {
    /// Returns an empty table for a pool of `frames` frames.
    pub(super) fn new(frames: usize) -> Self {
        let chains = Self::chains(frames);
        PageTable {
            heads: (0..chains).map(|_| AtomicU32::new(0)).collect(),
            shift: 32 - chains.trailing_zeros(),
            mutexes: Sharded::default(),
        }
    }

    fn chains(frames: usize) -> usize {
        (2 * frames).next_power_of_two().max(MUTEXES)
    }

    /// Returns the size of the table for `frames` frames, bytes.
    pub(super) fn bytes(frames: usize) -> usize {
        Self::chains(frames) * size_of::<AtomicU32>() + MUTEXES * size_of::<ChainMutex>()
    }

    #[inline]
    fn chain(&self, page: PageNo) -> usize {
        // Neighbours in the file are read together; they hash to different chains.
        (page.0.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Returns the mutex under which a chain changes.
    fn mutex(&self, chain: usize) -> &Mutex<()> {
        self.mutexes.of(chain as u64)
    }

    /// Returns the frame that holds `page`, if there is one.
    #[inline]
    pub(super) fn get(&self, frames: &Frames, page: PageNo) -> Option<u32> {
        self.hint(frames, page).map(|(index, _)| index).or_else(|| self.get_locked(frames, page))
    }

    /// As [`PageTable::get`], with the frame's control block, but it may miss a frame while others
    /// are added or removed.
    #[inline]
    pub(super) fn hint<'f>(&self, frames: &'f Frames, page: PageNo) -> Option<(u32, &'f Frame)> {
        let mut at = self.heads[self.chain(page)].load(Ordering::Acquire);
        while let Some(index) = at.checked_sub(1) {
            let frame = frames.get(index);
            if frame.names(page) {
                return Some((index, frame));
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Returns the frame that holds `page`, if there is one, after [`PageTable::hint`] has found
    /// none. Takes the chain's mutex.
    #[cold]
    pub(super) fn get_locked(&self, frames: &Frames, page: PageNo) -> Option<u32> {
        let _changing = self.mutex(self.chain(page)).lock();
        self.hint(frames, page).map(|(index, _)| index)
    }

    /// Enters `page` unless it has a frame. Returns whether it did. REQUIRES: the frame has the
    /// page's number and is in no chain.
    pub(super) fn enter(&self, frames: &Frames, page: PageNo, frame: u32) -> bool {
        let chain = self.chain(page);
        let _changing = self.mutex(chain).lock();
        if self.hint(frames, page).is_some() {
            return false;
        }
        let head = &self.heads[chain];
        frames.get(frame).next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(frame + 1, Ordering::Release);
        true
    }

    /// Removes `page`. REQUIRES: the table has it in `frame`.
    pub(super) fn remove(&self, frames: &Frames, page: PageNo, frame: u32) {
        let chain = self.chain(page);
        let _changing = self.mutex(chain).lock();
        let mut link = &self.heads[chain];
        loop {
            let at = link.load(Ordering::Relaxed);
            assert!(at != 0, "{page:?} is not in the frame that it is removed from");
            let here = frames.get(at - 1);
            if at == frame + 1 {
                return link.store(here.next.load(Ordering::Relaxed), Ordering::Release);
            }
            link = &here.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use metrics::Metrics;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn frames(count: usize) -> Frames {
        Frames::new(count, 4096, &Arc::new(Metrics::new())).unwrap()
    }

    /// Gives a page to a free frame, and enters it.
    fn put(table: &PageTable, frames: &Frames, page: PageNo, frame: u32) -> bool {
        frames.get(frame).publish(page);
        let entered = table.enter(frames, page, frame);
        if !entered {
            frames.get(frame).withdraw();
            frames.get(frame).forget_page();
        }
        entered
    }

    fn take(table: &PageTable, frames: &Frames, page: PageNo, frame: u32) {
        table.remove(frames, page, frame);
        frames.get(frame).withdraw();
        frames.get(frame).forget_page();
    }

    #[test]
    fn each_page_has_one_frame_whatever_its_number() {
        let (table, frames) = (PageTable::new(40), frames(40));
        let (mut rng, mut model) = (Prng::new(1), BTreeMap::new());
        for _ in 0..20_000 {
            // Few pages, so they share chains; some lie far beyond the pool's size.
            let page = PageNo((rng.below(60) as u32).wrapping_mul(0x0400_0001));
            let free = (0..40).find(|frame| !model.values().any(|used| used == frame));
            match (rng.below(2), model.get(&page).copied(), free) {
                (0, Some(frame), _) => {
                    take(&table, &frames, page, frame);
                    model.remove(&page);
                }
                (1, had, Some(free)) => {
                    assert_eq!(put(&table, &frames, page, free), had.is_none());
                    model.entry(page).or_insert(free);
                }
                _ => {}
            }
            assert_eq!(table.get(&frames, page), model.get(&page).copied());
        }
        for (page, frame) in model {
            assert_eq!(table.get(&frames, page), Some(frame));
        }
    }

    /// A frame moves to another chain while a reader is on it.
    #[test]
    fn a_page_that_stays_is_found_while_others_are_added_and_removed() {
        let (table, frames, at_work) = (PageTable::new(64), frames(64), AtomicU32::new(2));
        // Only two chains are used, so they are long. Page 0 is left out: free frames have its
        // number, so a reader on a free frame takes it for a hint of page 0. The pool then sees
        // that it is none.
        let few: Vec<_> =
            (1..100_000u32).map(PageNo).filter(|page| table.chain(*page) < 2).take(60).collect();
        for (frame, page) in few[..20].iter().enumerate() {
            assert!(put(&table, &frames, *page, frame as u32));
        }
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (table, frames, few, at_work) = (&table, &frames, &few, &at_work);
                scope.spawn(move || {
                    let own = 20 + 20 * writer as usize;
                    for round in 0..40_000 {
                        // Each frame gets another page, mostly of another chain, than in the round
                        // before.
                        let held = (0..10).map(|n| (few[own + (n + 7 * round) % 20], (own + n) as u32));
                        held.clone().for_each(|(page, frame)| assert!(put(table, frames, page, frame)));
                        held.for_each(|(page, frame)| take(table, frames, page, frame));
                    }
                    at_work.fetch_sub(1, Ordering::Relaxed);
                });
            }
            while at_work.load(Ordering::Relaxed) > 0 {
                for (frame, page) in few[..20].iter().enumerate() {
                    assert_eq!(table.get(&frames, *page), Some(frame as u32));
                }
            }
        });
    }
}
