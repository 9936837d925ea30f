//! The log buffer: a ring of blocks in memory into which many threads copy groups at the same time.
//!
//! A group goes through three steps. **Reserve**: one compare-and-swap gives it a sequence number
//! and a range of positions. **Copy**: threads copy concurrently, without a lock. **Publish**: the
//! slot of the sequence number stores where the range ends. The *published* LSN is the end of the
//! contiguous prefix of published ranges; it always lies at the end of a group. This is the
//! reserve, copy, publish of MySQL (WL#10310), with the slots keyed by sequence number instead of
//! position.
//!
//! A range is handed out only if its blocks are free: they lie no further than the size of the ring
//! beyond the durable LSN. Nothing unflushed lies further than that, so the size of the ring is
//! also the window W of the rule for the end of the log.
#![allow(unsafe_code)]

use super::block::{
    BLOCK_BYTES, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block, round_up,
};
use super::room::spared_of;
use base::Lsn;
use base::aligned::AlignedBuf;
use base::sync::atomic::{AtomicU64, Ordering};

/// How many bits of an LSN the word of a position holds. A loom model has few slots, so that they
/// are reused.
const LOW_BITS: u32 = if cfg!(loom) { 61 } else { 52 };
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
/// Ranges that may be reserved and not yet published. There are never more threads than this that
/// reserve at the same time.
const SLOTS: usize = 1 << (64 - LOW_BITS);
/// The base follows once it has fallen this far behind: long before the lower bits of a position
/// wrap.
const BASE_LAG: u64 = 1 << (LOW_BITS - 2);

/// Bytes that are prefetched at most: about the groups of one short transaction.
const PREFETCH_MAX: usize = 640;

/// The byte that fills a block up to a seal. No group begins with it, so padding differs from a
/// part that was never written.
pub(crate) const PAD: u8 = 0xff;

/// A sequence number (wrapping) and an LSN. Its word has 12 bits for the sequence number and holds
/// the lower 52 bits of the LSN. The rest follows from a *base* below it, which is read before the
/// word: two positions that matter at the same time never lie so far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingPosition {
    seq: u64,
    lsn: Lsn,
}

impl RingPosition {
    fn word(self) -> u64 {
        self.seq << LOW_BITS | self.lsn.0 & LOW_MASK
    }
    /// Decodes a word that was read after `base` was.
    #[inline]
    fn of(word: u64, base: u64) -> RingPosition {
        RingPosition { seq: word >> LOW_BITS, lsn: Lsn(base + (word.wrapping_sub(base) & LOW_MASK)) }
    }
    /// Returns the position after a range that ends at `end`.
    fn next(self, end: Lsn) -> RingPosition {
        RingPosition { seq: self.seq.wrapping_add(1) & (SLOTS as u64 - 1), lsn: end }
    }
}

/// A reserved range. REQUIRES: it is copied into and published exactly once.
#[derive(Debug)]
#[must_use = "a range that is never published stops the log"]
pub(super) struct ReservedRange {
    seq: u64,
    /// First position.
    pub start: Lsn,
    /// One past the last position.
    pub end: Lsn,
}

/// The result of [`Ring::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    /// The sealed range ends here, at a block's start.
    pub end: Lsn,
    /// Payload bytes in use in the last block.
    pub used: u16,
    /// Positions that padding takes.
    pub pad: u64,
}

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    memory: AlignedBuf,
    blocks: u64,
    /// So many positions before the end are for groups for which room was taken.
    spared: u64,
    /// How far ranges may reach. The block that holds the durable position must stay in memory as a
    /// whole, because it may be rewritten.
    limit: AtomicU64,
    /// A durable position, not far behind: every position that can be read lies at or above it.
    base: AtomicU64,
    reserved: AtomicU64,
    published: AtomicU64,
    slots: Box<[AtomicU64]>,
}

/// Returns how far ranges of a ring of `blocks` blocks may reach if all below `durable` is durable.
fn limit_of(durable: Lsn, blocks: u64) -> u64 {
    block_start(block_of(durable) + blocks).0
}

