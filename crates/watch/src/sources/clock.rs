//! The time of day of samples. It never goes back: a clock that is set back would end a collection,
//! or give the same second twice.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Microseconds since 1970, and how far the clock of the machine is behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The time.
    pub(crate) us: u64,
    /// By how much the clock was set back since the first look.
    pub(crate) behind_us: u64,
}

/// Makes a time that never goes back of a clock that may, and of one that only measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steady {
    /// The time of day less the measured time: the greatest that was seen.
    ahead_us: Option<u64>,
}

impl Steady {
    /// Returns the time of a moment. Where the clock was set forward, the time follows it; where it
    /// was set back, the time goes on as it would have without that.
    ///
    /// REQUIRES: `measured_us` is read after `unix_us`, so that a delay between the two is no step.
    pub(crate) fn at(&mut self, unix_us: u64, measured_us: u64) -> Now {
        let ahead = unix_us.saturating_sub(measured_us);
        let most = self.ahead_us.map_or(ahead, |before| before.max(ahead));
        self.ahead_us = Some(most);
        let us = measured_us.saturating_add(most).max(unix_us);
        Now { us, behind_us: us - unix_us }
    }
}

/// Returns the time. Within the process it never goes back.
pub(crate) fn now() -> Now {
    static CLOCK: Mutex<Option<(Instant, Steady)>> = Mutex::new(None);
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let (began, steady) = clock.get_or_insert_with(|| (Instant::now(), Steady::default()));
    steady.at(output::units::now_us(), u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX))
}

/// Returns the time of day, microseconds since 1970. It never goes back.
pub(crate) fn now_us() -> u64 {
    now().us
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A collection wrote nothing, without a word, until a clock that was set back had come to its
    /// last sample again.
    #[test]
    fn the_time_never_goes_back_and_follows_a_step_forward() {
        let hour = 3_600_000_000;
        let mut steady = Steady::default();
        let table = [
            // The clock, measured, the time, behind.
            (10_000_000, 5, 10_000_000, 0),
            (11_000_000, 1_000_005, 11_000_000, 0),
            // Read late.
            (12_000_000, 2_000_900, 12_000_895, 895),
            (13_000_000, 3_000_005, 13_000_000, 0),
            // An hour back.
            (14_000_000 + hour, 4_000_005, 14_000_000 + hour, 0),
            (15_000_000, 5_000_005, 15_000_000 + hour, hour),
            (16_000_000, 6_000_005, 16_000_000 + hour, hour),
            // Set right again.
            (17_000_000 + 2 * hour, 7_000_005, 17_000_000 + 2 * hour, 0),
            (18_000_000 + 2 * hour, 8_000_005, 18_000_000 + 2 * hour, 0),
            // Before 1970.
            (0, 9_000_005, 19_000_000 + 2 * hour, 19_000_000 + 2 * hour),
        ];
        for (unix_us, measured_us, us, behind_us) in table {
            assert_eq!(steady.at(unix_us, measured_us), Now { us, behind_us }, "{unix_us}");
        }
        assert_eq!(
            Steady::default().at(3, 5),
            Now { us: 5, behind_us: 2 },
            "a clock at the beginning of 1970"
        );
    }
}
