//! The results of the latest completed flushes, for the commits that they covered.
//!
//! A commit that did not wait asks afterwards which flush made it durable, and when. No thread is
//! told: each flush leaves one entry, and a commit searches for its entry by LSN. One thread writes
//! at a time, holding the mutex of the log; readers take no lock. An entry is read whole or not at
//! all: its `end` is 0 while it changes, and no two flushes have the same end.

use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};

/// Entries that are kept. Flushes of about 0.1 ms each make that some 50 ms, in which a thread
/// makes ten thousand commits.
const KEPT: u64 = if cfg!(test) { 8 } else { 512 };

/// The result of a flush, for one of the commits that it covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlushInfo {
    /// Commits that became durable by the same flush.
    pub batch_commits: u64,
    /// Flushes in flight when it began, itself included.
    pub flush_depth: u64,
    /// When everything below its end was durable, microseconds of the clock.
    pub done_us: u64,
}

/// The entry of one flush.
#[derive(Debug, Default)]
struct CompletedFlush {
    from: AtomicU64,
    end: AtomicU64,
    /// The commits and, in the low byte, the depth.
    commits_and_depth: AtomicU64,
    done_us: AtomicU64,
}

/// The latest flushes whose range is durable.
#[derive(Debug)]
pub(super) struct CompletedFlushes {
    /// Flushes ever recorded.
    count: AtomicU64,
    entries: Box<[CompletedFlush]>,
}

impl Default for CompletedFlushes {
    fn default() -> Self {
        CompletedFlushes {
            count: AtomicU64::new(0),
            entries: (0..KEPT).map(|_| CompletedFlush::default()).collect(),
        }
    }
}

impl CompletedFlushes {
    /// Records the flush that covered [`from`, `end`). REQUIRES: the caller holds the mutex of the
    /// log; calls come in the order of the log.
    pub(super) fn record(&self, from: Lsn, end: Lsn, info: FlushInfo) {
        let number = self.count.load(Ordering::Relaxed);
        base::check!(from < end, "an empty flush completed at {end}");
        if let Some(before) = number.checked_sub(1) {
            let before = self.entries[(before % KEPT) as usize].end.load(Ordering::Relaxed);
            base::verify!(before <= from.0, "flushes complete in order: {before} before {from}");
        }
        let entry = &self.entries[(number % KEPT) as usize];
        entry.end.store(0, Ordering::SeqCst);
        entry.from.store(from.0, Ordering::SeqCst);
        entry.commits_and_depth.store(info.batch_commits << 8 | info.flush_depth.min(0xff), Ordering::SeqCst);
        entry.done_us.store(info.done_us, Ordering::SeqCst);
        entry.end.store(end.0, Ordering::SeqCst);
        self.count.store(number + 1, Ordering::SeqCst);
    }

    /// Returns the result of the flush that covered `lsn`, or `None` if it is no longer kept.
    /// REQUIRES: that flush is complete.
    pub(super) fn find(&self, lsn: Lsn) -> Option<FlushInfo> {
        let count = self.count.load(Ordering::SeqCst);
        let end = |number: u64| self.entries[(number % KEPT) as usize].end.load(Ordering::SeqCst);
        // The first entry that ends beyond `lsn`. Mostly it is the last or the one before, because
        // the commit that asks has just become durable.
        let (mut low, mut high) = (count.saturating_sub(KEPT), count);
        if high > low + 2 && end(high - 2) <= lsn.0 {
            low = high - 1;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if end(middle) > lsn.0 { high = middle } else { low = middle + 1 }
        }
        let entry = &self.entries[(low % KEPT) as usize];
        let first = entry.end.load(Ordering::SeqCst);
        let from = entry.from.load(Ordering::SeqCst);
        let commits_and_depth = entry.commits_and_depth.load(Ordering::SeqCst);
        let done_us = entry.done_us.load(Ordering::SeqCst);
        // An entry overwritten meanwhile can mislead the search only to an entry that does not hold
        // `lsn`.
        let whole = entry.end.load(Ordering::SeqCst) == first;
        (whole && from <= lsn.0 && lsn.0 < first).then_some(FlushInfo {
            batch_commits: commits_and_depth >> 8,
            flush_depth: commits_and_depth & 0xff,
            done_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn info(n: u64) -> FlushInfo {
        FlushInfo { batch_commits: n, flush_depth: n % 4, done_us: n * 7 }
    }

    #[test]
    fn each_position_finds_its_flush_while_the_entry_is_kept() {
        let completed = CompletedFlushes::default();
        assert_eq!(completed.find(Lsn(0)), None);
        for n in 0..5 * KEPT {
            completed.record(Lsn(n * 10), Lsn(n * 10 + 10), info(n));
            for lsn in 0..n * 10 + 10 {
                let expected = (lsn / 10 + KEPT > n).then(|| info(lsn / 10));
                assert_eq!(completed.find(Lsn(lsn)), expected, "{lsn} after {n}");
            }
        }
    }

    #[test]
    fn an_entry_that_is_being_overwritten_is_not_returned() {
        let (completed, stop) = (CompletedFlushes::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (completed, stop) = (&completed, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        // From the oldest to the newest, including entries that have just been
                        // overwritten.
                        let count = completed.count.load(Ordering::SeqCst);
                        for n in count.saturating_sub(KEPT + reader)..count {
                            if let Some(found) = completed.find(Lsn(n * 10 + reader)) {
                                assert_eq!(found, info(n));
                            }
                        }
                    }
                });
            }
            for n in 0..100_000 {
                completed.record(Lsn(n * 10), Lsn(n * 10 + 10), info(n));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
