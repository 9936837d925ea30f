//! Directories as targets.

use super::script::{SHORT_LOG, seen};
use crate::advise::seen::Seen;
use crate::advise::{Time, run};
use crate::collect::{self, Extractor, Job};
use crate::plot::Window;
use crate::record::MARK;
use crate::scratch::Scratch;
use crate::sources::{About, Sample, Source};
use client::{LoginFlags, Trouble};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Gives the samples of a script, as a server would.
struct Scripted {
    about: About,
    seen: Seen,
    at: usize,
}

impl Source for Scripted {
    fn about(&self) -> &About {
        &self.about
    }

    fn sample(&mut self) -> Result<Sample, Trouble> {
        let at = self.at.min(self.seen.samples.seconds.len() - 1);
        self.at += 1;
        let value = |(name, column): (&String, &output::samples::Column)| {
            Some((name.clone(), "", column.kind, column.values[at]?))
        };
        let values = self.seen.samples.columns.iter().filter_map(value).collect();
        Ok(Sample::new(crate::sources::now_us(), values))
    }
}

/// Collects three samples of a server whose log is too short.
fn collected(scratch: &Scratch) -> PathBuf {
    let seen = seen(SHORT_LOG);
    let about = About {
        target: seen.target.clone(),
        version: seen.version.clone(),
        configuration: seen.settings.clone().into_iter().collect(),
        origins: vec![(
            "hard_waits",
            Err("switched off; SET GLOBAL innodb_monitor_enable = 'buffer_flush_sync_waits' does".to_owned()),
        )],
        refusals: Vec::new(),
    };
    let out = scratch.0.join("run");
    let extractor = Extractor::new(&[], &[]).unwrap();
    let job = Job { out: out.clone(), extractor, limit: Some(3) };
    collect::run(&mut Scripted { about, seen, at: 0 }, &job).unwrap();
    out
}

#[test]
fn a_collection_is_a_target() {
    let scratch = Scratch::new("advise-collection");
    let out = collected(&scratch);
    let said = run(out.to_str().unwrap(), &LoginFlags::default(), Time::default()).unwrap();
    assert!(said.urgent, "{}", said.text);
    let list: Vec<serde_json::Value> = serde_json::from_str(&said.json).unwrap();
    let rules: Vec<&str> = list.iter().filter_map(|advice| advice["rule"].as_str()).collect();
    assert_eq!(rules, ["log size", "io capacity", "measure", "dirty pages"]);
    let action = list[0]["do"].as_str().unwrap();
    assert!(action.starts_with("SET GLOBAL innodb_log_file_size = "), "{action}");
}

/// A recording was refused: it was said to be no database.
#[test]
fn a_recording_is_a_target_and_so_is_a_part_of_it() {
    let scratch = Scratch::new("advise-recording");
    let out = collected(&scratch);
    let now_s = crate::sources::now_us() / 1_000_000;
    fs::rename(out.join("stats.jsonl"), out.join(format!("{:010}.jsonl", now_s - 60))).unwrap();
    fs::write(out.join(MARK), "millpond recording 1\nmysql://db/\n").unwrap();
    let target = out.to_str().unwrap();
    let advised = |time: Time| run(target, &LoginFlags::default(), time);
    let past = |from: Option<u64>, until: Option<u64>| Window {
        from_us: from.map(|s| s * 1_000_000),
        until_us: until.map(|s| s * 1_000_000),
    };
    for time in [
        Time::default(),
        Time { watch: Some(Duration::from_secs(600)), ..Time::default() },
        Time { past: past(Some(now_s - 120), None), ..Time::default() },
        Time { watch: Some(Duration::from_secs(600)), past: past(None, Some(now_s + 60)) },
    ] {
        let said = advised(time).unwrap();
        assert!(said.urgent && said.text.contains("3 samples in"), "{}", said.text);
    }
    let before = Time { past: past(None, Some(1_000_000_000)), ..Time::default() };
    assert!(advised(before).unwrap_err().to_string().contains("has no samples of that time"));
    let server = Time { past: past(Some(now_s), None), ..Time::default() };
    let why = run("mysql://root@localhost/", &LoginFlags::default(), server).unwrap_err();
    assert!(why.to_string().starts_with("a server says nothing of the past"), "{why}");
}

#[test]
fn a_database_directory_is_a_target_and_what_is_none_is_named() {
    let scratch = Scratch::new("advise-database");
    let dir = scratch.0.join("db");
    let options = millpond::Options::new().buffer_pool_bytes(16 << 20);
    let db = options.recorder_interval(Duration::from_millis(10)).open(&dir).unwrap();
    let table = db.create_table("t").unwrap();
    let mut recorded = 0;
    while recorded < 3 {
        let mut transaction = db.begin().unwrap();
        transaction.put(&table, b"key", b"value").unwrap();
        transaction.commit().unwrap();
        recorded = millpond::inspect::recording(&dir).map_or(0, |recording| recording.samples().count());
    }
    db.close().unwrap();
    let said = run(dir.to_str().unwrap(), &LoginFlags::default(), Time::default()).unwrap();
    assert!(said.text.contains("Millpond"), "{}", said.text);
    let why = run(scratch.0.to_str().unwrap(), &LoginFlags::default(), Time::default()).unwrap_err();
    assert!(why.to_string().contains("is not a Millpond database"), "{why}");
}
