//! Random numbers and row values, the same for every peer.

/// Bytes of a row's value.
pub const VALUE_BYTES: usize = 200;

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes the generator of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a value of random bytes, which cannot be compressed.
    pub fn value(&mut self) -> [u8; VALUE_BYTES] {
        let mut value = [0; VALUE_BYTES];
        value.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.bits().to_be_bytes()));
        value
    }
}

/// Reads every byte, as a caller that uses the row would.
#[inline]
pub fn digest(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let sum =
        words.by_ref().fold(0u64, |sum, w| sum.wrapping_add(u64::from_le_bytes(w.try_into().expect("8"))));
    words.remainder().iter().fold(sum, |sum, b| sum.wrapping_add(u64::from(*b)))
}
