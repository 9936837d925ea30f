//! How long a row operation is held at the door when the device cannot follow (Fl6).
//!
//! Let x be where the checkpoint age stands between the soft mark (0) and the hard mark (1), and C the rate at which
//! cleaning lets the checkpoint advance. New redo is admitted at the rate
//!
//! ```text
//! R(x) = C * (1 - x) / x
//! ```
//!
//! Just above the soft mark that is no limit at all; halfway it equals C, so there the age comes to rest under any
//! demand; towards the hard mark it falls to 0, so the age approaches the limit and does not reach it, even if the device
//! stops for good. If C is misjudged by a factor k the age rests at k / (k + 1) instead of a half: still below 1.
//!
//! The rate is enforced on all writers together: each operation buys its bytes' share of time, and the shares queue up
//! behind one another. The number of threads therefore does not matter, and nobody is stopped while others pass.

/// Below this rate C is not believed: a pause of the device must not let one operation pay for minutes.
const CLEAN_BYTES_PER_S_MIN: f64 = 512.0 * 1024.0;

/// The most that one operation pays.
const PRICE_NS_MAX: f64 = 1e9;

/// Shorter delays are not slept, because a sleep and a wake cost as much; what is owed stays and adds up for those who
/// come next.
pub const DELAY_US_MIN: u64 = 100;

/// The longest that an operation is held before it asks again, with the age of that moment.
pub const DELAY_US_MAX: u64 = 50_000;

/// What admission looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionView {
    /// Redo between the checkpoint LSN and the end of the log, credit of admitted operations included.
    pub age: u64,
    /// Above it operations are delayed.
    pub soft: u64,
    /// At it they wait.
    pub hard: u64,
    /// Redo bytes a second by which cleaning lets the checkpoint advance: the slow average
    /// ([`crate::smoothed_rate::SmoothedRate::typical_per_second`] of the checkpoint LSN) through [`clean_rate`]. A quick one would pass each wave of the
    /// redo rate on to the next round of the log, and the waves would never die down.
    pub clean_bytes_per_s: f64,
}

/// Time that an operation with so many redo bytes has to buy, in nanoseconds; 0 up to the soft mark.
#[must_use]
pub fn price_ns(view: &AdmissionView, redo_bytes: u64) -> u64 {
    if view.age <= view.soft {
        return 0;
    }
    let room = view.hard.saturating_sub(view.soft).max(1) as f64;
    // At and beyond the hard mark the price stays finite; `must_wait` rules there.
    let x = ((view.age - view.soft) as f64 / room).min(0.9999);
    let clean = view.clean_bytes_per_s.max(CLEAN_BYTES_PER_S_MIN);
    (redo_bytes as f64 * 1e9 * x / (clean * (1.0 - x))).min(PRICE_NS_MAX) as u64
}

/// C from what was measured (`typical`) and from what could be: the device's I/Os, the pages that each cleans, and the
/// redo that a dirty page holds back on average (`age` over `dirty_pages`).
///
/// After a quiet time little has been cleaned, because there was little to clean; taken for C, that would all but stop
/// the first burst. Half of what could be is believed, so that an error by two does no harm.
#[must_use]
pub fn clean_rate(typical: f64, ios_per_s: f64, pages_per_io: f64, age: u64, dirty_pages: u64) -> f64 {
    let could_be = ios_per_s * pages_per_io * age as f64 / dirty_pages.max(1) as f64;
    typical.max(could_be / 2.0)
}

/// For how long the last measured C is believed as it is.
const BELIEVED_US: u64 = 100_000;

/// C when the cleaner has said nothing for `silent_us`: it may be stuck in one I/O of a device that stopped, and then
/// nobody would ever tell that the checkpoint does not advance. What is believed falls as the silence grows, so that
/// no more is admitted in a long silence than in a few short ones.
#[must_use]
pub fn rate_after_silence(clean_bytes_per_s: f64, silent_us: u64) -> f64 {
    clean_bytes_per_s * BELIEVED_US as f64 / silent_us.max(BELIEVED_US) as f64
}

/// Whether an operation with so many redo bytes has to wait for the checkpoint: the hard wait, which a sound governor
/// never lets happen.
#[must_use]
pub fn must_wait(view: &AdmissionView, redo_bytes: u64) -> bool {
    view.age.saturating_add(redo_bytes) > view.hard
}

/// What becomes of an operation that asks to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It proceeds after `delay_us`; `next_ns` is stored for the next one.
    Admitted {
        /// How long it is held; 0 or at least [`DELAY_US_MIN`].
        delay_us: u64,
        /// When the next operation's time begins.
        next_ns: u64,
    },
    /// The queue is too long: it is held for `delay_us` and asks again. Nothing is stored.
    Retry {
        /// How long it is held.
        delay_us: u64,
    },
}

