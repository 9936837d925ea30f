//! [`Rules`]: how a transaction treats the locks and versions of others.

use crate::lock::Wait;
use base::Lsn;

/// How a transaction treats the locks and versions of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A version committed at or above it is a write conflict.
    pub(crate) conflicts_after: Option<Lsn>,
    /// The table is younger than that snapshot: a row without a version is a write conflict too.
    pub(crate) younger: bool,
    /// The change of a version committed at or above it overtakes the transaction's snapshot. `MAX`
    /// if there is no such snapshot.
    pub(crate) overtakes: Lsn,
    /// How long it waits for a lock.
    pub(crate) wait: Wait,
    /// The transaction is serializable: what a change shows it must stay as it is. That is the row
    /// that an insert found, the absence of a row that a delete did not find, and the row before a
    /// change that a savepoint undoes.
    pub(crate) serializable: bool,
}

impl Rules {
    /// Returns the LSN of the snapshot that versions are measured by, `MAX` if there is none. Which
    /// of the commits below it are settled does not matter.
    pub(super) fn sees(self) -> Lsn {
        self.conflicts_after.unwrap_or(self.overtakes)
    }
}
