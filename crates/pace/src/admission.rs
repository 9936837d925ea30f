//! Admission: how long a row operation is delayed when the device is too slow for the writers
//! (Fl6).
//!
//! Let x be the position of the checkpoint age between the soft limit (0) and the hard limit (1),
//! and C the rate at which cleaning advances the checkpoint. New redo is admitted at the rate
//!
//! ```text
//! R(x) = C * (1 - x) / x
//! ```
//! Just above the soft limit there is practically no limit. Halfway it equals C, so under any load
//! the age comes to rest there. Towards the hard limit it falls to 0, so the age approaches the
//! limit but does not reach it, even if the device stops for ever. If the estimate of C is wrong by
//! a factor k, the age comes to rest at k / (k + 1) instead of a half: still below 1.
//!
//! The rate holds for all writers together. Each operation pays a price in time for its bytes, and
//! these times follow each other in one queue. So the number of threads does not matter, and no
//! writer is stopped while others pass.

use crate::constants::{
    ADMISSION_BELIEVED_US, ADMISSION_CLEAN_BYTES_PER_S_MIN, ADMISSION_DELAY_US_MAX, ADMISSION_DELAY_US_MIN,
    ADMISSION_PRICE_NS_MAX,
};

/// The state on which admission is based.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionView {
    /// Redo between the checkpoint LSN and the end of the log, with the redo that admitted
    /// operations may still write.
    pub age: u64,
    /// Above it operations are delayed.
    pub soft: u64,
    /// At it they wait.
    pub hard: u64,
    /// C: redo bytes a second by which cleaning advances the checkpoint. It is the slow average
    /// ([`crate::smoothed_rate::SmoothedRate::typical_per_second`] of the checkpoint LSN), passed
    /// through [`clean_rate`]. A quick average would repeat each wave of the redo rate in the next
    /// round of the log, and the waves would never end.
    pub clean_bytes_per_s: f64,
}

/// Returns the price of an operation with `redo_bytes` bytes of redo, in nanoseconds. It is 0 up to
/// the soft limit.
#[must_use]
pub fn price_ns(view: &AdmissionView, redo_bytes: u64) -> u64 {
    if view.age <= view.soft {
        return 0;
    }
    let room = view.hard.saturating_sub(view.soft).max(1) as f64;
    // The price stays finite at the hard limit and above it. There `must_wait` stops the operation.
    let x = ((view.age - view.soft) as f64 / room).min(0.9999);
    let clean = view.clean_bytes_per_s.max(ADMISSION_CLEAN_BYTES_PER_S_MIN);
    (redo_bytes as f64 * 1e9 * x / (clean * (1.0 - x))).min(ADMISSION_PRICE_NS_MAX) as u64
}

/// Returns C, from the measured rate (`typical`) and from the possible rate. The possible rate
/// follows from the pages that writers can clean a second, and the redo that a dirty page holds
/// back on average (`age` over `dirty_pages`).
///
/// After a quiet time the measured rate is small, because there was little to clean. Used as C, it
/// would nearly stop the first burst. Only half of the possible rate is used, so that an error by a
/// factor of two does no harm.
#[must_use]
pub fn clean_rate(typical: f64, pages_per_s: f64, age: u64, dirty_pages: u64) -> f64 {
    let could_be = pages_per_s * age as f64 / dirty_pages.max(1) as f64;
    typical.max(could_be / 2.0)
}

/// Returns C when the cleaner has reported nothing for `silent_us`. It may hang in one I/O on a
/// device that has stopped, and then it cannot report that the checkpoint does not advance. C falls
/// as the silence grows, so that a long silence admits no more than a few short ones.
#[must_use]
pub fn rate_after_silence(clean_bytes_per_s: f64, silent_us: u64) -> f64 {
    clean_bytes_per_s * ADMISSION_BELIEVED_US as f64 / silent_us.max(ADMISSION_BELIEVED_US) as f64
}

/// Whether an operation with `redo_bytes` bytes of redo must wait for the checkpoint. This is the
/// hard wait. It never happens while the governor works well.
#[must_use]
pub fn must_wait(view: &AdmissionView, redo_bytes: u64) -> bool {
    view.age.saturating_add(redo_bytes) > view.hard
}

