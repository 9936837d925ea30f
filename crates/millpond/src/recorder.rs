//! The flight recorder (Ob4): a thread of its own writes a sample of all metrics to the file
//! `recorder`, once a second, in a ring of 8 MiB. So the last hours can be read while the database
//! is open, and after a crash. The format is [`metrics::recording`].
//!
//! Nothing is synced: a killed process leaves all of it, a power cut may take the last half minute.
//! A failure, such as a full disk, is counted and stops the recorder for a minute, and stops
//! nothing else. So the recorder's file is not part of the fail-stop disk ([`vfs::fail_stop`]), and
//! the recorder goes on when the database is poisoned.

use crate::error::{Error, Result};
use metrics::recording::{Moment, Recording, Unreadable, Writer};
use metrics::{M, Metrics, Snapshot};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfs::{Create, File, OpenMode, Vfs};

/// The name of the file.
const NAME: &str = "recorder";
/// The name of a file that another version has made, or that is damaged. The last one is kept.
const OLD_NAME: &str = "recorder.old";
/// Chunks of a new file: 8 MiB.
const CHUNKS: u32 = 32;
/// No sample is tried for so long after a failure.
const RETRY_US: u64 = 60_000_000;
/// A file that is longer is no recording, bytes.
const LENGTH_MAX: u64 = 1 << 30;

/// The recorder of an open database.
#[derive(Debug)]
pub(crate) struct Recorder {
    vfs: Vfs,
    dir: PathBuf,
    db_id: u64,
    interval_us: u64,
    metrics: Arc<Metrics>,
    open: Option<OpenRecording>,
    /// When the next sample is due, microseconds of the clock.
    next_us: u64,
}

/// The file, and what writes to it.
#[derive(Debug)]
struct OpenRecording {
    file: Arc<dyn File>,
    writer: Writer,
    /// The end of what was written, bytes.
    length: u64,
}

impl OpenRecording {
    /// Whether the ring has come to its last chunk: it grows no more but by that.
    fn is_whole(&self) -> bool {
        self.length > Writer::length(CHUNKS - 1)
    }
}

impl Recorder {
    /// Makes the recorder of the database in `dir`. REQUIRES: `vfs` is without the latch of the
    /// first failure.
    pub(crate) fn new(
        vfs: &Vfs,
        dir: &Path,
        db_id: u64,
        interval: Duration,
        metrics: &Arc<Metrics>,
    ) -> Recorder {
        Recorder {
            vfs: vfs.clone(),
            dir: dir.to_owned(),
            db_id,
            interval_us: u64::try_from(interval.as_micros()).unwrap_or(u64::MAX),
            metrics: Arc::clone(metrics),
            open: None,
            next_us: 0,
        }
    }

    /// Takes a sample if one is due. Returns the microseconds until the next one. A ring that is
    /// not whole gets samples only if it `may_grow`: what is left of a full disk is for others
    /// (INV-27).
    pub(crate) fn step(&mut self, may_grow: bool, snapshot: impl FnOnce() -> Snapshot) -> u64 {
        let now_us = self.vfs.clock.now_us();
        if now_us < self.next_us {
            return self.next_us - now_us;
        }
        // Samples that are late by a whole interval are left out.
        let due = self.next_us + self.interval_us;
        self.next_us = if due > now_us { due } else { now_us + self.interval_us };
        if self.sample(may_grow, snapshot).is_err() {
            self.next_us = self.next_us.max(now_us + RETRY_US);
        }
        self.next_us - now_us
    }

    /// Takes a sample now. After a failure the next one is after the last that is whole.
    pub(crate) fn sample(&mut self, may_grow: bool, snapshot: impl FnOnce() -> Snapshot) -> Result {
        let began_us = self.vfs.clock.now_us();
        let sampled = self.write(began_us, may_grow, snapshot);
        match &sampled {
            Ok(bytes) => {
                self.metrics.add(M::RecorderSamples, 1);
                self.metrics.add(M::RecorderBytes, *bytes);
            }
            Err(_) => {
                self.open = None;
                self.metrics.add(M::RecorderFailures, 1);
            }
        }
        self.metrics.add(M::RecorderUsTotal, self.vfs.clock.now_us().saturating_sub(began_us));
        sampled.map(drop)
    }