/// Queues an operation behind those before it. `next_ns` is what the last admitted one left (0 at first); clock and
/// queue count from the same moment.
///
/// An operation waits for what those before it bought and leaves its own price to the next: the sum of all prices is
/// kept whatever the number of threads, time that nobody used is not saved up, and below the soft mark nothing is owed.
#[must_use]
pub fn admit(next_ns: u64, now_us: u64, price_ns: u64) -> AdmissionDecision {
    let now_ns = now_us.saturating_mul(1000);
    if price_ns == 0 {
        return AdmissionDecision::Admitted { delay_us: 0, next_ns };
    }
    let start_ns = next_ns.max(now_ns);
    let delay_us = (start_ns - now_ns) / 1000;
    if delay_us > DELAY_US_MAX {
        return AdmissionDecision::Retry { delay_us: DELAY_US_MAX };
    }
    let delay_us = if delay_us < DELAY_US_MIN { 0 } else { delay_us };
    AdmissionDecision::Admitted { delay_us, next_ns: start_ns.saturating_add(price_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn view(percent: u64, clean_mb_per_s: f64) -> AdmissionView {
        AdmissionView { age: percent, soft: 75, hard: 100, clean_bytes_per_s: clean_mb_per_s * 1e6 }
    }

    #[test]
    fn the_price_of_a_row_change() {
        let mut out = String::from("age %   50 MB/s    5 MB/s   stopped   (µs for 450 bytes)\n");
        for percent in [50, 75, 76, 78, 80, 85, 87, 90, 95, 98, 99, 100, 120] {
            let p = |mb| price_ns(&view(percent, mb), 450) as f64 / 1e3;
            out += &format!("{percent:>5} {:>9.1} {:>9.1} {:>9.1}\n", p(50.0), p(5.0), p(0.0));
        }
        expect![[r#"
            age %   50 MB/s    5 MB/s   stopped   (µs for 450 bytes)
               50       0.0       0.0       0.0
               75       0.0       0.0       0.0
               76       0.4       3.8      35.8
               78       1.2      12.3     117.0
               80       2.2      22.5     214.6
               85       6.0      60.0     572.2
               87       8.3      83.1     792.3
               90      13.5     135.0    1287.5
               95      36.0     360.0    3433.2
               98     103.5    1035.0    9870.5
               99     216.0    2160.0   20599.4
              100   89991.0  899910.0 1000000.0
              120   89991.0  899910.0 1000000.0
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn price_is_continuous_and_grows_with_age() {
        let fine = |age| AdmissionView { age, soft: 750_000, hard: 1_000_000, clean_bytes_per_s: 2e7 };
        let mut last = 0;
        for age in 0..1_000_000 {
            let price = price_ns(&fine(age), 450);
            assert!(price >= last, "{age}");
            // Below 90 % of the way a millionth of the scale never changes the price by more than 10 ns.
            assert!(age > 975_000 || price - last < 10, "{age}: {last} -> {price}");
            last = price;
        }
    }

    #[test]
    fn threads_share_one_rate() {
        // Whoever asks, 1,000 operations at a price of 20 µs take 20 ms together.
        let (mut next, mut last) = (0, 0);
        for _ in 0..=1000 {
            let AdmissionDecision::Admitted { delay_us, next_ns } = admit(next, 1_000, 20_000) else {
                panic!()
            };
            assert!(delay_us >= last);
            (next, last) = (next_ns, delay_us);
        }
        assert_eq!(last, 20_000);
        // Time that nobody used is not saved up, and a short delay is left to the next.
        assert_eq!(
            admit(next, 1_000_000, 20_000),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_000_020_000 }
        );
        assert_eq!(
            admit(1_000_090_000, 1_000_000, 20_000),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_000_110_000 }
        );
        // Below the soft mark nothing is owed.
        assert_eq!(
            admit(1_040_000_000, 1_000_000, 0),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_040_000_000 }
        );
    }

    #[test]
    fn a_long_queue_asks_again_and_keeps_the_rate() {
        // Two threads at a price of 40 ms: one operation every 40 ms, whoever it is.
        let (mut next, mut admitted) = (0, 0);
        let mut wake = [0u64; 2];
        while let Some(me) = (0..2).min_by_key(|i| wake[*i]).filter(|i| wake[*i] < 4_000_000) {
            match admit(next, wake[me], 40_000_000) {
                AdmissionDecision::Admitted { delay_us, next_ns } => {
                    admitted += 1;
                    next = next_ns;
                    wake[me] += delay_us;
                }
                AdmissionDecision::Retry { delay_us } => wake[me] += delay_us,
            }
        }
        assert!((98..=103).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_burst_after_silence_is_not_taken_for_a_slow_device() {
        // 5,000 I/Os/s of 4 pages; 20,000 dirty pages hold back 60 MB: 60 MB/s could be cleaned.
        assert_eq!(clean_rate(0.0, 5000.0, 4.0, 60_000_000, 20_000), 3e7);
        assert_eq!(clean_rate(5e7, 5000.0, 4.0, 60_000_000, 20_000), 5e7);
        assert_eq!(clean_rate(1.0, 5000.0, 4.0, 0, 0), 1.0);
    }

    #[test]
    fn silence_is_believed_less_and_less() {
        let seen: Vec<u64> = [0, 50_000, 100_000, 200_000, 1_000_000, 10_000_000]
            .iter()
            .map(|silent| rate_after_silence(5e7, *silent) as u64)
            .collect();
        assert_eq!(seen, [50_000_000, 50_000_000, 50_000_000, 25_000_000, 5_000_000, 500_000]);
    }

    #[test]
    fn hard_wait_only_at_the_limit() {
        let mut v = view(99, 5.0);
        assert!(!must_wait(&v, 1));
        v.age = 100;
        assert!(must_wait(&v, 1));
    }
}
