//! `millpond trace-fsync (PID | TARGET)`: syncs by file and reason, how long they took, over time.

use crate::trace_fsync::{self, Request};
use client::LoginFlags;
use output::existing::check_writable;
use output::failure::Outcome;
use output::units::parse_time;
use output::{print, write_json};
use std::path::PathBuf;
use std::time::Duration;

/// The width of text that is no terminal.
const COLUMNS: usize = 150;

/// Show which files are synced, why, how often and how long it takes
#[derive(Debug, clap::Args)]
pub struct TraceFsync {
    /// A process by number or name, mysql://user@host:port/, or a directory of a database or server
    #[arg(value_name = "PID|TARGET")]
    target: String,
    #[command(flatten)]
    login: LoginFlags,
    /// How long to trace a process; of a directory, so much of the end of its recording
    #[arg(long, value_name = "S", value_parser = parse_time, default_value = "10")]
    seconds: Duration,
    /// The width of a row of the histogram in microseconds [default: by what is measured]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    step: Option<u64>,
    /// Trace by strace, which needs no root for processes of one's own and slows them down much
    #[arg(long)]
    strace: bool,
    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl TraceFsync {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let request =
            Request { target: self.target, length: self.seconds, step_us: self.step, strace: self.strace };
        let trace = trace_fsync::trace(&request, &self.login)?;
        print(&trace_fsync::text(&trace, columns()));
        match &self.json {
            Some(file) => write_json(file, &format!("{:#}\n", trace_fsync::json(&trace))),
            None => Ok(()),
        }
    }
}

/// Returns the width of the terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}
