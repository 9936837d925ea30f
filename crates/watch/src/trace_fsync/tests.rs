//! Whole traces as text.

use super::histogram::{Bucket, Points};
use super::result::{Row, Second, Trace};
use super::*;
use expect_test::expect;
use metrics::recording::{Moment, Writer};
use metrics::{FileKind, M, Metrics, SyncReason};
use millpond::inspect::Recording;

/// What an article published of its run: 16 threads, each with 1,000 inserts into MySQL.
fn article() -> Trace {
    let file = |file: &str, reason: &str, syncs: u64| Row {
        file: format!("/var/lib/mysql/{file}"),
        reason: reason.to_owned(),
        call: "fsync",
        syncs,
        us_total: syncs * 700,
        us_max: 2300,
        ..Row::default()
    };
    let counts = [439, 8, 2, 242, 1495, 768, 376, 375, 379, 322, 256, 406, 690, 803, 582];
    let step = |(i, syncs): (u64, u64)| Bucket { from_us: 100 * i, to_us: Some(100 * i + 100), syncs };
    let mut latency: Vec<Bucket> = (0..).zip(counts).map(step).collect();
    latency.push(Bucket { from_us: 1500, to_us: None, syncs: 1402 });
    Trace {
        target: "process 4242 (mysqld)".into(),
        way: "tracepoints",
        how: "by the kernel's tracepoints of system calls".into(),
        seconds: 3.0,
        rows: vec![
            file("#innodb_redo/#ib_redo7", "redo log", 4887),
            file("binlog.000001", "binary log", 2962),
            file("#ib_16384_0.dblwr", "doublewrite", 103),
            Row { failed: 1, ..file("shop/products.ibd", "a table", 47) },
            Row { file: "(all file systems)".into(), call: "sync", syncs: 1, ..Row::default() },
        ],
        latency,
        points: Points { p50: 800, p95: 1900, p99: 2200, max: 2300 },
        over_time: (0..3).map(|_| Second { seconds: 1.0, syncs: 2666, commits: None }).collect(),
        counted: None,
        notes: vec!["an example".into()],
    }
}

