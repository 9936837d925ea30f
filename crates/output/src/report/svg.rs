//! What all plots have as SVG: layout, grid, names, and text with class names. A style sheet
//! defines their colours for light and dark screens and for paper.
//!
//! Each plot is drawn in two formats: wide, with the names of the lines at their right ends; and
//! narrow for a phone, with the names above. A wide drawing that is shrunk to a phone cannot be
//! read.

use super::axis::Axis;
use super::escape::escape;
use std::fmt::Write;

/// The most points of a line: about one for each pixel of its width.
pub const POINTS: usize = 500;

/// The style sheet of plots, for their files and for the page.
pub const STYLE: &str = include_str!("plot.css");

/// How many styles of areas there are. The caller joins series if there are more.
pub const LOOKS: usize = 6;
/// The least right end of a wide plot, however long the names beside it are.
pub(super) const LEAST_RIGHT: f64 = 340.0;
/// From the right end of a plot to the names beside it.
const TO_NAMES: f64 = 31.0;
/// The height of a name beside a plot.
pub(super) const NAME_HEIGHT: f64 = 15.0;

/// The format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a page.
    Wide,
    /// For a phone.
    Narrow,
}

/// The positions of the parts of a drawing, in units of about a pixel.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Of the whole drawing.
    pub width: f64,
    /// Of the whole drawing.
    pub height: f64,
    /// The left edge of the plot in it.
    pub left: f64,
    /// The right edge.
    pub right: f64,
    /// The upper edge.
    pub top: f64,
    /// The lower edge.
    pub bottom: f64,
}

/// Height of a line of names above a narrow plot.
pub(super) const KEY_LINE: f64 = 17.0;

impl Layout {
    /// Returns the positions in a format, below so many lines of names.
    pub fn new(format: Format, key_lines: usize) -> Layout {
        match format {
            Format::Wide => {
                Layout { width: 760.0, height: 196.0, left: 56.0, right: 586.0, top: 20.0, bottom: 172.0 }
            }
            Format::Narrow => {
                let top = 22.0 + KEY_LINE * key_lines as f64;
                Layout {
                    width: 360.0,
                    height: top + 168.0,
                    left: 54.0,
                    right: 350.0,
                    top,
                    bottom: top + 144.0,
                }
            }
        }
    }

    /// Makes room for names beside the plot: to the right, and below each other.
    pub(super) fn with_names(mut self, names: &[String]) -> Layout {
        let widest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
        if self.right + TO_NAMES + widest > self.width + 8.0 {
            self.right = (self.width - TO_NAMES - widest).max(LEAST_RIGHT);
        }
        let missing = NAME_HEIGHT * names.len().saturating_sub(1) as f64 - (self.bottom - self.top);
        self.bottom += missing.max(0.0);
        self.height += missing.max(0.0);
        self
    }

    /// Returns how many characters of a name fit beside the plot.
    pub(super) fn name_room(&self) -> usize {
        ((self.width + 8.0 - self.right - TO_NAMES) / width("x")) as usize
    }

    /// Returns where a value is from left to right.
    pub fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + (self.right - self.left) * axis.share(value)
    }

    /// Returns where a value is from top to bottom.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * axis.share(value)
    }

    /// Draws the grid with its labels.
    pub fn axes(&self, out: &mut String, x: &Axis, y: &Axis) {
        let Layout { left, right, top, bottom, .. } = *self;
        for (value, label) in &y.ticks {
            let at = self.y(y, *value);
            let class = if *value == y.low && !y.log { "base" } else { "grid" };
            let _ = write!(out, "<path class=\"{class}\" d=\"M{left:.1},{at:.1}H{right:.1}\"/>");
            text(out, "tick end", left - 7.0, at + 4.0, label);
        }
        if !y.caption.is_empty() {
            text(out, "tick", 2.0, top - 9.0, &y.caption);
        }
        for (value, label) in &x.ticks {
            let at = self.x(x, *value);
            let _ = write!(out, "<path class=\"base\" d=\"M{at:.1},{bottom:.1}v4\"/>");
            // Else the last label would cross the edge of a narrow drawing.
            let class = if at > self.width - 20.0 { "tick end" } else { "tick mid" };
            text(out, class, at.min(self.width - 3.0), bottom + 17.0, label);
        }
    }
}

