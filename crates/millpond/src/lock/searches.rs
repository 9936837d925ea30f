//! [`Searches`]: how long deadlock searches take.

use base::sync::atomic::{AtomicU64, Ordering};

/// Figures of the deadlock searches.
#[derive(Debug, Default)]
pub(super) struct Searches {
    us: AtomicU64,
    longest_us: AtomicU64,
    /// Victims that were in no cycle.
    #[cfg(test)]
    wrong: AtomicU64,
}

impl Searches {
    pub(super) fn count(&self, us: u64) {
        self.us.fetch_add(us, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn judge(&self, right: bool) {
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Records that a cycle was broken `us` after its last wait began.
    pub(super) fn broken(&self, us: u64) {
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    /// The time of all, and the longest until a cycle was broken.
    pub(super) fn took_us(&self) -> (u64, u64) {
        (self.us.load(Ordering::Relaxed), self.longest_us.load(Ordering::Relaxed))
    }
}
