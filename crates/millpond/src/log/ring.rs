//! The log buffer: a ring of blocks in memory into which many threads copy groups at once.
//!
//! A group's life here: **reserve** (one compare-and-swap hands out a sequence number and a range of positions), **copy**
//! (concurrent, no lock), **publish** (the sequence slot says where the range ends). The *published* LSN is the end of
//! the contiguous prefix of published ranges; it always lies at a group's end. This is MySQL's reserve–copy–publish
//! (WL#10310) with the slots keyed by sequence number instead of position.
//!
//! A range is handed out only if its blocks are free, that is, no more than the ring's size beyond the durable LSN. Since
//! nothing unflushed lies further than that, the ring's size is also the window W of the end-of-log rule.
#![allow(unsafe_code)]

use super::block::{
    BLOCK_BYTES, HEADER_BYTES, PAYLOAD_BYTES, block_of, block_start, offset_in_block, round_up,
};
use base::Lsn;
use base::aligned::AlignedBuf;
use base::sync::atomic::{AtomicU64, Ordering};

/// How much of an LSN a mark's word holds. A model has a few slots, so that they go round.
const LOW_BITS: u32 = if cfg!(loom) { 61 } else { 52 };
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
/// Ranges that may be reserved and not yet published. More threads than this never reserve at once.
const SLOTS: usize = 1 << (64 - LOW_BITS);
/// The base follows when it has fallen behind by so much; long before a mark's lower bits come round.
const BASE_LAG: u64 = 1 << (LOW_BITS - 2);

/// The place of a short transaction's groups, bytes: more is not asked for ahead.
const PREFETCH_MAX: usize = 640;

/// What padding up to a seal consists of. No group begins with it, so padding and an unwritten rest differ.
pub(crate) const PAD: u8 = 0xff;

/// A sequence number (wrapping) and an LSN. Its word has 12 bits for the first and holds the lower 52 of the second: the rest
/// follows from a *base* below it that is read before the word is, as no two positions that matter at once lie so far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingMark {
    seq: u64,
    lsn: Lsn,
}

impl RingMark {
    fn word(self) -> u64 {
        self.seq << LOW_BITS | self.lsn.0 & LOW_MASK
    }
    /// The mark of a word that was read after `base` was.
    #[inline]
    fn of(word: u64, base: u64) -> RingMark {
        RingMark { seq: word >> LOW_BITS, lsn: Lsn(base + (word.wrapping_sub(base) & LOW_MASK)) }
    }
    /// The mark after a range that ends at `end`.
    fn next(self, end: Lsn) -> RingMark {
        RingMark { seq: self.seq.wrapping_add(1) & (SLOTS as u64 - 1), lsn: end }
    }
}

/// A reserved range, to be copied into and published exactly once.
#[derive(Debug)]
#[must_use = "a range that is never published stops the log"]
pub(crate) struct ReservedRange {
    seq: u64,
    /// First position.
    pub start: Lsn,
    /// One past the last position.
    pub end: Lsn,
}

