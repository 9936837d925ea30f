//! The operating system's files and clock.

use crate::{Clock, Create, Disk, File, OpenMode, Vfs};
use rustix::fs::{self, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// `f_type` of file systems that live in memory.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// An open file of the operating system.
#[derive(Debug)]
pub struct OsFile {
    fd: OwnedFd,
    direct: bool,
}

/// The operating system's clock and random numbers.
#[derive(Debug)]
pub struct OsClock {
    start: Instant,
}

impl Vfs {
    /// The operating system.
    #[must_use]
    pub fn os() -> Vfs {
        Vfs { disk: Arc::new(OsDisk), clock: Arc::new(OsClock { start: Instant::now() }) }
    }
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

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    loop {
        match fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let flags = flags(mode);
        if mode.direct {
            match open(path, flags | OFlags::DIRECT) {
                Ok(fd) => return Ok(Arc::new(OsFile { fd, direct: true })),
                // The file system refuses direct I/O. With O_EXCL the file exists by now, made by this very call.
                Err(Errno::INVAL) => {
                    let fd = open(path, flags - OFlags::EXCL)?;
                    return Ok(Arc::new(OsFile { fd, direct: false }));
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Arc::new(OsFile { fd: open(path, flags)?, direct: false }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Ok(fs::mkdir(path, Mode::RWXU)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(fs::rename(from, to)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(fs::unlinkat(fs::CWD, path, AtFlags::empty())?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
        Ok(fs::fsync(&fd)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let fd = open(path, flags(mode))?;
        match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(fd)),
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
            Err(e) => Err(e.into()),
        }
    }

    fn is_durable(&self, dir: &Path) -> bool {
        fs::statfs(dir).is_ok_and(|s| !MEMORY_FILE_SYSTEMS.contains(&(s.f_type as u64)))
    }
}

/// Repeats `step` until `total` bytes are done; it is given how many are, and says how many more it did.
fn all(total: usize, mut step: impl FnMut(usize) -> rustix::io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < total {
        match step(done) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

impl File for OsFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        all(bytes.len(), |done| rustix::io::pread(&self.fd, &mut bytes[done..], offset + done as u64))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        all(bytes.len(), |done| rustix::io::pwrite(&self.fd, &bytes[done..], offset + done as u64))
    }

    fn sync(&self) -> io::Result<()> {
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
        Ok(fs::ftruncate(&self.fd, len)?)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fs::fallocate(&self.fd, flags, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn is_direct(&self) -> bool {
        self.direct
    }
}

impl Clock for OsClock {
    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    fn random_u64(&self) -> u64 {
        let mut bytes = [0u8; 8];
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => u64::from_le_bytes(bytes),
            // Only ids come from here, so the clock's low bits serve where the system has no generator.
            _ => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64),
        }
    }

    fn memory_bytes(&self) -> u64 {
        crate::machine::memory_bytes()
    }

    fn cores(&self) -> u32 {
        crate::machine::cores()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::aligned::AlignedBuf;

    struct Dir(std::path::PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("millpond-vfs-{name}-{}", std::process::id()));
            OsDisk.create_dir(&dir).unwrap();
            Dir(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };

    #[test]
    fn what_is_written_is_read_and_a_short_file_says_so() {
        let dir = Dir::new("rw");
        let file = OsDisk.open(&dir.0.join("f"), NEW).unwrap();
        let mut buf = AlignedBuf::zeroed(8192);
        buf.fill(7);
        file.write_at(&buf, 4096).unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 12288);
        let mut back = AlignedBuf::zeroed(8192);
        file.read_at(&mut back, 4096).unwrap();
        assert_eq!(&buf[..], &back[..]);
        assert_eq!(file.read_at(&mut back, 8192).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        file.punch(4096, 4096).unwrap();
        file.read_at(&mut back, 4096).unwrap();
        assert_eq!(back[4096..], buf[4096..]);
    }

    #[test]
    fn names_links_and_locks() {
        let dir = Dir::new("names");
        let (a, b, link) = (dir.0.join("a"), dir.0.join("b"), dir.0.join("link"));
        drop(OsDisk.open(&a, NEW).unwrap());
        assert_eq!(OsDisk.open(&a, NEW).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        OsDisk.rename(&a, &b).unwrap();
        OsDisk.sync_dir(&dir.0).unwrap();
        std::os::unix::fs::symlink(&b, &link).unwrap();
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        assert!(OsDisk.open(&link, mode).is_err(), "a symbolic link is not followed");
        assert_eq!(OsDisk.list(&dir.0).unwrap(), ["b", "link"]);
        let held = OsDisk.lock(&dir.0.join("LOCK")).unwrap();
        assert_eq!(OsDisk.lock(&dir.0.join("LOCK")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        OsDisk.lock(&dir.0.join("LOCK")).unwrap();
    }
}
