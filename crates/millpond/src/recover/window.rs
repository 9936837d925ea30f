//! The changes of pages from a stretch of the log, divided by pages as the log is read. Replay
//! applies a window at once.
//!
//! Pages are divided among *partitions* by number. The thread that reads the log copies each change
//! to the end of its partition. So a worker finds all changes of a few hundred pages in a megabyte
//! of memory, in order, and its processor has them in its caches. In the log they lie far apart.

use crate::error::Result;
use crate::log::group::{GROUP_BYTES_MAX, Record, Records};
use crate::log::reader::Scanner;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u32, get_u40, get_u64, set_u32, set_u40, set_u64};
use base::{Lsn, PageNo};
use std::ops::RangeInclusive;

/// A partition takes memory by blocks of so many bytes. A change fits in one.
const BLOCK_BYTES: usize = 128 << 10;
/// Blocks that are allocated together, in the system's huge pages.
const SLAB_BLOCKS: usize = 16;
/// Two to the power of this neighbours are in one partition, so that reads of them can be joined.
const NEIGHBOUR_BITS: u32 = 6;
/// At most so many partitions.
const PARTITIONS_MAX: usize = 128;
/// A partition is expected to fill so many blocks at least. The last one is half empty.
const BLOCKS_A_PARTITION: usize = 4;

/// Before each change in a block: its LSN (8 bytes), length (4) and `prev` (5).
const HEAD_BYTES: usize = 17;

/// Bits of the page's index by which one pass of the sort goes.
const DIGIT_BITS: u32 = 11;

const _: () = assert!(HEAD_BYTES + GROUP_BYTES_MAX <= BLOCK_BYTES);

/// Returns about how much memory a window of so much log takes, bytes: half of the last block of
/// each partition is empty.
pub(super) fn memory_of(window_bytes: usize) -> usize {
    (window_bytes + window_bytes / (2 * BLOCKS_A_PARTITION)).next_multiple_of(SLAB_BLOCKS * BLOCK_BYTES)
}

/// Returns the pages that are in one partition with `page`, side by side in the file.
pub(super) fn neighbours(page: PageNo) -> RangeInclusive<PageNo> {
    let first = page.0 >> NEIGHBOUR_BITS << NEIGHBOUR_BITS;
    PageNo(first)..=PageNo(first | ((1 << NEIGHBOUR_BITS) - 1))
}

/// A change of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) lsn: Lsn,
    /// Low bits of the LSN that it found on the page.
    pub(super) prev: u64,
    pub(super) op: &'a [u8],
}

/// Where a change lies in its window, and its page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeRef {
    pub(super) page: PageNo,
    /// Its block, and where in the block it begins.
    block: u32,
    at: u32,
}

/// How pages are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    workers: usize,
    /// The number of partitions is two to the power of this.
    bits: u32,
}

impl Shape {
    /// For windows of about `bytes` bytes.
    pub(super) fn new(workers: usize, bytes: usize) -> Shape {
        let partitions =
            (bytes / BLOCK_BYTES / BLOCKS_A_PARTITION).clamp(workers, PARTITIONS_MAX.max(workers));
        Shape { workers, bits: partitions.next_power_of_two().trailing_zeros() }
    }

    fn partitions(self) -> usize {
        1 << self.bits
    }

    /// Returns the partitions of a worker. A page is always in the same one.
    pub(super) fn of_worker(self, worker: usize) -> impl Iterator<Item = usize> {
        (worker..self.partitions()).step_by(self.workers)
    }

    #[inline]
    fn partition_of(self, page: PageNo) -> usize {
        page.0 as usize >> NEIGHBOUR_BITS & (self.partitions() - 1)
    }

    /// Returns the index of a page among those of its partition. It ascends with the page number.
    #[inline]
    fn index_of(self, page: PageNo) -> usize {
        let neighbour = page.0 as usize & ((1 << NEIGHBOUR_BITS) - 1);
        page.0 as usize >> NEIGHBOUR_BITS >> self.bits << NEIGHBOUR_BITS | neighbour
    }
}

