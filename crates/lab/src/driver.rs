//! Runs a workload's sessions on threads: warm-up, then the measured phase, with retries and an
//! optional rate.
//!
//! Closed loop: a thread begins its next transaction when the last one has ended. Open loop
//! (`--rate`): each transaction has an intended start that does not depend on how long others took
//! ([`Arrivals`]). Latency counts from the intended start, so a stall shows in every transaction
//! that it delayed (no coordinated omission).

use crate::arrivals::{Arrivals, Burst};
use crate::figures::{Figures, Level};
use crate::measurements::{DoneTxn, Measurements, Totals, Window};
use crate::observer::{DbObserver, Observer};
use crate::progress::Progress;
use crate::workload::{Session, Workload};
use hdrhistogram::Histogram;
use millpond::Db;
use output::failure::{Failure, Outcome};
use output::samples::{self, ColumnKind, Samples};
use output::stop;
use output::units::{show_micros, show_size};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the main thread checks for the end of a run.
const POLL: Duration = Duration::from_millis(100);
/// The longest sleep of a thread that waits for its intended start. It must see the end of the run
/// in time.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The seed of the intended starts. They are the same in each run at the same rate.
const ARRIVALS_SEED: u64 = 1;

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How many threads.
    pub(crate) threads: u32,
    /// Time before the measured phase; 0 for a workload that ends by itself.
    pub(crate) warmup: Duration,
    /// Length of the measured phase; `None` if the workload ends by itself.
    pub(crate) seconds: Option<Duration>,
    /// Transactions a second of all threads together, and when more come; `None` is as fast as
    /// possible.
    pub(crate) rate: Option<(f64, Option<Burst>)>,
    /// Keep the value of every metric at each second of the measured phase.
    pub(crate) sampled: bool,
}

/// The results of the measured phase of a run on a database.
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
    /// When the phase began.
    pub(crate) began: Instant,
}

/// The results of the measured phase, whatever the run works on.
#[derive(Debug)]
pub(crate) struct Driven {
    /// What the threads measured.
    pub(crate) totals: Totals,
    /// The checkpoint age during the phase.
    pub(crate) age: Level,
    /// Every metric at each second; empty unless requested.
    pub(crate) samples: Samples,
    /// When the phase began.
    pub(crate) began: Instant,
}

/// What the threads share.
struct Shared<'a> {
    measurements: &'a Measurements,
    arrivals: Option<Mutex<Arrivals>>,
    go: Barrier,
    started: Mutex<Option<Instant>>,
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
        let Some(arrivals) = &self.arrivals else { return Some(Instant::now()) };
        let intended = start + arrivals.lock().unwrap_or_else(PoisonError::into_inner).next();
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

    /// Waits as a user does before a transaction. Returns false at the end of the run.
    fn pause(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopped() {
                return left.is_zero();
            }
            std::thread::sleep(left.min(MAX_SLEEP));
        }
    }

    fn run_session(&self, thread: u32, session: &mut dyn Session) -> Outcome {
        self.go.wait();
        let start = self.started.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now);
        while !self.stopped() && session.draw() {
            if !self.pause(session.pause()) {
                break;
            }
            let Some(began) = self.wait_for_start(start) else { break };
            let mut retries = 0;
            let row_changes = loop {
                match session.attempt() {
                    Ok(changes) => break changes,
                    Err(error) => {
                        let Some(kind) = error.retryable() else { return Err(error.into()) };
                        if self.stopped() {
                            return Ok(());
                        }
                        self.measurements.record_error(thread, kind, Instant::now());
                        retries += 1;
                    }
                }
            };
            let (kind, committed) = (session.kind(), session.has_committed());
            let done = DoneTxn { began, ended: Instant::now(), retries, row_changes, kind, committed };
            self.measurements.record(thread, done);
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
    let sessions =
        (0..pace.threads).map(|thread| workload.session(db, thread)).collect::<Outcome<Vec<_>>>()?;
    let mut observer = DbObserver::new(db);
    let Driven { totals, age, samples, began } = drive_sessions(sessions, &mut observer, pace, progress)?;
    Ok(Measured { totals, figures: observer.figures(), age, samples, began })
}

/// Runs each session on a thread of its own and returns what was measured.
pub(crate) fn drive_sessions(
    sessions: Vec<Box<dyn Session>>,
    observer: &mut dyn Observer,
    pace: Pace,
    progress: &mut Progress,
) -> Outcome<Driven> {
    let measurements = Measurements::new(pace.threads);
    let shared = Shared {
        measurements: &measurements,
        arrivals: pace.rate.map(|(rate, burst)| Mutex::new(Arrivals::new(rate, burst, ARRIVALS_SEED))),
        go: Barrier::new(pace.threads as usize + 1),
        started: Mutex::new(None),
        stop: AtomicBool::new(false),
        running: AtomicU32::new(pace.threads),
        failure: Mutex::new(None),
    };
    let Observation { window, age, samples } = std::thread::scope(|scope| {
        for (thread, mut session) in (0..).zip(sessions) {
            let shared = &shared;
            scope.spawn(move || {
                let _guard = ThreadGuard(shared);
                if let Err(failure) = shared.run_session(thread, session.as_mut()) {
                    shared.fail(failure);
                }
            });
        }
        let observed = Monitor { observer, shared: &shared, pace, progress, samples: Samples::new() }.run();
        shared.stop.store(true, Ordering::Relaxed);
        observed
    });
    if let Some(failure) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    stop::check()?;
    Ok(Driven { totals: measurements.totals(window), age, samples, began: window.start })
}

