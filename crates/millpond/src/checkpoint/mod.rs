//! Checkpoints: the root of the database, and how far the redo log is still needed.

pub(crate) mod directories;
pub(crate) mod dirty_list;
pub(crate) mod fuzzy;
pub(crate) mod list;
pub(crate) mod parts;
pub(crate) mod protection;
pub(crate) mod root;

use crate::error::Result;
use base::Lsn;

/// The list of unfinished transactions of a checkpoint, and where it is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hardened {
    /// The LSN of its first record.
    pub(crate) first: Lsn,
    /// The LSN of its last record.
    pub(crate) last: Lsn,
}

/// What the undo files are needed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UndoFiles {
    /// Some transaction has undo in one of them.
    pub(crate) used: bool,
    /// One of them is removed with the next root.
    pub(crate) spare: bool,
    /// An aborted transaction cannot be reverted because there is no disk space. Its undo stays in
    /// the files until others free some space.
    pub(crate) waits: bool,
}

impl UndoFiles {
    /// Whether there are undo files.
    pub(crate) fn any(&self) -> bool {
        self.used || self.spare
    }
}

/// What a checkpoint asks of the transaction layer above it.
pub(crate) trait Unfinished: Send + Sync + std::fmt::Debug {
    /// Makes the undo of all unfinished transactions durable outside of the redo that exists now,
    /// and logs the list of them for the root with this sequence number. The list is in the log
    /// buffer when it returns.
    fn harden(&self, sequence: u64) -> Result<Hardened>;
    /// Returns what the undo files are needed for.
    fn undo_files(&self) -> UndoFiles;
    /// Called when this root is durable.
    fn root_is_durable(&self) -> Result;
}
