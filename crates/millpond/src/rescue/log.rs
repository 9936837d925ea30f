//! The redo log with holes: every whole group of every segment that can be read, in order, and
//! where groups are missing between them.

use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::log::block::{BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start};
use crate::log::group::{self, GROUP_BYTES_MAX, GROUP_HEADER_BYTES};
use crate::log::reader::EpochStart;
use crate::log::ring::PAD;
use crate::log::segment::{SegmentHeader, SegmentShape, file_offset, read_header};
use base::Lsn;
use base::aligned::AlignedBuf;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use vfs::{Create, File, OpenMode, Vfs};

/// Blocks that one read fetches.
const READ_BLOCKS: u64 = 64;

/// A part of the log, in order of position.
#[derive(Debug)]
pub(super) enum LogPiece<'a> {
    Group {
        lsn: Lsn,
        records: &'a [u8],
    },
    /// From `from` to `to` no group can be read.
    Hole {
        from: Lsn,
        to: Lsn,
    },
}

/// Which groups after a hole are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterHole {
    /// All.
    Read,
    /// None if nothing proves that the log was longer: recovery would end there too.
    ReadIfProven,
}

/// What is called for every valid block: with its number, header and payload.
type EachBlock<'a> = &'a mut dyn FnMut(u64, BlockHeader, &[u8]) -> ControlFlow<()>;

/// The segments of a log that can be read.
pub(super) struct DamagedLog {
    shape: SegmentShape,
    epochs: Vec<EpochStart>,
    /// Unsynced writes reach so far beyond the end of the log.
    window: u64,
    segments: BTreeMap<u64, Arc<dyn File>>,
    /// The highest LSN that something names as durable.
    durable: Lsn,
    /// Where the last valid block begins.
    highest: Lsn,
}

impl DamagedLog {
    /// Finds the segments in the directories, of which the first counts. Calls `damaged` for every
    /// file and directory that cannot be read.
    pub(super) fn open(vfs: &Vfs, dirs: &[&Path], root: &Root, damaged: &mut dyn FnMut(Error)) -> DamagedLog {
        let mut log = DamagedLog {
            shape: SegmentShape { db_id: root.db_id, blocks: root.segment_blocks },
            epochs: root.epochs.clone(),
            window: (root.ring_blocks * PAYLOAD_BYTES) as u64,
            segments: BTreeMap::new(),
            durable: root.durable,
            highest: Lsn::ZERO,
        };
        for dir in dirs.iter().rev() {
            match vfs.disk.list(dir) {
                Ok(names) => {
                    let segments = names.iter().filter(|name| name.ends_with(".log"));
                    segments.for_each(|name| {
                        log.open_segment(vfs, &dir.join(name)).unwrap_or_else(&mut *damaged);
                    });
                }
                Err(e) => damaged(Error::io("list", dir, e)),
            }
        }
        log.look_at_blocks();
        log
    }

    fn open_segment(&mut self, vfs: &Vfs, path: &Path) -> Result {
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let file = vfs.disk.open(path, mode).map_err(|e| Error::io("open", path, e))?;
        if let SegmentHeader::Number(number) = read_header(&*file, path, self.shape)? {
            self.segments.insert(number, file);
        }
        Ok(())
    }

    /// Learns from the headers of all blocks how far the log reached.
    fn look_at_blocks(&mut self) {
        let (mut durable, mut highest) = (self.durable, Lsn::ZERO);
        self.each_block(&mut |number, header, _| {
            durable = durable.max(header.durable);
            highest = highest.max(block_start(number));
            ControlFlow::Continue(())
        });
        (self.durable, self.highest) = (durable, highest);
    }

    /// Returns the epoch that block `block` must have.
    fn epoch_at(&self, block: u64) -> Option<u32> {
        let n = self.epochs.partition_point(|e| block_of(e.first) <= block);
        n.checked_sub(1).map(|n| self.epochs[n].epoch)
    }

    /// Calls `each` for every valid block, with its payload.
    fn each_block(&self, each: EachBlock<'_>) {
        let mut bytes = AlignedBuf::zeroed(READ_BLOCKS as usize * BLOCK_BYTES);
        for (number, file) in &self.segments {
            let first = number * self.shape.blocks;
            let mut at = 0;
            while at < self.shape.blocks {
                let count = READ_BLOCKS.min(self.shape.blocks - at);
                let offset = file_offset(self.shape, first + at);
                let part = &mut bytes[..count as usize * BLOCK_BYTES];
                let together = file.read_at(part, offset).is_ok();
                for n in 0..count {
                    let block = &mut part[n as usize * BLOCK_BYTES..][..BLOCK_BYTES];
                    let is_read = together || file.read_at(block, offset + n * BLOCK_BYTES as u64).is_ok();
                    let header = BlockHeader::decode(block).filter(|header| {
                        is_read
                            && header.db_id == self.shape.db_id
                            && header.number == first + at + n
                            && Some(header.epoch) == self.epoch_at(header.number)
                    });
                    let Some(header) = header else { continue };
                    if each(header.number, header, &block[HEADER_BYTES..]).is_break() {
                        return;
                    }
                }
                at += count;
            }
        }
    }

