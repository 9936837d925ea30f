//! [`Scratch`]: the buffer in which a few blocks are put together for one write.

use super::block::BLOCK_BYTES;
use base::aligned::AlignedBuf;

/// Flushes of at most this many blocks are gathered into one write. Longer ones are written from
/// the ring.
pub(super) const GATHER_BLOCKS: u64 = 16;

/// The buffer in which a short flush is put together.
pub(super) struct Scratch {
    pub(super) bytes: AlignedBuf,
    /// From here on each block is zero. Most flushes end near the end of the last one, so there is
    /// little to clear.
    pub(super) used: [usize; GATHER_BLOCKS as usize],
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            bytes: AlignedBuf::zeroed(GATHER_BLOCKS as usize * BLOCK_BYTES),
            used: [0; GATHER_BLOCKS as usize],
        }
    }

    /// Returns the first `count` blocks.
    pub(super) fn blocks(&self, count: u64) -> &[u8] {
        &self.bytes[..count as usize * BLOCK_BYTES]
    }
}
