//! The rank test: does one sample tend to be greater than another? Pure.
//!
//! The statistic is the sum of the ranks of the second sample (Mann and Whitney 1947). Where there
//! are several pairs of samples, ranks are given within each pair and the sums are added (van
//! Elteren 1960), so a difference between the pairs does not count. The probability is exact: the
//! share of all ways to divide the values of each pair that are at least as far from the middle.

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    /// How probable it is that a value of the second samples is greater than one of the first:
    /// 0.5 where there is no difference.
    pub(super) superiority: f64,
    /// How often chance alone gives a difference like this or a greater one.
    pub(super) p: f64,
}

/// Compares pairs of samples. `None` if one of them is empty.
pub(super) fn compare(pairs: &[(&[f64], &[f64])]) -> Option<Ranked> {
    if pairs.is_empty() || pairs.iter().any(|(first, second)| first.is_empty() || second.is_empty()) {
        return None;
    }
    let (mut found, mut least, mut all, mut wins) = (0, 0, vec![1.0], 0.0);
    let mut comparisons = 0.0;
    for (first, second) in pairs {
        let ranks = doubled_ranks(first, second);
        let n = second.len();
        let sum: usize = ranks[first.len()..].iter().sum();
        found += sum;
        // The sum if all values of the second sample were below the others.
        least += n * (n + 1);
        wins += (sum - n * (n + 1)) as f64 / 2.0;
        comparisons += (first.len() * n) as f64;
        all = convolved(&all, &sums(&ranks, n));
    }
    let middle = least as f64 + comparisons;
    let distance = (found as f64 - middle).abs();
    let far = |(sum, share): (usize, &f64)| {
        if (sum as f64 - middle).abs() >= distance - 0.5 { *share } else { 0.0 }
    };
    let p: f64 = all.iter().enumerate().map(far).sum();
    Some(Ranked { superiority: wins / comparisons, p: p.min(1.0) })
}

/// Returns twice the rank of each value of both samples together; equal values share their ranks.
fn doubled_ranks(first: &[f64], second: &[f64]) -> Vec<usize> {
    let values: Vec<f64> = first.iter().chain(second).copied().collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let same = values.iter().filter(|other| *other == value).count();
        2 * below + same + 1
    };
    values.iter().map(rank).collect()
}

/// Returns for each sum the share of the ways to choose `n` of the ranks that give it.
fn sums(ranks: &[usize], n: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    // By how many are chosen, and by their sum.
    let mut ways = vec![vec![0.0; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=n).rev() {
            for sum in (*rank..=most).rev() {
                ways[chosen][sum] += ways[chosen - 1][sum - rank];
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    ways[n].iter().map(|ways| ways / all).collect()
}

/// Returns the shares of the sums of two independent numbers.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (j, y) in b.iter().enumerate() {
            out[i + j] += x * y;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Counted by hand: of the 20 ways to choose 3 of 6, one gives 6 and one gives 15.
    #[test]
    fn three_against_three() {
        let apart = compare(&[(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0])]).unwrap();
        assert!(near(apart.p, 2.0 / 20.0) && near(apart.superiority, 1.0), "{apart:?}");
        let back = compare(&[(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0])]).unwrap();
        assert!(near(back.p, 2.0 / 20.0) && near(back.superiority, 0.0), "{back:?}");
        // One step from the end: the sums 6, 7, 14 and 15.
        let nearly = compare(&[(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0])]).unwrap();
        assert!(near(nearly.p, 4.0 / 20.0) && near(nearly.superiority, 8.0 / 9.0), "{nearly:?}");
    }

    #[test]
    fn two_pairs_say_more_than_one_and_a_difference_between_pairs_says_nothing() {
        let pair = (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..]);
        assert!(near(compare(&[pair, pair]).unwrap().p, 2.0 / 400.0));
        let (low, high) = (&[1.0, 1.0, 1.0][..], &[9.0, 9.0, 9.0][..]);
        let none = compare(&[(low, low), (high, high)]).unwrap();
        assert!(near(none.p, 1.0) && near(none.superiority, 0.5), "{none:?}");
    }

    #[test]
    fn equal_values_share_their_ranks() {
        // Sums of the doubled ranks 2, 6, 6, 6 in twos: 8 or 12, three ways each.
        let ties = compare(&[(&[1.0, 2.0], &[2.0, 2.0])]).unwrap();
        assert!(near(ties.p, 1.0) && near(ties.superiority, 0.75), "{ties:?}");
        assert_eq!(compare(&[(&[], &[1.0])]), None);
        assert_eq!(compare(&[]), None);
    }
}
