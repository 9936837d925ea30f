//! The marks on the scale of the checkpoint age. They follow from the redo capacity.
//!
//! ```text
//! 0 ............ target ...... soft ............ hard ...... capacity
//!   cleaning lags       leads       + admission       held back
//!                                     delays
//! ```
//! The redo between the hard mark and the capacity is never given to new operations. Admitted
//! operations, commits, rollback, purge and hardening use it to finish. So a thread that holds a
//! latch never finds the log full.

/// The most redo that one mini-transaction writes (Pa6).
const MTR_BYTES_MAX: u64 = 64 << 10;

/// The most mini-transactions that one thread may still run after its operation was admitted: the
/// row change, two splits, a separator.
const MTRS_IN_FLIGHT_PER_THREAD: u64 = 4;

/// Marks on the scale of the checkpoint age, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Cleaning keeps the age near this mark.
    pub target: u64,
    /// Above it admission delays operations.
    pub soft: u64,
    /// At it admission stops operations.
    pub hard: u64,
    /// The redo that the segments hold.
    pub capacity: u64,
}

/// Returns the marks for a capacity and for the number of threads that may have an admitted
/// operation at the same time.
///
/// A sixteenth of the capacity is held back, or what the threads may need if that is more, but at
/// most a quarter. With a tiny log and very many threads a quarter may be too little; then
/// admission admits fewer operations at a time.
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
