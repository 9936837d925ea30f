//! `millpond record TARGET --dir DIR`: a flight recorder for a server.

use super::background;
use crate::record::{self, Limits};
use client::LoginFlags;
use output::failure::Outcome;
use output::print;
use output::stop;
use output::units::{parse_days, parse_size};
use std::ffi::OsString;
use std::path::PathBuf;
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

    fn in_background(&self) -> Outcome {
        // What is wrong is said here, not in a file.
        record::try_place(&self.dir, &self.target)?;
        let mut args: Vec<OsString> = vec!["record".into(), (&self.target).into()];
        args.extend(["--dir".into(), (&self.dir).into()]);
        args.push(format!("--size={}", self.size).into());
        args.push(format!("--days={}", self.days.as_secs_f64() / 86_400.0).into());
        args.extend(self.login.args().into_iter().map(OsString::from));
        let number = background::start(&args, &self.dir.join("record.log"))?;
        print(&format!("recorder {number} writes to {}; kill -INT ends it\n", self.dir.display()));
        Ok(())
    }
}
