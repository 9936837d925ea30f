//! When a server has settled after a change: pure.

use super::measure::{age, mean, transactions};
use output::samples::Samples;

/// It waits for a third of a block, and at least and at most so many seconds.
const LEAST_S: (u64, u64) = (2, 20);
/// Transactions a second that differ by less than this part stand.
const TRANSACTIONS: f64 = 0.1;
/// So does an age that differs by less, percent of its limit.
const AGE: f64 = 5.0;

/// Returns the least time to wait before a block of so many seconds, seconds.
pub(super) fn least_s(block_s: u64) -> u64 {
    (block_s / 3).clamp(LEAST_S.0, LEAST_S.1)
}

/// Returns whether a server has settled: the last half of the least time is like the half before,
/// or a whole block has passed.
pub(super) fn is_settled(samples: &Samples, block_s: u64) -> bool {
    let (passed, least) = (samples.end(), least_s(block_s));
    if passed < least as f64 {
        return false;
    }
    let half = (least / 2).max(1) as usize;
    let [transactions, ages] = [transactions(samples), age(samples)].map(|all| halves(&all, half));
    let stands = transactions.is_none_or(|(before, after)| (after - before).abs() <= TRANSACTIONS * before)
        && ages.is_none_or(|(before, after)| (after - before).abs() <= AGE);
    stands || passed >= (least + block_s) as f64
}

/// Returns the averages of the last `half` values and of those before them.
fn halves(all: &[f64], half: usize) -> Option<(f64, f64)> {
    let last = all.len().checked_sub(half)?;
    let first = last.checked_sub(half)?;
    Some((mean(&all[first..last]), mean(&all[last..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::samples::ColumnKind::Counter;

    fn samples(rates: &[f64]) -> Samples {
        let (mut samples, mut commits) = (Samples::new(), 1.0);
        for (second, rate) in [0.0].iter().chain(rates).enumerate() {
            commits += rate;
            samples.push(second as f64, vec![("commits".into(), "count", Counter, commits)]);
        }
        samples
    }

    #[test]
    fn it_waits_until_nothing_changes_but_no_longer_than_a_block() {
        let settled = |rates: &[f64]| is_settled(&samples(rates), 12);
        assert_eq!(least_s(12), 4);
        assert!(!settled(&[100.0; 3]), "too soon");
        assert!(settled(&[100.0; 4]));
        assert!(!settled(&[50.0, 50.0, 100.0, 100.0]), "it still changes");
        assert!(settled(&[50.0, 50.0, 100.0, 100.0, 100.0, 100.0]));
        let grows: Vec<f64> = (0..16).map(|n| f64::from(1 << n)).collect();
        assert!(!settled(&grows[..15]) && settled(&grows), "it never stands");
        assert!(settled(&[0.0; 4]), "a load that has ended");
    }
}
