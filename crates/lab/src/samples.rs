//! Samples: what every figure was at moments about a second apart. The one data format that plots are made from.
//!
//! Columns hold values as they were read: a counter counts since the database was opened, and a rate is the difference
//! of two samples over the time between them. A value that could not be read is absent, and so is a rate beside it.

use metrics::catalog::CATALOG;
use metrics::{MetricKind, Unit};
use millpond::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The first words of the format; readers refuse another number.
pub(crate) const FORMAT: &str = "millpond samples 1";

/// Latencies of a run between two samples, by percentile.
pub(crate) const LATENCIES: &[(&str, f64)] = &[
    ("run_latency_p50_us", 50.0),
    ("run_latency_p99_us", 99.0),
    ("run_latency_p999_us", 99.9),
    ("run_latency_max_us", 100.0),
];

/// Seconds between two samples beyond which something is missing between them.
const GAP: f64 = 2.5;

/// A moment and what was there; none where nothing is known, so that a line breaks.
pub(crate) type Point = (f64, Option<f64>);

/// How a column moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Moves {
    /// It only grows.
    Counter,
    /// It is a level.
    Gauge,
}

/// One figure over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    /// What the number counts, as people read it.
    pub(crate) unit: String,
    /// How it moves.
    pub(crate) kind: Moves,
    /// One value for each moment.
    pub(crate) values: Vec<Option<f64>>,
}

/// Figures at moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    format: String,
    /// Which program sampled.
    program: String,
    /// The moments, in seconds from the beginning of the measured phase.
    pub(crate) seconds: Vec<f64>,
    /// The figures by name.
    pub(crate) columns: BTreeMap<String, Column>,
}

