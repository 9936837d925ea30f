//! The report of `millpond bench laws`: the commits of each second under each law, and a table.

use crate::result::RunResult;
use output::report::axis::Measure;
use output::report::chart::{Chart, ChartStyle, Series};
use output::report::page::{Origin, Page, Table, columns};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::units::{show_count, show_micros};

const LEAD: &str =
    "The same load on the same engine with the same log, equally durable, under two laws of flow control.";

/// The data of the report.
#[derive(Debug)]
pub(crate) struct LawsReport<'a> {
    /// A result for each law, which its request names.
    pub(crate) sides: &'a [RunResult],
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl LawsReport<'_> {
    /// Returns the table as text.
    pub(crate) fn text(&self) -> String {
        let table = self.table();
        let mut lines: Vec<String> = table.columns.iter().map(|name| format!("{name:<24}")).collect();
        for row in &table.rows {
            let width = row.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + 2;
            for (line, cell) in lines.iter_mut().zip(row) {
                let pad = width - cell.chars().count();
                line.extend(std::iter::repeat_n(' ', pad));
                line.push_str(cell);
            }
        }
        lines.join("\n") + "\n"
    }

    /// Returns the files of the report by name; the page is the last one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let chart = self.chart().thinned(svg::POINTS);
        let mut files = vec![chart.file()];
        let mut page = Page::new("Millpond, two laws of flow control", LEAD);
        if self.sides.iter().any(|side| !side.durable_device) {
            page.warning(
                "The databases were on a memory file system: a sync costs nothing there, and nothing survives a power cut.",
            );
        }
        page.chart(&chart);
        page.table(&self.table());
        page.origin(&self.origin, &files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        let foot =
            format!("Millpond {}. Every number covers only the measured phase.", env!("CARGO_PKG_VERSION"));
        files.push((PAGE.to_owned(), page.finish(&foot)));
        files
    }

    fn chart(&self) -> Chart {
        let series = |side: &RunResult| {
            let per_second = side.work.tps_per_second.iter().zip(1u32..);
            let points = per_second.map(|(n, second)| (f64::from(second), Some(*n as f64))).collect();
            Series::new(side.request.law.clone(), points)
        };
        let end = self.sides.iter().map(|side| side.work.tps_per_second.len()).max().unwrap_or(0);
        Chart {
            id: "laws".into(),
            title: "Commits a second".to_owned(),
            note: "Each value is shown at the end of its second.".to_owned(),
            measure: Measure::Count("commits/s"),
            style: ChartStyle::Lines,
            series: self.sides.iter().map(series).collect(),
            marks: Vec::new(),
            moment: None,
            end: end as f64,
            clock: None,
        }
    }

    fn table(&self) -> Table {
        Table {
            caption: "Stops are operations that had to wait for the checkpoint. Delays and stops together, of all threads, make the time.".to_owned(),
            names: 1,
            columns: columns(&[
                "law",
                "commits a second",
                "median second",
                "worst second",
                "worst of the median",
                "seconds without commits",
                "p99",
                "p99.9",
                "longest",
                "stops",
                "delayed or stopped",
            ]),
            rows: self.sides.iter().map(row).collect(),
        }
    }
}

fn row(side: &RunResult) -> Vec<String> {
    let mut sorted = side.work.tps_per_second.clone();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let worst = sorted.first().copied().unwrap_or(0);
    let count = |n: u64| show_count(n as f64);
    vec![
        side.request.law.clone(),
        show_count(side.work.tps),
        count(median),
        count(worst),
        if median > 0 { format!("{:.2}", worst as f64 / median as f64) } else { "none".to_owned() },
        count(sorted.iter().filter(|n| **n == 0).count() as u64),
        show_micros(side.work.latency_us.p99),
        show_micros(side.work.latency_us.p999),
        show_micros(side.work.latency_us.max),
        count(side.hard_waits),
        show_micros(side.throttled_us_total as f64),
    ]
}
