//! Reads and writes of a file, 8 KiB each.

use super::timing::{ns_each, ns_each_of};
use crate::test_file::{TestFile, random_bytes, stamp};
use base::aligned::AlignedBuf;
use base::prng::Prng;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a read or a write.
pub(super) const BLOCK_BYTES: usize = 8 << 10;
/// Bytes of the file.
pub(super) const FILE_BYTES: u64 = 256 << 20;
/// Reads and writes between two looks at the clock.
const BATCH: u64 = 32;

/// The file, by way of the page cache and without it.
pub(super) struct Files {
    buffered: File,
    uncached: TestFile,
    block: AlignedBuf,
    /// The next block in order.
    next: u64,
}

impl Files {
    /// Makes the file.
    pub(super) fn make(path: &Path, durable: bool) -> io::Result<Files> {
        let uncached = TestFile::make(path, FILE_BYTES, durable, |_| ())?;
        let buffered = File::options().read(true).write(true).open(path)?;
        Ok(Files { buffered, uncached, block: random_bytes(BLOCK_BYTES), next: 0 })
    }

    /// Returns the nanoseconds of a read in order. The system reads ahead; what it has in the page
    /// cache is dropped before each pass through the file.
    pub(super) fn read_in_order(&mut self) -> io::Result<f64> {
        self.next = 0;
        ns_each(|| {
            if self.next == 0 {
                // Written first, or it cannot be dropped. Memory has no other place for it.
                self.buffered.sync_data()?;
                let _ = fadvise(&self.buffered, 0, None, Advice::DontNeed);
            }
            for _ in 0..BATCH {
                let at = self.next_place();
                self.buffered.read_exact_at(&mut self.block, at)?;
            }
            Ok(BATCH)
        })
    }

    /// Returns the nanoseconds of a read from the device at a random place.
    pub(super) fn read_at_random(&mut self) -> io::Result<f64> {
        let mut places = Prng::new(1);
        ns_each_of(|| {
            let at = places.below(self.uncached.blocks(BLOCK_BYTES)) * BLOCK_BYTES as u64;
            Ok((1, self.uncached.read(&mut self.block, at)?))
        })
    }

    /// Returns the nanoseconds of a write in order into the page cache.
    pub(super) fn write_in_order(&mut self) -> io::Result<f64> {
        ns_each(|| {
            for _ in 0..BATCH {
                self.write_next()?;
            }
            Ok(BATCH)
        })
    }

    /// Returns the nanoseconds of a write and its fsync.
    pub(super) fn write_and_fsync(&mut self) -> io::Result<f64> {
        // What was written before is none of its costs.
        self.buffered.sync_all()?;
        ns_each(|| {
            self.write_next()?;
            self.buffered.sync_all()?;
            Ok(1)
        })
    }

    fn write_next(&mut self) -> io::Result<()> {
        let at = self.next_place();
        stamp(&mut self.block, at);
        self.buffered.write_all_at(&self.block, at)
    }

    /// Returns where the next block in order begins.
    fn next_place(&mut self) -> u64 {
        let at = self.next * BLOCK_BYTES as u64;
        self.next = (self.next + 1) % (FILE_BYTES / BLOCK_BYTES as u64);
        at
    }
}