/// What the main thread observed of the measured phase.
struct Observation {
    window: Window,
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
    observer: &'a mut dyn Observer,
    shared: &'a Shared<'b>,
    pace: Pace,
    progress: &'a mut Progress,
    samples: Samples,
}

impl Monitor<'_, '_> {
    fn run(mut self) -> Observation {
        self.observer.begin();
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
            self.observer.begin();
            window = self.window_from(Instant::now());
            self.shared.measurements.open_window(window);
        }
        self.sample(0.0, None);
        self.watch(Phase::Measure, window.start, window.end, &mut age);
        self.observer.end();
        self.add_age(&mut age);
        self.progress.finish();
        Observation { window, age, samples: self.samples }
    }

    fn window_from(&self, start: Instant) -> Window {
        Window { start, end: self.pace.seconds.map(|length| start + length) }
    }

    fn add_age(&self, age: &mut Level) {
        if let Some(bytes) = self.observer.checkpoint_age() {
            age.add(bytes);
        }
    }

    /// Samples and shows progress until `end`, until no thread runs any more, or until something
    /// stops the run. A progress line and a sample are due at each whole second since `start`. A
    /// missed one is left out.
    fn watch(&mut self, phase: Phase, start: Instant, end: Option<Instant>, age: &mut Level) {
        let mut shown = Duration::ZERO;
        let mut read = start;
        let mut syncs = self.observer.fsyncs();
        self.shared.measurements.take_recent();
        loop {
            let now = Instant::now();
            let over = end.is_some_and(|end| now >= end)
                || self.shared.running.load(Ordering::Acquire) == 0
                || self.shared.stopped()
                || stop::asked();
            let passed = now.duration_since(start);
            let since = (passed - shown).as_secs_f64();
            let due = passed.as_secs() > shown.as_secs();
            // The last part of a second gets a sample only if it is long or is all there is.
            let last = over && (since >= 0.5 || shown.is_zero());
            if due || last || now.duration_since(read) >= self.observer.interval() {
                self.observer.read();
                self.add_age(age);
                read = now;
            }
            if due || last {
                let recent = self.shared.measurements.take_recent();
                if phase == Phase::Measure {
                    self.sample(passed.as_secs_f64(), Some(&recent));
                }
                let synced = self.observer.fsyncs();
                if due {
                    let synced = synced.zip(syncs).map(|(now, before)| now.saturating_sub(before));
                    self.show(phase, passed, since, &recent, synced);
                }
                (shown, syncs) = (passed, synced);
            }
            if over {
                return;
            }
            // A workload that ends by itself may end soon. The time of its end comes from the
            // threads.
            let nap = if end.is_none() { POLL / 20 } else { POLL };
            let next = start + Duration::from_secs(shown.as_secs() + 1);
            let left = end.map_or(next, |end| end.min(next)).saturating_duration_since(now);
            std::thread::sleep(nap.min(left));
        }
    }

    /// Shows the progress: `recent` are the latencies and `syncs` the syncs of the last `since`
    /// seconds.
    fn show(
        &mut self,
        phase: Phase,
        passed: Duration,
        since: f64,
        recent: &Histogram<u64>,
        syncs: Option<u64>,
    ) {
        let age = self.observer.checkpoint_age();
        let age = age.map_or(String::new(), |age| format!("   checkpoint age {:>8}", show_size(age as f64)));
        let syncs = syncs.map_or(String::new(), |syncs| format!("   {:>6.0} fsyncs/s", syncs as f64 / since));
        self.progress.show(&format!(
            "{} {:>4.0} s   {:>8.0} tps   p99 {:>8}{age}{syncs}",
            phase.name(),
            passed.as_secs_f64(),
            recent.len() as f64 / since,
            show_micros(recent.value_at_percentile(99.0) as f64 / 1000.0),
        ));
    }

    /// Keeps the value of every metric, if requested. `recent` are the latencies since the last
    /// sample.
    fn sample(&mut self, seconds: f64, recent: Option<&Histogram<u64>>) {
        if !self.pace.sampled {
            return;
        }
        let mut values = self.observer.values();
        let so_far = self.samples.last("run_transactions").unwrap_or(0.0) as u64;
        let so_far = so_far + recent.map_or(0, Histogram::len);
        values.push(("run_transactions".to_owned(), "count", ColumnKind::Counter, so_far as f64));
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

    fn shared(measurements: &Measurements, rate: f64) -> Shared<'_> {
        Shared {
            measurements,
            arrivals: Some(Mutex::new(Arrivals::new(rate, None, ARRIVALS_SEED))),
            go: Barrier::new(1),
            started: Mutex::new(None),
            stop: AtomicBool::new(false),
            running: AtomicU32::new(1),
            failure: Mutex::new(None),
        }
    }

    #[test]
    fn at_a_fixed_rate_starts_do_not_depend_on_other_transactions() {
        let measurements = Measurements::new(1);
        let shared = shared(&measurements, 1000.0);
        let mut arrivals = Arrivals::new(1000.0, None, ARRIVALS_SEED);
        // The start was long ago: the run is late, and every transaction starts at once, with its
        // intended time.
        let start = Instant::now() - Duration::from_secs(5);
        for _ in 0..3 {
            assert_eq!(shared.wait_for_start(start), Some(start + arrivals.next()));
        }
    }

    #[test]
    fn a_thread_that_waits_for_its_start_sees_the_end() {
        let measurements = Measurements::new(1);
        let shared = shared(&measurements, 0.000_001);
        shared.stop.store(true, Ordering::Relaxed);
        assert_eq!(shared.wait_for_start(Instant::now()), None);
    }
}
