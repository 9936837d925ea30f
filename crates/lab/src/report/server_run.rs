//! The report of `millpond run --target`: what the clients did, and the server's figures below it.

use super::work::{WorkReport, headline};
use crate::driver::Driven;
use crate::server::ServerResult;
use output::report::chart::Chart;
use output::report::page::{Headline, Origin, Page};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::units::show_count;

/// The data of a report.
#[derive(Debug)]
pub(crate) struct ServerRunReport<'a> {
    /// What was measured.
    pub(crate) driven: &'a Driven,
    /// The result of `--json`.
    pub(crate) result: &'a ServerResult,
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl ServerRunReport<'_> {
    /// Returns the files of the report by name; the page is the last one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let work = self.work();
        let histogram = work.histogram();
        let charts = self.charts();
        let mut files: Vec<(String, String)> = charts.iter().map(Plot::file).collect();
        files.push(histogram.file());
        files.push(("samples.json".to_owned(), self.driven.samples.json()));
        files.push(("samples.csv".to_owned(), self.driven.samples.csv()));
        let mut page = Page::new(&self.result.title(), &self.result.lead());
        if let Some(fault) = self.result.fault() {
            page.warning(&format!("The check after the run found: {fault}"));
        }
        page.headlines(&self.headlines());
        page.section("Over time");
        page.paragraph(
            "One sample a second. The first plots show what the clients did, the others what the server counted meanwhile; all share the time axis.",
        );
        for chart in &charts {
            page.chart(chart);
            if chart.id == "latency" {
                page.still(&histogram);
            }
        }
        page.section("Summary");
        page.facts(&self.result.lines());
        page.origin(&self.origin, &files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        let foot =
            format!("Millpond {}. Every number covers only the measured phase.", env!("CARGO_PKG_VERSION"));
        files.push((PAGE.to_owned(), page.finish(&foot)));
        files
    }

    fn work(&self) -> WorkReport<'_> {
        WorkReport { work: self.result.work(), totals: &self.driven.totals, samples: &self.driven.samples }
    }

    fn charts(&self) -> Vec<Chart> {
        let work = self.work();
        let mut charts = vec![work.throughput(), work.latency()];
        charts.extend(super::engine_charts(&self.driven.samples));
        let end = work.end();
        charts.into_iter().map(|chart| Chart { end, ..chart }.thinned(svg::POINTS)).collect()
    }

    fn headlines(&self) -> Vec<Headline> {
        let mut out = self.work().headlines();
        if let Some((commits, fsyncs)) = self.result.commits_per_fsync() {
            let rate = fsyncs as f64 / self.result.work().seconds.max(1e-6);
            let small = format!("{} fsyncs/s", show_count(rate));
            out.push(headline("commits per fsync", format!("{commits:.1}"), small));
        }
        out
    }
}
