//! An event that is kept: its directory, its samples, and the texts that are gathered.
//!
//! Everything is written when it is there, so an event whose `stalk` was killed has all but its
//! page.

use super::blockers::{self, Answers};
use super::evidence::{Gathered, Gathering, Subject};
use super::place::{self, EVENT};
use super::questions::{LOCK_WAITS, METADATA, PROCESSES};
use super::trigger::Cause;
use crate::collect::{CONFIGURATION, FIGURES, Head, STATS, Sink, Writer, configuration, pause};
use crate::plot::load;
use crate::report::{EventReport, Noted};
use crate::sources::{self, About, Sample, is_of_schema};
use output::failure::{Failure, Outcome};
use output::report::PAGE;
use output::units::show_date;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The seconds after the moment at which a server is asked.
const ROUNDS: [u64; 7] = [0, 2, 5, 10, 20, 40, 80];
/// The seconds after the moment at which stacks are taken.
const STACKS: [u64; 2] = [0, 5];
/// At its end an event waits so long for what has not yet come.
const LAST: Duration = Duration::from_secs(10);
/// The same after Ctrl-C.
const STOPPED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// A sample, and by how much it was late.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) sample: Sample,
    pub(super) late_ms: Option<u64>,
}

/// An event.
pub(super) struct Event {
    dir: PathBuf,
    cause: Cause,
    at_us: u64,
    begun: Instant,
    length: Duration,
    writer: Writer,
    gathering: Gathering,
    /// How many rounds, and how many times stacks, were begun.
    rounds: usize,
    stacks: usize,
    gathered: Vec<Gathered>,
    /// What happened, or was a cause too: seconds after the moment, and a sentence.
    also: Vec<(u64, String)>,
    /// Their words.
    words: BTreeSet<String>,
}

impl Event {
    /// Begins an event: writes what was kept of the time before.
    pub(super) fn begin(
        dir: &Path,
        cause: Cause,
        about: &About,
        before: &[Kept],
        subject: Subject,
        length: Duration,
    ) -> Outcome<Event> {
        let at_us = sources::now_us();
        let dir = place::make(dir, at_us, &cause.word)?;
        let what = serde_json::json!({
            "format": "millpond stalk event 1", "target": about.target, "version": about.version,
            "at": at_us as f64 / 1e6, "cause": cause.word, "why": cause.why,
        });
        write(&dir.join(EVENT), &format!("{what:#}\n"))?;
        write(&dir.join(CONFIGURATION), &configuration(&about.configuration))?;
        if let Some(kept) = before.last() {
            write(&dir.join(FIGURES), &sources::table(about, &kept.sample))?;
        }
        let stats = dir.join(STATS);
        let file = File::create_new(&stats)
            .map_err(|e| Failure::failed(format!("cannot create {}: {e}", stats.display())))?;
        let mut writer = Writer::begin(file, &stats, &Head::new(about))?;
        for Kept { sample, late_ms } in before {
            writer.sample(sample.unix_us, *late_ms, sample.values.clone())?;
        }
        writer.event(at_us, &cause.word, &cause.why)?;
        let mut gathering = Gathering::new(subject);
        gathering.syncs(length);
        let (begun, gathered, also, words) = (Instant::now(), Vec::new(), Vec::new(), BTreeSet::new());
        Ok(Event {
            dir,
            cause,
            at_us,
            begun,
            length,
            writer,
            gathering,
            rounds: 0,
            stacks: 0,
            gathered,
            also,
            words,
        })
    }

    /// Takes a sample of the time after.
    pub(super) fn sample(&mut self, Kept { sample, late_ms }: &Kept) -> Outcome {
        self.writer.sample(sample.unix_us, *late_ms, sample.values.clone())
    }

    /// Notes what happened meanwhile.
    pub(super) fn note(&mut self, word: &str, why: &str) -> Outcome {
        self.also.push((self.begun.elapsed().as_secs(), why.to_owned()));
        self.words.insert(word.to_owned());
        self.writer.event(sources::now_us(), word, why)
    }

