//! A plot over time as data: lines or stacked areas, with limits and marks. `svg` draws it.

use super::axis::{MOST, Measure};
use crate::samples::Point;
use std::borrow::Cow;

/// A line over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name, in a word or two.
    pub label: String,
    /// Its values.
    pub points: Vec<Point>,
    /// It is a limit, not a measured value.
    pub limit: bool,
    /// The points are in percent of this value; none if they are values themselves.
    pub whole: Option<(Measure, f64)>,
}

impl Series {
    /// Makes a series of measured values.
    pub fn new(label: impl Into<String>, points: Vec<Point>) -> Series {
        let points = points.into_iter().map(known).collect();
        Series { label: label.into(), points, limit: false, whole: None }
    }

    /// Makes a series of a limit, or of another value to compare with.
    pub fn limit(label: impl Into<String>, points: Vec<Point>) -> Series {
        Series { limit: true, ..Series::new(label, points) }
    }

    /// Returns the known values in order of time.
    pub fn known(&self) -> impl Iterator<Item = f64> {
        self.points.iter().filter_map(|(_, value)| *value)
    }

    /// Returns the series with each value in percent of the greatest one.
    pub fn in_percent(&self, measure: Measure, greatest: f64) -> Series {
        let share = |value: f64| if greatest > 0.0 { 100.0 * value / greatest } else { 0.0 };
        let points = self.points.iter().map(|(t, value)| (*t, value.map(share))).collect();
        Series { points, whole: Some((measure, greatest)), ..self.clone() }
    }

    /// Returns the value that a point stands for, and its measure.
    pub fn real(&self, measure: Measure, value: f64) -> (Measure, f64) {
        match self.whole {
            Some((measure, whole)) => (measure, value / 100.0 * whole),
            None => (measure, value),
        }
    }

    /// Returns the greatest known value.
    pub fn greatest(&self) -> Option<f64> {
        self.known().max_by(f64::total_cmp)
    }

    /// Returns minimum, median, mean and maximum of the known values.
    pub fn summary(&self) -> Option<[f64; 4]> {
        let mut sorted: Vec<f64> = self.known().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some([least, sorted[sorted.len() / 2], mean, greatest])
    }
}

/// Treats NaN, and values beyond any counter, as unknown.
fn known((t, value): Point) -> Point {
    (t, value.filter(|v| v.abs() < MOST))
}

/// A point with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The time.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// The label.
    pub label: String,
}

/// How the series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartStyle {
    /// As lines.
    Lines,
    /// As lines over a logarithmic scale.
    LogLines,
    /// As stacked areas.
    Stacked,
}

/// A plot over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The name of its file and its id on the page: lower-case letters and hyphens.
    pub id: Cow<'static, str>,
    /// The title.
    pub title: String,
    /// An explanation, in a sentence.
    pub note: String,
    /// The quantity.
    pub measure: Measure,
    /// How it is drawn.
    pub style: ChartStyle,
    /// The series; stacked from the bottom up.
    pub series: Vec<Series>,
    /// Points with labels.
    pub marks: Vec<Annotation>,
    /// A time that a line from top to bottom marks, and its name.
    pub moment: Option<(f64, String)>,
    /// The end of the time axis, the same for all plots of a page.
    pub end: f64,
    /// When time 0 was, seconds since 1970; none if that is not known, or if lines began at
    /// different times.
    pub clock: Option<f64>,
}

/// A limit is drawn if it is at most so many times the greatest value. A higher one would make the
/// measured lines flat.
const LIMIT_IN_SIGHT: f64 = 3.0;

impl Chart {
    /// Makes a plot of lines that begin at time 0 and end at `end`, without a note.
    pub fn lines(id: &'static str, title: &str, measure: Measure, series: Vec<Series>, end: f64) -> Chart {
        Chart {
            id: id.into(),
            title: title.to_owned(),
            note: String::new(),
            measure,
            style: ChartStyle::Lines,
            series,
            marks: Vec::new(),
            moment: None,
            end,
            clock: None,
        }
    }

    /// Formats the value that a point of a series stands for.
    pub fn show(&self, series: &Series, value: f64) -> String {
        let (measure, value) = series.real(self.measure, value);
        measure.short(value)
    }

    /// Removes limits that are too far above the values, and names them in the note.
    pub fn without_far_limits(mut self) -> Chart {
        let data = self.series.iter().filter(|s| !s.limit).filter_map(Series::greatest);
        let greatest = data.max_by(f64::total_cmp).unwrap_or(0.0);
        let mut far = Vec::new();
        self.series.retain(|s| {
            let high = s.greatest().unwrap_or(0.0);
            let gone = s.limit && high > LIMIT_IN_SIGHT * greatest;
            if gone {
                far.push(format!("{} {}", s.label, self.measure.short(high)));
            }
            !gone
        });
        if !far.is_empty() {
            self.note = format!("{} Far above: {}.", self.note, far.join(", ")).trim_start().to_owned();
        }
        self
    }

