//! [`EpochStart`]: where an epoch begins. [`BlockRule`]: which blocks are valid.

use super::block::{BlockHeader, block_of};
use base::Lsn;

/// An epoch and the first position that was written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochStart {
    /// The epoch.
    pub epoch: u32,
    /// The first position of it, the start of a block.
    pub first: Lsn,
}

/// Judges blocks by what the root knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRule<'a> {
    db_id: u64,
    /// Sorted by position, not empty.
    epochs: &'a [EpochStart],
}

impl<'a> BlockRule<'a> {
    /// The rule of database `db_id`. `epochs` is sorted by position and not empty.
    pub(super) fn new(db_id: u64, epochs: &'a [EpochStart]) -> BlockRule<'a> {
        assert!(!epochs.is_empty() && epochs.is_sorted_by_key(|e| e.first));
        BlockRule { db_id, epochs }
    }

    /// Returns the epoch that block `block` must have.
    fn epoch_at(&self, block: u64) -> Option<u32> {
        let n = self.epochs.partition_point(|e| block_of(e.first) <= block);
        n.checked_sub(1).map(|n| self.epochs[n].epoch)
    }

    /// Decodes the header of block `block`, of any epoch; `None` if it is not that block.
    fn ours(&self, bytes: &[u8], block: u64) -> Option<BlockHeader> {
        BlockHeader::decode(bytes).filter(|header| header.db_id == self.db_id && header.number == block)
    }

    /// Decodes the header of block `block`; `None` if the block is not valid.
    pub(super) fn valid(&self, bytes: &[u8], block: u64) -> Option<BlockHeader> {
        self.ours(bytes, block).filter(|header| Some(header.epoch) == self.epoch_at(block))
    }

    /// Returns the epoch of block `block` if it is younger than all that the root knows.
    pub(super) fn unknown_epoch(&self, bytes: &[u8], block: u64) -> Option<u32> {
        let epoch = self.ours(bytes, block)?.epoch;
        self.epochs.last().is_some_and(|known| epoch > known.epoch).then_some(epoch)
    }
}
