//! Operations that threads repeat for a time: how many a second, and how long one takes.

use crate::measurements::histogram;
use crate::raw_io::in_threads;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What threads did in a time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Rates {
    /// Operations of all threads together.
    pub(super) per_second: f64,
    /// The median of how long one takes.
    pub(super) p50_us: f64,
    /// What 99 of 100 do not exceed.
    pub(super) p99_us: f64,
}

/// Lets each of the workers repeat its operation in a thread of its own, for `time`, once at least.
/// An operation returns how long it took: what it does before and after counts for the rate only.
pub(super) fn measure<W>(time: Duration, workers: Vec<W>) -> io::Result<Rates>
where
    W: FnMut() -> io::Result<Duration> + Send,
{
    let threads = workers.len() as u32;
    let all_ready = Barrier::new(workers.len());
    let workers: Vec<Mutex<W>> = workers.into_iter().map(Mutex::new).collect();
    let work = |n: u32| -> io::Result<_> {
        let mut operation = workers[n as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = histogram();
        all_ready.wait();
        let begun = Instant::now();
        loop {
            let took = (*operation)()?;
            taken.saturating_record(took.as_nanos() as u64);
            if begun.elapsed() >= time {
                return Ok((begun, Instant::now(), taken));
            }
        }
    };
    Ok(together(in_threads(threads, work)?))
}

/// Joins what the threads did: when each began, when it ended, and how long its operations took.
fn together(threads: Vec<(Instant, Instant, Histogram<u64>)>) -> Rates {
    let begun = threads.iter().map(|(begun, _, _)| *begun).min();
    let ended = threads.iter().map(|(_, ended, _)| *ended).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
    let mut all = histogram();
    for (_, _, taken) in &threads {
        // All have the same bounds, so this cannot fail.
        let _ = all.add(taken);
    }
    let us = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1000.0;
    Rates { per_second: all.len() as f64 / seconds.max(1e-9), p50_us: us(0.5), p99_us: us(0.99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_all_threads_and_percentiles_those_of_all_operations() {
        let begun = Instant::now();
        let after = |ms: u64| begun + Duration::from_millis(ms);
        let taken = |us: &[u64]| {
            let mut taken = histogram();
            us.iter().for_each(|us| taken.saturating_record(us * 1000));
            taken
        };
        let rates = together(vec![
            (after(0), after(1500), taken(&[100, 100, 100])),
            (after(500), after(2000), taken(&[100, 5000])),
        ]);
        assert!((rates.per_second - 2.5).abs() < 0.001, "{rates:?}");
        assert!((rates.p50_us - 100.0).abs() < 0.5 && (rates.p99_us - 5000.0).abs() < 10.0, "{rates:?}");
    }

    #[test]
    fn every_worker_does_its_operation_and_an_error_is_returned() {
        let done = Mutex::new(vec![0; 3]);
        let worker = |n: usize| {
            let done = &done;
            move || {
                done.lock().unwrap()[n] += 1;
                Ok(Duration::from_micros(7))
            }
        };
        let rates = measure(Duration::ZERO, (0..3).map(worker).collect()).unwrap();
        assert_eq!(*done.lock().unwrap(), [1, 1, 1]);
        assert!((rates.p50_us - 7.0).abs() < 0.1, "{rates:?}");
        let failing = vec![|| -> io::Result<Duration> { Err(io::ErrorKind::StorageFull.into()) }];
        assert_eq!(measure(Duration::ZERO, failing).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