/// What is known at one moment: name, unit, kind, value.
pub(crate) type Values = Vec<(String, &'static str, Moves, f64)>;

impl Samples {
    /// No moment yet.
    pub(crate) fn new() -> Samples {
        Samples {
            format: FORMAT.to_owned(),
            program: concat!("millpond ", env!("CARGO_PKG_VERSION")).to_owned(),
            seconds: Vec::new(),
            columns: BTreeMap::new(),
        }
    }

    /// Adds a moment. A figure that appears later or is missing has no value where it was not read.
    pub(crate) fn push(&mut self, seconds: f64, values: Values) {
        let before = self.seconds.len();
        self.seconds.push(seconds);
        for (name, unit, kind, value) in values {
            let column = self.columns.entry(name).or_insert_with(|| Column {
                unit: unit.to_owned(),
                kind,
                values: Vec::new(),
            });
            column.values.resize(before, None);
            column.values.push(Some(value).filter(|v| v.is_finite()));
        }
        for column in self.columns.values_mut() {
            column.values.resize(before + 1, None);
        }
    }

    /// The last moment.
    pub(crate) fn end(&self) -> f64 {
        self.seconds.last().copied().unwrap_or(0.0)
    }

    /// A figure's value at the last moment.
    pub(crate) fn last(&self, name: &str) -> Option<f64> {
        self.values(name).last().copied().flatten()
    }

    fn values(&self, name: &str) -> &[Option<f64>] {
        self.columns.get(name).map_or(&[], |column| &column.values)
    }

    /// A level over time.
    pub(crate) fn level(&self, name: &str) -> Vec<Point> {
        self.with_gaps(self.seconds.iter().copied().zip(self.values(name).iter().copied()))
    }

    /// How fast a counter grew, a second; each value stands at the end of the time that it is about.
    pub(crate) fn rate(&self, name: &str) -> Vec<Point> {
        self.ratio(name, None)
    }

    /// How much `name` grew for each one by which `whole` grew; for each second without `whole`.
    pub(crate) fn ratio(&self, name: &str, whole: Option<&str>) -> Vec<Point> {
        let values = self.values(name);
        let rates = values.windows(2).zip(self.seconds.windows(2)).enumerate().map(|(i, (v, t))| {
            let passed = match whole {
                None => Some(t[1] - t[0]),
                Some(whole) => grown(self.values(whole).get(i..i + 2).unwrap_or(&[])),
            };
            let rate = grown(v).zip(passed.filter(|p| *p > 0.0)).map(|(grown, passed)| grown / passed);
            (t[1], rate)
        });
        self.with_gaps(rates)
    }

    fn with_gaps(&self, points: impl Iterator<Item = Point>) -> Vec<Point> {
        let mut out: Vec<Point> = Vec::new();
        for (t, value) in points {
            if let Some((last, _)) = out.last().filter(|(last, _)| t - last > GAP) {
                out.push((f64::midpoint(*last, t), None));
            }
            out.push((t, value));
        }
        out
    }

    /// The members of a family by the part of the name after `family.`, those that grew most first; what did not grow is
    /// left out.
    pub(crate) fn moved(&self, family: &str) -> Vec<(String, f64)> {
        let mut members: Vec<(String, f64)> = self
            .columns
            .iter()
            .filter_map(|(name, column)| {
                let label = name.strip_prefix(family)?.strip_prefix('.')?;
                let known: Vec<f64> = column.values.iter().copied().flatten().collect();
                let grown = known.last()? - known.first()?;
                (grown > 0.0).then(|| (label.to_owned(), grown))
            })
            .collect();
        members.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        members
    }

    /// As JSON, on one line for each figure.
    pub(crate) fn json(&self) -> String {
        let mut out = format!(
            "{{\n\"format\": {},\n\"program\": {},\n\"seconds\": {},\n\"columns\": {{\n",
            text(&self.format),
            text(&self.program),
            text(&self.seconds)
        );
        for (i, (name, column)) in self.columns.iter().enumerate() {
            let comma = if i + 1 < self.columns.len() { "," } else { "" };
            let _ = writeln!(out, "{}: {}{comma}", text(name), text(column));
        }
        out + "}\n}\n"
    }

    /// As a table for spreadsheets and scripts: a line for each moment, a column for each figure, empty where nothing is
    /// known.
    pub(crate) fn csv(&self) -> String {
        let mut out = String::from("seconds");
        for name in self.columns.keys() {
            let _ = write!(out, ",{name}");
        }
        out.push('\n');
        for (i, seconds) in self.seconds.iter().enumerate() {
            let _ = write!(out, "{seconds}");
            for column in self.columns.values() {
                match column.values.get(i).copied().flatten() {
                    Some(value) => drop(write!(out, ",{value}")),
                    None => out.push(','),
                }
            }
            out.push('\n');
        }
        out
    }
}

/// Numbers are finite and keys are strings, so there is nothing that JSON could not say.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// How much a counter grew between two samples; a counter that fell was started anew, and nothing is known.
fn grown(pair: &[Option<f64>]) -> Option<f64> {
    let [Some(then), Some(now)] = pair else { return None };
    (now >= then).then_some(now - then)
}

/// Every figure of the engine that means something at a moment. Quantiles since the opening do not.
pub(crate) fn of_engine(snapshot: &Snapshot) -> Values {
    snapshot
        .figures()
        .into_iter()
        .filter_map(|(name, value)| match name.rsplit_once('.') {
            None => {
                let entry = CATALOG.iter().find(|entry| entry.name == name);
                let unit = if name.ends_with("_us_total") { Unit::Microseconds } else { Unit::Count };
                let (unit, kind) =
                    entry.map_or((unit, MetricKind::Counter), |entry| (entry.unit, entry.kind));
                let kind = if kind == MetricKind::Gauge { Moves::Gauge } else { Moves::Counter };
                Some((name, unit.label(), kind, value))
            }
            Some((_, "mean" | "p50" | "p95" | "p99" | "max")) => None,
            Some(_) => Some((name, Unit::Count.label(), Moves::Counter, value)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Samples {
        let mut samples = Samples::new();
        let at = |redo: f64, age: f64, commits: f64| -> Values {
            vec![
                ("redo".into(), "bytes", Moves::Counter, redo),
                ("age".into(), "bytes", Moves::Gauge, age),
                ("commits".into(), "count", Moves::Counter, commits),
                ("by.log".into(), "count", Moves::Counter, 3.0),
                ("by.root".into(), "count", Moves::Counter, commits),
            ]
        };
        samples.push(0.0, at(100.0, 5.0, 10.0));
        samples.push(1.0, at(300.0, f64::NAN, 20.0));
        samples.push(1.5, at(400.0, 9.0, 20.0));
        samples
    }

    #[test]
    fn a_rate_is_a_difference_over_the_time_between() {
        let samples = three();
        assert_eq!(samples.rate("redo"), [(1.0, Some(200.0)), (1.5, Some(200.0))]);
        assert_eq!(samples.ratio("redo", Some("commits")), [(1.0, Some(20.0)), (1.5, None)]);
        assert_eq!(samples.level("age"), [(0.0, Some(5.0)), (1.0, None), (1.5, Some(9.0))]);
        assert_eq!(samples.moved("by"), [("root".to_owned(), 10.0)]);
        assert!(samples.rate("no such figure").is_empty());
        assert!(Samples::new().rate("redo").is_empty());
    }

    #[test]
    fn what_is_not_known_is_a_gap() {
        let mut samples = three();
        // A counter that fell, a figure that is missing, a time without samples.
        samples.push(2.0, vec![("redo".into(), "bytes", Moves::Counter, 7.0)]);
        samples.push(6.0, vec![("redo".into(), "bytes", Moves::Counter, 15.0)]);
        let expected = [(1.0, Some(200.0)), (1.5, Some(200.0)), (2.0, None), (4.0, None), (6.0, Some(2.0))];
        assert_eq!(samples.rate("redo"), expected);
        assert_eq!(samples.level("age").last(), Some(&(6.0, None)));
        // A figure that appears late.
        samples.push(7.0, vec![("new".into(), "count", Moves::Gauge, 1.0)]);
        assert_eq!(samples.columns["new"].values, [None, None, None, None, None, Some(1.0)]);
    }

    #[test]
    fn both_files_hold_everything() {
        let samples = three();
        let back: Samples = serde_json::from_str(&samples.json()).unwrap();
        assert_eq!(back, samples);
        assert_eq!(
            samples.csv(),
            "seconds,age,by.log,by.root,commits,redo\n0,5,3,10,10,100\n1,,3,20,20,300\n1.5,9,3,20,20,400\n"
        );
        let none: Samples = serde_json::from_str(&Samples::new().json()).unwrap();
        assert_eq!(none, Samples::new());
    }

    #[test]
    fn every_figure_of_the_engine_has_its_kind() {
        let values = of_engine(&metrics::Metrics::new().snapshot());
        let kind = |name: &str| values.iter().find(|v| v.0 == name).map(|v| (v.1, v.2));
        assert_eq!(kind("checkpoint_age_bytes"), Some(("bytes", Moves::Gauge)));
        assert_eq!(kind("redo_bytes_written"), Some(("bytes", Moves::Counter)));
        assert_eq!(kind("fsync_us_total"), Some(("µs", Moves::Counter)));
        assert_eq!(kind("fsyncs_by_reason.commit"), Some(("count", Moves::Counter)));
        assert_eq!(kind("commit_us.p99"), None);
    }
}
