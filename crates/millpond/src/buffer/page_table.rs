//! The page table: a hash table from page number to frame. It has about two chains for each frame,
//! so its size follows from the pool's size, not from the file's.
//!
//! Readers follow a chain without a lock. What they find is a hint, until the frame is pinned and
//! confirms that it holds the page. A frame that moves to another chain takes a reader on it along,
//! so the reader may miss a page that is there. A reader that finds nothing therefore looks again
//! under the mutex under which the chain changes. If it finds nothing then, the page is not there.
//!
//! A pool that gets another size gets twice or half the chains, one *level* more or less, as often
//! as needed. The chains of a level lie after those of the level below it. The last bits of a hash
//! are the number of its chain, so a chain of a level has the hashes of two chains of the next
//! level. They move in the order of the smaller level's chains, one chain or two at a time, under
//! the mutex of these hashes. So for all chains below a border the next level is valid, and for the
//! others the old one. A reader with an outdated border finds an empty chain, and looks again under
//! the mutex.

use std::io;

use base::sync::Mutex;
use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use base::{CachePadded, PageNo, Sharded};

use super::arena::GrowingArray;
use super::frame::{Frame, Frames};
use crate::planted::{Bug, planted};

/// Mutexes for all chains together.
const MUTEXES: usize = 64;
/// The least level: a mutex has at least one chain.
const LEVEL_MIN: u32 = MUTEXES.trailing_zeros();
/// The greatest level, which has a chain for every second page number.
const LEVEL_MAX: u32 = 31;

/// The mutex of a 64th of all hashes, on a cache line of its own.
type ChainMutex = CachePadded<Mutex<()>>;

/// The table.
#[derive(Debug)]
pub(super) struct PageTable {
    /// The first frame of each chain: its number plus one, or 0 for an empty chain. Chain `n` of a
    /// level with `2^l` chains is at `2^l + n`.
    heads: GrowingArray<AtomicU32>,
    /// [`Levels`] in one word.
    levels: AtomicU64,
    mutexes: Sharded<ChainMutex, MUTEXES>,
}

/// Which chains are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Levels {
    /// The level of chains from the border on.
    old: u32,
    /// The level of chains below the border.
    new: u32,
    /// A chain of the smaller of both levels; 0 if no chain is being moved.
    border: u64,
}

impl Levels {
    #[inline]
    fn from_word(word: u64) -> Levels {
        Levels { old: word as u32 & 0xff, new: (word >> 8) as u32 & 0xff, border: word >> 16 }
    }

    fn word(self) -> u64 {
        u64::from(self.old) | u64::from(self.new) << 8 | self.border << 16
    }

    /// Returns the index of the head of the chain of a hash.
    #[inline]
    fn head_index(self, hash: u32) -> usize {
        let is_moved = u64::from(chain(self.old.min(self.new), hash)) < self.border;
        head_index(if is_moved { self.new } else { self.old }, hash)
    }
}

/// Returns the number of the chain that a hash has at a level.
#[inline]
fn chain(level: u32, hash: u32) -> u32 {
    hash & ((1 << level) - 1)
}

/// Returns the index of the head of the chain that a hash has at a level.
#[inline]
fn head_index(level: u32, hash: u32) -> usize {
    (1 << level) + chain(level, hash) as usize
}

/// Bits of the number of a page within its region of the file.
const REGION_BITS: u32 = 16;

/// Neighbours in the file have neighbouring chains: as long as the file has no more pages than the
/// table has chains, most chains have one page, and the chains that are in use lie close together
/// in the processor's caches. Regions of the file begin anywhere, so no distance between pages that
/// are used makes all chains long.
#[inline]
fn hash(page: PageNo) -> u32 {
    page.0.wrapping_add((page.0 >> REGION_BITS).wrapping_mul(0x9e37_79b1))
}

/// Returns the level for a pool of `frames` frames.
fn level_for(frames: usize) -> u32 {
    (2 * frames).next_power_of_two().trailing_zeros().clamp(LEVEL_MIN, LEVEL_MAX)
}

/// Returns the number of heads of all levels up to this one.
fn heads_up_to(level: u32) -> usize {
    2 << level
}

impl PageTable {
    /// Returns an empty table for a pool of `frames` frames, which may get `most`.
    pub(super) fn new(frames: usize, most: usize) -> io::Result<Self> {
        let level = level_for(frames);
        let heads = GrowingArray::reserve(heads_up_to(level_for(most.max(frames))))?;
        heads.open(heads_up_to(level), |_| {})?;
        let levels = AtomicU64::new(Levels { old: level, new: level, border: 0 }.word());
        Ok(PageTable { heads, levels, mutexes: Sharded::default() })
    }

    /// Returns the size of the table for `frames` frames, bytes.
    pub(super) fn bytes(frames: usize) -> usize {
        size_of::<AtomicU32>() * (1 << level_for(frames)) + MUTEXES * size_of::<ChainMutex>()
    }

    #[inline]
    fn levels(&self) -> Levels {
        Levels::from_word(self.levels.load(Ordering::Acquire))
    }

    /// Returns the first frame of the chain of a hash.
    #[inline]
    fn head(&self, hash: u32) -> &AtomicU32 {
        self.heads.get(self.levels().head_index(hash))
    }

    /// Returns the mutex under which the chain of a hash changes, at any level.
    fn mutex(&self, hash: u32) -> &Mutex<()> {
        self.mutexes.of(u64::from(chain(LEVEL_MIN, hash)))
    }