    fn write(&mut self, clock_us: u64, may_grow: bool, snapshot: impl FnOnce() -> Snapshot) -> Result<u64> {
        let path = self.dir.join(NAME);
        if self.open.is_none() {
            self.open = self.continued()?;
        }
        if !may_grow && !self.open.as_ref().is_some_and(OpenRecording::is_whole) {
            return Err(Error::DiskFull { file: path });
        }
        if self.open.is_none() {
            self.open = Some(self.begun()?);
        }
        let Some(OpenRecording { file, writer, length }) = &mut self.open else { return Ok(0) };
        let when = Moment { clock_us, unix_seconds: self.vfs.clock.unix_seconds() };
        let piece = writer.sample(when, &snapshot());
        file.write_at(&piece.bytes, piece.offset).map_err(|e| Error::io("write", &path, e))?;
        *length = (*length).max(piece.offset + piece.bytes.len() as u64);
        Ok(piece.bytes.len() as u64)
    }

    /// Opens the file to continue it. `None` if there is none that can be continued.
    fn continued(&self) -> Result<Option<OpenRecording>> {
        let path = self.dir.join(NAME);
        let mode = OpenMode { create: Create::Never, direct: false, read_only: false };
        match self.vfs.disk.open(&path, mode) {
            Ok(file) => {
                let mut failed = None;
                let writer = Writer::resume(self.db_id, |offset, length| {
                    read_part(&*file, offset, length).unwrap_or_else(|e| {
                        failed = Some(e);
                        Vec::new()
                    })
                });
                if let Some(e) = failed {
                    return Err(Error::io("read", &path, e));
                }
                if let Some(writer) = writer {
                    let length = file.len().map_err(|e| Error::io("read", &path, e))?;
                    return Ok(Some(OpenRecording { file, writer, length }));
                }
                let old = self.dir.join(OLD_NAME);
                self.vfs.disk.rename(&path, &old).map_err(|e| Error::io("rename", &path, e))?;
                Ok(None)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("open", &path, e)),
        }
    }

    /// Makes a new file.
    fn begun(&self) -> Result<OpenRecording> {
        let path = self.dir.join(NAME);
        let mode = OpenMode { create: Create::New, direct: false, read_only: false };
        let (head, writer) = Writer::create(self.db_id, CHUNKS);
        let file = self.vfs.disk.open(&path, mode).map_err(|e| Error::io("create", &path, e))?;
        file.write_at(&head, 0).map_err(|e| Error::io("write", &path, e))?;
        Ok(OpenRecording { file, writer, length: head.len() as u64 })
    }
}

/// Reads a part of a file; less where it ends.
fn read_part(file: &dyn File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let there = file.len()?.saturating_sub(offset).min(length as u64);
    let mut bytes = vec![0; there as usize];
    if there > 0 {
        file.read_at(&mut bytes, offset)?;
    }
    Ok(bytes)
}

