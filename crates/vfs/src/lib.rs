//! The only door to files, time and randomness. The engine sees the traits of this page; the operating system and the
//! simulated disk implement them.

pub mod between;
pub mod descriptor_cache;
pub mod ephemeral;
pub mod fail_stop;
pub mod fault;
mod machine;
pub mod mem;
pub mod os;
pub mod read_only;
mod rings;
mod transfer;
mod uring;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Whether opening may create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The file must exist.
    Never,
    /// Created if missing (mode 0600).
    IfMissing,
    /// Must not exist yet.
    New,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct OpenMode {
    /// Whether it may be created.
    pub create: Create,
    /// Ask for direct I/O. Where the file system refuses it the file is opened buffered; [`File::is_direct`] tells.
    pub direct: bool,
    /// Nothing will be written.
    pub read_only: bool,
}

/// How a disk does batches ([`File::read_batch`], [`File::write_batch`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchIo {
    /// By io_uring, many in flight.
    Ring,
    /// By a few threads, because io_uring is not to be had: the reason is given.
    Threads(String),
    /// One operation after another.
    OneByOne,
}

/// A tree of directories and files. Paths are absolute or relative to the process, as the caller has them.
///
/// Nothing that a method here changes is durable by itself: a created, renamed or removed entry needs
/// [`Disk::sync_dir`] of its directory, a file's bytes and length need [`File::sync`].
pub trait Disk: Send + Sync + Debug {
    /// Opens a file. A symbolic link at the last step is refused.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Creates a directory (mode 0700); parents must exist. `AlreadyExists` if it does.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file, creating it; `WouldBlock` if another holder has it. Held until dropped.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Whether what is synced below `dir` outlives a power cut: false on a memory file system.
    fn is_durable(&self, dir: &Path) -> bool;
    /// Whether all that is here goes with the process, synced or not.
    fn is_ephemeral(&self) -> bool {
        false
    }
    /// How many descriptors the process may have, where that is limited: as many as the system lets it ask for.
    fn descriptors(&self) -> Option<usize> {
        None
    }
    /// How batches are done.
    fn batch_io(&self) -> BatchIo {
        BatchIo::OneByOne
    }
}

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub struct WriteOp<'a> {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub bytes: &'a [u8],
}

/// One read of a batch.
#[derive(Debug)]
pub struct ReadOp<'a> {
    /// Where in the file.
    pub offset: u64,
    /// Filled whole.
    pub bytes: &'a mut [u8],
}

#[allow(clippy::len_without_is_empty)] // asking whether a file is empty is never the question
/// An open file. All methods may be called from many threads at once. With direct I/O, addresses, lengths and offsets
/// are multiples of [`base::aligned::IO_ALIGN`].
pub trait File: Send + Sync + Debug {
    /// Fills `bytes` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. Not durable before [`File::sync`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable (fdatasync). After an error nothing is known of what was written.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros, perhaps a hole) to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Does all reads, in any order, many in flight where the disk can ([`Disk::batch_io`]). After an error some of
    /// the others are done and some are not.
    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        ops.iter_mut().try_for_each(|op| self.read_at(op.bytes, op.offset))
    }
    /// Does all writes, as [`File::read_batch`] does reads. The writes of one batch do not overlap.
    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }
    /// Gives a range back to the file system; it reads as zeros afterwards. May do nothing.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Whether reads and writes pass the page cache.
    fn is_direct(&self) -> bool;
    /// For a file that is not always open ([`descriptor_cache`]): what keeps it open as long as the caller has it.
    fn opened(&self) -> io::Result<Option<Arc<dyn File>>> {
        Ok(None)
    }
}

/// The machine beside its files: time, randomness, and how much there is of it.
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since some fixed moment; never goes back.
    fn now_us(&self) -> u64;
    /// Seconds since 1970, for labels only.
    fn unix_seconds(&self) -> u64;
    /// Random bits for database ids and epochs.
    fn random_u64(&self) -> u64;
    /// Memory that the process may use, bytes.
    fn memory_bytes(&self) -> u64 {
        1 << 30
    }
    /// Cores that the process may use.
    fn cores(&self) -> u32 {
        2
    }
}

/// Files, time and randomness, handed to the engine when it opens.
#[derive(Clone, Debug)]
pub struct Vfs {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}
