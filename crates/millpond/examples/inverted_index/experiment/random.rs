//! Lists of ids and dates that follow from a seed.

/// A small random number generator (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Makes the generator of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }
}

/// Returns so many different ids below `universe`, sorted. Every such list is equally likely.
/// REQUIRES: the universe has that many.
pub(crate) fn ids(len: usize, universe: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    if universe / 2 < len as u64 {
        // Most ids are in the list: each is asked once. (Knuth, "The Art of Computer Programming",
        // volume 2, algorithm S)
        let mut wanted = len as u64;
        let mut take = |id: &u64| {
            let taken = random.below(universe - id) < wanted;
            wanted -= u64::from(taken);
            taken
        };
        return (0..universe).filter(&mut take).collect();
    }
    let mut ids: Vec<u64> = Vec::with_capacity(len);
    while ids.len() < len {
        ids.extend((ids.len()..len).map(|_| random.below(universe)).collect::<Vec<_>>());
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}

/// Returns a modification date for each of so many documents: seconds, spread over five years.
pub(crate) fn dates(documents: u64, seed: u64) -> Vec<u32> {
    const FIVE_YEARS_S: u64 = 5 * 365 * 24 * 3600;
    let mut random = Random::new(seed);
    (0..documents).map(|_| 1_500_000_000 + random.below(FIVE_YEARS_S) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_as_many_ids_as_it_should_and_follows_from_its_seed() {
        for (len, universe) in [(0, 10), (1, 1), (10, 10), (60, 100), (1000, 1 << 40), (1000, 3000)] {
            let list = ids(len, universe, 5);
            assert_eq!(list.len(), len);
            assert!(list.is_sorted_by(|a, b| a < b) && list.iter().all(|id| *id < universe));
            assert_eq!(list, ids(len, universe, 5));
            assert!(len < 60 || list != ids(len, universe, 6));
        }
        assert_eq!(dates(100, 1), dates(100, 1));
    }
}