/// Reads the recording of the database in `dir`, also one that is open.
pub(crate) fn read(vfs: &Vfs, dir: &Path) -> Result<Recording> {
    let path = dir.join(NAME);
    let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
    let file = vfs.disk.open(&path, mode).map_err(|e| Error::io("open", &path, e))?;
    let length = file.len().map_err(|e| Error::io("read", &path, e))?;
    if !(1..=LENGTH_MAX).contains(&length) {
        let what = format!("it is no recording of metrics: its length is {length} bytes");
        return Err(Error::corrupt(&path, what));
    }
    let bytes = read_part(&*file, 0, length as usize).map_err(|e| Error::io("read", &path, e))?;
    Recording::new(bytes).map_err(|why| match why {
        Unreadable::Damaged => Error::corrupt(&path, why.to_string()),
        Unreadable::OtherVersion => Error::Foreign { file: path, what: why.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::mem::MemDisk;

    const DB: u64 = 9;
    const INTERVAL: Duration = Duration::from_micros(50);

    /// A recorder on a disk in memory, and the time that passes.
    struct Rig {
        disk: MemDisk,
        vfs: Vfs,
        metrics: Arc<Metrics>,
    }

    impl Rig {
        fn new() -> Rig {
            let disk = MemDisk::default();
            let vfs = disk.vfs(1);
            vfs.disk.create_dir(Path::new("/db")).unwrap();
            Rig { disk, vfs, metrics: Arc::new(Metrics::new()) }
        }

        fn recorder(&self) -> Recorder {
            Recorder::new(&self.vfs, Path::new("/db"), DB, INTERVAL, &self.metrics)
        }

        /// Adds a commit and takes a sample.
        fn sample(&self, recorder: &mut Recorder) -> Result {
            self.metrics.add(M::Commits, 1);
            recorder.sample(true, || self.metrics.snapshot())
        }

        /// Returns the commits of all samples on the disk.
        fn commits(&self) -> Vec<u64> {
            let recording = read(&self.vfs, Path::new("/db")).unwrap();
            recording.samples().map(|sample| sample.metrics.value(M::Commits)).collect()
        }
    }

    #[test]
    fn samples_are_taken_when_they_are_due() {
        let rig = Rig::new();
        let mut recorder = rig.recorder();
        // Each look at the clock of this disk is a microsecond later than the one before.
        for _ in 0..3_000 {
            let pause_us = recorder.step(true, || rig.metrics.snapshot());
            assert!((1..=50).contains(&pause_us));
        }
        let (taken, now_us) = (rig.metrics.get(M::RecorderSamples), rig.vfs.clock.now_us());
        assert!((now_us / 50..=now_us / 50 + 1).contains(&taken), "{taken} samples in {now_us} µs");
        assert!(rig.metrics.get(M::RecorderBytes) > 0 && rig.metrics.get(M::RecorderUsTotal) > 0);
    }

    #[test]
    fn a_later_open_continues_the_file() {
        let rig = Rig::new();
        for _ in 0..3 {
            rig.sample(&mut rig.recorder()).unwrap();
        }
        let recording = read(&rig.vfs, Path::new("/db")).unwrap();
        let sessions: Vec<u64> = recording.samples().map(|sample| sample.session).collect();
        assert_eq!((rig.commits(), sessions), (vec![1, 2, 3], vec![0, 1, 2]));
    }

    #[test]
    fn a_full_disk_is_counted_and_later_samples_are_after_the_last_whole_one() {
        let rig = Rig::new();
        let mut recorder = rig.recorder();
        rig.sample(&mut recorder).unwrap();
        // Room for a part of a sample.
        rig.disk.limit(Some(rig.disk.used() + 10));
        assert!(matches!(rig.sample(&mut recorder), Err(Error::DiskFull { .. })));
        assert_eq!(rig.metrics.get(M::RecorderFailures), 1);
        assert_eq!(rig.commits(), [1]);
        rig.disk.limit(None);
        rig.sample(&mut recorder).unwrap();
        assert_eq!(rig.commits(), [1, 3]);
        rig.disk.limit(Some(rig.disk.used()));
        recorder.next_us = 0;
        assert!(recorder.step(true, || rig.metrics.snapshot()) > RETRY_US / 2, "it rests");
    }

    /// It took what was left of the ballast of a full disk, which hardening needed.
    #[test]
    fn a_ring_that_is_not_whole_grows_only_if_it_may() {
        let rig = Rig::new();
        let snapshot = || rig.metrics.snapshot();
        let used = rig.disk.used();
        assert!(matches!(rig.recorder().sample(false, snapshot), Err(Error::DiskFull { .. })));
        assert_eq!(rig.disk.used(), used, "not even a file");
        let mut recorder = rig.recorder();
        rig.sample(&mut recorder).unwrap();
        let used = rig.disk.used();
        for _ in 0..3 {
            assert!(recorder.sample(false, snapshot).is_err());
        }
        assert_eq!(rig.disk.used(), used);
        assert_eq!(rig.metrics.get(M::RecorderFailures), 4);
        let mut open = recorder.continued().unwrap().unwrap();
        open.length = Writer::length(CHUNKS - 1) + 1;
        recorder.open = Some(open);
        recorder.sample(false, snapshot).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_continued_is_kept_under_another_name() {
        let rig = Rig::new();
        rig.sample(&mut rig.recorder()).unwrap();
        rig.disk.flip(Path::new("/db/recorder"), 30, 1).unwrap();
        let error = read(&rig.vfs, Path::new("/db")).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        rig.sample(&mut rig.recorder()).unwrap();
        assert_eq!(rig.vfs.disk.list(Path::new("/db")).unwrap(), [NAME, OLD_NAME]);
        assert_eq!(rig.commits(), [2]);
    }
}
