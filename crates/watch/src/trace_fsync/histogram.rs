//! The distribution of how long syncs took, in rows that people can compare.

use hdrhistogram::Histogram;
use metrics::histogram::HistogramCounts;

/// Rows of the same width, before the last one, which has all longer times.
const LINEAR_ROWS: u64 = 15;

/// How many syncs took so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The least time, microseconds.
    pub(crate) from_us: u64,
    /// The first time that is too long; `None` for all longer ones.
    pub(crate) to_us: Option<u64>,
    /// How many.
    pub(crate) syncs: u64,
}

/// Points of the distribution, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// Returns rows of `step_us`, and a last one for what takes longer than fifteen of them. Without a
/// step it is 1, 2 or 5 times a power of ten, so that about a twentieth is beyond.
pub(crate) fn linear(times: &Histogram<u64>, step_us: Option<u64>) -> Vec<Bucket> {
    let step = step_us.unwrap_or_else(|| step_for(times.value_at_quantile(0.95))).max(1);
    let count = |from: u64, to: u64| times.count_between(from, to - 1);
    let mut rows: Vec<Bucket> = (0..LINEAR_ROWS)
        .map(|i| (i * step, (i + 1) * step))
        .map(|(from, to)| Bucket { from_us: from, to_us: Some(to), syncs: count(from, to) })
        .collect();
    let beyond = times.len() - rows.iter().map(|row| row.syncs).sum::<u64>().min(times.len());
    rows.push(Bucket { from_us: LINEAR_ROWS * step, to_us: None, syncs: beyond });
    rows
}

/// Returns the least step of 10, 20, 50, 100 and so on for which fifteen rows reach `us`.
fn step_for(us: u64) -> u64 {
    let mut power = 10;
    loop {
        for step in [power, 2 * power, 5 * power] {
            if step * LINEAR_ROWS > us || step > u64::MAX / 100 {
                return step;
            }
        }
        power *= 10;
    }
}

/// Returns the points of exact times.
pub(crate) fn points(times: &Histogram<u64>) -> Points {
    let at = |share| if times.is_empty() { 0 } else { times.value_at_quantile(share) };
    Points { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: times.max() }
}

/// Returns rows of a histogram of the engine, which has buckets at quarters of powers of two: two
/// rows for each power, from the first to the last that is not empty.
pub(crate) fn of_counts(counts: &HistogramCounts) -> Vec<Bucket> {
    // From 4 on there are four buckets for each power of two.
    let edges: Vec<u64> =
        [0].into_iter().chain((2..34).flat_map(|p| [1 << p, (1 << p) + (1 << (p - 1))])).collect();
    let mut rows: Vec<Bucket> = edges
        .windows(2)
        .map(|w| (w[0], w[1], counts.below(w[1]) - counts.below(w[0])))
        .map(|(from, to, syncs)| Bucket { from_us: from, to_us: Some(to), syncs })
        .collect();
    let last = edges[edges.len() - 1];
    rows.push(Bucket { from_us: last, to_us: None, syncs: counts.count() - counts.below(last) });
    let first = rows.iter().position(|row| row.syncs > 0).unwrap_or(0);
    let end = rows.iter().rposition(|row| row.syncs > 0).map_or(0, |i| i + 1);
    rows[first.min(end)..end].to_vec()
}

/// Returns the points of a histogram of the engine. They are at most a quarter too high.
pub(crate) fn points_of_counts(counts: &HistogramCounts) -> Points {
    let at = |share| counts.quantile(share);
    Points { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: counts.max_us() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(values: &[u64]) -> Histogram<u64> {
        let mut times = Histogram::new(3).unwrap();
        values.iter().for_each(|v| times.record(*v).unwrap());
        times
    }

    #[test]
    fn rows_of_a_fixed_step_have_each_time_once() {
        let rows = linear(&times(&[0, 99, 100, 1499, 1500, 90_000]), Some(100));
        assert_eq!(rows.len(), 16);
        let filled: Vec<_> =
            rows.iter().filter(|r| r.syncs > 0).map(|r| (r.from_us, r.to_us, r.syncs)).collect();
        assert_eq!(filled, [(0, Some(100), 2), (100, Some(200), 1), (1400, Some(1500), 1), (1500, None, 2)]);
    }

    #[test]
    fn the_step_follows_the_times() {
        for (us, step) in
            [(0, 10), (149, 10), (150, 20), (1400, 100), (1600, 200), (6000, 500), (u64::MAX, 0)]
        {
            let chosen = step_for(us);
            assert!(chosen == step || us == u64::MAX, "{us}: {chosen}");
        }
        let rows = linear(&times(&[3000; 100]), None);
        assert_eq!((rows[0].to_us, rows.iter().map(|r| r.syncs).sum::<u64>()), (Some(500), 100));
        assert_eq!(linear(&times(&[]), None).iter().map(|r| r.syncs).sum::<u64>(), 0);
        assert_eq!(points(&times(&[])), Points::default());
    }

    #[test]
    fn rows_of_the_engines_histogram() {
        let histogram = metrics::histogram::Histogram::new();
        for us in [1, 5, 700, 701, 1100, 1 << 40] {
            histogram.record(us);
        }
        let rows = of_counts(&histogram.counts());
        let filled: Vec<_> =
            rows.iter().filter(|r| r.syncs > 0).map(|r| (r.from_us, r.to_us, r.syncs)).collect();
        assert_eq!(
            filled,
            [
                (0, Some(4), 1),
                (4, Some(6), 1),
                (512, Some(768), 2),
                (1024, Some(1536), 1),
                (12884901888, None, 1)
            ]
        );
        assert_eq!(rows[0].from_us, 0);
        assert!(of_counts(&HistogramCounts::default()).is_empty());
    }
}
