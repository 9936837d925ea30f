//! When the pages file grows ahead of need. A caller that needs an extent then finds a free one and
//! need not write zeros first.

use crate::constants::{
    GROWTH_AHEAD_S, GROWTH_KEPT_STEP_PART, GROWTH_KEPT_STEPS_MAX, GROWTH_LEAST_FILE_PART,
    GROWTH_MOST_FILE_PART, GROWTH_SLICE_PART,
};

/// Returns the free space to keep, bytes, when `consumed_per_s` bytes a second are consumed of a
/// file of `file` bytes that grows by `step` bytes.
#[must_use]
pub fn space_to_keep(consumed_per_s: f64, step: u64, file: u64) -> u64 {
    let most =
        (step * GROWTH_KEPT_STEPS_MAX).min((file / GROWTH_MOST_FILE_PART).max(step / GROWTH_KEPT_STEP_PART));
    let least =
        (step / GROWTH_KEPT_STEP_PART).min((file / GROWTH_LEAST_FILE_PART).max(step / GROWTH_SLICE_PART));
    ((consumed_per_s * GROWTH_AHEAD_S) as u64).clamp(least, most)
}

/// Returns how much one growth writes, bytes: an eighth of a step, so that a caller that waits for
/// it waits only so long; but at least `least`, because each growth ends with a sync.
#[must_use]
pub fn slice_bytes(step: u64, least: u64) -> u64 {
    (step / GROWTH_SLICE_PART).max(least.min(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    const MIB: u64 = 1 << 20;

    /// Simulates phases of (milliseconds, MiB/s consumed) on a device that writes `zeros` MiB/s of
    /// zeros. Prints for each phase the free space at its end, the least free space in it, how much
    /// the file grew, and how long consumers found no free space.
    fn run(zeros: u64, phases: &[(u64, u64)]) -> String {
        let (step, mut rate) = (64 * MIB, crate::smoothed_rate::SmoothedRate::new());
        let slice = slice_bytes(step, 2 * MIB);
        let (mut free, mut total, mut now_us, mut out) = (8 * MIB, 0, 0, String::new());
        // Bytes of the present slice that are still to be written.
        let mut under_way = 0u64;
        for &(ms, consumed) in phases {
            let (mut least, mut grown, mut dry_ms) = (u64::MAX, 0, 0);
            for _ in 0..ms {
                now_us += 1000;
                let wanted = consumed * MIB / 1000;
                let taken = wanted.min(free);
                dry_ms += u64::from(taken < wanted);
                (free, total) = (free - taken, total + taken);
                rate.update(now_us, total);
                if under_way == 0 && free < space_to_keep(rate.per_second(), step, 1 << 40) {
                    under_way = slice;
                }
                if under_way > 0 {
                    under_way = under_way.saturating_sub(zeros * MIB / 1000);
                    if under_way == 0 {
                        (free, grown) = (free + slice, grown + slice);
                    }
                }
                least = least.min(free);
            }
            let mib = |bytes: u64| bytes / MIB;
            writeln!(
                out,
                "{ms} ms at {consumed} MiB/s: free {}, least {}, grown {}, dry for {dry_ms} ms",
                mib(free),
                mib(least),
                mib(grown)
            )
            .unwrap();
        }
        out
    }

    #[test]
    fn consumers_find_free_space_on_a_device_that_can_follow() {
        expect![[r#"
            500 ms at 0 MiB/s: free 16, least 8, grown 8, dry for 0 ms
            2000 ms at 20 MiB/s: free 24, least 15, grown 48, dry for 0 ms
            3000 ms at 300 MiB/s: free 260, least 21, grown 1136, dry for 0 ms
            3000 ms at 0 MiB/s: free 260, least 260, grown 0, dry for 0 ms
            50 ms at 800 MiB/s: free 220, least 220, grown 0, dry for 0 ms
        "#]]
        .assert_eq(&run(1000, &[(500, 0), (2000, 20), (3000, 300), (3000, 0), (50, 800)]));
    }

    #[test]
    fn a_slow_device_writes_all_the_time_and_consumers_wait_for_a_slice_at_most() {
        expect![[r#"
            500 ms at 0 MiB/s: free 16, least 8, grown 8, dry for 0 ms
            2000 ms at 80 MiB/s: free 48, least 9, grown 192, dry for 0 ms
            2000 ms at 300 MiB/s: free 0, least 0, grown 200, dry for 1188 ms
            1000 ms at 0 MiB/s: free 64, least 0, grown 64, dry for 0 ms
        "#]]
        .assert_eq(&run(100, &[(500, 0), (2000, 80), (2000, 300), (1000, 0)]));
    }

    #[test]
    fn sizes() {
        let kept = |file| [0.0, 1e12].map(|rate| space_to_keep(rate, 64 * MIB, file) / MIB);
        assert_eq!([64 * MIB, 640 * MIB, 6400 * MIB].map(kept), [[8, 16], [10, 40], [16, 256]]);
        assert_eq!(
            (slice_bytes(64 * MIB, 2 * MIB), slice_bytes(4 * MIB, 2 * MIB), slice_bytes(MIB, 2 * MIB)),
            (8 * MIB, 2 * MIB, MIB)
        );
    }
}
