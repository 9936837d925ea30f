//! Operations that are repeated for a time, and how long one takes.

use std::io;
use std::time::{Duration, Instant};

/// How long a row is measured: in so many parts, each of so long.
const PARTS: usize = 5;
const PART: Duration = Duration::from_millis(80);

/// Repeats `batch`, which does some operations and returns how many. Returns the nanoseconds of
/// one: the median of several parts of the time, so that one disturbance does not matter.
pub(super) fn ns_each(mut batch: impl FnMut() -> io::Result<u64>) -> io::Result<f64> {
    ns_each_of(|| {
        let begun = Instant::now();
        batch().map(|operations| (operations, begun.elapsed()))
    })
}

/// The same for a batch that returns how long its operations took too, without what it did before
/// and after.
pub(super) fn ns_each_of(mut batch: impl FnMut() -> io::Result<(u64, Duration)>) -> io::Result<f64> {
    let mut parts = [0.0; PARTS];
    for part in &mut parts {
        let (begun, mut operations, mut took) = (Instant::now(), 0, Duration::ZERO);
        while operations == 0 || begun.elapsed() < PART {
            let (more, time) = batch()?;
            operations += more;
            took += time;
        }
        *part = took.as_nanos() as f64 / operations as f64;
    }
    parts.sort_by(f64::total_cmp);
    Ok(parts[PARTS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_part_counts_and_an_error_ends_it() {
        let mut n = 0;
        let each = ns_each_of(|| {
            // Each call is a part of its own.
            std::thread::sleep(PART);
            n += 1;
            Ok((10, Duration::from_nanos(if n == 2 { 1_000_000 } else { 70 })))
        });
        assert!((each.unwrap() - 7.0).abs() < 1e-9);
        assert!(ns_each(|| Err(io::ErrorKind::Other.into())).is_err());
    }
}