/// What [`Ring::seal`] closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// The sealed range ends here, at a block's start.
    pub end: Lsn,
    /// Payload bytes in use in the last block.
    pub used: u16,
    /// Positions given to padding.
    pub pad: u64,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: AlignedBuf,
    blocks: u64,
    /// A durable position, not far behind: every mark that can be read lies at or above it.
    base: AtomicU64,
    reserved: AtomicU64,
    published: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Ring {
    /// A ring of `blocks` blocks (a power of two) whose first position is `start`, a block's start.
    pub(crate) fn new(blocks: usize, start: Lsn) -> Ring {
        assert!(blocks.is_power_of_two() && blocks * PAYLOAD_BYTES >= 2 * super::group::GROUP_BYTES_MAX);
        assert!(offset_in_block(start) == 0);
        let first = RingMark { seq: 0, lsn: start }.word();
        Ring {
            memory: AlignedBuf::zeroed(blocks * BLOCK_BYTES),
            blocks: blocks as u64,
            base: AtomicU64::new(start.0),
            reserved: AtomicU64::new(first),
            published: AtomicU64::new(first),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Positions that may lie between the durable LSN and the reservation point.
    pub(crate) fn capacity(&self) -> u64 {
        self.blocks * PAYLOAD_BYTES as u64
    }

    /// The base and a mark, in this order.
    #[inline]
    fn mark(&self, word: &AtomicU64, order: Ordering) -> RingMark {
        let base = self.base.load(Ordering::Acquire);
        RingMark::of(word.load(order), base)
    }

    /// Where the next range will start.
    #[inline]
    pub(crate) fn reserved(&self) -> Lsn {
        self.mark(&self.reserved, Ordering::SeqCst).lsn
    }

    /// The end of the contiguous published prefix.
    pub(crate) fn published(&self) -> Lsn {
        self.advance().lsn
    }

    /// Lets the base follow, now and then. REQUIRES: one thread at a time; everything below `durable` is published.
    pub(crate) fn follow(&self, durable: Lsn) {
        if durable.0 - self.base.load(Ordering::Relaxed) >= BASE_LAG {
            self.base.store(durable.0, Ordering::Release);
        }
    }

    /// Hands out `n` positions, or `None` while the ring has no room for them above `durable`.
    pub(crate) fn reserve(&self, n: usize, durable: Lsn) -> Option<ReservedRange> {
        let mut now = self.mark(&self.reserved, Ordering::Acquire);
        loop {
            let next = now.next(now.lsn.plus(n as u64));
            if next.lsn > self.limit(durable) || !self.slot_free(now.seq) {
                match self.changed_mark(now) {
                    Some(seen) => now = seen,
                    None => return None,
                }
                continue;
            }
            // SeqCst: a snapshot that reads the reservation point is ordered against commits by this word alone.
            let (old, new) = (now.word(), next.word());
            match self.reserved.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Some(ReservedRange { seq: now.seq, start: now.lsn, end: next.lsn }),
                // Later than the one before, so its base will do.
                Err(seen) => now = RingMark::of(seen, now.lsn.0),
            }
        }
    }

    /// How far ranges may reach: the block that holds `durable` must stay in memory whole, for its rewrite.
    fn limit(&self, durable: Lsn) -> Lsn {
        block_start(block_of(durable)).plus(self.capacity())
    }

    /// The reservation mark, if it is no longer `now`. A stale mark must not be judged: the published prefix may have
    /// passed it, and its distance then wraps.
    fn changed_mark(&self, now: RingMark) -> Option<RingMark> {
        let seen = self.mark(&self.reserved, Ordering::Acquire);
        (seen != now).then_some(seen)
    }

    /// Whether fewer than all slots lie between the published prefix and `seq`.
    fn slot_free(&self, seq: u64) -> bool {
        let lag = |published: u64| seq.wrapping_sub(published) & (SLOTS as u64 - 1);
        let far = SLOTS as u64 - 2;
        lag(self.published.load(Ordering::Acquire) >> LOW_BITS) < far || lag(self.advance().seq) < far
    }

    /// Moves the reservation point to the next block's start, padding what lies between. `None` where it cannot: no
    /// room above `durable`.
    pub(crate) fn seal(&self, durable: Lsn) -> Option<Seal> {
        // SeqCst: a flush that has taken a promise must see what was reserved before.
        let mut now = self.mark(&self.reserved, Ordering::SeqCst);
        loop {
            let end = round_up(now.lsn);
            let pad = end.since(now.lsn);
            if pad == 0 {
                return Some(Seal { end, used: PAYLOAD_BYTES as u16, pad });
            }
            if end > self.limit(durable) || !self.slot_free(now.seq) {
                match self.changed_mark(now) {
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
                Err(seen) => now = RingMark::of(seen, now.lsn.0),
            }
        }
    }

    /// Copies `bytes`, which must fill the range, into it.
    pub(crate) fn copy(&self, range: &ReservedRange, bytes: &[u8]) {
        assert!(bytes.len() as u64 == range.end.since(range.start));
        let mut rest = bytes;
        let mut at = range.start;
        while !rest.is_empty() {
            let offset = offset_in_block(at);
            let n = rest.len().min(PAYLOAD_BYTES - offset);
            let (part, tail) = rest.split_at(n);
            // SAFETY: the positions [start, end) were handed to this caller alone by `reserve`, and their blocks are
            // not flushed again before they are published, so no other thread reads or writes these bytes now. The
            // part ends inside its block's payload, which lies inside `memory`.
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
        // SAFETY: as in `copy`: the range is this caller's alone until published, and lies in one block.
        unsafe { std::ptr::write_bytes(self.payload_ptr(range.start), PAD, n) }
    }

    fn payload_ptr(&self, at: Lsn) -> *mut u8 {
        let index = (block_of(at) & (self.blocks - 1)) as usize;
        let offset = index * BLOCK_BYTES + HEADER_BYTES + offset_in_block(at);
        // SAFETY: `index < blocks` and the offset within the block is below BLOCK_BYTES, so this stays in `memory`.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Asks the processor for the place of `n` bytes from `at` on: what lies there was last seen by who wrote it to the file.
    pub(crate) fn prefetch(&self, at: Lsn, n: usize) {
        base::prefetch::to_write_at(self.payload_ptr(at), n.min(PREFETCH_MAX));
    }

    /// Says that the range has been copied. From now on a flush may take it.
    pub(crate) fn publish(&self, range: ReservedRange) {
        let slot = &self.slots[range.seq as usize & (SLOTS - 1)];
        slot.store(range.end.0, Ordering::Release);
        base::sync::point();
        self.advance();
    }

    /// Moves the published mark over every slot that is filled, and returns it.
    fn advance(&self) -> RingMark {
        let mut now = self.mark(&self.published, Ordering::Acquire);
        loop {
            // A slot's value from an earlier lap is at most the published LSN, so a larger one is this lap's.
            let end = Lsn(self.slots[now.seq as usize].load(Ordering::Acquire));
            if end <= now.lsn {
                return now;
            }
            let next = now.next(end);
            let (old, new) = (now.word(), next.word());
            now = match self.published.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => next,
                Err(seen) => RingMark::of(seen, now.lsn.0),
            };
        }
    }

    /// Copies the published payload positions [`from`, `to`) of one block into `out`'s payload, at the same offsets.
    pub(crate) fn read_into(&self, from: Lsn, to: Lsn, out: &mut [u8]) {
        let n = to.since(from) as usize;
        let offset = offset_in_block(from);
        assert!(offset + n <= PAYLOAD_BYTES && out.len() >= BLOCK_BYTES);
        assert!(to <= self.mark(&self.published, Ordering::Acquire).lsn);
        // SAFETY: published positions are not written again before they are durable and the ring comes round, which
        // `reserve` prevents while the caller's flush holds the durable LSN below `to`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.payload_ptr(from),
                out.as_mut_ptr().add(HEADER_BYTES + offset),
                n,
            );
        }
    }

    /// The memory of the `count` blocks from block `first`, to fill their headers and write them: all their payload is
    /// published, and the caller owns their flush. They must not wrap round the ring's end.
    ///
    /// # Safety
    /// No other flush may touch these blocks until the returned slice is dropped.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn blocks_mut(&self, first: u64, count: u64) -> &mut [u8] {
        let index = first & (self.blocks - 1);
        assert!(index + count <= self.blocks);
        assert!(block_start(first + count) <= self.mark(&self.published, Ordering::Acquire).lsn);
        // SAFETY: in bounds by the first assertion. By the second all payload is published, so no copier writes it;
        // headers and payload are touched by flushes alone, and the caller promises to be the only one.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.as_ptr().add(index as usize * BLOCK_BYTES),
                count as usize * BLOCK_BYTES,
            )
        }
    }

    /// How many blocks from `first` on lie in a row in memory.
    pub(crate) fn contiguous(&self, first: u64) -> u64 {
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
    fn the_published_prefix_waits_for_the_slowest() {
        let ring = ring();
        let a = ring.reserve(100, Lsn(0)).unwrap();
        let b = ring.reserve(50, Lsn(0)).unwrap();
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
    fn room_is_what_lies_above_the_durable_lsn() {
        let ring = ring();
        let mut taken = 0;
        while let Some(range) = ring.reserve(90 << 10, Lsn(0)) {
            taken += range.end.since(range.start);
            ring.copy(&range, &vec![7; 90 << 10]);
            ring.publish(range);
        }
        assert!(taken <= ring.capacity() && taken + (90 << 10) > ring.capacity());
        assert!(ring.reserve(90 << 10, Lsn(90 << 10)).is_some());
    }

    #[test]
    fn a_seal_pads_to_the_next_block_and_the_slots_go_round() {
        let ring = ring();
        let mut durable = Lsn(0);
        for turn in 0..3 * SLOTS {
            let range = ring.reserve(10, durable).unwrap();
            ring.copy(&range, &[turn as u8; 10]);
            ring.publish(range);
            let seal = ring.seal(durable).unwrap();
            assert_eq!((seal.used, seal.pad), (10, PAYLOAD_BYTES as u64 - 10));
            assert_eq!(ring.published(), seal.end);
            assert_eq!(ring.seal(durable).unwrap().pad, 0, "already at a block's start");
            durable = seal.end;
        }
    }

    /// The lower bits of a position come round more than once, and the base follows.
    #[test]
    fn positions_go_on_where_a_marks_bits_come_round() {
        let mut at = block_start(block_of(Lsn(LOW_MASK - 40_000)));
        for _ in 0..3 {
            let ring = Ring::new(64, at);
            for turn in 0..2000 {
                let range = ring.reserve(97, at).unwrap();
                assert_eq!((range.start, range.end), (at, at.plus(97)), "{turn}");
                assert_eq!((ring.published(), ring.reserved()), (at, range.end));
                ring.copy(&range, &[turn as u8; 97]);
                ring.publish(range);
                at = ring.published();
                ring.follow(at);
            }
            let seal = ring.seal(at).unwrap();
            assert!(seal.end.0 > LOW_MASK, "it came round");
            // Far ahead, as if as much had been written meanwhile.
            at = block_start(block_of(seal.end.plus(LOW_MASK - 40_000)));
        }
    }

    #[test]
    fn the_base_follows_before_the_bits_come_round() {
        let ring = Ring::new(64, Lsn(0));
        for lsn in [BASE_LAG - 1, BASE_LAG, BASE_LAG + 5, 3 * BASE_LAG, 40 * BASE_LAG] {
            let at = RingMark { seq: 5, lsn: Lsn(lsn) };
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
                        let range = ring.reserve(n % 97 + 1, Lsn(0)).unwrap();
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
