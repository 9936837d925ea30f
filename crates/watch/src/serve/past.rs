//! The past in a browser: an hour of what was recorded, of which each browser chooses its own.

use super::board::{Board, KEPT_US};
use crate::past::samples;
use crate::plot::{Input, Window, is_recorded, load_part};
use crate::sources::{About, is_of_schema};
use output::failure::{Failure, Outcome};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What was recorded.
#[derive(Clone, Debug)]
pub(super) struct Past {
    dir: PathBuf,
    /// The end of the hour that is shown first, microseconds since 1970; `None` is the last one.
    until_us: Option<u64>,
}

impl Past {
    /// Returns the past of a directory, if it is one of a recording or a collection, or if a time
    /// was named.
    pub(super) fn of(dir: &Path, at_us: Option<u64>) -> Option<Past> {
        let past = at_us.is_some() || is_recorded(dir);
        past.then(|| Past { dir: dir.to_owned(), until_us: at_us })
    }

    /// Reads the hour before a moment; without one, that which is shown first. After the last
    /// sample it is the last hour.
    pub(super) fn board(&self, until_us: Option<u64>) -> Outcome<Board> {
        let (mut input, until_us) = (self.read(Window::default())?, until_us.or(self.until_us));
        if input.began() <= 0.0 {
            let why = format!("{} is a run report, and does not know when it was made", self.dir.display());
            return Err(Failure::misuse(why));
        }
        let end_us = |input: &Input| ((input.began() + input.samples.end()) * 1e6) as u64;
        if let Some(until_us) = until_us.filter(|until_us| *until_us < end_us(&input)) {
            let from_us = Some(until_us.saturating_sub(KEPT_US));
            input = self.read(Window { from_us, until_us: Some(until_us) })?;
        }
        let from = end_us(&input).saturating_sub(KEPT_US) as f64 / 1e6;
        let mut board = Board::new(About {
            target: input.target.clone(),
            version: input.version.clone(),
            configuration: Vec::new(),
            origins: Vec::new(),
            refusals: Vec::new(),
        });
        for sample in samples(&input, from) {
            // What follows from each is told at the end, all at once.
            let _ = board.take(sample);
        }
        for (at, what, why) in input.events.iter().filter(|event| input.began() + event.0 >= from) {
            board.note(((input.began() + at) * 1e6) as u64, format!("{what}: {why}"));
        }
        Ok(board)
    }

    fn read(&self, window: Window) -> Outcome<Input> {
        load_part(&self.dir, window, 0.0, &|name, _| is_of_schema(name))
    }

    /// Returns what a page is told: the name of the event, and JSON.
    pub(super) fn told(&self, until_us: Option<u64>) -> (&'static str, String) {
        match self.board(until_us) {
            Ok(board) => ("hello", board.hello_of_the_past()),
            Err(why) => ("nothing", json!({ "why": why.to_string() }).to_string()),
        }
    }
}

/// Reads the moment that a page asks for: `until=` and milliseconds since 1970.
pub(super) fn asked_for(query: Option<&str>) -> Option<u64> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("until="))?;
    value.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_for_a_moment() {
        assert_eq!(asked_for(Some("until=1764000000000")), Some(1_764_000_000_000_000));
        assert_eq!(asked_for(Some("x=1&until=5")), Some(5000));
        for query in [None, Some(""), Some("until="), Some("until=-5"), Some("until=99999999999999999999")] {
            assert_eq!(asked_for(query), None, "{query:?}");
        }
    }
}
