//! The flags of `millpond run` for the redo log.

use millpond::Options;
use output::units::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

/// How long the redo log is, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct RedoFlags {
    /// How long recovery may take; the redo capacity follows from it [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = parse_duration, conflicts_with = "redo_capacity")]
    pub(super) recovery_target: Option<Duration>,
    /// Fixes the redo capacity instead
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) redo_capacity: Option<u64>,
    /// Directory of the redo log, new or empty; the same again with the same --db [default: in the
    /// database's directory]
    #[arg(id = "redo_dir", long = "redo-dir", value_name = "DIR", conflicts_with = "ephemeral")]
    pub(super) dir: Option<PathBuf>,
}

impl RedoFlags {
    /// Returns the options with these.
    pub(super) fn apply(&self, mut options: Options) -> Options {
        if let Some(dir) = &self.dir {
            options = options.redo_dir(dir);
        }
        match (self.recovery_target, self.redo_capacity) {
            (_, Some(bytes)) => options.redo_capacity_bytes(bytes),
            (Some(target), None) => options.recovery_target(target),
            (None, None) => options,
        }
    }
}
