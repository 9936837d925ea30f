//! Runs another command of this program and reads its JSON: an experiment of several runs is made
//! of commands that a user can repeat one by one.

use output::failure::{Failure, Outcome};
use output::stop;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// This program, also if its file was replaced since: all runs of an experiment are of one version.
const OWN: &str = "/proc/self/exe";

/// Returns a command of this program that writes its text to a file.
pub(crate) fn command(text: &Path, args: &[impl AsRef<OsStr>]) -> Outcome<Command> {
    let file = fs::File::create(text)
        .map_err(|e| Failure::failed(format!("cannot write {}: {e}", text.display())))?;
    let mut command = Command::new(OWN);
    command.args(args).stdin(Stdio::null()).stdout(file);
    Ok(command)
}

/// Runs a command of this program with `--json`, and returns what it wrote. Its text goes to a file
/// too; its progress is shown.
pub(crate) fn run(text: &Path, json: &Path, args: &[impl AsRef<OsStr>]) -> Outcome<Value> {
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    run_with_json(text, json, &[&args[..], &["--json".as_ref(), json.as_os_str()]].concat())
}

/// The same of a command whose arguments say already where its JSON goes.
pub(crate) fn run_with_json(text: &Path, json: &Path, args: &[impl AsRef<OsStr>]) -> Outcome<Value> {
    stop::check()?;
    let status = command(text, args)?.status().map_err(cannot_start)?;
    stop::check()?;
    if !status.success() {
        let args = args.iter().map(|arg| arg.as_ref().to_string_lossy());
        let args = args.collect::<Vec<_>>().join(" ");
        return Err(Failure::failed(format!("millpond {args} failed ({status})")));
    }
    read(json)
}

/// Reads what a command wrote.
pub(crate) fn read(json: &Path) -> Outcome<Value> {
    let bad = |why: String| Failure::failed(format!("{} cannot be read: {why}", json.display()));
    let written = fs::read_to_string(json).map_err(|e| bad(e.to_string()))?;
    serde_json::from_str(&written).map_err(|e| bad(e.to_string()))
}

/// Says that this program cannot be started again.
pub(crate) fn cannot_start(e: std::io::Error) -> Failure {
    Failure::failed(format!("cannot start this program again: {e}"))
}

/// Returns a number of a result, as `/latency_us/p99`.
pub(crate) fn number(result: &Value, key: &str) -> Option<f64> {
    result.pointer(key).and_then(Value::as_f64)
}

/// Returns the commits of each second.
pub(crate) fn per_second(result: &Value) -> Vec<u64> {
    let seconds = result.get("tps_per_second").and_then(Value::as_array);
    seconds.into_iter().flatten().filter_map(Value::as_u64).collect()
}
