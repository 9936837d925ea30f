//! `millpond collect`: writes samples of a target to a directory, one a second or one for each line
//! of a workload's output.
//!
//! `timing` decides when a sample is due and whether it is late, `input` reads the workload's
//! lines; both are pure. `pipe` passes the workload's output on. `collector` waits and samples, and
//! gives all to a [`Sink`]. `archive` is the format of the file, `out_dir` the directory.

mod archive;
mod collector;
mod input;
mod out_dir;
mod pipe;
mod sink;
mod timing;

pub(crate) use archive::{Archive, Head, STATS, Writer};
pub(crate) use collector::{Collector, RealClock, pause};
pub(crate) use input::{Extractor, WORKLOAD_UNIT};
pub(crate) use sink::Sink;
pub(crate) use timing::next_second;

use crate::sources::{self, About, Sample, Source};
use out_dir::OutDir;
use output::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// Where each figure comes from.
pub(crate) const FIGURES: &str = "figures.txt";
/// The settings of the target.
pub(crate) const CONFIGURATION: &str = "configuration.txt";

/// What is collected, and where to.
#[derive(Debug)]
pub(crate) struct Job {
    /// The directory of the samples.
    pub(crate) out: PathBuf,
    /// What is read of the workload's output; nothing for a sample a second.
    pub(crate) extractor: Extractor,
    /// It ends after so many samples.
    pub(crate) limit: Option<u64>,
}

/// Collects until Ctrl-C, the limit, or the end of the workload's output. A collection without a
/// sample is a failure, and leaves nothing.
pub(crate) fn run(source: &mut dyn Source, job: &Job) -> Outcome {
    let first = source.sample().map_err(|trouble| Failure::failed(trouble.to_string()))?;
    if let Some(name) = job.extractor.names().find(|name| first.get(name).is_some()) {
        return Err(Failure::misuse(format!("-v {name}: the target has a figure of that name already")));
    }
    let about = source.about();
    // Now: a collection may run for days.
    for refusal in &about.refusals {
        eprintln!("millpond: not all figures are there: {refusal}");
    }
    let (dir, stats) = OutDir::make(&job.out)?;
    let (outcome, samples) = match begin(&dir, stats, about, &first) {
        Ok(mut writer) => {
            let mut clock = RealClock;
            let mut collector =
                Collector::new(source, &mut clock, &mut writer, job.limit.unwrap_or(u64::MAX));
            let outcome = match job.extractor.is_empty() {
                true => collector.every_second(),
                false => collector.every_line(&job.extractor, &pipe::stdin()),
            };
            (outcome, collector.samples())
        }
        Err(failure) => (Err(failure), 0),
    };
    if samples == 0 {
        dir.take_back(&[FIGURES, CONFIGURATION, STATS]);
    }
    outcome
}

/// Writes what is known of a target beside its samples, and the head of their file.
fn begin(dir: &OutDir, stats: std::fs::File, about: &About, first: &Sample) -> Outcome<Writer> {
    write_file(&dir.file(FIGURES), &sources::table(about, first))?;
    write_file(&dir.file(CONFIGURATION), &configuration(&about.configuration))?;
    Writer::begin(stats, &dir.file(STATS), &Head::new(about))
}

/// Writes settings, one a line.
pub(crate) fn configuration(settings: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| {
        format!("{name} {}\n", value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r"))
    };
    settings.iter().map(line).collect()
}

fn write_file(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}
