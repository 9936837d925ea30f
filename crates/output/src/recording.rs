//! What the flight recorder of a database has written, as a table of text or as CSV.

use crate::units::show_date;
use metrics::{CatalogEntry, MetricKind, catalog::CATALOG};
use millpond::Snapshot;
use millpond::inspect::{Recording, Sample};
use std::fmt::Write;
use std::time::Duration;

/// What is shown.
#[derive(Clone, Debug)]
pub struct View {
    /// Only so much of the end; `None` for all.
    pub last: Option<Duration>,
    /// A line for so much time at least.
    pub every: Duration,
    /// Names of figures; none for those that tell most.
    pub figures: Vec<String>,
    /// CSV instead of a table.
    pub csv: bool,
}

/// What happened between two samples of a session.
pub struct Interval {
    /// Its end.
    pub unix_us: u64,
    /// How long it was.
    pub seconds: f64,
    /// The number of the opening, from 0 on.
    pub session: u64,
    /// Counters since its beginning, levels at its end.
    pub metrics: Snapshot,
}

/// A column of the table.
struct Column {
    heading: String,
    value: Box<dyn Fn(&Interval) -> f64>,
}

/// Returns the table. An error names a figure that does not exist.
pub fn show(recording: &Recording, view: &View) -> Result<String, String> {
    let (mut first, mut last, mut count, mut sessions) = (None, None, 0_u64, 0);
    for sample in recording.samples() {
        first = first.or(Some(sample.unix_us));
        last = Some(sample.unix_us);
        sessions = sample.session + 1;
        count += 1;
    }
    let (Some(first), Some(last)) = (first, last) else {
        return Ok("the recording has no samples\n".to_owned());
    };
    let from = view.last.map_or(0, |length| last.saturating_sub(length.as_micros() as u64));
    let columns = columns(&view.figures)?;
    let mut text = String::new();
    if !view.csv {
        let (first, last) = (time(first), time(last));
        let _ = writeln!(text, "{count} samples of {sessions} sessions, from {first} to {last}");
        for missing in recording.missing() {
            let _ = writeln!(text, "another version made it, without: {missing}");
        }
    }
    write_heading(&columns, view.csv, &mut text);
    let mut session = None;
    for interval in intervals(recording.samples(), view.every).filter(|interval| interval.unix_us > from) {
        if !view.csv && session.is_some_and(|session| session != interval.session) {
            text.push_str("-- opened again\n");
        }
        session = Some(interval.session);
        write_line(&columns, &interval, view.csv, &mut text);
    }
    Ok(text)
}

/// Returns what happened from sample to sample, in steps of at least `every`.
pub fn intervals(samples: impl Iterator<Item = Sample>, every: Duration) -> impl Iterator<Item = Interval> {
    let every_us = every.as_micros() as u64;
    samples
        .scan(None, move |before: &mut Option<Sample>, sample| {
            let interval = match before {
                Some(then) if then.session == sample.session => {
                    let us = sample.unix_us.saturating_sub(then.unix_us);
                    (us >= every_us.max(1)).then(|| Interval {
                        unix_us: sample.unix_us,
                        seconds: us as f64 / 1e6,
                        session: sample.session,
                        metrics: sample.metrics.minus(&then.metrics),
                    })
                }
                _ => {
                    *before = Some(sample);
                    return Some(None);
                }
            };
            if interval.is_some() {
                *before = Some(sample);
            }
            Some(interval)
        })
        .flatten()
}

/// Whether a figure counts events, so that its change a second says more than its value.
fn is_counter(name: &str) -> bool {
    let counts = |entry: &CatalogEntry| entry.kind == MetricKind::Counter;
    match CATALOG.iter().find(|entry| entry.name == name) {
        Some(entry) => counts(entry),
        None => {
            let families = ["fsync", "pages_written_by_force", "page_writes_io_by_force"];
            name.ends_with(".count") || families.iter().any(|family| name.starts_with(family))
        }
    }
}

fn columns(figures: &[String]) -> Result<Vec<Column>, String> {
    if figures.is_empty() {
        return Ok(telling_columns());
    }
    let column = |name: &String| {
        // All snapshots have the same names.
        if metrics::Metrics::new().snapshot().get(name).is_none() {
            return Err(format!("there is no figure {name}; docs/metrics.md lists all"));
        }
        let (counter, figure) = (is_counter(name), name.clone());
        let value = move |interval: &Interval| {
            let value = interval.metrics.get(&figure).unwrap_or_default();
            if counter { value / interval.seconds } else { value }
        };
        let heading = if counter { format!("{name}/s") } else { name.clone() };
        Ok(Column { heading, value: Box::new(value) })
    };
    figures.iter().map(column).collect()
}

/// The figures that tell first how writing goes.
fn telling_columns() -> Vec<Column> {
    let column =
        |heading: &str, value: Box<dyn Fn(&Interval) -> f64>| Column { heading: heading.into(), value };
    let level = |name: &'static str| move |i: &Interval| i.metrics.get(name).unwrap_or_default();
    let rate = move |name| move |i: &Interval| level(name)(i) / i.seconds;
    let percent = move |part, whole| move |i: &Interval| 100.0 * level(part)(i) / level(whole)(i).max(1.0);
    let rows =
        move |i: &Interval| ["row_inserts", "row_updates", "row_deletes"].iter().map(|n| rate(n)(i)).sum();
    vec![
        column("commits/s", Box::new(rate("commits"))),
        column("rows/s", Box::new(rows)),
        column("redo MB/s", Box::new(move |i| rate("redo_bytes_written")(i) / 1e6)),
        column("age %", Box::new(percent("checkpoint_age_bytes", "checkpoint_age_limit"))),
        column("dirty %", Box::new(percent("dirty_pages", "buffer_frames"))),
        column("pages/s", Box::new(rate("pages_written"))),
        column("syncs/s", Box::new(rate("fsyncs"))),
        column("commit p50 us", Box::new(level("commit_us.p50"))),
        column("p99 us", Box::new(level("commit_us.p99"))),
        column("delays/s", Box::new(rate("admission_us.count"))),
        column("lock waits/s", Box::new(rate("lock_waits"))),
    ]
}

