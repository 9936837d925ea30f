//! Where an experiment works, and how it runs the program's other commands.

use super::private_server::{PrivateServer, Programs};
use crate::own_command;
use output::failure::{Failure, Outcome};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
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

    /// Starts a new server with these settings.
    pub(super) fn server(&self, name: &str, settings: &[String]) -> Outcome<PrivateServer> {
        self.server_in(name, self.scratch, &[], settings)
    }

    /// Starts a new server with its data below `place`, and makes directories that its settings
    /// name.
    pub(super) fn server_in(
        &self,
        name: &str,
        place: &Path,
        more: &[PathBuf],
        settings: &[String],
    ) -> Outcome<PrivateServer> {
        PrivateServer::start(self.programs, &place.join(name), more, settings)
    }

    /// Runs a command of this program, and returns its JSON. That, the text and the report, if the
    /// command can make one, stay in the directory of results.
    pub(super) fn millpond(&self, name: &str, args: &[impl AsRef<OsStr>]) -> Outcome<Value> {
        own_command::run(&self.text(name), &self.out.join(format!("{name}.json")), args)
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
}

/// Returns "ok" if each of these results says that its check was ok.
pub(super) fn checks(results: &[&Value]) -> String {
    let check = |result: &&Value| result.get("check").and_then(Value::as_str).unwrap_or("none").to_owned();
    results.iter().map(check).find(|check| check != "ok").unwrap_or_else(|| "ok".to_owned())
}
