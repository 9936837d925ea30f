//! Axes: which values get a grid line and a label.

use crate::units::{date, show_count, show_micros, show_size};

/// A limit above every counter.
pub(super) const MOST: f64 = 1e20;

/// The quantity that a plot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A count of things with this name.
    Count(&'static str),
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Durations in microseconds.
    Micros,
    /// Microseconds a second.
    MicrosPerSecond,
}

impl Measure {
    /// Formats a value for a table or a label. The column or the plot names what is counted.
    pub fn short(self, value: f64) -> String {
        match self {
            Measure::Count(_) if value.abs() < 100.0 && value.fract() != 0.0 => format!("{value:.1}"),
            Measure::Count(_) => show_count(value),
            Measure::Bytes => show_size(value),
            Measure::BytesPerSecond => format!("{}/s", show_size(value)),
            Measure::Micros => show_micros(value),
            Measure::MicrosPerSecond => format!("{}/s", show_micros(value)),
        }
    }

    /// Returns the name of the quantity in the script of the page.
    pub fn script_name(self) -> &'static str {
        match self {
            Measure::Count(_) => "count",
            Measure::Bytes => "bytes",
            Measure::BytesPerSecond => "bytes/s",
            Measure::Micros => "us",
            Measure::MicrosPerSecond => "us/s",
        }
    }

    /// Returns the unit for values up to `max`: its size, its suffix on each label, and the caption
    /// of the axis.
    fn unit_for(self, max: f64) -> (f64, &'static str, String) {
        let pick = |units: &[(f64, &'static str)]| {
            units.iter().copied().find(|(size, _)| max >= 2.0 * size).unwrap_or(units[units.len() - 1])
        };
        let binary = [(1073741824.0, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB"), (1.0, "bytes")];
        let time = [(1e6, "s"), (1e3, "ms"), (1.0, "µs")];
        match self {
            Measure::Count(name) => {
                let units = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
                let (size, sign) = units.into_iter().find(|(size, _)| max >= 10.0 * size).unwrap_or(units[5]);
                (size, sign, name.to_owned())
            }
            Measure::Bytes => {
                let (size, name) = pick(&binary);
                (size, "", name.to_owned())
            }
            Measure::BytesPerSecond => {
                let (size, name) = pick(&binary);
                (size, "", format!("{name}/s"))
            }
            Measure::Micros => {
                let (size, name) = pick(&time);
                (size, "", name.to_owned())
            }
            Measure::MicrosPerSecond => {
                let (size, name) = pick(&time);
                (size, "", format!("{name} in a second"))
            }
        }
    }
}

/// An axis with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The value at the near end.
    pub low: f64,
    /// The value at the far end.
    pub high: f64,
    /// The scale is logarithmic.
    pub log: bool,
    /// Values with their labels.
    pub ticks: Vec<(f64, String)>,
    /// The unit of the labels.
    pub caption: String,
}

impl Axis {
    /// Makes an axis from 0 to a little above `max`, with about `wanted` labels.
    pub fn linear(max: f64, measure: Measure, wanted: f64) -> Axis {
        let max = if max > 1.0 / MOST { max.min(MOST) } else { 1.0 };
        let (unit, sign, caption) = measure.unit_for(max);
        let step = nice(max / unit / wanted);
        let high = max * 1.06;
        let label = |n: f64| if n == 0.0 { "0".to_owned() } else { format!("{}{sign}", decimal(n, step)) };
        let ticks = (0..100).map(|i| f64::from(i) * step).take_while(|n| n * unit <= high);
        let ticks = ticks.map(|n| (n * unit, label(n))).collect();
        Axis { low: 0.0, high, log: false, ticks, caption }
    }

    /// Makes a logarithmic axis of durations from below `low` to above `high`.
    pub fn log_micros(low: f64, high: f64) -> Axis {
        let low = if low > 0.0 { low.clamp(0.1, MOST) } else { 1.0 };
        let high = if high > low { high.min(MOST) } else { low };
        let decades = (high / low).log10();
        // 1, 2, 5, 10 if there is space; only powers of ten for many decades.
        let parts: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let grid: Vec<f64> =
            (-1..=20).flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power))).collect();
        let first = grid.iter().rposition(|v| *v <= low).unwrap_or(0);
        let last = grid.iter().position(|v| *v >= high).unwrap_or(grid.len() - 1).max(first + 1);
        let last = last.min(grid.len() - 1);
        let ticks = grid[first..=last].iter().map(|v| (*v, power_label(*v))).collect();
        Axis { low: grid[first], high: grid[last], log: true, ticks, caption: String::new() }
    }

    /// Makes a time axis from 0 to `end` seconds, with at most about `wanted` labels.
    pub fn time(end: f64, wanted: f64) -> Axis {
        let end = if end > 0.0 { end.clamp(0.01, MOST) } else { 1.0 };
        const STEPS: [f64; 17] = [
            0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
            7200.0, 21600.0,
        ];
        let step = STEPS.into_iter().find(|step| end / step <= wanted).unwrap_or_else(|| {
            let days = (end / wanted / 86_400.0).ceil();
            86_400.0 * days
        });
        let label = |t: f64| match t {
            0.0 => "0".to_owned(),
            _ if step < 60.0 => format!("{} s", decimal(t, step)),
            _ if step < 3600.0 => format!("{:.0} min", t / 60.0),
            _ => format!("{:.0} h", t / 3600.0),
        };
        let ticks = (0..100).map(|i| f64::from(i) * step).take_while(|t| *t <= end * 1.0001);
        Axis {
            low: 0.0,
            high: end,
            log: false,
            ticks: ticks.map(|t| (t, label(t))).collect(),
            caption: String::new(),
        }
    }

    /// Makes a time axis from 0 to `end` seconds with the time of day, where 0 is `began` seconds
    /// since 1970. `None` if that is too short, or is no date.
    pub fn clock(began: f64, end: f64, wanted: f64) -> Option<Axis> {
        const STEPS: [f64; 15] = [
            1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0,
            43200.0,
        ];
        let text = |t: f64| date(((began + t).round() * 1e6) as u64);
        text(end)?;
        let step = STEPS.into_iter().find(|step| end / step <= wanted).unwrap_or_else(|| {
            let days = (end / wanted / 86_400.0).ceil();
            86_400.0 * days
        });
        let first = (began / step).ceil() * step - began;
        let times = (0..100).map(|i| first + f64::from(i) * step).take_while(|t| *t <= end * 1.0001);
        let label = |t: f64| {
            let date = text(t)?;
            let (day, clock) = date.trim_end_matches('Z').split_once('T')?;
            // Midnight is the day that begins.
            Some(match clock {
                "00:00:00" => day.get(5..)?.to_owned(),
                clock if step < 60.0 => clock.to_owned(),
                clock => clock.get(..5)?.to_owned(),
            })
        };
        let ticks: Vec<(f64, String)> = times.map(|t| Some((t, label(t)?))).collect::<Option<_>>()?;
        let caption = format!("UTC, {}", text(0.0)?.get(..10)?);
        let enough = ticks.len() >= 2;
        enough.then_some(Axis { low: 0.0, high: end, log: false, ticks, caption })
    }

    /// Returns the position of `value`: 0 at the near end, 1 at the far end.
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // NaN, such as the logarithm of a negative number, is at the near end.
        if share > 0.0 { share.min(1.0) } else { 0.0 }
    }
}

