//! The views of `millpond plot`: which figures each plot has, and how several inputs are compared.

use crate::collect::WORKLOAD_UNIT;
use crate::plot::Input;
use output::report::axis::Measure;
use output::report::chart::{Chart, ChartStyle, Series};
use output::samples::{Point, Samples};
use std::borrow::Cow;

/// The most members of a family that are drawn; all others are added up.
const MEMBERS: usize = output::report::svg::LOOKS - 1;
/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// How a line is made from figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    /// A figure as it is.
    Level(Cow<'static, str>),
    /// A counter's growth a second.
    Rate(Cow<'static, str>),
    /// A counter's growth an hour, at the rate of each second.
    PerHour(Cow<'static, str>),
    /// The first figure without the second.
    Less(&'static str, &'static str),
    /// A figure, of another one, in percent.
    Percent(&'static str, &'static str),
    /// A counter's growth a second, divided by this.
    Divided(&'static str, u32),
    /// What a counter grew by for each of another.
    Each(&'static str, &'static str),
}

impl Term {
    /// Returns the line; nothing if a figure is not there.
    pub(super) fn points(&self, samples: &Samples) -> Vec<Point> {
        match self {
            Term::Level(name) => samples.level(name),
            Term::Rate(name) => samples.rate(name),
            Term::PerHour(name) => {
                samples.rate(name).into_iter().map(|(t, v)| (t, v.map(|v| v * HOUR))).collect()
            }
            Term::Less(a, b) => both(&samples.level(a), &samples.level(b), |a, b| Some((a - b).max(0.0))),
            Term::Percent(a, b) => {
                both(&samples.level(a), &samples.level(b), |a, b| (b > 0.0).then(|| 100.0 * a / b))
            }
            Term::Divided(name, by) => {
                samples.rate(name).into_iter().map(|(t, v)| (t, v.map(|v| v / f64::from(*by)))).collect()
            }
            Term::Each(a, b) => both(&samples.rate(a), &samples.rate(b), |a, b| (b > 0.0).then(|| a / b)),
        }
    }

    /// Returns the line's value at one moment, from functions that return a figure's level and its
    /// growth a second.
    pub(super) fn at(
        &self,
        level: impl Fn(&str) -> Option<f64>,
        rate: impl Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        match self {
            Term::Level(name) => level(name),
            Term::Rate(name) => rate(name),
            Term::PerHour(name) => rate(name).map(|rate| rate * HOUR),
            Term::Less(a, b) => Some((level(a)? - level(b)?).max(0.0)),
            Term::Percent(a, b) => Some(100.0 * level(a)? / level(b).filter(|b| *b > 0.0)?),
            Term::Divided(name, by) => rate(name).map(|rate| rate / f64::from(*by)),
            Term::Each(a, b) => Some(rate(a)? / rate(b).filter(|b| *b > 0.0)?),
        }
    }

    /// Returns how much a counter grew in all; `None` for a level.
    pub(super) fn sum(&self, samples: &Samples) -> Option<f64> {
        match self {
            Term::Rate(name) | Term::PerHour(name) => Some(samples.growth(name)),
            _ => None,
        }
    }
}

fn both(a: &[Point], b: &[Point], join: impl Fn(f64, f64) -> Option<f64>) -> Vec<Point> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    a.iter().zip(b).map(|(a, b)| (a.0, a.1.zip(b.1).and_then(|(a, b)| join(a, b)))).collect()
}

/// The label of a line, and how it is made.
pub(super) type NamedLine = (&'static str, fn() -> Term);

/// The lines of a view.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lines {
    /// These.
    Named(&'static [NamedLine]),
    /// The members of a family that grew, a second.
    Family(&'static str),
    /// What a workload said of itself.
    Workload,
}

/// A view.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) measure: Measure,
    pub(super) style: ChartStyle,
    pub(super) lines: Lines,
    pub(super) limits: &'static [(&'static str, &'static str)],
}

macro_rules! level {
    ($name:literal) => {
        || Term::Level(Cow::Borrowed($name))
    };
}
macro_rules! rate {
    ($name:literal) => {
        || Term::Rate(Cow::Borrowed($name))
    };
}

/// The views, in the order of the page.
pub(super) const VIEWS: &[View] = &[
    View {
        id: "checkpoint-age",
        title: "Checkpoint age",
        note: "Redo that a recovery would read. From the soft limit on InnoDB flushes with full force (asynchronous point), and Millpond delays writers; at the limit writers wait (synchronous point).",
        measure: Measure::Bytes,
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("checkpoint age", level!("checkpoint_age_bytes"))]),
        limits: &[
            ("soft limit", "checkpoint_age_soft"),
            ("limit", "checkpoint_age_limit"),
            ("log", "redo_capacity_bytes"),
        ],
    },
    View {
        id: "workload",
        title: "What the workload says",
        note: "The numbers of `collect -r`.",
        measure: Measure::Count(""),
        style: ChartStyle::Lines,
        lines: Lines::Workload,
        limits: &[],
    },
    View {
        id: "throughput",
        title: "Commits a second",
        note: "Transactions with changes. MySQL with its metrics off counts COMMIT statements only.",
        measure: Measure::Count("commits/s"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("commits", rate!("commits"))]),
        limits: &[],
    },
    View {
        id: "dirty-share",
        title: "Dirty pages, share",
        note: "Dirty pages, of the pages in the pool and the free ones. Many are no fault by themselves.",
        measure: Measure::Count("%"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("dirty", level!("dirty_percent"))]),
        limits: &[],
    },
    View {
        id: "buffer-pool",
        title: "Buffer pool",
        note: "Pages by their state.",
        measure: Measure::Count("pages"),
        style: ChartStyle::Stacked,
        lines: Lines::Named(&[
            ("dirty", level!("dirty_pages")),
            ("clean", || Term::Less("lru_pages", "dirty_pages")),
            ("free", level!("free_frames")),
        ]),
        limits: &[],
    },
    View {
        id: "flushing-by-force",
        title: "Page writes by force",
        note: "What forced pages to be written. InnoDB counts most forces only after SET GLOBAL innodb_monitor_enable.",
        measure: Measure::Count("pages/s"),
        style: ChartStyle::Stacked,
        lines: Lines::Family("pages_written_by_force"),
        limits: &[],
    },
    View {
        id: "lru-and-list",
        title: "Page writes from the two lists",
        note: "From the list of dirty pages, oldest change first, to move the checkpoint; from the LRU list, because free pages are needed.",
        measure: Measure::Count("pages/s"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[
            ("dirty list", rate!("pages_flushed_list")),
            ("LRU list", rate!("pages_flushed_lru")),
        ]),
        limits: &[],
    },
    View {
        id: "log-an-hour",
        title: "Log written, an hour",
        note: "At the rate of each second. “Redo” is what the LSN grows by; “files” is what was written, blocks that were written again included.",
        measure: Measure::Bytes,
        style: ChartStyle::Lines,
        lines: Lines::Named(&[
            ("redo", || Term::PerHour(Cow::Borrowed("redo_bytes_written"))),
            ("files", || Term::PerHour(Cow::Borrowed("log_bytes_written"))),
        ]),
        limits: &[],
    },
    View {
        id: "uncheckpointed",
        title: "Uncheckpointed bytes",
        note: "Redo above the checkpoint: durable, and not yet durable.",
        measure: Measure::Bytes,
        style: ChartStyle::Stacked,
        lines: Lines::Named(&[
            ("durable", || Term::Less("durable_lsn", "checkpoint_lsn")),
            ("not durable", || Term::Less("current_lsn", "durable_lsn")),
        ]),
        limits: &[],
    },
    View {
        id: "log-use",
        title: "Use of the log",
        note: "The checkpoint age, of its limit.",
        measure: Measure::Count("%"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("of the limit", || {
            Term::Percent("checkpoint_age_bytes", "checkpoint_age_limit")
        })]),
        limits: &[],
    },
    View {
        id: "syncs",
        title: "Syncs",
        note: "Of all files of the engine, and of its log.",
        measure: Measure::Count("fsyncs/s"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("all", rate!("fsyncs")), ("log", rate!("log_fsyncs"))]),
        limits: &[],
    },
    View {
        id: "rows",
        title: "Rows changed",
        note: "By kind of change.",
        measure: Measure::Count("rows/s"),
        style: ChartStyle::Stacked,
        lines: Lines::Named(&[
            ("inserted", rate!("row_inserts")),
            ("updated", rate!("row_updates")),
            ("deleted", rate!("row_deletes")),
        ]),
        limits: &[],
    },
    View {
        id: "waits",
        title: "Waits",
        note: "Times a second that a thread waited for a row lock, for a free page, or because the log buffer was full.",
        measure: Measure::Count("waits/s"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[
            ("row locks", rate!("lock_waits")),
            ("free pages", rate!("free_frame_waits")),
            ("log buffer", rate!("log_buffer_waits")),
            ("log full", rate!("hard_waits")),
        ]),
        limits: &[],
    },
    View {
        id: "history",
        title: "History",
        note: "Committed transactions whose old row versions are not yet purged.",
        measure: Measure::Count("transactions"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("not purged", level!("history_transactions"))]),
        limits: &[],
    },
    View {
        id: "processors",
        title: "Processors",
        note: "Processors that the server's process kept busy, if it runs on this machine.",
        measure: Measure::Count("processors"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("server", || Term::Divided("processor_us_total", 1_000_000))]),
        limits: &[],
    },
    View {
        id: "disk",
        title: "Disk",
        note: "What the device of the data directory read and wrote, also for others.",
        measure: Measure::BytesPerSecond,
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("read", rate!("disk_bytes_read")), ("written", rate!("disk_bytes_written"))]),
        limits: &[],
    },
    View {
        id: "disk-latency",
        title: "Disk, how long one takes",
        note: "The mean of each second, of the device of the data directory.",
        measure: Measure::Micros,
        style: ChartStyle::Lines,
        lines: Lines::Named(&[
            ("read", || Term::Each("disk_read_us_total", "disk_reads")),
            ("write", || Term::Each("disk_write_us_total", "disk_writes")),
            ("flush", || Term::Each("disk_flush_us_total", "disk_flushes")),
        ]),
        limits: &[],
    },
    View {
        id: "disk-busy",
        title: "Disk, busy",
        note: "Of the time, the part for which the device of the data directory had something to do.",
        measure: Measure::Count("%"),
        style: ChartStyle::Lines,
        lines: Lines::Named(&[("busy", || Term::Divided("disk_busy_us_total", 10_000))]),
        limits: &[],
    },
];

