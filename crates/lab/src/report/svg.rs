//! Draws a plot as SVG: text and shapes with class names. A style sheet defines their colours for
//! light and dark screens and for paper.
//!
//! Each plot is drawn in two formats: wide, with the names of the lines at their right ends; and
//! narrow for a phone, with the names above. A wide drawing that is shrunk to a phone cannot be
//! read.

use super::axis::Axis;
use super::chart::{Chart, ChartStyle, Series};
use super::page::escape;
use super::plot::Plot;
use crate::samples::Point;
use std::fmt::Write;

/// The most points of a line: about one for each pixel of its width.
pub(crate) const POINTS: usize = 500;

/// The style sheet of plots, for their files and for the page.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// How many styles of areas there are. The caller joins series if there are more.
pub(crate) const LOOKS: usize = 6;
/// How many styles of lines there are; then they begin again.
const LINE_LOOKS: usize = 12;
/// The most characters of a name above a narrow plot.
const NARROW_NAME: usize = 44;
/// The least right end of a wide plot, however long the names beside it are.
const LEAST_RIGHT: f64 = 340.0;
/// From the right end of a plot to the names beside it.
const TO_NAMES: f64 = 31.0;
/// The height of a name beside a plot.
const NAME_HEIGHT: f64 = 15.0;

/// The format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For a page.
    Wide,
    /// For a phone.
    Narrow,
}

/// The positions of the parts of a drawing, in units of about a pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// With more points than this, an area is drawn without edges.
const DENSE: usize = 150;

/// Height of a plot whose values are all 0.
const FLAT: f64 = 30.0;

/// Height of a line of names above a narrow plot.
const KEY_LINE: f64 = 17.0;