/// Draws a text of a class of the style sheet.
pub fn text(out: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

/// Returns a drawing for a page: `body` in an `svg` element with title and description.
///
/// REQUIRES: `id` is unique on the page.
pub(super) fn element(id: &str, format: Format, layout: &Layout, about: (&str, &str), body: &str) -> String {
    let class = if format == Format::Wide { "wide" } else { "narrow" };
    let Layout { width, height, left, right, top, bottom } = layout;
    format!(
        "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" \
         data-box=\"{left} {right} {top} {bottom}\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{body}</svg>\n",
        escape(about.0),
        escape(about.1)
    )
}

/// Returns a drawing for a separate file: with its title and note above, and with its style sheet.
pub(super) fn file(layout: &Layout, title: &str, note: &str, body: &str) -> String {
    let lines = wrapped(note, (layout.width / 6.6) as usize);
    let head = 32.0 + 16.0 * lines.len() as f64;
    let (width, height) = (layout.width, layout.height + head);
    let mut top = String::new();
    text(&mut top, "name", 2.0, 18.0, title);
    for (i, line) in lines.iter().enumerate() {
        text(&mut top, "tick", 2.0, 36.0 + 16.0 * i as f64, line);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"t d\"><title id=\"t\">{}</title><desc id=\"d\">{}</desc>\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{top}\n\
         <g transform=\"translate(0 {head})\">{body}</g>\n</svg>\n",
        escape(title),
        escape(note)
    )
}

/// Breaks a text between words into lines of at most `most` characters. A longer word is not
/// broken.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the approximate width of a label.
pub fn width(label: &str) -> f64 {
    6.9 * label.chars().count() as f64
}

/// Draws a sample of a style: a short line or a small rectangle.
pub(super) fn sample(out: &mut String, look: &str, x: f64, y: f64) {
    if look.starts_with("area") {
        let _ = write!(
            out,
            "<rect class=\"{look}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"18\" height=\"9\"/>",
            y - 4.5
        );
    } else {
        let _ = write!(out, "<path class=\"{look}\" d=\"M{x:.1},{y:.1}h18\"/>");
    }
}

/// The lines of names above a narrow plot: position in the line, style, name.
pub type Keys = Vec<Vec<(f64, String, String)>>;

/// Arranges styles and names in as many lines as they need.
pub fn keys(names: impl Iterator<Item = (String, String)>) -> Keys {
    const ROOM: f64 = 340.0;
    let mut rows = Keys::new();
    let mut x = ROOM;
    for (look, label) in names {
        let wide = 25.0 + width(&label) + 12.0;
        if x + wide > ROOM {
            rows.push(Vec::new());
            x = 2.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, look, label));
        }
        x += wide;
    }
    rows
}

/// Draws the lines of names.
pub fn draw_keys(out: &mut String, rows: &[Vec<(f64, String, String)>]) {
    let mut y = 8.0;
    for row in rows {
        for (x, look, label) in row {
            sample(out, look, *x, y);
            text(out, "label", x + 23.0, y + 4.0, label);
        }
        y += KEY_LINE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_breaks_between_words() {
        assert_eq!(wrapped("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("incomprehensibilities", 9), ["incomprehensibilities"]);
        assert!(wrapped("", 9).is_empty());
    }

    #[test]
    fn keys_break_into_lines_that_fit_on_a_phone() {
        let names = (0..7).map(|i| ("line s1".to_owned(), format!("a reason {i}")));
        let rows = keys(names);
        assert!(rows.len() > 1 && rows.iter().map(Vec::len).sum::<usize>() == 7);
        for (x, _, label) in rows.iter().flatten() {
            assert!(x + 23.0 + width(label) <= 360.0, "{label} at {x}");
        }
    }
}
