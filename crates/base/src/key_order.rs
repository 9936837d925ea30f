//! The order of keys, byte by byte, for keys that are short and may lie at the end of a page.
//!
//! The C library's comparison loads a vector of 32 bytes or more and masks what lies after the
//! key. If the key ends near the end of a cache line, the processor waits for the next line too.
//! After a page's last key that line is the first one of the next page in memory, which is in no
//! cache. So this comparison loads no byte that is not the keys'.

use std::cmp::Ordering;

/// From so many bytes on that both keys have, the C library's comparison is faster.
const LONG: usize = 64;

/// Compares two keys.
#[inline]
#[must_use]
pub fn order(a: &[u8], b: &[u8]) -> Ordering {
    let both = a.len().min(b.len());
    if both >= LONG {
        return a.cmp(b);
    }
    let (mut left, mut right) = (&a[..both], &b[..both]);
    while let (Some((one, left_rest)), Some((other, right_rest))) =
        (left.split_first_chunk::<8>(), right.split_first_chunk::<8>())
    {
        if one != other {
            return u64::from_be_bytes(*one).cmp(&u64::from_be_bytes(*other));
        }
        (left, right) = (left_rest, right_rest);
    }
    short(left).cmp(&short(right)).then(a.len().cmp(&b.len()))
}

/// Returns a number for fewer than eight bytes. The numbers of equally many bytes have the order of
/// these bytes: where the two loads overlap, the first has decided.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last))
        }
        _ => match *bytes {
            [] => 0,
            [a] => u64::from(a),
            [a, b] => u64::from(a) << 8 | u64::from(b),
            [a, b, c, ..] => u64::from(a) << 16 | u64::from(b) << 8 | u64::from(c),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn keys_of_all_lengths_have_the_order_of_their_bytes() {
        let mut rng = Prng::new(1);
        for round in 0..200_000 {
            // Few values, so keys share long beginnings.
            let values = if round % 2 == 0 { 2 } else { 256 };
            let mut key = |most| -> Vec<u8> {
                (0..rng.below(most)).map(|_| (rng.below(values) as u8).wrapping_mul(0x81)).collect()
            };
            let (a, mut b) = (key(2 * LONG as u64), key(20));
            assert_eq!(order(&a, &b), a.cmp(&b), "{a:?} {b:?}");
            // The same beginning, and another end.
            b.splice(0..0, a.iter().copied());
            assert_eq!(order(&a, &b), a.cmp(&b), "{a:?} {b:?}");
            if let Some(place) = (!a.is_empty()).then(|| rng.below(a.len() as u64) as usize) {
                b.truncate(a.len());
                b[place] ^= 1 << rng.below(8);
            }
            assert_eq!(order(&a, &b), a.cmp(&b), "{a:?} {b:?}");
            assert_eq!(order(&b, &a), b.cmp(&a), "{a:?} {b:?}");
        }
    }
}
