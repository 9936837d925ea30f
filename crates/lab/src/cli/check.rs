//! `millpond check DIR`: reads and compares every page and every tree.

use super::existing::{open_existing, pool_sentence};
use crate::own_process;
use output::failure::{Failure, Outcome};
use output::print;
use std::path::PathBuf;

/// Check every page and every tree of a database
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The database's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Check {
    pub(crate) fn run(self) -> Outcome {
        let db = open_existing(&self.dir, own_process::options())?;
        let report = db.check()?;
        let pool = pool_sentence(&db);
        // Before anything is said: closing writes what redo has changed.
        db.close()?;
        print(&format!("{}\n{pool}\n", report.to_string().trim_end()));
        let clean = report.is_clean();
        if clean { Ok(()) } else { Err(Failure::failed(format!("{} is damaged", self.dir.display()))) }
    }
}
