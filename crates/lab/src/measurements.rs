//! What the threads of a run measured: one record for each thread, merged when the totals are read.
//!
//! Only its own thread and, once a second, the progress line take the mutex of a record, so a wait
//! is never longer than the copy of a histogram. A transaction belongs to the measured phase if it
//! ended inside it.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Latencies are recorded in nanoseconds, up to one hour. A longer one counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Returns an empty record of times in nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    // Three significant digits: the error of a percentile is at most 0.1 %.
    #[allow(clippy::expect_used)]
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds that the crate allows")
}

/// The measured phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Its start.
    pub(crate) start: Instant,
    /// Its exclusive end; `None` if the workload ends by itself.
    pub(crate) end: Option<Instant>,
}

impl Window {
    fn holds(&self, time: Instant) -> bool {
        time >= self.start && self.end.is_none_or(|end| time < end)
    }
}

/// A transaction that is done: it has committed, or has rolled back as it had to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoneTxn {
    /// When it began, or at a fixed rate its intended start.
    pub(crate) began: Instant,
    /// When its commit returned.
    pub(crate) ended: Instant,
    /// How many times it was retried.
    pub(crate) retries: u64,
    /// Table rows it changed.
    pub(crate) row_changes: u64,
    /// Which transaction it was, if the workload has several.
    pub(crate) kind: Option<&'static str>,
    /// False if it has rolled back.
    pub(crate) committed: bool,
}

#[derive(Debug)]
struct ThreadRecord {
    window: Option<Window>,
    /// Latencies since the last progress line.
    recent: Histogram<u64>,
    /// Latencies in the window.
    total: Histogram<u64>,
    /// Commits in each second of the window.
    per_second: Vec<u64>,
    retries: u64,
    row_changes: u64,
    /// Errors in the window that made a retry, by kind.
    errors: BTreeMap<&'static str, u64>,
    last_end: Option<Instant>,
}

/// The records of all threads of a run.
#[derive(Debug)]
pub(crate) struct Measurements {
    threads: Vec<Mutex<ThreadRecord>>,
    /// By transaction, of workloads that have several; all threads share it.
    kinds: Mutex<BTreeMap<&'static str, KindTotals>>,
}

/// The totals of one transaction of a workload that has several.
#[derive(Clone, Debug)]
pub(crate) struct KindTotals {
    /// Latency, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// How many have rolled back, as they had to.
    pub(crate) rolled_back: u64,
    /// How often one was retried.
    pub(crate) retries: u64,
}

/// The totals of the measured phase.
#[derive(Debug)]
pub(crate) struct Totals {
    /// Latency of every transaction, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// How many transactions are done.
    pub(crate) transactions: u64,
    /// Length of the phase in seconds.
    pub(crate) seconds: f64,
    /// Commits in each whole second.
    pub(crate) per_second: Vec<u64>,
    /// How often a transaction was retried.
    pub(crate) retries: u64,
    /// Table rows changed.
    pub(crate) row_changes: u64,
    /// Errors that made a retry, by kind; also those of transactions that never committed.
    pub(crate) errors: BTreeMap<&'static str, u64>,
    /// By transaction, of workloads that have several.
    pub(crate) kinds: BTreeMap<&'static str, KindTotals>,
}

impl Totals {
    /// Returns a percentile of the latency in microseconds, rounded to a tenth.
    pub(crate) fn latency_us(&self, percentile: f64) -> f64 {
        tenth_of_us(self.latency.value_at_percentile(percentile))
    }

    /// Returns the longest latency in microseconds, rounded to a tenth.
    pub(crate) fn latency_max_us(&self) -> f64 {
        tenth_of_us(self.latency.max())
    }
}

/// Returns a time in microseconds, rounded to a tenth.
pub(crate) fn tenth_of_us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

impl Measurements {
    /// Makes the records for `threads` threads. Nothing counts before
    /// [`Measurements::open_window`].
    pub(crate) fn new(threads: u32) -> Measurements {
        let thread_record = || ThreadRecord {
            window: None,
            recent: histogram(),
            total: histogram(),
            per_second: Vec::new(),
            retries: 0,
            row_changes: 0,
            errors: BTreeMap::new(),
            last_end: None,
        };
        Measurements {
            threads: (0..threads).map(|_| Mutex::new(thread_record())).collect(),
            kinds: Mutex::new(BTreeMap::new()),
        }
    }

