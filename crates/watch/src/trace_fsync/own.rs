//! The syncs of a database of Millpond, from its own flight recorder: with file and reason of each,
//! without any rights, also after the database has been closed or has crashed.

use super::histogram;
use super::result::{Row, Second, Trace};
use metrics::histogram::HistogramCounts;
use millpond::inspect::Recording;
use output::recording::{Interval, intervals, time};
use std::collections::BTreeMap;
use std::time::Duration;

/// A sample that is so little late does not push the first one out.
const LATE_US: u64 = 450_000;

/// Returns what the last `length` of a recording tells. An error says that it tells nothing.
pub(crate) fn trace(recording: &Recording, length: Duration) -> Result<Trace, String> {
    let last = recording.samples().last().ok_or("the flight recorder has no samples")?.unix_us;
    let from = last.saturating_sub(length.as_micros() as u64).saturating_sub(LATE_US);
    let part: Vec<Interval> = intervals(recording.samples(), Duration::ZERO)
        .filter(|i| i.unix_us.saturating_sub((i.seconds * 1e6) as u64) >= from)
        .collect();
    let (Some(first), Some(end)) = (part.first(), part.last()) else {
        return Err("the flight recorder has a single sample, so nothing between two".to_owned());
    };
    let begun = first.unix_us.saturating_sub((first.seconds * 1e6) as u64);
    let mut trace = Trace {
        way: "recorder",
        how: format!("by the database's own flight recorder, {} to {}", time(begun), time(end.unix_us)),
        seconds: part.iter().map(|i| i.seconds).sum(),
        over_time: part.iter().map(second).collect(),
        ..Trace::default()
    };
    let (rows, all) = rows(&part);
    trace.rows = rows;
    trace.latency = histogram::of_counts(&all);
    trace.points = histogram::points_of_counts(&all);
    if part.iter().any(|i| i.session != first.session) {
        trace.notes.push("the database was opened again in this time".to_owned());
    }
    trace.notes.push("times of the recorder are at most a quarter too high".to_owned());
    Ok(trace)
}

fn second(interval: &Interval) -> Second {
    Second {
        seconds: interval.seconds,
        syncs: interval.metrics.fsyncs_total(),
        commits: interval.metrics.get("commits").map(|n| n as u64),
    }
}

/// Adds up the syncs of intervals, by file and reason, and the times of all.
fn rows(part: &[Interval]) -> (Vec<Row>, HistogramCounts) {
    let mut all = HistogramCounts::default();
    let mut by: BTreeMap<(&str, &str), (u64, HistogramCounts)> = BTreeMap::new();
    for row in part.iter().flat_map(|interval| interval.metrics.fsyncs()) {
        let (waiters, took) = by.entry((row.file.label(), row.reason.label())).or_default();
        *waiters += row.waiters;
        took.merge(&row.took);
        all.merge(&row.took);
    }
    let mut rows: Vec<Row> = by
        .into_iter()
        .map(|((file, reason), (waiters, took))| Row {
            file: file.to_owned(),
            reason: reason.to_owned(),
            syncs: took.count(),
            us_total: took.sum_us(),
            us_max: took.max_us(),
            waiters: Some(waiters),
            ..Row::default()
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.syncs));
    (rows, all)
}
