//! [`FlushDeadlines`]: by when a flush must have made durable what commits did not wait for, and
//! the request for a flush at once.

use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use metrics::SyncReason;
use vfs::Clock;

/// No deadline.
pub(super) const NEVER: u64 = u64::MAX;

/// The flush deadlines of commits that did not wait, microseconds of the clock; and the request for
/// a flush at once.
#[derive(Debug)]
pub(super) struct FlushDeadlines {
    /// The earliest deadline that no flush has taken.
    pending_us: AtomicU64,
    /// The earliest deadline that a flush in flight has taken.
    in_flight_us: AtomicU64,
    /// A caller wants a flush now and does not wait for it: the number of its reason plus one, or
    /// 0.
    request: AtomicU32,
}

impl Default for FlushDeadlines {
    fn default() -> Self {
        FlushDeadlines {
            pending_us: AtomicU64::new(NEVER),
            in_flight_us: AtomicU64::new(NEVER),
            request: AtomicU32::new(0),
        }
    }
}

impl FlushDeadlines {
    /// Makes `at` the pending deadline if it is earlier. Returns whether it was.
    pub(super) fn lower_to(&self, at: u64) -> bool {
        self.pending_us.load(Ordering::SeqCst) > at && self.pending_us.fetch_min(at, Ordering::SeqCst) > at
    }

    /// Requests a flush at once. Returns whether there was no request before.
    pub(super) fn request_now(&self, why: SyncReason) -> bool {
        self.request.load(Ordering::SeqCst) == 0 && self.request.swap(why as u32 + 1, Ordering::SeqCst) == 0
    }

    /// Takes the pending deadline and the request for a flush. Commits that rely on the deadline
    /// have reserved before, so the reservation point that the flush reads afterwards covers them.
    ///
    /// Until the next [`FlushDeadlines::set_in_flight`] the deadline counts as in flight, so at no
    /// time is it missing from both words.
    pub(super) fn take(&self) -> TakenDeadline {
        let request = self.request.swap(0, Ordering::SeqCst);
        self.in_flight_us.fetch_min(self.pending_us.load(Ordering::SeqCst), Ordering::SeqCst);
        TakenDeadline { deadline_us: self.pending_us.swap(NEVER, Ordering::SeqCst), request }
    }

    /// Puts back what was taken for a flush that did not start.
    pub(super) fn put_back(&self, taken: TakenDeadline) {
        self.pending_us.fetch_min(taken.deadline_us, Ordering::SeqCst);
        if taken.request != 0 {
            let _ = self.request.compare_exchange(0, taken.request, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Stores the earliest of the deadlines that the flushes in flight have taken. Called after
    /// each change. REQUIRES: the caller holds the mutex of the log.
    pub(super) fn set_in_flight(&self, deadlines: impl Iterator<Item = u64>) {
        self.in_flight_us.store(deadlines.min().unwrap_or(NEVER), Ordering::SeqCst);
    }

    /// Returns the reason of a request for a flush at once that no flush has taken.
    pub(super) fn requested(&self) -> Option<SyncReason> {
        let index = self.request.load(Ordering::SeqCst).checked_sub(1)?;
        Some(SyncReason::ALL[index as usize])
    }

    /// Returns the microseconds until a flush that takes `usual_us` must start to meet the pending
    /// deadline: 0 if it must start now, `None` if no deadline is pending.
    pub(super) fn due_in(&self, clock: &dyn Clock, usual_us: u64) -> Option<u64> {
        let at = self.pending_us.load(Ordering::SeqCst);
        (at != NEVER).then(|| at.saturating_sub(2 * usual_us).saturating_sub(clock.now_us()))
    }

    /// Whether a deadline has passed and its commits are not durable.
    pub(super) fn missed(&self, now_us: u64) -> bool {
        self.pending_us.load(Ordering::SeqCst).min(self.in_flight_us.load(Ordering::SeqCst)) < now_us
    }
}

/// What a flush has taken from [`FlushDeadlines`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenDeadline {
    /// The deadline, microseconds of the clock.
    pub(super) deadline_us: u64,
    /// The request for a flush at once, as [`FlushDeadlines`] holds it.
    request: u32,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A clock that moves only when the test moves it.
    #[derive(Debug, Default)]
    pub(in crate::log) struct StillClock(pub(in crate::log) AtomicU64);

    impl Clock for StillClock {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
        fn unix_seconds(&self) -> u64 {
            0
        }
        fn random_u64(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_deadline_moves_from_pending_to_in_flight_and_ends_with_the_flush() {
        let deadlines = FlushDeadlines::default();
        let clock = StillClock::default();
        assert_eq!(deadlines.due_in(&clock, 90), None);
        assert!(deadlines.lower_to(5000));
        assert!(!deadlines.lower_to(6000), "an earlier one covers it");
        assert!(deadlines.lower_to(4000));
        assert_eq!(deadlines.due_in(&clock, 500), Some(3000), "two flushes before it ends");
        assert!(!deadlines.missed(4000) && deadlines.missed(4001));
        let taken = deadlines.take().deadline_us;
        assert_eq!(taken, 4000);
        assert_eq!(deadlines.due_in(&clock, 0), None);
        assert!(deadlines.missed(4001), "as long as the flush is in flight");
        deadlines.set_in_flight([9000, taken].into_iter());
        assert!(deadlines.missed(4001));
        deadlines.set_in_flight([9000].into_iter());
        assert!(!deadlines.missed(4001));
        assert!(deadlines.request_now(SyncReason::Bounded) && !deadlines.request_now(SyncReason::Commit));
        let taken = deadlines.take();
        assert_eq!(deadlines.requested(), None);
        deadlines.put_back(taken);
        assert_eq!(deadlines.requested(), Some(SyncReason::Bounded), "the first request gives the reason");
        assert_eq!(deadlines.due_in(&clock, 0), None, "no deadline was set");
    }
}
