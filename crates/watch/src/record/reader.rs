//! Reads a part of a recording.

use super::directory::segments;
use super::segments::{SEGMENT, overlapping};
use crate::collect::Archive;
use flate2::read::GzDecoder;
use output::failure::{Failure, Outcome};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Reads samples and events from `from` until `until`, seconds since 1970; of the columns only
/// those that are wanted.
pub(crate) fn read(
    dir: &Path,
    from: f64,
    until: f64,
    wanted: &dyn Fn(&str, &str) -> bool,
) -> Outcome<Archive> {
    let mut whole: Option<Archive> = None;
    for segment in overlapping(&segments(dir)?, from, until) {
        let path = dir.join(segment.name());
        let name = path.display().to_string();
        let cannot = |e: std::io::Error| Failure::misuse(format!("cannot read {name}: {e}"));
        let file = File::open(&path).map_err(cannot)?;
        // It begins to be written, or was given up before its first line.
        if file.metadata().map_err(cannot)?.len() == 0 {
            continue;
        }
        let text: Box<dyn Read> =
            if segment.complete { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let lines = BufReader::new(text).split(b'\n').map(|line| line.map_err(cannot));
        let part = Archive::parse(lines, wanted, &name)?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => add(whole, part),
        }
    }
    let mut whole =
        whole.ok_or_else(|| Failure::misuse(format!("{} has no samples of that time", dir.display())))?;
    cut(&mut whole, from, until);
    Ok(whole)
}

/// Returns about an hour before the end of a recording, seconds since 1970.
pub(crate) fn last_hour(dir: &Path) -> Outcome<f64> {
    let newest = segments(dir)?.last().map_or(0, |segment| segment.from);
    Ok(newest.saturating_sub(3600 - SEGMENT) as f64)
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
