//! `millpond collect`: writes samples of a target to a directory, one a second or one for each line
//! of a workload's output.
//!
//! `timing` decides when a sample is due and whether it is late, `input` reads the workload's
//! output; both are pure. `archive` is the format of the file, `out_dir` the directory. The loop
//! here waits, samples and writes.

mod archive;
mod input;
mod out_dir;
mod timing;

pub(crate) use archive::{Archive, STATS};
pub(crate) use input::Extractor;
pub(crate) use timing::next_second;

use crate::failure::{Failure, Outcome};
use crate::samples::{ColumnKind, Values};
use crate::stop;
use crate::watch::{self, About, Sample, Source, Trouble, now_us};
use archive::{Head, Writer};
use out_dir::OutDir;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The unit of what a workload says of itself.
pub(crate) const WORKLOAD_UNIT: &str = "workload";
/// Where each figure comes from.
const FIGURES: &str = "figures.txt";
/// The settings of the target.
const CONFIGURATION: &str = "configuration.txt";
/// How often a wait looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

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

/// A collection that runs.
struct Collector<'s> {
    source: &'s mut dyn Source,
    writer: Writer,
    limit: u64,
    samples: u64,
    last_us: u64,
    uptime: Option<f64>,
    gone: bool,
}

/// Collects until Ctrl-C, the limit, or the end of the workload's output.
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
    let dir = OutDir::make(&job.out)?;
    let writer = match begin(&dir, about, &first) {
        Ok(writer) => writer,
        Err(failure) => {
            dir.take_back(&[FIGURES, CONFIGURATION, STATS]);
            return Err(failure);
        }
    };
    let limit = job.limit.unwrap_or(u64::MAX);
    let mut collector =
        Collector { source, writer, limit, samples: 0, last_us: 0, uptime: None, gone: false };
    if job.extractor.is_empty() { collector.every_second() } else { collector.every_line(&job.extractor) }
}

/// Writes what is known of a target beside its samples, and the head of their file.
fn begin(dir: &OutDir, about: &About, first: &Sample) -> Outcome<Writer> {
    write_file(&dir.file(FIGURES), &watch::table(about, first))?;
    let lines = about.configuration.iter().map(|(name, value)| format!("{name} {value}\n"));
    write_file(&dir.file(CONFIGURATION), &lines.collect::<String>())?;
    Writer::create(&dir.file(STATS), &Head::new(about))
}

fn write_file(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}

impl Collector<'_> {
    fn every_second(&mut self) -> Outcome {
        while self.samples < self.limit {
            let due_us = next_second(now_us());
            while now_us() < due_us {
                if stop::asked() {
                    return Ok(());
                }
                std::thread::sleep(LOOK.min(Duration::from_micros(due_us.saturating_sub(now_us()))));
            }
            self.take(Some(due_us), Vec::new())?;
        }
        Ok(())
    }

    fn every_line(&mut self, extractor: &Extractor) -> Outcome {
        let lines = lines_of_stdin();
        while self.samples < self.limit && !stop::asked() {
            match lines.recv_timeout(LOOK) {
                Ok(line) => {
                    // What is read here would be lost to the user otherwise.
                    crate::cli::print(&format!("{line}\n"));
                    if let Some(values) = extractor.read(&line) {
                        let value = |(name, value)| (name, WORKLOAD_UNIT, ColumnKind::Gauge, value);
                        self.take(None, values.into_iter().map(value).collect())?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes a sample and writes it with more values. A target that is gone is noted once.
    fn take(&mut self, due_us: Option<u64>, more: Values) -> Outcome {
        match self.source.sample() {
            Ok(mut sample) => {
                if std::mem::take(&mut self.gone) {
                    self.writer.event(sample.unix_us, "back", &self.source.about().version)?;
                }
                if sample.unix_us <= self.last_us && more.is_empty() {
                    // The flight recorder has written no new one.
                    return Ok(());
                }
                let uptime = sample.get("uptime_seconds");
                if self.uptime.zip(uptime).is_some_and(|(before, now)| now < before) {
                    self.writer.event(sample.unix_us, "restarted", "counters begin again")?;
                }
                (self.uptime, self.last_us) = (uptime, sample.unix_us);
                sample.values.splice(0..0, more);
                let late = due_us.and_then(|due| timing::late_ms(due, now_us()));
                self.writer.sample(sample.unix_us, late, sample.values)?;
                self.samples += 1;
                Ok(())
            }
            Err(Trouble::Gone(why)) => {
                if !std::mem::replace(&mut self.gone, true) {
                    let _ = writeln!(std::io::stderr(), "millpond: {why}; trying again");
                    self.writer.event(now_us(), "gone", &why)?;
                }
                Ok(())
            }
            Err(refused) => Err(Failure::failed(refused.to_string())),
        }
    }
}

/// Reads standard input in a thread of its own, so that Ctrl-C is seen while no line comes.
fn lines_of_stdin() -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}
