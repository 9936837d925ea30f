//! [`CurrentLimits`]: the room in the log as the cleaner has set it last.

use crate::log::LAST_WRITE;
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use pace::admission::rate_after_silence;
use pace::age_limits::AgeLimits;
use pace::constants::ADMISSION_SILENCE_US;

/// The checkpoint LSN and the ages above it at which operations are delayed and stopped. Read
/// without a mutex: a reader that sees old limits beside new ones is one that came a moment
/// earlier.
#[derive(Debug)]
pub(super) struct CurrentLimits {
    /// An operation whose redo ends below this LSN is admitted at once, and does not wake the
    /// cleaner. It is the checkpoint LSN plus the soft limit, or plus the age above which the log
    /// needs more files.
    free_below: AtomicU64,
    checkpoint: AtomicU64,
    soft: AtomicU64,
    hard: AtomicU64,
    capacity: AtomicU64,
    clean_bytes_per_s: AtomicU64,
    /// When they were set last.
    set_us: AtomicU64,
}

impl CurrentLimits {
    /// Limits that admit every operation at once.
    pub(super) fn new() -> CurrentLimits {
        CurrentLimits {
            free_below: AtomicU64::new(u64::MAX),
            checkpoint: AtomicU64::new(0),
            soft: AtomicU64::new(u64::MAX),
            hard: AtomicU64::new(u64::MAX),
            capacity: AtomicU64::new(u64::MAX),
            clean_bytes_per_s: AtomicU64::new(0),
            set_us: AtomicU64::new(0),
        }
    }

    /// Whether redo that ends at `end` is admitted without a closer look.
    #[inline]
    pub(super) fn is_free(&self, end: u64) -> bool {
        end <= self.free_below.load(Ordering::Relaxed)
    }

    /// Nothing is admitted without a closer look, until the limits are set.
    pub(super) fn look_closer(&self) {
        self.free_below.store(0, Ordering::Relaxed);
    }

    pub(super) fn checkpoint(&self) -> u64 {
        self.checkpoint.load(Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> AgeLimits {
        let limit = |limit: &AtomicU64| limit.load(Ordering::Relaxed);
        AgeLimits {
            target: 0,
            soft: limit(&self.soft),
            hard: limit(&self.hard),
            capacity: limit(&self.capacity),
        }
    }

    /// Returns the LSN beyond which the log does not go.
    pub(super) fn end_of_room(&self) -> Lsn {
        Lsn(self.checkpoint().saturating_add(self.capacity.load(Ordering::Relaxed)))
    }

    /// Returns how fast cleaning lets the checkpoint advance, bytes a second.
    pub(super) fn clean_rate(&self, now_us: u64) -> f64 {
        rate_after_silence(self.clean_bytes_per_s.load(Ordering::Relaxed) as f64, self.silence_us(now_us))
    }

    pub(super) fn set_clean_rate(&self, bytes_per_s: f64) {
        self.clean_bytes_per_s.store(bytes_per_s as u64, Ordering::Relaxed);
    }

    /// Whether they were not set for a while.
    pub(super) fn is_silent(&self, now_us: u64) -> bool {
        self.silence_us(now_us) > ADMISSION_SILENCE_US
    }

    fn silence_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.set_us.load(Ordering::Relaxed))
    }

    /// Sets them. Below `grows_above` the log needs no more files; with `may_be_free` an operation
    /// below the soft limit and that age is admitted at once. REQUIRES: one thread at a time.
    pub(super) fn set(
        &self,
        now_us: u64,
        checkpoint: u64,
        limits: &AgeLimits,
        grows_above: Option<u64>,
        may_be_free: bool,
    ) {
        self.set_us.store(now_us, Ordering::Relaxed);
        self.checkpoint.store(checkpoint, Ordering::Relaxed);
        self.soft.store(limits.soft, Ordering::Relaxed);
        self.hard.store(limits.hard, Ordering::Relaxed);
        self.capacity.store(limits.capacity, Ordering::Relaxed);
        let free = grows_above.map_or(limits.soft, |age| age.min(limits.soft));
        let below = if may_be_free { (checkpoint + free).min(LAST_WRITE.0) } else { 0 };
        self.free_below.store(below, Ordering::Relaxed);
    }
}
