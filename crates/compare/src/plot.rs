//! A bar chart for each kind of work, as a self-contained SVG file.

use crate::rounds::{Results, WorkResult};
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 640.0;
const BAR: f64 = 22.0;
const LABEL: f64 = 110.0;
const NUMBER: f64 = 100.0;

/// Draws the chart of one cell: a bar for each peer, in the order of the table.
fn chart(cell: &WorkResult) -> String {
    let summaries = cell.summaries();
    let longest = summaries.iter().map(|(_, s)| s.rate).fold(1.0, f64::max);
    let height = 40.0 + BAR * summaries.len() as f64;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-weight=\"bold\">{}, {} threads</text>",
        cell.work.unit(),
        cell.threads
    );
    for (n, (name, summary)) in summaries.iter().enumerate() {
        let y = 32.0 + BAR * n as f64;
        let length = (WIDTH - LABEL - NUMBER) * summary.rate / longest;
        let colour = match *name {
            "millpond" => "#1f77b4",
            crate::rounds::DEVICE => "#999999",
            _ => "#c7d3dd",
        };
        let _ = writeln!(
            out,
            "<text x=\"8\" y=\"{:.0}\">{name}</text>\
             <rect x=\"{LABEL}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"{:.0}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{:.0}</text>",
            y + 15.0,
            BAR - 4.0,
            LABEL + length + 6.0,
            y + 15.0,
            summary.rate
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Writes a chart for each cell into `dir`, and creates a missing directory.
pub fn write(results: &Results, dir: &Path) -> Result<(), String> {
    let failed = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    std::fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
    for cell in &results.cells {
        let path = dir.join(format!("{}-{}.svg", cell.work.name(), cell.threads));
        std::fs::write(&path, chart(cell)).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measurement, histogram};
    use crate::work::Work;

    #[test]
    fn bars_are_as_long_as_their_rates() {
        let one = |rate| vec![Measurement { rate, latency: histogram(), per_second: Vec::new() }];
        let by_peer = vec![("millpond", one(100.0)), ("redb", one(50.0))];
        let svg = chart(&WorkResult { work: Work::Scan, threads: 16, by_peer });
        assert!(svg.contains("width=\"430.0\"") && svg.contains("width=\"215.0\""), "{svg}");
        assert!(svg.contains("16 threads") && svg.ends_with("</svg>\n"));
    }
}
