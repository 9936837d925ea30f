//! `millpond top TARGET`: the write path live in a terminal.

use super::plot::parse_past;
use crate::top;
use client::LoginFlags;
use output::failure::Outcome;
use output::print;
use output::units::parse_time;
use std::path::Path;
use std::time::Duration;

/// Watch a server or a database live in the terminal
#[derive(Debug, clap::Args)]
pub struct Top {
    /// mysql://user@host:port/, mysql://user@localhost/?socket=PATH, or a database directory
    #[arg(value_name = "TARGET")]
    target: String,
    #[command(flatten)]
    login: LoginFlags,
    /// Print one picture of so many columns and rows as text instead, such as 120x40
    #[arg(long, value_name = "WxH", value_parser = parse_picture_size)]
    print: Option<(u16, u16)>,
    /// How long to look before --print
    #[arg(long, value_name = "S", value_parser = parse_time, default_value = "5", requires = "print")]
    seconds: Duration,
    /// Which view --print shows: 1 overview, 2 log, 3 pages, 4 waits
    #[arg(long, value_name = "N", default_value_t = 1, requires = "print", value_parser = clap::value_parser!(u8).range(1..=4))]
    view: u8,
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
        if let Some(at_us) = self.at {
            let dir = Path::new(&self.target);
            return match self.print {
                Some(size) => top::print_at(dir, at_us, size, self.view.into()).map(|text| print(&text)),
                None => top::run_at(dir, at_us),
            };
        }
        let Some(size) = self.print else {
            return top::run(self.target, self.login, self.enable_metrics);
        };
        let view = usize::from(self.view);
        print(&top::print(self.target, self.login, size, view, self.seconds, self.enable_metrics)?);
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