/// Changes of a few hundred pages, in the order of the log.
#[derive(Debug, Default)]
struct Partition {
    refs: Vec<ChangeRef>,
    /// The block that is being filled, and how many of its bytes are used.
    block: u32,
    used: usize,
}

/// The changes of a stretch of the log. Groups are whole.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// No change before this LSN.
    pub(super) from: Lsn,
    /// All changes before this LSN, from `from` on.
    pub(super) to: Lsn,
    slabs: Vec<AlignedBuf>,
    blocks_used: usize,
    partitions: Vec<Partition>,
}

impl Window {
    /// Makes it empty. It keeps its memory.
    pub(super) fn begin(&mut self, from: Lsn, shape: Shape) {
        (self.from, self.to, self.blocks_used) = (from, from, 0);
        self.partitions.resize_with(shape.partitions(), Partition::default);
        for partition in &mut self.partitions {
            partition.refs.clear();
            partition.used = BLOCK_BYTES;
        }
    }

    /// Returns how much log the window has, bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        self.to.since(self.from)
    }

    /// Reads about so many bytes more of the log, up to `end`. Returns false at the end of the log.
    pub(super) fn read(
        &mut self,
        scanner: &mut Scanner<'_>,
        end: Lsn,
        bytes: u64,
        shape: Shape,
    ) -> Result<bool> {
        let enough = self.to.plus(bytes);
        while self.to < enough {
            if scanner.position() >= end {
                return Ok(false);
            }
            let Some(group) = scanner.next()? else { return Ok(false) };
            base::verify!(group.lsn >= self.to, "the group at {} comes late", group.lsn);
            self.add(group.lsn, group.records, shape);
            self.to = group.end;
        }
        Ok(true)
    }

    fn add(&mut self, lsn: Lsn, records: &[u8], shape: Shape) {
        for record in Records::new(records).flatten() {
            let Record::Page { page, prev, op } = record else { continue };
            self.put(shape.partition_of(page), page, Change { lsn, prev, op });
        }
    }

    #[inline]
    fn put(&mut self, partition: usize, page: PageNo, change: Change<'_>) {
        let needed = HEAD_BYTES + change.op.len();
        if self.partitions[partition].used + needed > BLOCK_BYTES {
            (self.partitions[partition].block, self.partitions[partition].used) = (self.take_block(), 0);
        }
        let Partition { refs, block, used } = &mut self.partitions[partition];
        let (block, at) = (*block, std::mem::replace(used, *used + needed));
        refs.push(ChangeRef { page, block, at: at as u32 });
        let start = block as usize % SLAB_BLOCKS * BLOCK_BYTES + at;
        let out = &mut self.slabs[block as usize / SLAB_BLOCKS][start..start + needed];
        let (head, op) = out.split_at_mut(HEAD_BYTES);
        set_u64(head, 0, change.lsn.0);
        set_u32(head, 8, change.op.len() as u32);
        set_u40(head, 12, change.prev);
        op.copy_from_slice(change.op);
    }

    fn take_block(&mut self) -> u32 {
        let block = self.blocks_used;
        if block == self.slabs.len() * SLAB_BLOCKS {
            self.slabs.push(AlignedBuf::zeroed(SLAB_BLOCKS * BLOCK_BYTES));
        }
        self.blocks_used += 1;
        block as u32
    }
}

impl Window {
    fn block(&self, block: usize) -> &[u8] {
        &self.slabs[block / SLAB_BLOCKS][block % SLAB_BLOCKS * BLOCK_BYTES..][..BLOCK_BYTES]
    }

    /// Returns a change of this window.
    #[inline]
    pub(super) fn change(&self, change: ChangeRef) -> Change<'_> {
        let bytes = &self.block(change.block as usize)[change.at as usize..];
        let (head, rest) = bytes.split_at(HEAD_BYTES);
        let len = get_u32(head, 8) as usize;
        Change { lsn: Lsn(get_u64(head, 0)), prev: get_u40(head, 12), op: &rest[..len] }
    }

    /// Asks the processor for the memory of a change.
    #[inline]
    pub(super) fn prefetch(&self, change: ChangeRef) {
        base::prefetch::to_read(&self.block(change.block as usize)[change.at as usize..], 2);
    }
}

