//! [`Committers`]: how many threads are about to commit, and how many commits wait for a flush.

use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What group commit knows of the commits of this moment.
#[derive(Debug, Default)]
pub(super) struct Committers {
    /// Commits published that no flush has taken.
    unflushed: AtomicU64,
    /// Threads between the start of a commit and its return.
    busy: AtomicU32,
}

impl Committers {
    /// Counts an appended commit, for the flush that will take it.
    pub(super) fn count_commit(&self) {
        self.unflushed.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the commits that the next flush covers: how many there are.
    pub(super) fn take_commits(&self) -> u64 {
        self.unflushed.swap(0, Ordering::Relaxed)
    }

    /// Returns how many threads are between the start of a commit and its return.
    pub(super) fn busy(&self) -> u32 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Counts the calling thread among them until the returned guard is dropped.
    pub(super) fn enter(&self) -> Committing<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Committing { busy: &self.busy }
    }
}

/// Counts a thread among the committers.
pub(crate) struct Committing<'a> {
    busy: &'a AtomicU32,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let before = self.busy.fetch_sub(1, Ordering::Relaxed);
        base::verify!(before > 0, "more commits return than were begun");
    }
}
