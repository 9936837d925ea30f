//! Reports of `--report DIR`: plots of what happened each second, as SVG files and on one page that needs nothing else.
//!
//! `chart` is a plot as data, `svg`, `histogram` and `timeline` draw, `axis` labels, `plot` is what they have in common, `page` puts the page together; `run` and `crash`
//! say what is shown. All of these are pure; `dir` alone touches files, and `machine` reads what the machine is.

mod axis;
mod chart;
mod crash;
mod dir;
mod histogram;
mod machine;
mod page;
mod plot;
mod run;
mod svg;
mod timeline;

pub(crate) use crash::CrashReport;
pub(crate) use dir::ReportDir;
pub(crate) use machine::facts as machine_facts;
pub(crate) use page::Origin;
pub(crate) use run::RunReport;

use crate::failure::Outcome;
use std::path::Path;

/// The plots that a report may have, whichever command wrote it.
fn names() -> Vec<String> {
    let plots = run::PLOTS.iter().chain(crash::PLOTS).map(|id| plot_file(id));
    plots.chain(["samples.json", "samples.csv", dir::PAGE].map(str::to_owned)).collect()
}

fn plot_file(id: &str) -> String {
    format!("{id}.svg")
}

/// Makes sure that a report can be written to `dir`, which `db` must not hold.
pub(crate) fn claim(dir: &Path, db: Option<&Path>) -> Outcome<ReportDir> {
    ReportDir::claim(dir, &names(), db)
}

/// Writes the files of a report and tells where its page is.
pub(crate) fn write(dir: ReportDir, files: &[(String, String)]) -> Outcome<String> {
    dir.write(files, &names()).map(|page| page.display().to_string())
}

/// The command line of this process, as it can be typed again.
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
