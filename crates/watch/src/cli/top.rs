//! `millpond top TARGET`: the write path live in a terminal.

use super::plot::parse_past;
use crate::top::{self, Job};
use client::LoginFlags;
use output::failure::Outcome;
use output::print;
use output::units::parse_time;
use std::time::Duration;

/// Watch a server or a database live in the terminal
#[derive(Debug, clap::Args)]
pub struct Top {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory; of
    /// several all are shown together
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    login: LoginFlags,
    /// Print one picture of so many columns and rows as text instead, such as 120x40
    #[arg(long, value_name = "WxH", value_parser = parse_picture_size)]
    print: Option<(u16, u16)>,
    /// How long to look before --print
    #[arg(long, value_name = "S", value_parser = parse_time, default_value = "5", requires = "print")]
    seconds: Duration,
    /// Which view --print shows: 1 overview, 2 log, 3 pages, 4 waits; of several targets that of
    /// each [default: 1; of several targets their list]
    #[arg(long, value_name = "N", requires = "print", value_parser = clap::value_parser!(u8).range(1..=4))]
    view: Option<u8>,
    /// What a recording, a collection or a flight recorder says of this time, in UTC: 14:03, -10m,
    /// 2026-11-24T14:03; TARGET is its directory
    #[arg(
        long, value_name = "TIME", value_parser = parse_past, allow_hyphen_values = true,
        conflicts_with_all = ["enable_metrics", "seconds"]
    )]
    at: Option<u64>,
    /// Let a server count more meanwhile: metrics of InnoDB that are switched off, and then again
    #[arg(long)]
    enable_metrics: bool,
}

impl Top {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let Top { targets, login, enable_metrics, seconds, .. } = self;
        let view = self.view.map(usize::from);
        let job = Job { targets, login, enable_metrics };
        let text = match (self.at, self.print) {
            (Some(at_us), Some(size)) => top::print_at(&job.targets, at_us, size, view)?,
            (Some(at_us), None) => return top::run_at(&job.targets, at_us),
            (None, Some(size)) => top::print(job, size, view, seconds)?,
            (None, None) => return top::run(job),
        };
        print(&text);
        Ok(())
    }
}

/// Parses `120x40`.
fn parse_picture_size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let wrong = || format!("{text:?} is not a size from 80x24 to 500x200");
    parsed.filter(|(w, h)| (80..=500).contains(w) && (24..=200).contains(h)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_picture_size;

    #[test]
    fn sizes_of_pictures() {
        assert_eq!(parse_picture_size("120x40"), Ok((120, 40)));
        for text in ["", "x", "79x24", "80x23", "80", "120x40x1", "-1x40", "99999x40"] {
            assert!(parse_picture_size(text).is_err(), "{text}");
        }
    }
}
