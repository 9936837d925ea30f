//! [`HeldBlocks`]: the consecutive valid blocks that a scan has in memory.

use super::block::{BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES};
use super::epochs::BlockRule;
use super::group::GROUP_BYTES_MAX;
use super::source::BlockSource;
use super::unsynced::UnsyncedBlocks;
use crate::error::Result;
use base::Lsn;
use base::aligned::AlignedBuf;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks that may be held when more are read: those of the longest group, and the blocks in which
/// it begins and ends.
const HELD_BLOCKS_MAX: usize = GROUP_BYTES_MAX / PAYLOAD_BYTES + 3;

/// Blocks of a log, read as they are asked for.
pub(super) struct HeldBlocks<'a> {
    source: BlockSource<'a>,
    rule: BlockRule<'a>,
    /// Blocks that count instead of those of the segments.
    unsynced: Option<&'a UnsyncedBlocks>,
    /// The headers of the held blocks.
    headers: VecDeque<BlockHeader>,
    /// The first held block.
    first: u64,
    /// Its index in `blocks`; the others follow.
    at: usize,
    /// No valid block follows the held ones.
    exhausted: bool,
    /// The first block that may be read, for a scanner that goes backwards. It keeps what it holds.
    lowest: Option<u64>,
    /// The blocks as they were read.
    blocks: AlignedBuf,
    /// The highest durable LSN that a valid block named.
    durable_named: Lsn,
}

