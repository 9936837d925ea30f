//! The bare device, which some benchmarks compare the engine with.

use super::random;
use crate::raw_io::{filled, in_threads, open_uncached};
use base::aligned::AlignedBuf;
use output::failure::{Failure, Outcome};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: usize = 4096;
/// A segment file of the log, bytes.
const SEGMENT_BYTES: usize = 4 << 20;
/// How many files [`Device::makes_files`] makes.
const SEGMENTS: usize = 8;
/// [`Device::reads_files`] reads pieces of this size, bytes, so many at a time.
const PIECE_BYTES: usize = 4 << 20;
const READERS: u32 = 4;

/// A zero-written file whose blocks are overwritten one after the other, without the page cache if
/// possible.
pub(super) struct Device {
    file: File,
    block: AlignedBuf,
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("the file that stands for the bare device: {error}"))
}

impl Device {
    /// Makes the file.
    pub(super) fn new(path: &Path) -> Outcome<Device> {
        Device::make(path).map_err(failed)
    }

    fn make(path: &Path) -> io::Result<Device> {
        let zeros = File::create(path)?;
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            zeros.write_all_at(&vec![0; 1 << 20], at)?;
        }
        zeros.sync_all()?;
        let (file, _) = open_uncached(OpenOptions::new().write(true), path)?;
        Ok(Device { file, block: filled(BLOCK_BYTES) })
    }

    /// Overwrites the `n`-th block durably.
    pub(super) fn write(&mut self, n: u64) -> Outcome {
        self.block[0] = n as u8;
        let written = self.file.write_all_at(&self.block, n * BLOCK_BYTES as u64 % FILE_BYTES);
        written.and_then(|()| self.file.sync_data()).map_err(failed)
    }

    /// Writes so many bytes sequentially, makes them durable, and reads them. Returns MB/s of the
    /// write and of the read.
    pub(super) fn sequential(path: &Path, bytes: u64) -> Outcome<(f64, f64)> {
        write_and_read(path, bytes).map_err(failed)
    }

    /// Reads blocks of the file at random places for so long, as many at a time as there are
    /// `threads`, without the page cache if possible. Returns the reads a second.
    pub(super) fn random_reads(file: &Path, block: usize, threads: u32, time: Duration) -> Outcome<f64> {
        read_at_random(file, block, threads, time).map_err(failed)
    }

    /// Reads so many bytes of the files, several pieces at a time, without the page cache if
    /// possible. Returns how long that took.
    pub(super) fn reads_files(files: &[PathBuf], bytes: u64) -> Outcome<Duration> {
        read_files(files, bytes).map_err(failed)
    }

    /// Makes files in `dir` as the log makes its segments: written with zeros, synced, then named.
    /// Returns the rate, MB/s.
    pub(super) fn makes_files(dir: &Path) -> Outcome<f64> {
        make_files(dir).map_err(failed)
    }
}

fn write_and_read(path: &Path, bytes: u64) -> io::Result<(f64, f64)> {
    let (file, _) =
        open_uncached(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)?;
    let mut large = filled(1 << 20);
    let rate = |start: Instant| bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for at in (0..bytes).step_by(1 << 20) {
        file.write_all_at(&large, at)?;
    }
    file.sync_data()?;
    let written = rate(start);
    let start = Instant::now();
    for at in (0..bytes).step_by(1 << 20) {
        file.read_exact_at(&mut large, at)?;
    }
    Ok((written, rate(start)))
}

fn read_at_random(path: &Path, block: usize, threads: u32, time: Duration) -> io::Result<f64> {
    let (file, _) = open_uncached(OpenOptions::new().read(true), path)?;
    let blocks = (file.metadata()?.len() / block as u64).max(1);
    let start = Instant::now();
    let read = |seed: u32| -> io::Result<u64> {
        let (mut buffer, mut random, mut reads) = (AlignedBuf::zeroed(block), u64::from(seed), 0);
        while start.elapsed() < time {
            file.read_exact_at(&mut buffer, random::next(&mut random) % blocks * block as u64)?;
            reads += 1;
        }
        Ok(reads)
    };
    let reads = in_threads(threads, read)?.into_iter().sum::<u64>();
    Ok(reads as f64 / start.elapsed().as_secs_f64())
}

fn read_files(files: &[PathBuf], bytes: u64) -> io::Result<Duration> {
    let mut pieces = Vec::new();
    for path in files {
        let len = path.metadata()?.len();
        pieces.extend((0..len).step_by(PIECE_BYTES).map(|at| (path, at, (len - at).min(PIECE_BYTES as u64))));
    }
    let (next, taken) = (AtomicUsize::new(0), AtomicU64::new(0));
    let read = |_| -> io::Result<()> {
        let mut buffer = AlignedBuf::zeroed(PIECE_BYTES);
        while let Some(&(path, at, len)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            if taken.fetch_add(len, Ordering::Relaxed) >= bytes {
                break;
            }
            let (file, _) = open_uncached(OpenOptions::new().read(true), path)?;
            file.read_exact_at(&mut buffer[..len as usize], at)?;
        }
        Ok(())
    };
    let start = Instant::now();
    in_threads(READERS, read)?;
    Ok(start.elapsed())
}

fn make_files(dir: &Path) -> io::Result<f64> {
    let zeros = vec![0; SEGMENT_BYTES];
    let start = Instant::now();
    for n in 0..SEGMENTS {
        let (draft, name) = (dir.join(format!("{n}.new")), dir.join(n.to_string()));
        let file = File::create(&draft)?;
        file.write_all_at(&zeros, 0)?;
        file.sync_data()?;
        std::fs::rename(&draft, &name)?;
        File::open(dir)?.sync_all()?;
    }
    let rate = (SEGMENTS * SEGMENT_BYTES) as f64 / 1e6 / start.elapsed().as_secs_f64();
    (0..SEGMENTS).try_for_each(|n| std::fs::remove_file(dir.join(n.to_string())))?;
    Ok(rate)
}
