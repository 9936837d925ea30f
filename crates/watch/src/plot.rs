//! What `millpond plot` draws: collections, the flight recorders of databases, and the samples of
//! run reports, all as samples over seconds.

use crate::collect::{Archive, CONFIGURATION, STATS};
use crate::record::{self, MARK};
use crate::sources;
use output::existing::readable_directory;
use output::failure::{Failure, Outcome};
use output::samples::{Samples, in_order};
use std::collections::BTreeMap;
use std::path::Path;

/// The samples of a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name in plots: the last part of the path.
    pub(crate) label: String,
    /// The directory.
    pub(crate) path: String,
    /// What was looked at.
    pub(crate) target: String,
    /// Whose server and which version.
    pub(crate) version: String,
    /// When its first sample was taken, seconds since 1970; 0 if that is not known.
    pub(crate) began: f64,
    /// The samples, from 0 s on.
    pub samples: Samples,
    /// How many samples were late, and by up to how many milliseconds.
    pub(crate) late: (usize, u64),
    /// What happened: when, what, why.
    pub(crate) events: Vec<(f64, String, String)>,
    /// Figures that the target does not have, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// The settings of a collection's target.
    pub(crate) settings: BTreeMap<String, String>,
}

impl Input {
    /// Returns when the first sample was taken, seconds since 1970.
    pub(crate) fn began(&self) -> f64 {
        self.began
    }

    /// Makes an input of samples that belong to no directory.
    pub(crate) fn of_samples(samples: Samples) -> Input {
        Input { samples, ..empty(Path::new(""), String::new(), String::new()) }
    }
}

/// Which columns are read: those for which this says so, by name and unit.
pub(crate) type Wanted<'w> = &'w dyn Fn(&str, &str) -> bool;

/// A part of the past: from when until when, microseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) from_us: Option<u64>,
    pub(crate) until_us: Option<u64>,
}

impl Window {
    fn from(self) -> f64 {
        self.from_us.map_or(f64::NEG_INFINITY, |us| us as f64 / 1e6)
    }

    fn until(self) -> f64 {
        self.until_us.map_or(f64::INFINITY, |us| us as f64 / 1e6)
    }

    /// Whether it has a moment, seconds since 1970.
    pub(crate) fn contains(self, seconds: f64) -> bool {
        (self.from()..=self.until()).contains(&seconds)
    }

    /// Whether nothing says which part.
    pub(crate) fn is_all(self) -> bool {
        self.from_us.is_none() && self.until_us.is_none()
    }
}

/// Says whether a directory is one of kept samples, and not of a database that may be open.
pub(crate) fn is_recorded(dir: &Path) -> bool {
    dir.join(MARK).exists() || dir.join(STATS).exists()
}

/// Reads a directory, without its first `skip` seconds.
pub fn load(dir: &Path, skip: f64, wanted: Wanted<'_>) -> Outcome<Input> {
    load_part(dir, Window::default(), skip, wanted)
}

/// Reads a part of a directory, without its first `skip` seconds. Of a recording it is the last
/// hour, unless the window says something else.
pub(crate) fn load_part(dir: &Path, window: Window, skip: f64, wanted: Wanted<'_>) -> Outcome<Input> {
    let name = dir.display().to_string();
    readable_directory(dir)?;
    let part = if dir.join(MARK).exists() {
        // Only the segments of the window are read.
        of_recording(dir, window, wanted)?
    } else {
        within(whole(dir, wanted)?, window)?
    };
    let input = from_second(part, skip);
    if input.samples.seconds.is_empty() {
        let why = if skip > 0.0 { format!(" after its first {skip} s") } else { String::new() };
        return Err(Failure::misuse(format!("{name} has no samples{why}")));
    }
    Ok(input)
}

/// Reads all of a directory.
fn whole(dir: &Path, wanted: Wanted<'_>) -> Outcome<Input> {
    if dir.join(STATS).exists() {
        of_collection(dir, wanted)
    } else if dir.join("recorder").exists() {
        of_recorder(dir)
    } else if dir.join("samples.json").exists() {
        of_report(dir)
    } else {
        Err(Failure::misuse(format!(
            "{} is neither a collection ({STATS}), nor a recording, nor a database with a flight recorder, nor a run report",
            dir.display()
        )))
    }
}

