//! The exact JSON object and table.

use super::*;
use crate::figures::{Figures, Level};
use crate::measurements::{DoneTxn, Measurements, Window};
use expect_test::{expect, expect_file};
use output::samples::Samples;
use std::time::{Duration, Instant};

fn request() -> Request {
    Request {
        workload: "write-heavy".into(),
        threads: 16,
        shape: Shape {
            tables: 10,
            rows: 100_000,
            tpcc: None,
            text: "10 tables x 100 000 rows, uniform keys".into(),
        },
        distribution: "uniform".into(),
        durability: "sync".into(),
        ephemeral: false,
        isolation: "repeatable-read".into(),
        page_bytes: 8192,
        pool_bytes: 512 << 20,
        law: "millpond".into(),
        rate: None,
    }
}

fn sample() -> RunResult {
    let start = Instant::now();
    let measurements = Measurements::new(1);
    let window = Window { start, end: Some(start + Duration::from_millis(2500)) };
    measurements.open_window(window);
    for n in 0..100u64 {
        let began = start + Duration::from_millis(20 * n);
        let ended = began + Duration::from_micros(1000 + n);
        measurements.record(
            0,
            DoneTxn {
                began,
                ended,
                retries: u64::from(n == 7),
                row_changes: 40,
                kind: None,
                committed: true,
            },
        );
    }
    let map = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    let figures = Figures {
        redo_bytes: 800_000,
        redo_pad_bytes: 4096,
        pages_read: 0,
        pages_written: 64,
        pages_written_foreground: 0,
        pages_written_by_force: map(&[("checkpoint_age", 60), ("free_frames", 4)]),
        page_writes_io: 16,
        doublewrite_pages: 64,
        device_write_bytes: Some(3_000_000),
        fsyncs: 50,
        fsyncs_by_reason: map(&[("commit", 48), ("page_batch", 2)]),
        fsyncs_by_file: map(&[("log", 48), ("pages", 2)]),
        checkpoint_age_limit: 90 << 20,
        throttled_us_total: 1500,
        hard_waits: 0,
        free_frame_waits: 2,
        recovery_ms: 0,
        direct_io: true,
        io_uring: true,
        fsync_rows: Vec::new(),
        page_writes_io_by_force: BTreeMap::new(),
    };
    let mut age = Level::default();
    age.add(1 << 20);
    age.add(3 << 20);
    let around = RunContext {
        load_seconds: 4.25,
        durable_device: true,
        checked: Checked { check: "ok".into(), consistency: None },
    };
    let samples = Samples::new();
    RunResult::new(
        request(),
        &Measured { totals: measurements.totals(window), figures, age, samples, began: start },
        around,
    )
}

#[test]
fn the_json_object() {
    let mut result = sample();
    result.version = "0.0.0";
    expect_file!["run.json"].assert_eq(&result.json());
}

#[test]
fn the_table() {
    expect![[r#"
        workload        write-heavy, 16 threads, 10 tables x 100 000 rows, uniform keys, sync commits
        measured        2.50 s after a load of 4.2 s
        transactions    100   40 a second   1 retries
        steadiness      worst second 50 of median 50 (100 %)   seconds without commits 0
        latency         p50 1.0 ms   p95 1.1 ms   p99 1.1 ms   p99.9 1.1 ms   max 1.1 ms
        row changes     4 000   1 600 a second
        redo            781 KiB   200 bytes a row change   pads 4 KiB
        fsyncs          50   2.0 commits each   (commit 48, page_batch 2)
        pages written   64 in 16 I/Os   0 by callers' threads   doublewrite 64   (checkpoint_age 60, free_frames 4)
        device writes   2.9 MiB
        checkpoint age  max 3 MiB   mean 2 MiB   limit 90 MiB
        delays          throttled 1.5 ms   hard waits 0   free-frame waits 2
        check           ok
    "#]].assert_eq(&sample().table());
}

#[test]
fn a_run_without_changes_or_syncs_has_no_ratio() {
    assert_eq!(ratio(5, 0), None);
    assert_eq!(ratio(5, 2), Some(2.5));
    let mut result = sample();
    result.redo_bytes_per_row_change = None;
    (result.durable_device, result.direct_io, result.io_uring) = (false, false, false);
    assert!(result.json().contains("\"redo_bytes_per_row_change\": null"));
    assert!(result.json().contains("\"durable_device\": false"));
    for sentence in ["a memory file system", "refuses direct I/O", "io_uring is not to be had"] {
        assert!(result.table().contains(sentence), "{sentence}");
    }
    result.request.law = "innodb, io_capacity 200".into();
    assert!(result.table().contains("\nlaw             innodb, io_capacity 200\n"), "{}", result.table());
    result.request.ephemeral = true;
    let table = result.table();
    for sentence in ["sync commits in memory", "nothing is durable"] {
        assert!(table.contains(sentence), "{table}");
    }
    assert!(!table.contains("memory file system") && !table.contains("io_uring is not to be had"), "{table}");
}
