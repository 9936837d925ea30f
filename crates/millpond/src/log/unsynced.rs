//! Log that outlives the process and is not synced: the file `unsynced`.
//!
//! A commit that must survive the end of the process, and not a power cut, is copied into the page
//! cache of the system. It is not written into the segments: they bypass the page cache, and each
//! write past it would first have to wait for what the cache has of the same block (decision 0190).
//!
//! The file has the blocks of the log buffer, each at the place of its number modulo their count,
//! in the format of the segments. So it is read without knowing what happened to it: a block names
//! its database, its number and its epoch, and the checksum of a group covers its LSN and epoch.
//! Whatever a power cut leaves of it is either a part of this log or no log at all. It is never
//! synced.
//!
//! ```text
//!   segments:  ... ---------------+
//!   unsynced:             +-------+-----------+
//!                  durable LSN            written LSN
//! ```
//! What the file has begins at or below the durable LSN and has no hole up to the *written LSN*.
//! Recovery reads the segments to their end and goes on in this file ([`UnsyncedBlocks`]). What it
//! finds there is copied into the segments and synced before anything else is written.

use super::Log;
use super::block::{
    BLOCK_BYTES, BlockHeader, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block,
};
use super::commit::FlushState;
use super::segment::{Segments, file_offset, write_zeros};
use super::write::{GATHER_BLOCKS, Scratch};
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, spin};
use metrics::{M, SyncReason};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, File, OpenMode, SharedBytes, Vfs, WriteOp};

/// The name of the file, in the directory of the database.
pub(crate) const NAME: &str = "unsynced";

/// The file of a log that is open.
pub(super) struct Unsynced {
    vfs: Vfs,
    path: PathBuf,
    /// Everything below it outlives the process. It may lie below the durable LSN.
    written: AtomicU64,
    writer: Mutex<Writer>,
}

/// What the thread uses that writes.
enum Writer {
    /// Nothing has been written yet.
    Unused,
    Open(UnsyncedFile, Scratch),
    /// The disk has refused a write. Commits are synced from then on.
    Refused,
}

/// The open file: as memory where the disk allows that.
enum UnsyncedFile {
    Mapped(Box<dyn SharedBytes>),
    Plain(Arc<dyn File>),
}

impl UnsyncedFile {
    fn write(&mut self, bytes: &[u8], offset: usize) -> io::Result<()> {
        match self {
            UnsyncedFile::Mapped(memory) => memory.write(bytes, offset),
            UnsyncedFile::Plain(file) => file.write_at(bytes, offset as u64)?,
        }
        Ok(())
    }
}

/// Published blocks in a scratch buffer.
struct Copied {
    first: u64,
    count: u64,
    /// Where the log ends that they hold.
    to: Lsn,
}

impl Unsynced {
    /// A file in `dir`, which is made when it is needed, for a log that continues at `start`.
    pub(super) fn new(vfs: &Vfs, dir: &Path, start: Lsn) -> Unsynced {
        let (path, writer) = (dir.join(NAME), Mutex::new(Writer::Unused));
        Unsynced { vfs: vfs.clone(), path, written: AtomicU64::new(start.0), writer }
    }

    /// Opens the file with room for `blocks` blocks. All of it is written here, so that a full disk
    /// is seen now.
    fn open(&self, blocks: u64) -> io::Result<UnsyncedFile> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = self.vfs.disk.open(&self.path, mode)?;
        let bytes = blocks * BLOCK_BYTES as u64;
        if file.len()? < bytes {
            write_zeros(&*file, bytes)?;
        }
        let mapped = file.map(bytes as usize);
        Ok(mapped.map_or(UnsyncedFile::Plain(file), UnsyncedFile::Mapped))
    }
}

