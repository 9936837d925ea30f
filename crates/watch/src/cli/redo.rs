//! `millpond redo TARGET`: which table and which index writes the redo log.

use crate::redo::{self, By};
use client::LoginFlags;
use output::existing::check_writable;
use output::failure::Outcome;
use output::units::parse_seconds;
use output::{print, write_json};
use std::path::PathBuf;
use std::time::Duration;

/// Say which table and which index writes the redo log, to the byte
#[derive(Debug, clap::Args)]
pub struct Redo {
    /// mysql://user@localhost/?socket=PATH or another URL of a server of this machine (MariaDB
    /// 10.8 and later), the directory with its log (ib_logfile0), also of a server that is
    /// stopped or crashed, or a database directory
    #[arg(value_name = "TARGET|DATADIR")]
    target: String,
    /// How long to follow the log as it grows (10 for a server if left out). 0, as for a
    /// directory if left out, reads once: from the last checkpoint to the end of the log
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Also write the rows to a file, as a list of objects; the last one is the sum
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What the bytes are added up by
    #[arg(long, value_enum, default_value = "index")]
    by: By,
    #[command(flatten)]
    login: LoginFlags,
}

impl Redo {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        let said = redo::run(&self.target, &self.login, self.seconds, self.by)?;
        if let Some(file) = &self.json {
            write_json(file, &said.json)?;
        }
        print(&said.text);
        Ok(())
    }
}
