//! The virtual file system (VFS): the only access of the engine to files, time and randomness. The
//! engine uses the traits of this module. The operating system and the simulated disk implement
//! them.

mod control_group;
pub mod descriptor_cache;
pub mod ephemeral;
pub mod fail_stop;
pub mod fault;
mod held_dirs;
pub mod intercept;
mod machine;
mod mapping;
pub mod mem;
mod os;
pub mod read_only;
mod rings;
mod transfer;
mod uring;
mod vfs;

pub use vfs::Vfs;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether opening may create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// No: the file must exist.
    Never,
    /// Yes, if it is missing (mode 0600).
    IfMissing,
    /// Yes, and it must not exist yet.
    New,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct OpenMode {
    /// Whether it may be created.
    pub create: Create,
    /// Ask for direct I/O. If the file system refuses it, the file is opened buffered; see
    /// [`File::is_direct`].
    pub direct: bool,
    /// The file will not be written.
    pub read_only: bool,
}

/// What tells a directory from its copies, wherever it is: it stays the same when the directory is
/// renamed, and after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirIdentity {
    /// Its inode number.
    pub number: u64,
    /// When it was made, nanoseconds since 1970; 0 if the file system does not know.
    pub born_ns: u64,
    /// The volume, on a file system whose snapshots have the numbers and times of their originals;
    /// else 0.
    pub volume: u64,
}

impl DirIdentity {
    /// Whether the two can be one directory.
    #[must_use]
    pub fn may_be(self, other: DirIdentity) -> bool {
        let unknown = self.born_ns == 0 || other.born_ns == 0;
        let same_birth = unknown || self.born_ns == other.born_ns;
        self.number == other.number && self.volume == other.volume && same_birth
    }
}

/// How a disk does batches ([`File::read_batch`], [`File::write_batch`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchIo {
    /// With io_uring, many in flight.
    Ring,
    /// With a few threads, because io_uring is not available. Holds the reason.
    Threads(String),
    /// One operation after another.
    OneByOne,
}

/// A tree of directories and files. A path is absolute, or relative to the working directory of the
/// process. A path that begins with that of a held directory ([`Disk::hold`]) begins there,
/// whatever lies at that path now.
///
/// No change by a method here is durable by itself. A created, renamed or removed entry needs
/// [`Disk::sync_dir`] of its directory. A file's bytes and length need [`File::sync`].
///
/// A disk that stands before another names it in [`Disk::beneath`]. Each method that has a default
/// then asks the disk beneath.
pub trait Disk: Send + Sync + Debug {
    /// Returns the disk before which this one stands, if there is one.
    fn beneath(&self) -> Option<&dyn Disk> {
        None
    }
    /// Opens a file. Fails if the last part of the path is a symbolic link.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Creates a directory (mode 0700). Its parent must exist. Fails with `AlreadyExists` if the
    /// directory exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Lets the path of a directory mean the directory to which it leads now, until the result is
    /// dropped. What is renamed, replaced or mounted later, and another working or root directory
    /// of the process, do not matter then. Nothing to do on a disk whose directories never move.
    fn hold(&self, dir: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.beneath().map_or_else(|| Ok(Box::new(()) as _), |disk| disk.hold(dir))
    }
    /// Returns the path by which the same file is found from another working directory.
    fn absolute(&self, path: &Path) -> PathBuf {
        self.beneath().map_or_else(|| path.to_owned(), |disk| disk.absolute(path))
    }
    /// Returns the identity of a directory; `None` if the disk cannot tell directories apart.
    fn identity(&self, dir: &Path) -> io::Result<Option<DirIdentity>> {
        self.beneath().map_or(Ok(None), |disk| disk.identity(dir))
    }
    /// Takes an exclusive lock on a file and creates the file if it is missing. Fails with
    /// `WouldBlock` if it is locked. The lock is held until the result is dropped.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Whether synced data below `dir` survives a power cut: false on a memory file system.
    fn is_durable(&self, dir: &Path) -> bool;
    /// Whether everything on this disk is lost when the process ends, synced or not.
    fn is_ephemeral(&self) -> bool {
        self.beneath().is_some_and(|disk| disk.is_ephemeral())
    }
    /// Raises the number of file descriptors that the process may have: not beyond what the engine
    /// can use, and not beyond what is allowed.
    fn raise_descriptors(&self) {
        if let Some(disk) = self.beneath() {
            disk.raise_descriptors();
        }
    }
    /// Returns how many file descriptors the process may have; `None` if there is no limit.
    fn descriptors(&self) -> Option<usize> {
        self.beneath().and_then(|disk| disk.descriptors())
    }
    /// Returns how batches are done. A disk whose files do them otherwise than those beneath it
    /// says so.
    fn batch_io(&self) -> BatchIo {
        self.beneath().map_or(BatchIo::OneByOne, |disk| disk.batch_io())
    }
}

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub struct WriteOp<'a> {
    /// The offset in the file.
    pub offset: u64,
    /// The bytes to write.
    pub bytes: &'a [u8],
}

