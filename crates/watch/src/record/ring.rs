//! Writes a recording: a segment after the other, the complete ones compressed, the oldest deleted.
//!
//! A sample is in the file when its second is over, so a recorder that is killed has lost nothing.
//! What a killed one has left open is compressed by the next.

use super::directory::{MARK, segments};
use super::segments::{Limits, Segment, is_another, too_many};
use crate::claimed::{self, Claimed, Kind};
use crate::collect::{CONFIGURATION, Head, Sink, Writer, configuration};
use flate2::Compression;
use flate2::write::GzEncoder;
use output::failure::{Failure, Outcome};
use output::samples::Values;
use std::fs::{self, File};
use std::path::Path;

const KIND: Kind = Kind { command: "record", what: "recording", mark: MARK, format: "millpond recording 1" };

/// A recording that is written.
pub(super) struct Ring {
    place: Claimed,
    head: Head,
    limits: Limits,
    /// The segment that is written, and its first second.
    current: Option<(u64, Writer)>,
}

impl Ring {
    /// Takes a directory for the recording of a target.
    pub(super) fn claim(dir: &Path, target: &str) -> Outcome<Claimed> {
        claimed::claim(dir, target, KIND)
    }

    /// Begins to write. What a killed recorder has left open is completed first.
    pub(super) fn begin(place: Claimed, head: Head, limits: Limits) -> Outcome<Ring> {
        let ring = Ring { place, head, limits, current: None };
        for segment in segments(&ring.place.dir)?.into_iter().filter(|segment| !segment.complete) {
            ring.complete(segment.from)?;
        }
        Ok(ring)
    }

    /// Writes the settings of the target, those of now.
    pub(super) fn settings(&self, settings: &[(String, String)]) -> Outcome {
        let path = self.place.dir.join(CONFIGURATION);
        fs::write(&path, configuration(settings)).map_err(|e| cannot_write(&path, &e))
    }

    /// Completes the segment that is written.
    pub(super) fn end(mut self) -> Outcome {
        match self.current.take() {
            Some((from, _)) => self.complete(from),
            None => Ok(()),
        }
    }

    /// Returns the writer of the segment of a moment.
    fn writer(&mut self, unix_us: u64) -> Outcome<&mut Writer> {
        let now = unix_us / 1_000_000;
        let (from, writer) = match self.current.take() {
            Some((from, writer)) if !is_another(from, now) => (from, writer),
            before => {
                if let Some((from, _)) = before {
                    self.complete(from)?;
                    self.trim(now)?;
                }
                // A recorder that was started again in the same second has a segment of it already.
                let path = |from| self.place.dir.join(Segment { from, complete: false }.name());
                let done = |from| self.place.dir.join(Segment { from, complete: true }.name());
                let from = (now..).find(|from| !path(*from).exists() && !done(*from).exists());
                let from = from.unwrap_or(now);
                let path = path(from);
                let file = File::create_new(&path).map_err(|e| cannot_write(&path, &e))?;
                (from, Writer::begin(file, &path, &self.head)?)
            }
        };
        Ok(&mut self.current.insert((from, writer)).1)
    }

    /// Compresses a segment. If this is cut off, the next recorder does it again.
    fn complete(&self, from: u64) -> Outcome {
        let open = self.place.dir.join(Segment { from, complete: false }.name());
        let complete = self.place.dir.join(Segment { from, complete: true }.name());
        let new = self.place.dir.join("new.gz");
        let compress = || -> std::io::Result<()> {
            // A recorder was killed, or the disk was full, before its first line.
            if open.metadata()?.len() == 0 {
                return fs::remove_file(&open);
            }
            let mut encoder = GzEncoder::new(File::create(&new)?, Compression::default());
            std::io::copy(&mut File::open(&open)?, &mut encoder)?;
            encoder.finish()?.sync_all()?;
            fs::rename(&new, &complete)?;
            fs::remove_file(&open)
        };
        compress().map_err(|e| cannot_write(&complete, &e))
    }

    /// Deletes the oldest segments, if there are too many.
    fn trim(&self, now: u64) -> Outcome {
        let size = |segment: Segment| {
            let path = self.place.dir.join(segment.name());
            (segment, path.metadata().map_or(0, |file| file.len()))
        };
        let sizes: Vec<(Segment, u64)> = segments(&self.place.dir)?.into_iter().map(size).collect();
        for (segment, _) in &sizes[..too_many(&sizes, now, self.limits)] {
            let path = self.place.dir.join(segment.name());
            fs::remove_file(&path)
                .map_err(|e| Failure::failed(format!("cannot remove {}: {e}", path.display())))?;
        }
        Ok(())
    }
}

impl Sink for Ring {
    fn sample(&mut self, unix_us: u64, late_ms: Option<u64>, values: Values) -> Outcome {
        self.writer(unix_us)?.sample(unix_us, late_ms, values)
    }

    fn event(&mut self, unix_us: u64, event: &str, why: &str) -> Outcome {
        self.writer(unix_us)?.event(unix_us, event, why)
    }
}

fn cannot_write(path: &Path, e: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {e}; what was recorded before is whole", path.display()))
}
