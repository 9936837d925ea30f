//! A part of the log in memory, for readers that need single groups at random places.

use super::block::{BLOCK_BYTES, block_of};
use super::segment::{Segment, SegmentShape, Segments, file_offset};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use vfs::ReadOp;

/// Blocks of a piece, 2 MiB: it lies in one of the system's huge pages, and one I/O reads it.
const PIECE_BLOCKS: u64 = if cfg!(test) { 8 } else { 512 };
/// Pieces that are read at a time. With more of them other reads would wait behind them all.
const PIECES_AT_ONCE: usize = 4;

/// Pieces of the log. Each lies in one segment.
#[derive(Debug, Default)]
pub(crate) struct LogCopy(Mutex<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    /// By their first block.
    held: BTreeMap<u64, Arc<AlignedBuf>>,
    /// No piece that ends here or below is needed any more.
    needed_from: u64,
}

impl LogCopy {
    /// Copies blocks from `block` on. Returns false if not all of them are held.
    pub(super) fn read(&self, block: u64, bytes: &mut [u8]) -> bool {
        let found =
            self.0.lock().held.range(..=block).next_back().map(|(at, piece)| (*at, Arc::clone(piece)));
        let Some((first, piece)) = found else { return false };
        let from = (block - first) as usize * BLOCK_BYTES;
        let Some(held) = piece.get(from..from + bytes.len()) else { return false };
        bytes.copy_from_slice(held);
        true
    }

    /// Reads the blocks of `range`, the last ones first, until `is_over`. What cannot be read is
    /// left out. REQUIRES: nobody writes these blocks meanwhile.
    pub(crate) fn fill(&self, segments: &Segments, range: Range<u64>, is_over: impl Fn() -> bool) {
        let shape = segments.shape();
        for number in (shape.segment_of(range.start)..=shape.segment_of(range.end - 1)).rev() {
            let Some(segment) = segments.find(number) else { continue };
            let blocks = number * shape.blocks..(number + 1) * shape.blocks;
            let blocks = blocks.start.max(range.start)..blocks.end.min(range.end);
            for firsts in pieces(&blocks).rchunks(PIECES_AT_ONCE) {
                if is_over() || blocks.end <= self.0.lock().needed_from {
                    return;
                }
                self.read_pieces(&segment, shape, firsts, blocks.end);
            }
        }
    }

    /// Reads pieces that begin at `firsts`, each up to the next one, or to `end`.
    fn read_pieces(&self, segment: &Segment, shape: SegmentShape, firsts: &[u64], end: u64) {
        let length = |first: &u64| (PIECE_BLOCKS.min(end - first)) as usize * BLOCK_BYTES;
        let mut buffers: Vec<_> = firsts.iter().map(|first| AlignedBuf::zeroed(length(first))).collect();
        let ops = firsts.iter().zip(&mut buffers);
        let mut ops: Vec<_> =
            ops.map(|(first, bytes)| ReadOp { offset: file_offset(shape, *first), bytes }).collect();
        // An error will be seen by who needs the place.
        if segment.file.read_batch(&mut ops).is_ok() {
            let mut pieces = self.0.lock();
            pieces.held.extend(firsts.iter().copied().zip(buffers.into_iter().map(Arc::new)));
            pieces.forget();
        }
    }

    /// Says that nobody needs the log below `lsn` any more.
    pub(crate) fn forget_below(&self, lsn: Lsn) {
        let mut pieces = self.0.lock();
        pieces.needed_from = pieces.needed_from.max(block_of(lsn));
        pieces.forget();
    }
}

impl Pieces {
    /// Frees pieces that are not needed.
    fn forget(&mut self) {
        while let Some(first) = self.held.first_entry()
            && first.key() + (first.get().len() / BLOCK_BYTES) as u64 <= self.needed_from
        {
            first.remove();
        }
    }
}

/// Returns where the pieces of these blocks begin.
fn pieces(blocks: &Range<u64>) -> Vec<u64> {
    blocks.clone().step_by(PIECE_BLOCKS as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::block::block_start;
    use crate::log::tests::{LogDir, start};
    use std::cell::Cell;

    #[test]
    fn blocks_are_held_until_they_are_forgotten() {
        let dir = LogDir::new("log-copy");
        let log = dir.log(start());
        let (segments, copy) = (log.segments(), LogCopy::default());
        let shape = segments.shape();
        segments.make_more(2, Lsn::ZERO).unwrap();
        // Of segments 0 and 1, and 2, which does not exist.
        let range = shape.blocks - 3..2 * shape.blocks + 5;
        let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
        for block in range.start..2 * shape.blocks {
            bytes.fill(block as u8);
            let segment = segments.find(shape.segment_of(block)).unwrap();
            segment.file.write_at(&bytes, file_offset(shape, block)).unwrap();
        }
        let held = |block: u64, count: usize| {
            let mut found = vec![0; count * BLOCK_BYTES];
            let is_held = copy.read(block, &mut found);
            let expected = (0..count).flat_map(|n| [(block + n as u64) as u8; BLOCK_BYTES]);
            assert!(!is_held || found.into_iter().eq(expected), "block {block}");
            is_held
        };
        let asked = Cell::new(0);
        let ask = |most| {
            asked.set(asked.get() + 1);
            asked.get() > most
        };
        copy.fill(segments, range.clone(), || ask(0));
        assert!(!held(2 * shape.blocks - 1, 1), "it was told to stop");
        asked.set(0);
        copy.fill(segments, range.clone(), || ask(1));
        assert!(held(2 * shape.blocks - 1, 1) && !held(shape.blocks, 1), "the last ones come first");
        copy.fill(segments, range.clone(), || false);
        assert!((range.start..2 * shape.blocks).all(|block| held(block, 1)));
        assert!(!held(range.start - 1, 1) && !held(2 * shape.blocks, 1));
        assert!(held(shape.blocks, PIECE_BLOCKS as usize) && !held(shape.blocks, PIECE_BLOCKS as usize + 1));
        copy.forget_below(block_start(shape.blocks + PIECE_BLOCKS - 1));
        assert!(!held(shape.blocks - 1, 1) && held(shape.blocks, 1), "a piece is needed to its end");
        copy.forget_below(block_start(shape.blocks + PIECE_BLOCKS));
        assert!(!held(shape.blocks, 1) && held(shape.blocks + PIECE_BLOCKS, 1));
        copy.fill(segments, range.start..shape.blocks + PIECE_BLOCKS, || false);
        assert!(!held(shape.blocks, 1), "it comes too late");
    }
}
