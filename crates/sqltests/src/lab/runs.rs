//! Runs of the program that take more than its output: one that has to fail, a collection that goes
//! on, and its end by Ctrl-C.

use super::place::Lab;
use crate::output;
use crate::steps::until;
use std::process::{Child, Command, Stdio};

/// Runs a command that has to fail, and returns its status and what it says.
pub(super) fn refused(command: &mut Command) -> Result<(Option<i32>, String), String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() || said.lines().count() != 1 {
        return Err(format!("wanted one sentence and a failure, found {:?} and {said:?}", out.status));
    }
    Ok((out.status.code(), said))
}

/// Starts a collection of a target, and waits until it has a sample.
pub(super) fn collecting(lab: &Lab<'_>, target: &str, name: &str) -> Result<Child, String> {
    let mut command = lab.millpond(&["collect", target, "--out", name]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = quiet.spawn().map_err(|e| format!("cannot start the program: {e}"))?;
    until("a first sample", || lab.stats(name).contains("\"values\""))?;
    Ok(child)
}

/// Sends a signal as Ctrl-C does, and returns what the program says in the end.
pub(super) fn interrupt(child: Child) -> Result<String, String> {
    output(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
    let out = child.wait_with_output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("ended with {}", out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
