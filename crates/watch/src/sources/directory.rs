//! Samples of a database directory: what its flight recorder has written last. The database may be
//! open in another process; nothing here writes, and no port is needed.

use super::clock::now_us;
use super::figures::FIGURES;
use super::liveness::{Look, Newest, Watched, is_locked};
use super::of_millpond;
use super::source::{About, Sample, Source};
use client::Trouble;
use millpond::inspect::{self, Recording};
use output::existing::existing_database;
use output::failure::{Failure, Outcome};
use output::stop;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a recorder is looked at while it is not known whether it is written.
const LOOK: Duration = Duration::from_millis(100);

/// A database directory.
#[derive(Debug)]
pub(super) struct Directory {
    dir: PathBuf,
    about: About,
    /// The beginning of measured time.
    began: Instant,
    /// What was seen of the recorder, if it was seen to be written.
    watched: Option<Watched>,
    /// The date of a sample whose recorder was seen to write nothing.
    silent: Option<u64>,
}

impl Directory {
    /// Looks into a directory. It must be a database with a recording that this version can read.
    pub(super) fn open(dir: &Path) -> Outcome<Directory> {
        let recording = read(dir)?;
        let origins = FIGURES.iter().map(|figure| {
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
        Ok(Directory { dir: dir.to_owned(), about, began: Instant::now(), watched: None, silent: None })
    }

    fn measured_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn gone(&self, why: &str) -> Trouble {
        Trouble::Gone(format!("{}: {why}", self.dir.display()))
    }

    /// Reads the newest sample, and when it was taken.
    fn newest(&self) -> Result<(Newest, inspect::Sample), Trouble> {
        let recording = read(&self.dir).map_err(|failure| self.gone(&failure.to_string()))?;
        let (mut before, mut newest) = (None, None);
        for sample in recording.newest_samples() {
            before = newest.map(|newest: inspect::Sample| (newest.session, newest.unix_us));
            newest = Some(sample);
        }
        let newest = newest.ok_or_else(|| self.gone("its flight recorder has no samples"))?;
        let before = before.filter(|(session, _)| *session == newest.session);
        let interval_us =
            before.map_or(0, |(_, before)| newest.unix_us.saturating_sub(before)).min(LONGEST_US);
        Ok((Newest { recorded_us: newest.unix_us, interval_us }, newest))
    }

    /// Finds out whether the recorder is written, and begins to watch it. Where the lock and the
    /// clocks do not tell, a new sample does.
    fn begin(&mut self) -> Result<inspect::Sample, Trouble> {
        let (first, sample) = self.newest()?;
        let locked = if self.silent == Some(first.recorded_us) { None } else { is_locked(&self.dir) };
        if locked == Some(false) {
            self.silent = Some(first.recorded_us);
            return Err(
                self.gone(&format!("nobody has the database open: {}", dated(first.recorded_us, now_us())))
            );
        }
        if locked == Some(true) && first.is_of_now(now_us()) {
            self.watched = Some(Watched::begin(&first, now_us(), self.measured_us()));
            return Ok(sample);
        }
        // A later call looks once: it comes a second later by itself.
        let patience =
            if self.silent.is_some() { Duration::ZERO } else { Duration::from_micros(first.patience_us()) };
        let from = Instant::now();
        loop {
            let (newest, sample) = self.newest()?;
            let before = self.silent.unwrap_or(first.recorded_us);
            if newest.recorded_us != before {
                self.watched = Some(Watched::begin(&newest, now_us(), self.measured_us()));
                self.silent = None;
                return Ok(sample);
            }
            if from.elapsed() >= patience || stop::asked() {
                self.silent = Some(newest.recorded_us);
                let dated = dated(newest.recorded_us, now_us());
                return Err(self.gone(&format!("its flight recorder writes no new samples: {dated}")));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// No recorder is waited for longer than for two intervals of this, microseconds.
const LONGEST_US: u64 = 60_000_000;

/// Says how old a sample is, if the clock that has dated it was right.
fn dated(recorded_us: u64, now_us: u64) -> String {
    let seconds = now_us.abs_diff(recorded_us) / 1_000_000;
    if recorded_us <= now_us {
        return format!("its last sample is {seconds} s old");
    }
    format!("its last sample is dated {seconds} s in the future, by a clock that was wrong")
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
        let Some(mut watched) = self.watched.take() else {
            let sample = self.begin()?;
            let given_us = self.watched.as_ref().map_or(sample.unix_us, Watched::given_us);
            return Ok(of(given_us, sample));
        };
        let (newest, sample) = match self.newest() {
            Ok(found) => found,
            Err(trouble) => {
                self.silent = None;
                return Err(trouble);
            }
        };
        match watched.look(&newest, now_us(), self.measured_us()) {
            Look::Sample(given_us) => {
                self.watched = Some(watched);
                Ok(of(given_us, sample))
            }
            Look::Silent(us) => {
                self.silent = Some(newest.recorded_us);
                let open = match is_locked(&self.dir) {
                    Some(false) => "nobody has the database open",
                    _ => "the database is open",
                };
                Err(self.gone(&format!(
                    "{open}, and its flight recorder has written nothing for {} s",
                    us / 1_000_000
                )))
            }
        }
    }
}

fn of(given_us: u64, sample: inspect::Sample) -> Sample {
    let values = of_millpond::values(&sample.metrics);
    Sample { engine: Some(Box::new(sample.metrics)), ..Sample::new(given_us, values) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use metrics::Metrics;
    use metrics::recording::{Moment, Writer};
    use std::sync::atomic::Ordering::Relaxed;

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

    /// Writes a recording whose clock is wrong by so many seconds; its last sample is that of this
    /// second of its database's life.
    fn write_recorder(file: &Path, db_id: u64, wrong_s: i64, last_second: u64) {
        let (mut bytes, mut writer) = Writer::create(db_id, 2);
        for second in 0..=last_second {
            let unix_seconds = (now_us() / 1_000_000).saturating_add_signed(wrong_s) + second - last_second;
            let when = Moment { clock_us: second * 1_000_000, unix_seconds };
            let piece = writer.sample(when, &Metrics::new().snapshot());
            bytes.resize(bytes.len().max(piece.offset as usize), 0);
            bytes.truncate(piece.offset as usize);
            bytes.extend(piece.bytes);
        }
        // At once, as no reader may see half of it.
        let half = file.with_extension("half");
        std::fs::write(&half, bytes).unwrap();
        std::fs::rename(half, file).unwrap();
    }

    /// A closed database whose recorder was dated in the future looked open, and a collection of it
    /// waited for ever; an open one whose recorder was dated in the past looked closed.
    #[test]
    fn a_database_is_live_if_it_is_open_whatever_the_clock_of_its_recorder_said() {
        const YEAR: i64 = 365 * 86_400;
        let scratch = Scratch::new("watch-clock");
        let dir = scratch.0.join("db");
        millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir).unwrap().close().unwrap();
        let (file, db_id) = (dir.join("recorder"), read(&dir).unwrap().db_id());
        for (wrong_s, said) in
            [(YEAR, "s in the future, by a clock that was wrong"), (-YEAR, "s old"), (0, "s old")]
        {
            write_recorder(&file, db_id, wrong_s, 3);
            let mut directory = Directory::open(&dir).unwrap();
            for wanted in ["nobody has the database open", "its flight recorder writes no new samples"] {
                let why = directory.sample().unwrap_err().to_string();
                assert!(why.contains(wanted) && why.ends_with(said), "{wrong_s}: {why}");
            }
            // Another process opens it.
            let lock = std::fs::File::open(dir.join("LOCK")).unwrap();
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
            let mut directory = Directory::open(&dir).unwrap();
            let (stop, file) = (std::sync::atomic::AtomicBool::new(false), &file);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for second in (4..).take_while(|_| !stop.load(Relaxed)) {
                        write_recorder(file, db_id, wrong_s, second);
                        std::thread::sleep(LOOK);
                    }
                });
                let sample = std::iter::repeat_with(|| directory.sample()).find_map(Result::ok).unwrap();
                stop.store(true, Relaxed);
                let old_us = now_us() - sample.unix_us;
                assert!(wrong_s == 0 || old_us < 60_000_000, "{wrong_s}: {old_us}");
            });
        }
    }
}
