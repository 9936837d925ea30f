//! What the threads of a run measured: one lane a thread, merged when someone looks.
//!
//! A lane's mutex is taken by its own thread and, once a second, by the progress line, so it is never contended for
//! longer than a copy of a histogram. A transaction belongs to the measured phase if it ended inside it.

use hdrhistogram::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Latencies are recorded in nanoseconds up to one hour; what takes longer counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

fn histogram() -> Histogram<u64> {
    // Three significant digits: every percentile is right to 0.1 %.
    #[allow(clippy::expect_used)]
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds that the crate allows")
}

/// The measured phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Its first moment.
    pub(crate) start: Instant,
    /// The moment after its last; none if the work itself ends it.
    pub(crate) end: Option<Instant>,
}

/// One transaction that was committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// When it began, or should have begun.
    pub(crate) began: Instant,
    /// When its commit returned.
    pub(crate) ended: Instant,
    /// How many times it was tried again.
    pub(crate) retries: u64,
    /// Table rows it changed.
    pub(crate) row_changes: u64,
}

#[derive(Debug)]
struct Lane {
    window: Option<Window>,
    /// Since the progress line last looked.
    recent: Histogram<u64>,
    /// In the window.
    total: Histogram<u64>,
    /// Commits in each second of the window.
    per_second: Vec<u64>,
    retries: u64,
    row_changes: u64,
    last_end: Option<Instant>,
}

/// The lanes of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    lanes: Vec<Mutex<Lane>>,
}

/// The measured phase in figures.
#[derive(Debug)]
pub(crate) struct Totals {
    /// Latency of every transaction, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// How many were committed.
    pub(crate) transactions: u64,
    /// Length of the phase.
    pub(crate) seconds: f64,
    /// Commits in each whole second.
    pub(crate) per_second: Vec<u64>,
    /// Tries beyond the first.
    pub(crate) retries: u64,
    /// Table rows changed.
    pub(crate) row_changes: u64,
}

impl Totals {
    /// A percentile of the latency in microseconds, to a tenth.
    pub(crate) fn latency_us(&self, percentile: f64) -> f64 {
        tenth_of_us(self.latency.value_at_percentile(percentile))
    }

    /// The longest latency in microseconds, to a tenth.
    pub(crate) fn latency_max_us(&self) -> f64 {
        tenth_of_us(self.latency.max())
    }
}

fn tenth_of_us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

impl Recorder {
    /// A recorder for `threads` threads; nothing counts before [`Recorder::open_window`].
    pub(crate) fn new(threads: u32) -> Recorder {
        let lane = || Lane {
            window: None,
            recent: histogram(),
            total: histogram(),
            per_second: Vec::new(),
            retries: 0,
            row_changes: 0,
            last_end: None,
        };
        Recorder { lanes: (0..threads).map(|_| Mutex::new(lane())).collect() }
    }

