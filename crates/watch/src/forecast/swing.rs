//! An age that stands above its soft limit: how soon one of its swings touches the limit.
//!
//! The flushing holds the age there, and the checkpoint moves in steps. So the age swings around
//! its mean. The readings are taken as if each were drawn anew from a normal distribution.

use std::collections::VecDeque;

/// Readings that the mean is taken from.
const READINGS: usize = 15;
/// How many of them there must be.
const LEAST: usize = 8;
/// A chance of less than this a second is none.
const LEAST_CHANCE: f64 = 0.01;

/// The last readings above the soft limit, in parts of the limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Swing {
    shares: VecDeque<f64>,
}

impl Swing {
    /// Takes a reading; `None` ends the time above the soft limit.
    pub(super) fn take(&mut self, share: Option<f64>) {
        let Some(share) = share else { return self.shares.clear() };
        if self.shares.len() == READINGS {
            self.shares.pop_front();
        }
        self.shares.push_back(share);
    }

    /// Returns after how many seconds a reading is expected to be as high as this.
    pub(super) fn seconds_to(&self, share: f64) -> Option<f64> {
        if self.shares.len() < LEAST {
            return None;
        }
        let n = self.shares.len() as f64;
        let mean = self.shares.iter().sum::<f64>() / n;
        let spread = (self.shares.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / n).sqrt();
        let chance = if spread > 0.0 { chance_above((share - mean) / spread) } else { 0.0 };
        (chance > LEAST_CHANCE).then(|| 1.0 / chance)
    }
}

/// Returns the chance that a value of a normal distribution lies so many deviations above the mean,
/// to four digits (Abramowitz and Stegun, 26.2.16).
fn chance_above(deviations: f64) -> f64 {
    let x = deviations.abs();
    let t = 1.0 / (1.0 + 0.332_67 * x);
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let tail = density * (0.436_183_6 * t - 0.120_167_6 * t * t + 0.937_298_0 * t.powi(3));
    if deviations < 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_the_table() {
        for (deviations, chance) in [(0.0, 0.5), (1.0, 0.1587), (2.0, 0.0228), (-1.0, 0.8413), (3.0, 0.0013)]
        {
            assert!((chance_above(deviations) - chance).abs() < 1e-4, "{deviations}");
        }
    }

    #[test]
    fn a_wide_swing_touches_the_limit_and_a_narrow_one_does_not() {
        let after = |low: f64, high: f64| {
            let mut swing = Swing::default();
            (0..20).for_each(|i| swing.take(Some(if i % 2 == 0 { low } else { high })));
            swing.seconds_to(0.99).map(f64::round)
        };
        assert_eq!(after(0.93, 0.95), None);
        assert_eq!(after(0.90, 0.97), Some(15.0));
        let mut swing = Swing::default();
        (0..7).for_each(|_| swing.take(Some(0.98)));
        assert_eq!(swing.seconds_to(0.97), None, "too few readings");
        swing.take(None);
        assert!(swing.shares.is_empty());
    }
}