/// The changes of a partition, sorted by page. Those of a page are in the order of the log.
#[derive(Debug, Default)]
pub(super) struct ByPage {
    refs: Vec<ChangeRef>,
    /// Memory for sorting.
    sorting: Vec<ChangeRef>,
}

impl ByPage {
    /// Sorts the changes of a partition of a window.
    pub(super) fn sort(&mut self, window: &Window, partition: usize, shape: Shape) -> &[ChangeRef] {
        self.refs.clear();
        self.refs.extend_from_slice(&window.partitions[partition].refs);
        let most = self.refs.iter().map(|change| shape.index_of(change.page)).max().unwrap_or(0);
        self.sorting.resize(self.refs.len(), ChangeRef::default());
        let mut shift = 0;
        while shift < usize::BITS && most >> shift > 0 {
            self.sort_by_digit(|page| shape.index_of(page) >> shift & ((1 << DIGIT_BITS) - 1));
            shift += DIGIT_BITS;
        }
        &self.refs
    }

    fn sort_by_digit(&mut self, digit: impl Fn(PageNo) -> usize) {
        let mut ends = [0usize; 1 << DIGIT_BITS];
        self.refs.iter().for_each(|change| ends[digit(change.page)] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += std::mem::replace(count, end);
        }
        for change in &self.refs {
            let at = &mut ends[digit(change.page)];
            self.sorting[*at] = *change;
            *at += 1;
        }
        std::mem::swap(&mut self.refs, &mut self.sorting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeMap;

    /// Each change is in one partition of one worker, with those of its page, in order; also the
    /// longest ones, and when a window is used again.
    #[test]
    fn every_change_is_dealt_once_and_in_order() {
        let mut rng = Prng::new(7);
        let mut window = Window::default();
        for (workers, bytes) in [(1, 0), (3, 1 << 20), (4, 64 << 20)] {
            let shape = Shape::new(workers, bytes);
            window.begin(Lsn(1), shape);
            let mut expected = BTreeMap::<PageNo, Vec<(Lsn, u64, Vec<u8>)>>::new();
            for n in 0..3000 {
                let most = if rng.one_in(200) { GROUP_BYTES_MAX } else { 200 };
                let page = PageNo(if rng.one_in(10) { rng.next_u64() as u32 } else { rng.below(900) as u32 });
                let change = (Lsn(n), rng.below(1 << 40), vec![n as u8; rng.below(most as u64) as usize]);
                let (lsn, prev, op) = (change.0, change.1, &change.2[..]);
                window.put(shape.partition_of(page), page, Change { lsn, prev, op });
                expected.entry(page).or_default().push(change);
            }
            let mut found = BTreeMap::new();
            let mut by_page = ByPage::default();
            for partition in (0..workers).flat_map(|worker| shape.of_worker(worker)) {
                let refs = by_page.sort(&window, partition, shape);
                assert!(refs.is_sorted_by_key(|change| change.page));
                for of_page in refs.chunk_by(|a, b| a.page == b.page) {
                    let changes = of_page.iter().map(|change| window.change(*change));
                    let changes: Vec<_> = changes.map(|c| (c.lsn, c.prev, c.op.to_vec())).collect();
                    assert!(found.insert(of_page[0].page, changes).is_none(), "a page is in two partitions");
                }
            }
            assert!(found == expected, "{workers} workers");
        }
    }

    #[test]
    fn a_small_window_has_few_partitions() {
        let partitions = |workers, bytes| Shape::new(workers, bytes).partitions();
        assert_eq!(partitions(1, 16 << 10), 1);
        assert_eq!(partitions(3, 16 << 10), 4);
        assert_eq!(partitions(4, 8 << 20), 16);
        assert_eq!(partitions(4, 64 << 20), PARTITIONS_MAX);
        assert_eq!(partitions(200, 64 << 20), 256);
    }
}
