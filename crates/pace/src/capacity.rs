//! The size of the redo log. It follows from how long recovery may take, which the user says, and
//! from how fast the engine replays redo, which is measured. The user does not configure a log
//! size.

use crate::constants::{
    LOG_CAPACITY_BYTES_MIN, LOG_REPLAY_BYTES_PER_S_GUESS, REPLAY_SEEN_BYTES_MIN, REPLAY_SEEN_SHARE,
};

/// A change of the log's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityChange {
    /// No change.
    Keep,
    /// Create segments until the log holds this much. If that fails, the old size stays.
    Grow(u64),
    /// Remove segments, as the checkpoint frees them, until the log holds this much.
    Shrink(u64),
}

/// Returns the capacity, in whole segments, with which recovery takes at most `recovery_target_us`.
///
/// A recovery may have to replay the whole log. Three quarters of the target are for that. The rest
/// is for opening, for reverting, and for a replay that is slower than the last ones were. Rounds
/// down.
#[must_use]
pub fn wanted(recovery_target_us: u64, replay_bytes_per_s: u64, segment_bytes: u64) -> u64 {
    let rate = if replay_bytes_per_s == 0 { LOG_REPLAY_BYTES_PER_S_GUESS } else { replay_bytes_per_s };
    let bytes = u128::from(rate) * u128::from(recovery_target_us) / 1_000_000 * 3 / 4;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).min(1 << 48);
    let whole = bytes / segment_bytes * segment_bytes;
    whole.max(LOG_CAPACITY_BYTES_MIN.next_multiple_of(segment_bytes))
}

/// Returns the step from the current to the wanted capacity.
///
/// Small differences are ignored, so that a replay rate that varies does not create and remove
/// segments all the time. A growth at most doubles the capacity, so that a user can watch the disk
/// fill.
#[must_use]
pub fn change(current: u64, wanted: u64, segment_bytes: u64) -> CapacityChange {
    if wanted > current + current / 4 {
        let doubled = current.saturating_mul(2).next_multiple_of(segment_bytes);
        CapacityChange::Grow(wanted.min(doubled.max(segment_bytes)))
    } else if wanted < current / 3 * 2 {
        CapacityChange::Shrink(wanted)
    } else {
        CapacityChange::Keep
    }
}

/// Learns the replay rate from recoveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayRate {
    bytes_per_s: f64,
}

impl ReplayRate {
    /// Starts with a rate that an earlier run stored; 0 if there is none.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Self {
        ReplayRate { bytes_per_s: bytes_per_s as f64 }
    }

    /// Takes a measurement: `bytes` bytes of redo were replayed in `took_us` microseconds. Less
    /// than a mebibyte is ignored.
    pub fn observe(&mut self, bytes: u64, took_us: u64) {
        if bytes < REPLAY_SEEN_BYTES_MIN {
            return;
        }
        let seen = bytes as f64 * 1e6 / took_us.max(1) as f64;
        let known = self.bytes_per_s * (1.0 - REPLAY_SEEN_SHARE);
        self.bytes_per_s = if self.bytes_per_s == 0.0 { seen } else { known + seen * REPLAY_SEEN_SHARE };
    }

    /// Returns the rate in bytes a second; 0 if it is unknown.
    #[must_use]
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const SEGMENT: u64 = 16 << 20;

    #[test]
    fn capacity_follows_the_target() {
        let mut out = String::new();
        for (ms, mb_per_s) in
            [(0, 250), (200, 250), (500, 0), (10_000, 0), (10_000, 80), (10_000, 900), (60_000, 250)]
        {
            let bytes = wanted(ms * 1000, mb_per_s * 1_000_000, SEGMENT);
            assert_eq!(bytes % SEGMENT, 0);
            out += &format!("{ms} ms at {mb_per_s:>3} MB/s: {:>6} MiB\n", bytes >> 20);
        }
        expect![[r#"
            0 ms at 250 MB/s:     64 MiB
            200 ms at 250 MB/s:     64 MiB
            500 ms at   0 MB/s:     80 MiB
            10000 ms at   0 MB/s:   1776 MiB
            10000 ms at  80 MB/s:    560 MiB
            10000 ms at 900 MB/s:   6432 MiB
            60000 ms at 250 MB/s:  10720 MiB
        "#]]
        .assert_eq(&out);
        assert_eq!(wanted(u64::MAX, u64::MAX, SEGMENT), 1 << 48);
    }

    #[test]
    fn changes_have_a_dead_zone_and_growth_doubles_at_most() {
        let mut out = String::new();
        let mut current = 64 << 20;
        for wanted_mib in [70, 80, 96, 2384, 2384, 2384, 2384, 2384, 2384, 2000, 1600, 1500, 1900, 64, 64] {
            let change = change(current, wanted_mib << 20, SEGMENT);
            out += &format!("{} MiB, wanted {wanted_mib:>5}: ", current >> 20);
            match change {
                CapacityChange::Keep => out += "keep\n",
                CapacityChange::Grow(to) => out += &format!("grow to {}\n", to >> 20),
                CapacityChange::Shrink(to) => out += &format!("shrink to {}\n", to >> 20),
            }
            if let CapacityChange::Grow(to) | CapacityChange::Shrink(to) = change {
                current = to;
            }
        }
        expect![[r#"
            64 MiB, wanted    70: keep
            64 MiB, wanted    80: keep
            64 MiB, wanted    96: grow to 96
            96 MiB, wanted  2384: grow to 192
            192 MiB, wanted  2384: grow to 384
            384 MiB, wanted  2384: grow to 768
            768 MiB, wanted  2384: grow to 1536
            1536 MiB, wanted  2384: grow to 2384
            2384 MiB, wanted  2384: keep
            2384 MiB, wanted  2000: keep
            2384 MiB, wanted  1600: keep
            2384 MiB, wanted  1500: shrink to 1500
            1500 MiB, wanted  1900: grow to 1900
            1900 MiB, wanted    64: shrink to 64
            64 MiB, wanted    64: keep
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn the_replay_rate_is_learnt() {
        let mut r = ReplayRate::new(0);
        r.observe(1000, 1);
        assert_eq!(r.bytes_per_s(), 0);
        r.observe(100 << 20, 1_000_000);
        assert_eq!(r.bytes_per_s(), 100 << 20);
        r.observe(200 << 20, 1_000_000);
        assert_eq!(r.bytes_per_s() >> 20, 130);
    }
}
