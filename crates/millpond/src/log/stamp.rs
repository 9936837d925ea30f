//! [`LogStart`]: where a log continues. [`BlockStamp`]: what the headers of all blocks that it
//! writes from there on have in common.

use super::block::BlockHeader;
use base::Lsn;

/// Where a log continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStart {
    /// The first position to be written, the start of a block.
    pub lsn: Lsn,
    /// Where the groups before it end, in the block before.
    pub end: Lsn,
    /// Payload bytes in use in the block before it.
    pub prev_used: u16,
    /// The epoch of everything written from there on.
    pub epoch: u32,
}

/// Makes the headers of the blocks that an open log writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockStamp {
    db_id: u64,
    start: LogStart,
}

impl BlockStamp {
    /// The stamp of a log of database `db_id` that continues at `start`.
    pub(super) fn new(db_id: u64, start: LogStart) -> BlockStamp {
        BlockStamp { db_id, start }
    }

    /// The epoch of everything that is written.
    #[inline]
    pub(super) fn epoch(&self) -> u32 {
        self.start.epoch
    }

    /// Returns the header of block `number`, of a write that began when the log was durable up to
    /// `durable`.
    pub(super) fn header(&self, number: u64, prev_used: u16, durable: Lsn) -> BlockHeader {
        let epoch = self.start.epoch;
        BlockHeader { db_id: self.db_id, number, epoch, prev_used, durable: self.nameable(durable) }
    }

    /// Returns the durable LSN that a header may name. Until something of this epoch is durable
    /// that is the end of the groups of the last epoch. The first block of this epoch tells what
    /// lies between, and it may be lost while a later one survives.
    fn nameable(&self, durable: Lsn) -> Lsn {
        if durable == self.start.lsn { self.start.end } else { durable }
    }
}
