//! The redo capacity: how many segment files the log may have (Lo8, Promise 3). The rules are
//! `pace::capacity` and `pace::segments`; [`super::log_size`] makes and removes the files.

use crate::log::segment::Segments;
use base::Lsn;
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pace::capacity::{self, CapacityChange};
use pace::segments;
use std::time::Duration;

/// The size that the redo log may have.
#[derive(Debug)]
pub(super) struct Capacity {
    /// The configured size: bytes of log blocks that the segments may hold.
    configured: AtomicU64,
    /// The size follows from this recovery target; `None` if the user has set the size.
    target: Mutex<Option<Duration>>,
    /// Whether there is a target.
    follows_target: AtomicBool,
    /// The greatest useful length of the log, bytes ([`pace::helpful_log`]). It counts while the
    /// size follows from a target.
    helpful: AtomicU64,
    /// Where the log of the last run ended, and how much redo it held. Until the checkpoint has
    /// passed that end, the log may be this much longer, so that writers do not wait because of
    /// recovered redo (Re4).
    recovered: (Lsn, u64),
}

impl Capacity {
    pub(super) fn new(bytes: u64, target: Option<Duration>, recovered: (Lsn, u64)) -> Capacity {
        Capacity {
            configured: AtomicU64::new(bytes),
            target: Mutex::new(target),
            follows_target: AtomicBool::new(target.is_some()),
            helpful: AtomicU64::new(u64::MAX),
            recovered,
        }
    }

    /// Sets another size. Files are made and removed as needed.
    pub(super) fn set(&self, bytes: u64) {
        self.configured.store(bytes, Ordering::Relaxed);
    }

    /// Sets or removes the target. The caller sets the size that follows.
    pub(super) fn set_target(&self, target: Option<Duration>) {
        self.follows_target.store(target.is_some(), Ordering::Relaxed);
        *self.target.lock() = target;
    }

    /// Returns the target; `None` if the user has set the size.
    pub(super) fn target(&self) -> Option<Duration> {
        *self.target.lock()
    }

    /// Returns the configured size: bytes of log blocks that the segments may hold.
    pub(super) fn configured(&self) -> u64 {
        self.configured.load(Ordering::Relaxed)
    }

    /// Sets the greatest useful length of the log, bytes.
    pub(super) fn set_helpful(&self, bytes: u64) {
        self.helpful.store(bytes, Ordering::Relaxed);
    }

    /// Whether the log holds redo of the last run, for a checkpoint at `checkpoint`.
    pub(super) fn has_recovered(&self, checkpoint: Lsn) -> bool {
        checkpoint < self.recovered.0
    }

    pub(super) fn max_files(&self, segments: &Segments, checkpoint: Lsn) -> u64 {
        let follows = self.follows_target.load(Ordering::Relaxed);
        let helpful = if follows { self.helpful.load(Ordering::Relaxed) } else { u64::MAX };
        let allowed = segments::files(self.configured().min(helpful), segments.block_bytes());
        let redo = if self.has_recovered(checkpoint) { self.recovered.1 } else { 0 };
        allowed + redo.div_ceil(segments.shape().payload_bytes())
    }
}

/// Returns the redo capacity with which recovery takes no longer than `target`.
pub(super) fn capacity_by_target(target: Duration, replay_rate: u64, segment_bytes: u64) -> u64 {
    let target_us = u64::try_from(target.as_micros()).unwrap_or(u64::MAX);
    capacity::wanted(target_us, replay_rate, segment_bytes)
}

/// Returns the redo capacity with which recovery takes no longer than `target`, or `have` if the
/// difference is small.
pub(super) fn capacity_near(have: u64, target: Duration, replay_rate: u64, segment_bytes: u64) -> u64 {
    let wanted = capacity_by_target(target, replay_rate, segment_bytes);
    match capacity::change(have, wanted, segment_bytes) {
        CapacityChange::Keep => have,
        // Files are made as they are needed, so the whole growth is allowed at once.
        CapacityChange::Grow(_) | CapacityChange::Shrink(_) => wanted,
    }
}
