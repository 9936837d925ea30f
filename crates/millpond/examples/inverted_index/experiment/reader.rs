//! Reads the blocks of a list one after the other, checks them, and gives them a form in which they
//! are combined fast: packed ids become bitmaps if a chunk has many of them.

use super::bitmap::{self, BITMAP_BYTES, Bitmap, CHUNK_IDS};
use super::block::{Bits, Block, Ids, Parsed, damaged, parse};
use super::failure::Failure;
use super::packed;

/// From so many ids of a chunk on it is faster to make a bitmap of them than to combine them id by
/// id. To make one, clear it and pass over its words costs as much as some hundred ids.
const MANY_IDS: u64 = 256;

/// The stored blocks of a list.
pub(crate) trait Blocks {
    /// Returns the next block: its number and its bytes.
    fn next(&mut self) -> Result<Option<(u64, &[u8])>, Failure>;
}

/// Reads the blocks of a list.
pub(crate) struct Reader<B> {
    blocks: B,
    /// The end of the chunks that have been read.
    end: u64,
    unpacked: Unpacked,
}

/// The ids of a packed block.
struct Unpacked {
    base: u64,
    offsets: Vec<u32>,
    /// How many of them have been given, as bitmaps or all at once.
    given: usize,
    bitmap: Box<Bitmap>,
}

impl<B: Blocks> Reader<B> {
    pub(crate) fn new(blocks: B) -> Reader<B> {
        let bitmap = Box::new([0; BITMAP_BYTES]);
        let unpacked = Unpacked { base: 0, offsets: Vec::new(), given: 0, bitmap };
        Reader { blocks, end: 0, unpacked }
    }

    /// Returns the next block, or the next bitmap that is made of a block.
    ///
    /// # Errors
    /// [`Failure::Damaged`], and failures of the list.
    pub(crate) fn next(&mut self) -> Result<Option<Block<'_>>, Failure> {
        if self.unpacked.given < self.unpacked.offsets.len() {
            return Ok(Some(Block::Bits(self.unpacked.next_bits())));
        }
        let Some((base, bytes)) = self.blocks.next()? else { return Ok(None) };
        if base < self.end {
            return Err(damaged(base, "the one before it overlaps it"));
        }
        let unpacked = &mut self.unpacked;
        match parse(base, bytes)? {
            Parsed::Bits(bits) => {
                self.end = bits.end();
                return Ok(Some(Block::Bits(bits)));
            }
            Parsed::Packed(bytes) => {
                packed::decode(bytes, &mut unpacked.offsets).map_err(|what| damaged(base, what))?;
            }
        }
        let last = unpacked.offsets.last().map_or(0, |offset| u64::from(*offset));
        let chunks = last / CHUNK_IDS as u64 + 1;
        self.end = base + chunks * CHUNK_IDS as u64;
        unpacked.base = base;
        if unpacked.offsets.len() as u64 >= chunks * MANY_IDS {
            unpacked.given = 0;
            return Ok(Some(Block::Bits(unpacked.next_bits())));
        }
        unpacked.given = unpacked.offsets.len();
        Ok(Some(Block::Ids(Ids { base, offsets: &unpacked.offsets })))
    }
}

impl Unpacked {
    /// Makes a bitmap of the ids of one chunk. REQUIRES: there are ids that have not been given.
    fn next_bits(&mut self) -> Bits<'_> {
        let left = &self.offsets[self.given..];
        let chunk = u64::from(left[0]) / CHUNK_IDS as u64;
        let len = left.partition_point(|offset| u64::from(*offset) / CHUNK_IDS as u64 <= chunk);
        bitmap::set_only(&mut self.bitmap, left[..len].iter().map(|offset| u64::from(*offset)));
        self.given += len;
        Bits { base: self.base + chunk * CHUNK_IDS as u64, bitmap: &self.bitmap }
    }
}
