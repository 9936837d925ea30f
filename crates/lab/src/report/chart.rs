//! A plot as data: lines or stacked areas over time, limits beside them, marks on them. What draws it is `svg`.

use super::axis::{MOST, Measure};
use crate::samples::Point;

/// A line over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// What it is, in a word or two.
    pub(crate) label: String,
    /// Its values.
    pub(crate) points: Vec<Point>,
    /// Whether it is a limit of the others and not something that happened.
    pub(crate) limit: bool,
}

impl Series {
    /// Something that happened.
    pub(crate) fn new(label: impl Into<String>, points: Vec<Point>) -> Series {
        Series { label: label.into(), points: points.into_iter().map(known).collect(), limit: false }
    }

    /// A limit, or another level to compare with.
    pub(crate) fn limit(label: impl Into<String>, points: Vec<Point>) -> Series {
        Series { limit: true, ..Series::new(label, points) }
    }

    /// Known values, in order of time.
    pub(crate) fn known(&self) -> impl Iterator<Item = f64> {
        self.points.iter().filter_map(|(_, value)| *value)
    }

    /// The greatest known value.
    pub(crate) fn greatest(&self) -> Option<f64> {
        self.known().max_by(f64::total_cmp)
    }

    /// Least, median, mean and greatest of the known values.
    pub(crate) fn summary(&self) -> Option<[f64; 4]> {
        let mut sorted: Vec<f64> = self.known().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some([least, sorted[sorted.len() / 2], mean, greatest])
    }
}

/// What is no number is not known, nor is what no counter can hold.
fn known((t, value): Point) -> Point {
    (t, value.filter(|v| v.abs() < MOST))
}

/// A point that is worth a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// When.
    pub(crate) at: f64,
    /// What.
    pub(crate) value: f64,
    /// The word.
    pub(crate) label: String,
}

/// How the series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// As lines above a common zero.
    Lines,
    /// As lines, equal ratios at equal heights.
    LogLines,
    /// As areas that add up.
    Stacked,
}

/// A plot over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// The name of its file and of its place on the page: lower-case letters and hyphens.
    pub(crate) id: &'static str,
    /// What it shows.
    pub(crate) title: String,
    /// What to see in it, in a sentence.
    pub(crate) note: String,
    /// What the numbers are.
    pub(crate) measure: Measure,
    /// How it is drawn.
    pub(crate) drawn: Drawn,
    /// The series; stacked from the bottom up.
    pub(crate) series: Vec<Series>,
    /// Points worth a word.
    pub(crate) marks: Vec<Mark>,
    /// The end of the time axis, the same for all plots of a page.
    pub(crate) end: f64,
}

/// How many times the greatest value a limit may be above it and still be drawn. Farther up it would press what
/// happened to the ground.
const LIMIT_IN_SIGHT: f64 = 3.0;

impl Chart {
    /// Takes away limits that are too far above everything, and says so in the note.
    pub(crate) fn without_far_limits(mut self) -> Chart {
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

    /// For each time of the first series, the sums from the bottom up: what stacked areas are bounded by. None where a
    /// part is not known.
    pub(crate) fn stacks(&self) -> Vec<(f64, Option<Vec<f64>>)> {
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

    /// The plot with so few points that each can be seen. Of a line the least and the greatest value of each stretch
    /// stay, so that the worst second stays; of stacked areas the mean, so that they still add up.
    pub(crate) fn thinned(mut self, most: usize) -> Chart {
        let stacked = self.drawn == Drawn::Stacked;
        for series in &mut self.series {
            if series.points.len() > most {
                let stretch = if stacked {
                    series.points.len().div_ceil(most)
                } else {
                    (2 * series.points.len()).div_ceil(most)
                };
                let thin = if stacked { mean } else { extremes };
                series.points = series.points.chunks(stretch).flat_map(thin).collect();
            }
        }
        self
    }
}

fn mean(stretch: &[Point]) -> Vec<Point> {
    let known: Vec<f64> = stretch.iter().filter_map(|(_, value)| *value).collect();
    let whole = known.len() == stretch.len();
    let t = stretch[stretch.len() - 1].0;
    vec![(t, whole.then(|| known.iter().sum::<f64>() / known.len() as f64))]
}

fn extremes(stretch: &[Point]) -> Vec<Point> {
    let known = || (0..stretch.len()).filter(|i| stretch[*i].1.is_some());
    let by = |i: &usize, j: &usize| {
        let value = |i: &usize| stretch[*i].1.unwrap_or_default();
        value(i).total_cmp(&value(j))
    };
    let mut kept: Vec<usize> = known().min_by(by).into_iter().chain(known().max_by(by)).collect();
    // A gap stays a gap.
    kept.extend((0..stretch.len()).find(|i| stretch[*i].1.is_none()));
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|i| stretch[i]).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::report) fn chart(drawn: Drawn, series: Vec<Series>) -> Chart {
        Chart {
            id: "plot",
            title: "A plot".into(),
            note: "What to see.".into(),
            measure: Measure::Count("things/s"),
            drawn,
            series,
            marks: Vec::new(),
            end: 10.0,
        }
    }

    fn line(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(i, v)| (i as f64 + 1.0, Some(*v))).collect()
    }

    #[test]
    fn a_summary_knows_only_what_is_known() {
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
        let thin = chart(Drawn::Lines, vec![Series::new("x", points)]).thinned(500);
        let kept = &thin.series[0].points;
        assert!(kept.len() <= 501, "{}", kept.len());
        assert_eq!(kept.iter().filter(|p| p.1 == Some(3.0)).count(), 1);
        assert_eq!(kept.iter().filter(|p| p.1.is_none()).count(), 1);
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn stacked_parts_still_add_up_when_thinned() {
        let whole = chart(
            Drawn::Stacked,
            vec![Series::new("a", line(&[1.0, 3.0, 5.0, 5.0])), Series::new("b", line(&[2.0; 4]))],
        );
        assert_eq!(whole.stacks()[1], (2.0, Some(vec![3.0, 5.0])));
        let thin = whole.thinned(2);
        assert_eq!(thin.stacks(), [(2.0, Some(vec![2.0, 4.0])), (4.0, Some(vec![5.0, 7.0]))]);
    }

    #[test]
    fn a_stack_with_an_unknown_part_is_a_gap() {
        let with_gap = vec![(1.0, Some(1.0)), (2.0, None)];
        let c = chart(Drawn::Stacked, vec![Series::new("a", line(&[1.0, 1.0])), Series::new("b", with_gap)]);
        assert_eq!(c.stacks(), [(1.0, Some(vec![1.0, 2.0])), (2.0, None)]);
        assert!(chart(Drawn::Stacked, Vec::new()).stacks().is_empty());
    }

    #[test]
    fn a_limit_out_of_sight_is_named() {
        let far = Series::limit("capacity", line(&[900.0]));
        let near = Series::limit("target", line(&[150.0]));
        let c = chart(Drawn::Lines, vec![Series::new("age", line(&[100.0])), far, near]).without_far_limits();
        assert_eq!(c.series.iter().map(|s| s.label.as_str()).collect::<Vec<_>>(), ["age", "target"]);
        assert_eq!(c.note, "What to see. Far above: capacity 900.");
    }
}
