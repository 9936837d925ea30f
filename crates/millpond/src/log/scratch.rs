//! [`Scratch`]: the buffer in which a few blocks are put together for one write.

use super::block::{BLOCK_BYTES, HEADER_BYTES, block_start};
use super::ring::Ring;
use base::Lsn;
use base::aligned::AlignedBuf;

/// Flushes of at most this many blocks are gathered into one write. Longer ones are written from
/// the ring.
pub(super) const GATHER_BLOCKS: u64 = 16;

/// The buffer in which a short flush is put together.
pub(super) struct Scratch {
    bytes: AlignedBuf,
    /// From here on each block is zero. Most flushes end near the end of the last one, so there is
    /// little to clear.
    used: [usize; GATHER_BLOCKS as usize],
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

    /// Copies the published payload of `block` below `to` to the place of block `n`, and zeros
    /// after it. Returns the block, whose header is to be filled in.
    pub(super) fn gather(&mut self, ring: &Ring, block: u64, to: Lsn, n: usize) -> &mut [u8] {
        let end = to.min(block_start(block + 1));
        let out = &mut self.bytes[n * BLOCK_BYTES..][..BLOCK_BYTES];
        ring.read_into(block_start(block), end, out);
        let used = HEADER_BYTES + end.since(block_start(block)) as usize;
        let before = std::mem::replace(&mut self.used[n], used);
        if used < before {
            out[used..before].fill(0);
        }
        out
    }
}
