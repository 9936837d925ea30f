//! From a snapshot of Millpond's metrics to the figures of the schema.

use super::figures::{FIGURES, is_of_host};
use super::of_server::dirty_percent;
use metrics::catalog::CATALOG;
use metrics::{M, Snapshot};
use output::samples::{ColumnKind, Values, of_engine};

/// Bytes of a block of the log.
const LOG_BLOCK: f64 = 4096.0;

/// Returns all figures of the engine, and those that the schema has besides.
pub(crate) fn values(snapshot: &Snapshot) -> Values {
    let mut out = of_engine(snapshot);
    out.extend(besides(snapshot));
    out
}

/// Returns only the figures of the schema, and those of families: what views are drawn from.
pub(crate) fn schema_values(snapshot: &Snapshot) -> Values {
    let mut out: Values = FIGURES
        .iter()
        .filter_map(|figure| {
            let at = CATALOG.iter().position(|entry| entry.name == figure.name)?;
            Some((figure.name.to_owned(), figure.unit, figure.kind, snapshot.value(M::ALL[at]) as f64))
        })
        .collect();
    out.push(("fsyncs".to_owned(), "count", ColumnKind::Counter, snapshot.fsyncs_total() as f64));
    out.extend(snapshot.pages_by_force().into_iter().map(|(force, pages)| {
        (format!("pages_written_by_force.{force}"), "pages", ColumnKind::Counter, pages as f64)
    }));
    out.extend(besides(snapshot));
    out
}

/// Returns the figures of the schema that the catalog does not have under these names.
fn besides(snapshot: &Snapshot) -> Values {
    let of = |metric: M| snapshot.value(metric) as f64;
    let counter = |name: &str, unit, value| (name.to_owned(), unit, ColumnKind::Counter, value);
    let forced = |which: &str| {
        snapshot.pages_by_force().iter().find(|(name, _)| *name == which).map_or(0.0, |(_, n)| *n as f64)
    };
    let lru = forced("free_frames");
    let log_syncs = snapshot.fsyncs().iter().filter(|row| row.file == metrics::FileKind::Log);
    let mut out = vec![
        counter("log_bytes_written", "bytes", of(M::LogBlocksWritten) * LOG_BLOCK),
        counter("log_writes", "count", of(M::LogFlushes)),
        counter("pages_flushed_lru", "pages", lru),
        counter("pages_flushed_list", "pages", (of(M::PagesWritten) - lru).max(0.0)),
        counter("log_fsyncs", "count", log_syncs.map(|row| row.took.count()).sum::<u64>() as f64),
    ];
    let dirty = dirty_percent(of(M::DirtyPages), of(M::LruPages), of(M::FreeFrames));
    out.push(("dirty_percent".to_owned(), "%", ColumnKind::Gauge, dirty));
    out
}

/// Returns the figures of the schema that Millpond does not have, each with the reason.
pub(crate) fn absent() -> Vec<(&'static str, &'static str)> {
    let snapshot = metrics::Metrics::new().snapshot();
    let has = schema_values(&snapshot);
    let missing = FIGURES.iter().filter(|figure| !has.iter().any(|value| value.0 == figure.name));
    missing.map(|figure| (figure.name, reason(figure.name))).collect()
}

fn reason(name: &str) -> &'static str {
    match name {
        "statements"
        | "statement_commits"
        | "rollback_statements"
        | "open_connections"
        | "threads_running" => "an embedded database has no connections and no statements",
        name if is_of_host(name) => "the kernel counts it, and a flight recorder does not",
        "device_bytes_written" => "the kernel counts it for the process, in /proc/PID/io",
        name if name.starts_with("pages_written_by_force.") => "Millpond's forces have names of their own",
        _ => "Millpond does not count it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use metrics::Metrics;

    #[test]
    fn the_schema_of_a_database() {
        let metrics = Metrics::new();
        metrics.set(M::DirtyPages, 30);
        metrics.set(M::LruPages, 79);
        metrics.set(M::FreeFrames, 20);
        metrics.set(M::CheckpointAgeBytes, 77);
        metrics.add(M::LogBlocksWritten, 2);
        let values = schema_values(&metrics.snapshot());
        let of = |name: &str| values.iter().find(|value| value.0 == name).map(|value| value.3);
        assert_eq!(of("dirty_percent"), Some(30.0));
        assert_eq!(of("log_bytes_written"), Some(8192.0));
        assert_eq!(of("checkpoint_age_bytes"), Some(77.0));
        assert_eq!(of("pages_written_by_force.dirty_share"), Some(0.0));
        assert_eq!(of("open_connections"), None);
    }

    #[test]
    fn what_a_database_does_not_have_is_said() {
        let lines: Vec<String> = absent().iter().map(|(name, why)| format!("{name}: {why}\n")).collect();
        expect![[r#"
            statement_commits: an embedded database has no connections and no statements
            rollback_statements: an embedded database has no connections and no statements
            statements: an embedded database has no connections and no statements
            io_capacity_max: Millpond does not count it
            pages_written_by_force.adaptive: Millpond's forces have names of their own
            pages_written_by_force.background: Millpond's forces have names of their own
            pages_written_by_force.sync: Millpond's forces have names of their own
            pages_written_as_neighbours: Millpond does not count it
            pages_written_by_force.lru: Millpond's forces have names of their own
            device_bytes_written: the kernel counts it for the process, in /proc/PID/io
            pending_reads: Millpond does not count it
            pending_writes: Millpond does not count it
            pending_fsyncs: Millpond does not count it
            lock_waiters: Millpond does not count it
            open_connections: an embedded database has no connections and no statements
            threads_running: an embedded database has no connections and no statements
            processor_us_total: the kernel counts it, and a flight recorder does not
            disk_reads: the kernel counts it, and a flight recorder does not
            disk_bytes_read: the kernel counts it, and a flight recorder does not
            disk_read_us_total: the kernel counts it, and a flight recorder does not
            disk_writes: the kernel counts it, and a flight recorder does not
            disk_bytes_written: the kernel counts it, and a flight recorder does not
            disk_write_us_total: the kernel counts it, and a flight recorder does not
            disk_flushes: the kernel counts it, and a flight recorder does not
            disk_flush_us_total: the kernel counts it, and a flight recorder does not
            disk_busy_us_total: the kernel counts it, and a flight recorder does not
        "#]]
        .assert_eq(&lines.concat());
    }
}
