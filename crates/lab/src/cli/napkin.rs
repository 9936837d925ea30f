//! `millpond napkin --reference`: this machine beside the numbers of the napkin-math project.

use crate::napkin::measure;
use output::existing::{check_writable, readable_directory};
use output::failure::{Failure, Outcome};
use output::{print, stop, write_json};
use std::path::PathBuf;

const NOTES: &str = "\
The published numbers are those of https://github.com/sirupsen/napkin-math, renewed on 2026-03-08:
rounded, from a virtual machine with 24 cores and several local disks that work as one. Nothing here
leaves this machine. Each row takes about 0.4 s.";

/// Show this machine's basic speeds beside the published ones of the napkin-math project
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Napkin {
    /// Measure, and compare with the published table
    #[arg(long)]
    reference: bool,
    /// A directory on the disk in question; what is made there is removed [default: the current
    /// one]
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// Write the result as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Napkin {
    pub(crate) fn run(self) -> Outcome {
        if !self.reference {
            return Err(Failure::misuse(
                "`napkin` needs --reference: the workload of that name is `millpond run napkin`",
            ));
        }
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        readable_directory(&self.dir)?;
        stop::exit_when_asked();
        let reference = measure(&self.dir)?;
        if let Some(file) = &self.json {
            write_json(file, &reference.json())?;
        }
        print(&reference.table());
        Ok(())
    }
}
