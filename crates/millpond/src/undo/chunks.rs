//! The bytes of an undo stream, cut into chunks that are in memory or in files, and what is known
//! of these bytes without reading them.

use super::location::FileLocation;
use super::record::{UndoEntry, UndoRecord};
use super::walk::{LeftToPurge, Rewinds};
use crate::page::Damage;
use base::TxnId;
use base::sync::atomic::{AtomicU64, Ordering};

/// Size of the first chunk: enough for the few changes of a short transaction.
pub(super) const CHUNK_BYTES_MIN: usize = 512;
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// The longest stream: an offset must fit the five bytes that a row has for it.
const STREAM_BYTES_MAX: u64 = 1 << 40;
/// From this offset on the transaction may change no more rows. The bytes above it are for records
/// that finish what the transaction has begun.
pub(super) const STREAM_BYTES_LAST: u64 = STREAM_BYTES_MAX - (1 << 30);

/// The chunks of one stream.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub(super) chunks: Vec<UndoChunk>,
    /// Memory for the first chunk, from the transaction that used this stream before.
    pub(super) spare: Vec<u8>,
    /// The last chunk accepts no more records.
    pub(super) closed: bool,
    /// The number of chunks, from the first on, that are in files.
    pub(super) placed: usize,
    /// The number of chunks, from the first on, that are not in memory.
    pub(super) forgotten: usize,
    pub(super) end: u64,
    pub(super) last: Option<u64>,
    pub(super) left: LeftToPurge,
    pub(super) rewinds: Rewinds,
    /// Pages of long values that the transaction has written, as far as known.
    pub(super) pages: u64,
}

/// A chunk: whole records, one after the other.
#[derive(Debug)]
pub(super) struct UndoChunk {
    /// The offset of its first byte.
    pub(super) base: u64,
    /// Empty once its memory has been freed.
    pub(super) bytes: Vec<u8>,
    pub(super) len: u32,
    pub(super) location: Option<FileLocation>,
}

impl Chunks {
    /// Returns the memory of all chunks, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let chunks: u64 = self.chunks.iter().map(|chunk| chunk.bytes.capacity() as u64).sum();
        chunks + self.spare.capacity() as u64 + self.rewinds.memory()
    }

    pub(super) fn clear(&mut self) {
        let Chunks { mut chunks, mut spare, .. } = std::mem::take(self);
        if let Some(first) = chunks.first_mut() {
            spare = std::mem::take(&mut first.bytes);
        }
        if spare.capacity() != CHUNK_BYTES_MIN {
            spare = Vec::new();
        }
        spare.clear();
        chunks.clear();
        *self = Chunks { chunks, spare, ..Chunks::default() };
    }

    /// Returns the index of the chunk that holds offset `at`, or of the last one for the stream's
    /// end.
    pub(super) fn chunk_of(&self, at: u64) -> usize {
        self.chunks.partition_point(|c| c.base <= at).saturating_sub(1)
    }

    /// Updates the summary of the stream for the record at `at`.
    #[inline]
    fn note(&mut self, at: u64, entry: &UndoEntry<'_>, memory: &AtomicU64) {
        match *entry {
            UndoEntry::Rewind { end, last } => {
                self.last = last;
                let before = self.rewinds.memory();
                self.rewinds.push(at, end);
                memory.fetch_add(self.rewinds.memory() - before, Ordering::Relaxed);
            }
            _ => self.last = Some(at),
        }
        self.left.note(at, entry);
    }

    /// Checks the records in the next bytes and updates the summary for each.
    pub(super) fn note_records(
        &mut self,
        owner: TxnId,
        bytes: &[u8],
        memory: &AtomicU64,
    ) -> Result<(), Damage> {
        let base = self.end;
        let mut at = 0;
        while at < bytes.len() {
            let (record, len) = UndoRecord::decode(base + at as u64, &bytes[at..])?;
            if record.owner != owner || record.prev != self.last {
                return Err(Damage("undo of another transaction, or of another place in its stream"));
            }
            self.note(base + at as u64, &record.entry, memory);
            at += len;
        }
        Ok(())
    }

    /// Appends the next bytes as a closed chunk of their own.
    pub(super) fn push_closed(
        &mut self,
        bytes: Vec<u8>,
        location: Option<FileLocation>,
        memory: &AtomicU64,
    ) -> Result<(), Damage> {
        let len = u32::try_from(bytes.len()).map_err(|_| Damage("a piece of undo is too long"))?;
        memory.fetch_add(bytes.capacity() as u64, Ordering::Relaxed);
        self.chunks.push(UndoChunk { base: self.end, bytes, len, location });
        self.end += u64::from(len);
        self.closed = true;
        Ok(())
    }

    pub(super) fn append(&mut self, owner: TxnId, entry: UndoEntry<'_>, memory: &AtomicU64) -> u64 {
        let at = self.end;
        let record = UndoRecord { owner, prev: self.last, entry };
        let chunk = self.open_chunk(record.bytes_max(), memory);
        let before = chunk.bytes.len();
        record.encode(at, &mut chunk.bytes);
        let len = chunk.bytes.len() - before;
        chunk.len += len as u32;
        self.end += len as u64;
        base::check!(self.end < STREAM_BYTES_MAX, "{owner} has a terabyte of undo");
        self.note(at, &entry, memory);
        at
    }

    /// Returns a chunk that has room for a whole record of at most `len` bytes, so that a record is
    /// always one slice.
    fn open_chunk(&mut self, len: usize, memory: &AtomicU64) -> &mut UndoChunk {
        let fits = |c: &UndoChunk| c.bytes.capacity() - c.bytes.len() >= len;
        if self.closed || !self.chunks.last().is_some_and(fits) {
            let usual = (CHUNK_BYTES_MIN << self.chunks.len().min(16)).min(CHUNK_BYTES_MAX);
            let mut bytes = std::mem::take(&mut self.spare);
            if bytes.capacity() < usual.max(len) {
                let spare = bytes.capacity();
                bytes = Vec::with_capacity(usual.max(len));
                // The memory of the spare chunk, which is counted already, is replaced.
                memory.fetch_add((bytes.capacity() - spare) as u64, Ordering::Relaxed);
            }
            self.chunks.push(UndoChunk { base: self.end, bytes, len: 0, location: None });
            self.closed = false;
        }
        self.chunks.last_mut().expect("just made")
    }

    /// Closes the last chunk: it accepts no more records, and its unused memory is freed.
    pub(super) fn close(&mut self, memory: &AtomicU64) {
        self.closed = true;
        if let Some(last) = self.chunks.last_mut() {
            let before = last.bytes.capacity();
            last.bytes.shrink_to_fit();
            memory.fetch_sub((before - last.bytes.capacity()) as u64, Ordering::Relaxed);
        }
    }
}
