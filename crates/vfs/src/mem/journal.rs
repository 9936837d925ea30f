//! The journal of a simulated disk: its operations, and what a sync makes durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An operation.
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
    pub(super) fn durable_by(&self, sync: &DiskOp) -> bool {
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
