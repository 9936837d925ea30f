//! Synced writes of 4 KiB beside a load, one each 100 ms. They show when the device itself is slow.

use super::device::Device;
use output::failure::{Failure, Outcome};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time from one write to the next.
const PERIOD: Duration = Duration::from_millis(100);
/// A write is slow if it takes so many times the median of all.
const SLOW_TIMES: u32 = 4;
/// And so long at least: a load makes writes wait for a few milliseconds.
const SLOW_LEAST: Duration = Duration::from_millis(20);

/// A thread that writes.
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome<Probed>>>,
}

/// When each write began, and how long it took.
pub(super) struct Probed(Vec<(Instant, Duration)>);

impl Probe {
    /// Makes the file and starts the thread.
    pub(super) fn start(path: &Path) -> Outcome<Probe> {
        let mut device = Device::new(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut writes = Vec::new();
            while !asked.load(Ordering::Relaxed) {
                let begun = Instant::now();
                device.write(writes.len() as u64)?;
                writes.push((begun, begun.elapsed()));
                std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
            }
            Ok(Probed(writes))
        });
        Ok(Probe { stop, thread: Some(thread) })
    }

    /// Stops the thread and returns its writes.
    pub(super) fn stop(mut self) -> Outcome<Probed> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Probed(Vec::new())) };
        thread.join().map_err(|_| Failure::failed("the probe of the device panicked"))?
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Probed {
    /// Returns in how many of so many seconds from `begun` on a write was slow.
    pub(super) fn slow_seconds(&self, begun: Instant, seconds: usize) -> usize {
        let mut times: Vec<Duration> = self.0.iter().map(|write| write.1).collect();
        times.sort_unstable();
        let usual = times.get(times.len() / 2).copied().unwrap_or_default();
        let limit = (usual * SLOW_TIMES).max(SLOW_LEAST);
        let mut slow = vec![false; seconds];
        for (at, took) in &self.0 {
            // Each second that a slow write touches.
            let (from, to) =
                (at.saturating_duration_since(begun), (*at + *took).checked_duration_since(begun));
            let Some(to) = to.filter(|_| *took > limit) else { continue };
            let touched = from.as_secs() as usize..=to.as_secs() as usize;
            touched.filter_map(|second| slow.get_mut(second).map(|mark| *mark = true)).for_each(drop);
        }
        slow.iter().filter(|mark| **mark).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_a_slow_write_touches_are_counted() {
        let begun = Instant::now() + Duration::from_secs(10);
        let at = |ms: i64, took_ms: u64| {
            let write = if ms < 0 {
                begun.checked_sub(Duration::from_millis(-ms as u64)).unwrap()
            } else {
                begun + Duration::from_millis(ms as u64)
            };
            (write, Duration::from_millis(took_ms))
        };
        let mut writes: Vec<_> = (0..50).map(|n| at(n * 100, 1)).collect();
        assert_eq!(Probed(writes.clone()).slow_seconds(begun, 5), 0);
        // One before the phase, one that ends in it, one in two seconds, one after it.
        writes.extend([at(-900, 300), at(-500, 600), at(1990, 30), at(5000, 400), at(3000, 15)]);
        assert_eq!(Probed(writes).slow_seconds(begun, 5), 3);
        assert_eq!(Probed(Vec::new()).slow_seconds(begun, 5), 0);
    }
}
