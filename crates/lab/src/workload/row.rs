//! The rows of sysbench's tables as bytes: keys that sort like the numbers, values without framing.
//!
//! ```text
//! table  sbtestN     key   id u32 big-endian
//!                    value k u32 little-endian | c 120 bytes | pad 60 bytes         184 bytes
//! table  sbtestN_k   key   k u32 big-endian | id u32 big-endian      value empty
//! ```
//! c and pad are as sysbench makes them: groups of eleven digits separated by dashes, padded with
//! one space to the width of the CHAR column (10 groups in 120, 5 in 60).

use base::prng::Prng;

/// Bytes of column c.
pub(crate) const C_BYTES: usize = 120;
/// Bytes of column pad.
pub(crate) const PAD_BYTES: usize = 60;
/// Bytes of an encoded row.
pub(crate) const ROW_BYTES: usize = 4 + C_BYTES + PAD_BYTES;
const GROUP_DIGITS: usize = 11;

/// Column c.
pub(crate) type C = [u8; C_BYTES];
/// Column pad.
pub(crate) type Pad = [u8; PAD_BYTES];

/// A row without its id, which is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The indexed column.
    pub(crate) k: u32,
    /// 120 characters.
    pub(crate) c: C,
    /// 60 characters.
    pub(crate) pad: Pad,
}

impl Row {
    /// Makes a row of random digits.
    pub(crate) fn random(k: u32, rng: &mut Prng) -> Row {
        Row { k, c: digits(rng), pad: digits(rng) }
    }

    /// Returns the value to store.
    pub(crate) fn encode(&self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        out[..4].copy_from_slice(&self.k.to_le_bytes());
        out[4..4 + C_BYTES].copy_from_slice(&self.c);
        out[4 + C_BYTES..].copy_from_slice(&self.pad);
        out
    }

    /// Decodes a stored value; `None` if no workload of this program can have written it.
    pub(crate) fn decode(value: &[u8]) -> Option<Row> {
        let (k, rest) = value.split_first_chunk::<4>()?;
        let (c, rest) = rest.split_first_chunk::<C_BYTES>()?;
        let pad: &Pad = rest.try_into().ok()?;
        Some(Row { k: u32::from_le_bytes(*k), c: *c, pad: *pad })
    }
}

/// Returns the key of row `id`.
pub(crate) fn id_key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

/// Returns the id in a key.
pub(crate) fn id_of(key: &[u8]) -> Option<u32> {
    key.try_into().ok().map(u32::from_be_bytes)
}

/// Returns the key of the index entry of row `id` with value `k`.
pub(crate) fn index_key(k: u32, id: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&k.to_be_bytes());
    key[4..].copy_from_slice(&id.to_be_bytes());
    key
}

/// Returns the value and the row of an index entry: (k, id).
pub(crate) fn index_of(key: &[u8]) -> Option<(u32, u32)> {
    let key: [u8; 8] = key.try_into().ok()?;
    let both = u64::from_be_bytes(key);
    Some(((both >> 32) as u32, both as u32))
}

/// Returns groups of random digits separated by dashes, with one space at the end.
///
/// REQUIRES: `N` is a multiple of 12.
pub(crate) fn digits<const N: usize>(rng: &mut Prng) -> [u8; N] {
    const { assert!(N.is_multiple_of(GROUP_DIGITS + 1)) };
    let mut out = [b'-'; N];
    for group in out.chunks_exact_mut(GROUP_DIGITS + 1) {
        put_digits(&mut group[..GROUP_DIGITS], rng.next_u64());
    }
    out[N - 1] = b' ';
    out
}

/// Fills `out` with the decimal digits of the fraction `x / 2^64`. Eleven digits of 64 random bits
/// are uniform to one part in 10^8.
fn put_digits(out: &mut [u8], mut x: u64) {
    for byte in out {
        let wide = u128::from(x) * 10;
        *byte = b'0' + (wide >> 64) as u8;
        x = wide as u64;
    }
}

/// Writes `number` into group `group` of a column, with leading zeros.
///
/// REQUIRES: `number` is below 10^11.
pub(crate) fn put_number(column: &mut [u8], group: usize, mut number: u64) {
    assert!(number < 100_000_000_000);
    let at = group * (GROUP_DIGITS + 1);
    for byte in column[at..at + GROUP_DIGITS].iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Returns the number in group `group` of a column; `None` if the group has other characters than
/// digits.
pub(crate) fn number_in(column: &[u8], group: usize) -> Option<u64> {
    let at = group * (GROUP_DIGITS + 1);
    column[at..at + GROUP_DIGITS]
        .iter()
        .try_fold(0u64, |sum, &byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_encoding() {
        let mut rng = Prng::new(3);
        for k in [0, 1, 500_000, u32::MAX] {
            let row = Row::random(k, &mut rng);
            assert_eq!(Row::decode(&row.encode()), Some(row));
        }
        let value = Row::random(1, &mut rng).encode();
        assert_eq!(Row::decode(&value[..ROW_BYTES - 1]), None);
        assert_eq!(Row::decode(&[value.as_slice(), b"x"].concat()), None);
        assert_eq!(Row::decode(b""), None);
    }

    #[test]
    fn columns_look_like_sysbench() {
        let c: C = digits(&mut Prng::new(5));
        let text = std::str::from_utf8(&c).unwrap();
        assert_eq!(text.trim_end().len(), 119);
        let groups: Vec<&str> = text.trim_end().split('-').collect();
        assert_eq!(groups.len(), 10);
        assert!(groups.iter().all(|g| g.len() == 11 && g.bytes().all(|b| b.is_ascii_digit())), "{text}");
        let pad: Pad = digits(&mut Prng::new(5));
        assert_eq!(std::str::from_utf8(&pad).unwrap().trim_end().split('-').count(), 5);
    }

    #[test]
    fn digits_are_uniform_at_every_position() {
        let mut counts = [[0u32; 10]; GROUP_DIGITS];
        let mut rng = Prng::new(11);
        for _ in 0..10_000 {
            let group: [u8; 12] = digits(&mut rng);
            for (at, byte) in group[..GROUP_DIGITS].iter().enumerate() {
                counts[at][usize::from(byte - b'0')] += 1;
            }
        }
        assert!(counts.iter().flatten().all(|&c| (850..1150).contains(&c)), "{counts:?}");
    }

    #[test]
    fn keys_sort_as_numbers() {
        assert!(id_key(255) < id_key(256));
        assert!(index_key(1, 900) < index_key(2, 1));
        assert!(index_key(2, 255) < index_key(2, 256));
        assert_eq!(id_of(&id_key(77)), Some(77));
        assert_eq!(index_of(&index_key(5, 77)), Some((5, 77)));
        assert_eq!(id_of(b"abc"), None);
        assert_eq!(index_of(b"abc"), None);
    }

    #[test]
    fn columns_hold_numbers() {
        let mut pad: Pad = digits(&mut Prng::new(5));
        put_number(&mut pad, 1, 4711);
        put_number(&mut pad, 4, 99_999_999_999);
        assert_eq!(number_in(&pad, 1), Some(4711));
        assert_eq!(number_in(&pad, 4), Some(99_999_999_999));
        assert_eq!(&pad[12..23], b"00000004711");
        pad[12] = b'x';
        assert_eq!(number_in(&pad, 1), None);
    }
}