    fn thread(&self, thread: u32) -> MutexGuard<'_, ThreadRecord> {
        // A record is always consistent. The panic of its thread is reported elsewhere.
        self.threads[thread as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts transactions that end in `window` from now on.
    pub(crate) fn open_window(&self, window: Window) {
        for thread in 0..self.threads.len() {
            self.thread(thread as u32).window = Some(window);
        }
    }

    /// Records a done transaction of `thread`.
    pub(crate) fn record(&self, thread: u32, done: DoneTxn) {
        let mut own = self.thread(thread);
        let ns = done.ended.saturating_duration_since(done.began).as_nanos();
        let ns = u64::try_from(ns).unwrap_or(LONGEST_NS).clamp(1, LONGEST_NS);
        own.recent.saturating_record(ns);
        let Some(window) = own.window.filter(|window| window.holds(done.ended)) else { return };
        let second = (done.ended - window.start).as_secs() as usize;
        if own.per_second.len() <= second {
            own.per_second.resize(second + 1, 0);
        }
        own.per_second[second] += 1;
        own.total.saturating_record(ns);
        own.retries += done.retries;
        own.row_changes += done.row_changes;
        own.last_end = own.last_end.max(Some(done.ended));
        drop(own);
        if let Some(kind) = done.kind {
            self.record_kind(kind, ns, done);
        }
    }

    fn record_kind(&self, kind: &'static str, ns: u64, done: DoneTxn) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = || KindTotals { latency: histogram(), rolled_back: 0, retries: 0 };
        let own = kinds.entry(kind).or_insert_with(empty);
        own.latency.saturating_record(ns);
        own.rolled_back += u64::from(!done.committed);
        own.retries += done.retries;
    }

    /// Records an error at `time` after which `thread` tries the same transaction again.
    pub(crate) fn record_error(&self, thread: u32, kind: &'static str, time: Instant) {
        let mut own = self.thread(thread);
        if own.window.is_some_and(|window| window.holds(time)) {
            *own.errors.entry(kind).or_default() += 1;
        }
    }

    /// Returns the latencies since the last call, for the progress line.
    pub(crate) fn take_recent(&self) -> Histogram<u64> {
        let mut all = histogram();
        for thread in 0..self.threads.len() {
            let mut own = self.thread(thread as u32);
            // Both have the same bounds, so this cannot fail.
            let _ = all.add(&own.recent);
            own.recent.reset();
        }
        all
    }

    /// Returns the totals of the measured phase. Without an end of the window, the last commit ends
    /// it.
    pub(crate) fn totals(&self, window: Window) -> Totals {
        let (mut latency, mut per_second) = (histogram(), Vec::new());
        let (mut retries, mut row_changes, mut last_end) = (0, 0, None);
        let mut errors = BTreeMap::new();
        for thread in 0..self.threads.len() {
            let own = self.thread(thread as u32);
            let _ = latency.add(&own.total);
            if per_second.len() < own.per_second.len() {
                per_second.resize(own.per_second.len(), 0);
            }
            for (sum, n) in per_second.iter_mut().zip(&own.per_second) {
                *sum += n;
            }
            retries += own.retries;
            row_changes += own.row_changes;
            own.errors.iter().for_each(|(kind, n)| *errors.entry(*kind).or_default() += n);
            last_end = last_end.max(own.last_end);
        }
        let end = window.end.or(last_end).unwrap_or(window.start);
        let length = end.saturating_duration_since(window.start);
        // Drops a partial last second, which would look like a stall, and keeps seconds without
        // commits at the end.
        per_second.resize(length.as_secs() as usize, 0);
        Totals {
            transactions: latency.len(),
            latency,
            seconds: seconds(length),
            per_second,
            retries,
            row_changes,
            errors,
            kinds: self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone(),
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

    fn done(base: Instant, began: u64, ended: u64) -> DoneTxn {
        DoneTxn {
            began: at(base, began),
            ended: at(base, ended),
            retries: 1,
            row_changes: 4,
            kind: None,
            committed: true,
        }
    }

    #[test]
    fn only_transactions_that_end_in_the_window_count() {
        let base = Instant::now();
        let measurements = Measurements::new(2);
        measurements.record(0, done(base, 0, 10));
        let window = Window { start: at(base, 1000), end: Some(at(base, 4000)) };
        measurements.open_window(window);
        measurements.record(0, done(base, 900, 999));
        measurements.record(0, done(base, 900, 1000));
        measurements.record(1, done(base, 1500, 1600));
        measurements.record(1, done(base, 3800, 3999));
        measurements.record(0, done(base, 3900, 4000));
        for ms in [999, 1000, 3999, 4000] {
            measurements.record_error(1, "deadlock", at(base, ms));
        }
        let totals = measurements.totals(window);
        assert_eq!(totals.transactions, 3);
        assert_eq!(totals.per_second, [2, 0, 1]);
        assert_eq!((totals.retries, totals.row_changes), (3, 12));
        assert_eq!(totals.errors, BTreeMap::from([("deadlock", 2)]));
        assert!((totals.seconds - 3.0).abs() < 1e-9);
        assert!((totals.latency_max_us() - 199_000.0).abs() < 200.0, "{}", totals.latency_max_us());
        assert_eq!(measurements.take_recent().len(), 6, "the progress line sees every transaction");
        assert_eq!(measurements.take_recent().len(), 0);
    }

    #[test]
    fn each_transaction_of_a_workload_counts_by_itself() {
        let base = Instant::now();
        let measurements = Measurements::new(2);
        let window = Window { start: at(base, 1000), end: None };
        measurements.open_window(window);
        for (thread, ended, committed) in [(0, 1500, true), (1, 2000, false), (0, 900, true)] {
            let done = DoneTxn { kind: Some("pay"), committed, ..done(base, 800, ended) };
            measurements.record(thread, done);
        }
        let totals = measurements.totals(window);
        let pay = &totals.kinds["pay"];
        assert_eq!((pay.latency.len(), pay.rolled_back, pay.retries), (2, 1, 2));
    }

    #[test]
    fn a_partial_last_second_is_left_out_of_the_series() {
        let base = Instant::now();
        let measurements = Measurements::new(1);
        let window = Window { start: base, end: None };
        measurements.open_window(window);
        for ms in [100, 1100, 1200, 2300] {
            measurements.record(0, done(base, ms - 10, ms));
        }
        let totals = measurements.totals(window);
        assert_eq!(totals.per_second, [1, 2]);
        assert_eq!(totals.transactions, 4);
        assert!((totals.seconds - 2.3).abs() < 1e-9);
    }

    #[test]
    fn seconds_without_commits_at_the_end_stay_in_the_series() {
        let base = Instant::now();
        let measurements = Measurements::new(1);
        let window = Window { start: base, end: Some(at(base, 3000)) };
        measurements.open_window(window);
        measurements.record(0, done(base, 1, 2));
        assert_eq!(measurements.totals(window).per_second, [1, 0, 0]);
    }
}
