//! A file on which a device is measured. All of it has been written before, so a write changes no
//! structure of the file system.

use crate::raw_io::{open_uncached, timed};
use base::aligned::AlignedBuf;
use base::prng::Prng;
use rustix::fs::{Advice, fadvise};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file is filled in pieces of this size, bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Each sector of a device has this size or a smaller one, bytes.
pub(crate) const SECTOR_BYTES: usize = 4096;

/// The file.
pub(crate) struct TestFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    direct: bool,
}

impl TestFile {
    /// Makes it with `bytes` of random content. It bypasses the page cache if the file system can
    /// do that and is `durable`: one in memory says that it can. `progress` gets the share that is
    /// written.
    pub(crate) fn make(
        path: &Path,
        bytes: u64,
        durable: bool,
        mut progress: impl FnMut(f64),
    ) -> io::Result<TestFile> {
        let (file, direct) = open(path, durable)?;
        let test = TestFile { file, path: path.to_owned(), bytes, direct };
        let mut piece = random_bytes(PIECE_BYTES);
        for at in (0..bytes).step_by(PIECE_BYTES) {
            stamp(&mut piece, at);
            test.file.write_all_at(&piece, at)?;
            progress(at as f64 / bytes as f64);
        }
        test.file.sync_all()?;
        Ok(test)
    }

    /// Returns whether reads and writes bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns how many blocks of a size it has.
    pub(crate) fn blocks(&self, block_bytes: usize) -> u64 {
        self.bytes / block_bytes as u64
    }

    /// Reads from the device and returns how long that took.
    pub(crate) fn read(&self, block: &mut [u8], at: u64) -> io::Result<Duration> {
        if !self.direct {
            // Best effort: a file system in memory has no other place for it.
            let _ = fadvise(&self.file, at, NonZeroU64::new(block.len() as u64), Advice::DontNeed);
        }
        timed(|| self.file.read_exact_at(block, at))
    }

    /// Writes to the device and returns how long that took. Where the page cache cannot be
    /// bypassed, a sync belongs to the write: else only memory would be written.
    pub(crate) fn write(&self, block: &[u8], at: u64) -> io::Result<Duration> {
        timed(|| {
            self.file.write_all_at(block, at)?;
            if self.direct { Ok(()) } else { self.file.sync_data() }
        })
    }

    /// Flushes what the device may have in a cache, and returns how long that took.
    pub(crate) fn flush(&self) -> io::Result<Duration> {
        timed(|| self.file.sync_data())
    }

    /// Opens the file once more, with these further flags of `open`.
    pub(crate) fn opened_with(&self, flags: rustix::fs::OFlags) -> io::Result<TestFile> {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = if self.direct { flags | rustix::fs::OFlags::DIRECT } else { flags };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(flags.bits() as i32).open(&self.path)?;
        Ok(TestFile { file, path: self.path.clone(), bytes: self.bytes, direct: self.direct })
    }
}

/// Makes the file. Some file systems open a file for direct I/O and refuse the first write.
fn open(path: &Path, durable: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    if !durable {
        return Ok((options.open(path)?, false));
    }
    let (file, direct) = open_uncached(&options, path)?;
    match file.write_all_at(&AlignedBuf::zeroed(SECTOR_BYTES), 0) {
        Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
            Ok((options.open(path)?, false))
        }
        written => written.map(|()| (file, direct)),
    }
}

/// Returns bytes that no device can compress.
pub(crate) fn random_bytes(bytes: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(bytes);
    Prng::new(bytes as u64).fill(&mut buffer);
    buffer
}

/// Makes each sector of a block another one than any before, so that no device finds the same
/// content twice.
pub(crate) fn stamp(block: &mut [u8], number: u64) {
    for (sector, n) in block.chunks_mut(SECTOR_BYTES).zip(0u64..) {
        let mark = number.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let len = sector.len().min(mark.len());
        sector[..len].copy_from_slice(&mark[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::is_memory;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_written_is_read_and_the_file_keeps_its_size() {
        let scratch = Scratch::new("test-file");
        let path = scratch.0.join("file");
        let test = TestFile::make(&path, 4 << 20, !is_memory(&scratch.0), |_| ()).unwrap();
        assert_eq!((test.blocks(4096), test.blocks(1 << 20)), (1024, 4));
        let mut block = random_bytes(16384);
        stamp(&mut block, 99);
        test.write(&block, 3 * 16384).unwrap();
        test.flush().unwrap();
        let mut read = AlignedBuf::zeroed(16384);
        let again = test.opened_with(rustix::fs::OFlags::DSYNC).unwrap();
        again.read(&mut read, 3 * 16384).unwrap();
        assert_eq!(read[..], block[..]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 << 20);
    }

    #[test]
    fn no_two_sectors_are_equal() {
        let mut block = AlignedBuf::zeroed(4 * SECTOR_BYTES);
        stamp(&mut block, 1);
        let sectors: Vec<&[u8]> = block.chunks(SECTOR_BYTES).collect();
        assert!(sectors.windows(2).all(|two| two[0] != two[1]));
    }
}
