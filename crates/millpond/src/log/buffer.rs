//! [`LogBuffer`]: the ring of the log, the room in it that is taken, and the durable LSN, which
//! says which of its blocks are free.

use super::block::{PAYLOAD_BYTES, block_of, block_start};
use super::ring::{ReservedRange, Ring, Seal};
use super::room::{Credit, KeptRoom, TakenRoom};
use crate::error::Result;
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::point;

/// The log buffer.
#[derive(Debug)]
pub(super) struct LogBuffer {
    ring: Ring,
    room: TakenRoom,
    durable: AtomicU64,
}

impl LogBuffer {
    /// A buffer of `blocks` blocks, a power of two. Everything below `start` is durable.
    pub(super) fn new(blocks: usize, start: Lsn) -> LogBuffer {
        let ring = Ring::new(blocks, start);
        LogBuffer { room: TakenRoom::new(ring.capacity()), ring, durable: AtomicU64::new(start.0) }
    }

    /// Returns the end of the contiguous prefix of completed flushes.
    #[inline]
    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Moves the durable LSN. REQUIRES: one thread at a time.
    pub(super) fn set_durable(&self, durable: Lsn) {
        base::verify!(durable <= self.published(), "{durable} is durable and not published");
        base::check!(
            self.durable() <= durable,
            "the durable LSN goes back from {} to {durable}",
            self.durable()
        );
        self.durable.store(durable.0, Ordering::Release);
        self.ring.follow(durable);
    }

    /// Returns where the next group will start.
    #[inline]
    pub(super) fn reserved(&self) -> Lsn {
        self.ring.reserved()
    }

    /// Returns the end of the contiguous prefix of groups that are wholly in the buffer.
    #[inline]
    pub(super) fn published(&self) -> Lsn {
        self.ring.published()
    }

    /// Returns how many positions may lie between the durable LSN and the next group.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// Returns how many blocks it has.
    pub(super) fn blocks(&self) -> u64 {
        self.capacity() / PAYLOAD_BYTES as u64
    }

    /// Returns the end of the window: nothing lies beyond it that is not durable.
    pub(super) fn window_end(&self) -> Lsn {
        block_start(block_of(self.durable())).plus(self.capacity())
    }

    /// Whether everything is left free that is lent and kept.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.ring.spares()
    }

    /// Returns up to where the log must be durable, so that there is room.
    pub(super) fn room_from(&self) -> Lsn {
        // A block less, because the block of the durable position stays in memory as a whole.
        let most = self.ring.capacity() - self.ring.spared() - PAYLOAD_BYTES as u64;
        Lsn(self.reserved().0.saturating_sub(most))
    }

    /// Takes a credit, if there is one and there is room.
    #[inline]
    pub(super) fn try_credit(&self) -> Option<Credit<'_>> {
        let credit = self.room.credit()?;
        self.has_room().then_some(credit)
    }

    /// Keeps room for one commit record and its bookmark. Errors: `Limit` if a quarter of the
    /// buffer is kept already.
    pub(super) fn keep_room(&self) -> Result<KeptRoom> {
        self.room.keep()
    }

    /// Reserves `n` positions; `None` while there is no room beside what is lent and kept.
    #[inline]
    pub(super) fn reserve(&self, n: usize) -> Option<ReservedRange> {
        self.ring.reserve(n)
    }

    /// As [`LogBuffer::reserve`], for a thread that has taken room: `None` only while thousands of
    /// groups are reserved and not copied.
    #[inline]
    pub(super) fn reserve_taken(&self, n: usize) -> Option<ReservedRange> {
        let range = self.ring.reserve_spared(n);
        base::check!(range.is_some() || self.ring.has_spared(n), "the room in the log is gone");
        range
    }

    /// Copies a group into its range and publishes it.
    #[inline]
    pub(super) fn put(&self, range: ReservedRange, group: &[u8]) {
        base::verify!(range.start >= self.durable(), "a group at {}, which is durable already", range.start);
        self.ring.copy(&range, group);
        point();
        // The next group, of this thread or another, follows this one.
        self.ring.prefetch(range.end, group.len());
        self.ring.publish(range);
    }

    /// Moves the next group to the start of a block and pads what lies between. `None` if there is
    /// no room.
    pub(super) fn seal(&self) -> Option<Seal> {
        self.ring.seal()
    }

    /// The blocks in memory, for a flush.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }
}
