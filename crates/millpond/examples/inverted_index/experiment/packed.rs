//! Ids as bit-packed gaps: 128 gaps at a time with the bits that the largest of them needs. What is
//! left at the end are gaps of variable length, seven bits in a byte.
//!
//! The bytes are: the number of ids (2 bytes); for each 128 ids a byte with the number of bits and
//! then 16 times as many bytes; the gaps that are left. A gap is the number of ids between two ids
//! of the list.

use bitpacking::{BitPacker, BitPacker4x};

/// Ids that are packed together.
const PACK_IDS: usize = BitPacker4x::BLOCK_LEN;

/// The most ids of a run. Their number is stored in two bytes.
pub(crate) const IDS_MAX: usize = 1 << 14;
/// Offsets are below this.
pub(crate) const OFFSETS_END: u64 = 1 << 31;

const CUT: &str = "it ends too early";

/// How many bytes a run needs, computed id by id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PackedSize {
    ids: usize,
    before: Option<u32>,
    packed_bytes: usize,
    /// Of the ids that are not packed yet: the bits of the largest gap, and the bytes of all gaps
    /// if they stay unpacked.
    tail_bits: u32,
    tail_bytes: usize,
}

impl PackedSize {
    /// Adds an offset, which must be greater than the one before.
    pub(crate) fn push(&mut self, offset: u32) {
        let bits = u32::BITS - gap(self.before, offset).leading_zeros();
        (self.ids, self.before) = (self.ids + 1, Some(offset));
        self.tail_bits = self.tail_bits.max(bits);
        self.tail_bytes += bits.div_ceil(7).max(1) as usize;
        if self.ids.is_multiple_of(PACK_IDS) {
            self.packed_bytes += 1 + BitPacker4x::compressed_block_size(self.tail_bits as u8);
            (self.tail_bits, self.tail_bytes) = (0, 0);
        }
    }

    /// Returns the number of ids.
    pub(crate) fn ids(&self) -> usize {
        self.ids
    }

    /// Returns what [`encode`] needs for them.
    pub(crate) fn bytes(&self) -> usize {
        2 + self.packed_bytes + self.tail_bytes
    }
}

/// Returns how many ids lie between two. Before the first one, the count begins at 0.
fn gap(before: Option<u32>, offset: u32) -> u32 {
    offset - before.map_or(0, |before| before + 1)
}

/// Appends rising offsets to `out`. REQUIRES: there are 1 to [`IDS_MAX`], below [`OFFSETS_END`].
pub(crate) fn encode(offsets: &[u32], out: &mut Vec<u8>) {
    let packer = BitPacker4x::new();
    out.extend((offsets.len() as u16).to_le_bytes());
    let (packs, tail) = offsets.as_chunks::<PACK_IDS>();
    let mut before = None;
    for pack in packs {
        let bits = packer.num_bits_strictly_sorted(before, pack);
        out.push(bits);
        let from = out.len();
        out.resize(from + BitPacker4x::compressed_block_size(bits), 0);
        packer.compress_strictly_sorted(before, pack, &mut out[from..], bits);
        before = pack.last().copied();
    }
    for offset in tail {
        let mut rest = gap(before, *offset);
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        before = Some(*offset);
    }
}

