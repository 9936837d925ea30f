//! A chunk as a bitmap: one bit for each of its ids. Two bitmaps are combined word by word.
//!
//! The loops over words are compiled several times, for older and for newer processors
//! (`dispatch!`): newer ones have instructions that count bits and find the lowest one.

use fearless_simd::{Level, Simd, dispatch};

/// Ids that a chunk covers. It is smaller than the 65,536 of roaring bitmaps: a bitmap of 2 KiB
/// fits a leaf of the tree, so a scan of the rows reads no overflow pages.
pub(crate) const CHUNK_IDS: usize = 1 << 14;
/// Words of a bitmap.
pub(crate) const WORDS: usize = CHUNK_IDS / 64;
/// Bytes of a bitmap.
pub(crate) const BITMAP_BYTES: usize = CHUNK_IDS / 8;
/// Bits of a word that are found before the loop asks whether there are more.
const BITS_AT_ONCE: usize = 4;

/// Bit `n % 8` of byte `n / 8` is id `n` of the chunk.
pub(crate) type Bitmap = [u8; BITMAP_BYTES];

/// Returns word `n` of a bitmap. REQUIRES: `n` is below [`WORDS`].
#[inline(always)]
pub(crate) fn word(bitmap: &Bitmap, n: usize) -> u64 {
    u64::from_le_bytes(bitmap.as_chunks::<8>().0[n])
}

/// Sets the bits of ids of one chunk, and clears all others.
pub(crate) fn set_only(bitmap: &mut Bitmap, ids: impl Iterator<Item = u64>) {
    bitmap.fill(0);
    for id in ids {
        let n = id as usize % CHUNK_IDS;
        bitmap[n / 8] |= 1 << (n % 8);
    }
}

/// Returns how many bits are set in the words that `word` returns.
pub(crate) fn count(word: impl Fn(usize) -> u64) -> usize {
    dispatch!(Level::new(), simd => simd.vectorize(
        #[inline(always)]
        || (0..WORDS).map(|n| u64::from(word(n).count_ones())).sum::<u64>() as usize
    ))
}

/// Writes the ids of all set bits to `out`, and returns how many there are. `base` is the first id
/// of the chunk. What follows the ids in `out` may be overwritten too.
pub(crate) fn list(base: u64, word: impl Fn(usize) -> u64, out: &mut [u64; CHUNK_IDS]) -> usize {
    dispatch!(Level::new(), simd => simd.vectorize(
        #[inline(always)]
        || list_words(base, &word, out)
    ))
}

#[inline(always)]
fn list_words(base: u64, word: impl Fn(usize) -> u64, out: &mut [u64; CHUNK_IDS]) -> usize {
    let mut len = 0;
    for n in 0..WORDS {
        // The words before had at most 64 ids each, so there is room for 64 more.
        if let Some(out) = out[len..].first_chunk_mut() {
            len += list_word(base + 64 * n as u64, word(n), out);
        }
    }
    len
}

/// Writes the ids of the bits of one word to `out`, and returns how many there are. It asks only
/// after some bits whether there are more, because the processor often guesses that branch wrong:
/// rather some numbers are written that are no ids, and the next word overwrites them.
#[inline(always)]
fn list_word(base: u64, mut bits: u64, out: &mut [u64; 64]) -> usize {
    let (len, mut done) = (bits.count_ones() as usize, 0);
    while done < len {
        for n in done..done + BITS_AT_ONCE {
            out[n % 64] = base + u64::from(bits.trailing_zeros());
            bits &= bits.wrapping_sub(1);
        }
        done += BITS_AT_ONCE;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn a_bitmap_lists_and_counts_the_ids_that_were_put_in() {
        let (mut random, mut room) = (Random::new(1), [0; CHUNK_IDS]);
        for few_in in [1, 2, 3, 6, 10, 20, 60, 100, 10_000] {
            let base = 3 * CHUNK_IDS as u64;
            let ids: Vec<u64> =
                (base..base + CHUNK_IDS as u64).filter(|_| random.below(few_in) == 0).collect();
            let mut bitmap = [7; BITMAP_BYTES];
            set_only(&mut bitmap, ids.iter().copied());
            assert_eq!(count(|n| word(&bitmap, n)), ids.len());
            let len = list(base, |n| word(&bitmap, n), &mut room);
            assert!(room[..len] == ids, "one id in {few_in}");
        }
    }
}
