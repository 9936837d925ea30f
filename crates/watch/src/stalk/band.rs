//! The band of a figure, learned from the figure itself. Pure: it is given values, one a second.
//!
//! The middle of the band is the median of the last minutes, and its width is a multiple of the
//! median distance from it (MAD). Both stay where they are if less than half of the values are
//! wild, so a stall does not move the band that shows it.

use std::collections::VecDeque;

/// How many values the band is learned from: five minutes.
const HISTORY: usize = 300;
/// A standard deviation, of a normal distribution, in median distances.
const DEVIATION: f64 = 1.4826;
/// The width of the band to each side, in deviations. Of normal values one in 1.7 million is
/// outside.
const DEVIATIONS: f64 = 5.0;
/// The value is back when it is within this part of the width.
const BACK: f64 = 0.5;

/// On which side a value leaves the band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Above,
    Below,
}

/// What is known of a figure before it is seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) side: Side,
    /// The least width, in the unit of the figure.
    pub(super) floor: f64,
    /// The least width, in parts of the median.
    pub(super) share: f64,
}

/// Below a band whose median is M, the line is never lower than this part of M: else a figure that
/// varies much could fall to nothing without leaving its band.
const LOWEST: f64 = 0.2;

/// A band that is being learned.
#[derive(Clone, Debug)]
pub(super) struct Band {
    shape: Shape,
    /// It says nothing before it has seen so many values.
    least: usize,
    values: VecDeque<f64>,
}

/// The band at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) median: f64,
    /// A value beyond it is outside.
    pub(super) limit: f64,
    /// A value that was outside is inside again from here on.
    pub(super) back: f64,
    side: Side,
}

impl Line {
    /// Returns whether a value is outside; `was` if the one before it was.
    pub(super) fn is_outside(&self, value: f64, was: bool) -> bool {
        let line = if was { self.back } else { self.limit };
        match self.side {
            Side::Above => value > line,
            Side::Below => value < line,
        }
    }

    /// Returns an upper band that is at least so wide.
    pub(super) fn at_least(self, width: f64) -> Line {
        match self.side {
            Side::Above if self.median + width > self.limit => {
                Line { limit: self.median + width, back: self.median + BACK * width, ..self }
            }
            _ => self,
        }
    }
}

impl Band {
    /// Makes a band that is silent until it has seen `least` values.
    pub(super) fn new(shape: Shape, least: usize) -> Band {
        Band { shape, least: least.clamp(1, HISTORY), values: VecDeque::new() }
    }

    /// Returns the band, if enough was seen.
    pub(super) fn line(&self) -> Option<Line> {
        if self.values.len() < self.least {
            return None;
        }
        let median = median(self.values.iter().copied());
        let distance = median_distance(&self.values, median);
        let Shape { side, floor, share } = self.shape;
        let width = (DEVIATIONS * DEVIATION * distance).max(share * median.abs());
        let limit = match side {
            Side::Above => median + width.max(floor),
            // A figure that is as small as the floor never leaves its band.
            Side::Below => (median - width).max(LOWEST * median).min(median - floor),
        };
        Some(Line { median, limit, back: median + BACK * (limit - median), side })
    }

