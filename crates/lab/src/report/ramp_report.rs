//! The report of `millpond run --ramp`: all steps from left to right, and a row for each.

use super::work::{LATENCY_NOTE, latency_lines};
use crate::ramp::{Climb, HEADS};
use output::report::axis::Measure;
use output::report::chart::{Annotation, Chart, ChartStyle, Series};
use output::report::page::{Origin, Page, Table, columns};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::samples::Point;

/// The data of a report.
#[derive(Debug)]
pub(crate) struct RampReport<'a> {
    /// The steps.
    pub(crate) climb: &'a Climb,
    /// What ran where, in a sentence.
    pub(crate) lead: String,
    /// The knee, in a sentence.
    pub(crate) knee: String,
    /// What is wrong with the tables, if anything is.
    pub(crate) fault: Option<String>,
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl RampReport<'_> {
    /// Returns the files of the report by name; the page is the last one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let charts = self.charts();
        let mut files: Vec<(String, String)> = charts.iter().map(Plot::file).collect();
        files.push(("samples.json".to_owned(), self.climb.samples.json()));
        files.push(("samples.csv".to_owned(), self.climb.samples.csv()));
        let mut page = Page::new("A ramp of threads", &self.lead);
        if let Some(fault) = &self.fault {
            page.warning(&format!("The check after the run found: {fault}"));
        }
        page.section("Steps");
        page.table(&Table {
            caption: self.knee.clone(),
            names: 1,
            columns: columns(&HEADS),
            rows: self.climb.steps.iter().map(|step| step.cells().to_vec()).collect(),
        });
        page.section("Over time");
        page.paragraph(
            "The steps from left to right; each begins with a warm-up, which is not shown. A label stands where a step begins to be measured.",
        );
        charts.iter().for_each(|chart| page.chart(chart));
        page.origin(&self.origin, &files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        files.push((PAGE.to_owned(), page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))));
        files
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts = vec![self.throughput(), self.latency()];
        charts.extend(super::engine_charts(&self.climb.samples));
        let end = self.end();
        charts.into_iter().map(|chart| Chart { end, ..chart }.thinned(svg::POINTS)).collect()
    }

    fn end(&self) -> f64 {
        let last = self.climb.steps.last().zip(self.climb.starts.last());
        last.map_or(0.0, |(step, start)| start + step.per_second().len() as f64)
    }

    fn throughput(&self) -> Chart {
        let mut points: Vec<Point> = Vec::new();
        let mut marks = Vec::new();
        for (step, start) in self.climb.steps.iter().zip(&self.climb.starts) {
            // A line does not cross the warm-up.
            points.push((*start, None));
            let second = |(i, n): (usize, &u64)| (start + i as f64 + 1.0, Some(*n as f64));
            points.extend(step.per_second().iter().enumerate().map(second));
            if let Some(first) = step.per_second().first() {
                let label = step.threads().to_string();
                marks.push(Annotation { at: start + 1.0, value: *first as f64, label });
            }
        }
        let series = vec![Series::new("commits", points)];
        let measure = Measure::Count("commits/s");
        let note = "A label is the number of threads.".to_owned();
        Chart { marks, note, ..Chart::lines("throughput", "Commits a second", measure, series, self.end()) }
    }

    fn latency(&self) -> Chart {
        let series = latency_lines(&self.climb.samples);
        let chart = Chart::lines("latency", "Latency", Measure::Micros, series, self.end());
        Chart { style: ChartStyle::LogLines, note: LATENCY_NOTE.to_owned(), ..chart }
    }
}
