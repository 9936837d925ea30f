//! A fixed computation beside a load, again and again. It shows how fast the processor is in each
//! second: on a machine that shares its cores with others that changes by a third for minutes.

use super::median;
use output::failure::{Failure, Outcome};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time from one computation to the next.
const PERIOD: Duration = Duration::from_millis(10);
/// Steps of a computation: some 60 microseconds, so the thread takes less than a hundredth of a
/// core.
const STEPS: u64 = 30_000;
/// A computation that took so many times the median was interrupted.
const INTERRUPTED: f64 = 2.0;

/// A thread that computes.
pub(super) struct Processor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Speeds>>,
}

/// When each computation began, and how much time of its core it took, seconds.
pub(super) struct Speeds(Vec<(Instant, f64)>);

/// Returns the time of the cores that this thread has used, seconds.
fn used_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Eight computations that depend on nothing of each other, so they use all the units of a core. A
/// single one would not notice that another thread of the same core computes as well.
fn compute(seed: u64) -> u64 {
    let mut parts = black_box([seed; 8]);
    for step in 0..STEPS {
        for (n, part) in parts.iter_mut().enumerate() {
            *part = (*part ^ *part >> (n + 1)).wrapping_add(step);
        }
    }
    black_box(parts).iter().fold(0, |sum, part| sum ^ part)
}

impl Processor {
    /// Starts the thread.
    pub(super) fn start() -> Processor {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            let mut seed = 1;
            while !asked.load(Ordering::Relaxed) {
                let (begun, before_s) = (Instant::now(), used_s());
                seed = compute(seed);
                times.push((begun, used_s() - before_s));
                std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
            }
            Speeds(times)
        });
        Processor { stop, thread: Some(thread) }
    }

    /// Stops the thread and returns what it measured.
    pub(super) fn stop(mut self) -> Outcome<Speeds> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Speeds(Vec::new())) };
        thread.join().map_err(|_| Failure::failed("the probe of the processor panicked"))
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Speeds {
    /// Returns how fast the processor was in each of so many seconds from `begun` on; 1 is its
    /// usual speed in these seconds. A second without a computation counts as usual.
    pub(super) fn of_seconds(&self, begun: Instant, seconds: usize) -> Vec<f64> {
        let mut by_second = vec![Vec::new(); seconds];
        for (at, took_s) in &self.0 {
            let Some(from) = at.checked_duration_since(begun) else { continue };
            if let Some(of_second) = by_second.get_mut(from.as_secs() as usize) {
                of_second.push(*took_s);
            }
        }
        let means: Vec<Option<f64>> = by_second.into_iter().map(uninterrupted).collect();
        let known: Vec<f64> = means.iter().copied().flatten().collect();
        let usual = if known.is_empty() { 1.0 } else { median(known) };
        means.into_iter().map(|mean| mean.map_or(1.0, |mean| usual / mean)).collect()
    }
}

/// Returns the mean of the times without those of interrupted computations.
fn uninterrupted(times: Vec<f64>) -> Option<f64> {
    if times.is_empty() {
        return None;
    }
    let most = INTERRUPTED * median(times.clone());
    let whole: Vec<f64> = times.into_iter().filter(|time| *time <= most).collect();
    Some(whole.iter().sum::<f64>() / whole.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_seconds_are_seen_and_interrupts_are_not() {
        let begun = Instant::now() + Duration::from_secs(10);
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut times: Vec<_> = (0..500).map(|n| (at(n * 10), 100e-6)).collect();
        times[200..300].iter_mut().for_each(|time| time.1 = 125e-6);
        times[350].1 = 5e-3;
        times.retain(|time| time.0 < at(4000));
        times.insert(0, (begun.checked_sub(Duration::from_millis(5)).unwrap(), 1.0));
        let speeds = Speeds(times).of_seconds(begun, 5);
        let rounded: Vec<f64> = speeds.iter().map(|speed| (speed * 100.0).round() / 100.0).collect();
        assert_eq!(rounded, [1.0, 1.0, 0.8, 1.0, 1.0]);
        assert_eq!(Speeds(Vec::new()).of_seconds(begun, 2), [1.0, 1.0]);
    }

    #[test]
    fn a_computation_takes_time_of_its_own_core() {
        let (before_s, begun) = (used_s(), Instant::now());
        let sum = (0..20).fold(1, |seed, _| compute(seed));
        let used_s = used_s() - before_s;
        assert!(used_s > 0.0 && used_s <= begun.elapsed().as_secs_f64() + 0.01, "{used_s} s for {sum}");
    }
}
