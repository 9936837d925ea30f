//! Runs one kind of work on threads and measures it.

use crate::peer::{Peer, Result};
use crate::random::Random;
use crate::stop;
use crate::work::Work;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// The measurement of one peer.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Work a second, in its unit.
    pub rate: f64,
    /// Nanoseconds of each step.
    pub latency: Histogram<u64>,
    /// Work in each whole second, in its unit.
    pub per_second: Vec<u64>,
}

impl Measurement {
    /// Returns the worst second as a share of the median one; `None` with fewer than three seconds.
    pub fn worst_second(&self) -> Option<f64> {
        let mut sorted = self.per_second.clone();
        sorted.sort_unstable();
        let median = *sorted.get(sorted.len() / 2)?;
        (sorted.len() >= 3 && median > 0).then(|| sorted[0] as f64 / median as f64)
    }
}

/// Makes an empty histogram of nanoseconds: three significant digits, up to an hour.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order")
}

/// What one thread did.
struct ThreadResult {
    latency: Histogram<u64>,
    per_second: Vec<u64>,
}

fn thread(
    peer: &dyn Peer,
    work: Work,
    rows: u64,
    begin: Instant,
    time: Duration,
    seed: u64,
) -> Result<ThreadResult> {
    let mut session = peer.session()?;
    let mut random = Random::new(seed);
    let mut part = ThreadResult { latency: histogram(), per_second: Vec::new() };
    let steps = match work {
        Work::Load => rows.div_ceil(crate::peer::LOAD_BATCH),
        Work::Bulk => 1,
        _ => u64::MAX,
    };
    let mut before = Instant::now();
    for step in 0..steps {
        let done = work.step(&mut *session, rows, &mut random, step)?;
        let now = Instant::now();
        part.latency.saturating_record((now - before).as_nanos() as u64);
        before = now;
        let elapsed = now - begin;
        let second = elapsed.as_secs() as usize;
        if part.per_second.len() <= second {
            part.per_second.resize(second + 1, 0);
        }
        part.per_second[second] += done;
        if elapsed >= time && work != Work::Load {
            break;
        }
        stop::check()?;
    }
    Ok(part)
}

/// Does `work` on `threads` threads for `time`; a load runs until it is complete.
pub fn run(
    peer: &dyn Peer,
    work: Work,
    threads: usize,
    rows: u64,
    time: Duration,
    seed: u64,
) -> Result<Measurement> {
    let begin = Instant::now();
    let parts: Vec<Result<ThreadResult>> = std::thread::scope(|scope| {
        let seed = |n: u64| Random::new(seed.wrapping_mul(1 << 20) + n).bits();
        let threads: Vec<_> = (0..threads as u64)
            .map(|n| scope.spawn(move || thread(peer, work, rows, begin, time, seed(n))))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    let elapsed = begin.elapsed();
    let mut latency = histogram();
    let mut per_second = Vec::new();
    for part in parts {
        let part = part?;
        latency.add(&part.latency)?;
        if per_second.len() < part.per_second.len() {
            per_second.resize(part.per_second.len(), 0);
        }
        part.per_second.iter().zip(&mut per_second).for_each(|(n, sum)| *sum += n);
    }
    let done: u64 = per_second.iter().sum();
    per_second.resize(elapsed.as_secs() as usize, 0);
    Ok(Measurement { rate: done as f64 / elapsed.as_secs_f64(), latency, per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_is_a_share_of_the_median() {
        let figures = |per_second: &[u64]| Measurement {
            rate: 1.0,
            latency: histogram(),
            per_second: per_second.to_vec(),
        };
        assert_eq!(figures(&[100, 10, 100]).worst_second(), Some(0.1));
        assert_eq!(figures(&[100, 10]).worst_second(), None);
        assert_eq!(figures(&[0, 0, 0]).worst_second(), None);
    }
}