fn write_heading(columns: &[Column], csv: bool, text: &mut String) {
    if csv {
        text.push_str("time,seconds,session");
        columns.iter().for_each(|column| text.extend([",", &column.heading]));
    } else {
        let _ = write!(text, "{:20}", "time (UTC)");
        for column in columns {
            let _ = write!(text, " {:>9}", column.heading);
        }
    }
    text.push('\n');
}

fn write_line(columns: &[Column], interval: &Interval, csv: bool, text: &mut String) {
    let time = time(interval.unix_us);
    if csv {
        let _ = write!(text, "{time},{:.6},{}", interval.seconds, interval.session);
        for column in columns {
            let _ = write!(text, ",{}", (column.value)(interval));
        }
    } else {
        let _ = write!(text, "{time:20}");
        for column in columns {
            let (value, width) = ((column.value)(interval), column.heading.chars().count().max(9));
            let digits = if value < 10.0 && value.fract() != 0.0 { 1 } else { 0 };
            let _ = write!(text, " {value:>width$.digits$}");
        }
    }
    text.push('\n');
}

/// Returns a time as text, in UTC.
pub fn time(unix_us: u64) -> String {
    show_date(unix_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use metrics::recording::{Moment, Writer};
    use metrics::{Latency, M, Metrics};

    /// A recording of two sessions of some seconds.
    fn recording() -> Recording {
        let (mut bytes, mut writer) = Writer::create(1, 2);
        for session in 0..2 {
            let metrics = Metrics::new();
            metrics.set(M::RedoCapacityBytes, 2000);
            metrics.set(M::CheckpointAgeLimit, 1000);
            metrics.set(M::BufferFrames, 400);
            for second in 0..4 {
                let clock_us = 1_000_000 * (100 * session + second);
                let when = Moment { clock_us, unix_seconds: 1_700_000_000 + clock_us / 1_000_000 };
                let piece = writer.sample(when, &metrics.snapshot());
                bytes.resize(bytes.len().max(piece.offset as usize), 0);
                bytes.truncate(piece.offset as usize);
                bytes.extend(piece.bytes);
                metrics.add(M::Commits, 1000 * (second + 1));
                metrics.add(M::RowUpdates, 2500);
                metrics.add(M::RedoBytesWritten, 1_500_000);
                metrics.set(M::CheckpointAgeBytes, 100 * second);
                metrics.set(M::DirtyPages, 10 * second);
                metrics.time(Latency::Commit, 200);
            }
            let read = |offset: u64, length: usize| {
                let at = (offset as usize).min(bytes.len());
                bytes[at..bytes.len().min(at + length)].to_vec()
            };
            writer = Writer::resume(1, read).unwrap();
        }
        Recording::new(bytes).unwrap()
    }

    fn view() -> View {
        View { last: None, every: Duration::from_secs(1), figures: Vec::new(), csv: false }
    }

    #[test]
    fn a_table_shows_each_second_and_where_the_database_was_opened_again() {
        expect![[r#"
            8 samples of 2 sessions, from 2023-11-14T22:13:20Z to 2023-11-14T22:15:03Z
            time (UTC)           commits/s    rows/s redo MB/s     age %   dirty %   pages/s   syncs/s commit p50 us    p99 us  delays/s lock waits/s
            2023-11-14T22:13:21Z      1000      2500       1.5         0         0         0         0           200       200         0            0
            2023-11-14T22:13:22Z      2000      2500       1.5        10       2.5         0         0           200       200         0            0
            2023-11-14T22:13:23Z      3000      2500       1.5        20         5         0         0           200       200         0            0
            -- opened again
            2023-11-14T22:15:01Z      1000      2500       1.5         0         0         0         0           200       200         0            0
            2023-11-14T22:15:02Z      2000      2500       1.5        10       2.5         0         0           200       200         0            0
            2023-11-14T22:15:03Z      3000      2500       1.5        20         5         0         0           200       200         0            0
        "#]].assert_eq(&show(&recording(), &view()).unwrap());
    }

    #[test]
    fn figures_of_ones_own_choice_over_longer_steps_as_csv() {
        let figures = vec!["commits".to_owned(), "dirty_pages".to_owned(), "commit_us.count".to_owned()];
        let view = View { figures, csv: true, every: Duration::from_secs(2), ..view() };
        expect![[r#"
            time,seconds,session,commits/s,dirty_pages,commit_us.count/s
            2023-11-14T22:13:22Z,2.000000,0,1500,10,1
            2023-11-14T22:15:02Z,2.000000,1,1500,10,1
        "#]]
        .assert_eq(&show(&recording(), &view).unwrap());
    }

    #[test]
    fn only_the_end_is_shown_if_asked_for() {
        let view = View { last: Some(Duration::from_secs(2)), figures: vec!["commits".into()], ..view() };
        assert_eq!(show(&recording(), &view).unwrap().lines().count(), 2 + 2);
        let view = View { figures: vec!["comits".into()], ..view };
        assert!(show(&recording(), &view).unwrap_err().contains("no figure comits"));
    }
}
