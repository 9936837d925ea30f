//! Consecutive phases, as bars over a time axis.

use output::report::axis::{Axis, Measure};
use output::report::plot::Plot;
use output::report::svg::{self, Format, Layout, text};
use output::units::show_micros;
use std::fmt::Write;

/// Height of one phase.
const ROW: f64 = 30.0;

/// Consecutive phases.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The name of its file and its id on the page.
    pub(crate) id: &'static str,
    /// The title.
    pub(crate) title: String,
    /// An explanation.
    pub(crate) note: String,
    /// The name of each phase, and when it ended, in microseconds from the beginning.
    pub(crate) phases: Vec<(&'static str, f64)>,
}

impl Plot for Timeline {
    fn about(&self) -> (&str, &str, &str) {
        (self.id, &self.title, &self.note)
    }

    fn described(&self) -> String {
        let phases: Vec<String> =
            self.phases.iter().map(|(name, end)| format!("{name}: until {}", show_micros(*end))).collect();
        format!("{} {}.", self.note, phases.join(", "))
    }

    fn draw(&self, format: Format) -> (Layout, String) {
        let mut layout = Layout::new(format, 0);
        layout.left = 8.0;
        layout.right = layout.width - 24.0;
        layout.bottom = layout.top + ROW * self.phases.len() as f64 + 4.0;
        layout.height = layout.bottom + 24.0;
        let end = self.phases.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        let mut x = Axis::linear(end, Measure::Micros, if format == Format::Wide { 6.0 } else { 3.0 });
        let mut out = String::new();
        for (_, label) in x.ticks.iter_mut().skip(1) {
            *label = format!("{label} {}", x.caption);
        }
        let rows = Axis { low: 0.0, high: 1.0, log: false, ticks: Vec::new(), caption: String::new() };
        layout.axes(&mut out, &x, &rows);
        let _ = write!(
            out,
            "<path class=\"base\" d=\"M{:.1},{:.1}H{:.1}\"/>",
            layout.left, layout.bottom, layout.right
        );
        let mut began = 0.0;
        for (row, (name, ended)) in self.phases.iter().enumerate() {
            let top = layout.top + ROW * row as f64;
            let (from, to) = (layout.x(&x, began), layout.x(&x, *ended));
            let label = format!("{name} {}", show_micros(ended - began));
            // The label of a late phase is to the left of its end, so it stays inside the drawing.
            let (class, at) =
                if from + svg::width(&label) > layout.width { ("label end", to) } else { ("label", from) };
            text(&mut out, class, at, top + 11.0, &label);
            let _ = write!(
                out,
                "<rect class=\"bar\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"9\"/>",
                top + 16.0,
                (to - from).max(1.5)
            );
            began = *ended;
        }
        (layout, out)
    }
}
