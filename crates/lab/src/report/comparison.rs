//! The report of `millpond run --compare`: every second of each contestant, round by round, and a
//! row for each.

use crate::rounds::{Comparison, HEADS};
use crate::turn::Turn;
use output::report::axis::Measure;
use output::report::chart::{Annotation, Chart, Series};
use output::report::page::{Origin, Page, Table, columns};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::samples::Point;
use output::units::{show_count, show_micros};
use serde::Serialize;

/// The data of a report.
#[derive(Debug)]
pub(crate) struct ComparisonReport<'a, R: Serialize> {
    pub(crate) comparison: &'a Comparison<R>,
    /// What ran where, in a sentence.
    pub(crate) lead: String,
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl<R: Serialize> ComparisonReport<'_, R> {
    /// Returns the files of the report by name; the page is the last one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let chart = self.throughput().thinned(svg::POINTS);
        let mut files = vec![chart.file()];
        let mut page = Page::new("The same load, in turns", &self.lead);
        let check = self.comparison.check();
        if check != "ok" {
            page.warning(&format!("The check after the run found: {check}"));
        }
        page.table(&Table {
            caption: "Medians of the rounds, and in brackets the least and the greatest. A ratio is to the first of the same round. The worst second is of the median one.".to_owned(),
            names: 1,
            columns: columns(&HEADS),
            rows: self.comparison.cells().map(|cells| cells.to_vec()).collect(),
        });
        page.chart(&chart);
        page.section("Turns");
        page.table(&self.turns());
        page.origin(&self.origin, &files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        files.push((PAGE.to_owned(), page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))));
        files
    }

    /// Returns the seconds of the longest turn, and how many rounds there were.
    fn rounds(&self) -> (usize, usize) {
        let seconds = |turns: &[Turn]| turns.iter().map(|turn| turn.work.tps_per_second.len()).max();
        self.comparison.turns().fold((0, 0), |(longest, rounds), (_, turns)| {
            (longest.max(seconds(turns).unwrap_or(0)), rounds.max(turns.len()))
        })
    }

    fn throughput(&self) -> Chart {
        let (longest, rounds) = self.rounds();
        // Between rounds there is a gap of a second.
        let begin = |round: usize| (round * (longest + 1)) as f64;
        let line = |(name, turns): (String, &[Turn])| {
            let points = turns.iter().enumerate().flat_map(|(round, turn)| {
                let second = move |(i, n): (usize, &u64)| (begin(round) + i as f64 + 1.0, Some(*n as f64));
                let gap: Point = (begin(round), None);
                std::iter::once(gap).chain(turn.work.tps_per_second.iter().enumerate().map(second))
            });
            Series::new(name, points.collect())
        };
        let series: Vec<Series> = self.comparison.turns().map(line).collect();
        let first = self.comparison.turns().next().map_or(&[][..], |(_, turns)| turns);
        let marks = first.iter().enumerate().filter_map(|(round, turn)| {
            let value = *turn.work.tps_per_second.first()? as f64;
            Some(Annotation { at: begin(round) + 1.0, value, label: (round + 1).to_string() })
        });
        let (marks, end) = (marks.collect(), begin(rounds) - 1.0);
        let note = "Each round has a turn of each, one after the other; here they lie over each other. A label is the number of the round.".to_owned();
        let measure = Measure::Count("commits/s");
        Chart { marks, note, ..Chart::lines("throughput", "Commits a second", measure, series, end.max(0.0)) }
    }

    /// Returns a row for each turn.
    fn turns(&self) -> Table {
        let row = |name: &str, round: usize, turn: &Turn| {
            let latency = &turn.work.latency_us;
            let [age, share] = turn.shown_age();
            vec![
                name.to_owned(),
                (round + 1).to_string(),
                show_count(turn.work.tps),
                show_micros(latency.p50),
                show_micros(latency.p99),
                show_micros(latency.p999),
                show_micros(latency.max),
                show_count(turn.work.retries as f64),
                age,
                share,
            ]
        };
        let rows = self.comparison.turns().flat_map(|(name, turns)| {
            turns.iter().enumerate().map(move |(round, turn)| row(&name, round, turn)).collect::<Vec<_>>()
        });
        Table {
            caption: "The greatest checkpoint age, and its share of the limit.".to_owned(),
            names: 1,
            columns: columns(&[
                "contestant",
                "round",
                "tps",
                "p50",
                "p99",
                "p99.9",
                "longest",
                "retries",
                "age",
                "limit",
            ]),
            rows: rows.collect(),
        }
    }
}
