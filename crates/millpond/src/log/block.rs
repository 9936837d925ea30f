//! The format of the blocks in which the redo log is written, and the arithmetic between positions
//! and blocks.
//!
//! The log is a sequence of 4,096-byte blocks, numbered from 0 for the life of the database. Each
//! has a header and 4,056 bytes of payload. An [`Lsn`] counts payload bytes only. So a group of `n`
//! bytes takes `n` positions wherever it lies, and one atomic add can reserve it.
//!
//! ```text
//!  0        4    5    6     8         16         24        28     30     32          40       4096
//!  +--------+----+----+-----+---------+----------+---------+------+------+-----------+---------+
//!  | crc32c |fmt | 0  |strm | db id   | block no | epoch   | prev | 0    | durable   | payload |
//!  +--------+----+----+-----+---------+----------+---------+------+------+-----------+---------+
//! ```
//! The checksum covers only bytes 4..40. Groups have their own checksums, and a tail block is
//! rewritten with a superset of its bytes, which must stay readable if the rewrite tears between
//! sectors. `prev` is how many payload bytes of the block before are in use: 4,056, or fewer where
//! a flush sealed its range (the rest is padding, not a hole). `durable` is the durable LSN that
//! was known when the flush began: everything below it was durable.

use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::{Lsn, crc};

/// Bytes of a block on disk.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of a block's payload.
pub(crate) const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;

/// Positions lie below 2^63: 292 years at a gigabyte a second.
pub(crate) const LSN_BITS: u32 = 63;
/// The last position.
pub(crate) const LSN_END: Lsn = Lsn(1 << LSN_BITS);

const FORMAT: u8 = 1;
const _: () =
    assert!(HEADER_BYTES <= 512, "a header is rewritten whole or not at all: it lies in one sector");

/// Returns the block that holds position `lsn`.
#[inline]
pub(crate) fn block_of(lsn: Lsn) -> u64 {
    lsn.0 / PAYLOAD_BYTES as u64
}

/// Returns where in the payload of its block `lsn` lies.
#[inline]
pub(crate) fn offset_in_block(lsn: Lsn) -> usize {
    (lsn.0 % PAYLOAD_BYTES as u64) as usize
}

/// Returns the first position of block `number`.
#[inline]
pub(crate) fn block_start(number: u64) -> Lsn {
    Lsn(number * PAYLOAD_BYTES as u64)
}

/// Returns `lsn`, or the start of the next block if `lsn` lies inside a block.
#[inline]
pub(crate) fn round_up(lsn: Lsn) -> Lsn {
    Lsn(lsn.0.next_multiple_of(PAYLOAD_BYTES as u64))
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// The database that the block belongs to.
    pub db_id: u64,
    /// Its number; its payload starts at [`block_start`] of it.
    pub number: u64,
    /// The epoch it was written in.
    pub epoch: u32,
    /// Payload bytes in use in the block before.
    pub prev_used: u16,
    /// The durable LSN that was known when the flush that wrote it began.
    pub durable: Lsn,
}

impl BlockHeader {
    /// Writes the header into the first [`HEADER_BYTES`] of `block`.
    pub(crate) fn encode(&self, block: &mut [u8]) {
        block[4] = FORMAT;
        block[5] = 0;
        set_u16(block, 6, 0); // stream id: one stream today
        set_u64(block, 8, self.db_id);
        set_u64(block, 16, self.number);
        set_u32(block, 24, self.epoch);
        set_u16(block, 28, self.prev_used);
        set_u16(block, 30, 0);
        set_u64(block, 32, self.durable.0);
        let crc = crc::crc32c(&block[4..HEADER_BYTES]);
        set_u32(block, 0, crc);
        base::verify!(Self::decode(block) == Some(*self), "{self:?} is not read back");
    }

    /// Decodes a header; `None` if the bytes are not one.
    pub(crate) fn decode(block: &[u8]) -> Option<BlockHeader> {
        if block.len() < HEADER_BYTES || get_u32(block, 0) != crc::crc32c(&block[4..HEADER_BYTES]) {
            return None;
        }
        let header = BlockHeader {
            db_id: get_u64(block, 8),
            number: get_u64(block, 16),
            epoch: get_u32(block, 24),
            prev_used: get_u16(block, 28),
            durable: Lsn(get_u64(block, 32)),
        };
        let sound = block[4] == FORMAT
            && usize::from(header.prev_used) <= PAYLOAD_BYTES
            && header.number < u64::MAX / PAYLOAD_BYTES as u64;
        sound.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_blocks_agree() {
        assert_eq!(block_of(Lsn(0)), 0);
        assert_eq!(block_of(Lsn(4055)), 0);
        assert_eq!(block_of(Lsn(4056)), 1);
        assert_eq!(offset_in_block(Lsn(4057)), 1);
        assert_eq!(round_up(Lsn(1)), Lsn(4056));
        assert_eq!(round_up(Lsn(4056)), Lsn(4056));
        assert_eq!(block_start(2), Lsn(8112));
    }

    #[test]
    fn a_header_is_read_back_and_any_flipped_bit_is_seen() {
        let header = BlockHeader { db_id: 7, number: 9, epoch: 3, prev_used: 4056, durable: Lsn(77) };
        let mut block = vec![0xaa; BLOCK_BYTES];
        header.encode(&mut block);
        assert_eq!(BlockHeader::decode(&block), Some(header));
        for bit in 0..HEADER_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&block), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