/// The answer to an operation that asks to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It proceeds after `delay_us`; `next_ns` is stored for the next one.
    Admitted {
        /// How long it is delayed; 0 or at least `ADMISSION_DELAY_US_MIN`.
        delay_us: u64,
        /// When the next operation's time begins.
        next_ns: u64,
    },
    /// The queue is too long: the operation sleeps for `delay_us` and asks again. Nothing is
    /// stored.
    Retry {
        /// How long it sleeps.
        delay_us: u64,
    },
}

/// Queues an operation behind those before it. `next_ns` is the value that the last admitted one
/// stored (0 at first). Clock and queue count from the same time.
///
/// An operation waits until the time that the operations before it have paid for is over. Its own
/// price is added for the next one. So the rate is the same for any number of threads. Unused time
/// is not saved up. Below the soft limit there is no price.
#[must_use]
pub fn admit(next_ns: u64, now_us: u64, price_ns: u64) -> AdmissionDecision {
    let now_ns = now_us.saturating_mul(1000);
    if price_ns == 0 {
        return AdmissionDecision::Admitted { delay_us: 0, next_ns };
    }
    let start_ns = next_ns.max(now_ns);
    let delay_us = (start_ns - now_ns) / 1000;
    if delay_us > ADMISSION_DELAY_US_MAX {
        return AdmissionDecision::Retry { delay_us: ADMISSION_DELAY_US_MAX };
    }
    let delay_us = if delay_us < ADMISSION_DELAY_US_MIN { 0 } else { delay_us };
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
    fn the_price_is_continuous_and_grows_with_the_age() {
        let fine = |age| AdmissionView { age, soft: 750_000, hard: 1_000_000, clean_bytes_per_s: 2e7 };
        let mut last = 0;
        for age in 0..1_000_000 {
            let price = price_ns(&fine(age), 450);
            assert!(price >= last, "{age}");
            // Below 90 % of the way a millionth of the scale never changes the price by more than
            // 10 ns.
            assert!(age > 975_000 || price - last < 10, "{age}: {last} -> {price}");
            last = price;
        }
    }

    #[test]
    fn threads_share_one_rate() {
        // 1,000 operations at a price of 20 µs take 20 ms together, from any number of threads.
        let (mut next, mut last) = (0, 0);
        for _ in 0..=1000 {
            let AdmissionDecision::Admitted { delay_us, next_ns } = admit(next, 1_000, 20_000) else {
                panic!()
            };
            assert!(delay_us >= last);
            (next, last) = (next_ns, delay_us);
        }
        assert_eq!(last, 20_000);
        // Unused time is not saved up, and a short delay is left to the next operation.
        assert_eq!(
            admit(next, 1_000_000, 20_000),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_000_020_000 }
        );
        assert_eq!(
            admit(1_000_090_000, 1_000_000, 20_000),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_000_110_000 }
        );
        // Below the soft limit nothing is owed.
        assert_eq!(
            admit(1_040_000_000, 1_000_000, 0),
            AdmissionDecision::Admitted { delay_us: 0, next_ns: 1_040_000_000 }
        );
    }

    #[test]
    fn a_long_queue_asks_again_and_keeps_the_rate() {
        // Two threads at a price of 40 ms: together one operation every 40 ms.
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
    fn a_burst_after_a_quiet_time_does_not_look_like_a_slow_device() {
        // 5,000 I/Os/s of 4 pages; 20,000 dirty pages hold back 60 MB: 60 MB/s could be cleaned.
        assert_eq!(clean_rate(0.0, 20_000.0, 60_000_000, 20_000), 3e7);
        assert_eq!(clean_rate(5e7, 20_000.0, 60_000_000, 20_000), 5e7);
        assert_eq!(clean_rate(1.0, 20_000.0, 0, 0), 1.0);
    }

    #[test]
    fn the_rate_falls_while_the_cleaner_is_silent() {
        let seen: Vec<u64> = [0, 50_000, 100_000, 200_000, 1_000_000, 10_000_000]
            .iter()
            .map(|silent| rate_after_silence(5e7, *silent) as u64)
            .collect();
        assert_eq!(seen, [50_000_000, 50_000_000, 50_000_000, 25_000_000, 5_000_000, 500_000]);
    }

    #[test]
    fn operations_wait_only_at_the_hard_limit() {
        let mut v = view(99, 5.0);
        assert!(!must_wait(&v, 1));
        v.age = 100;
        assert!(must_wait(&v, 1));
    }
}
