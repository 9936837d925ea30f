//! `millpond collect TARGET --out DIR`: samples of a server or a database, for `plot`.

use crate::collect::{self, Archive, Extractor, Job};
use crate::sources;
use client::LoginFlags;
use output::failure::{Failure, Outcome};
use output::print;
use output::stop;
use std::io::Write;
use std::path::PathBuf;

/// Write samples of a server or a database to a directory, one a second
#[derive(Debug, clap::Args)]
pub struct Collect {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    /// The directory of the samples; an older collection there that has ended is renamed to DIR.bak
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Read a workload's output from standard input and take a sample for each line that this
    /// expression fits; its group is a number
    #[arg(short = 'r', value_name = "REGEX")]
    expressions: Vec<String>,
    /// The name of that number
    #[arg(short = 'v', value_name = "NAME")]
    names: Vec<String>,
    /// End after so many samples
    #[arg(short = 'l', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    login: LoginFlags,
}

impl Collect {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let extractor = Extractor::new(&self.expressions, &self.names).map_err(Failure::misuse)?;
        let mut source = sources::open(&self.target, &self.login)?;
        stop::install();
        let job = Job { out: self.out, extractor, limit: self.limit };
        collect::run(source.as_mut(), &job)?;
        // Reads what was written, so what is said here is true of the file.
        let archive = Archive::read(&job.out, &|_, _| false)?;
        let summary = format!("{} in {}\n", archive.summary(), job.out.display());
        if job.extractor.is_empty() {
            print(&summary);
        } else {
            // Standard output is the workload's.
            let _ = std::io::stderr().write_all(summary.as_bytes());
        }
        Ok(())
    }
}
