//! `millpond record TARGET --dir DIR`: a flight recorder for a server.

use crate::record::{self, Limits};
use client::LoginFlags;
use output::failure::{Failure, Outcome};
use output::print;
use output::stop;
use output::units::{parse_days, parse_size};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const NOTES: &str = "\
A sample a second is written to segments of ten minutes. `millpond plot DIR` draws the last hour, or
what --from and --until say, and `millpond top DIR --at 14:03` shows a moment. A server that is gone
is waited for, and so is a recorder that was killed: the next one goes on in the same directory.";

/// Record a server, a sample a second, and keep the last days
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Record {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    /// The directory of the recording; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How much is kept: the oldest goes first
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512MiB")]
    size: u64,
    /// How long it is kept
    #[arg(long, value_name = "DAYS", value_parser = parse_days, default_value = "14")]
    days: Duration,
    /// Go on in the background; DIR/record.log has what it says
    #[arg(long, conflicts_with = "password")]
    daemon: bool,
    #[command(flatten)]
    login: LoginFlags,
}

impl Record {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if self.daemon {
            return self.in_background();
        }
        stop::install();
        let limits = Limits { bytes: self.size, age: self.days };
        record::run(&self.target, &self.login, &self.dir, limits)
    }

    /// Starts this command again, in a group of its own and without a terminal.
    fn in_background(&self) -> Outcome {
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot start the recorder: {e}"));
        // What is wrong is said here, not in a file.
        record::try_place(&self.dir, &self.target)?;
        let path = self.dir.join("record.log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|e| Failure::misuse(format!("cannot write {}: {e}", path.display())))?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg("record").arg(&self.target).arg("--dir").arg(&self.dir);
        command.arg(format!("--size={}", self.size));
        command.arg(format!("--days={}", self.days.as_secs_f64() / 86_400.0));
        command.args(self.login.args());
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(cannot)?).stderr(log).process_group(0);
        let child = command.spawn().map_err(cannot)?;
        print(&format!("recorder {} writes to {}; kill -INT ends it\n", child.id(), self.dir.display()));
        Ok(())
    }
}
