//! Pages of reports that need no other file, and their plots as SVG files.
//!
//! `chart` is a plot as data; `chart_svg` draws it, with `svg`; `axis` makes scales and labels;
//! `plot` is the common trait of plots; `page` assembles the page, and `escape` what it says. All
//! of these are pure. Only `dir` accesses the files of a report.

pub mod axis;
pub mod chart;
mod chart_svg;
mod dir;
pub mod escape;
#[cfg(test)]
mod markup;
pub mod page;
pub mod plot;
pub mod svg;

pub use dir::{PAGE, ReportDir};

use crate::failure::Outcome;
use std::path::Path;

/// The plots of the reports of all commands, so a report of each may replace one of another. Each
/// command has a test that its own are here.
const PLOTS: &[&str] = &[
    // `run`
    "throughput",
    "latency",
    "latency-histogram",
    "checkpoint-age",
    "buffer-pool",
    "redo",
    "page-writes",
    "fsyncs",
    "commits-per-fsync",
    "throttling",
    "device-writes",
    // `crash`
    "crash-throughput",
    "crash-redo",
    "recovery",
    // `bench laws`
    "laws",
    // `plot`, those that are not among the above
    "workload",
    "dirty-share",
    "flushing-by-force",
    "lru-and-list",
    "log-an-hour",
    "uncheckpointed",
    "log-use",
    "syncs",
    "rows",
    "waits",
    "history",
    "processors",
    "disk",
    "disk-latency",
    "disk-busy",
    "all",
];

/// Returns the names of all files that a report of any command may have.
fn names() -> Vec<String> {
    let plots = PLOTS.iter().copied().map(plot::file_name);
    plots.chain(["samples.json", "samples.csv", PAGE].map(str::to_owned)).collect()
}

/// Checks that a report can be written to `dir`, which must not be inside `db`.
pub fn claim(dir: &Path, db: Option<&Path>) -> Outcome<ReportDir> {
    ReportDir::claim(dir, &names(), db)
}

/// Checks that these files can be written to `dir` as a report.
pub fn claim_for(dir: &Path, files: &[(String, String)]) -> Outcome<ReportDir> {
    let files = files.iter().map(|(name, _)| name.clone());
    ReportDir::claim(dir, &names().into_iter().chain(files).collect::<Vec<_>>(), None)
}

/// Writes the files of a report. Returns the path of its page.
pub fn write(dir: ReportDir, files: &[(String, String)]) -> Outcome<String> {
    dir.write(files, &names()).map(|page| page.display().to_string())
}

/// Returns the command line of this process, quoted for a shell.
pub fn command() -> String {
    let args = std::env::args_os().skip(1).map(|arg| quoted(&arg.to_string_lossy()));
    std::iter::once("millpond".to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
