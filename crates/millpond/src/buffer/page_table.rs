//! Page number → frame: chains of frames, as many as two for each frame, so that its size follows from the pool's and not from the
//! file's.
//!
//! Readers follow a chain without a lock, and what they find is a hint until the frame, once pinned, confirms that it holds the page. A
//! frame that goes into another chain under a reader's feet leads him there, so that he misses what is there: who finds nothing looks again
//! under the mutex under which the chain changes, and then it is not there.

use base::PageNo;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, Ordering};

use super::frame::{Frame, Frames};

/// Mutexes for all chains.
const STRIPES: usize = 64;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(Mutex<()>);

/// The table.
#[derive(Debug)]
pub(super) struct PageTable {
    /// The first frame of each chain, by its number plus one; 0: none. A power of two of them.
    heads: Box<[AtomicU32]>,
    /// What is left of a hash is the chain.
    shift: u32,
    stripes: Box<[Stripe]>,
}

impl PageTable {
    /// An empty table for so many frames.
    pub(super) fn new(frames: usize) -> Self {
        let chains = Self::chains(frames);
        PageTable {
            heads: (0..chains).map(|_| AtomicU32::new(0)).collect(),
            shift: 32 - chains.trailing_zeros(),
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
        }
    }

    fn chains(frames: usize) -> usize {
        (2 * frames).next_power_of_two().max(STRIPES)
    }

    /// Bytes that the table takes for so many frames.
    pub(super) fn bytes(frames: usize) -> usize {
        Self::chains(frames) * size_of::<AtomicU32>() + STRIPES * size_of::<Stripe>()
    }

    #[inline]
    fn chain(&self, page: PageNo) -> usize {
        // Neighbours in the file, which are read together, come into chains of their own.
        (page.0.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// The frame that holds `page`, if one does.
    #[inline]
    pub(super) fn get(&self, frames: &Frames, page: PageNo) -> Option<u32> {
        self.hint(frames, page).map(|(index, _)| index).or_else(|| self.get_surely(frames, page))
    }

    /// The same, with its control block, but it may miss one while others come and go.
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

    /// The frame that holds `page`, if one does, for who has had no hint of one.
    #[cold]
    pub(super) fn get_surely(&self, frames: &Frames, page: PageNo) -> Option<u32> {
        let _changing = self.stripes[self.chain(page) % STRIPES].0.lock();
        self.hint(frames, page).map(|(index, _)| index)
    }

    /// Enters `page` unless it has a frame. REQUIRES: the frame names the page, and is in no chain.
    pub(super) fn enter(&self, frames: &Frames, page: PageNo, frame: u32) -> bool {
        let chain = self.chain(page);
        let _changing = self.stripes[chain % STRIPES].0.lock();
        if self.hint(frames, page).is_some() {
            return false;
        }
        let head = &self.heads[chain];
        frames.get(frame).next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(frame + 1, Ordering::Release);
        true
    }

    /// Takes `page` out; `frame` must be what it has.
    pub(super) fn remove(&self, frames: &Frames, page: PageNo, frame: u32) {
        let chain = self.chain(page);
        let _changing = self.stripes[chain % STRIPES].0.lock();
        let mut link = &self.heads[chain];
        loop {
            let at = link.load(Ordering::Relaxed);
            assert!(at != 0, "{page:?} is not in the frame that gives it up");
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

    /// Gives a frame that is nobody's a page, and enters it.
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
    fn one_frame_a_page_whatever_the_page_numbers() {
        let (table, frames) = (PageTable::new(40), frames(40));
        let (mut rng, mut model) = (Prng::new(1), BTreeMap::new());
        for _ in 0..20_000 {
            // Few pages, so that they meet, some of them far beyond the pool's size.
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

    /// A reader stands on a frame that goes to another chain.
    #[test]
    fn what_is_there_is_found_while_others_come_and_go() {
        let (table, frames, at_work) = (PageTable::new(64), frames(64), AtomicU32::new(2));
        // Of all chains only two are used, so that they are long. Page 0 is left out: a free frame has its number, so that a reader who
        // stands on one takes it for a hint of page 0, which the pool then sees to be none.
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
                        // Frame by frame another page, mostly of another chain, than the round before.
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
