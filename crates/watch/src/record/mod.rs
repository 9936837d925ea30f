//! `millpond record`: a flight recorder for a server, which keeps the last days and has a limit.
//!
//! A recording is a directory of segments of ten minutes. A segment is a file like that of a
//! collection; one that is complete is compressed. `segments` has their names, and says which are
//! too many; it is pure. `directory` finds them, `ring` writes, `reader` reads.

mod directory;
mod reader;
mod ring;
mod segments;
#[cfg(test)]
mod tests;

pub(crate) use directory::MARK;
pub(crate) use reader::{last_hour, newest};
pub(crate) use segments::Limits;

use crate::collect::{Archive, Collector, Head, RealClock, pause};
use crate::sources::{self, Source};
use client::LoginFlags;
use output::failure::{Failure, Outcome};
use output::stop;
use ring::Ring;
use std::path::Path;
use std::time::Duration;

/// A target that is not there is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Records until Ctrl-C. A target that is not there is waited for, at the begin too.
pub(crate) fn run(target: &str, login: &LoginFlags, dir: &Path, limits: Limits) -> Outcome {
    let place = Ring::claim(dir, target)?;
    let Some(mut source) = wait_for(target, login)? else { return Ok(()) };
    let mut ring = Ring::begin(place, Head::new(source.about()), limits)?;
    ring.settings(&source.about().configuration)?;
    let mut clock = RealClock;
    let mut collector = Collector::new(source.as_mut(), &mut clock, &mut ring, u64::MAX);
    let outcome = collector.every_second();
    let samples = collector.samples();
    ring.end()?;
    // Ctrl-C before the first second was over is no failure of a recorder.
    if stop::asked() && samples == 0 { Ok(()) } else { outcome }
}

/// Reads samples and events from `from` until `until`, seconds since 1970; of the columns only
/// those that are wanted. What of that time cannot be read is said on the standard error stream.
pub(crate) fn read(
    dir: &Path,
    from: f64,
    until: f64,
    wanted: &dyn Fn(&str, &str) -> bool,
) -> Outcome<Archive> {
    let part = reader::read(dir, from, until, wanted)?;
    for missing in &part.missing {
        eprintln!("millpond: {missing}");
    }
    Ok(part.archive)
}

/// Fails if a directory cannot be that of a recording.
pub(crate) fn try_place(dir: &Path, target: &str) -> Outcome {
    Ring::claim(dir, target).map(drop)
}

/// Opens the target, as soon as it is there; `None` if the user does not want to wait any more.
fn wait_for(target: &str, login: &LoginFlags) -> Outcome<Option<Box<dyn Source>>> {
    let mut said = false;
    while !stop::asked() {
        match sources::open(target, login) {
            Ok(source) => return Ok(Some(source)),
            Err(Failure::Failed(why)) => {
                if !said {
                    eprintln!("millpond: {why}; trying again");
                }
                said = true;
            }
            Err(misuse) => return Err(misuse),
        }
        pause(AGAIN);
    }
    Ok(None)
}