#[test]
fn three_views_stand_beside_each_other() {
    expect![[r#"
        process 4242 (mysqld): 3.0 s by the kernel's tracepoints of system calls
        8 000 syncs, 2 667 a second; commits are not known from outside
        half of them took up to 800 µs, 95 % up to 1.9 ms, 99 % up to 2.2 ms, the longest 2.3 ms

        by file, in /var/lib/mysql                                               how long they took                     over time
          syncs     %     mean  longest  file                                                 µs   syncs                second syncs/s
           4887  61.1   700 µs   2.3 ms  #innodb_redo/#ib_redo7 (redo log)               0 - 100     439 ████                1    2666 ████████████
           2962  37.0   700 µs   2.3 ms  binlog.000001 (binary log)                    100 - 200       8 █                   2    2666 ████████████
            103   1.3   700 µs   2.3 ms  #ib_16384_0.dblwr (doublewrite)               200 - 300       2 █                   3    2666 ████████████
             47   0.6   700 µs   2.3 ms  shop/products.ibd, 1 failed (a table)         300 - 400     242 ██
              1   0.0   0.0 µs   0.0 µs  (all file systems), sync                      400 - 500    1495 ████████████
                                                                                       500 - 600     768 ███████
                                                                                       600 - 700     376 ████
                                                                                       700 - 800     375 ████
                                                                                       800 - 900     379 ████
                                                                                      900 - 1000     322 ███
                                                                                     1000 - 1100     256 ███
                                                                                     1100 - 1200     406 ████
                                                                                     1200 - 1300     690 ██████
                                                                                     1300 - 1400     803 ███████
                                                                                     1400 - 1500     582 █████
                                                                                   1500 and more    1402 ████████████

        note: an example
    "#]].assert_eq(&text(&article(), 150));
}

#[test]
fn three_views_stand_below_each_other_in_a_narrow_terminal() {
    let wide = text(&article(), 80);
    assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
    let at = |title: &str| wide.lines().position(|line| line.starts_with(title)).unwrap();
    assert!(at("by file") < at("how long") && wide.contains("over time"));
}

#[test]
fn long_lists_and_long_traces_are_cut_to_twenty_lines() {
    let mut trace = article();
    trace.rows = (0..30).map(|i| Row { file: format!("/d/{i}"), syncs: 30 - i, ..Row::default() }).collect();
    trace.over_time = (0..61).map(|_| Second { seconds: 1.0, syncs: 10, commits: Some(20) }).collect();
    let text = text(&trace, 60);
    assert!(text.contains("in 10 more files"), "{text}");
    assert!(text.contains("1 220 commits, 2.62 for each sync"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("        20   2.0 ")).count(), 16, "{text}");
}

#[test]
fn a_trace_without_a_sync_says_so() {
    let text = text(&Trace { target: "process 7 (sleep)".into(), seconds: 1.0, ..Trace::default() }, 80);
    assert!(text.contains("0 syncs, 0.0 a second"), "{text}");
}

#[test]
fn the_json_has_everything() {
    let json = json(&article());
    for field in [
        "target",
        "way",
        "seconds",
        "syncs",
        "syncs_per_second",
        "commits",
        "commits_per_sync",
        "by_file",
        "latency_us",
        "over_time",
        "notes",
    ] {
        assert!(json.get(field).is_some(), "{field}");
    }
    assert_eq!(json["syncs"], 8000);
    assert_eq!(json["by_file"][0]["reason"], "redo log");
    assert_eq!(json["latency_us"]["histogram"][15]["to"], serde_json::Value::Null);
}

/// A recording of four seconds, in each of which five transactions share two syncs.
fn recording() -> Recording {
    let (mut bytes, mut writer) = Writer::create(1, 2);
    let metrics = Metrics::new();
    for second in 0..5 {
        let when = Moment { clock_us: 1_000_000 * second, unix_seconds: 1_700_000_000 + second };
        let piece = writer.sample(when, &metrics.snapshot());
        bytes.resize(bytes.len().max(piece.offset as usize), 0);
        bytes.truncate(piece.offset as usize);
        bytes.extend(piece.bytes);
        metrics.add(M::Commits, 5);
        metrics.fsync(FileKind::Log, SyncReason::Commit, 700, 3);
        metrics.fsync(FileKind::Log, SyncReason::Commit, 1200, 2);
        if second == 1 {
            metrics.fsync(FileKind::Pages, SyncReason::PageBatch, 3000, 0);
        }
    }
    Recording::new(bytes).unwrap()
}

#[test]
fn a_recording_tells_reasons_and_commits() {
    let mut trace = own::trace(&recording(), Duration::from_secs(60)).unwrap();
    trace.target = "db".into();
    expect![[r#"
        db: 4.0 s by the database's own flight recorder, 2023-11-14T22:13:20Z to 2023-11-14T22:13:24Z
        9 syncs, 2.2 a second; 20 commits, 2.22 for each sync
        half of them took up to 1.3 ms, 95 % up to 3.0 ms, 99 % up to 3.0 ms, the longest 3.0 ms

        by file                                                        how long they took                     over time
          syncs     %     mean  longest  waiters  file                              µs   syncs                second syncs/s commits/s  each
              8  88.9   950 µs   1.2 ms       20  log (commit)               512 - 768       4 ████████████        1       2         5   2.5 ████████
              1  11.1   3.0 ms   3.0 ms        0  pages (page_batch)        768 - 1024       0                     2       3         5   1.7 ████████████
                                                                           1024 - 1536       4 ████████████        3       2         5   2.5 ████████
                                                                           1536 - 2048       0                     4       2         5   2.5 ████████
                                                                           2048 - 3072       1 ███

        note: times of the recorder are at most a quarter too high
    "#]].assert_eq(&text(&trace, 150));
}

#[test]
fn only_the_end_of_a_recording_is_traced() {
    let trace = own::trace(&recording(), Duration::from_secs(2)).unwrap();
    assert_eq!((trace.over_time.len(), trace.syncs(), trace.commits()), (2, 4, Some(10)));
    let (bytes, _) = Writer::create(1, 2);
    assert!(own::trace(&Recording::new(bytes).unwrap(), Duration::from_secs(2)).is_err());
}

/// The help named data directories and names were tried, but both were "no database".
#[test]
fn a_data_directory_or_a_name_means_its_only_process() {
    let [one, other] = [Process(11), Process(12)];
    assert_eq!(named("mariadbd", &[one]).unwrap(), Target::Process(11));
    let mut out = String::new();
    for found in [&[][..], &[one, other]] {
        out += &format!("{}\n", named("mariadbd", found).unwrap_err());
    }
    let scratch = crate::scratch::Scratch::new("trace-datadir");
    std::fs::create_dir(scratch.0.join("mysql")).unwrap();
    std::fs::write(scratch.0.join("ibdata1"), "").unwrap();
    let failure = target(scratch.0.to_str().unwrap()).unwrap_err().to_string();
    out += &failure.replace(&scratch.0.display().to_string(), "DIR");
    expect![[r#"
        there is no directory and no process mariadbd
        several processes are mariadbd: 11, 12; give the number of one
        DIR is the data directory of a server without a database of Millpond, and no process that is visible here works in it; start the server, or run this as root"#]].assert_eq(&out);
    let me = Process(std::process::id()).name();
    let found = target(&me);
    // Other tests may run under this name too.
    assert!(found.is_ok() || found.unwrap_err().to_string().contains("several processes"), "{me}");
}

#[test]
fn targets_are_processes_directories_and_servers() {
    assert_eq!(target("4242").unwrap(), Target::Process(4242));
    assert_eq!(target("mysql://root@localhost/").unwrap(), Target::Server);
    for (text, word) in
        [("99999999999", "99999999999"), ("nowhere", "nowhere"), ("", "directory"), ("/proc", "/proc")]
    {
        let failure = target(text).unwrap_err();
        assert!(matches!(&failure, Failure::Misuse(_)) && failure.to_string().contains(word), "{failure}");
    }
}
