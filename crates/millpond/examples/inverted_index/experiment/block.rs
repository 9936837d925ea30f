//! A list of ids is stored as blocks, and each block holds all ids of the list in some chunks. The
//! ids of one chunk are a bitmap where that costs little, and else they are packed, together with
//! those of the chunks after it.
//!
//! The bytes of a block are those of the bitmap or of the packed ids, and a last byte that says
//! which of them. The number of a block is its first id, rounded down to a chunk; it is stored
//! apart.

use super::bitmap::{self, BITMAP_BYTES, Bitmap, CHUNK_IDS};
use super::failure::Failure;
use super::packed::{self, IDS_MAX, OFFSETS_END, PackedSize};

/// The most bytes of a block: such a value fits a leaf with pages of 16 KiB. It also bounds how
/// much an insert of one id has to write.
const BLOCK_BYTES_MAX: usize = 3200;
/// Ids are below this, so that the end of a block is a number too.
pub(crate) const IDS_END: u64 = 1 << 62;

const KIND_BITMAP: u8 = 1;
const KIND_PACKED: u8 = 2;

/// The ids of one chunk that begins with `base`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'b> {
    pub(crate) base: u64,
    pub(crate) bitmap: &'b Bitmap,
}

/// Rising ids: `base` plus each offset. `base` is the first id of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids<'b> {
    pub(crate) base: u64,
    pub(crate) offsets: &'b [u32],
}

/// A block that can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block<'b> {
    Bits(Bits<'b>),
    Ids(Ids<'b>),
}

/// What the bytes of a block are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parsed<'b> {
    Bits(Bits<'b>),
    /// The bytes of packed ids.
    Packed(&'b [u8]),
}

/// A block as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Bits<'_> {
    /// Returns the end of the chunk.
    pub(crate) fn end(&self) -> u64 {
        self.base + CHUNK_IDS as u64
    }
}

impl<'b> Ids<'b> {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + 'b {
        let base = self.base;
        self.offsets.iter().map(move |offset| base + u64::from(*offset))
    }

    /// Returns the ids below `end`, and the others.
    pub(crate) fn split_at_id(&self, end: u64) -> (Ids<'b>, Ids<'b>) {
        let end = end.saturating_sub(self.base);
        let (below, others) =
            self.offsets.split_at(self.offsets.partition_point(|offset| u64::from(*offset) < end));
        (Ids { offsets: below, ..*self }, Ids { offsets: others, ..*self })
    }

    /// Returns the ids without the first `n`.
    pub(crate) fn skip(&self, n: usize) -> Ids<'b> {
        Ids { offsets: &self.offsets[n..], ..*self }
    }
}

/// Whether the ids of a chunk are stored as a bitmap. Two bitmaps are combined several times faster
/// than packed ids, so a bitmap may cost `factor` times as many bytes as the packed ids would.
/// REQUIRES: `factor` is at least 1, or packed ids may be longer than [`BLOCK_BYTES_MAX`].
fn is_bitmap(packed_bytes: usize, factor: f64) -> bool {
    BITMAP_BYTES as f64 <= packed_bytes as f64 * factor
}

/// Returns the blocks of a list. REQUIRES: the ids rise, and are below [`IDS_END`].
pub(crate) fn encode(ids: &[u64], factor: f64) -> Vec<StoredBlock> {
    let mut blocks = Vec::new();
    let mut group = Group::default();
    for chunk in ids.chunk_by(|a, b| a / CHUNK_IDS as u64 == b / CHUNK_IDS as u64) {
        let base = chunk[0] - chunk[0] % CHUNK_IDS as u64;
        if is_bitmap(size(chunk, base, PackedSize::default()).bytes(), factor) {
            blocks.extend(group.take());
            let mut bitmap = [0; BITMAP_BYTES];
            bitmap::set_only(&mut bitmap, chunk.iter().copied());
            let bytes = [&bitmap[..], &[KIND_BITMAP]].concat();
            blocks.push(StoredBlock { base, bytes });
        } else if !group.add(chunk) {
            blocks.extend(group.take());
            group = Group { base, ..Group::default() };
            group.add(chunk);
        }
    }
    blocks.extend(group.take());
    blocks
}

/// Returns how many blocks are bitmaps, and how many are packed ids.
pub(crate) fn kinds<'b>(blocks: impl Iterator<Item = &'b StoredBlock>) -> [usize; 2] {
    let (bitmaps, packed): (Vec<_>, Vec<_>) =
        blocks.partition(|block| block.bytes.last() == Some(&KIND_BITMAP));
    [bitmaps.len(), packed.len()]
}

/// Returns the size that packed ids have with those of `chunk` after them.
fn size(chunk: &[u64], base: u64, mut size: PackedSize) -> PackedSize {
    chunk.iter().for_each(|id| size.push((id - base) as u32));
    size
}

/// The packed ids of some chunks, before they become a block.
#[derive(Default)]
struct Group {
    base: u64,
    offsets: Vec<u32>,
    size: PackedSize,
}

