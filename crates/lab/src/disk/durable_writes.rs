//! Small durable writes: by what is written, by which call makes it durable, alone and in parallel.
//!
//! The writes go through the page cache, as those of logs mostly do.

use super::latencies::{Rates, measure};
use crate::raw_io::timed;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a small record, and of a block.
const RECORD_BYTES: u64 = 128;
const BLOCK_BYTES: u64 = 4096;
/// A file to which records are appended, and one that is overwritten, have at most this size.
const SMALL_BYTES: u64 = 1 << 20;
/// The same of a file that grows by blocks.
const GROWN_BYTES: u64 = 16 << 20;
/// How many threads sync in parallel.
pub(super) const THREADS: [u32; 4] = [2, 4, 8, 16];
/// All files of one measurement have at most this size together.
pub(super) const ALL_BYTES: u64 = 32 << 20;

/// Where a write goes, which decides what the file system must do at its sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// A record at the end of the file, like a binary log.
    Append,
    /// A block in a file that has been written with zeros before, like a redo log.
    Overwrite,
    /// A block in space that `fallocate` has reserved and nobody has written.
    Fallocated,
    /// A block at the end of the file.
    Grow,
}

/// What makes it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Call {
    Fsync,
    Fdatasync,
}

/// Which files threads sync that do it in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Files {
    /// Each its own.
    Own,
    /// All the same one.
    Shared,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DurableWrite {
    pub(super) place: Place,
    pub(super) call: Call,
    pub(super) threads: u32,
    pub(super) files: Files,
}

/// What it gave; `None` if the file system cannot do it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct DurableWriteResult {
    #[serde(flatten)]
    pub(super) write: DurableWrite,
    #[serde(flatten)]
    pub(super) rates: Option<Rates>,
}

/// The two kinds of syncs that are measured in parallel too: those of a redo log, and those of a
/// binary log.
pub(super) const IN_PARALLEL: [(Place, Call); 2] =
    [(Place::Overwrite, Call::Fdatasync), (Place::Append, Call::Fsync)];

/// Returns all measurements.
pub(super) fn plan() -> Vec<DurableWrite> {
    let mut all = Vec::new();
    for place in [Place::Append, Place::Overwrite, Place::Fallocated, Place::Grow] {
        for call in [Call::Fsync, Call::Fdatasync] {
            all.push(DurableWrite { place, call, threads: 1, files: Files::Own });
        }
    }
    for (place, call) in IN_PARALLEL {
        for files in [Files::Own, Files::Shared] {
            all.extend(THREADS.map(|threads| DurableWrite { place, call, threads, files }));
        }
    }
    all
}

impl DurableWrite {
    /// Measures it for `time`, with files in `dir` that it makes and removes.
    pub(super) fn run(self, dir: &Path, time: Duration) -> io::Result<DurableWriteResult> {
        let files = match self.files {
            Files::Own => self.threads,
            Files::Shared => 1,
        };
        let made: io::Result<Vec<Log>> =
            (0..files).map(|n| Log::make(&dir.join(format!("log-{n}")), self.place)).collect();
        let rates = match made {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
            Ok(logs) => {
                File::open(dir)?.sync_all()?;
                let log = |n: u32| &logs[n as usize % logs.len()];
                let worker = |n: u32| move || log(n).write(self.call);
                Some(measure(time, (0..self.threads).map(worker).collect())?)
            }
        };
        (0..files).try_for_each(|n| std::fs::remove_file(dir.join(format!("log-{n}"))))?;
        Ok(DurableWriteResult { write: self, rates })
    }
}

/// A file that is written bit by bit and synced.
struct Log {
    file: File,
    place: Place,
    /// How many writes have begun.
    writes: AtomicU64,
}

impl Log {
    fn make(path: &Path, place: Place) -> io::Result<Log> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let log = Log { file, place, writes: AtomicU64::new(0) };
        log.begin()?;
        log.file.sync_all()?;
        Ok(log)
    }

    /// Gives the file the content with which it begins.
    fn begin(&self) -> io::Result<()> {
        match self.place {
            Place::Append | Place::Grow => self.file.set_len(0),
            Place::Overwrite => self.file.write_all_at(&vec![0; SMALL_BYTES as usize], 0),
            Place::Fallocated => {
                self.file.set_len(0)?;
                match fallocate(&self.file, FallocateFlags::empty(), 0, GROWN_BYTES) {
                    Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
                    done => Ok(done?),
                }
            }
        }
    }

    /// Writes the next bytes, makes them durable and returns how long both took.
    fn write(&self, call: Call) -> io::Result<Duration> {
        let (bytes, limit) = sizes(self.place);
        let n = self.writes.fetch_add(1, Ordering::Relaxed);
        let at = n * bytes % limit;
        // The file has reached its limit, so it begins again.
        if at == 0 && n > 0 && self.place != Place::Overwrite {
            self.begin()?;
        }
        let block = [n as u8 | 1; BLOCK_BYTES as usize];
        timed(|| {
            self.file.write_all_at(&block[..bytes as usize], at)?;
            match call {
                Call::Fsync => self.file.sync_all(),
                Call::Fdatasync => self.file.sync_data(),
            }
        })
    }
}

/// Returns the bytes of a write, and those that the file has at most.
fn sizes(place: Place) -> (u64, u64) {
    match place {
        Place::Append => (RECORD_BYTES, SMALL_BYTES),
        Place::Overwrite => (BLOCK_BYTES, SMALL_BYTES),
        Place::Fallocated | Place::Grow => (BLOCK_BYTES, GROWN_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_plan_has_no_measurement_twice_and_its_files_fit() {
        let plan = plan();
        for (n, one) in plan.iter().enumerate() {
            assert!(!plan[..n].contains(one), "{one:?}");
            assert!(u64::from(one.threads) * sizes(one.place).1 <= ALL_BYTES, "{one:?}");
        }
        assert_eq!(plan.len(), 8 + IN_PARALLEL.len() * 2 * THREADS.len());
    }

    #[test]
    fn a_file_does_not_grow_beyond_its_limit() {
        let scratch = Scratch::new("sync-file");
        let path = scratch.0.join("log");
        for place in [Place::Append, Place::Overwrite, Place::Grow] {
            let log = Log::make(&path, place).unwrap();
            let (bytes, limit) = sizes(place);
            let before_the_end = limit / bytes - 1;
            log.writes.store(before_the_end, Ordering::Relaxed);
            log.write(Call::Fdatasync).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), limit, "{place:?}");
            log.write(Call::Fsync).unwrap();
            let begun_again = if place == Place::Overwrite { limit } else { bytes };
            assert_eq!(std::fs::metadata(&path).unwrap().len(), begun_again, "{place:?}");
        }
    }
}