    fn lane(&self, thread: u32) -> MutexGuard<'_, Lane> {
        // A lane is whole at every moment; the panic of its thread is reported elsewhere.
        self.lanes[thread as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on transactions that end in `window` count.
    pub(crate) fn open_window(&self, window: Window) {
        for thread in 0..self.lanes.len() {
            self.lane(thread as u32).window = Some(window);
        }
    }

    /// Notes a committed transaction of `thread`.
    pub(crate) fn record(&self, thread: u32, done: Done) {
        let mut lane = self.lane(thread);
        let ns = done.ended.saturating_duration_since(done.began).as_nanos();
        let ns = u64::try_from(ns).unwrap_or(LONGEST_NS).clamp(1, LONGEST_NS);
        lane.recent.saturating_record(ns);
        let Some(window) = lane.window else { return };
        if done.ended < window.start || window.end.is_some_and(|end| done.ended >= end) {
            return;
        }
        let second = (done.ended - window.start).as_secs() as usize;
        if lane.per_second.len() <= second {
            lane.per_second.resize(second + 1, 0);
        }
        lane.per_second[second] += 1;
        lane.total.saturating_record(ns);
        lane.retries += done.retries;
        lane.row_changes += done.row_changes;
        lane.last_end = lane.last_end.max(Some(done.ended));
    }

    /// Latencies since the last call, for the progress line.
    pub(crate) fn take_recent(&self) -> Histogram<u64> {
        let mut all = histogram();
        for thread in 0..self.lanes.len() {
            let mut lane = self.lane(thread as u32);
            // Both have the same bounds, so adding cannot fail.
            let _ = all.add(&lane.recent);
            lane.recent.reset();
        }
        all
    }

    /// The measured phase. `until` is when it ended, if the clock did not end it at the window's end.
    pub(crate) fn totals(&self, window: Window, until: Option<Instant>) -> Totals {
        let (mut latency, mut per_second) = (histogram(), Vec::new());
        let (mut retries, mut row_changes, mut last_end) = (0, 0, None);
        for thread in 0..self.lanes.len() {
            let lane = self.lane(thread as u32);
            let _ = latency.add(&lane.total);
            if per_second.len() < lane.per_second.len() {
                per_second.resize(lane.per_second.len(), 0);
            }
            for (sum, n) in per_second.iter_mut().zip(&lane.per_second) {
                *sum += n;
            }
            retries += lane.retries;
            row_changes += lane.row_changes;
            last_end = last_end.max(lane.last_end);
        }
        let end = until.or(window.end).or(last_end).unwrap_or(window.start);
        let length = end.saturating_duration_since(window.start);
        // A last second that is not whole would look like a stall; seconds without commits at the end are real.
        per_second.resize(length.as_secs() as usize, 0);
        Totals {
            transactions: latency.len(),
            latency,
            seconds: seconds(length),
            per_second,
            retries,
            row_changes,
        }
    }
}

fn seconds(length: Duration) -> f64 {
    (length.as_secs_f64() * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: Instant, ms: u64) -> Instant {
        base + Duration::from_millis(ms)
    }

    fn done(base: Instant, began: u64, ended: u64) -> Done {
        Done { began: at(base, began), ended: at(base, ended), retries: 1, row_changes: 4 }
    }

    #[test]
    fn only_what_ends_in_the_window_counts() {
        let base = Instant::now();
        let recorder = Recorder::new(2);
        recorder.record(0, done(base, 0, 10));
        let window = Window { start: at(base, 1000), end: Some(at(base, 4000)) };
        recorder.open_window(window);
        recorder.record(0, done(base, 900, 999));
        recorder.record(0, done(base, 900, 1000));
        recorder.record(1, done(base, 1500, 1600));
        recorder.record(1, done(base, 3800, 3999));
        recorder.record(0, done(base, 3900, 4000));
        let totals = recorder.totals(window, None);
        assert_eq!(totals.transactions, 3);
        assert_eq!(totals.per_second, [2, 0, 1]);
        assert_eq!((totals.retries, totals.row_changes), (3, 12));
        assert!((totals.seconds - 3.0).abs() < 1e-9);
        assert!((totals.latency_max_us() - 199_000.0).abs() < 200.0, "{}", totals.latency_max_us());
        assert_eq!(recorder.take_recent().len(), 6, "the progress line sees every transaction");
        assert_eq!(recorder.take_recent().len(), 0);
    }

    #[test]
    fn a_partial_last_second_is_left_out_of_the_series() {
        let base = Instant::now();
        let recorder = Recorder::new(1);
        let window = Window { start: base, end: None };
        recorder.open_window(window);
        for ms in [100, 1100, 1200, 2300] {
            recorder.record(0, done(base, ms - 10, ms));
        }
        let totals = recorder.totals(window, None);
        assert_eq!(totals.per_second, [1, 2]);
        assert_eq!(totals.transactions, 4);
        assert!((totals.seconds - 2.3).abs() < 1e-9);
    }

    #[test]
    fn seconds_without_commits_at_the_end_stay_in_the_series() {
        let base = Instant::now();
        let recorder = Recorder::new(1);
        let window = Window { start: base, end: Some(at(base, 3000)) };
        recorder.open_window(window);
        recorder.record(0, done(base, 1, 2));
        assert_eq!(recorder.totals(window, None).per_second, [1, 0, 0]);
    }
}
