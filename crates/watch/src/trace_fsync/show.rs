//! A trace as text: by file, by duration and over time, side by side; and as JSON.

use super::histogram::Bucket;
use super::result::{Row, Second, Trace};
use crate::wrap::wrapped;
use output::units::{show_count, show_micros};
use serde_json::{Value, json};
use std::fmt::Write;

/// The most lines of a view.
const LINES: usize = 20;
/// The widest bar.
const BAR: u64 = 12;
/// The widest line of text.
const TEXT_COLUMNS: usize = 100;
/// Columns between two views.
const GAP: usize = 3;

/// Returns the trace as text of at most `columns` columns, if they suffice for each view.
pub(crate) fn text(trace: &Trace, columns: usize) -> String {
    let text_columns = columns.min(TEXT_COLUMNS);
    let paragraph = |text: &str| wrapped("", text, 0, text_columns);
    let mut out = paragraph(&format!("{}: {:.1} s {}", trace.target, trace.seconds, trace.how));
    out.push_str(&paragraph(&sums(trace)));
    if trace.syncs() > 0 {
        let p = &trace.points;
        let [p50, p95, p99, max] = [p.p50, p.p95, p.p99, p.max].map(|us| show_micros(us as f64));
        out.push_str(&paragraph(&format!(
            "half of them took up to {p50}, 95 % up to {p95}, 99 % up to {p99}, the longest {max}"
        )));
        out.push('\n');
        let views = [by_file(&trace.rows), by_time(&trace.latency), over_time(&trace.over_time)];
        out.push_str(&beside(&views, columns));
    }
    for note in &trace.notes {
        out.push_str(&wrapped("note:", note, 6, text_columns));
    }
    out
}

/// Returns how many syncs and commits there were.
fn sums(trace: &Trace) -> String {
    let (syncs, seconds) = (trace.syncs(), trace.seconds.max(0.001));
    let sums = format!("{} syncs, {} a second", show_count(syncs as f64), rate(syncs as f64 / seconds));
    let by = trace.counted.as_ref().map_or_else(String::new, |counted| format!(" ({})", counted.by));
    match (trace.commits(), &trace.counted) {
        (Some(commits), _) if syncs > 0 => {
            let each = commits as f64 / syncs as f64;
            format!("{sums}; {} commits, {each:.2} for each sync{by}", show_count(commits as f64))
        }
        (Some(commits), _) => format!("{sums}; {} commits{by}", show_count(commits as f64)),
        (None, Some(counted)) => {
            format!("{sums}; {} commits{by}, others are not known", show_count(counted.commits as f64))
        }
        (None, None) => format!("{sums}; commits are not known from outside"),
    }
}

fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { show_count(value) }
}