impl Log {
    /// Returns when the group at `lsn` outlives the process. It is not durable: a power cut may
    /// take it. If the file cannot be written, it syncs the log, for the given reason. An error if
    /// the log has failed. REQUIRES: the group has been appended; no latch is held.
    pub(crate) fn outlive(&self, lsn: Lsn, reason: SyncReason) -> Result {
        let Some(unsynced) = &self.unsynced else { return Ok(()) };
        let outlives = || unsynced.written.load(Ordering::Acquire) > lsn.0 || self.durable_lsn() > lsn;
        if outlives() || planted(Bug::WrittenNotAwaited) {
            return Ok(());
        }
        let mut turn = 0;
        while self.ring.published() <= lsn {
            self.poison.check()?;
            base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
            spin(&mut turn);
        }
        // Those who wait here find their groups written by the thread before them.
        let mut writer = unsynced.writer.lock();
        while !outlives() {
            self.poison.check()?;
            let written = match &mut *writer {
                Writer::Unused => unsynced.open(self.options.ring_blocks as u64).map(|file| {
                    *writer = Writer::Open(file, Scratch::new());
                }),
                Writer::Open(file, scratch) => self.write_unsynced(unsynced, file, scratch),
                Writer::Refused => {
                    drop(writer);
                    return self.flush_to(lsn, reason).map(drop);
                }
            };
            if written.is_err() {
                *writer = Writer::Refused;
            }
        }
        Ok(())
    }

    /// Writes published blocks that do not outlive the process yet.
    fn write_unsynced(
        &self,
        unsynced: &Unsynced,
        file: &mut UnsyncedFile,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        let ring_blocks = self.options.ring_blocks as u64;
        let written = Lsn(unsynced.written.load(Ordering::Relaxed));
        let Copied { first, count, to } = self.copy_published(written, scratch);
        let bytes = scratch.blocks(count);
        let place = first % ring_blocks;
        let (before, behind) = bytes.split_at((ring_blocks - place).min(count) as usize * BLOCK_BYTES);
        file.write(before, place as usize * BLOCK_BYTES)?;
        if !behind.is_empty() {
            file.write(behind, 0)?;
        }
        unsynced.written.store(to.0, Ordering::Release);
        self.metrics.add(M::LogUnsyncedWrites, 1);
        Ok(())
    }

    /// Copies published blocks from `written` on, or from the durable LSN on if that is higher.
    fn copy_published(&self, written: Lsn, scratch: &mut Scratch) -> Copied {
        // The durable LSN moves under this mutex only. So the log buffer does not give the blocks
        // from there on to other positions meanwhile.
        let state = self.flush.lock();
        let from = written.max(self.durable_lsn());
        let to = self.ring.published();
        base::check!(from <= to, "the log is published up to {to} and outlives the process up to {from}");
        let first = block_of(from);
        let last = block_of(Lsn(to.0.saturating_sub(1))).clamp(first, first + GATHER_BLOCKS - 1);
        let to = to.min(block_start(last + 1));
        let durable = self.durable_for_blocks();
        for block in first..=last {
            let header = BlockHeader {
                db_id: self.segments.shape().db_id,
                number: block,
                epoch: self.epoch,
                prev_used: state.prev_used(block),
                durable,
            };
            header.encode(self.gather(block, to, scratch, (block - first) as usize));
        }
        Copied { first, count: last - first + 1, to }
    }
}

impl FlushState {
    /// Returns how many payload bytes of the block before `block` are in use. REQUIRES: `block` is
    /// not durable, or the last that is.
    fn prev_used(&self, block: u64) -> u16 {
        if block == block_of(self.from) {
            return self.from_prev_used;
        }
        // A range that is sealed ends where a flush ends.
        let begins = self.in_flight.iter().find(|flush| block_of(flush.from) == block);
        begins.map_or(PAYLOAD_BYTES as u16, |flush| flush.prev_used)
    }
}

/// What the last process has left in the file.
#[derive(Debug)]
pub(crate) struct UnsyncedBlocks {
    bytes: AlignedBuf,
    /// Where in `bytes` each block is.
    places: BTreeMap<u64, usize>,
}

