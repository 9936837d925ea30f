//! The table of `bench after-kill`: a line for each kill.

use output::units::show_size;

/// Seconds that have a column.
const COLUMNS: usize = 5;

/// What one kill and one open measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) redo_bytes: u64,
    /// Commits a second before the kill.
    pub(super) warm: f64,
    /// How long the bare device takes to read so much of the log, seconds.
    pub(super) device_s: Option<f64>,
    /// Seconds after the start of the open, as the other times.
    pub(super) opened_s: Option<f64>,
    pub(super) first_s: Option<f64>,
    /// The commits of each second after the start of the open.
    pub(super) seconds: Vec<f64>,
    pub(super) back_s: Option<f64>,
    pub(super) recovered_s: Option<f64>,
}

/// Returns the heads of the columns.
pub(super) fn heads() -> String {
    let seconds: String = (1..=COLUMNS).map(|n| format!(" {:>6}", format!("{n} s"))).collect();
    format!(
        "{:>8} {:>8} {:>7} {:>7} {:>7}{seconds} {:>7} {:>10}",
        "redo", "warm", "device", "open", "first", "back", "recovered"
    )
}

impl Round {
    /// Returns the line of the round.
    pub(super) fn line(&self) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let part = |commits: &f64| if self.warm > 0.0 { commits / self.warm } else { 0.0 };
        let second = |n| or_none(self.seconds.get(n).map(|commits| format!("{:.2}", part(commits))));
        let seconds: String = (0..COLUMNS).map(|n| format!(" {:>6}", second(n))).collect();
        let time = |seconds: Option<f64>, digits| or_none(seconds.map(|s| format!("{s:.digits$}")));
        format!(
            "{:>8} {:>8.0} {:>7} {:>7} {:>7}{seconds} {:>7} {:>10}",
            show_size(self.redo_bytes as f64),
            self.warm,
            time(self.device_s, 2),
            time(self.opened_s, 3),
            time(self.first_s, 3),
            time(self.back_s, 1),
            time(self.recovered_s, 2)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_table_shows_when_the_rate_was_back() {
        let good = Round {
            // As wide as its column: the expected text has no room on the left.
            redo_bytes: 1000 << 20,
            warm: 4000.0,
            device_s: Some(0.487),
            opened_s: Some(0.12),
            first_s: Some(0.2134),
            seconds: vec![400.0, 2000.0, 3000.0, 3600.0, 4000.0, 4100.0],
            back_s: Some(3.4),
            recovered_s: Some(2.118),
        };
        let late = Round { warm: 4000.0, seconds: vec![0.0, 40.0], ..Round::default() };
        let table = [heads(), good.line(), late.line(), Round::default().line()];
        expect![[r#"
                redo     warm  device    open   first    1 s    2 s    3 s    4 s    5 s    back  recovered
            1000 MiB     4000    0.49   0.120   0.213   0.10   0.50   0.75   0.90   1.00     3.4       2.12
                 0 B     4000       -       -       -   0.00   0.01      -      -      -       -          -
                 0 B        0       -       -       -      -      -      -      -      -       -          -
        "#]]
        .assert_eq(&(table.join("\n") + "\n"));
    }
}
