//! Samples: the value of every metric, about once a second. All plots are made from this format.
//!
//! Columns hold values as they were read. A counter counts since the database was opened; a rate is
//! the difference of two samples divided by the time between them. A value that could not be read
//! is missing, and so are the rates next to it.

use metrics::catalog::CATALOG;
use metrics::{MetricKind, Unit};
use millpond::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The name and version of the format. Readers refuse another version.
pub(crate) const FORMAT: &str = "millpond samples 1";

/// Latencies of a run between two samples, by percentile.
pub const LATENCIES: &[(&str, f64)] = &[
    ("run_latency_p50_us", 50.0),
    ("run_latency_p95_us", 95.0),
    ("run_latency_p99_us", 99.0),
    ("run_latency_p999_us", 99.9),
    ("run_latency_max_us", 100.0),
];

/// If two samples are farther apart than this, in seconds, samples are missing between them.
const GAP: f64 = 2.5;

/// A time and a value. `None` is an unknown value; it interrupts a line.
pub type Point = (f64, Option<f64>);

/// The kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One metric over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The unit, for people.
    pub unit: String,
    /// Counter or gauge.
    pub kind: ColumnKind,
    /// One value for each sample.
    pub values: Vec<Option<f64>>,
}

/// All metrics over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    format: String,
    /// The program and its version.
    program: String,
    /// The times of the samples, in seconds from the beginning of the measured phase.
    pub seconds: Vec<f64>,
    /// The metrics by name.
    pub columns: BTreeMap<String, Column>,
}

/// Makes times in the order in which they were written ascend. Where a clock was set back between
/// two, all times before are too late, and are moved: a clock is set to make it right.
pub fn in_order(times: &mut [f64]) {
    let (mut late, mut next) = (0.0, f64::INFINITY);
    for time in times.iter_mut().rev() {
        *time -= late;
        if *time > next {
            let more = *time - next + 1.0;
            *time -= more;
            late += more;
        }
        next = *time;
    }
}

