//! Looking at a target: a server is sampled once a second; of a recording, a collection and a
//! flight recorder the samples are there already.

use super::place;
use super::seen::{Seen, is_wanted};
use super::settings::Settings;
use crate::collect::{STATS, next_second};
use crate::plot::{self, Window};
use crate::record::{self, MARK};
use crate::sources::{self, About, Sample, Source};
use client::{LoginFlags, Target};
use output::failure::{Failure, Outcome};
use output::samples::{Samples, Values};
use output::stop;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// How long a server is watched if nothing else is asked for.
const WATCH: Duration = Duration::from_secs(30);
/// How often a wait looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Which time is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Time {
    /// How long a server is watched; of a directory, only the last part.
    pub(crate) watch: Option<Duration>,
    /// A part of the past, of a directory.
    pub(crate) past: Window,
}

/// Looks at a target: a server for as long as `time` says, of a directory the part of what it holds
/// that `time` says, or all; of a recording the last hour.
pub(super) fn look(target: &str, login: &LoginFlags, time: Time) -> Outcome<Seen> {
    let seen = match Target::parse(target).map_err(Failure::misuse)? {
        Target::Server(_) if time.past.is_all() => watched(target, login, time.watch.unwrap_or(WATCH))?,
        Target::Server(_) => {
            let why = "a server says nothing of the past: --from and --until are for the directory of `record` \
                       or `collect`";
            return Err(Failure::misuse(why));
        }
        Target::Directory(dir) if dir.join(MARK).exists() => recorded(&dir, time)?,
        Target::Directory(dir) if dir.join(STATS).exists() => collection(&dir, time)?,
        Target::Directory(dir) => database(&dir, time)?,
    };
    if seen.samples.seconds.len() < 2 {
        return Err(Failure::failed(format!("{target}: there must be two samples to say something")));
    }
    Ok(seen)
}

/// Watches a server. Ctrl-C ends it early; what was seen counts.
fn watched(target: &str, login: &LoginFlags, watch: Duration) -> Outcome<Seen> {
    let mut source = sources::open(target, login)?;
    stop::install();
    let progress = Progress::new("watching", watch);
    let samples = sample_until(source.as_mut(), &mut |_, samples| {
        progress.show(samples.end());
        Ok(samples.end() >= watch.as_secs_f64() || stop::asked())
    })?;
    Ok(seen(source.as_ref(), samples))
}

/// Returns what is known of a server of which there are samples.
pub(super) fn seen(source: &dyn Source, samples: Samples) -> Seen {
    let About { target, version, configuration, origins, .. } = source.about().clone();
    let absent = origins.into_iter().filter_map(|(name, source)| Some((name.to_owned(), source.err()?)));
    let place = place::find(&Settings::new(configuration.clone()));
    let settings = configuration.into_iter().collect();
    Seen { target, version, samples, settings, absent: absent.collect(), place }
}

/// Takes a sample now and then at each whole second, until `enough` says so, which is asked after
/// each sample; keeps the figures that are wanted, over the seconds since now. If Ctrl-C is not
/// among what `enough` looks at, one more sample is taken after it.
pub(super) fn sample_until(
    source: &mut dyn Source,
    enough: &mut dyn FnMut(&Sample, &Samples) -> Outcome<bool>,
) -> Outcome<Samples> {
    let mut samples = Samples::new();
    let began_us = sources::now_us();
    loop {
        let sample = source.sample().map_err(|trouble| Failure::failed(trouble.to_string()))?;
        let passed_us = sample.unix_us.saturating_sub(began_us);
        let values = sample.values.iter().filter(|value| is_wanted(&value.0));
        samples.push_known(
            passed_us as f64 / 1e6,
            values.map(|(name, unit, kind, value)| (name.as_str(), *unit, *kind, *value)),
        );
        if enough(&sample, &samples)? {
            return Ok(samples);
        }
        wait(next_second(sources::now_us()));
    }
}

/// Shows on a terminal how far a wait is; the line is gone when it ends.
pub(super) struct Progress {
    what: String,
    all: Duration,
    shown: bool,
}

impl Progress {
    pub(super) fn new(what: &str, all: Duration) -> Progress {
        Progress { what: what.to_owned(), all, shown: std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&self, seconds: f64) {
        if self.shown {
            let (what, all) = (&self.what, self.all.as_secs());
            let _ = write!(std::io::stderr(), "\r{what}: {seconds:.0} of {all} s ");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r{:60}\r", "");
        }
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// Waits until a moment, or until Ctrl-C.
pub(super) fn wait(until_us: u64) {
    while !stop::asked() {
        let now_us = sources::now_us();
        if now_us >= until_us {
            return;
        }
        std::thread::sleep(LOOK.min(Duration::from_micros(until_us - now_us)));
    }
}

fn wanted(values: Values) -> Values {
    values.into_iter().filter(|value| is_wanted(&value.0)).collect()
}

/// Reads what `record` wrote: the last hour, if nothing says which time.
fn recorded(dir: &Path, time: Time) -> Outcome<Seen> {
    let Time { watch, mut past } = time;
    if let (Some(watch), None) = (watch, past.from_us) {
        // The end of the recording is not before the begin of its newest segment.
        let end_us = past.until_us.map_or_else(|| record::newest(dir).map(|at| (at * 1e6) as u64), Ok)?;
        past.from_us = Some(end_us.saturating_sub(micros(watch)));
    }
    collection(dir, Time { watch, past })
}

/// Reads what `collect` wrote.
fn collection(dir: &Path, time: Time) -> Outcome<Seen> {
    let input = plot::load_part(dir, time.past, 0.0, &|name, _| is_wanted(name))?;
    let plot::Input { target, version, samples, settings, absent, .. } = input;
    let samples = last_part(samples, time.watch);
    Ok(Seen { target, version, samples, settings, absent, place: None })
}

/// Reads the flight recorder of a database, which another process may have open: what it has
/// recorded since the last opening.
fn database(dir: &Path, time: Time) -> Outcome<Seen> {
    let recording = sources::recording(dir)?;
    let inside = |unix_us: u64| time.past.contains(unix_us as f64 / 1e6);
    let of_time = || recording.samples().filter(|sample| inside(sample.unix_us));
    let last = of_time().last().map(|sample| sample.session);
    let mut samples = Samples::new();
    for sample in of_time().filter(|sample| Some(sample.session) == last) {
        samples.push(sample.unix_us as f64 / 1e6, wanted(sources::all_of_millpond(&sample.metrics)));
    }
    output::samples::in_order(&mut samples.seconds);
    Ok(Seen {
        target: dir.display().to_string(),
        version: "Millpond".to_owned(),
        samples: last_part(samples, time.watch),
        settings: std::collections::BTreeMap::new(),
        absent: sources::absent_in_millpond(),
        place: None,
    })
}

/// Keeps the last part of samples.
fn last_part(mut samples: Samples, watch: Option<Duration>) -> Samples {
    let Some(watch) = watch else { return samples };
    samples.keep(samples.end() - watch.as_secs_f64(), f64::INFINITY);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::samples::ColumnKind::Gauge;

    #[test]
    fn the_last_part_of_a_recording_is_kept() {
        let mut samples = Samples::new();
        for second in 0..10 {
            samples.push(f64::from(second), vec![("x".into(), "", Gauge, f64::from(second))]);
        }
        let kept = last_part(samples.clone(), Some(Duration::from_secs(3)));
        assert_eq!(kept.seconds, [6.0, 7.0, 8.0, 9.0]);
        assert_eq!(kept.level("x")[0], (6.0, Some(6.0)));
        assert_eq!(last_part(samples.clone(), None), samples);
    }
}
