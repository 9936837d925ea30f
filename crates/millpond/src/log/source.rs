//! [`BlockSource`]: where a scan gets blocks: from the segments, or from a thread that reads ahead.

use super::block::BLOCK_BYTES;
use super::read_ahead::{LogReadAhead, ReadRange};
use super::segment::{Segment, Segments};
use crate::error::{Error, Result};
use base::aligned::AlignedBuf;
use std::ops::Range;
use std::sync::Arc;

/// Blocks that one read fetches: 2 MiB.
const READ_BLOCKS: u64 = 512;
/// The same for a reader that goes backwards: mostly it has use for one group.
const READ_BLOCKS_BACKWARDS: u64 = 2;
const _: () = assert!(READ_BLOCKS_BACKWARDS < READ_BLOCKS);

/// Reads blocks of the log.
pub(super) struct BlockSource<'a> {
    segments: &'a Segments,
    /// The segment that was read last.
    segment: Option<Arc<Segment>>,
    /// Reads go through the page cache: most of what one fetches is needed by the next.
    is_cached: bool,
    read_ahead: Option<LogReadAhead>,
    /// Blocks that one read fetches.
    read_blocks: u64,
}

impl<'a> BlockSource<'a> {
    /// A source for a reader that goes forward.
    pub(super) fn forward(segments: &'a Segments) -> BlockSource<'a> {
        Self::new(segments, false, READ_BLOCKS)
    }

    /// A source for a reader that goes backwards.
    pub(super) fn backwards(segments: &'a Segments) -> BlockSource<'a> {
        Self::new(segments, true, READ_BLOCKS_BACKWARDS)
    }

    fn new(segments: &'a Segments, is_cached: bool, read_blocks: u64) -> BlockSource<'a> {
        // A read never goes beyond its segment.
        let read_blocks = read_blocks.min(segments.shape().blocks);
        BlockSource { segments, segment: None, is_cached, read_ahead: None, read_blocks }
    }

    /// The segments that are read.
    pub(super) fn segments(&self) -> &'a Segments {
        self.segments
    }

    /// Returns the most blocks that one read fetches.
    pub(super) fn read_blocks(&self) -> u64 {
        self.read_blocks
    }

    /// Returns how many blocks from `block` on one read fetches.
    pub(super) fn read_count(&self, block: u64) -> u64 {
        let blocks = self.segments.shape().blocks;
        self.read_blocks.min(blocks - block % blocks)
    }

    /// Starts a thread that reads the next blocks while the caller works on the current ones. What
    /// it reads begins at block `lead` of the buffer of each [`BlockSource::read`].
    pub(super) fn read_ahead(&mut self, lead: usize) -> Result {
        let read_ahead = LogReadAhead::start(lead, self.read_blocks as usize);
        self.read_ahead =
            Some(read_ahead.map_err(|e| Error::io("start a thread for", &self.segments.dir(), e))?);
        Ok(())
    }

    /// Lets the thread that reads ahead read the blocks from `block` on.
    pub(super) fn expect(&mut self, block: u64) {
        if self.read_ahead.is_some()
            && let (bytes, Some(range)) = (self.read_count(block) as usize * BLOCK_BYTES, self.range(block))
            && let Some(read_ahead) = &self.read_ahead
        {
            read_ahead.request(range, bytes);
        }
    }

    /// Reads `count` blocks from `block` on, which lie in one segment, to block `at` of `buffer`,
    /// and moves the blocks `held` of it right before them. Returns false, with the blocks moved,
    /// if the segment does not exist.
    pub(super) fn read(
        &mut self,
        block: u64,
        count: u64,
        buffer: &mut AlignedBuf,
        held: Range<usize>,
        at: usize,
    ) -> Result<bool> {
        let (held, len) = (held.start * BLOCK_BYTES..held.end * BLOCK_BYTES, count as usize * BLOCK_BYTES);
        if self.read_ahead.is_some()
            && let Some(range) = self.range(block)
            && let Some(read_ahead) = &self.read_ahead
            && let Some(taken) = read_ahead.take(&range, len, buffer, held.clone())
        {
            taken.map_err(|e| Error::io("read", &range.segment.path, e))?;
            return Ok(true);
        }
        let at = at * BLOCK_BYTES;
        let before = at - held.len();
        buffer.copy_within(held, before);
        let bytes = &mut buffer[at..][..len];
        let Some(range) = self.range(block) else { return Ok(false) };
        range.read(bytes).map_err(|e| Error::io("read", &range.segment.path, e))?;
        Ok(true)
    }

    /// Looks for the segment again at the next read.
    pub(super) fn forget_segment(&mut self) {
        self.segment = None;
    }

    /// Returns the blocks from `block` on, if their segment exists.
    fn range(&mut self, block: u64) -> Option<ReadRange> {
        let shape = self.segments.shape();
        let number = shape.segment_of(block);
        if self.segment.as_ref().is_none_or(|s| s.number != number) {
            self.segment = match self.is_cached {
                true => self.segments.find_cached(number),
                false => self.segments.find(number),
            };
        }
        let segment = self.segment.as_ref()?;
        Some(ReadRange::new(Arc::clone(segment), shape, block))
    }
}
