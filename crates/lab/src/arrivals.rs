//! When transactions start at a rate of their own: as users come, at random and independent of each
//! other (a Poisson process), now and then in bursts.

use base::prng::Prng;
use std::time::Duration;

/// The part of a period that a burst takes.
const BURST_SHARE: f64 = 0.1;

/// Bursts: every `every`, for a tenth of that time, starts come `factor` times as often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Burst {
    /// How many times as often.
    pub(crate) factor: f64,
    /// From the begin of a burst to the begin of the next one.
    pub(crate) every: Duration,
}

impl Burst {
    /// Reads `2x/10s`: twice as often, every ten seconds.
    pub(crate) fn parse(text: &str) -> Result<Burst, String> {
        let wrong =
            || format!("{text:?} is no burst, which is written as 2x/10s: twice the rate, every 10 s");
        let (factor, every) = text.split_once("x/").ok_or_else(wrong)?;
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        let every = output::units::parse_duration(every).map_err(|_| wrong())?;
        if !(1.0..=1000.0).contains(&factor) || every.is_zero() {
            return Err("a burst is 1 to 1000 times the rate, and its period is not 0".to_owned());
        }
        Ok(Burst { factor, every })
    }
}

/// The intended starts of a run, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    rng: Prng,
    /// Starts a second outside of bursts.
    rate: f64,
    burst: Option<Burst>,
    /// The last start, seconds since the begin.
    last: f64,
}

impl Arrivals {
    /// Makes starts of `rate` a second.
    pub(crate) fn new(rate: f64, burst: Option<Burst>, seed: u64) -> Arrivals {
        Arrivals { rng: Prng::new(seed), rate, burst, last: 0.0 }
    }

    /// Returns the time of the next start since the begin.
    pub(crate) fn next(&mut self) -> Duration {
        // A number in (0, 1], so its logarithm is finite.
        let unit = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        // How many starts of a steady second the gap is worth.
        let mut left = -unit.ln() / self.rate;
        loop {
            let (factor, until) = self.part();
            let reached = self.last + left / factor;
            if reached <= until {
                self.last = reached;
                return Duration::from_secs_f64(self.last);
            }
            left -= (until - self.last) * factor;
            self.last = until;
        }
    }

    /// Returns by how much starts come more often at the last start, and when that ends.
    fn part(&self) -> (f64, f64) {
        let Some(burst) = self.burst else { return (1.0, f64::INFINITY) };
        let every = burst.every.as_secs_f64();
        let period = (self.last / every).floor();
        let end_of_burst = (period + BURST_SHARE) * every;
        if self.last < end_of_burst { (burst.factor, end_of_burst) } else { (1.0, (period + 1.0) * every) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the starts in each tenth of the periods of 10 s, over 1,000 s.
    fn tenths(burst: Option<Burst>) -> [f64; 10] {
        let mut arrivals = Arrivals::new(200.0, burst, 7);
        let mut counts = [0.0; 10];
        loop {
            let at = arrivals.next().as_secs_f64();
            if at >= 1000.0 {
                return counts;
            }
            counts[(at % 10.0) as usize % 10] += 1.0;
        }
    }

    #[test]
    fn starts_have_the_rate_that_was_asked_for() {
        for count in tenths(None) {
            // 20,000 are expected, give or take 141.
            assert!((19_400.0..20_600.0).contains(&count), "{count}");
        }
    }

    #[test]
    fn a_burst_is_a_tenth_of_its_period() {
        let counts = tenths(Some(Burst { factor: 3.0, every: Duration::from_secs(10) }));
        assert!((58_900.0..61_100.0).contains(&counts[0]), "{counts:?}");
        assert!(counts[1..].iter().all(|count| (19_400.0..20_600.0).contains(count)), "{counts:?}");
    }

    #[test]
    fn gaps_are_random_and_starts_ascend() {
        let mut arrivals = Arrivals::new(1000.0, None, 1);
        let starts: Vec<Duration> = (0..10_000).map(|_| arrivals.next()).collect();
        assert!(starts.is_sorted());
        let short = starts.windows(2).filter(|pair| pair[1] - pair[0] < Duration::from_micros(100)).count();
        // Of exponential gaps with a mean of 1 ms, 9.5 % are shorter than 0.1 ms.
        assert!((800..1100).contains(&short), "{short}");
    }

    #[test]
    fn bursts_are_read() {
        assert_eq!(Burst::parse("2x/10s"), Ok(Burst { factor: 2.0, every: Duration::from_secs(10) }));
        for text in ["", "2", "2x", "x/10s", "0.5x/10s", "2x/0s", "2x/ten"] {
            assert!(Burst::parse(text).is_err(), "{text}");
        }
    }
}
