//! The operating system's files and clock.

use crate::held_dirs::{At, HeldDirs};
use crate::mapping::Mapping;
use crate::rings::Rings;
use crate::transfer::{Direction, Progress, Transfer};
use crate::uring::RingJob;
use crate::{BatchIo, Clock, Create, DirIdentity, Disk, File, OpenMode, ReadOp, SharedBytes, WriteOp};
use base::sync::{for_each_in_parallel, holds_no_latch};
use rustix::fs::{self, AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// `f_type` of file systems that live in memory.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs

/// `f_type` of file systems that copy a volume as a whole, with numbers and times of its files.
/// Each volume has an id of its own there, which stays the same.
const SNAPSHOT_FILE_SYSTEMS: [u64; 2] = [0x9123_683e, 0x2fc1_2fc1]; // btrfs, zfs

/// The most descriptors that are useful: four times those of a log of 8 GiB.
const DESCRIPTORS: u64 = 8192;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A batch uses one thread for so many operations.
const BATCH_SHARE: usize = 4;
/// The most threads of one batch: a device gains little from more in flight.
const BATCH_THREADS: usize = 16;

/// Files of the operating system. Clones share their rings, locks and held directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct OsDisk {
    rings: Arc<Rings>,
    dirs: HeldDirs,
}

/// An open file of the operating system.
#[derive(Debug)]
struct OsFile {
    fd: OwnedFd,
    direct: bool,
    rings: Arc<Rings>,
}

/// A held lock, and the rings that hold its file open too.
struct OsLock {
    fd: Arc<OwnedFd>,
    rings: Arc<Rings>,
}

impl Drop for OsLock {
    fn drop(&mut self) {
        self.rings.remove_lock(&self.fd);
        // Closing the file is not enough: a ring that is being destroyed still holds it open.
        let _ = fs::flock(&*self.fd, FlockOperation::Unlock);
    }
}

/// The operating system's clock and random numbers.
#[derive(Debug)]
pub(crate) struct OsClock {
    start_us: u64,
}

/// Returns microseconds of the system's monotonic clock. A durable commit reads it seven times, and
/// `Instant` would need three times the instructions for the difference of two readings.
fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It counts from the start of the machine, so it is not negative.
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

impl OsDisk {
    /// Makes a disk that does batches with threads even if the system has io_uring.
    #[cfg(test)]
    fn without_rings() -> OsDisk {
        OsDisk { rings: Arc::new(Rings::none("asked for")), dirs: HeldDirs::default() }
    }

    fn file(&self, fd: OwnedFd, direct: bool) -> Arc<dyn File> {
        Arc::new(OsFile { fd, direct, rings: Arc::clone(&self.rings) })
    }
}

/// Returns how many threads do a batch of `ops` operations without a ring. Starting a thread takes
/// half as long as a write, so each thread gets a few operations.
fn threads_for(ops: usize) -> usize {
    (ops / BATCH_SHARE).clamp(1, BATCH_THREADS)
}

fn flags(mode: OpenMode) -> OFlags {
    let access = if mode.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let create = match mode.create {
        Create::Never => OFlags::empty(),
        Create::IfMissing => OFlags::CREATE,
        Create::New => OFlags::CREATE | OFlags::EXCL,
    };
    access | create | OFlags::CLOEXEC | OFlags::NOFOLLOW
}

