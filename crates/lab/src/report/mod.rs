//! Reports of `--report DIR`: plots of every second, as SVG files and on one page that needs no
//! other file.
//!
//! `run`, `crash` and `laws` define the contents; `histogram` and `timeline` are plots that only
//! these have. All of them are pure. `machine` reads facts about the machine.

mod crash;
mod histogram;
mod laws;
mod machine;
#[cfg(test)]
#[path = "../../../output/src/report/markup.rs"]
mod markup;
mod run_report;
mod timeline;

pub(crate) use crash::CrashReport;
pub(crate) use laws::LawsReport;
pub(crate) use machine::facts as machine_facts;
pub(crate) use run_report::RunReport;

#[cfg(test)]
mod tests;