/// Rounds `step` up to 1, 2 or 5 times a power of ten.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * power).find(|n| *n >= step * 0.999).unwrap_or(step)
}

/// Formats a multiple of `step` with the decimal places that the step needs.
fn decimal(value: f64, step: f64) -> String {
    let places = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    if places == 0 { show_count(value) } else { format!("{value:.places$}") }
}

/// Formats microseconds that are 1, 2 or 5 times a power of ten.
fn power_label(us: f64) -> String {
    let (value, unit) = match us {
        _ if us < 1000.0 => (us, "µs"),
        _ if us < 1e6 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    if value < 1.0 { format!("{value:.1} {unit}") } else { format!("{} {unit}", show_count(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_axes_start_at_zero_and_have_one_unit() {
        let axis = Axis::linear(1234.0, Measure::Count("commits/s"), 4.0);
        assert_eq!((labels(&axis), axis.caption.as_str()), (vec!["0", "500", "1 000"], "commits/s"));
        let axis = Axis::linear(96.0 * 1048576.0, Measure::Bytes, 4.0);
        assert_eq!((labels(&axis), axis.caption.as_str()), (vec!["0", "50", "100"], "MiB"));
        assert_eq!(labels(&Axis::linear(0.37, Measure::Count(""), 4.0)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(&Axis::linear(45_000.0, Measure::Count(""), 4.0)), ["0", "20k", "40k"]);
        assert_eq!(
            labels(&Axis::linear(8e5, Measure::MicrosPerSecond, 4.0)),
            ["0", "200", "400", "600", "800"]
        );
    }

    #[test]
    fn no_value_breaks_an_axis() {
        for max in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 1e300] {
            for measure in [Measure::Count("x"), Measure::Bytes, Measure::Micros] {
                let axis = Axis::linear(max, measure, 4.0);
                assert!(axis.high > 0.0 && axis.ticks.len() < 20, "{max}");
                assert!((0.0..=1.0).contains(&axis.share(0.5)));
            }
            for other in [0.0, 7.0, f64::NAN, f64::MAX] {
                let axis = Axis::log_micros(max, other);
                assert!(axis.high > axis.low && !axis.ticks.is_empty(), "{max} {other}: {axis:?}");
                assert!((0.0..=1.0).contains(&axis.share(3.0)));
            }
            assert!(!Axis::time(max, 8.0).ticks.is_empty());
        }
    }

    #[test]
    fn log_axes_show_powers() {
        let axis = Axis::log_micros(870.0, 42_000.0);
        assert_eq!(labels(&axis), ["500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]);
        assert_eq!(
            labels(&Axis::log_micros(90.0, 2e6)),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        );
        assert!((axis.share(5_000.0) - 0.5).abs() < 1e-9);
    }

    /// Nobody could find what had happened at 14:03.
    #[test]
    fn axes_of_a_clock_have_whole_times_and_name_a_new_day() {
        // 2026-11-24 14:02:57.
        let began = 1_795_528_977.0;
        let axis = Axis::clock(began, 300.0, 6.0).unwrap();
        assert_eq!(labels(&axis), ["14:03", "14:04", "14:05", "14:06", "14:07"]);
        assert_eq!((axis.ticks[0].0, axis.caption.as_str()), (3.0, "UTC, 2026-11-24"));
        assert_eq!(
            labels(&Axis::clock(began, 20.0, 6.0).unwrap()),
            ["14:03:00", "14:03:05", "14:03:10", "14:03:15"]
        );
        let night = Axis::clock(began, 50_000.0, 8.0).unwrap();
        assert_eq!(labels(&night), ["16:00", "18:00", "20:00", "22:00", "11-25", "02:00"]);
        assert_eq!(
            labels(&Axis::clock(began, 600_000.0, 4.0).unwrap()),
            ["11-25", "11-27", "11-29", "12-01"]
        );
        assert_eq!(Axis::clock(began, 0.5, 6.0), None);
        assert_eq!(Axis::clock(began * 1000.0, 300.0, 6.0), None);
    }

    #[test]
    fn time_axes_have_whole_steps() {
        assert_eq!(labels(&Axis::time(20.0, 8.0)), ["0", "5 s", "10 s", "15 s", "20 s"]);
        assert_eq!(labels(&Axis::time(300.0, 8.0)), ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        assert_eq!(labels(&Axis::time(0.3, 8.0)), ["0", "0.1 s", "0.2 s", "0.3 s"]);
        assert_eq!(labels(&Axis::time(7200.0, 4.0)), ["0", "30 min", "60 min", "90 min", "120 min"]);
    }
}
