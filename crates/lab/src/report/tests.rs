//! The page and its plots from artificial runs: their contents and their markup.

use super::markup::assert_whole;
use super::*;
use crate::driver::Measured;
use crate::figures::{Figures, Level, Reading};
use crate::measurements::{DoneTxn, Measurements, Window};
use crate::ramp::{Climb, Step};
use crate::result::{Checked, Request, RunContext, RunResult};
use crate::scratch::Scratch;
use crate::turn::{Counted, Turn};
use crate::workload::Shape;
use metrics::{FileKind, Force, M, Metrics, SyncReason};
use output::report::PAGE;
use output::report::page::Origin;
use output::samples::{self, ColumnKind, Samples};
use std::time::{Duration, Instant};

/// Makes an artificial run: `seconds` seconds at about `tps`, with one bad second and a growing
/// checkpoint age.
fn measured(seconds: u64, tps: u64) -> Measured {
    let engine = Metrics::new();
    let measurements = Measurements::new(1);
    let start = Instant::now();
    let window = Window { start, end: Some(start + Duration::from_secs(seconds)) };
    measurements.open_window(window);
    let mut samples = Samples::new();
    let mut age = Level::default();
    let before = Reading::of(engine.snapshot());
    for second in 0..=seconds {
        let commits = if second == seconds / 3 { tps / 4 } else { tps + second * 7 % 13 };
        if second > 0 {
            for n in 0..commits {
                let ended = start + Duration::from_micros((second - 1) * 1_000_000 + n * 1_000_000 / commits);
                let began = ended.checked_sub(Duration::from_micros(800 + (n * n) % 5000)).unwrap_or(ended);
                measurements.record(
                    0,
                    DoneTxn { began, ended, retries: 0, row_changes: 40, kind: None, committed: true },
                );
            }
            engine.add(M::RedoBytesWritten, commits * 9000);
            engine.add(M::RedoPadBytes, commits * 400);
            engine.page_writes(Force::CheckpointAge, 300 + second % 50, 90, false);
            engine.page_writes(Force::Idle, second % 20, 4, false);
            (0..commits / 4).for_each(|_| engine.fsync(FileKind::Log, SyncReason::Commit, 130, 4));
            (0..5).for_each(|_| engine.fsync(FileKind::Pages, SyncReason::PageBatch, 900, 0));
            engine.add(M::ThrottledUsTotal, if second > seconds / 2 { 40_000 } else { 0 });
        }
        engine.set(M::CheckpointAgeBytes, (20 + second % 40) << 20);
        engine.set(M::CheckpointAgeTarget, 54 << 20);
        engine.set(M::CheckpointAgeSoft, 67 << 20);
        engine.set(M::CheckpointAgeLimit, 90 << 20);
        engine.set(M::RedoCapacityBytes, 96 << 20);
        engine.set(M::BufferFrames, 16_384);
        engine.set(M::DirtyPages, 3_000 + second * 10);
        engine.set(M::FreeFrames, 2_000);
        age.add((20 + second % 40) << 20);
        let mut values = samples::of_engine(&engine.snapshot());
        let so_far = measurements.totals(window).transactions;
        values.push(("run_transactions".into(), "count", ColumnKind::Counter, so_far as f64));
        values.push((
            "device_write_bytes".into(),
            "bytes",
            ColumnKind::Counter,
            (second * 30_000_000) as f64,
        ));
        if second > 0 {
            for (name, percentile) in samples::LATENCIES {
                values.push(((*name).to_owned(), "µs", ColumnKind::Gauge, 1000.0 + percentile * percentile));
            }
        }
        samples.push(second as f64, values);
    }
    let figures = Figures::between(&before, &Reading::of(engine.snapshot()));
    Measured { totals: measurements.totals(window), figures, age, samples, began: start }
}

