//! `millpond recover DIR`: runs the recovery that the next opening would run.

use super::existing::{open_existing, pool_sentence};
use crate::figures::recovery_redo_bytes;
use crate::own_process;
use crate::progress::Progress;
use crate::whole::wait_recovered_with;
use output::failure::Outcome;
use output::print;
use output::stop;
use output::units::{show_micros, show_size};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the progress line is renewed.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

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
        let options = own_process::options().eager_recovery(self.eager);
        let db = open_existing(&self.dir, options)?;
        let mut progress = Progress::on_stderr();
        let mut shown = start;
        wait_recovered_with(&db, || {
            if shown.elapsed() >= SHOWN_EVERY
                && let Ok(text) = std::fs::read_to_string(self.dir.join("progress"))
            {
                shown = Instant::now();
                progress.show(&progress_line(&text));
            }
        })?;
        progress.finish();
        let took = start.elapsed();
        let (bytes, pool) = (recovery_redo_bytes(&db.metrics()), pool_sentence(&db));
        db.close()?;
        print(&format!(
            "recovered {} in {}: {} of redo applied\n{pool}\n",
            self.dir.display(),
            show_micros(took.as_micros() as f64),
            show_size(bytes as f64)
        ));
        Ok(())
    }
}

/// Returns the progress line for the content of the database's file `progress`.
fn progress_line(text: &str) -> String {
    let lines = || text.lines().filter_map(|line| line.trim().split_once('='));
    let of = |name: &str| lines().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    match (of("state"), of("seconds_left")) {
        ("replaying", "") => format!("recovery: {} % of the redo applied", of("percent")),
        ("replaying", left) => format!("recovery: {} % of the redo applied, {left} s left", of("percent")),
        ("done", _) => "recovery: reverts unfinished transactions".to_owned(),
        _ => "recovery: reads the end of the log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::progress_line;

    #[test]
    fn the_progress_line_says_what_the_file_says() {
        for (text, line) in [
            ("state=opening\npercent=0\nseconds_left=\n", "recovery: reads the end of the log"),
            ("state=replaying\npercent=7\nseconds_left=\n  ", "recovery: 7 % of the redo applied"),
            ("state=replaying\npercent=42\nseconds_left=3\n", "recovery: 42 % of the redo applied, 3 s left"),
            ("state=done\npercent=100\nseconds_left=0\n", "recovery: reverts unfinished transactions"),
            ("", "recovery: reads the end of the log"),
        ] {
            assert_eq!(progress_line(text), line);
        }
    }
}
