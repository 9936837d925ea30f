//! Renders a snapshot as JSON, as a text table and in the Prometheus format.

use crate::catalog::{CATALOG, MetricKind};
use crate::histogram::HistogramCounts;
use crate::snapshot::{LatencyRow, Snapshot};
use std::fmt::Write;

/// Upper bounds of the Prometheus buckets: powers of four from 16 µs to 16.8 s.
const PROMETHEUS_BOUNDS_US: [u64; 11] = {
    let mut bounds = [0; 11];
    let mut i = 0;
    while i < bounds.len() {
        bounds[i] = 16 << (2 * i);
        i += 1;
    }
    bounds
};

/// Returns `{"a":1,"b":2}` for labels and numbers. Labels need no escape.
fn object(members: &[(&'static str, u64)]) -> String {
    let members: Vec<String> = members.iter().map(|(label, n)| format!("\"{label}\":{n}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Returns the members of the JSON object of a histogram.
fn counts(took: &HistogramCounts) -> [(&'static str, u64); 6] {
    [
        ("count", took.count()),
        ("us_total", took.sum_us()),
        ("p50_us", took.quantile(0.50)),
        ("p95_us", took.quantile(0.95)),
        ("p99_us", took.quantile(0.99)),
        ("max_us", took.max_us()),
    ]
}

impl Snapshot {
    /// Returns one JSON object: each metric of the catalog by its name, and the families as
    /// objects.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut parts: Vec<String> =
            CATALOG.iter().zip(&self.plain).map(|(e, v)| format!("\"{}\":{v}", e.name)).collect();
        parts.push(format!("\"fsyncs\":{}", self.fsyncs_total()));
        for (family, members) in [
            ("fsyncs_by_file", self.fsyncs_by_file()),
            ("fsyncs_by_reason", self.fsyncs_by_reason()),
            ("pages_written_by_force", self.pages_by_force()),
            ("page_writes_io_by_force", self.ios_by_force()),
        ] {
            parts.push(format!("\"{family}\":{}", object(&members)));
        }
        let rows: Vec<String> = self
            .fsyncs
            .iter()
            .map(|row| {
                let numbers = object(&counts(&row.took));
                let (file, reason) = (row.file.label(), row.reason.label());
                let waiters = row.waiters;
                format!(
                    "{{\"file\":\"{file}\",\"reason\":\"{reason}\",\"waiters\":{waiters},{}",
                    &numbers[1..]
                )
            })
            .collect();
        parts.push(format!("\"fsync_rows\":[{}]", rows.join(",")));
        for LatencyRow { what, took } in &self.latencies {
            parts.push(format!("\"{}\":{}", what.label(), object(&counts(took))));
        }
        format!("{{{}}}", parts.join(","))
    }

    /// Returns a table for people. Metrics that are 0 are left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for (entry, value) in CATALOG.iter().zip(&self.plain).filter(|(_, v)| **v != 0) {
            let _ = writeln!(out, "{:<28} {value:>16} {}", entry.name, entry.unit.label());
        }
        for (title, members) in
            [("pages written by force", self.pages_by_force()), ("fsyncs by file", self.fsyncs_by_file())]
        {
            let members: Vec<String> =
                members.iter().filter(|m| m.1 != 0).map(|(l, n)| format!("{l} {n}")).collect();
            if !members.is_empty() {
                let _ = writeln!(out, "{title}: {}", members.join(", "));
            }
        }
        if !self.fsyncs.is_empty() {
            let _ = writeln!(
                out,
                "{:<12} {:<16} {:>10} {:>10} {:>10} {:>10} {:>10}",
                "fsync file", "reason", "count", "waiters", "p50 µs", "p99 µs", "max µs"
            );
        }
        for row in &self.fsyncs {
            let _ = writeln!(
                out,
                "{:<12} {:<16} {:>10} {:>10} {:>10} {:>10} {:>10}",
                row.file.label(),
                row.reason.label(),
                row.took.count(),
                row.waiters,
                row.took.quantile(0.50),
                row.took.quantile(0.99),
                row.took.max_us()
            );
        }
        for LatencyRow { what, took } in self.latencies.iter().filter(|row| row.took.count() > 0) {
            let _ = writeln!(
                out,
                "{:<20} {:>12} times, p50 {} p95 {} p99 {} max {} µs",
                what.label(),
                took.count(),
                took.quantile(0.50),
                took.quantile(0.95),
                took.quantile(0.99),
                took.max_us()
            );
        }
        out
    }

    /// Returns the Prometheus text exposition format. Names begin with `millpond_`, counters end in
    /// `_total`, times are seconds.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut out = String::new();
        for (entry, value) in CATALOG.iter().zip(&self.plain) {
            let counter = entry.kind == MetricKind::Counter && !entry.name.ends_with("_total");
            let name = format!("millpond_{}{}", entry.name, if counter { "_total" } else { "" });
            head(&mut out, &name, entry.help, entry.kind.label());
            let _ = writeln!(out, "{name} {value}");
        }
        let families = [
            (
                "millpond_pages_written_by_force_total",
                "Pages written in place, by what forced them.",
                self.pages_by_force(),
            ),
            (
                "millpond_page_writes_io_by_force_total",
                "In-place page writes, by what forced them.",
                self.ios_by_force(),
            ),
        ];
        for (name, help, members) in families {
            head(&mut out, name, help, "counter");
            for (label, n) in members {
                let _ = writeln!(out, "{name}{{force=\"{label}\"}} {n}");
            }
        }
        let name = "millpond_fsync_waiters_total";
        head(&mut out, name, "Threads that waited for a sync, by file and reason.", "counter");
        for row in &self.fsyncs {
            let labels = format!("file=\"{}\",reason=\"{}\"", row.file.label(), row.reason.label());
            let _ = writeln!(out, "{name}{{{labels}}} {}", row.waiters);
        }
        let name = "millpond_fsync_seconds";
        head(&mut out, name, "Duration of syncs, by file and reason.", "histogram");
        for row in &self.fsyncs {
            let labels = format!("file=\"{}\",reason=\"{}\"", row.file.label(), row.reason.label());
            histogram(&mut out, name, &labels, &row.took);
        }
        for LatencyRow { what, took } in &self.latencies {
            let name = format!("millpond_{}_seconds", what.label().trim_end_matches("_us"));
            head(&mut out, &name, what.help(), "histogram");
            histogram(&mut out, &name, "", took);
        }
        out
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends a Prometheus histogram. Durations are whole microseconds, rounded down: "below 16 µs"
/// and "at most 16 µs" hold for the same measurements.
fn histogram(out: &mut String, name: &str, labels: &str, took: &HistogramCounts) {
    let comma = if labels.is_empty() { "" } else { "," };
    for bound in PROMETHEUS_BOUNDS_US {
        let seconds = bound as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{seconds}\"}} {}", took.below(bound));
    }
    let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", took.count());
    let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(out, "{name}_sum{braces} {}", took.sum_us() as f64 / 1e6);
    let _ = writeln!(out, "{name}_count{braces} {}", took.count());
}