impl Ring {
    /// A ring of `blocks` blocks (a power of two) whose first position is `start`, a block's start.
    pub(super) fn new(blocks: usize, start: Lsn) -> Ring {
        assert!(blocks.is_power_of_two() && blocks * PAYLOAD_BYTES >= 2 * super::group::GROUP_BYTES_MAX);
        assert!(offset_in_block(start) == 0);
        let first = RingPosition { seq: 0, lsn: start }.word();
        Ring {
            memory: AlignedBuf::zeroed(blocks * BLOCK_BYTES),
            blocks: blocks as u64,
            spared: spared_of((blocks * PAYLOAD_BYTES) as u64),
            limit: AtomicU64::new(limit_of(start, blocks as u64)),
            base: AtomicU64::new(start.0),
            reserved: AtomicU64::new(first),
            published: AtomicU64::new(first),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns how many positions may lie between the durable LSN and the reservation point.
    pub(super) fn capacity(&self) -> u64 {
        self.blocks * PAYLOAD_BYTES as u64
    }

    /// Reads the base and a position, in this order.
    #[inline]
    fn position(&self, word: &AtomicU64, order: Ordering) -> RingPosition {
        let base = self.base.load(Ordering::Acquire);
        RingPosition::of(word.load(order), base)
    }

    /// Returns where the next range will start.
    #[inline]
    pub(super) fn reserved(&self) -> Lsn {
        self.position(&self.reserved, Ordering::SeqCst).lsn
    }

    /// Returns the end of the contiguous published prefix.
    pub(super) fn published(&self) -> Lsn {
        self.advance().lsn
    }

    /// Gives the room below `durable` free for ranges. Moves the base when it has fallen far
    /// behind. REQUIRES: one thread at a time; everything below `durable` is published, and
    /// `durable` is not less than the last one.
    pub(super) fn follow(&self, durable: Lsn) {
        // Release: the flush has read the blocks that are written over.
        self.limit.store(limit_of(durable, self.blocks), Ordering::Release);
        if durable.0 - self.base.load(Ordering::Relaxed) >= BASE_LAG {
            self.base.store(durable.0, Ordering::Release);
        }
    }

    /// Reserves `n` positions; `None` while the ring has no room for them, beside what is spared.
    pub(super) fn reserve(&self, n: usize) -> Option<ReservedRange> {
        self.reserve_below(self.common_limit(), n)
    }

    /// As [`Ring::reserve`], for a thread that has taken room: then there is some.
    pub(super) fn reserve_spared(&self, n: usize) -> Option<ReservedRange> {
        self.reserve_below(self.limit(), n)
    }

    /// Whether there is room for all that is spared.
    #[inline]
    pub(super) fn spares(&self) -> bool {
        self.reserved() <= self.common_limit()
    }

    /// Whether there is room for `n` positions, of those that are spared too.
    pub(super) fn has_spared(&self, n: usize) -> bool {
        self.reserved().plus(n as u64) <= self.limit()
    }

    /// Returns how many positions are left free by groups for which no room was taken.
    pub(super) fn spared(&self) -> u64 {
        self.spared
    }

    #[inline]
    fn reserve_below(&self, limit: Lsn, n: usize) -> Option<ReservedRange> {
        let mut now = self.position(&self.reserved, Ordering::Acquire);
        loop {
            let next = now.next(now.lsn.plus(n as u64));
            if next.lsn > limit || !self.slot_free(now.seq) {
                match self.changed_position(now) {
                    Some(seen) => now = seen,
                    None => return None,
                }
                continue;
            }
            // SeqCst: a snapshot that reads the reservation point is ordered against commits by
            // this word alone.
            let (old, new) = (now.word(), next.word());
            match self.reserved.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Some(ReservedRange { seq: now.seq, start: now.lsn, end: next.lsn }),
                // It is later than the position before it, whose LSN therefore serves as its base.
                Err(seen) => now = RingPosition::of(seen, now.lsn.0),
            }
        }
    }

    #[inline]
    fn limit(&self) -> Lsn {
        Lsn(self.limit.load(Ordering::Acquire))
    }

    /// Returns how far the ranges of groups may reach for which no room was taken.
    #[inline]
    fn common_limit(&self) -> Lsn {
        Lsn(self.limit().0 - self.spared)
    }

    /// Returns the reservation point if it is no longer `now`. A stale one must not be judged: the
    /// published prefix may have passed it, and its distance then wraps.
    fn changed_position(&self, now: RingPosition) -> Option<RingPosition> {
        let seen = self.position(&self.reserved, Ordering::Acquire);
        (seen != now).then_some(seen)
    }

    /// Whether fewer than all slots lie between the published prefix and `seq`.
    fn slot_free(&self, seq: u64) -> bool {
        let lag = |published: u64| seq.wrapping_sub(published) & (SLOTS as u64 - 1);
        let far = SLOTS as u64 - 2;
        lag(self.published.load(Ordering::Acquire) >> LOW_BITS) < far || lag(self.advance().seq) < far
    }

    /// Moves the reservation point to the start of the next block and pads what lies between.
    /// `None` if there is no room.
    pub(super) fn seal(&self) -> Option<Seal> {
        // SeqCst: a flush that has taken a deadline must see what was reserved before.
        let mut now = self.position(&self.reserved, Ordering::SeqCst);
        loop {
            let end = round_up(now.lsn);
            let pad = end.since(now.lsn);
            if pad == 0 {
                return Some(Seal { end, used: PAYLOAD_BYTES as u16, pad });
            }
            if end > self.common_limit() || !self.slot_free(now.seq) {
                match self.changed_position(now) {
                    Some(seen) => now = seen,
                    None => return None,
                }
                continue;
            }
            match self.reserved.compare_exchange_weak(
                now.word(),
                now.next(end).word(),
                Ordering::SeqCst,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let used = offset_in_block(now.lsn);
                    let range = ReservedRange { seq: now.seq, start: now.lsn, end };
                    self.fill_pad(&range);
                    self.publish(range);
                    return Some(Seal { end, used: used as u16, pad });
                }
                Err(seen) => now = RingPosition::of(seen, now.lsn.0),
            }
        }
    }

