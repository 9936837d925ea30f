//! The exact JSON object and table.

use super::super::figures::PagesWritten;
use super::*;
use crate::measurements::{DoneTxn, Measurements, Window};
use expect_test::{expect, expect_file};
use output::samples::Samples;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn driven(with_age: bool) -> Driven {
    let start = Instant::now();
    let measurements = Measurements::new(1);
    let window = Window { start, end: Some(start + Duration::from_millis(2500)) };
    measurements.open_window(window);
    for n in 0..100u64 {
        let began = start + Duration::from_millis(20 * n);
        let ended = began + Duration::from_micros(1000 + n);
        measurements.record(
            0,
            DoneTxn { began, ended, retries: u64::from(n == 7), row_changes: 4, kind: None, committed: true },
        );
    }
    measurements.record_error(0, "deadlock", start);
    let mut age = Level::default();
    if with_age {
        age.add(1 << 20);
        age.add(3 << 20);
    }
    Driven { totals: measurements.totals(window), age, samples: Samples::new(), began: start }
}

fn request() -> ServerRequest {
    ServerRequest {
        target: "mysql://root@localhost/".into(),
        server: "MariaDB 10.11.19".into(),
        engine: "InnoDB".into(),
        schema: "sbtest".into(),
        workload: "read-write".into(),
        threads: 16,
        shape: Shape {
            tables: 10,
            rows: 100_000,
            tpcc: None,
            text: "10 tables x 100 000 rows, uniform keys".into(),
        },
        distribution: "uniform".into(),
        isolation: None,
        rate: None,
    }
}

fn around() -> Around {
    Around {
        load_seconds: 4.25,
        sync_trace: None,
        checked: Checked { check: "ok".into(), consistency: None },
    }
}

/// A server with a binary log that shows all figures.
fn sample() -> ServerResult {
    let figures = ServerFigures {
        redo_bytes: Some(80_000),
        pages: Pages {
            pages_read: Some(0),
            pages_written: PagesWritten {
                total: Some(64),
                by_force: BTreeMap::from([("adaptive".to_owned(), 60)]),
            },
            doublewrite_pages: Some(64),
        },
        machine: Machine { device_write_bytes: Some(3_000_000), processor_us: Some(3_100_000) },
        fsyncs: Fsyncs { total: Some(150), log: Some(48) },
        checkpoint_age_limit: Some(90 << 20),
        waits: Waits {
            throttled_us_total: None,
            hard_waits: Some(0),
            free_frame_waits: Some(2),
            lock_waits: Some(5),
            deadlocks: Some(1),
        },
        binlog: Binlog { commits: Some(100), group_commits: Some(40), bytes: Some(200_000) },
    };
    let result = ServerResult::of(request(), &driven(true), figures, around());
    ServerResult { version: "0.0.0", ..result }
}

#[test]
fn the_json_object() {
    expect_file!["run.json"].assert_eq(&sample().json());
}

#[test]
fn the_table() {
    expect![[r#"
        target          mysql://root@localhost/   MariaDB 10.11.19   engine InnoDB
        workload        read-write, 16 threads, 10 tables x 100 000 rows, uniform keys
        measured        2.50 s after a load of 4.2 s
        transactions    100   40 a second   1 retries   (deadlock 1)
        steadiness      worst second 50 of median 50 (100 %)   seconds without commits 0
        latency         p50 1.0 ms   p95 1.1 ms   p99 1.1 ms   p99.9 1.1 ms   max 1.1 ms
        row changes     400   160 a second
        redo            78.1 KiB   200 bytes a row change
        fsyncs          150   log 48   0.7 commits each
        binary log      195 KiB   40 groups   2.5 commits each
        pages written   64   doublewrite 64   (adaptive 60)
        device writes   2.9 MiB
        processors      1.24 busy with the server's process
        checkpoint age  max 3 MiB   mean 2 MiB   limit 90 MiB
        delays          hard waits 0   free-frame waits 2   lock waits 5   deadlocks 1
        check           ok
    "#]]
    .assert_eq(&sample().table());
}

#[test]
fn what_the_server_does_not_show_is_null_and_has_no_line() {
    let result = ServerResult::of(request(), &driven(false), ServerFigures::default(), around());
    let json = result.json();
    assert!(json.contains("\"redo_bytes\": null") && json.contains("\"limit\": null"), "{json}");
    let table = result.table();
    for label in ["redo", "fsyncs", "binary log", "pages written", "checkpoint age", "delays"] {
        assert!(!table.contains(&format!("\n{label}")), "{table}");
    }
}
