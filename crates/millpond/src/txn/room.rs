//! Room in the log for redo that takes back or clears away. Who rolls back or purges asks for it before each row or few pages,
//! holding neither a latch nor a tree: who drops the tree waits for whoever holds it.

use crate::error::Result;

/// How whoever takes back or clears away waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For as long as it takes: the background, for which nobody waits.
    Endless,
    /// As a caller's row operation does: not where the checkpoint cannot move, because nobody knows how long a disk stays full.
    Call,
    /// Not at all: what finds no room is left to the background. It may use what is kept for those who finish.
    None,
}

/// Where a row operation that has been let in says what it does next. REQUIRES: no latch held.
pub(crate) trait Door {
    /// It will write so many bytes of redo more: waits its turn for them.
    fn more(&mut self, redo_bytes: usize) -> Result;
    /// It is about to wait for another transaction, which may want in itself: gives up the room that it was let in for.
    fn step_out(&mut self);
    /// It goes on: waits until there is room again. It has paid for its time.
    fn step_in(&mut self) -> Result;
}

/// The door of operations that nobody keeps out.
#[derive(Debug)]
pub(crate) struct Open;

impl Door for Open {
    fn more(&mut self, _: usize) -> Result {
        Ok(())
    }

    fn step_out(&mut self) {}

    fn step_in(&mut self) -> Result {
        Ok(())
    }
}

/// Where redo that takes back or clears away asks for its room.
pub(crate) trait Room: Send + Sync + std::fmt::Debug {
    /// Waits until so many bytes of such redo, about, may be logged. False, of [`Patience::None`] only: not now. REQUIRES: no
    /// latch and no tree held.
    fn for_undoing(&self, redo_bytes: u64, patience: Patience) -> Result<bool>;
}