/// A plot, and what the table of averages says of it.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    /// The plot.
    pub(super) chart: Chart,
    /// For each series that is no limit: how much its counter grew in all.
    pub(super) sums: Vec<Option<f64>>,
}

/// Returns the views of the inputs. With several inputs each line of a view is a plot of its own
/// that has a line for each input.
pub(super) fn views(inputs: &[Input]) -> Vec<Drawn> {
    VIEWS
        .iter()
        .flat_map(|view| match inputs {
            [input] => of_one(view, input).into_iter().collect(),
            inputs => of_several(view, inputs),
        })
        .collect()
}

/// Returns the views of samples that belong to no directory, without those that show what the
/// clients did.
pub fn views_of(samples: &Samples) -> Vec<Chart> {
    let engine = VIEWS.iter().filter(|view| !["workload", "throughput"].contains(&view.id));
    let whole = Input::of_samples(samples.clone());
    engine.filter_map(|view| of_one(view, &whole)).map(|drawn| drawn.chart).collect()
}

fn lines_of(view: &View, inputs: &[Input]) -> Vec<(String, Term)> {
    match view.lines {
        Lines::Named(lines) => lines.iter().map(|(label, term)| ((*label).to_owned(), term())).collect(),
        Lines::Family(family) => {
            let mut names: Vec<String> = Vec::new();
            for name in inputs.iter().flat_map(|input| input.samples.moved(family)).map(|(name, _)| name) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let term = |name: &String| Term::Rate(Cow::Owned(format!("{family}.{name}")));
            names.iter().take(MEMBERS).map(|name| (name.replace('_', " "), term(name))).collect()
        }
        Lines::Workload => {
            let mut names: Vec<&String> = Vec::new();
            for (name, column) in inputs.iter().flat_map(|input| &input.samples.columns) {
                if column.unit == WORKLOAD_UNIT && !names.contains(&name) {
                    names.push(name);
                }
            }
            names.into_iter().map(|name| (name.clone(), Term::Level(Cow::Owned(name.clone())))).collect()
        }
    }
}