    /// Returns the bounds of the stacked areas: for each time of the first series, the sums from
    /// the bottom up. `None` if a part is unknown.
    pub(super) fn stacks(&self) -> Vec<(f64, Option<Vec<f64>>)> {
        let Some(first) = self.series.first() else { return Vec::new() };
        let sums = |i: usize| {
            let mut sum = 0.0;
            self.series
                .iter()
                .map(|series| {
                    sum += series.points.get(i)?.1?;
                    Some(sum)
                })
                .collect::<Option<Vec<f64>>>()
        };
        first.points.iter().enumerate().map(|(i, (t, _))| (*t, sums(i))).collect()
    }

    /// Reduces the points of each series to about `most`. A line keeps the minimum and the maximum
    /// of each interval, so the worst second stays visible. A stacked area keeps the mean, so the
    /// parts still add up.
    pub fn thinned(mut self, most: usize) -> Chart {
        let stacked = self.style == ChartStyle::Stacked;
        for series in &mut self.series {
            if series.points.len() > most {
                let interval = if stacked {
                    series.points.len().div_ceil(most)
                } else {
                    (2 * series.points.len()).div_ceil(most)
                };
                let thin = if stacked { mean } else { extremes };
                series.points = series.points.chunks(interval).flat_map(thin).collect();
            }
        }
        self
    }
}

fn mean(interval: &[Point]) -> Vec<Point> {
    let known: Vec<f64> = interval.iter().filter_map(|(_, value)| *value).collect();
    let whole = known.len() == interval.len();
    let t = interval[interval.len() - 1].0;
    vec![(t, whole.then(|| known.iter().sum::<f64>() / known.len() as f64))]
}

fn extremes(interval: &[Point]) -> Vec<Point> {
    let known = || (0..interval.len()).filter(|i| interval[*i].1.is_some());
    let by = |i: &usize, j: &usize| {
        let value = |i: &usize| interval[*i].1.unwrap_or_default();
        value(i).total_cmp(&value(j))
    };
    let mut kept: Vec<usize> = known().min_by(by).into_iter().chain(known().max_by(by)).collect();
    // A gap stays a gap.
    kept.extend((0..interval.len()).find(|i| interval[*i].1.is_none()));
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|i| interval[i]).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::report) fn chart(style: ChartStyle, series: Vec<Series>) -> Chart {
        Chart {
            id: "plot".into(),
            title: "A plot".into(),
            note: "What to see.".into(),
            measure: Measure::Count("things/s"),
            style,
            series,
            marks: Vec::new(),
            moment: None,
            end: 10.0,
            clock: None,
        }
    }

    fn line(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(i, v)| (i as f64 + 1.0, Some(*v))).collect()
    }

    #[test]
    fn a_summary_ignores_unknown_values() {
        let mut points = line(&[4.0, 1.0, f64::NAN, 7.0, f64::INFINITY]);
        points.push((9.0, None));
        assert_eq!(Series::new("x", points).summary(), Some([1.0, 4.0, 4.0, 7.0]));
        assert_eq!(Series::new("x", vec![(1.0, None)]).summary(), None);
    }

    #[test]
    fn thinning_keeps_the_worst_second_and_the_gaps() {
        let mut points = line(&vec![100.0; 10_000]);
        points[6_543].1 = Some(3.0);
        points[8_000].1 = None;
        let thin = chart(ChartStyle::Lines, vec![Series::new("x", points)]).thinned(500);
        let kept = &thin.series[0].points;
        assert!(kept.len() <= 501, "{}", kept.len());
        assert_eq!(kept.iter().filter(|p| p.1 == Some(3.0)).count(), 1);
        assert_eq!(kept.iter().filter(|p| p.1.is_none()).count(), 1);
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn stacked_parts_still_add_up_when_thinned() {
        let whole = chart(
            ChartStyle::Stacked,
            vec![Series::new("a", line(&[1.0, 3.0, 5.0, 5.0])), Series::new("b", line(&[2.0; 4]))],
        );
        assert_eq!(whole.stacks()[1], (2.0, Some(vec![3.0, 5.0])));
        let thin = whole.thinned(2);
        assert_eq!(thin.stacks(), [(2.0, Some(vec![2.0, 4.0])), (4.0, Some(vec![5.0, 7.0]))]);
    }

    #[test]
    fn a_stack_with_an_unknown_part_is_a_gap() {
        let with_gap = vec![(1.0, Some(1.0)), (2.0, None)];
        let c =
            chart(ChartStyle::Stacked, vec![Series::new("a", line(&[1.0, 1.0])), Series::new("b", with_gap)]);
        assert_eq!(c.stacks(), [(1.0, Some(vec![1.0, 2.0])), (2.0, None)]);
        assert!(chart(ChartStyle::Stacked, Vec::new()).stacks().is_empty());
    }

    #[test]
    fn a_limit_far_above_the_values_is_named() {
        let far = Series::limit("capacity", line(&[900.0]));
        let near = Series::limit("target", line(&[150.0]));
        let c = chart(ChartStyle::Lines, vec![Series::new("age", line(&[100.0])), far, near])
            .without_far_limits();
        assert_eq!(c.series.iter().map(|s| s.label.as_str()).collect::<Vec<_>>(), ["age", "target"]);
        assert_eq!(c.note, "What to see. Far above: capacity 900.");
    }
}