/// One sample: name, unit, kind and value of each metric.
pub type Values = Vec<(String, &'static str, ColumnKind, f64)>;

impl Default for Samples {
    fn default() -> Samples {
        Samples::new()
    }
}

impl Samples {
    /// Makes an empty set of samples.
    pub fn new() -> Samples {
        Samples {
            format: FORMAT.to_owned(),
            program: concat!("millpond ", env!("CARGO_PKG_VERSION")).to_owned(),
            seconds: Vec::new(),
            columns: BTreeMap::new(),
        }
    }

    /// Adds a sample. A metric that appears later or is missing has no value where it was not read.
    pub fn push(&mut self, seconds: f64, values: Values) {
        self.push_known(
            seconds,
            values.iter().map(|(name, unit, kind, v)| (name.as_str(), *unit, *kind, *v)),
        );
    }

    /// Adds a sample as [`Samples::push`] does, from borrowed names and units.
    pub fn push_known<'v>(
        &mut self,
        seconds: f64,
        values: impl Iterator<Item = (&'v str, &'v str, ColumnKind, f64)>,
    ) {
        let before = self.seconds.len();
        self.seconds.push(seconds);
        for (name, unit, kind, value) in values {
            if !self.columns.contains_key(name) {
                let column = Column { unit: unit.to_owned(), kind, values: Vec::new() };
                self.columns.insert(name.to_owned(), column);
            }
            let Some(column) = self.columns.get_mut(name) else { continue };
            column.values.resize(before, None);
            column.values.push(Some(value).filter(|v| v.is_finite()));
        }
        for column in self.columns.values_mut() {
            column.values.resize(before + 1, None);
        }
    }

    /// Adds the samples of `other`, whose time 0 is at `start` seconds of these.
    pub fn append(&mut self, other: &Samples, start: f64) {
        for (i, seconds) in other.seconds.iter().enumerate() {
            // A value that is not there is unknown: no line crosses it.
            let value = |column: &Column| column.values.get(i).copied().flatten();
            let values: Vec<(&str, &str, ColumnKind, f64)> = other
                .columns
                .iter()
                .filter_map(|(name, c)| Some((name.as_str(), c.unit.as_str(), c.kind, value(c)?)))
                .collect();
            self.push_known(start + seconds, values.into_iter());
        }
    }

    /// Keeps the samples from `from` until `until`, in seconds.
    pub fn keep(&mut self, from: f64, until: f64) {
        let begin = self.seconds.partition_point(|seconds| *seconds < from);
        let end = self.seconds.partition_point(|seconds| *seconds <= until).max(begin);
        let part = |length: usize| begin.min(length)..end.min(length);
        self.seconds = self.seconds[begin..end].to_vec();
        for Column { values, .. } in self.columns.values_mut() {
            *values = values[part(values.len())].to_vec();
        }
    }

    /// Returns the time of the last sample.
    pub fn end(&self) -> f64 {
        self.seconds.last().copied().unwrap_or(0.0)
    }

    /// Returns a metric's value in the last sample.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.values(name).last().copied().flatten()
    }

    fn values(&self, name: &str) -> &[Option<f64>] {
        self.columns.get(name).map_or(&[], |column| &column.values)
    }

    /// Returns a metric over time.
    pub fn level(&self, name: &str) -> Vec<Point> {
        self.with_gaps(self.seconds.iter().copied().zip(self.values(name).iter().copied()))
    }

    /// Returns a counter's growth a second. The time of each value is the end of its interval.
    pub fn rate(&self, name: &str) -> Vec<Point> {
        self.ratio(name, None)
    }

    /// Returns the growth of `name` divided by the growth of `whole`; without `whole`, the growth a
    /// second.
    pub fn ratio(&self, name: &str, whole: Option<&str>) -> Vec<Point> {
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

    /// Returns how much a counter grew in all; where it began again, from there.
    pub fn growth(&self, name: &str) -> f64 {
        self.values(name).windows(2).filter_map(grown).sum()
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

    /// Returns the members of a family that grew, the largest growth first, by the part of the name
    /// after `family.`.
    pub fn moved(&self, family: &str) -> Vec<(String, f64)> {
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

    /// Reads what [`Samples::json`] has written. An error is a sentence.
    pub fn parse(text: &str) -> Result<Samples, String> {
        let samples: Samples = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if samples.format != FORMAT {
            return Err(format!("its format is {:?}, not {FORMAT:?}", samples.format));
        }
        let whole = samples.columns.values().all(|column| column.values.len() == samples.seconds.len());
        if whole { Ok(samples) } else { Err("a column is shorter or longer than the others".to_owned()) }
    }

    /// Returns the samples as JSON, one line for each metric.
    pub fn json(&self) -> String {
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

    /// Returns the samples as CSV: a line for each sample, a column for each metric. An unknown
    /// value is empty.
    pub fn csv(&self) -> String {
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

/// Serialises a value. Numbers are finite and keys are strings, so this cannot fail.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Returns the growth of a counter between two samples; `None` if it fell, because then it was
/// restarted.
fn grown(pair: &[Option<f64>]) -> Option<f64> {
    let [Some(then), Some(now)] = pair else { return None };
    (now >= then).then_some(now - then)
}

/// Returns every metric of the engine except quantiles, which cover the whole time since the
/// opening.
pub fn of_engine(snapshot: &Snapshot) -> Values {
    snapshot
        .figures()
        .into_iter()
        .filter_map(|(name, value)| match name.rsplit_once('.') {
            None => {
                let entry = CATALOG.iter().find(|entry| entry.name == name);
                let unit = if name.ends_with("_us_total") { Unit::Microseconds } else { Unit::Count };
                let (unit, kind) =
                    entry.map_or((unit, MetricKind::Counter), |entry| (entry.unit, entry.kind));
                let kind = if kind == MetricKind::Gauge { ColumnKind::Gauge } else { ColumnKind::Counter };
                Some((name, unit.label(), kind, value))
            }
            Some((_, "mean" | "p50" | "p95" | "p99" | "max")) => None,
            Some(_) => Some((name, Unit::Count.label(), ColumnKind::Counter, value)),
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
                ("redo".into(), "bytes", ColumnKind::Counter, redo),
                ("age".into(), "bytes", ColumnKind::Gauge, age),
                ("commits".into(), "count", ColumnKind::Counter, commits),
                ("by.log".into(), "count", ColumnKind::Counter, 3.0),
                ("by.root".into(), "count", ColumnKind::Counter, commits),
            ]
        };
        samples.push(0.0, at(100.0, 5.0, 10.0));
        samples.push(1.0, at(300.0, f64::NAN, 20.0));
        samples.push(1.5, at(400.0, 9.0, 20.0));
        samples
    }

    #[test]
    fn a_rate_is_the_difference_divided_by_the_time() {
        let samples = three();
        assert_eq!(samples.rate("redo"), [(1.0, Some(200.0)), (1.5, Some(200.0))]);
        assert_eq!(samples.ratio("redo", Some("commits")), [(1.0, Some(20.0)), (1.5, None)]);
        assert_eq!(samples.level("age"), [(0.0, Some(5.0)), (1.0, None), (1.5, Some(9.0))]);
        assert_eq!(samples.moved("by"), [("root".to_owned(), 10.0)]);
        assert!(samples.rate("no such figure").is_empty());
        assert!(Samples::new().rate("redo").is_empty());
    }

    #[test]
    fn unknown_values_are_gaps() {
        let mut samples = three();
        // A counter that fell, a figure that is missing, a time without samples.
        samples.push(2.0, vec![("redo".into(), "bytes", ColumnKind::Counter, 7.0)]);
        samples.push(6.0, vec![("redo".into(), "bytes", ColumnKind::Counter, 15.0)]);
        let expected = [(1.0, Some(200.0)), (1.5, Some(200.0)), (2.0, None), (4.0, None), (6.0, Some(2.0))];
        assert_eq!(samples.rate("redo"), expected);
        assert_eq!(samples.level("age").last(), Some(&(6.0, None)));
        // A figure that appears late.
        samples.push(7.0, vec![("new".into(), "count", ColumnKind::Gauge, 1.0)]);
        assert_eq!(samples.columns["new"].values, [None, None, None, None, None, Some(1.0)]);
    }

    #[test]
    fn times_before_a_clock_was_set_back_are_moved() {
        let moved = |mut times: Vec<f64>| {
            in_order(&mut times);
            times
        };
        assert_eq!(moved(vec![1.0, 2.0, 2.0, 9.0]), [1.0, 2.0, 2.0, 9.0]);
        assert_eq!(moved(vec![100.0, 101.0, 50.0, 51.0]), [48.0, 49.0, 50.0, 51.0]);
        assert_eq!(moved(vec![900.0, 100.0, 101.0, 50.0]), [47.0, 48.0, 49.0, 50.0]);
        assert!(moved(Vec::new()).is_empty());
    }

    #[test]
    fn both_files_hold_everything() {
        let samples = three();
        assert_eq!(Samples::parse(&samples.json()).unwrap(), samples);
        assert!(Samples::parse(&samples.json().replace("samples 1", "samples 2")).is_err());
        assert_eq!(
            samples.csv(),
            "seconds,age,by.log,by.root,commits,redo\n0,5,3,10,10,100\n1,,3,20,20,300\n1.5,9,3,20,20,400\n"
        );
        let none: Samples = serde_json::from_str(&Samples::new().json()).unwrap();
        assert_eq!(none, Samples::new());
    }

    #[test]
    fn every_metric_of_the_engine_has_its_kind() {
        let values = of_engine(&metrics::Metrics::new().snapshot());
        let kind = |name: &str| values.iter().find(|v| v.0 == name).map(|v| (v.1, v.2));
        assert_eq!(kind("checkpoint_age_bytes"), Some(("bytes", ColumnKind::Gauge)));
        assert_eq!(kind("redo_bytes_written"), Some(("bytes", ColumnKind::Counter)));
        assert_eq!(kind("fsync_us_total"), Some(("µs", ColumnKind::Counter)));
        assert_eq!(kind("fsyncs_by_reason.commit"), Some(("count", ColumnKind::Counter)));
        assert_eq!(kind("commit_us.p99"), None);
    }
}
