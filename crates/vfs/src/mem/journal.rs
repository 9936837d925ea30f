//! The journal of a simulated disk: all operations in order, and the state that a power cut leaves
//! at any point of it.

use super::MemDisk;
use super::content::DiskContent;
use base::prng::Prng;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which operations survive a crash, of those that no sync had made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashChoice {
    /// None.
    None,
    /// All.
    All,
    /// A random subset. Each sector of each write, each entry and each change of length is decided
    /// separately.
    Random(u64),
}

/// Decides for each part of an operation whether it survives.
pub(super) enum CrashFate {
    None,
    All,
    Random(Prng),
}

impl CrashFate {
    pub(super) fn new(choice: CrashChoice) -> CrashFate {
        match choice {
            CrashChoice::None => CrashFate::None,
            CrashChoice::All => CrashFate::All,
            CrashChoice::Random(seed) => CrashFate::Random(Prng::new(seed)),
        }
    }

    pub(super) fn survives(&mut self) -> bool {
        match self {
            CrashFate::None => false,
            CrashFate::All => true,
            CrashFate::Random(rng) => rng.one_in(2),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum DiskOp {
    Write { inode: usize, offset: u64, bytes: Arc<[u8]> },
    SetLen { inode: usize, len: u64 },
    Sync { inode: usize },
    Link { path: PathBuf, inode: usize },
    Rename { from: PathBuf, to: PathBuf, inode: usize },
    Unlink { path: PathBuf },
    MakeDir { path: PathBuf },
    SyncDir { dir: PathBuf },
}

impl DiskOp {
    /// Whether `sync` makes this operation durable.
    fn durable_by(&self, sync: &DiskOp) -> bool {
        let below = |path: &Path, dir: &Path| path.parent() == Some(dir);
        match (self, sync) {
            (DiskOp::Write { inode, .. } | DiskOp::SetLen { inode, .. }, DiskOp::Sync { inode: synced }) => {
                inode == synced
            }
            (
                DiskOp::Link { path, .. } | DiskOp::Unlink { path } | DiskOp::MakeDir { path },
                DiskOp::SyncDir { dir },
            ) => below(path, dir),
            (DiskOp::Rename { to, .. }, DiskOp::SyncDir { dir }) => below(to, dir),
            _ => false,
        }
    }

    /// Returns a hash of the operation.
    pub(super) fn digest(&self) -> u64 {
        let text = |path: &Path| u64::from(base::crc::crc32c(path.as_os_str().as_encoded_bytes()));
        let (kind, a, b) = match self {
            DiskOp::Write { inode, offset, bytes } => {
                (1, *offset << 16 ^ *inode as u64, u64::from(base::crc::crc32c(bytes)))
            }
            DiskOp::SetLen { inode, len } => (2, *inode as u64, *len),
            DiskOp::Sync { inode } => (3, *inode as u64, 0),
            DiskOp::Link { path, inode } => (4, *inode as u64, text(path)),
            DiskOp::Rename { from, to, .. } => (5, text(from), text(to)),
            DiskOp::Unlink { path } => (6, text(path), 0),
            DiskOp::MakeDir { path } => (7, text(path), 0),
            DiskOp::SyncDir { dir } => (8, text(dir), 0),
        };
        (kind << 56) ^ (a << 20) ^ b
    }
}

/// An operation in the journal. A change is entered when it begins, so that it may survive a power
/// cut before it returns. A sync is entered when it ends, so that it makes nothing durable before.
#[derive(Clone, Debug)]
pub(super) struct JournalEntry {
    pub(super) op: DiskOp,
    /// For a change: how many operations there were when it returned. For a sync: how many there
    /// were when it began. A sync covers the changes that had returned when it began.
    pub(super) mark: usize,
}

/// Walks over a run, operation by operation, and builds the disk that a crash would have left.
#[derive(Clone, Debug)]
pub struct CrashWalker {
    ops: Arc<[JournalEntry]>,
    sector_bytes: usize,
    at: usize,
    durable: DiskContent,
    /// The number of changes of `durable` so far.
    durable_version: u64,
    pending: Vec<usize>,
}

impl CrashWalker {
    pub(super) fn new(ops: Arc<[JournalEntry]>, base: DiskContent, sector_bytes: usize) -> CrashWalker {
        CrashWalker { ops, sector_bytes, at: 0, durable: base, durable_version: 0, pending: Vec::new() }
    }

    /// Returns how many operations come before the present point.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// Returns how many operations before this point are not durable.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Moves behind the next operation. Returns false at the end of the run.
    pub fn step(&mut self) -> bool {
        let ops = Arc::clone(&self.ops);
        let Some(JournalEntry { op, mark: began }) = ops.get(self.at) else { return false };
        match op {
            DiskOp::Sync { .. } | DiskOp::SyncDir { .. } => {
                let durable = &mut self.durable;
                let before = self.pending.len();
                self.pending.retain(|n| {
                    let earlier = &ops[*n];
                    let covered = earlier.mark <= *began && earlier.op.durable_by(op);
                    if covered {
                        durable.apply(&earlier.op);
                    }
                    !covered
                });
                if self.pending.len() < before {
                    self.durable_version += 1;
                }
            }
            _ => {
                if let DiskOp::Link { inode, .. } = op
                    && self.durable.inodes.len() <= *inode
                {
                    self.durable.inodes.resize(*inode + 1, Default::default());
                }
                self.pending.push(self.at);
            }
        }
        self.at += 1;
        true
    }

    /// Returns the disk as a power cut at this point would leave it.
    #[must_use]
    pub fn image(&self, choice: CrashChoice) -> MemDisk {
        let mut content = self.durable.clone();
        let mut fate = CrashFate::new(choice);
        for n in &self.pending {
            content.apply_surviving(&self.ops[*n].op, self.sector_bytes, &mut fate);
        }
        content.prune();
        MemDisk::holding(content, self.sector_bytes)
    }

    /// Returns the disk as the next process finds it if this one is killed at this point. Nothing
    /// is lost. Operations that were not durable are still not durable, and are the first ones of
    /// the new journal.
    #[must_use]
    pub fn killed(&self) -> MemDisk {
        let ops: Vec<_> =
            self.pending.iter().map(|n| JournalEntry { op: self.ops[*n].op.clone(), mark: 0 }).collect();
        let mut now = self.durable.clone();
        ops.iter().for_each(|entry| now.apply(&entry.op));
        MemDisk::with_journal(self.durable.clone(), now, ops, self.sector_bytes)
    }

    /// Returns a hash of the image. Two images of one walk with the same key have the same bytes,
    /// but for a collision of the hash.
    #[must_use]
    pub fn image_key(&self, choice: CrashChoice) -> u64 {
        let mut fate = CrashFate::new(choice);
        let mut key = self.durable_version;
        let mut feed = |value: u64| key = (key.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in &self.pending {
            let parts = match &self.ops[*n].op {
                DiskOp::Write { offset, bytes, .. } => {
                    let sector = self.sector_bytes as u64;
                    (offset + bytes.len() as u64).div_ceil(sector) - offset / sector
                }
                _ => 1,
            };
            for part in 0..parts {
                if fate.survives() {
                    feed((*n as u64) << 20 | part);
                }
            }
        }
        key
    }
}
