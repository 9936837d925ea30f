//! The size of the buffer pool, which can be changed while the database is open (Bp1).

use super::admission::{Admission, Asker};
use super::roster::Worker;
use super::writers::PageWriters;
use crate::buffer::{Shrink, ShrinkStep, grow};
use crate::error::{Error, Poison, Result};
use crate::options::POOL_BYTES_MIN;
use crate::tree_store::Store;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use metrics::M;
use std::sync::Arc;
use std::time::Duration;
use vfs::Clock;

/// A shrink gives up when it has made no progress for so long. A page in a frame can be kept by a
/// device that does not answer, and by little else.
const PATIENCE_US: u64 = 10_000_000;
/// A shrink looks so often whether pages were written.
const LOOK: Duration = Duration::from_millis(2);
/// Batches of pages that a shrink orders at once: one for each writer.
const BATCHES: usize = Worker::WRITERS.len();

/// The size of the pool, and what a change of it needs.
pub(super) struct PoolSize {
    /// The size that was asked for last, bytes.
    bytes: AtomicU64,
    /// One change at a time.
    changing: Mutex<()>,
    store: Arc<Store>,
    writers: Arc<PageWriters>,
    admission: Arc<Admission>,
    poison: Arc<Poison>,
    clock: Arc<dyn Clock>,
    cleaner: Unparker,
}

impl PoolSize {
    /// A pool of this size at opening, bytes.
    pub(super) fn new(
        bytes: u64,
        (store, writers): (&Arc<Store>, &Arc<PageWriters>),
        admission: &Arc<Admission>,
        (poison, clock): (&Arc<Poison>, &Arc<dyn Clock>),
        cleaner: Unparker,
    ) -> PoolSize {
        PoolSize {
            bytes: AtomicU64::new(bytes),
            changing: Mutex::new(()),
            store: Arc::clone(store),
            writers: Arc::clone(writers),
            admission: Arc::clone(admission),
            poison: Arc::clone(poison),
            clock: Arc::clone(clock),
            cleaner,
        }
    }

    /// Returns the size that was asked for last, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives the pool another size. A shrink ends when the memory is free; after an error the size
    /// is as before.
    pub(super) fn set(&self, bytes: u64) -> Result {
        if bytes < POOL_BYTES_MIN {
            let what = format!("a buffer pool of {bytes} bytes: at least {POOL_BYTES_MIN} are needed");
            return Err(Error::Misuse(what));
        }
        let _changing = self.changing.lock();
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.resize(self.store.pool.frames_within(wanted))?;
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the pool so many frames, which may be fewer than users can choose.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn set_frames(&self, frames: usize) -> Result {
        let _changing = self.changing.lock();
        self.resize(frames)
    }

    /// REQUIRES: no other thread changes the size.
    fn resize(&self, frames: usize) -> Result {
        self.poison.check()?;
        let pool = &self.store.pool;
        match frames.cmp(&pool.frame_count()) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Greater => grow(pool, frames)?,
            std::cmp::Ordering::Less => self.shrink_pool(frames)?,
        }
        self.store.metrics.add(M::BufferResizes, 1);
        // Its reserve of free frames follows from the size.
        self.cleaner.unpark();
        Ok(())
    }

    fn shrink_pool(&self, frames: usize) -> Result {
        let mut shrink = Shrink::begin(&self.store.pool, frames);
        let (mut seen, mut since_us) = (usize::MAX, self.clock.now_us());
        loop {
            self.poison.check()?;
            if self.admission.is_closed(Asker::Caller) {
                return Err(Error::Closed);
            }
            let more =
                if self.writers.orders.has_leaving() { 0 } else { BATCHES * self.writers.batch_pages() };
            let (count, dirty) = match shrink.step(more) {
                ShrinkStep::Done => return Ok(()),
                ShrinkStep::Left { count, dirty } => (count, dirty),
            };
            let now_us = self.clock.now_us();
            if count != seen {
                (seen, since_us) = (count, now_us);
            } else if now_us.saturating_sub(since_us) > PATIENCE_US {
                let what = format!(
                    "the buffer pool keeps its size: {count} of the frames that were to go are in use for {} s",
                    PATIENCE_US / 1_000_000
                );
                return Err(Error::Limit { what });
            }
            if !dirty.is_empty() {
                self.writers.write_leaving(dirty)?;
            }
            shrink.wait(LOOK);
        }
    }
}

/// Returns the size of a pool of which the caller has not said it: a quarter of the memory that the
/// process may use.
pub(super) fn default_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes / 4).max(POOL_BYTES_MIN)
}

/// Returns for how many frames addresses are reserved, if the pool begins with `frames`: as many as
/// fit in the memory that the process may use. Addresses cost nothing, but a process has not any
/// number. If the system limits them to `address_bytes` more, half of these are for all else.
pub(super) fn frames_most(
    frames: usize,
    memory_bytes: u64,
    address_bytes: Option<u64>,
    page_bytes: usize,
) -> usize {
    let pages = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX) / page_bytes;
    let allowed = address_bytes.map_or(usize::MAX, |bytes| pages(bytes / 2));
    pages(memory_bytes).max(4 * frames).min(allowed.max(frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_follows_from_what_the_process_may_use() {
        const MIB: u64 = 1 << 20;
        for (memory, wanted) in [(24 << 30, 6 << 30), (300 * MIB, 75 * MIB), (2 * MIB, MIB), (0, MIB)] {
            assert_eq!(default_bytes(memory), wanted, "{memory} bytes of memory");
        }
        let table = [
            // frames, memory, addresses, the most frames
            (1000, 800 * MIB, None, 102_400),
            (100_000, 800 * MIB, None, 400_000),
            (1000, 800 * MIB, Some(200 * MIB), 12_800),
            (20_000, 800 * MIB, Some(200 * MIB), 20_000),
            (1000, 800 * MIB, Some(64 << 40), 102_400),
        ];
        for (frames, memory, addresses, wanted) in table {
            let most = frames_most(frames, memory, addresses, 8192);
            assert_eq!(most, wanted, "{frames} frames, {memory} bytes, {addresses:?}");
        }
    }
}
