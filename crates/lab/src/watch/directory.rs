//! Samples of a database directory: what its flight recorder has written last. The database may be
//! open in another process; nothing here writes, and no port is needed.

use super::connection::Trouble;
use super::of_millpond;
use super::{About, Sample, Source, now_us};
use crate::failure::{Failure, Outcome};
use crate::run_dir::existing_database;
use millpond::inspect::Recording;
use std::path::{Path, PathBuf};

/// A sample that is older than this says that nobody has the database open, microseconds.
const STALE_US: u64 = 5_000_000;

/// A database directory.
#[derive(Debug)]
pub(super) struct Directory {
    dir: PathBuf,
    about: About,
}

impl Directory {
    /// Looks into a directory. It must be a database with a recording that this version can read.
    pub(super) fn open(dir: &Path) -> Outcome<Directory> {
        let recording = read(dir)?;
        let origins = super::FIGURES.iter().map(|figure| {
            let absent = of_millpond::absent().into_iter().find(|(name, _)| *name == figure.name);
            let missing = recording.missing().iter().any(|name| name == figure.name);
            let source = match absent {
                Some((_, why)) => Err(why.to_owned()),
                None if missing => {
                    Err("the version that has the database open does not record it".to_owned())
                }
                None => Ok("the flight recorder".to_owned()),
            };
            (figure.name, source)
        });
        let about = About {
            target: dir.display().to_string(),
            version: "Millpond".to_owned(),
            configuration: vec![("database".to_owned(), format!("{:016x}", recording.db_id()))],
            origins: origins.collect(),
            refusals: Vec::new(),
        };
        Ok(Directory { dir: dir.to_owned(), about })
    }
}

/// Reads the recording of a database.
pub(crate) fn read(dir: &Path) -> Outcome<Recording> {
    existing_database(dir)?;
    millpond::inspect::recording(dir).map_err(|error| match error {
        millpond::Error::Io { .. } if !dir.join("recorder").exists() => Failure::failed(format!(
            "{} has no file `recorder`: its database was never open with a flight recorder",
            dir.display()
        )),
        other => other.into(),
    })
}

impl Source for Directory {
    fn about(&self) -> &About {
        &self.about
    }

    fn sample(&mut self) -> Result<Sample, Trouble> {
        let gone = |why: String| Trouble::Gone(format!("{}: {why}", self.dir.display()));
        let recording = read(&self.dir).map_err(|failure| gone(failure.to_string()))?;
        let now = now_us();
        let last = recording.newest_samples().last();
        let last = last.ok_or_else(|| gone("its flight recorder has no samples".to_owned()))?;
        // The time of day that the recorder knows is exact to a second.
        if last.unix_us + STALE_US < now {
            let seconds = (now - last.unix_us) / 1_000_000;
            return Err(gone(format!("nobody has the database open: its last sample is {seconds} s old")));
        }
        let values = of_millpond::values(&last.metrics);
        Ok(Sample { engine: Some(Box::new(last.metrics)), ..Sample::new(last.unix_us, values) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// A recording of another version was said to be damaged.
    #[test]
    fn a_recorder_that_cannot_be_read_is_named_with_the_reason() {
        let scratch = Scratch::new("watch-recorder");
        let dir = scratch.0.join("db");
        millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap().close().unwrap();
        let file = dir.join("recorder");
        let whole = std::fs::read(&file).unwrap();
        assert!(Directory::open(&dir).is_ok());
        let newer = [b"MILLREC2", &whole[8..]].concat();
        for (bytes, status, wanted) in [
            (newer, 2, "recorder is a recording of metrics by another version of this program"),
            (b"rubbish".to_vec(), 1, "recorder is damaged: it is no recording of metrics"),
            (Vec::new(), 1, "recorder is damaged: it is no recording of metrics"),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let failure = Directory::open(&dir).unwrap_err();
            assert!(failure.to_string().contains(wanted), "{failure}");
            assert_eq!(matches!(failure, Failure::Misuse(_)), status == 2, "{failure}");
        }
        std::fs::remove_file(&file).unwrap();
        let failure = Directory::open(&dir).unwrap_err();
        assert!(failure.to_string().contains("never open with a flight recorder"), "{failure}");
    }
}