/// Puts views beside each other where they fit, else below each other.
fn beside(views: &[Vec<String>], columns: usize) -> String {
    let width = |view: &[String]| view.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut rows: Vec<Vec<&Vec<String>>> = Vec::new();
    for view in views {
        let fits = rows
            .last()
            .is_some_and(|row| row.iter().map(|v| width(v) + GAP).sum::<usize>() + width(view) <= columns);
        match rows.last_mut() {
            Some(row) if fits => row.push(view),
            _ => rows.push(vec![view]),
        }
    }
    let mut out = String::new();
    for row in rows {
        let height = row.iter().map(|view| view.len()).max().unwrap_or(0);
        for i in 0..height {
            let mut line = String::new();
            for (n, view) in row.iter().enumerate() {
                let text = view.get(i).map_or("", String::as_str);
                let width = width(view) + if n + 1 < row.len() { GAP } else { 0 };
                let _ = write!(line, "{text:width$}");
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
    out
}

fn by_file(rows: &[Row]) -> Vec<String> {
    let total = rows.iter().map(|row| row.syncs).sum::<u64>().max(1) as f64;
    let dir = common_dir(rows);
    let waiters = rows.iter().any(|row| row.waiters.is_some());
    let mut lines = vec![if dir.is_empty() { "by file".to_owned() } else { format!("by file, in {dir}") }];
    let waiting = if waiters { "  waiters" } else { "" };
    lines.push(format!("{:>7} {:>5} {:>8} {:>8}{waiting}  file", "syncs", "%", "mean", "longest"));
    for row in rows.iter().take(LINES) {
        let mean = show_micros(row.us_total as f64 / row.syncs.max(1) as f64);
        let share = 100.0 * row.syncs as f64 / total;
        let waiters = row.waiters.map_or_else(String::new, |n| format!("  {n:>7}"));
        let longest = show_micros(row.us_max as f64);
        let name = file_name(row, &dir);
        lines.push(format!("{:>7} {share:>5.1} {mean:>8} {longest:>8}{waiters}  {name}", row.syncs));
    }
    if rows.len() > LINES {
        let rest: u64 = rows[LINES..].iter().map(|row| row.syncs).sum();
        let share = 100.0 * rest as f64 / total;
        lines.push(format!("{rest:>7} {share:>5.1}  in {} more files", rows.len() - LINES));
    }
    lines
}

/// Returns the file's name with what it is for, and with the call if it is not the usual one.
fn file_name(row: &Row, dir: &str) -> String {
    let mut name = row.file.strip_prefix(dir).unwrap_or(&row.file).trim_start_matches('/').to_owned();
    if name.is_empty() {
        name = ".".to_owned();
    }
    if !["", "fsync", "fdatasync"].contains(&row.call) {
        name = format!("{name}, {}", row.call);
    }
    if row.failed > 0 {
        name = format!("{name}, {} failed", row.failed);
    }
    if row.reason.is_empty() { name } else { format!("{name} ({})", row.reason) }
}

/// Returns the directory that all files with a path share; empty if there is none.
fn common_dir(rows: &[Row]) -> String {
    let mut dirs = rows
        .iter()
        .filter(|row| row.file.starts_with('/'))
        .map(|row| row.file.rsplit_once('/').map_or("", |(dir, _)| dir).split('/').collect::<Vec<_>>());
    let Some(mut common) = dirs.next() else { return String::new() };
    for dir in dirs {
        let same = common.iter().zip(&dir).take_while(|(a, b)| a == b).count();
        common.truncate(same);
    }
    common.join("/")
}

fn by_time(buckets: &[Bucket]) -> Vec<String> {
    let most = buckets.iter().map(|bucket| bucket.syncs).max().unwrap_or(0).max(1);
    let mut lines = vec!["how long they took".to_owned(), format!("{:>15} {:>7}", "µs", "syncs")];
    for bucket in buckets {
        let range = match bucket.to_us {
            Some(to) => format!("{} - {to}", bucket.from_us),
            None => format!("{} and more", bucket.from_us),
        };
        let bar = "█".repeat((bucket.syncs * BAR).div_ceil(most) as usize);
        lines.push(format!("{range:>15} {:>7} {bar}", bucket.syncs).trim_end().to_owned());
    }
    lines
}

fn over_time(seconds: &[Second]) -> Vec<String> {
    let step = seconds.len().div_ceil(LINES).max(1);
    let merged: Vec<Second> = seconds.chunks(step).map(merged).collect();
    let rates: Vec<f64> = merged.iter().map(|s| s.syncs as f64 / s.seconds.max(0.001)).collect();
    let most = rates.iter().copied().fold(1.0, f64::max);
    let commits = merged.iter().any(|second| second.commits.is_some());
    let mut lines = vec!["over time".to_owned()];
    let heading = if commits { format!(" {:>9} {:>5}", "commits/s", "each") } else { String::new() };
    lines.push(format!("{:>6} {:>7}{heading}", "second", "syncs/s"));
    let mut end = 0.0;
    for (second, rate) in merged.iter().zip(rates) {
        end += second.seconds;
        let bar = "█".repeat((rate * BAR as f64 / most).ceil() as usize);
        let commits = second.commits.map_or_else(String::new, |n| {
            let each = n as f64 / second.syncs.max(1) as f64;
            format!(" {:>9.0} {each:>5.1}", n as f64 / second.seconds.max(0.001))
        });
        lines.push(format!("{end:>6.0} {rate:>7.0}{commits} {bar}").trim_end().to_owned());
    }
    lines
}

fn merged(seconds: &[Second]) -> Second {
    Second {
        seconds: seconds.iter().map(|s| s.seconds).sum(),
        syncs: seconds.iter().map(|s| s.syncs).sum(),
        commits: seconds.iter().map(|s| s.commits).sum(),
    }
}

/// Returns the trace as one JSON object.
pub(crate) fn json(trace: &Trace) -> Value {
    let (syncs, commits) = (trace.syncs(), trace.commits());
    let rows: Vec<Value> = trace
        .rows
        .iter()
        .map(|row| {
            json!({"file": row.file, "reason": row.reason, "call": row.call, "syncs": row.syncs,
                   "failed": row.failed, "us_total": row.us_total, "us_max": row.us_max, "waiters": row.waiters})
        })
        .collect();
    let latency: Vec<Value> = trace
        .latency
        .iter()
        .map(|bucket| json!({"from": bucket.from_us, "to": bucket.to_us, "syncs": bucket.syncs}))
        .collect();
    let seconds: Vec<Value> = trace
        .over_time
        .iter()
        .map(|s| json!({"seconds": s.seconds, "syncs": s.syncs, "commits": s.commits}))
        .collect();
    let p = &trace.points;
    json!({
        "target": trace.target,
        "way": trace.way,
        "seconds": trace.seconds,
        "syncs": syncs,
        "syncs_per_second": syncs as f64 / trace.seconds.max(0.001),
        "commits": commits,
        "commits_per_sync": commits.filter(|_| syncs > 0).map(|n| n as f64 / syncs as f64),
        "commits_counted_by": trace.counted.as_ref().map(|counted| counted.by.as_str()),
        "by_file": rows,
        "latency_us": {"p50": p.p50, "p95": p.p95, "p99": p.p99, "max": p.max, "histogram": latency},
        "over_time": seconds,
        "notes": trace.notes,
    })
}
