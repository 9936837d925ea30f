//! [`BlockWriter`] writes a flush: it puts the blocks of the range together, writes them to the
//! segment files and syncs these.

use super::block::{BlockHeader, LSN_END, PAYLOAD_BYTES, block_of, block_start};
use super::ring::Ring;
use super::scratch::{GATHER_BLOCKS, Scratch};
use super::segment::{Segment, Segments, file_offset};
use super::stamp::BlockStamp;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use base::Lsn;
use metrics::{FileKind, M, Metrics, SyncReason};
use std::sync::Arc;
use vfs::Clock;

/// A flush that has its range and has not been written.
pub(super) struct FlushPlan {
    pub(super) from: Lsn,
    pub(super) to: Lsn,
    /// Payload bytes in use in the block before that of `from`.
    pub(super) prev_used: u16,
    /// The durable LSN that was known when it began.
    pub(super) durable: Lsn,
    /// Flushes in flight when it began, itself included.
    pub(super) depth: u64,
    /// Callers that wait for it.
    pub(super) waiters: u64,
    pub(super) scratch: Scratch,
    pub(super) started_us: u64,
}

/// Writes blocks of the log buffer to the segments.
pub(super) struct BlockWriter {
    segments: Segments,
    stamp: BlockStamp,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl BlockWriter {
    /// A writer of blocks with this stamp.
    pub(super) fn new(environment: &Environment, segments: Segments, stamp: BlockStamp) -> BlockWriter {
        let (clock, metrics) = (Arc::clone(&environment.vfs.clock), Arc::clone(&environment.metrics));
        BlockWriter { segments, stamp, clock, metrics }
    }

    /// The segment files.
    pub(super) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Writes the blocks of a planned range and syncs each segment that they lie in. REQUIRES: the
    /// range is published, and no other flush has one of its blocks.
    pub(super) fn write_and_sync(&self, ring: &Ring, plan: &mut FlushPlan, reason: SyncReason) -> Result {
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
            self.write_blocks(ring, plan, at, upto, &segment)?;
            let start = self.clock.now_us();
            let unsynced = planted(Bug::NoLogSync) || (planted(Bug::OneSegmentSynced) && upto < last);
            if !unsynced {
                segment.file.sync().map_err(|e| Error::io("sync", &segment.path, e))?;
            }
            let took = self.clock.now_us() - start;
            self.metrics.fsync(FileKind::Log, reason, took, plan.waiters);
            at = upto + 1;
        }
        Ok(())
    }

    /// Writes blocks `at..=upto` of the plan, which lie in one segment.
    fn write_blocks(
        &self,
        ring: &Ring,
        plan: &mut FlushPlan,
        at: u64,
        upto: u64,
        segment: &Segment,
    ) -> Result {
        let (first, prev_used, durable) = (block_of(plan.from), plan.prev_used, plan.durable);
        let header = |block: u64| {
            let prev_used = if block == first { prev_used } else { PAYLOAD_BYTES as u16 };
            self.stamp.header(block, prev_used, durable)
        };
        let io = |e| Error::io("write", &segment.path, e);
        let offset = |block| file_offset(self.segments.shape(), block);
        let whole = |block: u64| block_start(block + 1) <= plan.to;
        if upto - at < GATHER_BLOCKS {
            for block in at..=upto {
                let part = plan.scratch.gather(ring, block, plan.to, (block - at) as usize);
                header(block).encode(part);
            }
            let bytes = plan.scratch.blocks(upto - at + 1);
            return segment.file.write_at(bytes, offset(at)).map_err(io);
        }
        let mut block = at;
        while block <= upto && whole(block) {
            let whole_count = (upto - block + 1).min(ring.contiguous(block));
            let count = whole_count - u64::from(!whole(block + whole_count - 1));
            let bytes = ring_blocks(ring, block, count, &header);
            segment.file.write_at(bytes, offset(block)).map_err(io)?;
            block += count;
        }
        if block <= upto {
            let part = plan.scratch.gather(ring, block, plan.to, 0);
            header(block).encode(part);
            segment.file.write_at(part, offset(block)).map_err(io)?;
        }
        Ok(())
    }
}

/// Returns the ring's memory of `count` blocks from `first` on, their headers filled in. REQUIRES:
/// they are part of a planned flush.
#[allow(unsafe_code)]
fn ring_blocks<'r>(ring: &'r Ring, first: u64, count: u64, header: &dyn Fn(u64) -> BlockHeader) -> &'r [u8] {
    // SAFETY: two flushes never share a block. A flush with an open tail is alone, the others end
    // at a block's start, and `GroupCommit::plan_flush` hands out ranges one after the other. The
    // slice is used for the write of this flush only.
    unsafe { ring.blocks(first, count, |block, bytes| header(block).encode(bytes)) }
}
