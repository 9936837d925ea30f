//! Whether the disk has space for what the next checkpoint needs, and telling admission (INV-27).

use super::admission::Admission;
use crate::ballast::Ballast;
use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Poison, Result};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use base::sync::atomic::{AtomicU64, Ordering};
use metrics::M;
use pace::constants::FULL_DISK_AGAIN_US;
use std::sync::Arc;

/// The ballast, and the undo files whose end gives space back.
pub(super) struct DiskSpace {
    /// Disk space that a checkpoint may use when the disk is full.
    pub(super) ballast: Arc<Ballast>,
    checkpointer: Arc<Checkpointer>,
    admission: Arc<Admission>,
    store: Arc<Store>,
    poison: Arc<Poison>,
    /// No file is made longer before this time, because the disk was full.
    full_until_us: AtomicU64,
    /// The number of roots that had been written when there was no space for the ballast.
    ballast_failed_at: AtomicU64,
}

impl DiskSpace {
    pub(super) fn new(
        ballast: Arc<Ballast>,
        checkpointer: &Arc<Checkpointer>,
        admission: &Arc<Admission>,
        store: &Arc<Store>,
        poison: &Arc<Poison>,
    ) -> DiskSpace {
        DiskSpace {
            ballast,
            checkpointer: Arc::clone(checkpointer),
            admission: Arc::clone(admission),
            store: Arc::clone(store),
            poison: Arc::clone(poison),
            full_until_us: AtomicU64::new(0),
            ballast_failed_at: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether there was no space a short time ago.
    pub(super) fn was_full(&self, now_us: u64) -> bool {
        now_us < self.full_until_us.load(Ordering::Relaxed)
    }

    /// Remembers that there is no space now.
    pub(super) fn note_full(&self, now_us: u64) {
        self.full_until_us.store(now_us + FULL_DISK_AGAIN_US, Ordering::Relaxed);
    }

    /// Lets the log grow at once.
    pub(super) fn forget_full(&self) {
        self.full_until_us.store(0, Ordering::Relaxed);
    }

    /// Takes the ballast again after it was spent while the disk was full.
    pub(super) fn refill(&self, now_us: u64) -> Result {
        // While writers wait for the ballast, its space comes from files that are removed with a
        // root, so it is tried after each root.
        let at = self.store.metrics.get(M::Checkpoints);
        let tried = at == self.ballast_failed_at.load(Ordering::Relaxed);
        if self.was_full(now_us) && (tried || !self.is_ballast_spent()) {
            return Ok(());
        }
        match self.ballast.hold() {
            Err(error) if error.may_pass() => {
                self.ballast_failed_at.store(at, Ordering::Relaxed);
                self.note_full(now_us);
                Ok(())
            }
            held => held.map_err(|error| self.poison.set(error)),
        }
    }

    /// Returns whether the ballast is spent (INV-27) while there are undo files whose end gives its
    /// space back. False if that end itself waits for space that others give back.
    pub(super) fn is_ballast_spent(&self) -> bool {
        // While the ballast is held, no thread waits for a writer of the undo files.
        if self.ballast.is_held() || planted(Bug::BallastRunDown) {
            return false;
        }
        let files = self.checkpointer.undo_files();
        files.any() && !files.waits
    }

    /// Returns whether the disk has space that hardening does not need: the ballast is held, or no
    /// undo file is left whose end could be needed to hold it again.
    pub(super) fn has_spare(&self) -> bool {
        self.ballast.is_held() || !self.checkpointer.undo_files().any()
    }

    /// Tells admission whether the ballast is spent, and returns it.
    pub(super) fn report(&self) -> bool {
        let spent = self.is_ballast_spent();
        let waits = !spent && !self.has_spare() && !planted(Bug::BallastRunDown);
        self.admission.set_ballast_spent(spent, waits);
        spent
    }
}
