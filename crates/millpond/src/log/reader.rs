//! Reading the redo log after a crash: groups in order from a position on, and the rule that
//! decides where the log ends.
//!
//! A block is valid only if its header is whole, names this database and its own number, and
//! carries the epoch that the root gives to its position. Groups are read while their bytes lie in
//! consecutive valid blocks and their checksums hold. The first position where that fails is the
//! end of the log, unless something proves that the log was longer (El3). That is a valid block
//! that names a higher durable LSN, or one that lies further beyond than the window W in which
//! unsynced writes can be. Then a middle part of the log is missing, and the answer is `Corrupt`,
//! never a guess.

use super::ahead::{ReadAhead, ReadRange};
use super::block::{
    BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block,
};
use super::copy::LogCopy;
use super::group::{self, GROUP_BYTES_MAX, GROUP_HEADER_BYTES};
use super::ring::PAD;
use super::segment::{Segment, Segments, file_offset};
use super::unsynced::UnsyncedBlocks;
use crate::error::{Error, Result};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::aligned_vec::AlignedVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Blocks that one read fetches.
const READ_BLOCKS: u64 = 512;
/// The same for a reader that goes backwards: mostly it has use for one group.
const READ_BLOCKS_BACKWARDS: u64 = 2;
/// Blocks that may be held when more are read: those of the longest group, and the blocks in which
/// it begins and ends.
const HELD_BLOCKS_MAX: usize = GROUP_BYTES_MAX / PAYLOAD_BYTES + 3;

/// An epoch and the first position that was written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochStart {
    /// The epoch.
    pub epoch: u32,
    /// The first position of it, the start of a block.
    pub first: Lsn,
}

/// A whole group and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// Its LSN.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Its records.
    pub records: &'a [u8],
}

/// Reads groups forward.
pub(crate) struct Scanner<'a> {
    segments: &'a Segments,
    epochs: &'a [EpochStart],
    /// Where the next group is expected.
    next: Lsn,
    /// The headers of consecutive valid blocks. The first is the block of `next`.
    held: VecDeque<BlockHeader>,
    first_held: u64,
    /// Index in `blocks` of the first held block; the others follow.
    held_at: usize,
    /// No valid block follows the held ones.
    exhausted: bool,
    /// Blocks that one read fetches.
    read_blocks: u64,
    /// The first block that may be read, for a scanner that goes backwards. It keeps what it holds.
    lowest: Option<u64>,
    /// The blocks as they were read.
    blocks: AlignedBuf,
    group: AlignedVec,
    segment: Option<Arc<Segment>>,
    /// Blocks that need not be read. Without them reads go through the page cache: most of what one
    /// fetches is needed by the next.
    copy: Option<&'a LogCopy>,
    ahead: Option<ReadAhead>,
    /// Blocks with which the log goes on where that of the segments ends.
    unsynced: Option<&'a UnsyncedBlocks>,
    /// Where it ended in the segments. From there on they are read.
    segments_end: Option<Lsn>,
    /// The highest durable LSN that a valid block named.
    durable_named: Lsn,
    run: Option<Run>,
}

/// A held block whose used bytes are known, because the next one names them. Most groups lie whole
/// in such a block, and need no other look at it.
#[derive(Clone, Debug)]
struct Run {
    /// The block's first position.
    first: Lsn,
    /// Where in `Scanner::blocks` its used bytes are.
    used: Range<usize>,
    epoch: u32,
}