fn empty(dir: &Path, target: String, version: String) -> Input {
    let label = dir.components().next_back().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let path = dir.display().to_string();
    Input {
        label: label.filter(|label| label != "." && label != "..").unwrap_or_else(|| path.clone()),
        path,
        target,
        version,
        began: 0.0,
        samples: Samples::new(),
        late: (0, 0),
        events: Vec::new(),
        absent: BTreeMap::new(),
        settings: BTreeMap::new(),
    }
}

fn of_collection(dir: &Path, wanted: Wanted<'_>) -> Outcome<Input> {
    Ok(of_archive(dir, Archive::read(dir, wanted)?))
}

fn of_archive(dir: &Path, archive: Archive) -> Input {
    let mut input = empty(dir, archive.target, archive.version);
    input.late = (archive.late.len(), archive.late.iter().map(|(_, ms)| *ms).max().unwrap_or(0));
    (input.samples, input.events, input.absent) = (archive.samples, archive.events, archive.absent);
    // A collection by hand may have no settings.
    let settings = std::fs::read(dir.join(CONFIGURATION)).unwrap_or_default();
    let settings = String::from_utf8_lossy(&settings);
    input.settings = settings.lines().filter_map(|line| line.split_once(' ')).map(owned).collect();
    input
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Reads the flight recorder of a database, which another process may have open.
fn of_recorder(dir: &Path) -> Outcome<Input> {
    let recording = sources::recording(dir)?;
    let mut input = empty(dir, dir.display().to_string(), "Millpond".to_owned());
    let (mut session, mut events) = (None, Vec::new());
    for (at, sample) in recording.samples().enumerate() {
        if session.is_some_and(|before| before != sample.session) {
            events.push((at, "opened", "counters begin again"));
        }
        session = Some(sample.session);
        if sample.after_gap {
            events.push((at, "gap", "samples before it are damaged"));
        }
        input.samples.push(sample.unix_us as f64 / 1e6, sources::schema_of_millpond(&sample.metrics));
    }
    // A clock may have been set while the database was closed.
    in_order(&mut input.samples.seconds);
    let event = |(at, what, why): (usize, &str, &str)| {
        Some((*input.samples.seconds.get(at)?, what.to_owned(), why.to_owned()))
    };
    input.events = events.into_iter().filter_map(event).collect();
    input.absent = sources::absent_in_millpond();
    Ok(input)
}

fn of_report(dir: &Path) -> Outcome<Input> {
    let path = dir.join("samples.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Failure::misuse(format!("cannot read {}: {e}", path.display())))?;
    let samples = Samples::parse(&text)
        .map_err(|why| Failure::misuse(format!("{} cannot be read: {why}", path.display())))?;
    Ok(Input { samples, ..empty(dir, dir.display().to_string(), "Millpond".to_owned()) })
}

/// Reads a recording.
fn of_recording(dir: &Path, window: Window, wanted: Wanted<'_>) -> Outcome<Input> {
    let from = if window.is_all() { record::last_hour(dir)? } else { window.from() };
    let archive = record::read(dir, from, window.until(), wanted)?;
    Ok(of_archive(dir, archive))
}

/// Leaves out what is not in a window.
fn within(mut input: Input, window: Window) -> Outcome<Input> {
    if window.is_all() {
        return Ok(input);
    }
    if input.samples.seconds.first().is_some_and(|first| *first < ABSOLUTE) {
        let why = format!("{} is a run report, and does not know when it was made", input.path);
        return Err(Failure::misuse(why));
    }
    let (from, until) = (window.from(), window.until());
    input.samples.keep(from, until);
    input.events.retain(|(at, ..)| (from..=until).contains(at));
    Ok(input)
}

/// Times of samples above this are seconds since 1970.
const ABSOLUTE: f64 = 1e6;

/// Cuts the first seconds off, and counts time from there.
fn from_second(mut input: Input, skip: f64) -> Input {
    let first = input.samples.seconds.first().copied().unwrap_or(0.0);
    // The samples of a run report are counted from the beginning of the run.
    let zero = if first > ABSOLUTE { first } else { 0.0 };
    let from = zero + skip;
    input.samples.keep(from, f64::INFINITY);
    input.samples.seconds.iter_mut().for_each(|seconds| *seconds -= from);
    input.events.retain(|(seconds, ..)| *seconds >= from);
    input.events.iter_mut().for_each(|event| event.0 -= from);
    input.began = if zero > 0.0 { from } else { 0.0 };
    input
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::collect::WORKLOAD_UNIT;
    use crate::scratch::Scratch;
    use output::samples::ColumnKind::{Counter, Gauge};

    /// Three samples whose values grow with `factor`.
    pub(crate) fn input(label: &str, factor: f64) -> Input {
        let mut input = empty(Path::new(label), "mysql://db/".into(), "MariaDB 10.11.19".into());
        input.absent.insert("log_fsyncs".into(), "not shown".into());
        for second in 0..3 {
            let grown = factor * f64::from(second);
            let values = vec![
                ("tps".into(), WORKLOAD_UNIT, Gauge, 7.0 * factor),
                ("commits".into(), "count", Counter, 100.0 * grown),
                ("checkpoint_age_bytes".into(), "bytes", Gauge, 1e6 * grown),
                ("checkpoint_age_limit".into(), "bytes", Gauge, 4e6),
                ("dirty_pages".into(), "pages", Gauge, 10.0 * grown),
                ("lru_pages".into(), "pages", Gauge, 50.0),
                ("free_frames".into(), "pages", Gauge, 30.0),
                ("pages_written_by_force.adaptive".into(), "pages", Counter, 20.0 * grown),
                ("pages_written_by_force.sync".into(), "pages", Counter, 0.0),
                ("redo_bytes_written".into(), "bytes", Counter, 3e6 * grown),
            ];
            input.samples.push(f64::from(second), values);
        }
        input
    }

    #[test]
    fn the_first_seconds_are_cut_off_and_time_begins_there() {
        let mut input = empty(Path::new("/data/run/"), "t".into(), "v".into());
        assert_eq!(input.label, "run");
        for second in 0..5 {
            let at = 1_700_000_000.0 + f64::from(second);
            input.samples.push(at, vec![("x".into(), "", Gauge, f64::from(second))]);
            input.events.push((at, "gone".into(), String::new()));
        }
        let cut = from_second(input, 2.0);
        assert_eq!(cut.samples.level("x"), [(0.0, Some(2.0)), (1.0, Some(3.0)), (2.0, Some(4.0))]);
        assert_eq!((cut.events.len(), cut.events[0].0, cut.began), (3, 0.0, 1_700_000_002.0));
    }

    #[test]
    fn what_is_no_input_is_named() {
        let scratch = Scratch::new("plot");
        let why = |dir: &Path| match load(dir, 0.0, &|_, _| true) {
            Err(Failure::Misuse(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(why(&scratch.0).contains("is neither a collection"));
        assert!(why(&scratch.0.join("no")).contains("there is no directory"));
        // A directory that may not be read was said to be no collection. Root may read all, so a
        // file stands for it.
        std::fs::write(scratch.0.join("file"), "").unwrap();
        assert!(why(&scratch.0.join("file")).contains("cannot read the directory"));
        std::fs::write(scratch.0.join("samples.json"), "{}").unwrap();
        assert!(why(&scratch.0).contains("samples.json"));
    }

    #[test]
    fn the_flight_recorder_of_a_database_is_an_input() {
        let scratch = Scratch::new("plot-recorder");
        let dir = scratch.0.join("db");
        let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap();
        db.create_table("t").unwrap();
        db.close().unwrap();
        let input = load(&dir, 0.0, &|_, _| true).unwrap();
        assert!(input.samples.last("checkpoint_age_limit").is_some_and(|limit| limit > 0.0));
        assert_eq!(input.label, "db");
        assert!(input.absent.contains_key("statements"));
        assert!(load(&dir, 1e6, &|_, _| true).is_err());
    }
}