fn files_of(measured: &Measured, workload: &str, durable_device: bool) -> Vec<(String, String)> {
    let request = Request {
        workload: workload.into(),
        threads: 16,
        shape: Shape {
            tables: 4,
            rows: 20_000,
            tpcc: None,
            text: "4 tables x 20 000 rows, uniform keys".into(),
        },
        distribution: "uniform".into(),
        durability: "sync".into(),
        ephemeral: false,
        isolation: "repeatable-read".into(),
        page_bytes: 8192,
        pool_bytes: 128 << 20,
        law: "millpond".into(),
        rate: None,
    };
    let around = RunContext {
        load_seconds: 1.0,
        durable_device,
        checked: Checked { check: "ok".into(), consistency: None },
    };
    let result = RunResult::new(request, measured, around);
    RunReport {
        measured,
        result: &result,
        origin: Origin {
            command: "millpond run --report out".into(),
            parameters: vec![("seed", "1".into())],
            machine: vec![("cores", "4".into())],
        },
    }
    .files()
}

fn get<'a>(files: &'a [(String, String)], name: &str) -> &'a str {
    &files.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no {name}")).1
}

/// Checks that a file of this name belongs to reports: a foreign one is in the way.
fn assert_claimed(name: &str) {
    let scratch = Scratch::new("claimed");
    std::fs::write(scratch.0.join(name), "foreign").unwrap();
    assert!(output::report::claim(&scratch.0, None).is_err(), "{name}");
}

#[test]
fn a_report_is_well_formed_for_every_length_of_run() {
    for (seconds, tps) in [(0, 0), (1, 50), (2, 3), (30, 100), (2_000, 2)] {
        let measured = measured(seconds, tps);
        let files = files_of(&measured, "write-heavy", true);
        for (name, text) in files.iter().filter(|(name, _)| !name.starts_with("samples")) {
            assert_whole(&format!("{name} of {seconds} s"), text);
        }
        files.iter().for_each(|(name, _)| assert_claimed(name));
        let back: Samples = serde_json::from_str(get(&files, "samples.json")).unwrap();
        assert_eq!(back, measured.samples);
        assert_eq!(get(&files, "samples.csv").lines().count() as u64, seconds + 2);
        let page = get(&files, PAGE);
        assert!(page.len() < 1_500_000, "{seconds} s make a page of {} bytes", page.len());
    }
}

#[test]
fn a_page_fetches_nothing() {
    let files = files_of(&measured(20, 40), "write-heavy", true);
    for (name, text) in files.iter().filter(|(name, _)| !name.starts_with("samples")) {
        let own = text.replace("http://www.w3.org/2000/svg", "");
        for fetched in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!own.contains(fetched), "{name} fetches something: {fetched}");
        }
    }
    let page = get(&files, PAGE);
    for part in [
        "<title>",
        "prefers-color-scheme",
        "@media print",
        "role=\"img\"",
        "<desc",
        "<th scope=\"row\"",
        "lang=\"en\"",
    ] {
        assert!(page.contains(part), "the page has no {part}");
    }
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
}

#[test]
fn the_page_shows_the_numbers() {
    let files = files_of(&measured(30, 40), "write-heavy", true);
    let page = get(&files, PAGE);
    for text in [
        "worst second 10",
        "at most 50 MiB",
        "page batch",
        "checkpoint age",
        "millpond run --report out",
        "p99.9",
    ] {
        assert!(page.contains(text), "the page does not say {text:?}");
    }
    assert!(!page.contains("memory file system"));
    assert!(get(&files_of(&measured(3, 4), "x", false), PAGE).contains("memory file system"));
}

#[test]
fn text_from_outside_is_escaped() {
    let evil = "</script><script>alert('1')</script>\u{0}\"&";
    let page = files_of(&measured(2, 3), evil, true);
    let page = get(&page, PAGE);
    assert!(!page.contains("<script>alert") && !page.contains('\u{0}'));
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"));
}

