//! The marks on the scale of the checkpoint age that follow from the redo capacity.
//!
//! ```text
//! 0 ............ target ...... soft ............ hard ...... capacity
//!   cleaning lags       leads       + admission       held back
//!                                     delays
//! ```
//! What lies between hard and capacity is never given to new operations: those already admitted, commits, rollback,
//! purge and hardening finish inside it, so nobody who holds a latch can find the log full.

/// The most redo one mini-transaction writes (Pa6).
pub const MTR_BYTES_MAX: u64 = 64 << 10;

/// Mini-transactions that one thread may still run after its operation was admitted: the row, two splits, a separator.
const MTRS_IN_FLIGHT_PER_THREAD: u64 = 4;

/// Marks on the scale of the checkpoint age, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Cleaning aims to keep the age here.
    pub target: u64,
    /// Above it admission delays operations.
    pub soft: u64,
    /// At it admission stops operations.
    pub hard: u64,
    /// What the segments hold.
    pub capacity: u64,
}

/// The marks for a capacity and the number of threads that may have an admitted operation at once.
///
/// A sixteenth is held back, or what the threads may need if that is more, but never more than a quarter: with a tiny
/// log and very many threads admission makes up for the difference by admitting fewer at a time.
#[must_use]
pub fn thresholds(capacity: u64, threads: u64) -> Thresholds {
    let in_flight = threads.saturating_mul(MTRS_IN_FLIGHT_PER_THREAD * MTR_BYTES_MAX);
    let held_back = (capacity / 16).max(in_flight).min(capacity / 4);
    let hard = capacity - held_back;
    Thresholds { target: hard / 10 * 6, soft: hard / 4 * 3, hard, capacity }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn marks() {
        let mut out = String::new();
        for (mib, threads) in [(64, 1), (64, 16), (64, 1000), (96, 16), (512, 16), (2560, 16), (2560, 1000)] {
            let t = thresholds(mib << 20, threads);
            assert!(t.target < t.soft && t.soft < t.hard && t.hard < t.capacity);
            out += &format!(
                "{mib} MiB, {threads:>4} threads: target {} soft {} hard {} MiB\n",
                t.target >> 20,
                t.soft >> 20,
                t.hard >> 20
            );
        }
        expect![[r#"
            64 MiB,    1 threads: target 36 soft 45 hard 60 MiB
            64 MiB,   16 threads: target 36 soft 45 hard 60 MiB
            64 MiB, 1000 threads: target 28 soft 36 hard 48 MiB
            96 MiB,   16 threads: target 54 soft 67 hard 90 MiB
            512 MiB,   16 threads: target 288 soft 360 hard 480 MiB
            2560 MiB,   16 threads: target 1440 soft 1800 hard 2400 MiB
            2560 MiB, 1000 threads: target 1386 soft 1732 hard 2310 MiB
        "#]]
        .assert_eq(&out);
    }
}