    /// Returns whether a cause is that of this event, or was noted.
    pub(super) fn has(&self, word: &str) -> bool {
        self.cause.word == word || self.words.contains(word)
    }

    /// Asks what is due, and writes what has come.
    pub(super) fn look(&mut self) -> Outcome {
        let after_s = self.begun.elapsed().as_secs();
        if !self.is_over() {
            if ROUNDS.get(self.rounds).is_some_and(|due| *due <= after_s) {
                self.rounds += 1;
                self.gathering.round(after_s);
            }
            if STACKS.get(self.stacks).is_some_and(|due| *due <= after_s) {
                self.stacks += 1;
                self.gathering.stacks(after_s);
            }
        }
        let come = self.gathering.take();
        self.keep(come)
    }

    fn keep(&mut self, come: Vec<Gathered>) -> Outcome {
        for one in come {
            if let Ok((text, _)) = &one.answer {
                write(&self.dir.join(file_of(&one)), text)?;
            }
            self.gathered.push(one);
        }
        Ok(())
    }

    /// Returns whether the time after is over.
    pub(super) fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.length
    }

    /// Completes the event: what has not yet come, and the page. Returns the path of the page.
    pub(super) fn finish(mut self, stopped: bool) -> Outcome<String> {
        let (from, patience) = (Instant::now(), if stopped { STOPPED } else { LAST });
        while self.gathering.is_waiting() && from.elapsed() < patience {
            // After Ctrl-C `pause` returns at once.
            if stopped {
                std::thread::sleep(LOOK);
            } else {
                pause(LOOK);
            }
            let come = self.gathering.take();
            self.keep(come)?;
        }
        let mut rest = self.gathering.give_up();
        rest.extend(self.gathering.syncs_of_recorder(self.begun.elapsed()));
        self.keep(rest)?;
        self.gathered.sort_by_key(|one| (order(one.name), one.after_s));
        let input = load(&self.dir, 0.0, &|name, _| is_of_schema(name))?;
        let texts = self.gathered.iter().map(|one| Noted {
            title: format!("{}, {} s after", one.title, one.after_s),
            file: file_of(one),
            text: one.answer.as_ref().map(|(text, _)| text.as_str()).map_err(String::as_str),
        });
        let report = EventReport {
            input: &input,
            at: self.at_us as f64 / 1e6 - input.began(),
            when: show_date(self.at_us),
            cause: &self.cause.word,
            why: &self.cause.why,
            findings: &self.findings(),
            also: &self.also,
            texts: &texts.collect::<Vec<_>>(),
        };
        let page = self.dir.join(PAGE);
        write(&page, &report.page())?;
        Ok(page.display().to_string())
    }

    /// Returns who blocked whom, of the first round that shows it.
    fn findings(&self) -> Vec<String> {
        let mut times: Vec<u64> = self.gathered.iter().map(|one| one.after_s).collect();
        times.sort_unstable();
        times.dedup();
        let of = |after_s: u64| {
            let rows = |name: &str| {
                let asked = self.gathered.iter().filter(|one| one.after_s == after_s && one.name == name);
                asked
                    .filter_map(|one| one.answer.as_ref().ok())
                    .map(|(_, rows)| rows.clone())
                    .next()
                    .unwrap_or_default()
            };
            let (processes, lock_waits, metadata) = (rows(PROCESSES), rows(LOCK_WAITS), rows(METADATA));
            let found = blockers::findings(&Answers { processes, lock_waits, metadata });
            found.into_iter().map(|said| format!("{after_s} s after: {said}.")).collect::<Vec<_>>()
        };
        times.into_iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

fn file_of(one: &Gathered) -> String {
    format!("{}-{:02}s.txt", one.name, one.after_s)
}

/// What tells most comes first.
fn order(name: &str) -> usize {
    let names = [PROCESSES, LOCK_WAITS, METADATA, "transactions", "innodb-status", "syncs", "stacks"];
    names.iter().position(|known| *known == name).unwrap_or(names.len())
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}