    /// Learns a value.
    pub(super) fn learn(&mut self, value: f64) {
        if self.values.len() == HISTORY {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// Forgets all: the target was started again.
    pub(super) fn forget(&mut self) {
        self.values.clear();
    }
}

/// Returns the middle value; 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn median_distance(values: &VecDeque<f64>, from: f64) -> f64 {
    median(values.iter().map(|value| (value - from).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    /// Runs a script. `100 x60` is a value, so many times; `~10` after it lets it swing by so much.
    /// A line of the answer is the band after it, and how many of the values were outside.
    fn script(shape: Shape, text: &str) -> String {
        let (mut band, mut was, mut out) = (Band::new(shape, 60), false, String::new());
        for line in text.split(';').map(str::trim) {
            let word = |mark: char| line.split(' ').find_map(|word| word.strip_prefix(mark)?.parse().ok());
            let value: f64 = line.split(' ').next().unwrap().parse().unwrap();
            let (times, swing) = (word('x').unwrap_or(1.0) as usize, word('~').unwrap_or(0.0));
            let mut outside = 0;
            for n in 0..times {
                let value = value + swing * [0.0, 1.0, -1.0, 0.5, -0.5][n % 5];
                was = band.line().is_some_and(|line| line.is_outside(value, was));
                outside += usize::from(was);
                band.learn(value);
            }
            let now = band.line().map_or("nothing known".to_owned(), |line| {
                format!("median {:.0}, limit {:.0}, back at {:.0}", line.median, line.limit, line.back)
            });
            let _ = writeln!(out, "{line}: {outside} outside; {now}");
        }
        out
    }

    const RATE: Shape = Shape { side: Side::Below, floor: 5.0, share: 0.3 };
    const LATENCY: Shape = Shape { side: Side::Above, floor: 20_000.0, share: 1.0 };

    #[test]
    fn a_fall_of_the_rate_is_outside_and_a_swing_is_not() {
        expect![[r#"
            1000 x59 ~50: 0 outside; nothing known
            1000 x61 ~50: 0 outside; median 1000, limit 700, back at 850
            900 x5: 0 outside; median 1000, limit 700, back at 850
            600 x3: 3 outside; median 1000, limit 700, back at 850
            700 x3: 3 outside; median 1000, limit 700, back at 850
            900 x3: 0 outside; median 1000, limit 700, back at 850
        "#]]
        .assert_eq(&script(RATE, "1000 x59 ~50; 1000 x61 ~50; 900 x5; 600 x3; 700 x3; 900 x3"));
    }

    /// With the width of its swings alone, nothing would be below the band.
    #[test]
    fn a_rate_that_varies_much_still_has_a_lower_line() {
        expect![[r#"
            1000 x120 ~900: 12 outside; median 1000, limit 200, back at 600
            0 x5: 5 outside; median 1000, limit 200, back at 600
            900 x2: 0 outside; median 1000, limit 200, back at 600
        "#]]
        .assert_eq(&script(RATE, "1000 x120 ~900; 0 x5; 900 x2"));
    }

    #[test]
    fn a_server_that_does_little_has_a_floor() {
        expect![[r#"
            4 x120: 0 outside; median 4, limit -1, back at 2
            0 x5: 0 outside; median 4, limit -1, back at 2
        "#]]
        .assert_eq(&script(RATE, "4 x120; 0 x5"));
        expect![[r#"
            300 x120 ~50: 0 outside; median 300, limit 20300, back at 10300
            15000 x5: 0 outside; median 300, limit 20300, back at 10300
            30000 x2: 2 outside; median 300, limit 20300, back at 10300
            300 x1: 0 outside; median 300, limit 20300, back at 10300
        "#]]
        .assert_eq(&script(LATENCY, "300 x120 ~50; 15000 x5; 30000 x2; 300 x1"));
    }

    /// A load that has changed for good becomes the band after half of the history.
    #[test]
    fn a_level_that_stays_becomes_the_band() {
        expect![[r#"
            1000 x300 ~20: 0 outside; median 1000, limit 700, back at 850
            300 x149 ~20: 149 outside; median 980, limit 683, back at 832
            300 x10 ~20: 2 outside; median 320, limit 64, back at 192
        "#]]
        .assert_eq(&script(RATE, "1000 x300 ~20; 300 x149 ~20; 300 x10 ~20"));
    }

    #[test]
    fn a_restart_begins_anew() {
        let mut band = Band::new(RATE, 2);
        band.learn(1.0);
        band.learn(1.0);
        assert!(band.line().is_some());
        band.forget();
        assert_eq!(band.line(), None);
    }
}
