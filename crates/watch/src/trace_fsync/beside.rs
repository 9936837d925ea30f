//! A trace beside other work: of a command that listens to Ctrl-C itself, as text.

use super::process::{Process, holding};
use super::show::text;
use super::{own, server, watch};
use client::Access;
use output::failure::{Failure, Outcome};
use std::path::Path;
use std::time::Duration;

/// The width of the text.
const COLUMNS: usize = 150;

/// Returns the process of a server, if it runs on this machine and is visible here.
pub(crate) fn process_of_server(access: &Access) -> Option<u32> {
    server::process_of(access).map(|process| process.0)
}

/// Returns the process that has a database open, if it is visible here.
pub(crate) fn process_of_database(dir: &Path) -> Option<u32> {
    holding(dir).map(|process| process.0)
}

/// Traces a process by the kernel's tracepoints, until the length is over or the user stops it.
pub(crate) fn of_process(pid: u32, length: Duration) -> Outcome<String> {
    let mut trace = watch::trace(Process(pid), length, None)?;
    trace.target = format!("process {pid} ({})", Process(pid).name());
    Ok(text(&trace, COLUMNS))
}

/// Returns what the flight recorder of a database says of the last `length`.
pub(crate) fn of_database(dir: &Path, length: Duration) -> Outcome<String> {
    let recording = crate::sources::recording(dir)?;
    let mut trace = own::trace(&recording, length).map_err(Failure::failed)?;
    trace.target = dir.display().to_string();
    Ok(text(&trace, COLUMNS))
}
