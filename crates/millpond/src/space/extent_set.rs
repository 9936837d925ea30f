//! A set of extents of one group: a few numbers, or a bit for each extent. Pure.

/// The most numbers that are stored without allocated memory.
const FEW: usize = 7;
/// Words with a bit for each extent that a map page describes, for the largest pages.
const WORDS: usize = 1024 / 64;

/// A set of extents, by their index in the group.
#[derive(Debug)]
pub(super) enum ExtentSet {
    /// Ascending.
    Few { len: u8, at: [u16; FEW] },
    /// More of them.
    Many(Box<[u64; WORDS]>),
}

impl Default for ExtentSet {
    fn default() -> ExtentSet {
        ExtentSet::Few { len: 0, at: [0; FEW] }
    }
}

impl ExtentSet {
    /// Adds an extent if it is not in the set.
    pub(super) fn insert(&mut self, index: u16) {
        match self {
            ExtentSet::Many(words) => words[usize::from(index) / 64] |= 1 << (index % 64),
            ExtentSet::Few { len, at } => {
                let n = usize::from(*len);
                let Err(place) = at[..n].binary_search(&index) else { return };
                if n < FEW {
                    at.copy_within(place..n, place + 1);
                    at[place] = index;
                    *len += 1;
                    return;
                }
                let mut words = Box::new([0; WORDS]);
                for index in at.iter().copied().chain([index]) {
                    words[usize::from(index) / 64] |= 1 << (index % 64);
                }
                *self = ExtentSet::Many(words);
            }
        }
    }

    /// Removes an extent if it is in the set.
    pub(super) fn remove(&mut self, index: u16) {
        match self {
            ExtentSet::Many(words) => words[usize::from(index) / 64] &= !(1 << (index % 64)),
            ExtentSet::Few { len, at } => {
                let n = usize::from(*len);
                if let Ok(place) = at[..n].binary_search(&index) {
                    at.copy_within(place + 1..n, place);
                    *len -= 1;
                }
            }
        }
    }

    /// Returns the least extent of the set.
    pub(super) fn first(&self) -> Option<u16> {
        match self {
            ExtentSet::Few { len, at } => at[..usize::from(*len)].first().copied(),
            ExtentSet::Many(words) => {
                let word = words.iter().position(|word| *word != 0)?;
                Some(word as u16 * 64 + words[word].trailing_zeros() as u16)
            }
        }
    }

    /// Tells whether an extent is in the set.
    pub(super) fn holds(&self, index: u16) -> bool {
        match self {
            ExtentSet::Many(words) => words[usize::from(index) / 64] & 1 << (index % 64) != 0,
            ExtentSet::Few { len, at } => at[..usize::from(*len)].binary_search(&index).is_ok(),
        }
    }

    /// Returns the allocated memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ExtentSet::Few { .. } => 0,
            ExtentSet::Many(_) => WORDS * 8,
        }
    }
}
