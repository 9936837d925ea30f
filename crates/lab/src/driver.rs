//! Runs a workload's sessions on threads: warm-up, then the measured phase, with retries and an
//! optional fixed rate.
//!
//! Closed loop: a thread begins its next transaction when the last one has ended. Open loop
//! (`--rate`): each transaction has an intended start that does not depend on the others. Latency
//! counts from the intended start, so a stall shows in every transaction that it delayed (no
//! coordinated omission).

use crate::figures::{Figures, Level, Reading, checkpoint_age, device_write_bytes, fsyncs};
use crate::measurements::{CommittedTxn, Measurements, Totals, Window};
use crate::progress::Progress;
use crate::workload::{Session, Workload};
use hdrhistogram::Histogram;
use millpond::{Db, Snapshot};
use output::failure::{Failure, Outcome};
use output::samples::{self, ColumnKind, Samples};
use output::stop;
use output::units::{show_micros, show_size};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the main thread samples the checkpoint age and checks for the end.
const POLL: Duration = Duration::from_millis(100);
/// The longest sleep of a thread that waits for its intended start. It must see the end of the run
/// in time.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How many threads.
    pub(crate) threads: u32,
    /// Time before the measured phase; 0 for a workload that ends by itself.
    pub(crate) warmup: Duration,
    /// Length of the measured phase; `None` if the workload ends by itself.
    pub(crate) seconds: Option<Duration>,
    /// Transactions a second of all threads together; `None` is as fast as possible.
    pub(crate) rate: Option<f64>,
    /// Keep the value of every metric at each second of the measured phase.
    pub(crate) sampled: bool,
}

/// The results of the measured phase.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What the threads measured.
    pub(crate) totals: Totals,
    /// What the engine and the operating system counted.
    pub(crate) figures: Figures,
    /// The checkpoint age during the phase.
    pub(crate) age: Level,
    /// Every metric at each second; empty unless requested.
    pub(crate) samples: Samples,
}

/// What the threads share.
struct Shared<'a> {
    measurements: &'a Measurements,
    rate: Option<f64>,
    go: Barrier,
    started: Mutex<Option<Instant>>,
    tickets: AtomicU64,
    stop: AtomicBool,
    running: AtomicU32,
    failure: Mutex<Option<Failure>>,
}

impl Shared<'_> {
    fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until the next transaction should begin at the fixed rate. Returns its intended start,
    /// or `None` at the end of the run.
    fn wait_for_start(&self, start: Instant) -> Option<Instant> {
        let Some(rate) = self.rate else { return Some(Instant::now()) };
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let intended = start + Duration::from_secs_f64(ticket as f64 / rate);
        loop {
            let wait = intended.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Some(intended);
            }
            if self.stopped() {
                return None;
            }
            std::thread::sleep(wait.min(MAX_SLEEP));
        }
    }

    fn run_session(&self, thread: u32, session: &mut dyn Session) -> Outcome {
        self.go.wait();
        let start = self.started.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now);
        while !self.stopped() && session.draw() {
            let Some(began) = self.wait_for_start(start) else { break };
            let mut retries = 0;
            let row_changes = loop {
                match session.attempt() {
                    Ok(changes) => break changes,
                    Err(error) if error.is_retryable() => {
                        if self.stopped() {
                            return Ok(());
                        }
                        retries += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            self.measurements
                .record(thread, CommittedTxn { began, ended: Instant::now(), retries, row_changes });
        }
        Ok(())
    }
}

/// Its drop counts a thread as ended and reports a panic.
struct ThreadGuard<'a, 'b>(&'a Shared<'b>);

impl Drop for ThreadGuard<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure::failed("a thread of the workload panicked"));
        }
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

/// Runs `workload` on the loaded database `db` and returns what was measured.
pub(crate) fn drive(
    db: &Db,
    workload: &dyn Workload,
    pace: Pace,
    progress: &mut Progress,
) -> Outcome<Measured> {
    let measurements = Measurements::new(pace.threads);
    let mut sessions = Vec::new();
    for thread in 0..pace.threads {
        sessions.push(workload.session(db, thread)?);
    }
    let shared = Shared {
        measurements: &measurements,
        rate: pace.rate,
        go: Barrier::new(pace.threads as usize + 1),
        started: Mutex::new(None),
        tickets: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        running: AtomicU32::new(pace.threads),
        failure: Mutex::new(None),
    };
    let measured = std::thread::scope(|scope| {
        for (thread, mut session) in (0..).zip(sessions) {
            let shared = &shared;
            scope.spawn(move || {
                let _guard = ThreadGuard(shared);
                if let Err(failure) = shared.run_session(thread, session.as_mut()) {
                    shared.fail(failure);
                }
            });
        }
        let measured = Monitor { db, shared: &shared, pace, progress, samples: Samples::new() }.run();
        shared.stop.store(true, Ordering::Relaxed);
        measured
    });
    if let Some(failure) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    stop::check()?;
    let Observation { window, before, after, age, samples } = measured;
    let figures = Figures::between(&before, &after);
    Ok(Measured { totals: measurements.totals(window), figures, age, samples })
}

/// What the main thread observed of the measured phase.
struct Observation {
    window: Window,
    before: Reading,
    after: Reading,
    age: Level,
    samples: Samples,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measure,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::WarmUp => "warm-up",
            Phase::Measure => "measure",
        }
    }
}

/// The work of the main thread: it begins and ends the measured phase and shows the progress.
struct Monitor<'a, 'b> {
    db: &'a Db,
    shared: &'a Shared<'b>,
    pace: Pace,
    progress: &'a mut Progress,
    samples: Samples,
}

