//! Tests of the rules of the catalog, and golden output of each rendering.

use crate::catalog::{CATALOG, M, MetricKind, Unit};
use crate::{FileKind, Force, Latency, Metrics, SyncReason};
use expect_test::{expect, expect_file};
use std::collections::BTreeSet;

/// Metrics after two commits, some page writes and three syncs.
fn some_metrics() -> Metrics {
    let m = Metrics::new();
    m.add(M::Commits, 2);
    m.add(M::RedoBytesWritten, 840);
    m.set(M::DurableLsn, 4096);
    m.set(M::DirtyPages, 12);
    m.page_writes(Force::CheckpointAge, 30, 4, false);
    m.page_writes(Force::Idle, 2, 2, true);
    m.fsync(FileKind::Log, SyncReason::Commit, 92, 2);
    m.fsync(FileKind::Log, SyncReason::Commit, 131, 0);
    m.fsync(FileKind::Pages, SyncReason::PageBatch, 4000, 0);
    m.time(Latency::Commit, 100);
    m.time(Latency::Commit, 140);
    m
}

#[test]
fn catalog_is_well_formed() {
    assert_eq!(CATALOG.len(), M::COUNT);
    let mut names = BTreeSet::new();
    for (i, (metric, entry)) in M::ALL.iter().zip(CATALOG).enumerate() {
        assert_eq!(*metric as usize, i);
        assert_eq!(metric.entry().name, entry.name);
        assert!(names.insert(entry.name), "{} twice", entry.name);
        assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", entry.name);
        assert!(entry.help.ends_with('.') && !entry.help.contains(['|', '"', '\n']), "{}", entry.help);
        if matches!(entry.unit, Unit::Lsn | Unit::Flag | Unit::BytesPerSecond | Unit::PagesPerSecond) {
            assert_eq!(entry.kind, MetricKind::Gauge, "{}", entry.name);
        }
    }
}

#[test]
fn every_name_is_found_and_unique() {
    let s = Metrics::new().snapshot();
    let names = s.names();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for name in &names {
        assert_eq!(s.get(name), Some(0.0), "{name}");
    }
    assert_eq!(s.get("no_such_metric"), None);
}

#[test]
fn names_that_the_program_prints_exist() {
    let s = Metrics::new().snapshot();
    for name in [
        "redo_bytes_written",
        "redo_pad_bytes",
        "pages_written",
        "pages_written_foreground",
        "page_writes_io",
        "doublewrite_pages",
        "throttled_us_total",
        "hard_waits",
        "free_frame_waits",
        "recovery_ms",
        "checkpoint_age_bytes",
        "checkpoint_age_limit",
        "commits",
        "fsyncs",
        "fsyncs_by_reason.commit",
        "fsyncs_by_file.log",
        "pages_written_by_force.checkpoint_age",
    ] {
        assert!(s.get(name).is_some(), "{name}");
    }
}

#[test]
fn parts_add_up_to_totals() {
    let s = some_metrics().snapshot();
    let sum = |members: Vec<(&str, u64)>| members.iter().map(|m| m.1).sum::<u64>();
    assert_eq!(sum(s.pages_by_force()), s.value(M::PagesWritten));
    assert_eq!(sum(s.ios_by_force()), s.value(M::PageWritesIo));
    assert_eq!(sum(s.fsyncs_by_file()), s.fsyncs_total());
    assert_eq!(sum(s.fsyncs_by_reason()), s.fsyncs_total());
    assert_eq!(s.get("fsync_us_total"), Some(4223.0));
    assert_eq!(s.get("fsync_waiters"), Some(2.0));
}

#[test]
fn a_difference_subtracts_counters_and_keeps_gauges() {
    let m = some_metrics();
    let earlier = m.snapshot();
    m.add(M::Commits, 3);
    m.set(M::DirtyPages, 5);
    m.page_writes(Force::Idle, 7, 1, false);
    m.fsync(FileKind::Root, SyncReason::Checkpoint, 50, 1);
    let d = m.snapshot().minus(&earlier);
    assert_eq!(d.value(M::Commits), 3);
    assert_eq!(d.value(M::DirtyPages), 5);
    assert_eq!(d.value(M::DurableLsn), 4096);
    assert_eq!(d.get("pages_written_by_force.idle"), Some(7.0));
    assert_eq!(d.get("fsyncs_by_reason.commit"), Some(0.0));
    assert_eq!(
        d.fsyncs().iter().map(|r| (r.file, r.took.count())).collect::<Vec<_>>(),
        [(FileKind::Root, 1)]
    );
    assert_eq!(d.get("commit_us.count"), Some(0.0));
}

#[test]
fn gauges_move_both_ways_and_max_only_up() {
    let m = Metrics::new();
    m.add(M::ActiveTransactions, 5);
    m.sub(M::ActiveTransactions, 2);
    m.max(M::LogFlushDepthMax, 4);
    m.max(M::LogFlushDepthMax, 3);
    assert_eq!((m.get(M::ActiveTransactions), m.get(M::LogFlushDepthMax)), (3, 4));
}

