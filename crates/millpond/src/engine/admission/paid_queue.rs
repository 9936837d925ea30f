//! [`PaidQueue`]: operations above the soft limit go on one after the other, each when the redo of
//! those before it is paid for with time.

use base::sync::atomic::{AtomicU64, Ordering};
use pace::admission::{AdmissionDecision, admit};

/// The queue of those that pay, and what they may still write.
#[derive(Debug, Default)]
pub(super) struct PaidQueue {
    /// When the next operation may go on, nanoseconds of the clock.
    next_ns: AtomicU64,
    /// Redo of operations that were admitted above the soft limit and are not done, bytes.
    unwritten: AtomicU64,
}

/// Redo of an admitted operation that is not yet written.
#[derive(Debug)]
pub(super) struct Unwritten<'a> {
    queue: &'a PaidQueue,
    bytes: u64,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.queue.unwritten.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl PaidQueue {
    /// Returns the redo that admitted operations may still write, bytes.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Enters the queue at the price of `price_ns`. Returns after how many microseconds the
    /// operation goes on; an error is the time after which to ask again.
    pub(super) fn enter(&self, now_us: u64, price_ns: u64) -> Result<u64, u64> {
        loop {
            let before = self.next_ns.load(Ordering::Relaxed);
            match admit(before, now_us, price_ns) {
                AdmissionDecision::Retry { delay_us } => return Err(delay_us),
                AdmissionDecision::Admitted { delay_us, next_ns } => {
                    let (done, seen) = (Ordering::Relaxed, Ordering::Relaxed);
                    if next_ns == before || self.next_ns.compare_exchange(before, next_ns, done, seen).is_ok()
                    {
                        return Ok(delay_us);
                    }
                }
            }
        }
    }

    /// Counts redo that an operation will write.
    pub(super) fn count(&self, bytes: u64) -> Unwritten<'_> {
        self.unwritten.fetch_add(bytes, Ordering::Relaxed);
        Unwritten { queue: self, bytes }
    }
}
