//! A target as a script, and what is said of it.
//!
//! A script has a line for each thing: `version`, `set NAME VALUE`, `level NAME V1 V2 …` (the
//! values in turns), `grows NAME N` (so much each second), `off NAME METRIC`,
//! `unknown NAME REASON`, `place FILE_SYSTEM solid|rotating`, `seconds N`. Sizes are numbers with
//! K, M, G.

use crate::advise::advice::Advice;
use crate::advise::facts::Place;
use crate::advise::seen::Seen;
use crate::advise::{gather, rules, say};
use expect_test::Expect;
use output::samples::ColumnKind::{Counter, Gauge};
use output::samples::{Samples, Values};
use std::collections::BTreeMap;

fn number(text: &str) -> f64 {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1024.0),
        Some(b'M') => (&text[..text.len() - 1], 1024.0 * 1024.0),
        Some(b'G') => (&text[..text.len() - 1], 1024.0 * 1024.0 * 1024.0),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().unwrap() * factor
}

pub(super) fn seen(script: &str) -> Seen {
    let mut seen = Seen {
        target: "mysql://db/".to_owned(),
        version: String::new(),
        samples: Samples::new(),
        settings: BTreeMap::new(),
        absent: BTreeMap::new(),
        place: None,
    };
    let (mut levels, mut growths, mut seconds) = (Vec::new(), Vec::new(), 30);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap();
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "version" => seen.version = rest.to_owned(),
            "set" => drop(seen.settings.insert(name.to_owned(), value.to_owned())),
            "level" => levels.push((name, value.split(' ').map(number).collect::<Vec<f64>>())),
            "grows" => growths.push((name, number(value))),
            "off" => {
                let why = format!("switched off; SET GLOBAL innodb_monitor_enable = '{value}' does it");
                seen.absent.insert(name.to_owned(), why);
            }
            "unknown" => drop(seen.absent.insert(name.to_owned(), value.to_owned())),
            "seconds" => seconds = rest.parse().unwrap(),
            "place" => {
                let kinds = ["ext4", "zfs", "xfs", "tmpfs"];
                let file_system = kinds.into_iter().find(|kind| *kind == name);
                seen.place = Some(Place { file_system, rotates: Some(value == "rotating") });
            }
            other => panic!("{other}"),
        }
    }
    for second in 0..=seconds {
        let mut values: Values = Vec::new();
        for (name, all) in &levels {
            values.push(((*name).to_owned(), "", Gauge, all[second % all.len()]));
        }
        for (name, growth) in &growths {
            values.push(((*name).to_owned(), "", Counter, 1e9 + growth * second as f64));
        }
        seen.samples.push(second as f64, values);
    }
    seen
}

pub(super) fn advice(script: &str) -> Vec<Advice> {
    rules::decide(&gather::facts(&seen(script)))
}

pub(super) fn check(script: &str, expected: &Expect) {
    expected.assert_eq(&say(&seen(script)).text);
}

/// Returns the names of the rules that say something.
pub(super) fn rules_of(script: &str) -> Vec<&'static str> {
    advice(script).iter().map(|advice| advice.rule).collect()
}

pub(super) fn of(script: &str, rule: &str) -> Option<Advice> {
    advice(script).into_iter().find(|advice| advice.rule == rule)
}

/// A MariaDB whose log is too short.
pub(super) const SHORT_LOG: &str = "
    version MariaDB 10.11.19
    set innodb_io_capacity 200
    set innodb_io_capacity_max 2000
    set innodb_max_dirty_pages_pct 90.000000
    set innodb_flushing_avg_loops 30
    level checkpoint_age_bytes 6M 6.4M 5M
    level checkpoint_age_soft 5.6M
    level checkpoint_age_limit 6.4M
    level redo_capacity_bytes 8M
    level dirty_percent 20
    level dirty_pages 2000
    grows redo_bytes_written 3M
    grows log_bytes_written 4M
    grows pages_written 1500
    off hard_waits buffer_flush_sync_waits
    off pages_written_by_force.sync buffer_flush_sync_total_pages
    off rollbacks trx_rollbacks
";

/// A MariaDB with nothing to change.
pub(super) const CALM: &str = "
    version MariaDB 10.11.19
    set innodb_io_capacity 200
    set innodb_io_capacity_max 2000
    set innodb_max_dirty_pages_pct 90.000000
    set innodb_adaptive_flushing ON
    set innodb_lru_scan_depth 1536
    set innodb_log_buffer_size 16777216
    set sync_binlog 1
    set log_bin ON
    level checkpoint_age_bytes 1M 2M
    level checkpoint_age_soft 67M
    level checkpoint_age_limit 77M
    level redo_capacity_bytes 96M
    level dirty_percent 2
    level dirty_pages 200
    level threads_running 3
    level pending_fsyncs 0
    grows redo_bytes_written 100K
    grows log_bytes_written 120K
    grows pages_written 50
    grows fsyncs 80
    grows free_frame_waits 0
    grows log_buffer_waits 0
    grows binlog_commits 49
    grows binlog_group_commits 10
    grows doublewrite_pages 50
    off hard_waits buffer_flush_sync_waits
";

/// Adds lines to a script; a later line of a setting counts, a figure must not be twice.
pub(super) fn with(script: &str, lines: &str) -> String {
    let replaced = |line: &str| {
        let key = |line: &str| {
            let mut words = line.split_whitespace();
            let (word, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if ["version", "seconds", "place"].contains(&word) { word.to_owned() } else { name.to_owned() }
        };
        lines.lines().any(|new| !new.trim().is_empty() && key(new) == key(line))
    };
    let kept: Vec<&str> = script.lines().filter(|line| !replaced(line)).collect();
    format!("{}\n{lines}", kept.join("\n"))
}
