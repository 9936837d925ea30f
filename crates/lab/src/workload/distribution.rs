//! How a workload chooses rows: sysbench's uniform, zipfian and special distributions over the ids
//! 1 ..= n.

use base::prng::Prng;
use clap::ValueEnum;

/// `--distribution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// Every row with the same probability.
    Uniform,
    /// Row 1 most often, row r with weight r^-0.8 (sysbench's exponent).
    Zipf,
    /// Three quarters of all picks in the middle hundredth, the rest bell-shaped (sysbench's old
    /// default).
    Special,
}

impl Distribution {
    /// Makes a picker for the ids `1..=n`.
    ///
    /// REQUIRES: `n` is at least 1.
    pub(crate) fn over(self, n: u32) -> Picker {
        assert!(n > 0, "a table without rows has nothing to pick");
        match self {
            Distribution::Uniform => Picker::Uniform { n },
            Distribution::Zipf => Picker::Zipf(Zipf::new(n, 0.8)),
            Distribution::Special => Picker::Special { n },
        }
    }
}

/// Picks random ids.
#[derive(Clone, Debug)]
pub(crate) enum Picker {
    /// See [`Distribution::Uniform`].
    Uniform {
        /// Ids are `1..=n`.
        n: u32,
    },
    /// See [`Distribution::Zipf`].
    Zipf(Zipf),
    /// See [`Distribution::Special`].
    Special {
        /// Ids are `1..=n`.
        n: u32,
    },
}

impl Picker {
    /// Returns an id in `1..=n`.
    pub(crate) fn id(&self, rng: &mut Prng) -> u32 {
        match self {
            Picker::Uniform { n } => 1 + rng.below(u64::from(*n)) as u32,
            Picker::Zipf(zipf) => zipf.id(rng),
            Picker::Special { n } => special(*n, rng),
        }
    }
}

/// Returns a number in [0, 1) with 53 random bits.
fn unit(rng: &mut Prng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn special(n: u32, rng: &mut Prng) -> u32 {
    let n = f64::from(n);
    let at = if rng.below(4) == 0 {
        // The mean of twelve random numbers is close to a normal distribution over the whole table.
        (0..12).map(|_| unit(rng)).sum::<f64>() / 12.0 * n
    } else {
        let width = (n / 100.0).max(1.0);
        (n - width) / 2.0 + unit(rng) * width
    };
    1 + (at.floor().min(n - 1.0)) as u32
}

/// Zipf by rejection-inversion (Hörmann and Derflinger 1996): constant time and memory, exact for
/// every n.
///
/// The bars of height r^-q are covered by the area under h(x) = x^-q; a point under h is found by
/// inverting its integral, and rejected when it lies above the bar of the nearest integer.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    q: f64,
    /// H(1.5) - h(1), so the left bar gets exactly its own area.
    low: f64,
    high: f64,
}

impl Zipf {
    fn new(n: u32, q: f64) -> Zipf {
        assert!(q > 0.0 && q != 1.0, "the integral below has another form at exponent 1");
        let mut zipf = Zipf { n: f64::from(n), q, low: 0.0, high: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        x.powf(1.0 - self.q) / (1.0 - self.q)
    }

    fn inverse(&self, y: f64) -> f64 {
        (y * (1.0 - self.q)).powf(1.0 / (1.0 - self.q))
    }

    fn id(&self, rng: &mut Prng) -> u32 {
        loop {
            let y = self.high - unit(rng) * (self.high - self.low);
            let nearest = self.inverse(y).round().clamp(1.0, self.n);
            if y >= self.integral(nearest + 0.5) - nearest.powf(-self.q) {
                return nearest as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, n: u32, draws: u32) -> Vec<u32> {
        let picker = distribution.over(n);
        let mut rng = Prng::new(7);
        let mut counts = vec![0; n as usize];
        for _ in 0..draws {
            // An id out of range panics here.
            counts[picker.id(&mut rng) as usize - 1] += 1;
        }
        counts
    }

    #[test]
    fn every_distribution_stays_in_range_for_small_tables() {
        for distribution in [Distribution::Uniform, Distribution::Zipf, Distribution::Special] {
            for n in [1, 2, 3, 7, 100] {
                let counts = counts(distribution, n, 5_000);
                assert_eq!(counts.iter().sum::<u32>(), 5_000);
                // With more than three rows, `special` hardly ever picks the first and the last
                // one.
                if n <= 3 || (n == 7 && distribution != Distribution::Special) {
                    assert!(
                        counts.iter().all(|&c| c > 0),
                        "{distribution:?} never picks some of {n}: {counts:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn uniform_is_even() {
        let counts = counts(Distribution::Uniform, 100, 100_000);
        assert!(counts.iter().all(|&c| (800..1200).contains(&c)), "{counts:?}");
    }

    #[test]
    fn zipf_has_the_weights_of_its_exponent() {
        let draws = 400_000;
        let counts = counts(Distribution::Zipf, 1000, draws);
        let total: f64 = (1..=1000).map(|r| f64::from(r).powf(-0.8)).sum();
        for rank in [1u32, 2, 3, 10, 100] {
            let expected = f64::from(draws) * f64::from(rank).powf(-0.8) / total;
            let got = f64::from(counts[rank as usize - 1]);
            assert!(
                (got - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {got}, expected {expected:.0}"
            );
        }
    }

    #[test]
    fn special_hits_its_middle_three_times_in_four() {
        let counts = counts(Distribution::Special, 10_000, 100_000);
        let middle: u32 = counts[4950..5050].iter().sum();
        // 75 % are picked there, and a few of the other 25 % too.
        assert!((75_000..79_000).contains(&middle), "{middle}");
        assert!(counts[..4950].iter().sum::<u32>() > 9_000);
        assert!(counts[5050..].iter().sum::<u32>() > 9_000);
    }
}