    /// Gives the table the size for `frames` frames. Other threads use it meanwhile. REQUIRES: only
    /// one thread is in this call, and the pool may have so many frames.
    pub(super) fn resize(&self, all: &Frames, frames: usize) -> io::Result<()> {
        let wanted = level_for(frames);
        self.heads.open(heads_up_to(wanted), |_| {})?;
        loop {
            let level = self.levels().old;
            if level == wanted {
                return Ok(());
            }
            let next = if wanted > level { level + 1 } else { level - 1 };
            for border in 1..=1 << level.min(next) {
                self.move_chains(all, Levels { old: level, new: next, border });
            }
            self.levels.store(Levels { old: next, new: next, border: 0 }.word(), Ordering::Release);
            // No thread writes to these chains any more: each takes the level under the mutex.
            self.heads.clear(1 << level..2 << level);
        }
    }

    /// Moves the pages of the last chain below the border to their next level.
    fn move_chains(&self, all: &Frames, after: Levels) {
        let Levels { old, new, border } = after;
        let (smaller, moved) = (old.min(new), (border - 1) as u32);
        let _changing = (!planted(Bug::ChainsMovedUnlocked)).then(|| self.mutex(moved).lock());
        for index_before in (head_index(old, moved)..2 << old).step_by(1 << smaller) {
            let head = self.heads.get(index_before);
            let mut at = head.load(Ordering::Relaxed);
            while let Some(index) = at.checked_sub(1) {
                let frame = all.get(index);
                at = frame.next.load(Ordering::Relaxed);
                let head = self.heads.get(head_index(new, hash(frame.page_no())));
                frame.next.store(head.load(Ordering::Relaxed), Ordering::Release);
                head.store(index + 1, Ordering::Release);
            }
            head.store(0, Ordering::Release);
        }
        self.levels.store(after.word(), Ordering::Release);
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
        let mut at = self.head(hash(page)).load(Ordering::Acquire);
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
        let _changing = self.mutex(hash(page)).lock();
        self.hint(frames, page).map(|(index, _)| index)
    }

    /// Enters `page` unless it has a frame. Returns whether it did. REQUIRES: the frame has the
    /// page's number and is in no chain.
    pub(super) fn enter(&self, frames: &Frames, page: PageNo, frame: u32) -> bool {
        let hash = hash(page);
        let _changing = self.mutex(hash).lock();
        if self.hint(frames, page).is_some() {
            return false;
        }
        let head = self.head(hash);
        frames.get(frame).next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(frame + 1, Ordering::Release);
        true
    }

    /// Removes `page`. REQUIRES: the table has it in `frame`.
    pub(super) fn remove(&self, frames: &Frames, page: PageNo, frame: u32) {
        let hash = hash(page);
        let _changing = self.mutex(hash).lock();
        let mut link = self.head(hash);
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
        Frames::new(count, count, 4096, &Arc::new(Metrics::new())).unwrap()
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
        let (table, frames) = (PageTable::new(40, 40).unwrap(), frames(40));
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
        let (table, frames, at_work) = (PageTable::new(64, 64).unwrap(), frames(64), AtomicU32::new(2));
        // Only two chains are used, so they are long. Page 0 is left out: free frames have its
        // number, so a reader on a free frame takes it for a hint of page 0. The pool then sees
        // that it is none.
        let few: Vec<_> =
            (1..100_000u32).map(PageNo).filter(|page| chain(7, hash(*page)) < 2).take(60).collect();
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

    #[test]
    fn a_page_that_stays_is_found_while_the_table_gets_other_sizes() {
        let (table, frames, at_work) = (PageTable::new(40, 5000).unwrap(), frames(200), AtomicU32::new(1));
        for frame in 0..100 {
            assert!(put(&table, &frames, PageNo(1 + frame * 7919), frame));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for sizes in 0..300 {
                    table.resize(&frames, [2000, 10, 40, 5000][sizes % 4]).unwrap();
                }
                at_work.store(0, Ordering::Relaxed);
            });
            scope.spawn(|| {
                // Other pages come and go in the chains that are being moved.
                while at_work.load(Ordering::Relaxed) > 0 {
                    let held = (100..200).map(|frame| (PageNo(frame * 104_729), frame));
                    held.clone().for_each(|(page, frame)| assert!(put(&table, &frames, page, frame)));
                    held.for_each(|(page, frame)| take(&table, &frames, page, frame));
                }
            });
            while at_work.load(Ordering::Relaxed) > 0 {
                for frame in 0..100 {
                    assert_eq!(table.get(&frames, PageNo(1 + frame * 7919)), Some(frame));
                }
            }
        });
        assert_eq!(table.levels(), Levels { old: 14, new: 14, border: 0 });
        let chains = heads_up_to(14) / 2..heads_up_to(14);
        let used = (0..heads_up_to(14)).filter(|index| table.heads.get(*index).load(Ordering::Relaxed) > 0);
        assert!(used.clone().all(|index| chains.contains(&index)) && used.count() > 90);
    }

    #[test]
    fn levels_fit_in_a_word() {
        let levels = Levels { old: LEVEL_MAX, new: LEVEL_MAX - 1, border: 1 << 30 };
        assert_eq!(Levels::from_word(levels.word()), levels);
        assert_eq!([1, 32, 33, 64, usize::MAX / 4].map(level_for), [6, 6, 7, 7, 31]);
        assert_eq!((head_index(6, 0), head_index(6, u32::MAX), heads_up_to(6)), (64, 127, 128));
    }
}
