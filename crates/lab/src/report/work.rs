//! What the threads of a run did, as plots. It does not depend on the engine that they worked on.

use super::histogram::{self, Histogram};
use crate::measurements::Totals;
use crate::result::WorkDone;
use crate::steadiness::Steadiness;
use output::report::axis::Measure;
use output::report::chart::{Annotation, Chart, ChartStyle, Series};
use output::report::page::Headline;
use output::samples::{Point, Samples};
use output::units::{show_count, show_micros};

/// The work of a run.
#[derive(Debug)]
pub(super) struct WorkReport<'a> {
    /// What the threads did.
    pub(super) work: &'a WorkDone,
    /// The latency of each transaction.
    pub(super) totals: &'a Totals,
    /// Every metric at each second.
    pub(super) samples: &'a Samples,
}

impl WorkReport<'_> {
    /// Returns the end of the time axis of all plots, seconds.
    pub(super) fn end(&self) -> f64 {
        self.samples.end().max(self.work.tps_per_second.len() as f64)
    }

    /// Returns the rate and how steady it was, and the latency.
    pub(super) fn headlines(&self) -> Vec<Headline> {
        let work = self.work;
        let mut out = vec![headline(
            "commits a second",
            show_count(work.tps),
            format!("{} in all", show_count(work.transactions as f64)),
        )];
        if let Some(steady) = self.steadiness() {
            let stalls = match steady.zero {
                0 => "no second without commits".to_owned(),
                1 => "1 second without commits".to_owned(),
                n => format!("{n} seconds without commits"),
            };
            let share = steady.percent().unwrap_or(0.0);
            out.push(headline("worst second", format!("{share:.0} %"), format!("of the median; {stalls}")));
        }
        let l = &work.latency_us;
        let tail = format!("p50 {}, p99.9 {}", show_micros(l.p50), show_micros(l.p999));
        out.push(headline("p99 latency", show_micros(l.p99), tail));
        out
    }

    /// Returns how steady the run was; `None` if it was too short to say.
    fn steadiness(&self) -> Option<Steadiness> {
        Steadiness::of(&self.work.tps_per_second).filter(|steady| steady.seconds > 1)
    }

    /// Returns a plot over the time of the run.
    pub(super) fn chart(
        &self,
        id: &'static str,
        title: &str,
        measure: Measure,
        series: Vec<Series>,
    ) -> Chart {
        Chart::lines(id, title, measure, series, self.end())
    }

    /// Returns the commits of each second.
    pub(super) fn throughput(&self) -> Chart {
        let per_second = &self.work.tps_per_second;
        let points: Vec<Point> =
            per_second.iter().enumerate().map(|(i, n)| (i as f64 + 1.0, Some(*n as f64))).collect();
        let (first, last) = (points.first().map(|p| p.0), points.last().map(|p| p.0));
        let series = vec![Series::new("commits", points)];
        let mut chart = self.chart("throughput", "Commits a second", Measure::Count("commits/s"), series);
        if let Some(Steadiness { median, worst, worst_at, .. }) = self.steadiness() {
            let level = [first, last].into_iter().flatten().map(|t| (t, Some(median as f64))).collect();
            chart.series.push(Series::limit("median", level));
            let label = format!("worst second {}", show_count(worst as f64));
            chart.marks.push(Annotation { at: worst_at as f64 + 1.0, value: worst as f64, label });
            chart.note = format!(
                "Median {}, worst second {}, best {}.",
                show_count(median as f64),
                show_count(worst as f64),
                show_count(per_second.iter().copied().max().unwrap_or(0) as f64)
            );
        }
        chart
    }

    /// Returns the latency in each second.
    pub(super) fn latency(&self) -> Chart {
        let series = latency_lines(self.samples).into_iter().map(without_start).collect();
        Chart {
            style: ChartStyle::LogLines,
            note: LATENCY_NOTE.to_owned(),
            ..self.chart("latency", "Latency", Measure::Micros, series)
        }
    }

    /// Returns the number of transactions by latency.
    pub(super) fn histogram(&self) -> Histogram {
        let l = &self.work.latency_us;
        let mut marks = vec![("p50", l.p50), ("p99", l.p99), ("p99.9", l.p999), ("longest", l.max)];
        marks.retain(|(_, us)| *us > 0.0);
        Histogram {
            id: "latency-histogram",
            title: "Latency, all transactions".to_owned(),
            note:
                "The number of transactions by latency. The lowest bars are drawn high enough to be visible."
                    .to_owned(),
            bins: histogram::bins(&self.totals.latency),
            marks,
        }
    }
}

/// What a plot of latencies shows.
pub(super) const LATENCY_NOTE: &str = "From the begin to the return of the commit, including retries; for the transactions that ended in each second.";

/// Returns the percentiles of each second.
pub(super) fn latency_lines(samples: &Samples) -> Vec<Series> {
    let of = |label, name| Series::new(label, samples.level(name));
    vec![of("p50", "run_latency_p50_us"), of("p99", "run_latency_p99_us"), of("p99.9", "run_latency_p999_us")]
}

/// Makes a headline.
pub(super) fn headline(label: &str, value: String, small: String) -> Headline {
    Headline { label: label.to_owned(), value, small }
}

/// Removes the first point if it is unknown: at time 0 no second has passed yet, so there is no
/// latency.
fn without_start(mut series: Series) -> Series {
    if series.points.first().is_some_and(|(t, value)| *t == 0.0 && value.is_none()) {
        series.points.remove(0);
    }
    series
}
