//! `millpond torture DIR`: kills and power cuts, one after the other, on the user's disk.

use crate::run_dir::RunDir;
use crate::torture::Torture as Work;
use output::failure::Outcome;
use output::stop;
use std::path::PathBuf;
use std::time::Duration;

/// Kill the process and cut the power again and again under load; certify what survives
#[derive(Debug, clap::Args)]
pub(crate) struct Torture {
    /// A directory on the disk in question, new or empty; kept only with a finding
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// How long, minutes
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse_minutes)]
    minutes: Duration,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// For tests: the file system that is cut ignores syncs, and that must be found
    #[arg(long, hide = true)]
    ignore_syncs: bool,
}

impl Torture {
    pub(crate) fn run(self) -> Outcome {
        stop::install();
        let run_dir = RunDir::named_empty(&self.dir)?;
        let Torture { minutes: time, seed, ignore_syncs, .. } = self;
        Work { time, seed, ignore_syncs }.run(run_dir)
    }
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse().ok().filter(|&minutes: &f64| minutes > 0.0 && minutes <= 1e6);
    let minutes = minutes.ok_or_else(|| "give minutes, more than 0".to_owned())?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}
