//! A lock-free histogram of microseconds. It has four buckets for each power of two, so a quantile
//! is at most a quarter too high.

use base::sync::atomic::{AtomicU64, Ordering};

/// The number of buckets. All values from 2^34 µs (nearly five hours) on are in the last one.
pub(crate) const BUCKETS: usize = 4 * 33;

/// Returns the bucket of a value. Each value below 4 has a bucket of its own.
#[must_use]
fn bucket_of(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let power = us.ilog2() as usize;
    let quarter = ((us >> (power - 2)) & 3) as usize;
    (4 * (power - 1) + quarter).min(BUCKETS - 1)
}

/// Returns the smallest value above all values of a bucket.
#[must_use]
fn bucket_end(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64 + 1;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    (5 + quarter) << (power - 2)
}

/// Counts of values by bucket, their sum and their maximum.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
    max_us: AtomicU64,
}

impl Histogram {
    /// Makes an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
        }
    }

    /// Counts a value.
    pub fn record(&self, us: u64) {
        self.buckets[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        // Most values are not a new maximum: a load is cheaper than a read-modify-write.
        if us > self.max_us.load(Ordering::Relaxed) {
            self.max_us.fetch_max(us, Ordering::Relaxed);
        }
    }

    /// Returns a copy. While other threads record, the copy may have a value in the buckets and not
    /// yet in the sum, or the other way round. A later copy has both.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts {
        let last = self.buckets.iter().rposition(|b| b.load(Ordering::Relaxed) > 0);
        HistogramCounts {
            buckets: self.buckets[..last.map_or(0, |i| i + 1)]
                .iter()
                .map(|b| b.load(Ordering::Relaxed))
                .collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
            max_us: self.max_us.load(Ordering::Relaxed),
        }
    }
}

/// A copy of a histogram: plain numbers. Trailing empty buckets are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    buckets: Vec<u64>,
    sum_us: u64,
    max_us: u64,
}

impl HistogramCounts {
    /// Returns counts of buckets, with the sum and the maximum of their values.
    pub(crate) fn of(buckets: &[u64], sum_us: u64, max_us: u64) -> HistogramCounts {
        let end = buckets.iter().rposition(|n| *n > 0).map_or(0, |i| i + 1);
        HistogramCounts { buckets: buckets[..end].to_vec(), sum_us, max_us }
    }

    /// Returns the counts of the buckets, trailing empty ones left out.
    pub(crate) fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Returns how many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all values, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Returns the largest value; after [`HistogramCounts::minus`], an upper bound of it.
    #[must_use]
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// Returns how many values are below `us`, counting only whole buckets. Exact if a bucket ends
    /// at `us`.
    #[must_use]
    pub fn below(&self, us: u64) -> u64 {
        self.buckets.iter().enumerate().take_while(|(i, _)| bucket_end(*i) <= us).map(|(_, n)| n).sum()
    }

    /// Returns a value that at least `share` (0 to 1) of all values do not exceed. It is the end of
    /// the bucket where that share is reached, but never above the maximum. 0 without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return (bucket_end(i) - 1).min(self.max_us);
            }
        }
        0
    }

    /// Returns the values that were counted since `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &HistogramCounts) -> HistogramCounts {
        let mut buckets: Vec<u64> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(i, n)| n.saturating_sub(earlier.buckets.get(i).copied().unwrap_or(0)))
            .collect();
        buckets.truncate(buckets.iter().rposition(|n| *n > 0).map_or(0, |i| i + 1));
        let max_us = match buckets.len() {
            0 => 0,
            n => (bucket_end(n - 1) - 1).min(self.max_us),
        };
        HistogramCounts { buckets, sum_us: self.sum_us.saturating_sub(earlier.sum_us), max_us }
    }

    /// Adds another histogram's values.
    pub fn merge(&mut self, other: &HistogramCounts) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_its_bucket_and_buckets_have_no_gaps() {
        let mut start = 0;
        for bucket in 0..BUCKETS - 1 {
            let end = bucket_end(bucket);
            assert!(end > start);
            for us in [start, end - 1] {
                assert_eq!(bucket_of(us), bucket, "{us}");
            }
            start = end;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_high() {
        let h = Histogram::new();
        (1..=10_000).for_each(|us| h.record(us));
        let counts = h.counts();
        for (share, exact) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let got = counts.quantile(share) as f64;
            assert!(got >= exact && got <= exact * 1.25, "{share}: {got}");
        }
        assert_eq!((counts.count(), counts.max_us(), counts.sum_us()), (10_000, 10_000, 50_005_000));
        assert_eq!(counts.below(4096), 4095);
        assert_eq!(HistogramCounts::default().quantile(0.5), 0);
    }

    #[test]
    fn a_difference_has_only_the_values_between_two_copies() {
        let h = Histogram::new();
        h.record(100_000);
        let earlier = h.counts();
        assert_eq!(earlier.minus(&earlier), HistogramCounts::default());
        h.record(10);
        let d = h.counts().minus(&earlier);
        assert_eq!((d.count(), d.sum_us(), d.max_us()), (1, 10, 11));
        let mut both = d.clone();
        both.merge(&earlier);
        assert_eq!((both.count(), both.sum_us(), both.max_us()), (2, 100_010, 100_000));
    }
}
