//! [`FullDisk`]: what stops operations while the disk is full, and how long they wait for space.

use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pace::age_limits::AgeLimits;
use pace::constants::{FULL_DISK_NO_PROGRESS_US, FULL_DISK_ROUNDS, FULL_DISK_WAIT_US};
use pace::undo_admission::stop_beside_waiting;

/// The state of a full disk.
#[derive(Debug, Default)]
pub(super) struct FullDisk {
    /// The ballast is spent, so no more undo may be made that a checkpoint would have to write.
    ballast_spent: AtomicBool,
    /// The ballast is spent, and a rollback waits for pages that others may free.
    rollback_waits: AtomicBool,
    /// How often rollback and purge were admitted while row operations were delayed.
    undo_grants: AtomicU64,
    /// Rounds of the cleaner so far.
    rounds: AtomicU64,
}

/// The last progress of anything that makes space on a full disk, and when it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceProgress {
    begun_us: u64,
    since_us: u64,
    rounds: u64,
    undo_grants: u64,
    checkpoint: u64,
}

impl SpaceProgress {
    /// Takes note of the progress `now`. Returns whether a wait for space has taken too long.
    pub(super) fn gives_up(&mut self, now: SpaceProgress) -> bool {
        if (self.undo_grants, self.checkpoint) != (now.undo_grants, now.checkpoint) {
            *self = SpaceProgress { begun_us: self.begun_us, ..now };
        }
        let without_progress_us = now.since_us.saturating_sub(self.since_us);
        let looked = now.rounds - self.rounds > FULL_DISK_ROUNDS;
        let all_us = now.since_us.saturating_sub(self.begun_us);
        (without_progress_us >= FULL_DISK_NO_PROGRESS_US && looked) || all_us >= FULL_DISK_WAIT_US
    }
}

impl FullDisk {
    pub(super) fn set_ballast_spent(&self, spent: bool, rollback_waits: bool) {
        self.ballast_spent.store(spent, Ordering::Relaxed);
        self.rollback_waits.store(rollback_waits, Ordering::Relaxed);
    }

    /// Whether the ballast is spent.
    pub(super) fn holds_operations(&self) -> bool {
        self.ballast_spent.load(Ordering::Relaxed) || self.rollback_waits.load(Ordering::Relaxed)
    }

    /// Returns the age at which new operations stop: 0 while the ballast is spent. The undo of what
    /// is unfinished then can be hardened with the rest of the ballast. So rollback and purge
    /// continue, however long they take, and give the ballast's space back.
    pub(super) fn stop(&self, limits: &AgeLimits) -> u64 {
        if self.ballast_spent.load(Ordering::Relaxed) {
            0
        } else if self.rollback_waits.load(Ordering::Relaxed) {
            stop_beside_waiting(limits)
        } else {
            limits.hard
        }
    }

    pub(super) fn count_undo_grant(&self) {
        self.undo_grants.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_round(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the progress of what could make space.
    pub(super) fn progress(&self, now_us: u64, checkpoint: u64) -> SpaceProgress {
        // While the ballast is spent, the checkpoint moves as pages are cleaned, but that does not
        // refill the ballast.
        let spent = self.ballast_spent.load(Ordering::Relaxed);
        SpaceProgress {
            begun_us: now_us,
            since_us: now_us,
            rounds: self.rounds.load(Ordering::Relaxed),
            undo_grants: self.undo_grants.load(Ordering::Relaxed),
            checkpoint: if spent { 0 } else { checkpoint },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_space_ends_some_time_after_the_last_progress() {
        let full = FullDisk::default();
        let mut seen = full.progress(0, 5);
        let after = |us, checkpoint| full.progress(us, checkpoint);
        assert!(!seen.gives_up(after(FULL_DISK_NO_PROGRESS_US, 5)), "the cleaner has not looked");
        (0..=FULL_DISK_ROUNDS).for_each(|_| full.count_round());
        assert!(!seen.gives_up(after(FULL_DISK_NO_PROGRESS_US - 1, 5)));
        assert!(!seen.gives_up(after(FULL_DISK_NO_PROGRESS_US, 6)), "the checkpoint has moved");
        full.count_undo_grant();
        assert!(!seen.gives_up(after(2 * FULL_DISK_NO_PROGRESS_US, 6)), "undo was admitted");
        (0..=FULL_DISK_ROUNDS).for_each(|_| full.count_round());
        assert!(!seen.gives_up(after(3 * FULL_DISK_NO_PROGRESS_US - 1, 6)));
        assert!(seen.gives_up(after(3 * FULL_DISK_NO_PROGRESS_US, 6)));
        full.count_undo_grant();
        assert!(seen.gives_up(after(FULL_DISK_WAIT_US, 7)), "with all progress, it has waited long");
    }

    #[test]
    fn a_spent_ballast_stops_operations() {
        let limits = AgeLimits { target: 0, soft: 100, hard: 200, capacity: 400 };
        let full = FullDisk::default();
        assert!(!full.holds_operations() && full.stop(&limits) == 200);
        full.set_ballast_spent(false, true);
        assert!(full.holds_operations() && full.stop(&limits) == stop_beside_waiting(&limits));
        full.set_ballast_spent(true, true);
        assert!(full.holds_operations() && full.stop(&limits) == 0);
        // The checkpoint is no progress meanwhile.
        let mut seen = full.progress(0, 5);
        (0..=FULL_DISK_ROUNDS).for_each(|_| full.count_round());
        assert!(seen.gives_up(full.progress(FULL_DISK_NO_PROGRESS_US, 6)));
    }
}
