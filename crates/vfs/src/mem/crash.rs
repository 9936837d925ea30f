//! What a power cut leaves of a simulated disk at any point of its journal.

use super::MemDisk;
use super::content::{DiskContent, is_top};
use super::journal::{DiskOp, JournalEntry};
use base::prng::Prng;
use std::collections::BTreeSet;
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
enum CrashFate {
    None,
    All,
    Random(Prng),
}

impl CrashFate {
    fn new(choice: CrashChoice) -> CrashFate {
        match choice {
            CrashChoice::None => CrashFate::None,
            CrashChoice::All => CrashFate::All,
            CrashChoice::Random(seed) => CrashFate::Random(Prng::new(seed)),
        }
    }

    fn survives(&mut self) -> bool {
        match self {
            CrashFate::None => false,
            CrashFate::All => true,
            CrashFate::Random(rng) => rng.one_in(2),
        }
    }
}

impl DiskContent {
    /// Applies the parts of `op` that survive a crash. A write survives in whole sectors.
    fn apply_surviving(&mut self, op: &DiskOp, sector_bytes: usize, fate: &mut CrashFate) {
        match op {
            DiskOp::Write { inode, offset, bytes } => {
                let mut at = 0;
                while at < bytes.len() {
                    let start = *offset as usize + at;
                    let n = (sector_bytes - start % sector_bytes).min(bytes.len() - at);
                    if fate.survives() {
                        self.inodes[*inode].write(start, &bytes[at..at + n]);
                    }
                    at += n;
                }
            }
            _ if fate.survives() => self.apply(op),
            _ => {}
        }
    }

    /// Removes files and directories whose directory did not survive.
    fn prune(&mut self) {
        let whole = |dirs: &BTreeSet<PathBuf>, path: &Path| {
            path.ancestors().skip(1).all(|up| is_top(up) || dirs.contains(up))
        };
        let dirs = self.dirs.clone();
        self.dirs.retain(|dir| whole(&dirs, dir));
        let dirs = self.dirs.clone();
        self.names.retain(|path, _| whole(&dirs, path));
    }
}

impl MemDisk {
    /// Returns a walker over all operations so far, at the first one.
    #[must_use]
    pub fn walk(&self) -> CrashWalker {
        let inner = self.inner.lock();
        CrashWalker::new(inner.ops.as_slice().into(), inner.base.clone(), inner.sector_bytes)
    }
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
    fn new(ops: Arc<[JournalEntry]>, base: DiskContent, sector_bytes: usize) -> CrashWalker {
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

    /// Moves past the next operation. Returns false at the end of the run.
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
