//! How far the replay of redo has come, and how long the rest will take.

use crate::constants::REPLAY_ENOUGH_SHARE;

/// What is known at a moment of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayView {
    /// Redo that there was to replay.
    pub redo_bytes: u64,
    /// Redo that is left.
    pub left_bytes: u64,
    /// Since replay began.
    pub elapsed_us: u64,
    /// The rate of earlier recoveries, bytes a second; 0 if there was none.
    pub usual_bytes_per_s: u64,
}

/// How far the replay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayProgress {
    /// From 0 to 100; 100 only if nothing is left.
    pub percent: u64,
    /// Rounded up; `None` if nothing says how fast replay is.
    pub seconds_left: Option<u64>,
}

/// Returns how far the replay has come, and how long the rest will take: at its own speed, or, at
/// its beginning, at the speed of earlier recoveries.
#[must_use]
pub fn replay_progress(view: ReplayView) -> ReplayProgress {
    let left = view.left_bytes.min(view.redo_bytes);
    if left == 0 {
        return ReplayProgress { percent: 100, seconds_left: Some(0) };
    }
    let done = view.redo_bytes - left;
    let share = done as f64 / view.redo_bytes as f64;
    let own = done as f64 * 1e6 / view.elapsed_us.max(1) as f64;
    let usual = view.usual_bytes_per_s as f64;
    let rate = if share >= REPLAY_ENOUGH_SHARE || usual == 0.0 { own } else { usual };
    let seconds_left = (rate > 0.0).then(|| (left as f64 / rate).ceil() as u64);
    ReplayProgress { percent: (100.0 * share) as u64, seconds_left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    #[test]
    fn a_replay_first_trusts_earlier_ones_and_then_its_own_speed() {
        let mut out = String::new();
        for (redo, left, ms, usual) in [
            (1000, 1000, 0, 0),
            (1000, 1000, 500, 250),
            (1000, 990, 400, 250),
            (1000, 990, 400, 0),
            (1000, 900, 400, 100),
            (1000, 400, 3000, 250),
            (1000, 1, 5000, 250),
            (1000, 0, 5000, 250),
            (0, 0, 0, 0),
            (10, 20, 100, 0),
        ] {
            let [redo_bytes, left_bytes, usual_bytes_per_s] = [redo, left, usual].map(|mb| mb * 1_000_000);
            let view = ReplayView { redo_bytes, left_bytes, elapsed_us: ms * 1000, usual_bytes_per_s };
            let ReplayProgress { percent, seconds_left } = replay_progress(view);
            let left_s = seconds_left.map_or("?".into(), |s| s.to_string());
            writeln!(out, "{left:>4} of {redo:>4} MB after {ms:>4} ms, usually {usual:>3} MB/s: {percent:>3} %, {left_s} s left").unwrap();
        }
        expect![[r#"
            1000 of 1000 MB after    0 ms, usually   0 MB/s:   0 %, ? s left
            1000 of 1000 MB after  500 ms, usually 250 MB/s:   0 %, 4 s left
             990 of 1000 MB after  400 ms, usually 250 MB/s:   1 %, 4 s left
             990 of 1000 MB after  400 ms, usually   0 MB/s:   1 %, 40 s left
             900 of 1000 MB after  400 ms, usually 100 MB/s:  10 %, 4 s left
             400 of 1000 MB after 3000 ms, usually 250 MB/s:  60 %, 2 s left
               1 of 1000 MB after 5000 ms, usually 250 MB/s:  99 %, 1 s left
               0 of 1000 MB after 5000 ms, usually 250 MB/s: 100 %, 0 s left
               0 of    0 MB after    0 ms, usually   0 MB/s: 100 %, 0 s left
              20 of   10 MB after  100 ms, usually   0 MB/s:   0 %, ? s left
        "#]]
        .assert_eq(&out);
    }
}