impl UnsyncedBlocks {
    /// Reads the blocks that were written in `epoch` of database `db_id`. There may be no file.
    pub(crate) fn read(vfs: &Vfs, dir: &Path, db_id: u64, epoch: u32) -> Result<UnsyncedBlocks> {
        let path = dir.join(NAME);
        let io = |e| Error::io("read", &path, e);
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let file = match vfs.disk.open(&path, mode) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(|e| Error::io("open", &path, e))?),
        };
        let len = file.as_ref().map_or(Ok(0), |file| file.len()).map_err(io)?;
        // A length that is no multiple is that of a file that was being made.
        let blocks = len as usize / BLOCK_BYTES;
        let mut bytes = AlignedBuf::zeroed(blocks.max(1) * BLOCK_BYTES);
        if let Some(file) = file {
            file.read_at(&mut bytes[..blocks * BLOCK_BYTES], 0).map_err(io)?;
        }
        let headers = bytes.chunks_exact(BLOCK_BYTES).map(BlockHeader::decode).enumerate();
        let ours = headers.filter_map(|(n, header)| header.map(|header| (n, header)));
        let ours = ours.filter(|(_, header)| header.db_id == db_id && header.epoch == epoch);
        let places = ours.map(|(n, header)| (header.number, n * BLOCK_BYTES)).collect();
        Ok(UnsyncedBlocks { bytes, places })
    }

    /// Returns a block, if the file has it.
    pub(super) fn get(&self, block: u64) -> Option<&[u8]> {
        self.places.get(&block).map(|at| &self.bytes[*at..*at + BLOCK_BYTES])
    }

    /// Takes what lies below `from` in its block from the segment. Nothing has looked at what is
    /// here instead, and a power cut may have torn it.
    fn keep_below(&mut self, segments: &Segments, from: Lsn) -> Result {
        let (shape, block) = (segments.shape(), block_of(from));
        let below = HEADER_BYTES..HEADER_BYTES + offset_in_block(from);
        if let Some(at) = self.places.get(&block)
            && !below.is_empty()
        {
            let segment = segments.get(shape.segment_of(block), 0)?;
            let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
            let read = segment.file.read_at(&mut bytes, file_offset(shape, block));
            read.map_err(|e| Error::io("read", &segment.path, e))?;
            self.bytes[at + below.start..at + below.end].copy_from_slice(&bytes[below]);
        }
        Ok(())
    }

    /// Copies the log from `from` to `end` into the segments, and syncs it there. REQUIRES: it was
    /// read from here.
    pub(crate) fn copy_into(mut self, segments: &Segments, from: Lsn, end: Lsn) -> Result {
        let shape = segments.shape();
        let last = block_of(Lsn(end.0 - 1));
        self.keep_below(segments, from)?;
        if let Some(at) = self.places.get(&last) {
            // Behind the end there may be a group that is not whole.
            let used = HEADER_BYTES + end.since(block_start(last)) as usize;
            self.bytes[at + used..at + BLOCK_BYTES].fill(0);
        }
        for number in shape.segment_of(block_of(from))..=shape.segment_of(last) {
            let segment = segments.get(number, 0)?;
            let blocks = number * shape.blocks..(number + 1) * shape.blocks;
            let blocks = blocks.start.max(block_of(from))..blocks.end.min(last + 1);
            let copied = blocks.filter_map(|block| {
                Some(WriteOp { offset: file_offset(shape, block), bytes: self.get(block)? })
            });
            let copied: Vec<_> = copied.collect();
            segment.file.write_batch(&copied).map_err(|e| Error::io("write", &segment.path, e))?;
            if planted(Bug::UnsyncedNotSynced) {
                continue;
            }
            segment.file.sync().map_err(|e| Error::io("sync", &segment.path, e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
