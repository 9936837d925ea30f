//! `millpond forecast DIR...`: how good the forecast of the checkpoint age was, over recordings.

use crate::forecast::judge;
use output::failure::Outcome;
use output::print;
use std::path::PathBuf;

const NOTES: &str = "\
The forecast of `top`, `serve` and `age --watch` is fed with what was recorded. An event: the age
reaches 99 % of its limit. It is foreseen if that was said 10 s before, and too fast if its whole
rise took less. A forecast is wrong if the limit is not reached within twice the time that it said.";

/// Judge the forecast of the redo log's limit by recordings: what it foresaw, false alarms
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Forecast {
    /// Directories of `collect` or `record`, or databases with a flight recorder
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

impl Forecast {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let judged = judge(&self.dirs)?;
        print(&if self.json { judged.json() } else { judged.text() });
        Ok(())
    }
}
