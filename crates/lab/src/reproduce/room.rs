//! Where an experiment works, and how it runs the program's other commands.

use super::private_server::{Options, PrivateServer, Programs};
use crate::own_command;
use output::failure::{Failure, Outcome};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Where an experiment works.
pub(crate) struct Room<'a> {
    /// Servers and databases: on a disk, removed at the end.
    pub(crate) scratch: &'a Path,
    /// The same on a file system in memory, if there is one.
    pub(crate) memory: Option<&'a Path>,
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

    /// Starts a new server.
    pub(super) fn server(&self, name: &str, options: &Options) -> Outcome<PrivateServer> {
        self.server_in(self.scratch, name, options)
    }

    /// Starts a new server with its data below `place`.
    pub(super) fn server_in(&self, place: &Path, name: &str, options: &Options) -> Outcome<PrivateServer> {
        PrivateServer::start(self.programs, &place.join(name), options)
    }

    /// Says whether there is a plugin that brings Millpond into a server.
    pub(super) fn has_plugin(&self) -> bool {
        self.programs.plugin().is_some()
    }

    /// Runs a command of this program, and returns its JSON. That, the text and the report, if the
    /// command can make one, stay in the directory of results.
    pub(super) fn millpond(&self, name: &str, args: &[impl AsRef<OsStr>]) -> Outcome<Value> {
        own_command::run(&self.text(name), &self.out.join(format!("{name}.json")), args)
    }

    /// The same of a command that runs `millpond run` with these flags, which follow `--`.
    pub(super) fn millpond_that_runs(&self, name: &str, args: &[String], run: &[String]) -> Outcome<Value> {
        let json = self.out.join(format!("{name}.json"));
        let mut args = args.to_vec();
        args.extend(["--json".to_owned(), json.display().to_string(), "--".to_owned()]);
        args.extend(run.iter().cloned());
        own_command::run_with_json(&self.text(name), &json, &args)
    }

    /// Starts a command of this program, which goes on beside the experiment.
    pub(super) fn in_background(&self, name: &str, args: &[&str]) -> Outcome<Child> {
        let mut command = own_command::command(&self.text(name), args)?;
        command.stderr(Stdio::null()).spawn().map_err(own_command::cannot_start)
    }

    fn text(&self, name: &str) -> PathBuf {
        self.out.join(format!("{name}.txt"))
    }

    /// Removes a database that is not needed any more.
    pub(super) fn remove(&self, dir: &Path) -> Outcome {
        fs::remove_dir_all(dir).map_err(|e| Failure::failed(format!("cannot remove {}: {e}", dir.display())))
    }

    /// Returns the directory of the report of a command.
    pub(super) fn report(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// The same of a sweep. It would go on with the points of one that was ended, whose server is
    /// gone, so these are removed.
    pub(super) fn report_of_new_sweep(&self, name: &str) -> Outcome<PathBuf> {
        let dir = self.report(name);
        remove_if_there(&dir)?;
        Ok(dir)
    }
}

fn remove_if_there(dir: &Path) -> Outcome {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(Failure::failed(format!("cannot remove {}: {e}", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Returns "ok" if each of these results says that its check was ok.
pub(super) fn checks<'r>(results: impl IntoIterator<Item = &'r Value>) -> String {
    let check = |result: &Value| result.get("check").and_then(Value::as_str).unwrap_or("none").to_owned();
    results.into_iter().map(check).find(|check| check != "ok").unwrap_or_else(|| "ok".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment that was ended in its sweep could not be run again with the same --out: the
    /// sweep refused the directory of another server's.
    #[test]
    fn what_an_ended_sweep_has_left_is_removed() {
        let dir = std::env::temp_dir().join(format!("millpond-ended-sweep-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("sweep.txt"), "of a server that is gone").unwrap();
        remove_if_there(&dir).unwrap();
        assert!(!dir.exists());
        remove_if_there(&dir).unwrap();
    }
}
