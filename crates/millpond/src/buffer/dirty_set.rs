//! The dirty set: which pages differ from their file, ordered by first-dirty LSN, and which copies
//! are being written there.
//!
//! The set is divided by frame, each shard behind a mutex of its own. A change marks its pages
//! dirty between reserving its place in the log and publishing it, and a flush of the log waits for
//! that. So no mutex may be held here for long: with one mutex for all, each batch that was noted
//! as written made commits wait (decision 0173).

use std::collections::VecDeque;

use base::sharded::shards;
use base::sync::atomic::Ordering;
use base::sync::{Mutex, MutexGuard};
use base::{CachePadded, Lsn, Sharded};

use super::frame::Frames;
use super::lsn_buckets::{Entry, LsnBuckets};

/// How many parts the set has. Two threads meet in one of 16 in a sixteenth of the cases.
pub(super) const SHARDS: usize = shards(16);

/// Frames, with the LSN in each of their two slots.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    pub(super) shards: Sharded<CachePadded<Mutex<DirtyFrames>>, SHARDS>,
}

impl DirtySet {
    /// The part that a frame belongs to.
    #[inline]
    pub(super) fn of(&self, frame: u32) -> MutexGuard<'_, DirtyFrames> {
        self.shards.of(u64::from(frame)).lock()
    }

    /// All parts, one after the other, each locked while the caller looks at it. An entry stays in
    /// its part, so none is missed that is there from the first look to the last.
    pub(super) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, DirtyFrames>> {
        self.shards.iter().map(|part| part.lock())
    }
}

/// The frames of one part.
#[derive(Debug)]
pub(super) struct DirtyFrames {
    pub(super) dirty: LsnBuckets,
    /// Few: the part's share of the batches that are under way.
    pub(super) writing: Vec<Entry>,
    pub(super) histogram: LsnHistogram,
}

impl Default for DirtyFrames {
    fn default() -> DirtyFrames {
        let histogram = LsnHistogram::default();
        DirtyFrames { dirty: LsnBuckets::new(fine(histogram.shift)), writing: Vec::new(), histogram }
    }
}

/// The width of the buckets, as a shift, for counts in bins of this one. A batch takes buckets
/// whole, so they are narrower.
fn fine(shift: u32) -> u32 {
    shift.saturating_sub(5)
}

/// How many entries of the dirty set lie in each bin of the LSN scale. The counts are kept beside
/// the set: the cleaner asks for them hundreds of times a second and must not walk over the set
/// while writers wait for its mutex.
#[derive(Debug)]
pub(super) struct LsnHistogram {
    /// A bin is `1 << shift` bytes of the log wide.
    pub(super) shift: u32,
    /// The number of the first bin.
    pub(super) first: u64,
    pub(super) pages: VecDeque<u32>,
}

/// The width of bins before the first request tells it: two to the power of this, bytes of the
/// log.
const BIN_SHIFT: u32 = 16;

impl Default for LsnHistogram {
    fn default() -> LsnHistogram {
        LsnHistogram { shift: BIN_SHIFT, first: 0, pages: VecDeque::new() }
    }
}

impl LsnHistogram {
    fn add(&mut self, lsn: Lsn) {
        self.add_pages(lsn.0 >> self.shift, 1);
    }

    fn add_pages(&mut self, bin: u64, pages: u32) {
        if self.pages.is_empty() {
            self.first = bin;
        }
        while bin < self.first {
            self.first -= 1;
            self.pages.push_front(0);
        }
        let index = (bin - self.first) as usize;
        if index >= self.pages.len() {
            self.pages.resize(index + 1, 0);
        }
        self.pages[index] += pages;
    }

    /// Adds the counts of another part. REQUIRES: bins of the same width.
    pub(super) fn add_all(&mut self, other: &LsnHistogram) {
        for (n, pages) in other.pages.iter().enumerate() {
            self.add_pages(other.first + n as u64, *pages);
        }
    }

    fn remove(&mut self, lsn: Lsn) {
        let index = ((lsn.0 >> self.shift) - self.first) as usize;
        self.pages[index] -= 1;
        while self.pages.front() == Some(&0) {
            self.pages.pop_front();
            self.first += 1;
        }
    }
}

impl DirtyFrames {
    /// Enters a frame among the dirty ones.
    pub(super) fn insert_dirty(&mut self, frames: &Frames, lsn: Lsn, frame: u32) {
        let position = self.dirty.insert(lsn, frame);
        frames.get(frame).dirty_position.store(position, Ordering::Relaxed);
        self.histogram.add(lsn);
    }

    /// Takes a frame out of the dirty ones.
    pub(super) fn remove_dirty(&mut self, frames: &Frames, lsn: Lsn, frame: u32) {
        let position = frames.get(frame).dirty_position.load(Ordering::Relaxed);
        if let Some(moved) = self.dirty.remove(lsn, frame, position) {
            frames.get(moved).dirty_position.store(position, Ordering::Relaxed);
        }
        self.histogram.remove(lsn);
    }

    /// Makes the bins `1 << shift` bytes wide.
    pub(super) fn set_shift(&mut self, frames: &Frames, shift: u32) {
        if self.histogram.shift != shift {
            let mut histogram = LsnHistogram { shift, ..LsnHistogram::default() };
            self.dirty.set_shift(fine(shift), |frame, position| {
                frames.get(frame).dirty_position.store(position, Ordering::Relaxed);
            });
            for (_, entries) in self.dirty.each() {
                entries.iter().for_each(|&(lsn, _)| histogram.add(lsn));
            }
            self.histogram = histogram;
        }
    }

    /// Returns the least LSN of a copy that is being written.
    pub(super) fn min_writing(&self) -> Option<Lsn> {
        self.writing.iter().map(|&(lsn, _)| lsn).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn bins_count_the_entries_of_the_set() {
        let mut rng = Prng::new(3);
        let mut histogram = LsnHistogram { shift: 4, ..LsnHistogram::default() };
        let mut all: Vec<u64> = Vec::new();
        for round in 0..5000 {
            if all.is_empty() || rng.below(100) < 52 {
                // Mostly in ascending order, sometimes not, as in replay and with slow
                // mini-transactions.
                let lsn = (round + rng.below(40)).saturating_sub(rng.below(60));
                all.push(lsn);
                histogram.add(Lsn(lsn));
            } else {
                let lsn = all.swap_remove(rng.below(all.len() as u64) as usize);
                histogram.remove(Lsn(lsn));
            }
            for (n, pages) in histogram.pages.iter().enumerate() {
                let bin = histogram.first + n as u64;
                let is = all.iter().filter(|lsn| **lsn >> 4 == bin).count();
                assert_eq!(*pages as usize, is, "round {round}, bin {bin}");
            }
            assert_eq!(histogram.pages.iter().sum::<u32>() as usize, all.len());
        }
    }
}
