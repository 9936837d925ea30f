//! The limits on the scale of the checkpoint age. They follow from the redo capacity.
//!
//! ```text
//! 0 ............ target ...... soft ............ hard ...... capacity
//!   cleaning lags       leads       + admission       held back
//!                                     delays
//! ```
//! The redo between the hard limit and the capacity is never given to new operations. Admitted
//! operations, commits, rollback, purge and hardening use it to finish. So a thread that holds a
//! latch never finds the log full.

use crate::constants::{ADMISSION_MTRS_A_THREAD, ADMISSION_SOFT_ROOM_BYTES, MTR_REDO_BYTES_MAX};

/// Limits on the scale of the checkpoint age, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeLimits {
    /// Cleaning keeps the age near this limit.
    pub target: u64,
    /// Above it admission delays operations.
    pub soft: u64,
    /// At it admission stops operations.
    pub hard: u64,
    /// The redo that the segments hold.
    pub capacity: u64,
}

/// Returns the limits for a capacity and for the number of threads that may have an admitted
/// operation at the same time.
///
/// A sixteenth of the capacity is held back, or what the threads may need if that is more, but at
/// most a quarter. With a tiny log and very many threads a quarter may be too little; then
/// admission admits fewer operations at a time.
///
/// The nearer the target is to the hard limit, the fewer times a page is written (decision 0174).
/// It is seven tenths of the hard limit. A log below about 13 MiB has a lower soft limit than
/// others, and the target keeps its distance from that.
#[must_use]
pub fn age_limits(capacity: u64, threads: u64) -> AgeLimits {
    let in_flight = threads.saturating_mul(ADMISSION_MTRS_A_THREAD * MTR_REDO_BYTES_MAX);
    let held_back = (capacity / 16).max(in_flight).min(capacity / 4);
    let hard = capacity - held_back;
    let room = (hard / 20 * 3).max(ADMISSION_SOFT_ROOM_BYTES).min(hard / 4);
    let soft = hard - room;
    AgeLimits { target: (hard / 10 * 7).min(soft / 6 * 5), soft, hard, capacity }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn limits() {
        let mut out = String::new();
        for (mib, threads) in [
            (1, 1),
            (8, 4),
            (16, 4),
            (32, 16),
            (64, 1),
            (64, 16),
            (64, 1000),
            (96, 16),
            (512, 16),
            (2560, 16),
            (2560, 1000),
        ] {
            let t = age_limits(mib << 20, threads);
            assert!(t.target < t.soft && t.soft < t.hard && t.hard < t.capacity);
            out += &format!(
                "{mib} MiB, {threads:>4} threads: target {} soft {} hard {} MiB\n",
                t.target >> 20,
                t.soft >> 20,
                t.hard >> 20
            );
        }
        expect![[r#"
            1 MiB,    1 threads: target 0 soft 0 hard 0 MiB
            8 MiB,    4 threads: target 4 soft 5 hard 7 MiB
            16 MiB,    4 threads: target 10 soft 12 hard 15 MiB
            32 MiB,   16 threads: target 19 soft 23 hard 28 MiB
            64 MiB,    1 threads: target 42 soft 51 hard 60 MiB
            64 MiB,   16 threads: target 42 soft 51 hard 60 MiB
            64 MiB, 1000 threads: target 33 soft 40 hard 48 MiB
            96 MiB,   16 threads: target 63 soft 76 hard 90 MiB
            512 MiB,   16 threads: target 336 soft 408 hard 480 MiB
            2560 MiB,   16 threads: target 1680 soft 2040 hard 2400 MiB
            2560 MiB, 1000 threads: target 1617 soft 1963 hard 2310 MiB
        "#]]
        .assert_eq(&out);
    }
}
