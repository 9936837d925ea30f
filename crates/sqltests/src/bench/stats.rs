//! Medians, and how far they may be from the truth.

/// The median of some values, and an interval that has the true median with a probability of at
/// least 95 % where there are six values or more. With fewer it is from the least to the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Median {
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
}

/// Returns the median of `values`. REQUIRES: there is at least one.
pub(super) fn median(values: &[f64]) -> Median {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    let cut = outside(n);
    Median { low: sorted[cut], middle, high: sorted[n - 1 - cut] }
}

/// Returns how many values at each end lie outside the interval: the most for which the chance
/// that the true median lies outside, by the binomial distribution, is at most 5 %.
fn outside(n: usize) -> usize {
    let mut ways = 1.0;
    let mut tail = 0.0;
    let all = 2f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    for cut in 0..n / 2 {
        tail += ways;
        if 2.0 * tail / all > 0.05 {
            return cut.saturating_sub(1);
        }
        ways *= (n - cut) as f64 / (cut + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_nine_values_leaves_out_one_at_each_end() {
        let nine = [9.0, 1.0, 5.0, 3.0, 7.0, 2.0, 8.0, 4.0, 6.0];
        assert_eq!(median(&nine), Median { low: 2.0, middle: 5.0, high: 8.0 });
    }

    #[test]
    fn the_interval_of_few_values_has_them_all() {
        assert_eq!(median(&[2.0, 1.0]), Median { low: 1.0, middle: 1.5, high: 2.0 });
        assert_eq!(median(&[4.0, 2.0, 1.0, 3.0, 5.0]), Median { low: 1.0, middle: 3.0, high: 5.0 });
        assert_eq!(median(&[7.0]), Median { low: 7.0, middle: 7.0, high: 7.0 });
    }
}
