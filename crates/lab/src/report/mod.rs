//! Reports of `--report DIR`: plots of every second, as SVG files and on one page that needs no
//! other file.
//!
//! `run_report`, `server_run`, `ramp_report`, `comparison`, `crash` and `laws` define the contents;
//! `work`, `histogram` and `timeline` are plots that only these have. All of them are pure.
//! `machine` reads facts about the machine.

#[cfg(feature = "watch")]
mod comparison;
mod crash;
mod histogram;
mod laws;
mod machine;
#[cfg(test)]
#[path = "../../../output/src/report/markup.rs"]
mod markup;
mod ramp_report;
mod run_report;
#[cfg(feature = "watch")]
mod server_run;
mod timeline;
mod work;

#[cfg(feature = "watch")]
pub(crate) use comparison::ComparisonReport;
pub(crate) use crash::CrashReport;
pub(crate) use laws::LawsReport;
pub(crate) use machine::facts as machine_facts;
#[cfg(feature = "watch")]
pub(crate) use machine::of_this_machine;
pub(crate) use ramp_report::RampReport;
pub(crate) use run_report::RunReport;
#[cfg(feature = "watch")]
pub(crate) use server_run::ServerRunReport;

use output::report::chart::Chart;
use output::samples::Samples;

/// Returns plots of what an engine counted.
#[cfg(feature = "watch")]
fn engine_charts(samples: &Samples) -> Vec<Chart> {
    watch::views_of(samples)
}

/// The small program does not know the views of servers.
#[cfg(not(feature = "watch"))]
fn engine_charts(_: &Samples) -> Vec<Chart> {
    Vec::new()
}

#[cfg(test)]
mod tests;
