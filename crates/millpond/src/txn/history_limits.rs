//! The limits of history: how much memory and how many bytes of files it may take, and from which
//! size of undo on that is checked.

use crate::options::Options;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use pace::constants::HISTORY_LOCKS_PART;
use pace::history::{HistorySample, Step, VainSteps, spill_threshold};

/// Locks may always take this much memory, however small the budget is, bytes.
const LOCK_BYTES_LEAST: u64 = 1 << 20;
/// And this much if no budget was set: a million rows with short keys can be locked on any machine.
const LOCK_BYTES_DEFAULT: u64 = 256 << 20;

/// The limits of history, and how near it is to them.
#[derive(Debug)]
pub(crate) struct HistoryLimits {
    /// Memory, bytes.
    pub(crate) memory: u64,
    /// Memory that locks of rows and ranges may take where nothing else is set, bytes.
    pub(crate) locks: u64,
    /// Files, bytes.
    pub(crate) files: u64,
    /// From this many undo bytes on, the limits are checked.
    threshold: AtomicU64,
    /// The steps that moved nothing.
    vain: Mutex<VainSteps>,
    /// Wakes the thread that checks the limits.
    thread: Unparker,
}

impl HistoryLimits {
    /// Makes limits from the options, or else from the size of the buffer pool.
    pub(crate) fn new(options: &Options, pool_bytes: u64, thread: Unparker) -> HistoryLimits {
        let asked = options.history_memory_bytes;
        let memory = HistoryLimits::memory(asked, pool_bytes);
        let least = if asked.is_some() { LOCK_BYTES_LEAST } else { LOCK_BYTES_DEFAULT };
        let threshold = AtomicU64::new(spill_threshold(memory, 0, 0));
        HistoryLimits {
            memory,
            locks: (memory / HISTORY_LOCKS_PART).max(least),
            files: options.history_disk_bytes,
            threshold,
            vain: Mutex::new(VainSteps::default()),
            thread,
        }
    }

    /// Returns how much memory history may take, bytes.
    pub(crate) fn memory(asked: Option<u64>, pool_bytes: u64) -> u64 {
        asked.unwrap_or_else(|| (pool_bytes / 4).max(64 << 20))
    }

    /// Returns by how many bytes undo exceeds the threshold; 0: it does not.
    #[inline]
    pub(super) fn above_threshold(&self, undo_bytes: u64) -> u64 {
        undo_bytes.saturating_sub(self.threshold.load(Ordering::Relaxed))
    }

    /// Adapts the threshold to what takes the rest of the memory.
    pub(super) fn set_threshold(&self, sample: &HistorySample) {
        let threshold = spill_threshold(sample.budget, sample.status, sample.locks);
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Wakes the thread that checks the limits.
    pub(super) fn wake_thread(&self) {
        self.thread.unpark();
    }

    /// Counts a step, see [`VainSteps::count`].
    pub(super) fn count_step(&self, step: Step, end: u64, durable: u64) -> bool {
        self.vain.lock().count(step, end, durable)
    }
}
