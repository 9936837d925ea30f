//! The picture of a finding: for each figure a bar of each side, beside what was published.

use super::finding::{Finding, Row, figure};
use output::report::plot::Plot;
use output::report::svg::{Format, Layout, text, width};
use std::fmt::Write;

/// The height of a line of text above bars, and of a bar with its gap.
const HEAD: f64 = 20.0;
const BAR: f64 = 17.0;
/// Between the bars of two figures.
const GAP: f64 = 12.0;
/// From the left edge to the bars: the longest name of a side.
const NAMES: f64 = 132.0;
/// What a bar's number needs at its end.
const NUMBER: f64 = 64.0;
/// A bar that is too short to be seen is drawn so long.
const LEAST: f64 = 1.5;

/// The picture of a finding.
pub(super) struct Bars<'a> {
    /// The experiment.
    pub(super) id: &'a str,
    /// What the article concludes.
    pub(super) claim: &'a str,
    pub(super) finding: &'a Finding,
}

/// A side's name, the look of its bars, and its value in a row.
type Side = (&'static str, &'static str, fn(&Row) -> Option<f64>);

const SIDES: [Side; 4] = [
    ("InnoDB", "area s2", |row| row.innodb),
    ("Millpond", "area s1", |row| row.millpond),
    ("Millpond in a server", "area s3", |row| row.millpond_in_server),
    ("bound", "area s6", |row| row.bound),
];

/// Returns the sides that a row has a value of, with it.
fn bars(row: &Row) -> Vec<(&'static str, &'static str, f64)> {
    SIDES.iter().filter_map(|(name, look, of)| Some((*name, *look, of(row)?))).collect()
}

impl Bars<'_> {
    /// Returns the rows with something to compare.
    fn rows(&self) -> impl Iterator<Item = (&Row, Vec<(&'static str, &'static str, f64)>)> {
        let all = self.finding.rows.iter().map(|row| (row, bars(row)));
        all.filter(|(row, bars)| bars.len() > 1 || (row.published.is_some() && !bars.is_empty()))
    }
}

impl Plot for Bars<'_> {
    fn about(&self) -> (&str, &str, &str) {
        (self.id, self.id, self.claim)
    }

    fn described(&self) -> String {
        let rows = self.rows().map(|(row, bars)| {
            let values = bars.iter().map(|(name, _, value)| format!("{name} {}", figure(*value)));
            format!("{}: {} {}.", row.what, values.collect::<Vec<_>>().join(", "), row.unit)
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    fn draw(&self, format: Format) -> (Layout, String) {
        let mut layout = Layout::new(format, 0);
        (layout.left, layout.right) = (NAMES, layout.width - NUMBER);
        let (mut out, mut y) = (String::new(), 0.0);
        for (row, bars) in self.rows() {
            y += HEAD;
            let unit = if row.unit == row.what { String::new() } else { format!(", {}", row.unit) };
            text(&mut out, "label", 2.0, y - 6.0, &format!("{}{unit}", row.what));
            if let Some(published) = &row.published {
                let words = format!("the article: {published}");
                let beside = 2.0 + width(&row.what) + width(&unit) + width(&words) < layout.width - 20.0;
                if !beside {
                    y += BAR;
                }
                text(&mut out, "tick end", layout.width - 4.0, y - 6.0, &words);
            }
            let most = bars.iter().map(|(.., value)| value.abs()).fold(0.0, f64::max);
            for (name, look, value) in bars {
                let share = if most > 0.0 { value.abs() / most } else { 0.0 };
                let long = ((layout.right - layout.left) * share).max(LEAST);
                let (left, base) = (layout.left, y + BAR - 5.0);
                text(&mut out, "tick end", left - 8.0, base, name);
                let _ = write!(
                    out,
                    "<rect class=\"{look}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"{:.1}\"/>",
                    y + 1.0,
                    BAR - 3.0
                );
                text(&mut out, "label", left + long + 6.0, base, &figure(value));
                y += BAR;
            }
            y += GAP;
        }
        (layout.top, layout.bottom, layout.height) = (0.0, y, y.max(HEAD));
        (layout, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        let mut rate = Row::new("rate", Some("5 300"), Some(250.0), Some(1000.0), "a second");
        rate.bound = Some(0.0);
        let alone = Row::new("rows", None, Some(3.0), None, "rows");
        Finding {
            rows: vec![rate, alone],
            holds: String::new(),
            scaled: String::new(),
            seconds: 1.0,
            check: "ok".to_owned(),
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_rows_without_a_comparison_are_not_drawn() {
        let finding = finding();
        let bars = Bars { id: "D2.B19", claim: "It is fast", finding: &finding };
        let (layout, body) = bars.draw(Format::Wide);
        let widths: Vec<f64> = body
            .split("width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        let whole = layout.right - layout.left;
        assert_eq!(widths, [whole / 4.0, whole, LEAST]);
        assert!(body.contains("the article: 5 300") && !body.contains("rows"), "{body}");
        assert_eq!(bars.described(), "rate: InnoDB 250, Millpond 1000, bound 0.000 a second.");
        let (name, file) = bars.file();
        assert!(name == "D2.B19.svg" && file.contains("It is fast"));
        assert!(bars.draw(Format::Narrow).0.height > layout.height - 1.0);
    }

    #[test]
    fn a_finding_without_rows_is_an_empty_picture() {
        let nothing = Finding { rows: Vec::new(), ..finding() };
        let bars = Bars { id: "D0.B3", claim: "", finding: &nothing };
        assert_eq!(bars.draw(Format::Wide).1, "");
    }
}