impl<'a> Scanner<'a> {
    /// A scanner whose first group is expected at `from`. `epochs` is sorted by position and not
    /// empty.
    pub(crate) fn new(segments: &'a Segments, epochs: &'a [EpochStart], from: Lsn) -> Scanner<'a> {
        assert!(!epochs.is_empty() && epochs.is_sorted_by_key(|e| e.first));
        // A read never goes beyond its segment.
        let read_blocks = READ_BLOCKS.min(segments.shape().blocks) as usize;
        Scanner {
            segments,
            epochs,
            next: from,
            held: VecDeque::new(),
            first_held: block_of(from),
            held_at: 0,
            exhausted: false,
            read_blocks: READ_BLOCKS,
            lowest: None,
            blocks: AlignedBuf::zeroed((read_blocks + HELD_BLOCKS_MAX) * BLOCK_BYTES),
            group: AlignedVec::default(),
            segment: None,
            copy: None,
            ahead: None,
            unsynced: None,
            segments_end: None,
            durable_named: Lsn::ZERO,
            run: None,
        }
    }

    /// A scanner for a caller that looks at single groups, mostly each before the last one, by
    /// [`Scanner::seek`]. None of them lies below `from`, and none is of this run. `copy` may have
    /// them. `buffer` is the memory of another such scanner that is done.
    pub(crate) fn backwards(
        segments: &'a Segments,
        epochs: &'a [EpochStart],
        from: Lsn,
        copy: &'a LogCopy,
        buffer: Option<AlignedBuf>,
    ) -> Scanner<'a> {
        let read_blocks = READ_BLOCKS_BACKWARDS.min(segments.shape().blocks);
        let held_max = 2 * (read_blocks as usize + HELD_BLOCKS_MAX);
        Scanner {
            segments,
            epochs,
            next: from,
            held: VecDeque::new(),
            first_held: block_of(from),
            held_at: 0,
            exhausted: false,
            read_blocks,
            lowest: Some(block_of(from)),
            blocks: buffer.unwrap_or_else(|| AlignedBuf::zeroed(held_max * BLOCK_BYTES)),
            group: AlignedVec::default(),
            segment: None,
            copy: Some(copy),
            ahead: None,
            unsynced: None,
            segments_end: None,
            durable_named: Lsn::ZERO,
            run: None,
        }
    }

    /// Takes the memory for another scanner. This one is done.
    pub(crate) fn take_buffer(&mut self) -> AlignedBuf {
        self.exhausted = true;
        self.held.clear();
        self.run = None;
        std::mem::replace(&mut self.blocks, AlignedBuf::zeroed(BLOCK_BYTES))
    }

    /// Makes the group at `at` the next one. REQUIRES: a scanner made by [`Scanner::backwards`].
    pub(crate) fn seek(&mut self, at: Lsn) -> Result {
        let block = block_of(at);
        let lowest = self.lowest.expect("a scanner that goes backwards");
        self.next = at;
        self.exhausted = false;
        let few = self.held.len() <= self.read_blocks as usize + HELD_BLOCKS_MAX;
        if few && block.wrapping_sub(self.first_held) < self.held.len() as u64 {
            return Ok(());
        }
        // The blocks before it are needed next, most likely.
        let in_segment = block % self.segments.shape().blocks;
        self.hold_from((block - in_segment % self.read_blocks).max(lowest));
        if self.hold(block)?.is_none() {
            self.hold_from(block);
        }
        Ok(())
    }

    /// Forgets the held blocks; the next ones are read from `block` on.
    fn hold_from(&mut self, block: u64) {
        self.held.clear();
        self.run = None;
        (self.first_held, self.held_at, self.exhausted) = (block, 0, false);
    }

    /// Starts a thread that reads the next blocks while the caller works on the current ones. For
    /// callers that read much of the log.
    pub(crate) fn read_ahead(mut self) -> Result<Scanner<'a>> {
        let blocks = READ_BLOCKS.min(self.segments.shape().blocks) as usize;
        let ahead = ReadAhead::start(HELD_BLOCKS_MAX, blocks);
        self.ahead = Some(ahead.map_err(|e| Error::io("start a thread for", &self.segments.dir(), e))?);
        Ok(self)
    }

    /// Goes on in these blocks where the log of the segments ends.
    pub(crate) fn and_unsynced(self, unsynced: Option<&'a UnsyncedBlocks>) -> Scanner<'a> {
        Scanner { unsynced, ..self }
    }

    /// Returns where the log of the segments ended, if the scan has come to that and there may be
    /// more.
    pub(crate) fn segments_end(&self) -> Option<Lsn> {
        self.segments_end
    }

    /// Begins to read the unsynced blocks, at the end of the log in the segments. False if that is
    /// done already, or there are none.
    fn goes_on_unsynced(&mut self) -> bool {
        if self.unsynced.is_none() || self.segments_end.is_some() {
            return false;
        }
        self.segments_end = Some(self.next);
        self.hold_from(block_of(self.next));
        true
    }

    /// Returns an unsynced block that counts instead of the one in the segments.
    fn unsynced(&self, block: u64) -> Option<&'a [u8]> {
        self.unsynced.filter(|_| self.segments_end.is_some())?.get(block)
    }

    /// Returns where the next group is expected. After [`Scanner::next`] returned `None` this is
    /// the end of the log.
    pub(crate) fn position(&self) -> Lsn {
        self.next
    }

    /// Returns the epoch that block `block` must have.
    fn epoch_at(&self, block: u64) -> Option<u32> {
        let n = self.epochs.partition_point(|e| block_of(e.first) <= block);
        n.checked_sub(1).map(|n| self.epochs[n].epoch)
    }

    /// Decodes the header of block `block`; `None` if the block is not valid.
    fn valid(&self, bytes: &[u8], block: u64) -> Option<BlockHeader> {
        let header = BlockHeader::decode(bytes)?;
        let ours = header.db_id == self.segments.shape().db_id
            && header.number == block
            && Some(header.epoch) == self.epoch_at(block);
        ours.then_some(header)
    }

    /// Reads `count` blocks from `block` on, which lie in one segment, into `blocks`, behind those
    /// that are held. Returns the index of the first, or `None` if the segment does not exist.
    fn read(&mut self, block: u64, count: u64) -> Result<Option<usize>> {
        let (held, len) = (self.held_at..self.held_at + self.held.len(), count as usize * BLOCK_BYTES);
        let held = held.start * BLOCK_BYTES..held.end * BLOCK_BYTES;
        // What is read has its place, and the held ones go right before it. A scanner that goes
        // backwards may hold more.
        let at = if self.lowest.is_some() { self.held.len() } else { HELD_BLOCKS_MAX };
        let held_at = at - self.held.len();
        if self.ahead.is_some()
            && let Some(range) = self.read_range(block)
            && let Some(ahead) = &self.ahead
            && let Some(taken) = ahead.take(&range, len, &mut self.blocks, held.clone())
        {
            taken.map_err(|e| Error::io("read", &range.segment.path, e))?;
            self.held_at = held_at;
            return Ok(Some(at));
        }
        self.blocks.copy_within(held, held_at * BLOCK_BYTES);
        self.held_at = held_at;
        let bytes = &mut self.blocks[at * BLOCK_BYTES..][..len];
        if self.copy.is_some_and(|copy| copy.read(block, bytes)) {
            return Ok(Some(at));
        }
        let range = self.read_range(block);
        let has_unsynced = self.unsynced(block).is_some();
        let bytes = &mut self.blocks[at * BLOCK_BYTES..][..len];
        match range {
            Some(range) => range.read(bytes).map_err(|e| Error::io("read", &range.segment.path, e))?,
            // A segment that would have been made for the next flush.
            None if has_unsynced => bytes.fill(0),
            None => return Ok(None),
        }
        Ok(Some(at))
    }

    /// Returns the blocks from `block` on, if their segment exists.
    fn read_range(&mut self, block: u64) -> Option<ReadRange> {
        let shape = self.segments.shape();
        let number = shape.segment_of(block);
        if self.segment.as_ref().is_none_or(|s| s.number != number) {
            self.segment = match self.copy {
                Some(_) => self.segments.find_cached(number),
                None => self.segments.find(number),
            };
        }
        let segment = self.segment.as_ref()?;
        Some(ReadRange::new(Arc::clone(segment), shape, block))
    }

    /// Returns how many blocks from `block` on one read fetches.
    fn read_count(&self, block: u64) -> u64 {
        let blocks = self.segments.shape().blocks;
        self.read_blocks.min(blocks - block % blocks)
    }

    /// Reads until block `block` is held or no valid block follows. Returns its header if it is
    /// held.
    fn hold(&mut self, block: u64) -> Result<Option<&BlockHeader>> {
        while !self.exhausted && block >= self.first_held + self.held.len() as u64 {
            let from = self.first_held + self.held.len() as u64;
            let count = self.read_count(from);
            self.run = None;
            let Some(at) = self.read(from, count)? else {
                self.exhausted = true;
                break;
            };
            let after = from + count;
            if self.ahead.is_some()
                && let (bytes, Some(range)) =
                    (self.read_count(after) as usize * BLOCK_BYTES, self.read_range(after))
                && let Some(ahead) = &self.ahead
            {
                ahead.request(range, bytes);
            }
            for n in 0..count as usize {
                if let Some(unsynced) = self.unsynced(from + n as u64) {
                    self.blocks[(at + n) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(unsynced);
                }
                let bytes = &self.blocks[(at + n) * BLOCK_BYTES..][..BLOCK_BYTES];
                let Some(header) = self.valid(bytes, from + n as u64) else {
                    self.exhausted = true;
                    break;
                };
                self.durable_named = self.durable_named.max(header.durable);
                self.held.push_back(header);
            }
        }
        let index = block.checked_sub(self.first_held).map(|i| i as usize);
        Ok(index.and_then(|i| self.held.get(i)))
    }

    /// Returns the payload of a held block.
    fn payload(&self, block: u64) -> &[u8] {
        base::verify!(
            block.wrapping_sub(self.first_held) < self.held.len() as u64,
            "block {block} is not held"
        );
        let at = self.held_at + (block - self.first_held) as usize;
        &self.blocks[at * BLOCK_BYTES + HEADER_BYTES..(at + 1) * BLOCK_BYTES]
    }

    /// Releases the blocks below that of `next`.
    fn release(&mut self) {
        if self.lowest.is_some() {
            return;
        }
        let keep = block_of(self.next);
        while self.first_held < keep && self.held.pop_front().is_some() {
            self.first_held += 1;
            self.held_at += 1;
        }
        if self.held.is_empty() {
            self.first_held = keep;
            self.held_at = 0;
        }
    }

    /// Returns the next group, or `None` at the end of the log.
    pub(crate) fn next(&mut self) -> Result<Option<Group<'_>>> {
        if let Some((lsn, found)) = self.take_in_run() {
            let records = &self.blocks[found][GROUP_HEADER_BYTES..];
            return Ok(Some(Group { lsn, end: self.next, records }));
        }
        let mut group = std::mem::take(&mut self.group);
        group.clear();
        let lsn = self.append_next(&mut group);
        self.group = group;
        Ok(lsn?.map(|lsn| Group { lsn, end: self.next, records: &self.group[GROUP_HEADER_BYTES..] }))
    }

    /// Appends the next group, its header included, to `out` and returns its LSN. At the end of the
    /// log it returns `None` and appends nothing.
    pub(crate) fn append_next(&mut self, out: &mut AlignedVec) -> Result<Option<Lsn>> {
        if let Some((lsn, found)) = self.take_in_run() {
            out.extend_from_slice(&self.blocks[found]);
            return Ok(Some(lsn));
        }
        let start = out.len();
        let mut found = self.locate(out);
        if matches!(found, Ok(None)) && self.goes_on_unsynced() {
            out.truncate(start);
            found = self.locate(out);
        }
        match found {
            Ok(Some(lsn)) => {
                base::verify!(lsn >= self.next, "the scan goes back from {} to {lsn}", self.next);
                self.next = lsn.plus((out.len() - start) as u64);
            }
            Ok(None) | Err(_) => out.truncate(start),
        }
        found
    }

    /// Does the work of [`Scanner::append_next`]. May leave part of a group in `out`.
    fn locate(&mut self, out: &mut AlignedVec) -> Result<Option<Lsn>> {
        let start = out.len();
        loop {
            self.release();
            let at = self.next;
            let block = block_of(at);
            let Some(held) = self.hold(block)? else { return Ok(None) };
            let epoch = held.epoch;
            let offset = offset_in_block(at);
            let padded = self.payload(block)[offset..].iter().all(|b| *b == PAD);
            // The last bytes of a block may also be the first bytes of a group that continues in
            // the next block.
            let continues =
                |after: &BlockHeader| usize::from(after.prev_used) == PAYLOAD_BYTES && after.epoch == epoch;
            if padded && !self.hold(block + 1)?.is_some_and(continues) {
                self.next = block_start(block + 1);
                continue;
            }
            if offset > 0
                && let Some(after) = self.hold(block + 1)?
                && usize::from(after.prev_used) == offset
            {
                self.next = block_start(block + 1);
                continue;
            }
            self.begin_run(block, epoch);
            if let Some(group) = self.in_one_block(block, offset) {
                let whole = group::verify(group, at, epoch);
                out.extend_from_slice(group);
                return Ok(whole.then_some(at));
            }
            let mut header = [0u8; GROUP_HEADER_BYTES];
            if !self.gather(at, GROUP_HEADER_BYTES, epoch, out)? {
                return Ok(None);
            }
            header.copy_from_slice(&out[start..]);
            let Some(len) = group::claimed_len(&header) else { return Ok(None) };
            if !self.gather(at.plus(GROUP_HEADER_BYTES as u64), len - GROUP_HEADER_BYTES, epoch, out)? {
                return Ok(None);
            }
            return Ok(group::verify(&out[start..], at, epoch).then_some(at));
        }
    }

    /// Returns what may be a group at `offset` of a held block, if it ends in that block. Most do.
    fn in_one_block(&self, block: u64, offset: usize) -> Option<&[u8]> {
        let rest = &self.payload(block)[offset..];
        let len = group::claimed_len(rest.first_chunk()?)?;
        rest.get(..len)
    }

    /// Notes how many bytes of a held block are in use, if the next one is held too.
    fn begin_run(&mut self, block: u64, epoch: u32) {
        let index = (block - self.first_held) as usize;
        let payload = (self.held_at + index) * BLOCK_BYTES + HEADER_BYTES;
        self.run = self.held.get(index + 1).map(|after| {
            let used = payload..payload + usize::from(after.prev_used);
            Run { first: block_start(block), used, epoch }
        });
    }

    /// Returns the LSN of the next group and where in `blocks` it is, and goes on behind it, if it
    /// lies whole in the block of the group before and its checksum holds.
    #[inline]
    fn take_in_run(&mut self) -> Option<(Lsn, Range<usize>)> {
        let run = self.run.as_ref()?;
        let offset = self.next.0.checked_sub(run.first.0)? as usize;
        let rest = self.blocks[run.used.clone()].get(offset..)?;
        let len = group::claimed_len(rest.first_chunk()?)?;
        if !group::verify(rest.get(..len)?, self.next, run.epoch) {
            return None;
        }
        let at = run.used.start + offset;
        let lsn = self.next;
        self.next = lsn.plus(len as u64);
        Some((lsn, at..at + len))
    }

    /// Appends `n` positions from `at` on to `out`. False if they do not lie in consecutive valid
    /// blocks.
    fn gather(&mut self, at: Lsn, n: usize, epoch: u32, out: &mut AlignedVec) -> Result<bool> {
        let mut at = at;
        let mut left = n;
        while left > 0 {
            let offset = offset_in_block(at);
            let block = block_of(at);
            let Some(held) = self.hold(block)? else { return Ok(false) };
            let contiguous = offset > 0 || usize::from(held.prev_used) == PAYLOAD_BYTES;
            if held.epoch != epoch || (left < n && !contiguous) {
                return Ok(false);
            }
            let take = left.min(PAYLOAD_BYTES - offset);
            out.extend_from_slice(&self.payload(block)[offset..offset + take]);
            left -= take;
            at = at.plus(take as u64);
        }
        Ok(true)
    }

    /// Fails if something proves that the log was longer than up to [`Scanner::position`], where it
    /// ended. `known` is the highest LSN that something outside the log (the root) knows to be
    /// durable.
    pub(crate) fn check_end(&mut self, window: u64, known: Lsn) -> Result {
        let end = self.next;
        let shape = self.segments.shape();
        (self.segment, self.run, self.unsynced) = (None, None, None);
        self.held.clear();
        let fail = |scanner: &Self, what: String| {
            let number = shape.segment_of(block_of(end));
            let file = match scanner.segments.find(number) {
                Some(segment) => segment.path.clone(),
                None => scanner.segments.dir().join(format!("{number:016x}.log")),
            };
            let offset = file_offset(shape, block_of(end)) + (HEADER_BYTES + offset_in_block(end)) as u64;
            Err(Error::corrupt(
                &file,
                format!("the log breaks off at LSN {end} (offset {offset} of this segment), but {what}"),
            ))
        };
        if known > end {
            return fail(self, format!("the root knows it to be durable up to LSN {known}"));
        }
        if self.durable_named > end {
            let named = self.durable_named;
            return fail(self, format!("a block before names LSN {named} as durable"));
        }
        // A valid block behind the hole and within the window may be an unsynced write; further out
        // it cannot be. An epoch begins at the start of a block. So the block of the end can be of
        // another epoch only if the end is its start.
        let first = block_of(end) + u64::from(offset_in_block(end) > 0);
        let last = block_of(end.plus(window)) + 1 + shape.blocks;
        let highest = self.segments.numbers().last().map_or(0, |n| (n + 1) * shape.blocks);
        let mut block = first;
        while block <= last.min(highest.saturating_sub(1)) {
            let count = self.read_count(block);
            if let Some(at) = self.read(block, count)? {
                for n in 0..count {
                    if let Some(what) = self.proves_longer_log(at + n as usize, block + n, end, window) {
                        return fail(self, what);
                    }
                }
            }
            block += count;
        }
        for number in self.segments.numbers() {
            let block = number * shape.blocks;
            if block > last
                && let Some(at) = self.read(block, 1)?
                && let Some(what) = self.proves_longer_log(at, block, end, window)
            {
                return fail(self, what);
            }
        }
        Ok(())
    }

    /// Returns how block `block`, at `index` of the blocks read, proves that the log did not end at
    /// `end`; `None` if it does not.
    fn proves_longer_log(&self, index: usize, block: u64, end: Lsn, window: u64) -> Option<String> {
        let bytes = &self.blocks[index * BLOCK_BYTES..][..BLOCK_BYTES];
        // The root names an epoch before the first block of it is written. So a block of a younger
        // epoch proves that the newest root is lost.
        if let Some(header) = BlockHeader::decode(bytes)
            && header.db_id == self.segments.shape().db_id
            && header.number == block
            && self.epochs.last().is_some_and(|known| header.epoch > known.epoch)
        {
            return Some(format!("block {block} is of epoch {}, which the root does not know", header.epoch));
        }
        let header = self.valid(bytes, block)?;
        if header.durable > end {
            return Some(format!("block {block} names LSN {} as durable", header.durable));
        }
        (block_start(block) > end.plus(window))
            .then(|| format!("block {block} lies further on than unsynced writes can reach"))
    }
}
