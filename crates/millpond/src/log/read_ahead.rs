//! Read-ahead of recovery: while the scanner checks blocks and cuts them into groups, a thread of
//! its own reads the blocks that follow.

use super::block::BLOCK_BYTES;
use super::segment::{Segment, file_offset};
use base::aligned::AlignedBuf;
use base::sync::{Condvar, JoinHandle, Mutex, spawn};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use vfs::ReadOp;

/// Bytes of each of the reads into which a range is split, so that a device has many in flight.
const PIECE_BYTES: usize = 64 << 10;

/// Consecutive blocks of one segment.
#[derive(Clone, Debug)]
pub(super) struct ReadRange {
    pub(super) segment: Arc<Segment>,
    /// Where the first block lies in its file.
    pub(super) offset: u64,
}

impl ReadRange {
    /// The blocks from `block` on. REQUIRES: `segment` holds them.
    pub(super) fn new(segment: Arc<Segment>, shape: super::segment::SegmentShape, block: u64) -> ReadRange {
        ReadRange { segment, offset: file_offset(shape, block) }
    }

    /// Reads as many of the blocks as fill `bytes`.
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<()> {
        // In pieces, many in flight: a device answers one long read more slowly than its parts side
        // by side.
        let mut offset = self.offset;
        let pieces = bytes.chunks_mut(PIECE_BYTES).map(|bytes| {
            let piece = ReadOp { offset, bytes };
            offset += PIECE_BYTES as u64;
            piece
        });
        let mut pieces: Vec<_> = pieces.collect();
        self.segment.file.read_batch(&mut pieces)
    }

    /// Whether both begin at the same block of the same file.
    fn is(&self, other: &ReadRange) -> bool {
        Arc::ptr_eq(&self.segment, &other.segment) && self.offset == other.offset
    }
}

/// What the scanner and the reading thread share.
#[derive(Debug)]
struct ReadAheadShared {
    /// What is read begins here in the buffer, bytes.
    lead: usize,
    mu: Mutex<ReadAheadState>,
    changed: Condvar,
}

/// What the reading thread is to do, and has done.
#[derive(Debug)]
struct ReadAheadState {
    /// The buffer of the reads; `None` while the thread reads.
    buffer: Option<AlignedBuf>,
    /// The range to be read, and how many bytes of it.
    requested: Option<(ReadRange, usize)>,
    /// The range that was read last, and the result.
    done: Option<(ReadRange, io::Result<usize>)>,
    closed: bool,
}

/// A thread that reads one range ahead.
#[derive(Debug)]
pub(super) struct LogReadAhead {
    shared: Arc<ReadAheadShared>,
    thread: Option<JoinHandle<()>>,
}

