//! A latency histogram: bars over a logarithmic axis.

use output::report::axis::{Axis, Measure};
use output::report::escape::escape;
use output::report::plot::Plot;
use output::report::svg::{self, Format, Layout, text};
use output::units::{show_count, show_micros};
use std::fmt::Write;

/// Bars for each power of ten.
const PER_DECADE: f64 = 20.0;

/// The number of values in a range of microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    /// The lower bound.
    pub(crate) low: f64,
    /// The exclusive upper bound.
    pub(crate) high: f64,
    /// How many values.
    pub(crate) count: u64,
}

/// Returns the bins of values in nanoseconds, from the first to the last one that is not empty.
pub(crate) fn bins(histogram: &hdrhistogram::Histogram<u64>) -> Vec<Bin> {
    let edge = |i: i32| 10f64.powf(f64::from(i) / PER_DECADE);
    let mut bins: Vec<Bin> = Vec::new();
    let mut last = None;
    for value in histogram.iter_recorded() {
        let us = (value.value_iterated_to() as f64 / 1000.0).max(0.001);
        let i = (us.log10() * PER_DECADE).floor() as i32;
        for empty in last.map_or(i, |last: i32| last + 1)..=i {
            bins.push(Bin { low: edge(empty), high: edge(empty + 1), count: 0 });
        }
        last = Some(i);
        if let Some(bin) = bins.last_mut() {
            bin.count += value.count_at_value();
        }
    }
    bins
}

/// A histogram with marked values.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    /// The name of its file and its id on the page.
    pub(crate) id: &'static str,
    /// The title.
    pub(crate) title: String,
    /// An explanation.
    pub(crate) note: String,
    /// The bars.
    pub(crate) bins: Vec<Bin>,
    /// Marked values in microseconds with their names, in order.
    pub(crate) marks: Vec<(&'static str, f64)>,
}

impl Plot for Histogram {
    fn about(&self) -> (&str, &str, &str) {
        (self.id, &self.title, &self.note)
    }

    fn described(&self) -> String {
        let marks: Vec<String> =
            self.marks.iter().map(|(name, us)| format!("{name} {}", show_micros(*us))).collect();
        format!("{} {}", self.note, marks.join(", "))
    }

    fn draw(&self, format: Format) -> (Layout, String) {
        let label = |(name, us): &(&str, f64)| format!("{name} {}", show_micros(*us));
        let look = |row: usize| format!("limit l{}", row % 4 + 1);
        let narrow = format == Format::Narrow;
        // On a phone there is no space for labels among the bars.
        let above = self.marks.iter().enumerate().filter(|_| narrow);
        let keys = svg::keys(above.map(|(row, mark)| (look(row), label(mark))));
        let mut layout = Layout::new(format, keys.len());
        // There are no names at its right.
        layout.right = layout.width - 14.0;
        let (low, high) = match (self.bins.first(), self.bins.last()) {
            (Some(first), Some(last)) => (first.low, last.high),
            _ => (100.0, 10_000.0),
        };
        let mut x = Axis::log_micros(low, high);
        if narrow && x.ticks.len() > 6 {
            let mut n = 0;
            x.ticks.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
        let most = self.bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        let y = Axis::linear(most as f64, Measure::Count("transactions"), 4.0);
        let mut out = String::new();
        layout.axes(&mut out, &x, &y);
        if self.bins.is_empty() {
            let (middle, height) = ((layout.left + layout.right) / 2.0, (layout.top + layout.bottom) / 2.0);
            text(&mut out, "tick mid", middle, height, "no transactions");
        }
        for bin in self.bins.iter().filter(|bin| bin.count > 0) {
            let (from, to) = (layout.x(&x, bin.low), layout.x(&x, bin.high));
            // A bar of a few transactions must be visible.
            let height = (layout.bottom - layout.y(&y, bin.count as f64)).max(1.5);
            let _ = write!(
                out,
                "<rect class=\"bar\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
                layout.bottom - height,
                (to - from - 0.6).max(0.6),
                escape(&format!(
                    "{} to {}: {}",
                    show_micros(bin.low),
                    show_micros(bin.high),
                    show_count(bin.count as f64)
                ))
            );
        }
        for (row, mark) in self.marks.iter().enumerate() {
            let at = layout.x(&x, mark.1);
            let height = layout.top + if narrow { 0.0 } else { 6.0 + 16.0 * row as f64 };
            let (look, top) = (look(row), height - 9.0);
            let _ = write!(out, "<path class=\"{look}\" d=\"M{at:.1},{top:.1}V{:.1}\"/>", layout.bottom);
            if !narrow {
                let label = label(mark);
                let fits = at + 6.0 + svg::width(&label) <= layout.width;
                let (class, at) = if fits { ("label", at + 5.0) } else { ("label end", at - 5.0) };
                text(&mut out, class, at, height, &label);
            }
        }
        svg::draw_keys(&mut out, &keys);
        (layout, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bin_and_bins_are_adjacent() {
        let mut h = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        for us in [1u64, 90, 95, 1_000, 1_001, 90_000_000] {
            h.record_n(us * 1000, us % 7 + 1).unwrap();
        }
        let bins = bins(&h);
        assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), h.len());
        assert!(bins[0].low <= 1.001 && bins[bins.len() - 1].high > 9e7);
        assert!(bins.windows(2).all(|w| (w[0].high / w[1].low - 1.0).abs() < 1e-9));
        assert!(bins.iter().filter(|b| b.count > 0).count() >= 4);
    }

    #[test]
    fn an_empty_histogram_says_so() {
        let empty = Histogram {
            id: "latency",
            title: "Latency".into(),
            note: String::new(),
            bins: bins(&hdrhistogram::Histogram::<u64>::new(3).unwrap()),
            marks: Vec::new(),
        };
        assert!(empty.element(Format::Narrow).contains("no transactions"));
        assert!(!empty.file().1.contains("NaN"));
    }
}
