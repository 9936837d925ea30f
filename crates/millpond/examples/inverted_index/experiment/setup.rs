//! The setup of the experiment: how many ids, out of how many, and how many runs.

use super::block::IDS_END;
use super::failure::Failure;
use super::query::Data;
use super::random;

/// A column of dates takes 4 bytes for each id of the universe. A larger universe has no dates.
const DATED_MAX: u64 = 1 << 27;

/// What the lists are, and how often a query is asked.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Ids are below it.
    pub(crate) universe: u64,
    /// How many ids the lists have.
    pub(crate) sizes: [usize; 2],
    /// From what the lists and the dates follow.
    pub(crate) seeds: [u64; 3],
    pub(crate) runs: usize,
    /// How many times as many bytes as packed ids a bitmap may cost.
    pub(crate) bitmap_factor: f64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            universe: 10_000_000,
            sizes: [2_000_000, 1_000_000],
            seeds: [1, 2, 3],
            runs: 21,
            bitmap_factor: 2.0,
        }
    }
}

impl Setup {
    /// Fails if there is no such experiment.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let misuse = |text: &str| Err(Failure::Misuse(text.into()));
        if self.universe > IDS_END {
            return misuse("the universe is too large: at most 2^62 ids");
        }
        if self.sizes.iter().any(|size| *size == 0 || *size as u64 > self.universe) {
            return misuse("each list needs an id, and cannot have more ids than the universe");
        }
        if self.runs < 15 {
            return misuse("at least 15 runs are needed: the median of fewer tells little");
        }
        if !(1.0..=1e6).contains(&self.bitmap_factor) {
            return misuse("the factor of bitmaps must be from 1 to 1,000,000");
        }
        Ok(())
    }

    /// Returns the lists and the dates.
    pub(crate) fn data(&self) -> Data {
        let list = |n: usize| random::ids(self.sizes[n], self.universe, self.seeds[n]);
        let documents = if self.universe > DATED_MAX { 0 } else { self.universe };
        Data { lists: [list(0), list(1)], dates: random::dates(documents, self.seeds[2]) }
    }
}
