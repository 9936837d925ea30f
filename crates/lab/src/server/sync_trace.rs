//! Which files a server syncs during the measured phase, and how long each sync takes:
//! `millpond trace-fsync` beside the load.

use crate::own_command::{command, number, read};
use client::{Access, LoginFlags};
use output::failure::{Failure, Outcome};
use output::units::{show_count, show_micros};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// How long a trace may last, seconds; it ends with the measured phase.
const MOST: &str = "86400";

/// The width of a row of the histogram, microseconds: that of the napkin article, in each run.
const ROW: &str = "100";

/// So many reasons are shown.
const REASONS: usize = 4;

/// What is traced, and by which command.
#[derive(Debug)]
pub(crate) struct SyncTrace {
    args: Vec<String>,
    text: PathBuf,
    json: PathBuf,
    child: Option<Child>,
    found: Option<Outcome<Value>>,
}

impl SyncTrace {
    /// Makes a trace that has not begun.
    pub(crate) fn new(access: &Access, login: &LoginFlags) -> SyncTrace {
        let file =
            |end: &str| std::env::temp_dir().join(format!("millpond-syncs-{}.{end}", std::process::id()));
        let (text, json) = (file("txt"), file("json"));
        let json_name = json.display().to_string();
        let args = ["trace-fsync", access.name(), "--seconds", MOST, "--step", ROW, "--json", &json_name];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.extend(login.args());
        SyncTrace { args, text, json, child: None, found: None }
    }

    /// Begins; a trace that has begun before is forgotten.
    pub(super) fn begin(&mut self) {
        self.kill();
        let started = command(&self.text, &self.args).and_then(|mut command| {
            let spawned = command.stderr(Stdio::null()).spawn();
            spawned.map_err(|e| Failure::failed(format!("cannot trace the syncs: {e}")))
        });
        match started {
            Ok(child) => (self.child, self.found) = (Some(child), None),
            Err(failure) => self.found = Some(Err(failure)),
        }
    }

    /// Ends, and reads what was found.
    pub(super) fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(process) = Pid::from_raw(child.id() as i32) {
            // As Ctrl-C: it shows what it has.
            let _ = kill_process(process, Signal::INT);
        }
        let ended = child.wait().is_ok_and(|status| status.success());
        self.found = Some(if ended { read(&self.json) } else { Err(refused()) });
    }

    /// Returns what was found.
    pub(crate) fn found(&mut self) -> Outcome<Value> {
        self.found.take().unwrap_or_else(|| Err(refused()))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for SyncTrace {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.text);
        let _ = fs::remove_file(&self.json);
    }
}

fn refused() -> Failure {
    Failure::failed(
        "the syncs could not be traced: `millpond trace-fsync` with the same target says why; it needs root",
    )
}

/// Returns a trace in a line: syncs by what their files are for, and how long they took.
pub(super) fn line(trace: &Value) -> String {
    let figure = |key: &str| number(trace, key);
    let mut by_reason: BTreeMap<&str, f64> = BTreeMap::new();
    for file in trace.get("by_file").and_then(Value::as_array).into_iter().flatten() {
        let reason = file.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
        *by_reason.entry(reason.unwrap_or("other")).or_default() += number(file, "/syncs").unwrap_or(0.0);
    }
    let mut reasons: Vec<(&str, f64)> = by_reason.into_iter().collect();
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut parts = vec![format!(
        "{} in {:.1} s",
        show_count(figure("/syncs").unwrap_or(0.0)),
        figure("/seconds").unwrap_or(0.0)
    )];
    parts.extend(reasons.iter().take(REASONS).map(|(reason, n)| format!("{reason} {}", show_count(*n))));
    let times = [("p50", "/latency_us/p50"), ("p99", "/latency_us/p99"), ("max", "/latency_us/max")];
    let times = times.iter().filter_map(|(name, key)| Some(format!("{name} {}", show_micros(figure(key)?))));
    parts.extend(times);
    parts.join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trace_in_a_line() {
        let file = |reason: &str, syncs: u32| json!({"reason": reason, "syncs": syncs});
        let trace = json!({
            "seconds": 2.5, "syncs": 12,
            "by_file": [file("a table", 2), file("a table", 3), file("redo log", 6), file("", 1)],
            "latency_us": {"p50": 400, "p99": 1500, "max": 3000},
        });
        assert_eq!(
            line(&trace),
            "12 in 2.5 s   redo log 6   a table 5   other 1   p50 400 µs   p99 1.5 ms   max 3.0 ms"
        );
        assert_eq!(line(&json!({})), "0 in 0.0 s");
    }
}
