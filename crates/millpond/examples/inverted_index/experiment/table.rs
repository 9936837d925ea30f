//! The report as a table for people.

use super::query::Published;
use super::report::{Report, Row};
use super::timing::Timing;

/// Returns the text of a report: what was measured, and a table.
pub(crate) fn table(report: &Report) -> String {
    let mut text = heading(report);
    let mut lines = vec![head(report)];
    lines.extend(report.rows.iter().map(|row| line(report, row)));
    let width = |n: usize| lines.iter().filter_map(|line| line.get(n)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..lines[0].len()).map(|n| width(n).unwrap_or(0)).collect();
    lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    text
}

fn heading(report: &Report) -> String {
    let setup = &report.setup;
    let ([a, b], [bitmaps, packed]) = (setup.sizes, report.blocks);
    let mut text = format!(
        "Two lists of {a} and {b} of {} ids, {} runs after one that is not counted.\n\
         Each answer was compared with that of the two loops. Blocks: {bitmaps} bitmaps, {packed} of \
         packed ids.\nBytes an id:",
        setup.universe, setup.runs,
    );
    for column in &report.columns {
        if let Some(bytes) = column.list_bytes {
            text.push_str(&format!(" {} {:.2};", column.name, bytes as f64 / (a + b) as f64));
        }
    }
    text.pop();
    text.push_str(
        ".\nTimes in ms: the median (the fastest to the slowest run). The bound is one pass over the \
         stored bytes and the\nids to be written; the gap is how many times as long Millpond takes, in \
         memory and from the pool.\n\n",
    );
    text
}

fn head(report: &Report) -> Vec<String> {
    let names = report.columns.iter().map(|column| column.name.clone());
    let mut cells = vec!["what".into(), "ids".into(), "published".into()];
    cells.extend(names);
    cells.extend(["bound".into(), "gap".into()]);
    cells
}

fn line(report: &Report, row: &Row) -> Vec<String> {
    let mut cells = vec![row.query.name().into(), row.ids.to_string(), published(row.query.published())];
    cells.extend(row.timings.iter().map(|timing| timing.as_ref().map_or("-".into(), times)));
    cells.push(times(&row.bound));
    let gaps = (1..report.columns.len().min(3)).filter_map(|column| row.gap(column));
    cells.push(gaps.map(|gap| format!("{gap:.1}")).collect::<Vec<_>>().join(" / "));
    cells
}

fn published(Published { computed_ms, lucene_ms }: Published) -> String {
    let lucene = lucene_ms.map_or(String::new(), |ms| format!(", Lucene {ms}"));
    format!("{computed_ms} computed{lucene}")
}

fn times(Timing { median_ms, fastest_ms, slowest_ms }: &Timing) -> String {
    format!("{median_ms:.3} ({fastest_ms:.3} to {slowest_ms:.3})")
}
