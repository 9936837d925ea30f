//! Reads a part of a recording. A segment that is damaged takes no other with it.

use super::directory::segments;
use super::segments::{SEGMENT, Segment, overlapping};
use crate::collect::Archive;
use flate2::read::GzDecoder;
use output::failure::{Failure, Outcome};
use output::units::show_date;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// A part of a recording, and what of it cannot be read: a sentence for each segment.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) archive: Archive,
    pub(super) missing: Vec<String>,
}

/// Reads samples and events from `from` until `until`, seconds since 1970; of the columns only
/// those that are wanted. Fails if nothing is there, or nothing can be read.
pub(super) fn read(dir: &Path, from: f64, until: f64, wanted: &dyn Fn(&str, &str) -> bool) -> Outcome<Part> {
    let (mut whole, mut missing): (Option<Archive>, Vec<String>) = (None, Vec::new());
    let all = segments(dir)?;
    for segment in overlapping(&all, from, until) {
        let path = dir.join(segment.name());
        let (part, damage) = read_segment(&path, segment, wanted)?;
        let mut events = Vec::new();
        if let Some(why) = damage {
            let begin = part.as_ref().map_or(segment.from as f64, |part| part.samples.end());
            let end = end_of(segment, &all);
            if begin <= until && end >= from {
                missing.push(sentence(&path, &why, begin, end));
                events.push((begin, "gap".to_owned(), format!("its segment is damaged: {why}")));
            }
        }
        match (&mut whole, part) {
            (None, part) => whole = part,
            (Some(whole), Some(part)) => add(whole, part),
            (Some(_), None) => {}
        }
        if let Some(whole) = &mut whole {
            whole.events.extend(events);
        }
    }
    let nothing = || match missing.as_slice() {
        [] => Failure::misuse(format!("{} has no samples of that time", dir.display())),
        some => Failure::misuse(format!("nothing of that time can be read: {}", some.join("; "))),
    };
    let mut archive = whole.ok_or_else(nothing)?;
    cut(&mut archive, from, until);
    if archive.samples.seconds.is_empty() && !missing.is_empty() {
        return Err(nothing());
    }
    Ok(Part { archive, missing })
}

/// Returns about an hour before the end of a recording, seconds since 1970.
pub(crate) fn last_hour(dir: &Path) -> Outcome<f64> {
    Ok(newest(dir)? - (3600 - SEGMENT) as f64)
}

/// Returns when the newest segment of a recording begins, seconds since 1970.
pub(crate) fn newest(dir: &Path) -> Outcome<f64> {
    Ok(segments(dir)?.last().map_or(0.0, |segment| segment.from as f64))
}

/// Reads a segment: what of it is sure, if anything is, and why the rest cannot be read. One that
/// begins to be written, or was given up before its first line, has nothing.
///
/// The sum at the end of a compressed segment is the only proof that its bytes are right. So if one
/// of them was changed, nothing of it is sure, also what comes before the place where it shows. Of
/// a segment that is only cut off, the whole lines before the end are kept.
fn read_segment(
    path: &Path,
    segment: Segment,
    wanted: &dyn Fn(&str, &str) -> bool,
) -> Outcome<(Option<Archive>, Option<String>)> {
    let name = path.display().to_string();
    let cannot = |e: std::io::Error| Failure::misuse(format!("cannot read {name}: {e}"));
    let file = File::open(path).map_err(cannot)?;
    if !segment.complete && file.metadata().map_err(cannot)?.len() == 0 {
        return Ok((None, None));
    }
    let text: Box<dyn Read> = if segment.complete { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let fault = Cell::new(None);
    let lines = BufReader::new(text).split(b'\n').map(|line| {
        line.map_err(|e| {
            fault.set(Some(e.kind()));
            Failure::misuse(match e.kind() {
                ErrorKind::UnexpectedEof => "it is cut off".to_owned(),
                _ => e.to_string(),
            })
        })
    });
    let read = Archive::parse_whole_lines(lines, wanted, &name);
    Ok(match read {
        Ok((archive, None)) => (Some(archive), None),
        Ok((archive, Some(why))) => {
            let cut_off = fault.get() == Some(ErrorKind::UnexpectedEof);
            let sure = (!segment.complete || cut_off) && !archive.samples.seconds.is_empty();
            (sure.then_some(archive), Some(why.to_string()))
        }
        Err(why) => (None, Some(why.to_string())),
    })
}

/// Returns when a segment ends at the latest, seconds since 1970.
fn end_of(segment: Segment, all: &[Segment]) -> f64 {
    let own = (segment.from / SEGMENT + 1) * SEGMENT;
    let next = all.iter().map(|other| other.from).find(|from| *from > segment.from);
    next.map_or(own, |next| next.min(own)) as f64
}

fn sentence(path: &Path, why: &str, begin: f64, end: f64) -> String {
    let date = |seconds: f64| show_date((seconds.max(0.0) * 1e6) as u64);
    format!(
        "{} is damaged ({why}): what it has from {} until {} is left out",
        path.display(),
        date(begin),
        date(end)
    )
}

/// Adds a later part. The target's version is that of the last.
fn add(whole: &mut Archive, part: Archive) {
    (whole.version, whole.absent) = (part.version, part.absent);
    whole.samples.append(&part.samples, 0.0);
    whole.late.extend(part.late);
    whole.events.extend(part.events);
}

/// Leaves out what is not from `from` until `until`.
fn cut(archive: &mut Archive, from: f64, until: f64) {
    archive.samples.keep(from, until);
    let inside = |at: f64| (from..=until).contains(&at);
    archive.late.retain(|(at, _)| inside(*at));
    archive.events.retain(|(at, ..)| inside(*at));
}
