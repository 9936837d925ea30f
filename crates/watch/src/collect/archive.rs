//! The file of a collection: `stats.jsonl`, one JSON object a line.
//!
//! The first line is the head. `{"columns": [[name, unit, kind], ...]}` names more columns, counted
//! from 0 on through the file. `{"time": s, "values": [[column, value], ...]}` is a sample: only
//! what has changed since the one before; `null` if a value is no longer there; `late_ms` if it was
//! complete later than a tenth of a second after its time. `{"time": s, "event": e, "why": w}` says
//! that the target is gone, refuses, is back, or restarted, or that the clock was set. A last line
//! that was cut off is left out.

use super::sink::Sink;
use crate::sources::About;
use output::failure::{Failure, Outcome};
use output::samples::{ColumnKind, Samples, Values, in_order};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// The name of the file.
pub(crate) const STATS: &str = "stats.jsonl";
/// The end of the year 9999, seconds since 1970. A greater time is in another unit.
const LAST_TIME: f64 = 253_402_300_799.0;
const FORMAT: &str = "millpond stats 1";

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    format: String,
    program: String,
    target: String,
    version: String,
    /// Figures of the schema that the target does not have, with the reason.
    absent: BTreeMap<String, String>,
}

impl Head {
    /// Makes the head of a target.
    pub(crate) fn new(about: &About) -> Head {
        let absent = about
            .origins
            .iter()
            .filter_map(|(name, source)| Some(((*name).to_owned(), source.as_ref().err()?.clone())));
        Head {
            format: FORMAT.to_owned(),
            program: concat!("millpond ", env!("CARGO_PKG_VERSION")).to_owned(),
            target: about.target.clone(),
            version: about.version.clone(),
            absent: absent.collect(),
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Line {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<(String, String, ColumnKind)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Vec<(usize, Option<f64>)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Writes the file, line by line.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    /// The end of the last whole line, bytes.
    whole: u64,
    columns: HashMap<String, usize>,
    last: Vec<Option<f64>>,
}

impl Writer {
    /// Begins the file, which is empty.
    pub(crate) fn begin(file: File, path: &Path, head: &Head) -> Outcome<Writer> {
        let (columns, last) = (HashMap::new(), Vec::new());
        let mut writer = Writer { file, path: path.to_owned(), whole: 0, columns, last };
        writer.line(head)?;
        Ok(writer)
    }

    /// Writes a line. If the disk is full, the file is cut back to its whole lines.
    fn line(&mut self, line: &impl Serialize) -> Outcome {
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        match self.file.write_all(text.as_bytes()) {
            Ok(()) => {
                self.whole += text.len() as u64;
                Ok(())
            }
            Err(e) => {
                let _ = self.file.set_len(self.whole);
                Err(Failure::failed(format!(
                    "cannot write {}: {e}; what was collected before is whole",
                    self.path.display()
                )))
            }
        }
    }
}

impl Sink for Writer {
    fn sample(&mut self, unix_us: u64, late_ms: Option<u64>, values: Values) -> Outcome {
        let mut now = vec![None; self.last.len()];
        let mut new = Vec::new();
        for (name, unit, kind, value) in values {
            let at = *self.columns.entry(name.clone()).or_insert_with(|| {
                new.push((name, unit.to_owned(), kind));
                now.push(None);
                now.len() - 1
            });
            now[at] = now[at].or(Some(value).filter(|value| value.is_finite()));
        }
        self.last.resize(now.len(), None);
        let changed = now.iter().zip(&self.last).enumerate().filter(|(_, (now, last))| now != last);
        let changed = changed.map(|(at, (now, _))| (at, *now)).collect();
        if !new.is_empty() {
            self.line(&Line { columns: new, ..Line::default() })?;
        }
        let time = Some(unix_us as f64 / 1e6);
        self.line(&Line { time, late_ms, values: Some(changed), ..Line::default() })?;
        self.last = now;
        Ok(())
    }

    fn event(&mut self, unix_us: u64, event: &str, why: &str) -> Outcome {
        let (event, why) = (Some(event.to_owned()), Some(why.to_owned()));
        self.line(&Line { time: Some(unix_us as f64 / 1e6), event, why, ..Line::default() })
    }
}

/// A collection that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Archive {
    /// What was looked at.
    pub(crate) target: String,
    /// Whose server and which version.
    pub(crate) version: String,
    /// Figures that the target does not have, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// The samples; seconds since 1970.
    pub(crate) samples: Samples,
    /// Late samples: when, and by how many milliseconds.
    pub(crate) late: Vec<(f64, u64)>,
    /// What happened: when, what, why.
    pub(crate) events: Vec<(f64, String, String)>,
}

impl Archive {
    /// Reads the collection in a directory; of the columns only those that are wanted.
    pub(crate) fn read(dir: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Outcome<Archive> {
        let path = dir.join(STATS);
        let cannot = |e: std::io::Error| Failure::misuse(format!("cannot read {}: {e}", path.display()));
        let file = BufReader::new(File::open(&path).map_err(cannot)?);
        let lines = file.split(b'\n').map(|line| line.map_err(cannot));
        Archive::parse(lines, wanted, &path.display().to_string())
    }

    /// Reads the lines of a file of this name.
    pub(crate) fn parse(
        lines: impl Iterator<Item = Outcome<Vec<u8>>>,
        wanted: &dyn Fn(&str, &str) -> bool,
        name: &str,
    ) -> Outcome<Archive> {
        match Archive::parse_whole_lines(lines, wanted, name)? {
            (archive, None) => Ok(archive),
            (_, Some(damage)) => Err(damage),
        }
    }

    /// Reads the lines of a file until the first that is damaged; the second is what is wrong with
    /// it. Fails if that is the head.
    pub(crate) fn parse_whole_lines(
        mut lines: impl Iterator<Item = Outcome<Vec<u8>>>,
        wanted: &dyn Fn(&str, &str) -> bool,
        name: &str,
    ) -> Outcome<(Archive, Option<Failure>)> {
        let first = lines.next().transpose()?.unwrap_or_default();
        let head: Head = serde_json::from_slice(&first)
            .ok()
            .filter(|head: &Head| head.format == FORMAT)
            .ok_or_else(|| Failure::misuse(format!("{name} is no collection that this version can read")))?;
        let mut archive = Archive {
            target: head.target,
            version: head.version,
            absent: head.absent,
            samples: Samples::new(),
            late: Vec::new(),
            events: Vec::new(),
        };
        let damage = parse(&mut archive, lines, wanted, name).err();
        Ok((archive, damage))
    }

    /// Says in a line what the collection holds.
    pub(crate) fn summary(&self) -> String {
        let mut out = format!("{} samples of {}, {}", self.samples.seconds.len(), self.target, self.version);
        if let Some(most) = self.late.iter().map(|(_, ms)| ms).max() {
            let _ = write!(out, "; {} late, by up to {most} ms", self.late.len());
        }
        for (event, said) in [("gone", "gone"), ("refused", "refused"), ("clock", "the clock was set")] {
            match self.events.iter().filter(|(_, other, _)| other == event).count() {
                0 => {}
                1 => drop(write!(out, "; {said} once")),
                n => drop(write!(out, "; {said} {n} times")),
            }
        }
        if !self.absent.is_empty() {
            let _ = write!(out, "; {} figures are not there, figures.txt says why", self.absent.len());
        }
        out
    }
}

/// Reads the lines after the head into an archive. What comes before an error is in it.
fn parse(
    archive: &mut Archive,
    lines: impl Iterator<Item = Outcome<Vec<u8>>>,
    wanted: &dyn Fn(&str, &str) -> bool,
    name: &str,
) -> Outcome {
    // Of the events and of the samples, in the order of the file.
    let mut times: Vec<(bool, f64)> = Vec::new();
    let outcome = parse_lines(archive, &mut times, lines, wanted, name);
    put_in_order(archive, &times);
    outcome
}

fn parse_lines(
    archive: &mut Archive,
    times: &mut Vec<(bool, f64)>,
    lines: impl Iterator<Item = Outcome<Vec<u8>>>,
    wanted: &dyn Fn(&str, &str) -> bool,
    name: &str,
) -> Outcome {
    let mut columns: Vec<(String, String, ColumnKind, Option<f64>)> = Vec::new();
    let mut broken = None;
    for (number, line) in lines.enumerate() {
        let line = line?;
        if let Some(at) = broken {
            return Err(Failure::failed(format!("line {at} of {name} is damaged")));
        }
        let Ok(line) = serde_json::from_slice::<Line>(&line) else {
            // If it is the last one, it was cut off.
            broken = Some(number + 2);
            continue;
        };
        columns.extend(line.columns.into_iter().map(|(name, unit, kind)| (name, unit, kind, None)));
        let Some(time) = line.time else { continue };
        if !(0.0..=LAST_TIME).contains(&time) {
            return Err(Failure::misuse(format!(
                "line {} of {name}: the time {time} is no number of seconds since 1970",
                number + 2
            )));
        }
        if let Some(event) = line.event {
            times.push((true, time));
            archive.events.push((time, event, line.why.unwrap_or_default()));
        }
        let Some(values) = line.values else { continue };
        for (at, value) in values {
            if let Some(column) = columns.get_mut(at) {
                column.3 = value;
            }
        }
        times.push((false, time));
        archive.late.extend(line.late_ms.map(|ms| (time, ms)));
        let present = columns.iter().filter(|column| wanted(&column.0, &column.1));
        archive.samples.push_known(
            time,
            present.filter_map(|(name, unit, kind, value)| {
                Some((name.as_str(), unit.as_str(), *kind, (*value)?))
            }),
        );
    }
    Ok(())
}

/// Puts events and samples in order, where the clock was set back.
fn put_in_order(archive: &mut Archive, times: &[(bool, f64)]) {
    let mut moved: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    in_order(&mut moved);
    let of = |events: bool| {
        times.iter().zip(&moved).filter(move |((event, _), _)| *event == events).map(|(_, time)| *time)
    };
    archive.events.iter_mut().zip(of(true)).for_each(|(event, time)| event.0 = time);
    archive.samples.seconds.iter_mut().zip(of(false)).for_each(|(second, time)| *second = time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use expect_test::expect;
    use output::samples::ColumnKind::{Counter, Gauge};

    fn about() -> About {
        About {
            target: "mysql://db/".into(),
            version: "MariaDB 10.11.19".into(),
            configuration: Vec::new(),
            origins: vec![("commits", Ok("com_commit".into())), ("log_fsyncs", Err("not shown".into()))],
            refusals: Vec::new(),
        }
    }

    fn values(commits: f64, age: f64) -> Values {
        vec![
            ("commits".into(), "count", Counter, commits),
            ("age".into(), "bytes", Gauge, age),
            ("age".into(), "bytes", Gauge, 1e9),
        ]
    }

    fn written(scratch: &Scratch) -> String {
        let path = scratch.0.join(STATS);
        let file = File::create_new(&path).unwrap();
        let mut writer = Writer::begin(file, &path, &Head::new(&about())).unwrap();
        writer.sample(1_000_000, None, values(10.0, 5.0)).unwrap();
        writer.sample(2_000_000, Some(120), values(20.0, 5.0)).unwrap();
        writer.event(3_000_000, "gone", "no answer").unwrap();
        let late = vec![("commits".into(), "count", Counter, 1.0), ("new".into(), "", Gauge, 0.5)];
        writer.sample(5_000_000, None, late).unwrap();
        std::fs::read_to_string(scratch.0.join(STATS)).unwrap()
    }

    #[test]
    fn a_collection_comes_back() {
        let scratch = Scratch::new("archive");
        let text = written(&scratch);
        expect![[r#"
            {"format":"millpond stats 1","program":"millpond 0.1.0","target":"mysql://db/","version":"MariaDB 10.11.19","absent":{"log_fsyncs":"not shown"}}
            {"columns":[["commits","count","counter"],["age","bytes","gauge"]]}
            {"time":1.0,"values":[[0,10.0],[1,5.0]]}
            {"time":2.0,"late_ms":120,"values":[[0,20.0]]}
            {"time":3.0,"event":"gone","why":"no answer"}
            {"columns":[["new","","gauge"]]}
            {"time":5.0,"values":[[0,1.0],[1,null],[2,0.5]]}
        "#]].assert_eq(&text);
        let archive = Archive::read(&scratch.0, &|_, _| true).unwrap();
        assert_eq!(archive.samples.level("age")[..2], [(1.0, Some(5.0)), (2.0, Some(5.0))]);
        assert_eq!(archive.samples.rate("commits")[0], (2.0, Some(10.0)));
        assert_eq!(archive.samples.last("new"), Some(0.5));
        assert_eq!(archive.samples.last("age"), None);
        assert_eq!(archive.late, [(2.0, 120)]);
        assert_eq!(archive.events, [(3.0, "gone".to_owned(), "no answer".to_owned())]);
        assert_eq!(archive.absent["log_fsyncs"], "not shown");
        expect!["3 samples of mysql://db/, MariaDB 10.11.19; 1 late, by up to 120 ms; gone once; 1 figures are not there, figures.txt says why"].assert_eq(&archive.summary());
        let some = Archive::read(&scratch.0, &|name, _| name == "age").unwrap();
        assert_eq!(some.samples.columns.keys().collect::<Vec<_>>(), ["age"]);
    }

    /// `plot` panicked.
    #[test]
    fn times_in_milliseconds_are_named_and_times_that_go_back_are_put_in_order() {
        let scratch = Scratch::new("archive-times");
        let text = written(&scratch);
        let milliseconds = text.replace("\"time\":2.0", "\"time\":1764264000000");
        std::fs::write(scratch.0.join(STATS), milliseconds).unwrap();
        let Err(Failure::Misuse(why)) = Archive::read(&scratch.0, &|_, _| true) else { panic!() };
        assert!(why.contains("line 4 of") && why.contains("the time 1764264000000 is no number of"), "{why}");
        std::fs::write(scratch.0.join(STATS), text.replace("\"time\":5.0", "\"time\":1.5")).unwrap();
        let archive = Archive::read(&scratch.0, &|_, _| true).unwrap();
        assert_eq!((archive.samples.seconds, archive.events[0].0), (vec![-1.5, -0.5, 1.5], 0.5));
    }

    #[test]
    fn a_file_that_was_cut_off_has_all_whole_lines_and_damage_is_named() {
        let scratch = Scratch::new("archive-cut");
        let text = written(&scratch);
        let head = text.find('\n').unwrap();
        for end in head..text.len() {
            std::fs::write(scratch.0.join(STATS), &text[..end]).unwrap();
            assert!(Archive::read(&scratch.0, &|_, _| true).is_ok(), "{end}");
        }
        let damaged = text.replacen("\"values\"", "\"valu", 1);
        std::fs::write(scratch.0.join(STATS), damaged).unwrap();
        let Err(Failure::Failed(why)) = Archive::read(&scratch.0, &|_, _| true) else { panic!() };
        assert!(why.contains("line 3 of"), "{why}");
        std::fs::write(scratch.0.join(STATS), "{\"format\":\"other\"}\n").unwrap();
        assert!(matches!(Archive::read(&scratch.0, &|_, _| true), Err(Failure::Misuse(_))));
    }
}