/// Opens a file so that reads do not change its access time: otherwise the first read in a day
/// would write to the disk. Only the owner of a file may ask for that.
fn open(at: &At<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    match at.open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => at.open(flags),
        other => other,
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let (at, flags) = (self.dirs.at(path), flags(mode));
        if mode.direct {
            match open(&at, flags | OFlags::DIRECT) {
                Ok(fd) => return Ok(self.file(fd, true)),
                // The file system refuses direct I/O. With O_EXCL this call has already created the
                // file.
                Err(Errno::INVAL) => {
                    let fd = open(&at, flags - OFlags::EXCL)?;
                    return Ok(self.file(fd, false));
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.file(open(&at, flags)?, false))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let at = self.dirs.at(path);
        Ok(fs::mkdirat(at.dir(), at.path(), Mode::RWXU)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let at = self.dirs.at(dir);
        let entries = Dir::new(open(&at, DIRECTORY)?)?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.dirs.at(from), self.dirs.at(to));
        Ok(fs::renameat(from.dir(), from.path(), to.dir(), to.path())?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let at = self.dirs.at(path);
        Ok(fs::unlinkat(at.dir(), at.path(), AtFlags::empty())?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let at = self.dirs.at(dir);
        match at.held() {
            Some(held) => Ok(fs::fsync(held)?),
            None => Ok(fs::fsync(open(&at, DIRECTORY)?)?),
        }
    }

    fn hold(&self, dir: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(self.dirs.hold(dir)?))
    }

    /// If the working directory has no path, the path stays relative: it is good for messages only.
    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    fn identity(&self, dir: &Path) -> io::Result<Option<DirIdentity>> {
        let at = self.dirs.at(dir);
        let fd = match at.held() {
            Some(held) => held.try_clone()?,
            None => at.open(OFlags::PATH | OFlags::CLOEXEC)?,
        };
        let told = fs::statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let knows_birth = StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::BTIME);
        let born = told.stx_btime;
        let born_ns =
            born.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(born.tv_nsec.into());
        let has_volumes = SNAPSHOT_FILE_SYSTEMS.contains(&(fs::fstatfs(&fd)?.f_type as u64));
        Ok(Some(DirIdentity {
            number: told.stx_ino,
            born_ns: if knows_birth { born_ns } else { 0 },
            volume: if has_volumes { fs::fstatvfs(&fd)?.f_fsid } else { 0 },
        }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let fd = open(&self.dirs.at(path), flags(mode))?;
        match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let fd = Arc::new(fd);
                self.rings.add_lock(Arc::clone(&fd));
                Ok(Box::new(OsLock { fd, rings: Arc::clone(&self.rings) }))
            }
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
            Err(e) => Err(e.into()),
        }
    }

    fn is_durable(&self, dir: &Path) -> bool {
        let at = self.dirs.at(dir);
        let found = match at.held() {
            Some(held) => fs::fstatfs(held),
            None => at.open(OFlags::PATH | OFlags::CLOEXEC).and_then(fs::fstatfs),
        };
        found.is_ok_and(|s| !MEMORY_FILE_SYSTEMS.contains(&(s.f_type as u64)))
    }

    /// Raises the soft limit to [`DESCRIPTORS`], or as far as the hard limit allows.
    fn raise_descriptors(&self) {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
        if current.is_some_and(|current| wanted > current) {
            // What is not allowed stays as it is.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        }
    }

    fn descriptors(&self) -> Option<usize> {
        let current = getrlimit(Resource::Nofile).current?;
        Some(usize::try_from(current).unwrap_or(usize::MAX))
    }

    fn batch_io(&self) -> BatchIo {
        match self.rings.support() {
            Ok(()) => BatchIo::Ring,
            Err(why) => BatchIo::Threads(why.to_owned()),
        }
    }
}

impl OsFile {
    fn transfer(
        &self,
        direction: Direction,
        offset: u64,
        len: usize,
        mut request: impl FnMut(&Transfer) -> rustix::io::Result<usize>,
    ) -> io::Result<()> {
        let mut transfer = Transfer::new(direction, offset, len, self.direct);
        while transfer.left() > 0 {
            let answer = request(&transfer);
            match transfer.answered(answer) {
                Progress::Done => break,
                Progress::Again => {}
                Progress::Failed(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl File for OsFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        self.transfer(Direction::Read, offset, bytes.len(), |t| {
            rustix::io::pread(&self.fd, &mut bytes[t.done()..], t.at())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        holds_no_latch();
        self.transfer(Direction::Write, offset, bytes.len(), |t| {
            rustix::io::pwrite(&self.fd, &bytes[t.done()..], t.at())
        })
    }

    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        holds_no_latch();
        if ops.len() > 1 {
            let jobs = ops.iter_mut().filter(|op| !op.bytes.is_empty());
            let mut jobs: Vec<_> = jobs.map(|op| RingJob::read(op.bytes, op.offset, self.direct)).collect();
            if let Some(done) = self.rings.run(self.fd.as_fd(), &mut jobs) {
                return done;
            }
        }
        for_each_in_parallel(ops, threads_for(ops.len()), |op| self.read_at(op.bytes, op.offset))
    }

    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        holds_no_latch();
        if ops.len() > 1 {
            let jobs = ops.iter().filter(|op| !op.bytes.is_empty());
            let mut jobs: Vec<_> = jobs.map(|op| RingJob::write(op.bytes, op.offset, self.direct)).collect();
            if let Some(done) = self.rings.run(self.fd.as_fd(), &mut jobs) {
                return done;
            }
        }
        let mut ops = ops.to_vec();
        let threads = threads_for(ops.len());
        for_each_in_parallel(&mut ops, threads, |op| self.write_at(op.bytes, op.offset))
    }

    fn sync(&self) -> io::Result<()> {
        holds_no_latch();
        loop {
            match fs::fdatasync(&self.fd) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(fs::fstat(&self.fd)?.st_size as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        holds_no_latch();
        Ok(fs::ftruncate(&self.fd, len)?)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        holds_no_latch();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fs::fallocate(&self.fd, flags, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn map(&self, len: usize) -> Option<Box<dyn SharedBytes>> {
        let mapping = if self.direct { None } else { Mapping::new(self.fd.as_fd(), len) };
        mapping.map(|mapping| Box::new(mapping) as Box<dyn SharedBytes>)
    }
}

impl Default for OsClock {
    fn default() -> OsClock {
        OsClock { start_us: monotonic_us() }
    }
}

impl Clock for OsClock {
    fn now_us(&self) -> u64 {
        monotonic_us().saturating_sub(self.start_us)
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    fn random_u64(&self) -> u64 {
        let mut bytes = [0u8; 8];
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => u64::from_le_bytes(bytes),
            // Only ids are drawn here, so the low bits of the clock are enough if the system has no
            // generator.
            _ => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64),
        }
    }

    fn memory_bytes(&self) -> u64 {
        crate::machine::memory_bytes()
    }

    fn address_bytes(&self) -> Option<u64> {
        crate::machine::address_bytes()
    }

    fn cores(&self) -> u32 {
        crate::machine::cores()
    }

    fn give_memory_back(&self) -> bool {
        base::memory::give_back()
    }
}

#[cfg(test)]
mod tests;
