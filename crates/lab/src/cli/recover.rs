//! `millpond recover DIR`: runs the recovery that the next opening would run.

use super::{open_existing, print, wait_recovered};
use crate::failure::Outcome;
use crate::figures::recovery_redo_bytes;
use crate::stop;
use crate::units::{show_micros, show_size};
use std::path::PathBuf;
use std::time::Instant;

/// Open a database, wait until it is fully recovered, close it
#[derive(Debug, clap::Args)]
pub(crate) struct Recover {
    /// Finish all recovery, including undo, before the first transaction may begin
    #[arg(long)]
    eager: bool,
    /// The database's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Recover {
    pub(crate) fn run(self) -> Outcome {
        stop::install();
        let start = Instant::now();
        let options = millpond::Options::new().eager_recovery(self.eager);
        let db = open_existing(&self.dir, options)?;
        wait_recovered(&db)?;
        let took = start.elapsed();
        let bytes = recovery_redo_bytes(&db.metrics());
        db.close()?;
        print(&format!(
            "recovered {} in {}: {} of redo applied\n",
            self.dir.display(),
            show_micros(took.as_micros() as f64),
            show_size(bytes as f64)
        ));
        Ok(())
    }
}
