//! Where an experiment works, and how it runs the program's other commands.

use super::private_server::{PrivateServer, Programs};
use output::failure::{Failure, Outcome};
use output::stop;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where an experiment works.
pub(crate) struct Room<'a> {
    /// Servers and databases: on a disk, removed at the end.
    pub(crate) scratch: &'a Path,
    /// Results of all commands: they stay.
    pub(crate) out: &'a Path,
    /// A few minutes instead of an hour.
    pub(crate) quick: bool,
    /// The server's programs.
    pub(crate) programs: &'a Programs,
}

impl Room<'_> {
    /// Returns the first of two values if it should be quick.
    pub(super) fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Starts a new server with these settings.
    pub(super) fn server(&self, name: &str, settings: &[String]) -> Outcome<PrivateServer> {
        PrivateServer::start(self.programs, &self.scratch.join(name), settings)
    }

    /// Runs a command of this program with `--json`, and returns what it wrote. The JSON, the text
    /// and the report, if the command can make one, stay in the directory of results.
    pub(super) fn millpond(&self, name: &str, args: &[impl AsRef<OsStr>]) -> Outcome<Value> {
        stop::check()?;
        let json = self.out.join(format!("{name}.json"));
        let mut command = self.command(name, args)?;
        let status = command.arg("--json").arg(&json).status().map_err(cannot_start)?;
        stop::check()?;
        if !status.success() {
            let args = args.iter().map(|arg| arg.as_ref().to_string_lossy());
            let args = args.collect::<Vec<_>>().join(" ");
            return Err(Failure::failed(format!("millpond {args} failed ({status})")));
        }
        let bad = |why: String| Failure::failed(format!("{} cannot be read: {why}", json.display()));
        let written = fs::read_to_string(&json).map_err(|e| bad(e.to_string()))?;
        serde_json::from_str(&written).map_err(|e| bad(e.to_string()))
    }

    /// Starts a command of this program, which goes on beside the experiment.
    pub(super) fn in_background(&self, name: &str, args: &[&str]) -> Outcome<Child> {
        let mut command = self.command(name, args)?;
        command.stderr(Stdio::null()).spawn().map_err(cannot_start)
    }

    /// Returns a command of this program that writes its text to the directory of results.
    fn command(&self, name: &str, args: &[impl AsRef<OsStr>]) -> Outcome<Command> {
        let text = self.out.join(format!("{name}.txt"));
        let file = fs::File::create(&text)
            .map_err(|e| Failure::failed(format!("cannot write {}: {e}", text.display())))?;
        let own = std::env::current_exe()
            .map_err(|e| Failure::failed(format!("cannot find this program's own file: {e}")))?;
        let mut command = Command::new(own);
        command.args(args).stdin(Stdio::null()).stdout(file);
        Ok(command)
    }

    /// Removes a database that is not needed any more.
    pub(super) fn remove(&self, dir: &Path) -> Outcome {
        fs::remove_dir_all(dir).map_err(|e| Failure::failed(format!("cannot remove {}: {e}", dir.display())))
    }

    /// Returns the directory of the report of a command.
    pub(super) fn report(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }
}

fn cannot_start(e: std::io::Error) -> Failure {
    Failure::failed(format!("cannot start this program again: {e}"))
}

/// Returns a number of a result, as `/latency_us/p99`.
pub(super) fn number(result: &Value, key: &str) -> Option<f64> {
    result.pointer(key).and_then(Value::as_f64)
}

/// Returns "ok" if each of these results says that its check was ok.
pub(super) fn checks(results: &[&Value]) -> String {
    let check = |result: &&Value| result.get("check").and_then(Value::as_str).unwrap_or("none").to_owned();
    results.iter().map(check).find(|check| check != "ok").unwrap_or_else(|| "ok".to_owned())
}