impl Monitor<'_, '_> {
    fn run(mut self) -> Observation {
        let mut before = Reading::now(self.db);
        let start = Instant::now();
        *self.shared.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        let mut window = self.window_from(start);
        if self.pace.warmup.is_zero() {
            self.shared.measurements.open_window(window);
        }
        self.shared.go.wait();
        let mut age = Level::default();
        if !self.pace.warmup.is_zero() {
            self.watch(Phase::WarmUp, start, Some(start + self.pace.warmup), &mut Level::default());
            before = Reading::now(self.db);
            window = self.window_from(Instant::now());
            self.shared.measurements.open_window(window);
        }
        self.sample(0.0, &self.db.metrics(), None);
        self.watch(Phase::Measure, window.start, window.end, &mut age);
        let after = Reading::now(self.db);
        age.add(checkpoint_age(&self.db.metrics()));
        self.progress.finish();
        Observation { window, before, after, age, samples: self.samples }
    }

    fn window_from(&self, start: Instant) -> Window {
        Window { start, end: self.pace.seconds.map(|length| start + length) }
    }

    /// Samples and shows progress until `end`, until no thread runs any more, or until something
    /// stops the run. A progress line and a sample are due at each whole second since `start`. A
    /// missed one is left out.
    fn watch(&mut self, phase: Phase, start: Instant, end: Option<Instant>, age: &mut Level) {
        let mut shown = Duration::ZERO;
        let mut syncs = fsyncs(&self.db.metrics());
        self.shared.measurements.take_recent();
        loop {
            let now = Instant::now();
            let over = end.is_some_and(|end| now >= end)
                || self.shared.running.load(Ordering::Acquire) == 0
                || self.shared.stopped()
                || stop::asked();
            let snapshot = self.db.metrics();
            let passed = now.duration_since(start);
            let since = (passed - shown).as_secs_f64();
            let due = passed.as_secs() > shown.as_secs();
            // The last part of a second gets a sample only if it is long or is all there is.
            let last = over && (since >= 0.5 || shown.is_zero());
            if due || last {
                let recent = self.shared.measurements.take_recent();
                if phase == Phase::Measure {
                    self.sample(passed.as_secs_f64(), &snapshot, Some(&recent));
                }
                if due {
                    self.progress.show(&format!(
                        "{} {:>4.0} s   {:>8.0} tps   p99 {:>8}   checkpoint age {:>8}   {:>6.0} fsyncs/s",
                        phase.name(),
                        passed.as_secs_f64(),
                        recent.len() as f64 / since,
                        show_micros(recent.value_at_percentile(99.0) as f64 / 1000.0),
                        show_size(checkpoint_age(&snapshot) as f64),
                        fsyncs(&snapshot).saturating_sub(syncs) as f64 / since,
                    ));
                }
                (shown, syncs) = (passed, fsyncs(&snapshot));
            }
            if over {
                return;
            }
            age.add(checkpoint_age(&snapshot));
            // A workload that ends by itself may end soon. The time of its end comes from the
            // threads.
            let nap = if end.is_none() { POLL / 20 } else { POLL };
            let next = start + Duration::from_secs(shown.as_secs() + 1);
            let left = end.map_or(next, |end| end.min(next)).saturating_duration_since(now);
            std::thread::sleep(nap.min(left));
        }
    }

    /// Keeps the value of every metric, if requested. `recent` are the latencies since the last
    /// sample.
    fn sample(&mut self, seconds: f64, snapshot: &Snapshot, recent: Option<&Histogram<u64>>) {
        if !self.pace.sampled {
            return;
        }
        let mut values = samples::of_engine(snapshot);
        let counter =
            |name: &str, unit, value: u64| (name.to_owned(), unit, ColumnKind::Counter, value as f64);
        let so_far = self.samples.last("run_transactions").unwrap_or(0.0) as u64;
        values.push(counter("run_transactions", "count", so_far + recent.map_or(0, Histogram::len)));
        values.extend(device_write_bytes().map(|bytes| counter("device_write_bytes", "bytes", bytes)));
        for (name, percentile) in samples::LATENCIES {
            if let Some(recent) = recent.filter(|recent| !recent.is_empty()) {
                let us = recent.value_at_percentile(*percentile) as f64 / 1000.0;
                values.push(((*name).to_owned(), "µs", ColumnKind::Gauge, us));
            }
        }
        self.samples.push(seconds, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(measurements: &Measurements, rate: Option<f64>) -> Shared<'_> {
        Shared {
            measurements,
            rate,
            go: Barrier::new(1),
            started: Mutex::new(None),
            tickets: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            running: AtomicU32::new(1),
            failure: Mutex::new(None),
        }
    }

    #[test]
    fn at_a_fixed_rate_starts_do_not_depend_on_other_transactions() {
        let measurements = Measurements::new(1);
        let shared = shared(&measurements, Some(1000.0));
        // The start was long ago: the run is late, and every transaction starts at once, with its
        // intended time.
        let start = Instant::now() - Duration::from_secs(5);
        assert_eq!(shared.wait_for_start(start), Some(start));
        assert_eq!(shared.wait_for_start(start), Some(start + Duration::from_millis(1)));
        assert_eq!(shared.wait_for_start(start), Some(start + Duration::from_millis(2)));
    }

    #[test]
    fn a_thread_that_waits_for_its_start_sees_the_end() {
        let measurements = Measurements::new(1);
        let shared = shared(&measurements, Some(0.001));
        shared.stop.store(true, Ordering::Relaxed);
        let start = Instant::now();
        assert_eq!(shared.wait_for_start(start), Some(start));
        assert_eq!(shared.wait_for_start(start), None);
    }
}