impl<'a> HeldBlocks<'a> {
    /// For a reader that goes forward from `block` on.
    pub(super) fn forward(source: BlockSource<'a>, rule: BlockRule<'a>, block: u64) -> HeldBlocks<'a> {
        let most = source.read_blocks() as usize + HELD_BLOCKS_MAX;
        Self::new(source, rule, block, AlignedBuf::zeroed(most * BLOCK_BYTES))
    }

    /// For a reader that goes backwards, as far as `lowest`. `buffer` is the memory of another one.
    pub(super) fn backwards(
        source: BlockSource<'a>,
        rule: BlockRule<'a>,
        lowest: u64,
        buffer: Option<AlignedBuf>,
    ) -> HeldBlocks<'a> {
        let most = 2 * (source.read_blocks() as usize + HELD_BLOCKS_MAX);
        let blocks = buffer.unwrap_or_else(|| AlignedBuf::zeroed(most * BLOCK_BYTES));
        HeldBlocks { lowest: Some(lowest), ..Self::new(source, rule, lowest, blocks) }
    }

    fn new(source: BlockSource<'a>, rule: BlockRule<'a>, first: u64, blocks: AlignedBuf) -> HeldBlocks<'a> {
        HeldBlocks {
            source,
            rule,
            unsynced: None,
            headers: VecDeque::new(),
            first,
            at: 0,
            exhausted: false,
            lowest: None,
            blocks,
            durable_named: Lsn::ZERO,
        }
    }

    /// Takes the memory. Nothing can be read any more.
    pub(super) fn take_buffer(&mut self) -> AlignedBuf {
        self.exhausted = true;
        self.headers.clear();
        std::mem::replace(&mut self.blocks, AlignedBuf::zeroed(BLOCK_BYTES))
    }

    /// Starts a thread that reads ahead.
    pub(super) fn read_ahead(&mut self) -> Result {
        self.source.read_ahead(HELD_BLOCKS_MAX)
    }

    /// The source of the blocks.
    pub(super) fn source(&self) -> &BlockSource<'a> {
        &self.source
    }

    /// The rule by which they are valid.
    pub(super) fn rule(&self) -> BlockRule<'a> {
        self.rule
    }

    /// The highest durable LSN that a valid block named.
    pub(super) fn durable_named(&self) -> Lsn {
        self.durable_named
    }

    /// Forgets the held blocks; the next ones are read from `block` on.
    fn hold_from(&mut self, block: u64) {
        self.headers.clear();
        (self.first, self.at, self.exhausted) = (block, 0, false);
    }

    /// Forgets the held blocks. From `block` on these count instead of those of the segments.
    pub(super) fn go_on_in(&mut self, unsynced: &'a UnsyncedBlocks, block: u64) {
        self.unsynced = Some(unsynced);
        self.hold_from(block);
    }

    /// Forgets the held blocks and the unsynced ones, to look at others with
    /// [`HeldBlocks::look_at`].
    pub(super) fn forget(&mut self) {
        self.source.forget_segment();
        self.unsynced = None;
        self.headers.clear();
    }

    /// Goes to `block`, for a reader that goes backwards. Returns whether held blocks have moved.
    pub(super) fn seek(&mut self, block: u64) -> Result<bool> {
        let lowest = self.lowest.expect("a scanner that goes backwards");
        self.exhausted = false;
        let few = self.headers.len() <= self.source.read_blocks() as usize + HELD_BLOCKS_MAX;
        if few && block.wrapping_sub(self.first) < self.headers.len() as u64 {
            return Ok(false);
        }
        // The blocks before it are needed next, most likely.
        let in_segment = block % self.source.segments().shape().blocks;
        self.hold_from((block - in_segment % self.source.read_blocks()).max(lowest));
        if self.hold(block)?.is_none() {
            self.hold_from(block);
        }
        Ok(true)
    }

    /// Reads `count` blocks from `block` on, which lie in one segment, into `blocks`, after those
    /// that are held. Returns the index of the first, or `None` if the segment does not exist.
    fn read(&mut self, block: u64, count: u64) -> Result<Option<usize>> {
        let held = self.at..self.at + self.headers.len();
        // What is read has its place, and the held ones go right before it. A scanner that goes
        // backwards may hold more.
        let at = if self.lowest.is_some() { held.len() } else { HELD_BLOCKS_MAX };
        let held_at = at - held.len();
        let found = self.source.read(block, count, &mut self.blocks, held, at)?;
        self.at = held_at;
        if !found {
            // Perhaps of a segment that would have been made for the next flush.
            if self.unsynced.is_none_or(|unsynced| unsynced.get(block).is_none()) {
                return Ok(None);
            }
            self.blocks[at * BLOCK_BYTES..][..count as usize * BLOCK_BYTES].fill(0);
        }
        Ok(Some(at))
    }

    /// Reads until block `block` is held or no valid block follows. Returns its header if it is
    /// held.
    pub(super) fn hold(&mut self, block: u64) -> Result<Option<&BlockHeader>> {
        while !self.exhausted && block >= self.first + self.headers.len() as u64 {
            self.read_more()?;
        }
        let index = block.checked_sub(self.first).map(|i| i as usize);
        Ok(index.and_then(|i| self.headers.get(i)))
    }

    /// Reads the blocks after the held ones.
    fn read_more(&mut self) -> Result {
        let from = self.first + self.headers.len() as u64;
        let count = self.source.read_count(from);
        let Some(at) = self.read(from, count)? else {
            self.exhausted = true;
            return Ok(());
        };
        self.source.expect(from + count);
        for n in 0..count as usize {
            let bytes = &mut self.blocks[(at + n) * BLOCK_BYTES..][..BLOCK_BYTES];
            if let Some(unsynced) = self.unsynced.and_then(|unsynced| unsynced.get(from + n as u64)) {
                bytes.copy_from_slice(unsynced);
            }
            let Some(header) = self.rule.valid(bytes, from + n as u64) else {
                self.exhausted = true;
                break;
            };
            self.durable_named = self.durable_named.max(header.durable);
            self.headers.push_back(header);
        }
        Ok(())
    }

    /// Shows each of `count` blocks from `block` on, which lie in one segment, with its number,
    /// until `look` finds something. REQUIRES: none are held.
    pub(super) fn look_at<T>(
        &mut self,
        block: u64,
        count: u64,
        look: impl Fn(&[u8], u64) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(at) = self.read(block, count)? else { return Ok(None) };
        let mut blocks = self.blocks[at * BLOCK_BYTES..].chunks_exact(BLOCK_BYTES).zip(block..block + count);
        Ok(blocks.find_map(|(bytes, block)| look(bytes, block)))
    }

    /// Returns where in memory the payload of a held block is.
    fn range_of(&self, block: u64) -> Range<usize> {
        base::verify!(
            block.wrapping_sub(self.first) < self.headers.len() as u64,
            "block {block} is not held"
        );
        let at = self.at + (block - self.first) as usize;
        at * BLOCK_BYTES + HEADER_BYTES..(at + 1) * BLOCK_BYTES
    }

    /// Returns the payload of a held block.
    pub(super) fn payload(&self, block: u64) -> &[u8] {
        &self.blocks[self.range_of(block)]
    }

    /// Returns where in memory the used bytes of a held block are, if the next one is held too. It
    /// holds until another block is asked for.
    pub(super) fn used(&self, block: u64) -> Option<Range<usize>> {
        let start = self.range_of(block).start;
        let after = self.headers.get((block - self.first) as usize + 1)?;
        Some(start..start + usize::from(after.prev_used))
    }

    /// Returns bytes of a range that [`HeldBlocks::used`] has named.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.blocks[range]
    }

    /// Releases the blocks below `keep`.
    pub(super) fn release_below(&mut self, keep: u64) {
        if self.lowest.is_some() {
            return;
        }
        while self.first < keep && self.headers.pop_front().is_some() {
            self.first += 1;
            self.at += 1;
        }
        if self.headers.is_empty() {
            self.first = keep;
            self.at = 0;
        }
    }
}
