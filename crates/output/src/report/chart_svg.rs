//! Draws a chart as SVG: its lines or areas, and their names, which do not overlap.

use super::axis::Axis;
use super::chart::{Chart, ChartStyle, Series};
use super::plot::Plot;
use super::svg::{Format, KEY_LINE, Keys, LOOKS, Layout, NAME_HEIGHT, draw_keys, keys, sample, text, width};
use crate::samples::Point;
use std::fmt::Write;

/// How many styles of lines there are; then they begin again.
const LINE_LOOKS: usize = 12;

/// The most characters of a name above a narrow plot.
const NARROW_NAME: usize = 44;

/// With more points than this, an area is drawn without edges.
const DENSE: usize = 150;

/// Height of a plot whose values are all 0.
const FLAT: f64 = 30.0;

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
        if let Some((at, label)) = &self.moment {
            draw_moment(&mut out, &layout, layout.x(&x, *at), label);
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

/// Draws a line from top to bottom, with its name beside it.
fn draw_moment(out: &mut String, layout: &Layout, x: f64, label: &str) {
    let Layout { top, bottom, right, .. } = *layout;
    let _ = write!(out, "<path class=\"moment\" d=\"M{x:.1},{top:.1}V{bottom:.1}\"/>");
    let (class, at) =
        if x + width(label) + 4.0 > right { ("label end", x - 4.0) } else { ("label", x + 4.0) };
    text(out, class, at, top + 11.0, label);
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

/// Returns the names of a plot's series as keys.
fn keys_of(chart: &Chart) -> Keys {
    let stacked = chart.style == ChartStyle::Stacked;
    let known = looks(chart).filter(|(_, series)| series.known().next().is_some());
    let name = |series| shortened(&name_of(chart, series), NARROW_NAME);
    keys(known.map(|(look, s)| (if stacked { area(&look) } else { look }, name(s))))
}

#[cfg(test)]
mod tests {
    use super::super::svg::LEAST_RIGHT;
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
}