/// Puts the offsets that `bytes` encode into `offsets`. Whatever the bytes are, offsets that are
/// returned rise, and are below [`OFFSETS_END`].
///
/// # Errors
/// A sentence about what is wrong with the bytes.
pub(crate) fn decode(bytes: &[u8], offsets: &mut Vec<u32>) -> Result<(), &'static str> {
    let packer = BitPacker4x::new();
    let (ids, mut rest) = bytes.split_first_chunk::<2>().ok_or(CUT)?;
    let ids = usize::from(u16::from_le_bytes(*ids));
    if ids == 0 || ids > IDS_MAX {
        return Err("it has no ids, or too many");
    }
    offsets.resize(ids, 0);
    let (packs, tail) = offsets.as_chunks_mut::<PACK_IDS>();
    let mut before = None;
    for pack in packs {
        let (bits, after) = rest.split_first().ok_or(CUT)?;
        let size = BitPacker4x::compressed_block_size(*bits);
        if *bits > 32 {
            return Err("it has gaps of more than 32 bits");
        }
        let (packed, after) = after.split_at_checked(size).ok_or(CUT)?;
        packer.decompress_strictly_sorted(before, packed, pack, *bits);
        before = pack.last().copied();
        rest = after;
    }
    for offset in tail {
        let gap = u64::from(before.map_or(0, |before| before.wrapping_add(1))) + varint(&mut rest)?;
        *offset = u32::try_from(gap).map_err(|_| "an id is too large")?;
        before = Some(*offset);
    }
    if !rest.is_empty() {
        return Err("it has bytes that belong to no id");
    }
    if rises(offsets) { Ok(()) } else { Err("its ids do not rise") }
}

/// Takes a number of at most 35 bits.
fn varint(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let mut number = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (byte, after) = rest.split_first().ok_or(CUT)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a gap is too large")
}

/// Whether offsets rise and are below [`OFFSETS_END`]. As signed numbers, because processors
/// compare those faster. No branch in the loop, so that several are compared at once.
fn rises(offsets: &[u32]) -> bool {
    let pairs = offsets.iter().zip(offsets.iter().skip(1));
    offsets.first().is_none_or(|first| *first as i32 >= 0)
        && pairs.fold(true, |rises, (a, b)| rises & ((*a as i32) < *b as i32))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn encoded(offsets: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(offsets, &mut bytes);
        let mut size = PackedSize::default();
        offsets.iter().for_each(|offset| size.push(*offset));
        assert_eq!((size.ids(), size.bytes()), (offsets.len(), bytes.len()));
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u32>, &'static str> {
        let mut offsets = vec![7; 300];
        decode(bytes, &mut offsets).map(|()| offsets)
    }

    fn rising(ids: usize, step_max: u64, random: &mut Random) -> Vec<u32> {
        let mut next = 0;
        let one = |_| {
            let offset = next + random.below(step_max) as u32;
            next = offset + 1;
            offset
        };
        (0..ids).map(one).collect()
    }

    #[test]
    fn offsets_come_back() {
        let mut random = Random::new(1);
        for ids in [1, 2, 127, 128, 129, 256, 1000, IDS_MAX] {
            for step_max in [1, 2, 100, 100_000] {
                let offsets = rising(ids, step_max, &mut random);
                assert_eq!(decoded(&encoded(&offsets)).as_deref(), Ok(&offsets[..]), "{ids} {step_max}");
            }
        }
        let last = OFFSETS_END as u32 - 1;
        assert_eq!(decoded(&encoded(&[0, last])), Ok(vec![0, last]));
        let mut wide: Vec<u32> = (0..127).collect();
        wide.push(last);
        assert_eq!(decoded(&encoded(&wide)), Ok(wide));
    }

    /// Every byte of some runs is changed, and every run is cut at every length.
    #[test]
    fn damaged_bytes_give_an_error_or_other_rising_offsets() {
        let mut random = Random::new(2);
        for (ids, step_max) in [(5, 1000), (128, 50), (300, 7), (140, 1 << 23)] {
            let bytes = encoded(&rising(ids, step_max, &mut random));
            for cut in 0..bytes.len() {
                assert!(decoded(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            for at in 0..bytes.len() {
                for change in [1, 0x80, 0xff, 1 + random.below(255) as u8] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= change;
                    if let Ok(offsets) = decoded(&damaged) {
                        assert!(rises(&offsets) && offsets.len() <= IDS_MAX);
                    }
                }
            }
        }
        assert!(decoded(&[]).is_err() && decoded(&[0, 0]).is_err() && decoded(&[1, 0]).is_err());
    }
}
