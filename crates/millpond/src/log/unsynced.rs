//! Log that outlives the process and is not synced: the file `unsynced`, and what recovery finds in
//! it. `outlive` writes it.
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

use super::block::{BLOCK_BYTES, BlockHeader, HEADER_BYTES, block_of, block_start, offset_in_block};
use super::segment::{Segments, file_offset};
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use base::Lsn;
use base::aligned::AlignedBuf;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use vfs::{Create, OpenMode, Vfs, WriteOp};

/// The name of the file, in the directory of the database.
pub(crate) const NAME: &str = "unsynced";

/// What the last process has left in the file.
#[derive(Debug)]
pub(crate) struct UnsyncedBlocks {
    bytes: AlignedBuf,
    /// Where in `bytes` each block is.
    offsets: BTreeMap<u64, usize>,
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
        let offsets = ours.map(|(n, header)| (header.number, n * BLOCK_BYTES)).collect();
        Ok(UnsyncedBlocks { bytes, offsets })
    }

    /// Returns a block, if the file has it.
    pub(super) fn get(&self, block: u64) -> Option<&[u8]> {
        self.offsets.get(&block).map(|at| &self.bytes[*at..*at + BLOCK_BYTES])
    }

    /// Takes what lies below `from` in its block from the segment. Nothing has looked at what is
    /// here instead, and a power cut may have torn it.
    fn keep_below(&mut self, segments: &Segments, from: Lsn) -> Result {
        let (shape, block) = (segments.shape(), block_of(from));
        let below = HEADER_BYTES..HEADER_BYTES + offset_in_block(from);
        if let Some(at) = self.offsets.get(&block)
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
        if let Some(at) = self.offsets.get(&last) {
            // After the end there may be a group that is not whole.
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
