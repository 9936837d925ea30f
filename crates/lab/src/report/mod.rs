//! Reports of `--report DIR`: plots of every second, as SVG files and on one page that needs no
//! other file. `millpond plot` makes such reports too.
//!
//! `chart` is a plot as data; `chart_svg`, `histogram` and `timeline` draw, with `svg`; `axis`
//! makes scales and labels; `plot` is their common trait; `page` assembles the page, and `escape`
//! what it says; `run`, `crash`, `laws` and `watched`, with its `views`, `chosen` and `compared`,
//! define the contents. All of these are pure. Only `dir` accesses the files of a report, and
//! `machine` reads facts about the machine.

mod axis;
mod chart;
mod chart_svg;
mod chosen;
mod compared;
mod crash;
mod dir;
mod escape;
mod histogram;
mod laws;
mod machine;
mod moving;
mod page;
mod plot;
mod run;
mod svg;
mod timeline;
mod views;
mod watched;

pub(crate) use compared::SUMMARY;
pub(crate) use crash::CrashReport;
pub(crate) use dir::ReportDir;
pub(crate) use laws::LawsReport;
pub(crate) use machine::facts as machine_facts;
pub(crate) use moving::{MovingLine, MovingView, moving};
pub(crate) use page::Origin;
pub(crate) use run::RunReport;
pub(crate) use svg::STYLE as PLOT_STYLE;
pub(crate) use watched::WatchedReport;

use crate::failure::Outcome;
use std::path::Path;

/// Returns the names of all files that a report of any command may have.
fn names() -> Vec<String> {
    let runs = run::PLOTS.iter().chain(crash::PLOTS).chain(laws::PLOTS).copied();
    let plots = runs.chain(watched::ids()).map(plot::file_name);
    plots.chain(["samples.json", "samples.csv", dir::PAGE].map(str::to_owned)).collect()
}

/// Checks that a report can be written to `dir`, which must not be inside `db`.
pub(crate) fn claim(dir: &Path, db: Option<&Path>) -> Outcome<ReportDir> {
    ReportDir::claim(dir, &names(), db)
}

/// Checks that these files can be written to `dir` as a report.
pub(crate) fn claim_for(dir: &Path, files: &[(String, String)]) -> Outcome<ReportDir> {
    let files = files.iter().map(|(name, _)| name.clone());
    ReportDir::claim(dir, &names().into_iter().chain(files).collect::<Vec<_>>(), None)
}

/// Writes the files of a report. Returns the path of its page.
pub(crate) fn write(dir: ReportDir, files: &[(String, String)]) -> Outcome<String> {
    dir.write(files, &names()).map(|page| page.display().to_string())
}

/// Returns the command line of this process, quoted for a shell.
pub(crate) fn command() -> String {
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
