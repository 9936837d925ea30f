//! How steady a load was, by the commits of each second.

/// The worst second beside the median one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steadiness {
    /// How many seconds there were.
    pub(crate) seconds: usize,
    pub(crate) median: u64,
    pub(crate) worst: u64,
    /// Which second was the worst, from 0 on.
    pub(crate) worst_at: usize,
    /// How many seconds had no commit.
    pub(crate) zero: usize,
}

impl Steadiness {
    /// Compares the seconds; `None` if there are none.
    pub(crate) fn of(per_second: &[u64]) -> Option<Steadiness> {
        let mut sorted = per_second.to_vec();
        sorted.sort_unstable();
        let (worst_at, worst) = per_second.iter().copied().enumerate().min_by_key(|(_, n)| *n)?;
        Some(Steadiness {
            seconds: per_second.len(),
            median: sorted[sorted.len() / 2],
            worst,
            worst_at,
            zero: per_second.iter().filter(|n| **n == 0).count(),
        })
    }

    /// Returns the worst second in percent of the median one; `None` if that had no commit.
    pub(crate) fn percent(&self) -> Option<f64> {
        (self.median > 0).then(|| 100.0 * self.worst as f64 / self.median as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_is_compared_with_the_median_one() {
        let steady = Steadiness::of(&[100, 0, 80, 90]).unwrap();
        assert_eq!(
            (steady.seconds, steady.median, steady.worst, steady.worst_at, steady.zero),
            (4, 90, 0, 1, 1)
        );
        assert_eq!(Steadiness::of(&[50, 100, 25]).unwrap().percent(), Some(50.0));
        assert_eq!(Steadiness::of(&[0, 0, 7]).unwrap().percent(), None);
        assert_eq!(Steadiness::of(&[]), None);
    }
}