#[test]
fn a_crash_report_shows_the_run_and_the_recovery() {
    let mut samples = Samples::new();
    for second in 0..4u32 {
        let at = f64::from(second);
        let mut values = vec![("acknowledged".to_owned(), "count", ColumnKind::Counter, 900.0 * at)];
        if second > 0 {
            values.push(("checkpoint_age_bytes".to_owned(), "bytes", ColumnKind::Gauge, 5e6 * at));
        }
        samples.push(at, values);
    }
    let report = |lost, samples| CrashReport {
        samples,
        redo_bytes: 15_000_000,
        opened_ms: 1370.0,
        first_transaction_ms: 1371.5,
        full_recovery_ms: 1371.6,
        acknowledged: 2700,
        lost,
        extra: 0,
        durable_device: true,
        check: "ok",
        lines: vec![("check", "ok".into())],
        origin: Origin {
            command: "millpond crash".into(),
            parameters: vec![("seed", "1".into())],
            machine: Vec::new(),
        },
    };
    // The second one is of a process that died at once.
    let none = Samples::new();
    for samples in [&samples, &none] {
        let files = report(0, samples).files();
        for (name, text) in files.iter().filter(|(name, _)| !name.starts_with("samples")) {
            assert_whole(name, text);
            assert_claimed(name);
        }
        let page = get(&files, PAGE);
        assert!(page.contains("to the first durable commit 1.5 ms") && !page.contains("class=\"warn\""));
        // The labels of the last phases would cross the right edge.
        assert_eq!(get(&files, "recovery.svg").matches("class=\"label end\"").count(), 2);
    }
    assert!(get(&report(3, &samples).files(), PAGE).contains("3 acknowledged transactions were lost"));
}

#[test]
fn a_ramp_shows_its_steps_from_left_to_right() {
    let mut climb = Climb::default();
    for (threads, start) in [(1, 0.0), (2, 30.0)] {
        let Measured { totals, age, samples, .. } = measured(20, 40 * u64::from(threads));
        climb.steps.push(Step::new(threads, Turn::new(&totals, &age, Counted::default())));
        climb.starts.push(start);
        climb.samples.append(&samples, start);
    }
    let origin = Origin { command: String::new(), parameters: Vec::new(), machine: Vec::new() };
    let (lead, knee) = ("write-heavy.".to_owned(), "2 threads reach 80 a second".to_owned());
    let files = RampReport { climb: &climb, lead, knee, fault: None, origin }.files();
    for (name, text) in files.iter().filter(|(name, _)| !name.starts_with("samples")) {
        assert_whole(name, text);
        assert_claimed(name);
    }
    let samples: Samples = serde_json::from_str(get(&files, "samples.json")).unwrap();
    assert_eq!((samples.seconds.len(), samples.end()), (42, 50.0));
    let page = get(&files, PAGE);
    assert!(page.contains("2 threads reach 80 a second") && page.contains("commits/fsync"));
    let throughput = get(&files, "throughput.svg");
    assert!(throughput.contains(">1<") && throughput.contains(">2<"), "the steps have labels");
}

#[cfg(feature = "watch")]
#[test]
fn a_comparison_shows_the_rounds_of_all_over_each_other() {
    use crate::rounds::{Comparison, Known, Who};
    let known = |engine: &str, tps: u64| {
        let who = Who { target: "t".to_owned(), server: "s".to_owned(), engine: engine.to_owned() };
        let turn = |tps| {
            let Measured { totals, age, .. } = measured(10, tps);
            Turn::new(&totals, &age, Counted { fsyncs: None, checkpoint_age_limit: Some(90 << 20) })
        };
        Known { who, load_seconds: 0.0, check: "ok".to_owned(), turns: vec![turn(tps), turn(2 * tps)] }
    };
    let comparison = Comparison::new((), vec![known("InnoDB", 20), known("Millpond", 40)]);
    let origin = Origin { command: String::new(), parameters: Vec::new(), machine: Vec::new() };
    let files = ComparisonReport { comparison: &comparison, lead: "napkin.".to_owned(), origin }.files();
    for (name, text) in &files {
        assert_whole(name, text);
        assert_claimed(name);
    }
    let page = get(&files, PAGE);
    // The second rounds begin a second after the first ones have ended, at the same time.
    assert_eq!(page.matches("\"t\":[0.0,1.0,2.0").count(), 2, "{page}");
    assert_eq!(page.matches("10.0,11.0,12.0").count(), 2);
    assert!(page.contains("1.83 (1.78 to 1.88)") && page.contains("<td>33 %</td>"), "{page}");
}

#[test]
fn the_plot_of_the_laws_belongs_to_reports() {
    assert_claimed("laws.svg");
}
