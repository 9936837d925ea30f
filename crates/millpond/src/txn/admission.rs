//! Admission to the log. Two traits: for a row operation that has been admitted and goes on, and
//! for the redo of rollback and purge.
//!
//! Rollback and purge ask for room in the log before each row or few pages. They hold neither a
//! latch nor a tree then: a thread that drops the tree waits for every thread that holds it.

use crate::error::Result;

/// How rollback and purge wait for room in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoWait {
    /// For as long as it takes: background work, for which no caller waits.
    Unlimited,
    /// As a caller's row operation: not while the checkpoint cannot move, because a disk may stay
    /// full for any time.
    AsCaller,
    /// As `Unlimited`, for a rollback that found no pages on a full disk. It leaves purge its room
    /// in the log, and fails where it would need that.
    AsRetry,
    /// Not at all: without room, the work is left to the background. It may use the part of the log
    /// that is kept for transactions that end.
    NoWait,
}

/// Tells admission what an admitted row operation does next. REQUIRES: no latch held.
pub(crate) trait WriteAdmission {
    /// Waits until this many more bytes of redo may be written.
    fn admit_more(&mut self, redo_bytes: usize) -> Result;
    /// Gives back the room that the operation was admitted for, because it waits for another
    /// transaction, which may itself need admission.
    fn leave(&mut self);
    /// Waits until there is room again. The operation has paid for its time already.
    fn enter_again(&mut self) -> Result;
}

/// The admission of operations that are never delayed.
#[derive(Debug)]
pub(crate) struct AlwaysAdmitted;

impl WriteAdmission for AlwaysAdmitted {
    fn admit_more(&mut self, _: usize) -> Result {
        Ok(())
    }

    fn leave(&mut self) {}

    fn enter_again(&mut self) -> Result {
        Ok(())
    }
}

/// Admits the redo of rollback and purge.
pub(crate) trait UndoAdmission: Send + Sync + std::fmt::Debug {
    /// Waits until about this many bytes of such redo may be logged. Returns false only with
    /// [`UndoWait::NoWait`]: not now. REQUIRES: no latch and no tree held.
    fn admit_undo(&self, redo_bytes: u64, wait: UndoWait) -> Result<bool>;
}
