//! Commits that a coordinator has on record: which commits a reader need not wait for.
//!
//! What a transaction reads must be durable before it is acknowledged (Co10). A commit that a
//! coordinator has written down durably survives although its commit record may be lost: the
//! transaction was prepared durably before, and the coordinator commits it again. So a reader waits
//! only for commits that no coordinator knows.

use base::Lsn;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who besides the log knows durably that a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRecord {
    /// Nobody.
    Nowhere,
    /// The coordinator of a two-phase commit.
    Coordinator,
}

/// The newest commit that no coordinator has on record. It is not counted before the first commit
/// that one has: until then commits share one word that nobody changes.
#[derive(Debug, Default)]
pub(crate) struct UnrecordedCommits {
    /// Commits are counted in `newest`.
    counts: AtomicBool,
    /// No commit lies above `newest` uncounted.
    complete: AtomicBool,
    newest: AtomicU64,
}

impl UnrecordedCommits {
    /// Makes commits count from now on. `reserved` returns where the next group will start.
    pub(crate) fn count(&self, reserved: impl FnOnce() -> Lsn) {
        if self.counts.load(Ordering::SeqCst) {
            return;
        }
        // A commit that has not seen this has reserved its range before. So the end of the log that
        // is read now lies above it.
        self.counts.store(true, Ordering::SeqCst);
        self.newest.fetch_max(reserved().0.saturating_sub(1), Ordering::SeqCst);
        self.complete.store(true, Ordering::SeqCst);
    }

    /// Notes a commit at `lsn`. REQUIRES: its range is reserved, and nobody sees it committed yet.
    #[inline]
    pub(crate) fn note(&self, on_record: OnRecord, lsn: Lsn) {
        if on_record == OnRecord::Nowhere && self.counts.load(Ordering::SeqCst) {
            self.newest.fetch_max(lsn.0, Ordering::SeqCst);
        }
    }

    /// Returns up to where the log must be durable for a reader that has seen commits up to `seen`.
    pub(crate) fn needed(&self, seen: Lsn) -> Lsn {
        if self.complete.load(Ordering::SeqCst) {
            seen.min(Lsn(self.newest.load(Ordering::SeqCst)))
        } else {
            seen
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_for_the_newest_commit_that_only_the_log_knows() {
        let unrecorded = UnrecordedCommits::default();
        unrecorded.note(OnRecord::Nowhere, Lsn(10));
        assert_eq!(unrecorded.needed(Lsn(20)), Lsn(20), "without a coordinator");
        unrecorded.count(|| Lsn(31));
        assert_eq!(unrecorded.needed(Lsn(20)), Lsn(20), "from before");
        unrecorded.note(OnRecord::Coordinator, Lsn(40));
        assert_eq!(unrecorded.needed(Lsn(40)), Lsn(30));
        unrecorded.note(OnRecord::Nowhere, Lsn(50));
        unrecorded.note(OnRecord::Coordinator, Lsn(60));
        assert_eq!(unrecorded.needed(Lsn(60)), Lsn(50));
        unrecorded.count(|| Lsn(70));
        assert_eq!(unrecorded.needed(Lsn(60)), Lsn(50), "it begins once");
    }
}
