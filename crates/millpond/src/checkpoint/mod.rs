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

/// What a checkpoint asks of the transactions above it.
pub(crate) trait Unfinished: Send + Sync + std::fmt::Debug {
    /// Makes durable, outside the redo that exists now, the undo of all that are unfinished, and logs the list of them for
    /// the root with this sequence number. The list is in the log buffer when it returns.
    fn harden(&self, sequence: u64) -> Result<Hardened>;
    /// Hears that this root is durable.
    fn root_is_durable(&self) -> Result;
}
