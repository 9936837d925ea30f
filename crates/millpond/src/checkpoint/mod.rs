//! Checkpoints: the root of the database, and how far redo may be let go.

pub(crate) mod fuzzy;
pub(crate) mod list;
pub(crate) mod root;

use crate::error::Result;
use base::Lsn;

/// A checkpoint's list of unfinished transactions, and where it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hardened {
    /// Its first record.
    pub(crate) first: Lsn,
    /// Its last record.
    pub(crate) last: Lsn,
    /// Whom it names.
    pub(crate) listed: Vec<list::Listed>,
}

/// What the files of undo are there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UndoFiles {
    /// Somebody has something in one of them.
    pub(crate) used: bool,
    /// One of them goes with the next root.
    pub(crate) spare: bool,
    /// An aborted transaction cannot be reverted for want of space, so what it has there stays until others make some.
    pub(crate) waits: bool,
}

/// What a checkpoint asks of the transactions above it.
pub(crate) trait Unfinished: Send + Sync + std::fmt::Debug {
    /// Makes durable, outside the redo that exists now, the undo of all that are unfinished, and logs the list of them for
    /// the root with this sequence number. The list is in the log buffer when it returns.
    fn harden(&self, sequence: u64) -> Result<Hardened>;
    /// What the files are there for that the undo is in.
    fn undo_files(&self) -> UndoFiles;
    /// Hears that this root is durable.
    fn root_is_durable(&self) -> Result;
}