impl Group {
    /// Adds the ids of a chunk. Returns false if they do not fit.
    fn add(&mut self, chunk: &[u64]) -> bool {
        let last = chunk.last().map_or(0, |id| id - self.base);
        if last >= OFFSETS_END {
            return false;
        }
        if self.offsets.is_empty() {
            self.base = chunk[0] - chunk[0] % CHUNK_IDS as u64;
        }
        let with = size(chunk, self.base, self.size);
        if !self.offsets.is_empty() && (with.bytes() >= BLOCK_BYTES_MAX || with.ids() > IDS_MAX) {
            return false;
        }
        self.size = with;
        self.offsets.extend(chunk.iter().map(|id| (id - self.base) as u32));
        true
    }

    /// Returns the block of the ids, if there are any, and begins anew.
    fn take(&mut self) -> Option<StoredBlock> {
        let group = std::mem::take(self);
        (!group.offsets.is_empty()).then(|| {
            let mut bytes = Vec::with_capacity(group.size.bytes() + 1);
            packed::encode(&group.offsets, &mut bytes);
            bytes.push(KIND_PACKED);
            StoredBlock { base: group.base, bytes }
        })
    }
}

/// Returns what a block consists of.
///
/// # Errors
/// [`Failure::Damaged`] if the bytes are not those of a block.
pub(crate) fn parse(base: u64, bytes: &[u8]) -> Result<Parsed<'_>, Failure> {
    if !base.is_multiple_of(CHUNK_IDS as u64) || base >= IDS_END {
        return Err(damaged(base, "no chunk begins there"));
    }
    match bytes.split_last() {
        Some((&KIND_BITMAP, bitmap)) => match bitmap.try_into() {
            Ok(bitmap) => Ok(Parsed::Bits(Bits { base, bitmap })),
            Err(_) => Err(damaged(base, "a bitmap has another length")),
        },
        Some((&KIND_PACKED, packed)) => Ok(Parsed::Packed(packed)),
        Some(_) => Err(damaged(base, "it is of no known kind")),
        None => Err(damaged(base, "it is empty")),
    }
}

/// Returns the failure that a block is not as it was written.
pub(crate) fn damaged(base: u64, what: &str) -> Failure {
    Failure::Damaged(format!("the block of ids from {base} on is damaged: {what}; load the list again"))
}

#[cfg(test)]
mod tests {
    use super::super::random;
    use super::*;

    fn ids_of(StoredBlock { base, bytes }: &StoredBlock) -> Result<Vec<u64>, Failure> {
        let mut offsets = Vec::new();
        match parse(*base, bytes)? {
            Parsed::Bits(Bits { base, bitmap }) => {
                let mut out = [0; CHUNK_IDS];
                let len = bitmap::list(base, |n| bitmap::word(bitmap, n), &mut out);
                Ok(out[..len].to_vec())
            }
            Parsed::Packed(packed) => {
                packed::decode(packed, &mut offsets).map_err(|what| damaged(*base, what))?;
                Ok(Ids { base: *base, offsets: &offsets }.iter().collect())
            }
        }
    }

    fn decoded(blocks: &[StoredBlock]) -> Vec<u64> {
        blocks.iter().flat_map(|block| ids_of(block).unwrap()).collect()
    }

    #[test]
    fn a_list_of_any_density_comes_back() {
        for universe in [3000, 4000, 10_000, 30_000, 100_000, 1 << 20, 1 << 30, 1 << 45, IDS_END] {
            let ids = random::ids(3000, universe, universe);
            for factor in [1.0, 2.0, 1e9] {
                let blocks = encode(&ids, factor);
                assert!(decoded(&blocks) == ids, "{universe} {factor}");
                assert!(blocks.iter().all(|b| b.bytes.len() <= BLOCK_BYTES_MAX), "{universe}");
            }
        }
        let all: Vec<u64> = (100..60_000).collect();
        for factor in [1.0, 1e9] {
            assert!(decoded(&encode(&all, factor)) == all);
        }
        assert!(encode(&[], 1.0).is_empty());
    }

    #[test]
    fn a_list_takes_the_form_that_costs_less() {
        let bitmaps_and_packed =
            |universe, factor| kinds(encode(&random::ids(20_000, universe, 1), factor).iter());
        assert_eq!(bitmaps_and_packed(49_152, 1.0), [3, 0]);
        assert_eq!(bitmaps_and_packed(1 << 22, 1.0)[0], 0);
        // With a density of a tenth, six bits are packed for an id, and a bitmap has ten.
        assert_eq!(bitmaps_and_packed(200_000, 1.0)[0], 0);
        assert_eq!(bitmaps_and_packed(200_000, 2.0), [12, 1]);
    }

    #[test]
    fn damaged_blocks_give_an_error_or_other_ids() {
        let fails = |base: u64, bytes: &[u8]| {
            let outcome = ids_of(&StoredBlock { base, bytes: bytes.to_vec() });
            matches!(outcome, Err(Failure::Damaged(_)))
        };
        for (universe, factor) in [(6000, 9.0), (1 << 20, 1.0)] {
            for block in encode(&random::ids(500, universe, 1), factor) {
                let StoredBlock { base, bytes } = &block;
                assert!(!fails(*base, bytes));
                assert!(fails(base + 1, bytes) && fails(IDS_END, bytes) && fails(u64::MAX, bytes));
                assert!((0..bytes.len()).all(|cut| fails(*base, &bytes[..cut])));
                for at in 0..bytes.len() {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << (at % 8);
                    let at_end = at + 1 == bytes.len();
                    assert!(fails(*base, &damaged) || !at_end);
                }
            }
        }
    }
}