    /// Calls `each` for every piece of the log, from the lowest that can be read.
    pub(super) fn read(&self, after_hole: AfterHole, each: &mut dyn FnMut(&LogPiece<'_>)) {
        let mut parser = Parser {
            log: self,
            after_hole,
            each,
            at: Lsn::ZERO,
            epoch: 0,
            bytes: Vec::new(),
            used: 0,
            is_synced: false,
            hole_from: Some(Lsn::ZERO),
            has_begun: false,
        };
        let mut last: Option<(u64, u32, Vec<u8>)> = None;
        let mut has_ended = false;
        self.each_block(&mut |number, header, payload| {
            let mut kept = match last.take() {
                Some((before, epoch, kept)) => {
                    let follows = before + 1 == number;
                    let used = if follows { usize::from(header.prev_used) } else { PAYLOAD_BYTES };
                    has_ended = parser.add(&kept[..used]).is_break();
                    if !follows || used < PAYLOAD_BYTES || header.epoch != epoch {
                        has_ended |= parser.end_run(!follows).is_break();
                        parser.begin_run(number, header, follows);
                    }
                    kept
                }
                None => {
                    parser.begin_run(number, header, false);
                    Vec::new()
                }
            };
            kept.clear();
            kept.extend_from_slice(payload);
            last = Some((number, header.epoch, kept));
            if has_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if has_ended {
            return;
        }
        if let Some((_, _, kept)) = last
            && (parser.add(&kept).is_break() || parser.end_run(true).is_break())
        {
            return;
        }
        let end = parser.hole_from.unwrap_or(parser.at);
        if end < self.durable {
            (parser.each)(&LogPiece::Hole { from: end, to: self.durable });
        }
    }

    /// Whether something proves that the log was longer than up to `end`.
    fn proves_more(&self, end: Lsn) -> bool {
        end < self.durable || self.highest > end.plus(self.window)
    }
}

/// Finds the groups in runs of blocks that follow each other.
struct Parser<'a> {
    log: &'a DamagedLog,
    after_hole: AfterHole,
    each: &'a mut dyn FnMut(&LogPiece<'_>),
    /// The position of `bytes[used]`.
    at: Lsn,
    epoch: u32,
    bytes: Vec<u8>,
    used: usize,
    /// A group begins at `at`.
    is_synced: bool,
    /// Where the groups before the next one end, if something is missing between.
    hole_from: Option<Lsn>,
    /// A group was found.
    has_begun: bool,
}

impl Parser<'_> {
    /// Begins with block `number`. `follows`: a group begins with it.
    fn begin_run(&mut self, number: u64, header: BlockHeader, follows: bool) {
        (self.at, self.epoch) = (block_start(number), header.epoch);
        self.bytes.clear();
        self.used = 0;
        let is_first = self.log.epochs.iter().any(|epoch| epoch.first == self.at);
        // A flush that seals its range ends with a whole group.
        self.is_synced = follows || is_first || usize::from(header.prev_used) < PAYLOAD_BYTES;
    }

    fn add(&mut self, payload: &[u8]) -> ControlFlow<()> {
        if self.used > 1 << 20 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(payload);
        self.parse(false)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    fn skip(&mut self, bytes: usize) {
        self.used += bytes;
        self.at = self.at.plus(bytes as u64);
    }

    /// Returns the length of the group `skip` bytes further on, if a whole one begins there.
    fn group_at(&self, skip: usize) -> Option<usize> {
        let rest = &self.rest()[skip..];
        let len = group::claimed_len(rest.first_chunk()?)?;
        group::verify(rest.get(..len)?, self.at.plus(skip as u64), self.epoch).then_some(len)
    }

    /// Whether the bytes so far cannot tell whether a group begins at `at`.
    fn needs_more(&self) -> bool {
        match self.rest().first_chunk().map(group::claimed_len) {
            None => true,
            Some(len) => len.is_some_and(|len| len > self.rest().len()),
        }
    }

    /// Finds the groups in the bytes so far. `is_last`: no more bytes follow these.
    fn parse(&mut self, is_last: bool) -> ControlFlow<()> {
        loop {
            if self.is_synced {
                if let Some(len) = self.group_at(0) {
                    self.emit(len)?;
                    continue;
                }
                let is_blank = self.rest().iter().all(|b| *b == PAD || *b == 0);
                if is_blank || self.needs_more() && !is_last {
                    return ControlFlow::Continue(());
                }
                self.is_synced = false;
                self.hole_from.get_or_insert(self.at);
            }
            let left = self.rest().len();
            let tried = if is_last { left } else { left.saturating_sub(GROUP_BYTES_MAX) };
            match (0..tried).find(|&skip| self.group_at(skip).is_some()) {
                Some(skip) => {
                    self.skip(skip);
                    self.is_synced = true;
                }
                None => {
                    self.skip(tried);
                    return ControlFlow::Continue(());
                }
            }
        }
    }

    fn emit(&mut self, len: usize) -> ControlFlow<()> {
        if let Some(from) = self.hole_from.take() {
            let may_end = self.has_begun && self.after_hole == AfterHole::ReadIfProven;
            if may_end && !self.log.proves_more(from) {
                return ControlFlow::Break(());
            }
            (self.each)(&LogPiece::Hole { from, to: self.at });
        }
        self.has_begun = true;
        let records = &self.bytes[self.used..self.used + len][GROUP_HEADER_BYTES..];
        (self.each)(&LogPiece::Group { lsn: self.at, records });
        self.skip(len);
        ControlFlow::Continue(())
    }

    /// No block follows that continues this run. `gap`: the next block is not the next of the log.
    fn end_run(&mut self, gap: bool) -> ControlFlow<()> {
        self.parse(true)?;
        if self.rest().iter().all(|b| *b == PAD) {
            self.skip(self.rest().len());
        }
        if gap || !self.rest().is_empty() {
            self.hole_from.get_or_insert(self.at);
        }
        ControlFlow::Continue(())
    }
}
