//! `millpond explain NAME`: what a setting or a figure means.

use crate::explain;
use output::failure::{Failure, Outcome};
use output::print;

/// Say what a setting or figure of InnoDB, MariaDB, MySQL or Millpond means
#[derive(Debug, clap::Args)]
pub struct Explain {
    /// Its name, such as innodb_io_capacity, Innodb_checkpoint_age or recovery_target
    #[arg(value_name = "VARIABLE", required_unless_present = "list")]
    variable: Option<String>,
    /// List all names
    #[arg(long, conflicts_with = "variable")]
    list: bool,
}

impl Explain {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.variable {
            Some(variable) => print(&explain::explain(&variable)?),
            None if self.list => print(&explain::list()),
            None => return Err(Failure::misuse("explain needs a name, or --list")),
        }
        Ok(())
    }
}