/// One read of a batch.
#[derive(Debug)]
pub struct ReadOp<'a> {
    /// The offset in the file.
    pub offset: u64,
    /// The buffer to fill completely.
    pub bytes: &'a mut [u8],
}

#[allow(clippy::len_without_is_empty)] // asking whether a file is empty is never the question
/// An open file. Many threads may call all methods at the same time. With direct I/O, addresses,
/// lengths and offsets must be multiples of [`base::aligned::IO_ALIGN`].
pub trait File: Send + Sync + Debug {
    /// Fills `bytes` from `offset`. Fails with `UnexpectedEof` if the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all `bytes` at `offset`. They are not durable before [`File::sync`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable (fdatasync). After an error the content of the file
    /// is unknown.
    fn sync(&self) -> io::Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Truncates the file to `len` bytes, or extends it with zeros (perhaps a hole).
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Does all reads, in any order, many in flight if the disk can ([`Disk::batch_io`]). After an
    /// error some of the other reads are done and some are not.
    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        ops.iter_mut().try_for_each(|op| self.read_at(op.bytes, op.offset))
    }
    /// Does all writes, as [`File::read_batch`] does reads. The writes of one batch do not overlap.
    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }
    /// Frees the space of a range (punches a hole). The range then reads as zeros. May do nothing.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Whether reads and writes bypass the page cache.
    fn is_direct(&self) -> bool;
    /// Returns the first `len` bytes of the file as memory shared with the page cache, where that
    /// is possible and safe. What is written there outlives the process, as what
    /// [`File::write_at`] has written, and reads of the file see it. Such writes are not in the
    /// order of other operations, and nobody sees that they happen. REQUIRES: the file is not
    /// direct, is at least so long, never gets shorter, and its bytes have been written once.
    fn map(&self, _len: usize) -> Option<Box<dyn SharedBytes>> {
        None
    }
    /// For a file that is not always open ([`descriptor_cache`]): returns a reference that keeps it
    /// open.
    fn opened(&self) -> io::Result<Option<Arc<dyn File>>> {
        Ok(None)
    }
}

/// Bytes of a file that are shared with the page cache ([`File::map`]).
pub trait SharedBytes: Send + Sync + Debug {
    /// Copies `bytes` to `offset`, which are within the length.
    fn write(&mut self, bytes: &[u8], offset: usize);
}

/// Time, randomness, memory and cores of the machine.
pub trait Clock: Send + Sync + Debug {
    /// Returns microseconds since some fixed time. Never goes back.
    fn now_us(&self) -> u64;
    /// Returns seconds since 1970. For labels only.
    fn unix_seconds(&self) -> u64;
    /// Returns random bits for database ids and epochs.
    fn random_u64(&self) -> u64;
    /// Returns the memory that the process may use, bytes.
    fn memory_bytes(&self) -> u64 {
        1 << 30
    }
    /// Returns how many bytes of addresses the process may still take; `None` if there is no limit.
    fn address_bytes(&self) -> Option<u64> {
        None
    }
    /// Returns the number of cores that the process may use.
    fn cores(&self) -> u32 {
        2
    }
    /// Gives memory that the process has freed back to the system. Returns whether that is
    /// possible here. Other threads may wait for an allocation meanwhile.
    fn give_memory_back(&self) -> bool {
        false
    }
}
