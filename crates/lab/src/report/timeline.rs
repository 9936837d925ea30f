//! Phases one after the other, as bars on a scale of time.

use super::axis::{Axis, Measure};
use super::plot::Plot;
use super::svg::{self, Layout, Shape, text};
use crate::units::show_micros;
use std::fmt::Write;

/// Height of a phase.
const ROW: f64 = 30.0;

/// Phases of something that took a while.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The name of its file and of its place on the page.
    pub(crate) id: &'static str,
    /// What it shows.
    pub(crate) title: String,
    /// What to see in it.
    pub(crate) note: String,
    /// What each phase is, and when it ended, in microseconds from the beginning.
    pub(crate) phases: Vec<(&'static str, f64)>,
}

impl Plot for Timeline {
    fn about(&self) -> (&'static str, &str, &str) {
        (self.id, &self.title, &self.note)
    }

    fn described(&self) -> String {
        let phases: Vec<String> =
            self.phases.iter().map(|(name, end)| format!("{name}: until {}", show_micros(*end))).collect();
        format!("{} {}.", self.note, phases.join(", "))
    }

    fn draw(&self, shape: Shape) -> (Layout, String) {
        let mut layout = Layout::new(shape, 0);
        layout.left = 8.0;
        layout.right = layout.width - 24.0;
        layout.bottom = layout.top + ROW * self.phases.len() as f64 + 4.0;
        layout.height = layout.bottom + 24.0;
        let end = self.phases.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        let mut x = Axis::linear(end, Measure::Micros, if shape == Shape::Wide { 6.0 } else { 3.0 });
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
            // A late phase has its words to the left of its end, so that they stay in the picture.
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