impl LogReadAhead {
    /// Starts the thread, which can read up to `blocks` blocks at a time. They are given out in a
    /// buffer with room for `lead` blocks before them.
    pub(super) fn start(lead: usize, blocks: usize) -> io::Result<LogReadAhead> {
        let buffer = Some(AlignedBuf::zeroed((lead + blocks) * BLOCK_BYTES));
        let state = ReadAheadState { buffer, requested: None, done: None, closed: false };
        let shared = Arc::new(ReadAheadShared {
            lead: lead * BLOCK_BYTES,
            mu: Mutex::new(state),
            changed: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = spawn("millpond-ahead", move || for_thread.serve())?;
        Ok(LogReadAhead { shared, thread: Some(thread) })
    }

    /// Requests `bytes` bytes of a range, unless the thread is still busy with another.
    pub(super) fn request(&self, range: ReadRange, bytes: usize) {
        let mut state = self.shared.mu.lock();
        if state.requested.is_none() {
            state.done = None;
            state.requested = Some((range, bytes));
            self.shared.changed.notify_all();
        }
    }

    /// Waits for the requested range of `len` bytes, and exchanges `buffer` for one that has it
    /// after the lead; right before it the bytes `held` of `buffer`. `None` if another range or
    /// another length was requested. The error of a range that is never taken is never reported.
    /// REQUIRES: both buffers have the same length, and `held` is no longer than the lead.
    pub(super) fn take(
        &self,
        range: &ReadRange,
        len: usize,
        buffer: &mut AlignedBuf,
        held: Range<usize>,
    ) -> Option<io::Result<()>> {
        let mut state = self.shared.mu.lock();
        while state.requested.is_some() {
            self.shared.changed.wait(&mut state);
        }
        let (_, read) = state.done.take().filter(|(done, _)| done.is(range))?;
        match read {
            Ok(done) if done == len => {
                let theirs = state.buffer.as_mut()?;
                let lead = self.shared.lead;
                theirs[lead - held.len()..lead].copy_from_slice(&buffer[held]);
                std::mem::swap(theirs, buffer);
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        }
    }
}

impl ReadAheadShared {
    /// The loop of the thread: reads what is requested until the end.
    fn serve(&self) {
        let mut state = self.mu.lock();
        while !state.closed {
            let Some((range, len)) = state.requested.clone() else {
                self.changed.wait(&mut state);
                continue;
            };
            let mut buffer = state.buffer.take().expect("the buffer is here while the thread does not read");
            drop(state);
            let read = range.read(&mut buffer[self.lead..][..len]).map(|()| len);
            state = self.mu.lock();
            (state.buffer, state.requested, state.done) = (Some(buffer), None, Some((range, read)));
            self.changed.notify_all();
        }
    }
}

impl Drop for LogReadAhead {
    fn drop(&mut self) {
        self.shared.mu.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Only its reads could panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::SegmentShape;
    use super::*;
    use std::path::PathBuf;
    use vfs::mem::MemDisk;
    use vfs::{Create, OpenMode};

    const SHAPE: SegmentShape = SegmentShape { blocks: 64, db_id: 1 };
    const LEN: usize = 4 * BLOCK_BYTES;

    /// A segment whose block `n` is full of the byte `n`. Only its first `blocks` blocks exist.
    fn segment(number: u64, blocks: u8) -> Arc<Segment> {
        let disk = MemDisk::default();
        let path = PathBuf::from(format!("/{number}"));
        let mode = OpenMode { create: Create::New, direct: true, read_only: false };
        let file = disk.vfs(1).disk.open(&path, mode).unwrap();
        for n in 0..blocks {
            let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
            block.fill(n);
            file.write_at(&block, file_offset(SHAPE, n.into())).unwrap();
        }
        Arc::new(Segment { number, path, file })
    }

    #[test]
    fn a_requested_range_is_taken_once_and_nothing_else_is() {
        let (segment, other) = (segment(0, 64), segment(1, 64));
        let at = |block| ReadRange::new(Arc::clone(&segment), SHAPE, block);
        let read_ahead = LogReadAhead::start(2, 8).unwrap();
        let mut bytes = AlignedBuf::zeroed(10 * BLOCK_BYTES);
        assert!(read_ahead.take(&at(0), LEN, &mut bytes, 0..0).is_none(), "nothing was requested");
        read_ahead.request(at(4), LEN);
        read_ahead.take(&at(4), LEN, &mut bytes, 0..0).unwrap().unwrap();
        let has = |bytes: &[u8], block: usize, byte| {
            bytes[block * BLOCK_BYTES..][..BLOCK_BYTES] == [byte; BLOCK_BYTES]
        };
        assert!((0..4).all(|n| has(&bytes, 2 + n, 4 + n as u8)));
        read_ahead.request(at(8), LEN);
        read_ahead.take(&at(8), LEN, &mut bytes, 5 * BLOCK_BYTES..6 * BLOCK_BYTES).unwrap().unwrap();
        assert!((0..5).all(|n| has(&bytes, 1 + n, 7 + n as u8)), "the last block of before comes with them");
        assert!(read_ahead.take(&at(8), LEN, &mut bytes, 0..0).is_none(), "it is taken once");
        for wrong in [at(5), ReadRange::new(other, SHAPE, 4)] {
            read_ahead.request(at(4), LEN);
            assert!(read_ahead.take(&wrong, LEN, &mut bytes, 0..0).is_none());
        }
        read_ahead.request(at(4), 2 * LEN);
        assert!(read_ahead.take(&at(4), LEN, &mut bytes, 0..0).is_none(), "another length");
    }

    #[test]
    fn a_read_error_is_reported_only_to_a_reader_of_the_range() {
        let segment = segment(0, 4);
        let at = |block| ReadRange::new(Arc::clone(&segment), SHAPE, block);
        let read_ahead = LogReadAhead::start(0, 4).unwrap();
        let mut bytes = AlignedBuf::zeroed(LEN);
        let mut take = |range| read_ahead.take(&range, LEN, &mut bytes, 0..0);
        read_ahead.request(at(60), LEN);
        read_ahead.request(at(0), LEN);
        assert!(take(at(60)).is_none_or(|read| read.is_err()));
        read_ahead.request(at(60), LEN);
        assert!(take(at(60)).unwrap().is_err());
        read_ahead.request(at(0), LEN);
        take(at(0)).unwrap().unwrap();
    }
}
