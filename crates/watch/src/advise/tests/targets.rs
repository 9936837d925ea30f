//! Directories as targets.

use super::script::{SHORT_LOG, seen};
use crate::advise::run;
use crate::advise::seen::Seen;
use crate::collect::{self, Extractor, Job};
use crate::scratch::Scratch;
use crate::sources::{About, Sample, Source};
use client::{LoginFlags, Trouble};
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

#[test]
fn a_collection_is_a_target() {
    let scratch = Scratch::new("advise-collection");
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
    let said = run(out.to_str().unwrap(), &LoginFlags::default(), None).unwrap();
    assert!(said.urgent, "{}", said.text);
    let list: Vec<serde_json::Value> = serde_json::from_str(&said.json).unwrap();
    let rules: Vec<&str> = list.iter().filter_map(|advice| advice["rule"].as_str()).collect();
    assert_eq!(rules, ["log size", "io capacity", "measure", "dirty pages"]);
    let action = list[0]["do"].as_str().unwrap();
    assert!(action.starts_with("SET GLOBAL innodb_log_file_size = "), "{action}");
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
    let said = run(dir.to_str().unwrap(), &LoginFlags::default(), None).unwrap();
    assert!(said.text.contains("Millpond"), "{}", said.text);
    let why = run(scratch.0.to_str().unwrap(), &LoginFlags::default(), None).unwrap_err();
    assert!(why.to_string().contains("is not a Millpond database"), "{why}");
}
