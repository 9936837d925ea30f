//! The greatest useful length of the log. A longer log saves page writes: if a page changes several
//! times before the checkpoint must pass its redo, it is written once for all of these changes. But
//! if the log is already a few times as long as the pages that change, page writes are a small part
//! of all writes. More log would then only take disk space, and time of recovery.

use crate::constants::{LOG_HELPFUL_BYTES_MIN, LOG_HELPFUL_LOWER_AFTER_US, LOG_HELPFUL_TIMES_DIRTY};

/// Follows the dirty pages.
#[derive(Clone, Copy, Debug)]
pub struct HelpfulLog {
    bytes: u64,
    /// Since when less than half was enough, and the most that was needed since.
    low: Option<(u64, u64)>,
}

impl HelpfulLog {
    /// Begins with the least.
    #[must_use]
    pub fn new() -> HelpfulLog {
        HelpfulLog { bytes: LOG_HELPFUL_BYTES_MIN, low: None }
    }

    /// Takes a measurement: pages of so many bytes are dirty now. Returns the greatest useful
    /// length of the log, bytes.
    pub fn update(&mut self, now_us: u64, dirty_bytes: u64) -> u64 {
        let wanted = dirty_bytes.saturating_mul(LOG_HELPFUL_TIMES_DIRTY).max(LOG_HELPFUL_BYTES_MIN);
        if wanted >= self.bytes / 2 {
            *self = HelpfulLog { bytes: self.bytes.max(wanted), low: None };
            return self.bytes;
        }
        let (since, most) = self.low.unwrap_or((now_us, 0));
        let most = most.max(wanted);
        self.low = Some((since, most));
        if now_us.saturating_sub(since) >= LOG_HELPFUL_LOWER_AFTER_US {
            *self = HelpfulLog { bytes: most, low: None };
        }
        self.bytes
    }
}

impl Default for HelpfulLog {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    /// Each pair is a time in seconds and the MiB of dirty pages from then on, measured each
    /// second.
    #[test]
    fn follows_the_dirty_pages() {
        let script = [(0, 0), (1, 10), (2, 100), (3, 230), (10, 150), (100, 230), (101, 40), (130, 230)];
        let script = script.into_iter().chain([(131, 40), (150, 60), (151, 20), (250, 0), (330, 300)]);
        let points: Vec<(u64, u64)> = script.collect();
        let (mut log, mut out) = (HelpfulLog::new(), String::new());
        for (n, &(from, dirty)) in points.iter().enumerate() {
            let to = points.get(n + 1).map_or(from + 1, |next| next.0);
            let mut bytes = 0;
            for second in from..to {
                bytes = log.update(second * 1_000_000, dirty << 20);
            }
            out += &format!("{from:>3} to {to:>3} s, {dirty:>3} MiB dirty: {:>4} MiB\n", bytes >> 20);
        }
        expect![[r#"
              0 to   1 s,   0 MiB dirty:  256 MiB
              1 to   2 s,  10 MiB dirty:  256 MiB
              2 to   3 s, 100 MiB dirty:  400 MiB
              3 to  10 s, 230 MiB dirty:  920 MiB
             10 to 100 s, 150 MiB dirty:  920 MiB
            100 to 101 s, 230 MiB dirty:  920 MiB
            101 to 130 s,  40 MiB dirty:  920 MiB
            130 to 131 s, 230 MiB dirty:  920 MiB
            131 to 150 s,  40 MiB dirty:  920 MiB
            150 to 151 s,  60 MiB dirty:  920 MiB
            151 to 250 s,  20 MiB dirty:  256 MiB
            250 to 330 s,   0 MiB dirty:  256 MiB
            330 to 331 s, 300 MiB dirty: 1200 MiB
        "#]]
        .assert_eq(&out);
        assert_eq!(HelpfulLog::new().update(0, u64::MAX), u64::MAX);
    }
}