impl Layout {
    pub(super) fn new(format: Format, key_lines: usize) -> Layout {
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
    fn with_names(mut self, names: &[String]) -> Layout {
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
    fn name_room(&self) -> usize {
        ((self.width + 8.0 - self.right - TO_NAMES) / width("x")) as usize
    }

    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + (self.right - self.left) * axis.share(value)
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * axis.share(value)
    }

    /// Draws the grid with its labels.
    pub(super) fn axes(&self, out: &mut String, x: &Axis, y: &Axis) {
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

pub(super) fn text(out: &mut String, class: &str, x: f64, y: f64, text: &str) {
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

impl Plot for Chart {
    fn about(&self) -> (&str, &str, &str) {
        (&self.id, &self.title, &self.note)
    }

    fn described(&self) -> String {
        let mut out = self.note.clone();
        for series in &self.series {
            let Some([least, median, _, greatest]) = series.summary() else { continue };
            let show = |v| self.show(series, v);
            let _ = write!(
                out,
                " {}: from {} to {}, median {}.",
                series.label,
                show(least),
                show(greatest),
                show(median)
            );
        }
        out.trim_start().to_owned()
    }

    fn draw(&self, format: Format) -> (Layout, String) {
        let keys = if format == Format::Narrow { keys_of(self) } else { Keys::new() };
        let mut layout = Layout::new(format, keys.len());
        if is_flat(self) {
            // A line at zero needs no height.
            layout.height -= layout.bottom - layout.top - FLAT;
            layout.bottom = layout.top + FLAT;
        }
        if format == Format::Wide {
            let known = self.series.iter().filter(|series| series.known().next().is_some());
            let names: Vec<String> = known.map(|series| name_of(self, series)).collect();
            layout = layout.with_names(&names);
        }
        let wanted = if format == Format::Wide { 8.0 } else { 4.0 };
        let clock = self.clock.and_then(|began| Axis::clock(began, self.end, wanted));
        let x = clock.unwrap_or_else(|| Axis::time(self.end, wanted));
        let mut y = value_axis(self);
        if is_flat(self) {
            y.ticks.truncate(1);
        }
        let mut out = String::new();
        layout.axes(&mut out, &x, &y);
        if !x.caption.is_empty() {
            // Beside the labels, or below them where there is no room beside.
            let (class, at, below) = match format {
                Format::Wide => ("tick end", layout.width - 2.0, layout.bottom + 17.0),
                Format::Narrow => ("tick", 2.0, layout.bottom + 17.0 + KEY_LINE),
            };
            if format == Format::Narrow {
                layout.height += KEY_LINE;
            }
            text(&mut out, class, at, below, &x.caption);
        }
        if self.style == ChartStyle::Stacked {
            draw_stack(&mut out, self, &layout, &x, &y);
        } else {
            // Limits first, so measured lines are above them.
            for limits in [true, false] {
                for (look, series) in looks(self).filter(|(_, series)| series.limit == limits) {
                    draw_line(&mut out, &look, &series.points, |p| (layout.x(&x, p.0), layout.y(&y, p.1)));
                }
            }
        }
        if self.series.iter().all(|series| series.known().next().is_none()) {
            let (middle, height) = ((layout.left + layout.right) / 2.0, (layout.top + layout.bottom) / 2.0);
            text(&mut out, "tick mid", middle, height, "no samples");
        }
        for mark in &self.marks {
            draw_mark(&mut out, &layout, (layout.x(&x, mark.at), layout.y(&y, mark.value)), &mark.label);
        }
        match format {
            Format::Wide => draw_names(&mut out, self, &layout, &y),
            Format::Narrow => draw_keys(&mut out, &keys),
        }
        (layout, out)
    }
}

/// Returns whether all values are 0.
fn is_flat(chart: &Chart) -> bool {
    chart.style != ChartStyle::LogLines && chart.series.iter().all(|series| series.known().all(|v| v == 0.0))
}

/// Returns the class names of each series.
fn looks(chart: &Chart) -> impl Iterator<Item = (String, &Series)> {
    let (mut data, mut limits) = (0, 0);
    chart.series.iter().map(move |series| {
        let (count, kind) = if series.limit { (&mut limits, "limit l") } else { (&mut data, "line s") };
        *count += 1;
        let looks = if series.limit || chart.style == ChartStyle::Stacked { LOOKS } else { LINE_LOOKS };
        (format!("{kind}{}", (*count - 1) % looks + 1), series)
    })
}

fn value_axis(chart: &Chart) -> Axis {
    let of = |series: &Series| series.known().filter(|v| *v > 0.0).collect::<Vec<f64>>();
    match chart.style {
        ChartStyle::Stacked => {
            let tops = chart.stacks().into_iter().filter_map(|(_, sums)| sums?.last().copied());
            Axis::linear(tops.fold(0.0, f64::max), chart.measure, 4.0)
        }
        ChartStyle::Lines => {
            let all = chart.series.iter().filter_map(Series::greatest);
            Axis::linear(all.fold(0.0, f64::max), chart.measure, 4.0)
        }
        ChartStyle::LogLines => {
            let all: Vec<f64> = chart.series.iter().flat_map(of).collect();
            let low = all.iter().copied().fold(f64::INFINITY, f64::min);
            Axis::log_micros(low, all.iter().copied().fold(0.0, f64::max))
        }
    }
}

/// Returns the runs of consecutive known points.
fn runs(points: &[Point]) -> Vec<Vec<(f64, f64)>> {
    let parts = points.split(|(_, value)| value.is_none());
    parts
        .filter(|run| !run.is_empty())
        .map(|run| run.iter().filter_map(|(t, v)| Some((*t, (*v)?))).collect())
        .collect()
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.enumerate() {
        let _ = write!(out, "{}{x:.1},{y:.1}", if i == 0 { "M" } else { "L" });
    }
    out
}

fn draw_line(out: &mut String, look: &str, points: &[Point], place: impl Fn((f64, f64)) -> (f64, f64)) {
    for run in runs(points) {
        if let [one] = run[..] {
            let (x, y) = place(one);
            let _ = write!(out, "<circle class=\"{look}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
        } else {
            let _ = write!(out, "<path class=\"{look}\" d=\"{}\"/>", path(run.into_iter().map(&place)));
        }
    }
}

fn draw_stack(out: &mut String, chart: &Chart, layout: &Layout, x: &Axis, y: &Axis) {
    let stacks = chart.stacks();
    for (i, (look, _)) in looks(chart).enumerate() {
        for run in stacks.split(|(_, sums)| sums.is_none()) {
            let edge = |i: Option<usize>| {
                run.iter().map(move |(t, sums)| {
                    let sum = i.and_then(|i| sums.as_ref()?.get(i).copied()).unwrap_or(0.0);
                    (layout.x(x, *t), layout.y(y, sum))
                })
            };
            match run {
                [] => {}
                [_] => {
                    // A single point has no area, so it is drawn as a bar.
                    for ((x, high), (_, low)) in edge(Some(i)).zip(edge(i.checked_sub(1))) {
                        let d = format!("M{:.1},{low:.1}V{high:.1}H{:.1}V{low:.1}Z", x - 4.0, x + 4.0);
                        let _ = write!(out, "<path class=\"{}\" d=\"{d}\"/>", area(&look));
                    }
                }
                _ => {
                    let back: Vec<_> = edge(i.checked_sub(1)).collect();
                    let around = path(edge(Some(i)).chain(back.into_iter().rev()));
                    let _ = write!(out, "<path class=\"{}\" d=\"{around}Z\"/>", area(&look));
                    // With many points, the edges would cover thin areas.
                    if run.len() <= DENSE {
                        let _ = write!(out, "<path class=\"{look} edge\" d=\"{}\"/>", path(edge(Some(i))));
                    }
                }
            }
        }
    }
}

fn area(look: &str) -> String {
    look.replacen("line", "area", 1)
}

fn draw_mark(out: &mut String, layout: &Layout, (x, y): (f64, f64), label: &str) {
    let _ = write!(out, "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
    // Below the point, where nothing is drawn; above it if there is no space below.
    let below = y + 19.0 < layout.bottom;
    let wide = width(label);
    let (class, at) = match x {
        x if x - wide / 2.0 < layout.left => ("label", layout.left + 4.0),
        x if x + wide / 2.0 > layout.right => ("label end", layout.right),
        x => ("label mid", x),
    };
    text(out, class, at, if below { y + 18.0 } else { y - 10.0 }, label);
}

/// Returns the approximate width of a label.
pub(super) fn width(label: &str) -> f64 {
    6.9 * label.chars().count() as f64
}

/// Draws the names at the right ends of the lines, moved apart if they would overlap.
fn draw_names(out: &mut String, chart: &Chart, layout: &Layout, y: &Axis) {
    let stacks = if chart.style == ChartStyle::Stacked { chart.stacks() } else { Vec::new() };
    let top = stacks.iter().rev().find_map(|(_, sums)| sums.as_ref());
    let mut names: Vec<(f64, String, String)> = Vec::new();
    for (i, (look, series)) in looks(chart).enumerate() {
        let Some(last) = series.known().last() else { continue };
        let value = match top {
            Some(sums) => (sums[i] + if i > 0 { sums[i - 1] } else { 0.0 }) / 2.0,
            None => last,
        };
        let look = if chart.style == ChartStyle::Stacked { area(&look) } else { look };
        names.push((layout.y(y, value), look, name_of(chart, series)));
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut places: Vec<f64> = names.iter().map(|name| name.0).collect();
    spread(&mut places, NAME_HEIGHT, layout.top, layout.bottom);
    for (place, (_, look, label)) in places.into_iter().zip(names) {
        let x = layout.right + 8.0;
        sample(out, &look, x, place);
        text(out, "label", x + 23.0, place + 4.0, &shortened(&label, layout.name_room()));
    }
}

/// Returns the name next to a line; for a limit with its last value.
fn name_of(chart: &Chart, series: &Series) -> String {
    match series.known().last() {
        Some(last) if series.limit => format!("{} {}", series.label, chart.measure.short(last)),
        _ => series.label.clone(),
    }
}

/// Shortens a name in its middle to `most` characters.
fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let (front, back) = (most / 2, (most - most / 2).saturating_sub(1));
    letters[..front].iter().chain(&['…']).chain(&letters[letters.len() - back..]).collect()
}

/// Draws a sample of a style: a short line or a small rectangle.
fn sample(out: &mut String, look: &str, x: f64, y: f64) {
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

/// Moves sorted positions at least `apart` from each other, within the bounds if there is enough
/// space.
fn spread(places: &mut [f64], apart: f64, low: f64, high: f64) {
    for i in 0..places.len() {
        let least = if i == 0 { low } else { places[i - 1] + apart };
        places[i] = places[i].max(least);
    }
    let mut most = high;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - apart;
    }
}

/// The lines of names above a narrow plot: position in the line, style, name.
pub(super) type Keys = Vec<Vec<(f64, String, String)>>;

/// Returns the names of a plot's series as keys.
fn keys_of(chart: &Chart) -> Keys {
    let stacked = chart.style == ChartStyle::Stacked;
    let known = looks(chart).filter(|(_, series)| series.known().next().is_some());
    let name = |series| shortened(&name_of(chart, series), NARROW_NAME);
    keys(known.map(|(look, s)| (if stacked { area(&look) } else { look }, name(s))))
}

/// Arranges styles and names in as many lines as they need.
pub(super) fn keys(names: impl Iterator<Item = (String, String)>) -> Keys {
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

pub(super) fn draw_keys(out: &mut String, rows: &[Vec<(f64, String, String)>]) {
    let mut y = 8.0;
    for row in rows {
        for (x, look, label) in row {
            sample(out, look, *x, y);
            text(out, "label", x + 23.0, y + 4.0, label);
        }
        y += KEY_LINE;
    }
}

/// Returns the points of a plot as JSON for the script of the page, which shows the values at the
/// pointer. Limits are left out: their value is next to their name.
pub(crate) fn points_json(chart: &Chart) -> String {
    let series: Vec<serde_json::Value> = chart
        .series
        .iter()
        .filter(|series| !series.limit)
        .map(|series| {
            let real = |v: f64| round(series.real(chart.measure, v).1);
            let (t, v): (Vec<f64>, Vec<Option<f64>>) =
                series.points.iter().map(|(t, v)| (round(*t), v.map(real))).unzip();
            let unit = series.real(chart.measure, 0.0).0.script_name();
            serde_json::json!({ "n": series.label, "u": unit, "t": t, "v": v })
        })
        .collect();
    // Inside a script element only its end tag has a meaning.
    serde_json::json!({ "end": chart.end, "began": chart.clock, "series": series })
        .to_string()
        .replace('<', "\\u003c")
}

/// Rounds a value to the digits that are shown, which keeps the page small.
fn round(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { (value * 1000.0).round() / 1000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap_and_stay_next_to_the_plot() {
        let mut places = vec![20.0, 21.0, 22.0, 100.0, 171.0, 172.0];
        spread(&mut places, 15.0, 20.0, 172.0);
        assert!(places.windows(2).all(|w| w[1] - w[0] >= 15.0 - 1e-9), "{places:?}");
        assert!(places[0] >= 20.0 && places[5] <= 172.0, "{places:?}");
        assert!((places[3] - 100.0).abs() < 1e-9, "what stands free stays: {places:?}");
        spread(&mut [], 15.0, 0.0, 1.0);
    }

    /// Names were cut to "innodb_buf…ges_dirty", and those of many lines ran over the edge.
    #[test]
    fn long_and_many_names_have_room() {
        let base = || Layout::new(Format::Wide, 0);
        let name = "innodb_buffer_pool_pages_dirty".to_owned();
        assert_eq!(base().with_names(&["commits".to_owned()]).right, base().right);
        let long = base().with_names(std::slice::from_ref(&name));
        assert!(long.right < base().right && long.name_room() >= name.len(), "{long:?}");
        let endless = base().with_names(&["x".repeat(200)]);
        assert_eq!(endless.right, LEAST_RIGHT);
        assert!(shortened(&"x".repeat(200), endless.name_room()).chars().count() <= endless.name_room());
        let many = base().with_names(&vec![name; 25]);
        let mut places: Vec<f64> = vec![many.bottom; 25];
        spread(&mut places, NAME_HEIGHT, many.top, many.bottom);
        assert!(
            places[0] >= many.top && places[24] <= many.bottom && many.height > many.bottom,
            "{places:?}"
        );
        assert_eq!(shortened("innodb_buffer_pool_pages_dirty", 20), "innodb_buf…ges_dirty");
    }

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
