//! Writing a flush: puts the blocks of its range together, writes them to the segment files and
//! syncs these.

use super::block::{BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start};
use super::scratch::{GATHER_BLOCKS, Scratch};
use super::segment::{Segment, file_offset};
use super::{LSN_END, Log};
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use base::Lsn;
use metrics::{FileKind, M, SyncReason};

/// A flush that has its range and has not been written.
pub(super) struct FlushPlan {
    pub(super) from: Lsn,
    pub(super) to: Lsn,
    /// Payload bytes in use in the block before that of `from`.
    pub(super) prev_used: u16,
    /// The durable LSN that the block headers name.
    pub(super) durable: Lsn,
    /// Flushes in flight when it began, itself included.
    pub(super) depth: u64,
    /// Callers that wait for it.
    pub(super) waiters: u64,
    pub(super) scratch: Scratch,
    pub(super) started_us: u64,
}

impl Log {
    /// Writes the blocks of a planned range and syncs each segment that they lie in.
    pub(super) fn write_and_sync(&self, plan: &mut FlushPlan, reason: SyncReason) -> Result {
        if plan.to >= LSN_END {
            return Err(Error::Limit { what: format!("the log has reached its last position, {LSN_END}") });
        }
        let shape = self.segments.shape();
        let first = block_of(plan.from);
        let last = block_of(Lsn(plan.to.0 - 1));
        self.metrics.add(M::LogFlushes, 1);
        self.metrics.add(M::LogBlocksWritten, last - first + 1);
        let mut at = first;
        while at <= last {
            let segment_last = (shape.segment_of(at) + 1) * shape.blocks - 1;
            let upto = last.min(segment_last);
            let segment = self.segments.get(shape.segment_of(at), plan.waiters)?;
            base::check!(segment.number == shape.segment_of(upto), "{at}..={upto} lie in two segments");
            self.write_blocks(plan, first, at, upto, &segment)?;
            let start = self.vfs.clock.now_us();
            let unsynced = planted(Bug::NoLogSync) || (planted(Bug::OneSegmentSynced) && upto < last);
            if !unsynced {
                segment.file.sync().map_err(|e| Error::io("sync", &segment.path, e))?;
            }
            let took = self.vfs.clock.now_us() - start;
            self.metrics.fsync(FileKind::Log, reason, took, plan.waiters);
            at = upto + 1;
        }
        Ok(())
    }

    /// Writes blocks `at..=upto` of the plan, which lie in one segment.
    fn write_blocks(
        &self,
        plan: &mut FlushPlan,
        first: u64,
        at: u64,
        upto: u64,
        segment: &Segment,
    ) -> Result {
        let header = |block: u64| BlockHeader {
            db_id: self.segments.shape().db_id,
            number: block,
            epoch: self.epoch,
            prev_used: if block == first { plan.prev_used } else { PAYLOAD_BYTES as u16 },
            durable: plan.durable,
        };
        let io = |e| Error::io("write", &segment.path, e);
        let offset = |block| file_offset(self.segments.shape(), block);
        let whole = |block: u64| block_start(block + 1) <= plan.to;
        if upto - at < GATHER_BLOCKS {
            for block in at..=upto {
                let part = self.gather(block, plan.to, &mut plan.scratch, (block - at) as usize);
                header(block).encode(part);
            }
            let bytes = plan.scratch.blocks(upto - at + 1);
            return segment.file.write_at(bytes, offset(at)).map_err(io);
        }
        let mut block = at;
        while block <= upto && whole(block) {
            let whole_count = (upto - block + 1).min(self.ring.contiguous(block));
            let count = whole_count - u64::from(!whole(block + whole_count - 1));
            let bytes = self.ring_blocks(block, count, &header);
            segment.file.write_at(bytes, offset(block)).map_err(io)?;
            block += count;
        }
        if block <= upto {
            let part = self.gather(block, plan.to, &mut plan.scratch, 0);
            header(block).encode(part);
            segment.file.write_at(part, offset(block)).map_err(io)?;
        }
        Ok(())
    }

    /// Copies the published payload of `block` below `to` to the place of block `n` in `scratch`,
    /// and zeros behind it.
    pub(super) fn gather<'s>(&self, block: u64, to: Lsn, scratch: &'s mut Scratch, n: usize) -> &'s mut [u8] {
        let end = to.min(block_start(block + 1));
        let out = &mut scratch.bytes[n * BLOCK_BYTES..][..BLOCK_BYTES];
        self.ring.read_into(block_start(block), end, out);
        let used = HEADER_BYTES + end.since(block_start(block)) as usize;
        let before = std::mem::replace(&mut scratch.used[n], used);
        if used < before {
            out[used..before].fill(0);
        }
        out
    }

    /// Returns the ring's memory of `count` blocks from `first` on, their headers filled in.
    #[allow(unsafe_code)]
    fn ring_blocks(&self, first: u64, count: u64, header: &dyn Fn(u64) -> BlockHeader) -> &[u8] {
        // SAFETY: two flushes never share a block. A flush with an open tail is alone, the others
        // end at a block's start, and `plan_flush` hands out ranges one after the other. The slice
        // is used for the write of this flush only.
        unsafe { self.ring.blocks(first, count, |block, bytes| header(block).encode(bytes)) }
    }
}
