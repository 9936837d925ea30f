//! When a sample is due, and whether it is late: at whole seconds, so that samples of several
//! machines fit together.

const SECOND_US: u64 = 1_000_000;
/// A sample that is complete later than this after its second is marked.
const LATE_US: u64 = 100_000;

/// Returns the next whole second.
pub(crate) fn next_second(now_us: u64) -> u64 {
    (now_us / SECOND_US + 1) * SECOND_US
}

/// Returns by how many milliseconds a sample is late; `None` if it is not.
pub(super) fn late_ms(due_us: u64, done_us: u64) -> Option<u64> {
    let late = done_us.saturating_sub(due_us);
    (late > LATE_US).then_some(late / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_due_at_whole_seconds() {
        assert_eq!(next_second(5_000_000), 6_000_000);
        assert_eq!(next_second(5_999_999), 6_000_000);
        // A second that passed during a slow answer is left out, not made up for.
        assert_eq!(next_second(9_300_000), 10_000_000);
    }

    #[test]
    fn late_samples_are_marked() {
        assert_eq!(late_ms(6_000_000, 6_100_000), None);
        assert_eq!(late_ms(6_000_000, 6_350_000), Some(350));
        // The clock was set back.
        assert_eq!(late_ms(6_000_000, 5_000_000), None);
    }
}