fn is_known(points: &[Point]) -> bool {
    points.iter().any(|(_, value)| value.is_some())
}

fn of_one(view: &View, input: &Input) -> Option<Drawn> {
    let (mut series, mut sums) = (Vec::new(), Vec::new());
    for (label, term) in lines_of(view, std::slice::from_ref(input)) {
        let points = term.points(&input.samples);
        if is_known(&points) {
            series.push(Series::new(label, points));
            sums.push(term.sum(&input.samples));
        }
    }
    if series.is_empty() {
        return None;
    }
    series.extend(limits(view, input));
    Some(Drawn {
        chart: chart(
            view,
            Cow::Borrowed(view.id),
            view.title.to_owned(),
            view.style,
            series,
            (input.samples.end(), began(input)),
        ),
        sums,
    })
}

fn of_several(view: &View, inputs: &[Input]) -> Vec<Drawn> {
    let lines = lines_of(view, inputs);
    let many = lines.len() > 1;
    let end = inputs.iter().map(|input| input.samples.end()).fold(0.0, f64::max);
    let drawn = |(label, term): (String, Term)| {
        let (mut series, mut sums) = (Vec::new(), Vec::new());
        for input in inputs {
            let points = term.points(&input.samples);
            if is_known(&points) {
                series.push(Series::new(&input.label, points));
                sums.push(term.sum(&input.samples));
            }
        }
        if series.is_empty() {
            return None;
        }
        let (id, title) = if many {
            (Cow::Owned(id_of(&format!("{}-{label}", view.id))), format!("{}: {label}", view.title))
        } else {
            (Cow::Borrowed(view.id), view.title.to_owned())
        };
        // The limits of all would hide the lines; those of the first are named.
        series.extend(limits(view, &inputs[0]));
        Some(Drawn { chart: chart(view, id, title, ChartStyle::Lines, series, (end, None)), sums })
    };
    lines.into_iter().filter_map(drawn).collect()
}

