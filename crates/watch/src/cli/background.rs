//! `--daemon`: the same command again, in the background.

use output::failure::{Failure, Outcome};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts this program again with other arguments, in a group of its own and without a terminal.
/// What it says is added to a file. Returns its number.
pub(super) fn start(args: &[OsString], log: &Path) -> Outcome<u32> {
    let cannot = |e: std::io::Error| Failure::failed(format!("cannot go on in the background: {e}"));
    let file = File::options().create(true).append(true).open(log);
    let file = file.map_err(|e| Failure::misuse(format!("cannot write {}: {e}", log.display())))?;
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(args).stdin(Stdio::null());
    command.stdout(file.try_clone().map_err(cannot)?).stderr(file).process_group(0);
    Ok(command.spawn().map_err(cannot)?.id())
}
