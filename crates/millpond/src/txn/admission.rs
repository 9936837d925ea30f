//! Room in the log for redo that takes back or clears away. Who rolls back or purges asks for it before each row or few pages,
//! holding neither a latch nor a tree: who drops the tree waits for whoever holds it.

use crate::error::Result;

/// How whoever takes back or clears away waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoWait {
    /// For as long as it takes: the background, for which nobody waits.
    Unlimited,
    /// As a caller's row operation does: not where the checkpoint cannot move, because nobody knows how long a disk stays full.
    AsCaller,
    /// Not at all: what finds no room is left to the background. It may use what is kept for those who finish.
    NoWait,
}

/// Where a row operation that has been let in says what it does next. REQUIRES: no latch held.
pub(crate) trait WriteAdmission {
    /// It will write so many bytes of redo more: waits its turn for them.
    fn admit_more(&mut self, redo_bytes: usize) -> Result;
    /// It is about to wait for another transaction, which may want in itself: gives up the room that it was let in for.
    fn leave(&mut self);
    /// It goes on: waits until there is room again. It has paid for its time.
    fn enter_again(&mut self) -> Result;
}

/// The admission of operations that nobody keeps out.
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

/// Where redo that takes back or clears away asks for its room.
pub(crate) trait UndoAdmission: Send + Sync + std::fmt::Debug {
    /// Waits until so many bytes of such redo, about, may be logged. False, of [`UndoWait::NoWait`] only: not now. REQUIRES: no
    /// latch and no tree held.
    fn admit_undo(&self, redo_bytes: u64, wait: UndoWait) -> Result<bool>;
}