fn limits(view: &View, input: &Input) -> Vec<Series> {
    let limit = |(label, name): &(&str, &str)| {
        let points = input.samples.level(name);
        is_known(&points).then(|| Series::limit(*label, points))
    };
    view.limits.iter().filter_map(limit).collect()
}

fn chart(
    view: &View,
    id: Cow<'static, str>,
    title: String,
    style: ChartStyle,
    series: Vec<Series>,
    (end, clock): (f64, Option<f64>),
) -> Chart {
    let note = view.note.to_owned();
    let (measure, marks) = (view.measure, Vec::new());
    Chart { id, title, note, measure, style, series, marks, moment: None, end, clock }.without_far_limits()
}

/// Returns when time 0 of an input was, if that is known.
pub(super) fn began(input: &Input) -> Option<f64> {
    Some(input.began).filter(|began| *began > 0.0)
}

/// Makes a name of a file: lower-case letters, digits and hyphens.
pub(super) fn id_of(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plot::tests::input;
    use expect_test::expect;

    /// Returns the names of all views.
    pub(in crate::report) fn ids() -> impl Iterator<Item = &'static str> {
        VIEWS.iter().map(|view| view.id)
    }

    /// Shows plots: title, lines with their last value, sums.
    pub(in crate::report) fn show(plots: &[Drawn]) -> String {
        let mut out = String::new();
        for Drawn { chart, sums } in plots {
            out.push_str(&format!("{} ({})\n", chart.title, chart.id));
            for (i, series) in chart.series.iter().enumerate() {
                let last = series.known().last().map_or("-".to_owned(), |last| chart.measure.short(last));
                let sum = sums.get(i).copied().flatten().map_or(String::new(), |sum| format!(", sum {sum}"));
                let kind = if series.limit { "limit " } else { "" };
                out.push_str(&format!("  {kind}{}: {last}{sum}\n", series.label));
            }
        }
        out
    }

    #[test]
    fn the_views_of_one_input() {
        expect![[r#"
            Checkpoint age (checkpoint-age)
              checkpoint age: 1.9 MiB
              limit limit: 3.8 MiB
            What the workload says (workload)
              tps: 7
            Commits a second (throughput)
              commits: 100, sum 200
            Buffer pool (buffer-pool)
              dirty: 20
              clean: 30
              free: 30
            Page writes by force (flushing-by-force)
              adaptive: 20, sum 40
            Log written, an hour (log-an-hour)
              redo: 10.1 GiB, sum 6000000
            Use of the log (log-use)
              of the limit: 50
        "#]]
        .assert_eq(&show(&views(&[input("one", 1.0)])));
    }

    #[test]
    fn several_inputs_are_compared_line_by_line() {
        let plots = views(&[input("before", 1.0), input("after", 2.0)]);
        assert!(plots.iter().all(|drawn| drawn.chart.style == ChartStyle::Lines), "nothing is stacked");
        expect![[r#"
            Checkpoint age (checkpoint-age)
              before: 1.9 MiB
              after: 3.8 MiB
              limit limit: 3.8 MiB
            What the workload says (workload)
              before: 7
              after: 14
            Commits a second (throughput)
              before: 100, sum 200
              after: 200, sum 400
            Buffer pool: dirty (buffer-pool-dirty)
              before: 20
              after: 40
            Buffer pool: clean (buffer-pool-clean)
              before: 30
              after: 10
            Buffer pool: free (buffer-pool-free)
              before: 30
              after: 30
            Page writes by force (flushing-by-force)
              before: 20, sum 40
              after: 40, sum 80
            Log written, an hour: redo (log-an-hour-redo)
              before: 10.1 GiB, sum 6000000
              after: 20.1 GiB, sum 12000000
            Use of the log (log-use)
              before: 50
              after: 100
        "#]]
        .assert_eq(&show(&plots));
    }
}