    /// Copies `bytes` into the range. REQUIRES: they fill it.
    pub(super) fn copy(&self, range: &ReservedRange, bytes: &[u8]) {
        assert!(bytes.len() as u64 == range.end.since(range.start));
        let mut rest = bytes;
        let mut at = range.start;
        while !rest.is_empty() {
            let offset = offset_in_block(at);
            let n = rest.len().min(PAYLOAD_BYTES - offset);
            let (part, tail) = rest.split_at(n);
            // SAFETY: `reserve` handed the positions [start, end) to this caller alone, and their
            // blocks are not flushed again before they are published. So no other thread reads or
            // writes these bytes now. The part ends inside the payload of its block, which lies
            // inside `memory`.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), self.payload_ptr(at), n);
            }
            rest = tail;
            at = at.plus(n as u64);
        }
    }

    fn fill_pad(&self, range: &ReservedRange) {
        let n = range.end.since(range.start) as usize;
        assert!(offset_in_block(range.start) + n <= PAYLOAD_BYTES);
        // SAFETY: as in `copy`: the range is this caller's alone until published, and lies in one
        // block.
        unsafe { std::ptr::write_bytes(self.payload_ptr(range.start), PAD, n) }
    }

    fn payload_ptr(&self, at: Lsn) -> *mut u8 {
        let index = (block_of(at) & (self.blocks - 1)) as usize;
        let offset = index * BLOCK_BYTES + HEADER_BYTES + offset_in_block(at);
        // SAFETY: `index < blocks` and the offset within the block is below BLOCK_BYTES, so this
        // stays in `memory`.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Prefetches the memory of `n` bytes from `at` on. The thread that last wrote this block to
    /// the file has it in its cache.
    pub(super) fn prefetch(&self, at: Lsn, n: usize) {
        base::prefetch::to_write_at(self.payload_ptr(at), n.min(PREFETCH_MAX));
    }

    /// Publishes a range that has been copied. From now on a flush may take it.
    pub(super) fn publish(&self, range: ReservedRange) {
        let slot = &self.slots[range.seq as usize & (SLOTS - 1)];
        slot.store(range.end.0, Ordering::Release);
        base::sync::point();
        self.advance();
    }

    /// Moves the published position over every filled slot, and returns it.
    fn advance(&self) -> RingPosition {
        let mut now = self.position(&self.published, Ordering::Acquire);
        loop {
            // A slot's value from an earlier lap is at most the published LSN, so a larger one is
            // this lap's.
            let end = Lsn(self.slots[now.seq as usize].load(Ordering::Acquire));
            if end <= now.lsn {
                return now;
            }
            let next = now.next(end);
            let (old, new) = (now.word(), next.word());
            now = match self.published.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => next,
                Err(seen) => RingPosition::of(seen, now.lsn.0),
            };
        }
    }

    /// Copies the published payload positions [`from`, `to`) of one block into the payload of
    /// `out`, at the same offsets.
    pub(super) fn read_into(&self, from: Lsn, to: Lsn, out: &mut [u8]) {
        let n = to.since(from) as usize;
        let offset = offset_in_block(from);
        assert!(offset + n <= PAYLOAD_BYTES && out.len() >= BLOCK_BYTES);
        assert!(to <= self.position(&self.published, Ordering::Acquire).lsn);
        // SAFETY: published positions are not written again before they are durable and the ring
        // wraps. `reserve` prevents that while the flush of the caller holds the durable LSN below
        // `to`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.payload_ptr(from),
                out.as_mut_ptr().add(HEADER_BYTES + offset),
                n,
            );
        }
    }

    /// Lets `fill` fill in the headers of `count` blocks from block `first` on, and returns the
    /// blocks. Other threads may read their payload meanwhile. REQUIRES: all their payload is
    /// published, the caller owns their flush, and they do not cross the end of the ring.
    ///
    /// # Safety
    /// No other flush may touch these blocks until the returned slice is dropped.
    pub(super) unsafe fn blocks(&self, first: u64, count: u64, fill: impl Fn(u64, &mut [u8])) -> &[u8] {
        let index = first & (self.blocks - 1);
        assert!(index + count <= self.blocks);
        assert!(block_start(first + count) <= self.position(&self.published, Ordering::Acquire).lsn);
        let len = count as usize * BLOCK_BYTES;
        // SAFETY: in bounds by the first assertion.
        let start = unsafe { self.memory.as_ptr().add(index as usize * BLOCK_BYTES) };
        for n in 0..count as usize {
            // SAFETY: in bounds, for `n < count`. Only flushes touch headers, and the caller is the
            // only flush here.
            let header = unsafe { std::slice::from_raw_parts_mut(start.add(n * BLOCK_BYTES), HEADER_BYTES) };
            fill(first + n as u64, header);
        }
        // SAFETY: in bounds as above. By the second assertion all payload is published, so no
        // thread copies into it; `read_into` only reads. The headers are written.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Returns how many blocks from `first` on are contiguous in memory.
    pub(super) fn contiguous(&self, first: u64) -> u64 {
        self.blocks - (first & (self.blocks - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        Ring::new(64, Lsn(0))
    }

    #[test]
    fn the_published_prefix_ends_at_the_slowest_copy() {
        let ring = ring();
        let a = ring.reserve(100).unwrap();
        let b = ring.reserve(50).unwrap();
        assert_eq!((a.start, a.end, b.start, b.end), (Lsn(0), Lsn(100), Lsn(100), Lsn(150)));
        ring.copy(&b, &[2; 50]);
        ring.publish(b);
        assert_eq!(ring.published(), Lsn(0));
        ring.copy(&a, &[1; 100]);
        ring.publish(a);
        assert_eq!(ring.published(), Lsn(150));
        let mut out = vec![0; BLOCK_BYTES];
        ring.read_into(Lsn(90), Lsn(110), &mut out);
        assert_eq!(&out[HEADER_BYTES + 90..HEADER_BYTES + 110], [[1; 10], [2; 10]].concat());
    }

    #[test]
    fn the_ring_holds_its_size_above_the_durable_lsn() {
        let ring = ring();
        let mut taken = 0;
        while let Some(range) = ring.reserve(90 << 10) {
            taken += range.end.since(range.start);
            ring.copy(&range, &vec![7; 90 << 10]);
            ring.publish(range);
        }
        let spared = ring.spared();
        assert!(taken + spared <= ring.capacity() && taken + spared + (90 << 10) > ring.capacity());
        while !ring.has_spared(90 << 10) || ring.spares() {
            let range = ring.reserve_spared(10 << 10).unwrap();
            ring.publish(range);
        }
        assert!(ring.reserve(1).is_none());
        ring.follow(Lsn(200 << 10));
        assert!(ring.reserve(90 << 10).is_some());
    }

    #[test]
    fn a_seal_pads_to_the_next_block_and_the_slots_are_reused() {
        let ring = ring();
        for round in 0..3 * SLOTS {
            let range = ring.reserve(10).unwrap();
            ring.copy(&range, &[round as u8; 10]);
            ring.publish(range);
            let seal = ring.seal().unwrap();
            assert_eq!((seal.used, seal.pad), (10, PAYLOAD_BYTES as u64 - 10));
            assert_eq!(ring.published(), seal.end);
            assert_eq!(ring.seal().unwrap().pad, 0, "already at a block's start");
            ring.follow(seal.end);
        }
    }

    /// The lower bits of a position wrap more than once, and the base follows.
    #[test]
    fn positions_continue_when_the_bits_of_a_position_wrap() {
        let mut at = block_start(block_of(Lsn(LOW_MASK - 40_000)));
        for _ in 0..3 {
            let ring = Ring::new(64, at);
            for round in 0..2000 {
                let range = ring.reserve(97).unwrap();
                assert_eq!((range.start, range.end), (at, at.plus(97)), "{round}");
                assert_eq!((ring.published(), ring.reserved()), (at, range.end));
                ring.copy(&range, &[round as u8; 97]);
                ring.publish(range);
                at = ring.published();
                ring.follow(at);
            }
            let seal = ring.seal().unwrap();
            assert!(seal.end.0 > LOW_MASK, "it wrapped");
            // Far ahead, as if that much had been written meanwhile.
            at = block_start(block_of(seal.end.plus(LOW_MASK - 40_000)));
        }
    }

    #[test]
    fn the_base_follows_before_the_bits_wrap() {
        let ring = Ring::new(64, Lsn(0));
        for lsn in [BASE_LAG - 1, BASE_LAG, BASE_LAG + 5, 3 * BASE_LAG, 40 * BASE_LAG] {
            let at = RingPosition { seq: 5, lsn: Lsn(lsn) };
            ring.published.store(at.word(), Ordering::Relaxed);
            ring.reserved.store(at.word(), Ordering::Relaxed);
            let base = ring.base.load(Ordering::Relaxed);
            if lsn - base <= LOW_MASK {
                assert_eq!(ring.reserved(), Lsn(lsn));
            }
            ring.follow(Lsn(lsn));
            assert!(lsn - ring.base.load(Ordering::Relaxed) < BASE_LAG);
            assert_eq!((ring.reserved(), ring.published()), (Lsn(lsn), Lsn(lsn)));
        }
    }

    #[test]
    fn threads_fill_the_ring_without_gaps() {
        let ring = std::sync::Arc::new(Ring::new(1024, Lsn(0)));
        let threads: Vec<_> = (0..4u8)
            .map(|id| {
                let ring = std::sync::Arc::clone(&ring);
                std::thread::spawn(move || {
                    for n in 1..500usize {
                        let range = ring.reserve(n % 97 + 1).unwrap();
                        ring.copy(&range, &vec![id + 1; n % 97 + 1]);
                        ring.publish(range);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(ring.published(), ring.reserved());
        let total = ring.published();
        let mut out = vec![0; BLOCK_BYTES];
        for block in 0..block_of(total) {
            ring.read_into(block_start(block), block_start(block + 1), &mut out);
            assert!(out[HEADER_BYTES..].iter().all(|b| (1..=4).contains(b)), "a gap in block {block}");
        }
    }
}