#[test]
fn text_table() {
    expect![[r#"
        commits                                     2 count
        redo_bytes_written                        840 bytes
        durable_lsn                              4096 LSN
        pages_written                              32 pages
        pages_written_foreground                    2 pages
        page_writes_io                              6 I/Os
        dirty_pages                                12 pages
        pages written by force: checkpoint_age 30, idle 2
        fsyncs by file: log 2, pages 1
        fsync file   reason                count    waiters     p50 µs     p99 µs     max µs
        log          commit                    2          2         95        131        131
        pages        page_batch                1          0       4000       4000       4000
        commit_us                       2 times, p50 111 p95 140 p99 140 max 140 µs
    "#]]
    .assert_eq(&some_metrics().snapshot().to_text());
}

#[test]
fn json() {
    let json = some_metrics().snapshot().to_json().replace(",\"", ",\n\"").replace("{\n", "{");
    let shown: Vec<&str> = json.lines().filter(|l| !l.ends_with(":0,")).collect();
    expect![[r#"
        {"commits":2,
        "redo_bytes_written":840,
        "durable_lsn":4096,
        "pages_written":32,
        "pages_written_foreground":2,
        "page_writes_io":6,
        "dirty_pages":12,
        "fsyncs":3,
        "fsyncs_by_file":{"log":2,
        "pages":1,
        "lock":0},
        "fsyncs_by_reason":{"commit":2,
        "page_batch":1,
        "close":0},
        "pages_written_by_force":{"checkpoint_age":30,
        "idle":2,
        "bulk_load":0},
        "page_writes_io_by_force":{"checkpoint_age":4,
        "idle":2,
        "bulk_load":0},
        "fsync_rows":[{"file":"log",
        "reason":"commit",
        "waiters":2,
        "count":2,
        "us_total":223,
        "p50_us":95,
        "p95_us":131,
        "p99_us":131,
        "max_us":131},{"file":"pages",
        "reason":"page_batch",
        "count":1,
        "us_total":4000,
        "p50_us":4000,
        "p95_us":4000,
        "p99_us":4000,
        "max_us":4000}],
        "commit_us":{"count":2,
        "us_total":240,
        "p50_us":111,
        "p95_us":140,
        "p99_us":140,
        "max_us":140},
        "max_us":0},
        "max_us":0},
        "max_us":0},
        "max_us":0},
        "max_us":0}}"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn prometheus() {
    let text = some_metrics().snapshot().to_prometheus();
    let keep = ["commits_total", "durable_lsn", "written_by_force", "fsync_seconds", "fsync_waiters"];
    let shown: Vec<&str> = text.lines().filter(|l| keep.iter().any(|k| l.contains(k))).collect();
    expect![[r##"
        # HELP millpond_commits_total Transactions with changes that were committed, prepared ones included.
        # TYPE millpond_commits_total counter
        millpond_commits_total 2
        # HELP millpond_durable_lsn All redo below it survives a power cut.
        # TYPE millpond_durable_lsn gauge
        millpond_durable_lsn 4096
        # HELP millpond_pages_written_by_force_total Pages written in place, by what forced them.
        # TYPE millpond_pages_written_by_force_total counter
        millpond_pages_written_by_force_total{force="checkpoint_age"} 30
        millpond_pages_written_by_force_total{force="free_frames"} 0
        millpond_pages_written_by_force_total{force="dirty_share"} 0
        millpond_pages_written_by_force_total{force="idle"} 2
        millpond_pages_written_by_force_total{force="shutdown"} 0
        millpond_pages_written_by_force_total{force="recovery"} 0
        millpond_pages_written_by_force_total{force="bulk_load"} 0
        # HELP millpond_fsync_waiters_total Threads that waited for a sync, by file and reason.
        # TYPE millpond_fsync_waiters_total counter
        millpond_fsync_waiters_total{file="log",reason="commit"} 2
        millpond_fsync_waiters_total{file="pages",reason="page_batch"} 0
        # HELP millpond_fsync_seconds Duration of syncs, by file and reason.
        # TYPE millpond_fsync_seconds histogram
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.000016"} 0
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.000064"} 0
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.000256"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.001024"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.004096"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.016384"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.065536"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="0.262144"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="1.048576"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="4.194304"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="16.777216"} 2
        millpond_fsync_seconds_bucket{file="log",reason="commit",le="+Inf"} 2
        millpond_fsync_seconds_sum{file="log",reason="commit"} 0.000223
        millpond_fsync_seconds_count{file="log",reason="commit"} 2
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.000016"} 0
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.000064"} 0
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.000256"} 0
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.001024"} 0
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.004096"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.016384"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.065536"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="0.262144"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="1.048576"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="4.194304"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="16.777216"} 1
        millpond_fsync_seconds_bucket{file="pages",reason="page_batch",le="+Inf"} 1
        millpond_fsync_seconds_sum{file="pages",reason="page_batch"} 0.004
        millpond_fsync_seconds_count{file="pages",reason="page_batch"} 1"##]]
    .assert_eq(&shown.join("\n"));
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("millpond_") && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn documentation_page() {
    expect_file!["../../../docs/metrics.md"].assert_eq(&crate::page::catalog_page());
}
