//! `millpond advise TARGET`: what to change at a server or a database, with figures.

use super::plot::parse_past;
use crate::advise::{self, Request, Time};
use crate::plot::Window;
use client::LoginFlags;
use output::existing::check_writable;
use output::failure::Outcome;
use output::units::parse_duration;
use output::{print, write_json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit status if something is urgent, and if what was tried was put back.
const URGENT: u8 = 3;
const NOTES: &str = "\
--try changes the settings of the server: old value, new value, old value, new value, each for --watch.
It keeps the new value only if the load shows that it is better: exit status 0. Else it puts the old one
back, also after Ctrl-C or an error: exit status 3 if it is worse or makes no difference. DIR/undo.sql
has the statements that put it back, before anything is changed.

  millpond advise mysql://root@localhost/ --try 'log size' --watch 60s";

/// Say what to change, with the figures that show it; the exit status is 3 if something is urgent
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Advise {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, a directory of `record` or
    /// `collect`, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    /// How long to watch a server (30s if left out); of a directory, only the last part
    /// of what was recorded
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    watch: Option<Duration>,
    /// Of a directory, only from this time on, in UTC: 14:03, -10m, 2026-11-24T14:03 [default: all;
    /// of a recording the last hour]
    #[arg(long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true)]
    from: Option<u64>,
    /// Only until this time
    #[arg(long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true)]
    until: Option<u64>,
    /// Try on the server what this rule says, such as 'log size', and keep it only if it is better
    #[arg(long = "try", value_name = "RULE", conflicts_with_all = ["from", "until"])]
    rule: Option<String>,
    /// Where the proof of --try goes [default: a new directory with the rule and the time in its
    /// name]
    #[arg(long, value_name = "DIR", requires = "rule")]
    out: Option<PathBuf>,
    /// Also write the advice to a file, as a list of objects; of --try, the proof
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    login: LoginFlags,
}

impl Advise {
    /// Runs the command. Returns the exit status.
    pub fn run(self) -> Outcome<ExitCode> {
        if let Some(file) = &self.json {
            check_writable(file)?;
        }
        if let Some(rule) = self.rule {
            let request = Request { rule, watch: self.watch, out: self.out };
            let tried = advise::try_rule(&self.target, &self.login, &request)?;
            print(&tried.text);
            if let Some(file) = &self.json {
                write_json(file, &tried.json)?;
            }
            return Ok(if tried.kept { ExitCode::SUCCESS } else { ExitCode::from(URGENT) });
        }
        let past = Window { from_us: self.from, until_us: self.until };
        let said = advise::run(&self.target, &self.login, Time { watch: self.watch, past })?;
        if let Some(file) = &self.json {
            write_json(file, &said.json)?;
        }
        print(&said.text);
        Ok(if said.urgent { ExitCode::from(URGENT) } else { ExitCode::SUCCESS })
    }
}
